package jetstream_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
)

// Each kind of write either happens or fails with ErrFull and changes nothing, however little room
// a stream has left. Once there is room, the same write succeeds.
func TestEachWriteToFullStream(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			t.Parallel()
			testFullStream(t, natstest.Run(t, nodes), jetstream.Options{Storage: natsjs.MemoryStorage, Replicas: nodes})
		})
	}
}

// fullStream tests the writes of tasks with a given room in the stream of their records, or of their
// indexes.
func testFullStream(t *testing.T, c *natstest.Cluster, options jetstream.Options) {
	js := c.JetStream(t)
	s := open(t, js, options)
	limit := func(stream string, room int64) {
		t.Helper()
		info, err := js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		config := info.CachedInfo().Config
		if config.MaxBytes = -1; room >= 0 {
			config.MaxBytes = int64(info.CachedInfo().State.Bytes) + room
		}
		if _, err := js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	refused := map[string]int{}
	// repeat calls f with little room, and again without a limit if it has failed.
	repeat := func(name, stream string, room int64, h *history, f func() error) {
		t.Helper()
		limit(stream, room)
		err := f()
		if err != nil {
			refused[name]++
			if !errors.Is(err, jetstream.ErrFull) {
				t.Errorf("%s with %d bytes left: %v", name, room, err)
			}
			if name != "create" {
				h.check()
			} else if _, err := s.Get(t.Context(), h.r.ID); !errors.Is(err, task.ErrNotFound) {
				t.Errorf("the task that was refused: %v", err)
			}
		}
		limit(stream, -1)
		if err != nil {
			err := f()
			for errors.Is(err, jetstream.ErrFull) { // the store looks for room at most every 100 ms
				time.Sleep(10 * time.Millisecond)
				err = f()
			}
			if err != nil {
				t.Fatalf("%s after its refusal with %d bytes left: %v", name, room, err)
			}
		}
		h.check()
	}
	var histories []*history
	for _, room := range []int64{0, 150, 600, 3000, 20_000, 45_000} {
		for _, stream := range []string{s.Name() + "-0", s.Name() + "-0-index"} {
			h := &history{t: t, s: s}
			repeat("create", stream, room, h, h.create)
			histories = append(histories, h)
		}
		for i := range writes {
			h := newHistory(t, s, i)
			repeat(writes[i].name, s.Name()+"-0", room, h, func() error { return h.try(i) })
			histories = append(histories, h)
		}
	}
	for _, write := range append(writes, kind{name: "create"}) {
		if refused[write.name] == 0 {
			t.Errorf("%s was never refused", write.name)
		}
	}
	for _, h := range histories {
		h.check()
	}
	dropped, _, err := s.Sweep(t.Context(), time.Now().Add(2*time.Hour), 10_000)
	if err != nil || len(dropped) != len(histories) {
		t.Errorf("%d of %d tasks were dropped, %v", len(dropped), len(histories), err)
	}
	if _, err := s.RemoveAllOrphans(context.Background()); err != nil {
		t.Error(err)
	}
	if n := parts(t, c, s); n > 0 {
		t.Errorf("%d parts are left", n)
	}
}

// Each kind of write either happens or fails and changes nothing, if the size of a message is
// limited.
func TestEachWriteWithLimitOfMessages(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1, func(o *server.Options) { o.MaxPayload = 8192 })
	s := open(t, c.JetStream(t), overMemory)
	for i := range writes {
		h := newHistory(t, s, i)
		h.write(i)
		h.check()
	}
}

// kind is a kind of write.
type kind struct {
	name  string
	write func(r *task.Record)
}

// writes are those of a task after its creation, in an order in which they may follow.
var writes = []kind{
	{"claim", func(r *task.Record) { r.Claim = task.Claim{Member: "A", Epoch: 1} }},
	{"small entry", func(r *task.Record) { addEntry(r, 10) }},
	{"large entry", func(r *task.Record) { addEntry(r, 30_000) }},
	{"input request", func(r *task.Record) {
		r.InputRequests = []task.InputRequest{{Number: 1, Method: "elicitation/create", Key: "k", Occurrence: 1, Params: text(100)}}
	}},
	{"large answer", func(r *task.Record) {
		q := r.InputRequests[0]
		q.Result = text(50_000)
		r.InputRequests = []task.InputRequest{q}
	}},
	{"entry of the answer", func(r *task.Record) {
		r.InputRequests = nil
		addEntry(r, 50_000)
	}},
	{"other claim", func(r *task.Record) { r.Claim = task.Claim{Member: "B", Epoch: 2} }},
	{"large result", func(r *task.Record) {
		d := *r.Durable
		d.Recorded, d.RecordedBytes = 0, 0
		r.Status, r.Params, r.Durable, r.Result = mcp.TaskStatusCompleted, nil, &d, text(100_000)
	}},
}

func text(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n) + `"`) }

func addEntry(r *task.Record, n int) {
	d := *r.Durable
	d.Recorded++
	d.RecordedBytes += int64(n)
	d.Entries = []task.Entry{{Key: fmt.Sprint(d.Recorded), Occurrence: 1, Result: text(n)}}
	r.Durable = &d
}

// history is a task to which writes are applied.
type history struct {
	t       *testing.T
	s       *jetstream.Store
	r       task.Record
	entries []task.Entry
}

// newHistory creates a task with large params and applies the first n writes.
func newHistory(t *testing.T, s *jetstream.Store, n int) *history {
	t.Helper()
	h := &history{t: t, s: s}
	if err := h.create(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		h.write(i)
	}
	return h
}

func (h *history) create() error {
	r := record(rand.Text())
	r.TTL, r.Params, r.Restartable, r.Durable = time.Hour, text(40_000), true, &task.Durable{}
	created, err := h.s.Create(h.t.Context(), r)
	if h.r = created; err != nil {
		h.r = r
	}
	return err
}

// try applies a write once.
func (h *history) try(i int) error {
	next := h.r
	writes[i].write(&next)
	added := next.Durable.Entries
	updated, err := h.s.Update(h.t.Context(), next)
	if err == nil {
		h.r, h.entries = updated, append(h.entries[:len(h.entries):len(h.entries)], added...)
		h.entries = h.entries[:updated.Durable.Recorded]
	}
	return err
}

func (h *history) write(i int) {
	h.t.Helper()
	if err := h.try(i); err != nil {
		h.t.Fatalf("%s: %v", writes[i].name, err)
	}
}

// check compares the task with what the store has.
func (h *history) check() {
	h.t.Helper()
	got, err := h.s.Get(h.t.Context(), h.r.ID)
	entries, err2 := h.s.Journal(h.t.Context(), h.r.ID)
	if err = errors.Join(err, err2); err != nil {
		h.t.Fatal(err)
	}
	if !reflect.DeepEqual(got, h.r) {
		h.t.Errorf("the store has %+v, want %+v", got, h.r)
	}
	if len(entries) != len(h.entries) || len(entries) > 0 && !reflect.DeepEqual(entries, h.entries) {
		h.t.Errorf("the store has %d entries, want %d", len(entries), len(h.entries))
	}
}
