package jetstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
)

// overMemory are the options of stores on a single server.
var overMemory = jetstream.Options{Storage: natsjs.MemoryStorage}

// same returns the options of another store with the records of s.
func same(s *jetstream.Store) jetstream.Options { return jetstream.Options{Name: s.Name()} }

func newJetStream(t testing.TB, nc *nats.Conn) natsjs.JetStream {
	t.Helper()
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// record returns a record without a TTL.
func record(id string) task.Record {
	now := time.Now().UTC().Truncate(time.Microsecond)
	return task.Record{ID: id, Owner: "o", Status: mcp.TaskStatusWorking, Created: now, Updated: now, Method: "tools/call"}
}

func create(t testing.TB, s task.Store, r task.Record) task.Record {
	t.Helper()
	r, err := s.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func update(t testing.TB, s task.Store, r task.Record) task.Record {
	t.Helper()
	r, err := s.Update(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// outcome holds the results of a call of Wait.
type outcome struct {
	record task.Record
	err    error
}

// wait calls Wait and returns its outcome on a channel, once the call is blocked.
func wait(t testing.TB, s *jetstream.Store, id string, revision uint64) <-chan outcome {
	t.Helper()
	before := jetstream.Waiters(s)
	done := make(chan outcome, 1)
	go func() { // ends with the test
		r, err := s.Wait(t.Context(), id, revision)
		done <- outcome{r, err}
	}()
	natstest.Until(t, "the call blocked", func() bool {
		if len(done) > 0 {
			t.Fatal("the call does not block")
		}
		return jetstream.Waiters(s) != before
	})
	return done
}

// Acknowledged tasks survive the loss of a node, and waiters learn of changes.
func TestStoreSurvivesLossOfLeader(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 3)
	first := open(t, c.JetStream(t), jetstream.Options{Replicas: 3})
	second := open(t, c.JetStream(t), same(first))
	r := create(t, first, record("a"))
	for range 2 {
		waiting := wait(t, second, "a", r.Revision)
		leader := c.Leader(first.Name() + "-0")
		c.Kill(leader)
		r.StatusMessage += "changed "
		r = update(t, first, r)
		if got := natstest.Receive(t, "the waiter returned", waiting); got.err != nil || !cmp.Equal(r, got.record) {
			t.Errorf("woken with %v, %v", got.record, got.err)
		}
		create(t, second, record(fmt.Sprint("after ", r.Revision)))
		c.Restart(leader)
		c.Current(first.Name() + "-0")
	}
	if list, err := second.List(t.Context(), "o", 0, 10); err != nil || len(list) != 3 {
		t.Errorf("%d tasks, %v", len(list), err)
	}
}

// The store recognises its own write if the acknowledgement was lost.
func TestLostAcknowledgement(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	nc, link := c.ConnectLinked(t)
	s := open(t, newJetStream(t, nc), overMemory)
	other := open(t, c.JetStream(t), same(s))
	r := create(t, s, record("a"))
	waiting := wait(t, other, "a", 1)
	done := make(chan outcome, 1)
	link.CutResponses()
	go func() { // ends when the link is healed
		r.StatusMessage = "changed"
		r, err := s.Update(t.Context(), r)
		done <- outcome{r, err}
	}()
	written := natstest.Receive(t, "the write arrived", waiting)
	link.Heal()
	got := natstest.Receive(t, "the update returned", done)
	if got.err != nil || !cmp.Equal(written.record, got.record) || got.record.Revision != 2 {
		t.Errorf("the update returned %+v, %v; stored is %+v", got.record, got.err, written.record)
	}
	if stored, err := other.Get(t.Context(), "a"); err != nil || !cmp.Equal(stored, got.record) {
		t.Errorf("stored is %+v, %v", stored, err)
	}
}

// A writer recognises its write even if others have changed the record since.
func TestLostAcknowledgementBeforeOtherWrites(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	nc, link := c.ConnectLinked(t)
	s := open(t, newJetStream(t, nc), overMemory)
	other := open(t, c.JetStream(t), same(s))
	r := record("a")
	r.Durable = &task.Durable{Version: "v"}
	r = create(t, s, r)
	waiting := wait(t, other, "a", 1)
	done := make(chan outcome, 1)
	link.CutResponses()
	go func() { // ends when the link is healed
		r.Durable = &task.Durable{Version: "v", Recorded: 1, Entries: []task.Entry{{Kind: 1, Key: "k", Occurrence: 1}}}
		r, err := s.Update(t.Context(), r)
		done <- outcome{r, err}
	}()
	latest := natstest.Receive(t, "the write arrived", waiting).record
	for range 3 {
		latest = update(t, other, latest)
	}
	link.Heal()
	got := natstest.Receive(t, "the update returned", done)
	if got.err != nil || got.record.Revision != 2 {
		t.Errorf("the update returned revision %d, %v", got.record.Revision, got.err)
	}
	got.record.StatusMessage = "stale"
	if _, err := s.Update(t.Context(), got.record); !errors.Is(err, task.ErrConflict) {
		t.Errorf("an update of revision 2: %v", err)
	}
	update(t, s, latest)
	if entries, err := s.Journal(t.Context(), "a"); err != nil || len(entries) != 1 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

// A waiter learns of a change that was made while its connection was lost.
func TestWaiterSurvivesReconnect(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	nc, link := c.ConnectLinked(t)
	other := open(t, c.JetStream(t), overMemory)
	s := open(t, newJetStream(t, nc), same(other))
	r := create(t, other, record("a"))
	waiting := wait(t, s, "a", 1)
	link.Cut()
	r = update(t, other, r)
	if len(waiting) > 0 {
		t.Error("the waiter returned while the link was cut")
	}
	link.Heal()
	if got := natstest.Receive(t, "the waiter returned", waiting); got.err != nil || !cmp.Equal(r, got.record) {
		t.Errorf("woken with %+v, %v", got.record, got.err)
	}
}

// A waiter causes no requests for some seconds while its task does not change, and leaves no
// subscription.
func TestWaitDoesNotPoll(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	other := open(t, c.JetStream(t), overMemory)
	nc := c.Connect(t)
	s := open(t, newJetStream(t, nc), same(other))
	a, b := create(t, other, record("a")), create(t, other, record("b"))
	subscriptions := nc.NumSubscriptions()
	waiting := wait(t, s, "a", 1)
	if err := nc.Flush(); err != nil { // the first read
		t.Fatal(err)
	}
	before := nc.Stats().OutMsgs
	for range 50 {
		b = update(t, other, b)
	}
	update(t, other, a)
	if got := natstest.Receive(t, "the waiter returned", waiting); got.err != nil {
		t.Error(got.err)
	}
	if sent := nc.Stats().OutMsgs - before; sent > 2 {
		t.Errorf("the waiter sent %d messages", sent)
	}
	if n := nc.NumSubscriptions(); n != subscriptions {
		t.Errorf("%d subscriptions, before the wait %d", n, subscriptions)
	}
}

// intercept returns JetStream whose API requests pass through the test, which responds to a request
// itself if respond returns a message.
func intercept(t *testing.T, c *natstest.Cluster, respond func(request string) *nats.Msg) natsjs.JetStream {
	t.Helper()
	nc := c.Connect(t)
	_, err := nc.Subscribe("through.>", func(m *nats.Msg) {
		request := strings.TrimPrefix(m.Subject, "through.")
		if response := respond(request); response != nil {
			m.RespondMsg(response)
			return
		}
		nc.PublishMsg(&nats.Msg{Subject: "$JS.API." + request, Reply: m.Reply, Header: m.Header, Data: m.Data})
	})
	if err == nil {
		err = nc.Flush() // the servers know the subscription
	}
	js, err2 := natsjs.NewWithAPIPrefix(c.Connect(t), "through")
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return js
}

// Replicas that lag behind may answer direct gets. A task that was just written is found anyway.
func TestStaleReplica(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	// Every other direct get has the response of a replica without data.
	var direct atomic.Uint32
	s := open(t, intercept(t, c, func(request string) *nats.Msg {
		if strings.HasPrefix(request, "DIRECT.GET.") && direct.Add(1)%2 == 0 {
			return &nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}}
		}
		return nil
	}), overMemory)
	for n := range 10 {
		r := record(fmt.Sprint(n))
		r.Params = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
		r = create(t, s, r)
		if got, err := s.Get(t.Context(), r.ID); err != nil || !reflect.DeepEqual(r, got) {
			t.Fatalf("read a task of %d bytes, %v", len(got.Params), err)
		}
		if list, err := s.List(t.Context(), "o", 0, 100); err != nil || len(list) != n+1 {
			t.Fatalf("listed %d of %d tasks, %v", len(list), n+1, err)
		}
	}
	if direct.Load() < 20 {
		t.Errorf("%d direct gets", direct.Load())
	}
}

// A server that was cut off still acts as leader, and lacks a new task. No call reports that the
// task does not exist.
func TestStaleLeader(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	var stale atomic.Int32 // number of reads that find nothing
	s := open(t, intercept(t, c, func(request string) *nats.Msg {
		if strings.HasPrefix(request, "STREAM.MSG.GET.") && stale.Add(-1) >= 0 {
			return &nats.Msg{Data: []byte(`{"error":{"code":404,"err_code":10037,"description":"no message found"}}`)}
		}
		return nil
	}), overMemory)
	other := open(t, c.JetStream(t), same(s))
	r := create(t, other, record("a"))
	for range 3 {
		stale.Store(2)
		if _, err := s.Get(t.Context(), "a"); err != nil {
			t.Error("get:", err)
		}
		stale.Store(2)
		if _, err := s.Journal(t.Context(), "a"); err != nil {
			t.Error("journal:", err)
		}
		r = update(t, other, r) // s reads the task again
		stale.Store(2)
		r = update(t, s, r)
		if n := stale.Load(); n >= 0 {
			t.Errorf("%d reads were left", n)
		}
	}
	if _, err := s.Get(t.Context(), "b"); !errors.Is(err, task.ErrNotFound) {
		t.Error(err)
	}
}

// A member does not read an earlier record of a task than the one that was announced to it or that
// it has written, although a server that was cut off returns one.
func TestStaleLeaderAfterChange(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	var old atomic.Pointer[nats.Msg]
	var stale atomic.Int32 // number of reads that return old
	s := open(t, intercept(t, c, func(request string) *nats.Msg {
		if strings.HasPrefix(request, "STREAM.MSG.GET.") && stale.Add(-1) >= 0 {
			return &nats.Msg{Data: old.Load().Data}
		}
		return nil
	}), overMemory)
	other := open(t, c.JetStream(t), same(s))
	m, _ := join(t, s, "a", time.Minute)
	r := create(t, other, record("a"))
	response, err := c.Connect(t).RequestWithContext(t.Context(), "$JS.API.STREAM.MSG.GET."+s.Name()+"-0", []byte(`{"last_by_subj":"`+s.Name()+`.0.r.a"}`))
	if err != nil {
		t.Fatal(err)
	}
	old.Store(response)
	changed := make(chan struct{}, 100)
	defer m.Follow("a", fleets.Follower{Changed: func() { changed <- struct{}{} }})()
	for _, by := range []*jetstream.Store{other, s} {
		r = update(t, by, r)
		if by == other {
			natstest.Receive(t, "the change was announced", changed)
		}
		stale.Store(2)
		if got, err := s.Get(t.Context(), "a"); err != nil || got.Revision != r.Revision {
			t.Errorf("read revision %d, %v", got.Revision, err)
		}
		if n := stale.Load(); n >= 0 {
			t.Errorf("%d reads were left", n)
		}
	}
}

// Concurrent calls about a task that does not exist all say so, although the servers accept the
// messages that confirm it one after the other.
func TestConcurrentReadsOfUnknownTask(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 3)
	s := open(t, c.JetStream(t), jetstream.Options{Replicas: 3, Storage: natsjs.MemoryStorage})
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if _, err := s.Get(t.Context(), "unknown"); !errors.Is(err, task.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// A server that was cut off still acts as leader, and lacks a new member. Alive does not report
// that the member is dead.
func TestStaleLeaderOfMembers(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	var stale atomic.Int32 // number of reads of members that find nothing
	s := open(t, intercept(t, c, func(request string) *nats.Msg {
		if strings.HasPrefix(request, "STREAM.MSG.GET.") && strings.HasSuffix(request, "-members") && stale.Add(-1) >= 0 {
			return &nats.Msg{Data: []byte(`{"error":{"code":404,"err_code":10037,"description":"no message found"}}`)}
		}
		return nil
	}), overMemory)
	a, _ := join(t, s, "a", time.Minute)
	other := open(t, c.JetStream(t), same(s))
	b, _ := join(t, other, "b", time.Minute)
	stale.Store(2)
	if alive, err := a.Alive(t.Context(), b.Self().ID); !alive || err != nil {
		t.Errorf("alive: %t, %v", alive, err)
	}
	if n := stale.Load(); n >= 0 {
		t.Errorf("%d reads were left", n)
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{b.Self().ID, "never"} {
		for range 3 { // the last message of the member expires meanwhile
			if alive, err := a.Alive(t.Context(), id); alive || err != nil {
				t.Errorf("alive: %t, %v", alive, err)
			}
		}
	}
	for _, err := range a.Orphans(t.Context()) {
		t.Error(err)
	}
}

// Payloads and entries that exceed the maximum message of the servers are stored in parts. Readers
// never see a mixture of old and new parts.
func TestLargePayloads(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1, func(o *server.Options) { o.MaxPayload = 8192 })
	first := open(t, c.JetStream(t), overMemory)
	second := open(t, c.JetStream(t), same(first))
	large := func(n int) json.RawMessage { return fmt.Appendf(nil, `{"n":%d,"text":"%0*d"}`, n, 100_000, n) }
	r := record("a")
	r.Params, r.Result = large(-1), large(0)
	r.Durable = &task.Durable{Version: "v"}
	r = create(t, first, r)
	var want []task.Entry
	var group sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		group.Go(func() {
			for {
				got, err := second.Get(t.Context(), "a")
				var result struct{ N int }
				if err == nil {
					err = json.Unmarshal(got.Result, &result)
				}
				if err == nil && (string(got.Result) != string(large(result.N)) || string(got.Params) != string(large(-1))) {
					err = errors.New("mixed parts")
				}
				if entries, err := second.Journal(t.Context(), "a"); err != nil || len(entries) < got.Durable.Recorded {
					t.Errorf("%d entries, then %d, %v", got.Durable.Recorded, len(entries), err)
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for n := range 10 {
		added := []task.Entry{{Kind: 1, Key: fmt.Sprint(n), Occurrence: 1, Result: large(n)}}
		want = append(want, added...)
		r.Result = large(n / 2)
		r.Durable = &task.Durable{Version: "v", Recorded: n + 1, Entries: added}
		r = update(t, first, r)
	}
	close(stop)
	group.Wait()
	if got, err := second.Get(t.Context(), "a"); err != nil || !reflect.DeepEqual(r, got) {
		t.Errorf("read %v", err)
	}
	if got, err := second.Journal(t.Context(), "a"); err != nil || !reflect.DeepEqual(want, got) {
		t.Errorf("journal of %d entries, %v", len(got), err)
	}
	// The parts are removed with their record.
	r.Params, r.Result, r.Durable = nil, nil, nil
	update(t, first, r)
	if n := parts(t, c, first); n != 0 {
		t.Errorf("%d parts remain", n)
	}
	r.ID, r.Params = "too large", make(json.RawMessage, 20_000_000)
	if _, err := first.Create(t.Context(), r); !tooLarge(err) {
		t.Errorf("a task of 20 MB: %v", err)
	}
	if list, err := first.List(t.Context(), "o", 0, 10); err != nil || len(list) != 1 {
		t.Errorf("%d tasks, %v", len(list), err)
	}
}

// parts returns the number of parts that are not empty.
func parts(t *testing.T, c *natstest.Cluster, s *jetstream.Store) (n int) {
	t.Helper()
	js := c.JetStream(t)
	stream, err := js.Stream(t.Context(), s.Name()+"-0")
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), natsjs.WithSubjectFilter(s.Name()+".0.p.>"))
	if err != nil {
		t.Fatal(err)
	}
	for subject := range info.State.Subjects {
		m, err := stream.GetLastMsgForSubject(t.Context(), subject)
		if err == nil && len(m.Data) > 0 {
			n++
		}
	}
	return n
}

// A full stream is reported, and sweeping makes room.
func TestFullStream(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	s := open(t, c.JetStream(t), jetstream.Options{Storage: natsjs.MemoryStorage, MaxBytes: 100_000})
	r := record("")
	r.TTL, r.Params = time.Minute, make(json.RawMessage, 10_000)
	var err error
	created := 0
	for err == nil {
		created++
		r.ID = fmt.Sprint(created)
		_, err = s.Create(t.Context(), r)
	}
	if !errors.Is(err, jetstream.ErrFull) || !errors.Is(s.Health(), jetstream.ErrFull) {
		t.Fatalf("after %d tasks: %v, health %v", created, err, s.Health())
	}
	if list, err := s.List(t.Context(), "o", 0, 100); err != nil || len(list) != created-1 {
		t.Errorf("%d of %d tasks, %v", len(list), created-1, err)
	}
	js := c.JetStream(t)
	for size, n := 10_000, 0; size > 0; n++ { // until not even a message without data fits
		if _, err := js.Publish(t.Context(), fmt.Sprintf("%s.0.p.x.y.%d", s.Name(), n), make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if _, err := s.Get(t.Context(), "unknown"); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("an unknown task: %v", err)
	}
	if dropped, _, err := s.Sweep(t.Context(), r.Expires(), 100); err != nil || len(dropped) != created-1 {
		t.Errorf("swept %d of %d, %v", len(dropped), created-1, err)
	}
	create(t, s, r)
	if err := s.Health(); err != nil {
		t.Error(err)
	}
}

// A failure to reach the servers does not wrap an error of a context, so work outlasts it.
func TestUnavailableIsNoEndOfContext(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	nc, link := c.ConnectLinked(t)
	s := open(t, newJetStream(t, nc), overMemory)
	s.SetTimeout(time.Second)
	link.Cut()
	if _, err := s.Create(t.Context(), record("a")); !errors.Is(err, jetstream.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// A failed creation says whether its write may still arrive: only once the record was sent.
func TestFailedCreationMayBeDoubtful(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	nc, link := c.ConnectLinked(t)
	js := newJetStream(t, nc)
	s := open(t, js, overMemory)
	s.SetTimeout(300 * time.Millisecond)
	if err := js.DeleteStream(t.Context(), s.Name()+"-0"); err != nil { // nothing responds to the write
		t.Fatal(err)
	}
	ended := record("a") // its creation writes to this stream only once
	ended.Status = mcp.TaskStatusCompleted
	if _, err := s.Create(t.Context(), ended); !errors.Is(err, task.ErrDoubtful) {
		t.Errorf("got %v", err)
	}
	link.Cut()
	if _, err := s.Create(t.Context(), record("b")); !errors.Is(err, jetstream.ErrUnavailable) || errors.Is(err, task.ErrDoubtful) {
		t.Errorf("got %v", err)
	}
}

func TestHealthReportsLostConnection(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	nc, link := c.ConnectLinked(t)
	status := nc.StatusChanged(nats.RECONNECTING, nats.CONNECTED)
	s := open(t, newJetStream(t, nc), overMemory)
	other := open(t, newJetStream(t, nc), same(s))
	other.SetTimeout(time.Millisecond)
	create(t, s, record("a"))
	if err := s.Health(); err != nil {
		t.Error(err)
	}
	link.Cut()
	natstest.Receive(t, "the connection was lost", status)
	if err := s.Health(); err == nil {
		t.Error("health without a connection")
	}
	if _, err := other.Create(t.Context(), record("b")); !errors.Is(err, jetstream.ErrUnavailable) || other.Health() == nil {
		t.Errorf("create without a connection: %v", err)
	}
	link.Heal()
	for natstest.Receive(t, "the connection was back", status) != nats.CONNECTED {
	}
	create(t, s, record("c"))
	if err := s.Health(); err != nil {
		t.Errorf("after the connection is back: %v", err)
	}
}

func TestOpenChecksSchema(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	js := c.JetStream(t)
	s := open(t, js, overMemory)
	create(t, s, record("a"))
	edit := func(f func(*natsjs.StreamConfig)) {
		t.Helper()
		stream, err := js.Stream(t.Context(), s.Name()+"-0")
		if err == nil {
			config := stream.CachedInfo().Config
			f(&config)
			_, err = js.UpdateStream(t.Context(), config)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const key = "mcpwire_schema"
	edit(func(c *natsjs.StreamConfig) { c.Metadata[key] = "99" })
	if _, err := jetstream.Open(t.Context(), js, same(s)); !errors.Is(err, jetstream.ErrSchema) {
		t.Errorf("newer schema: %v", err)
	}
	edit(func(c *natsjs.StreamConfig) { delete(c.Metadata, key) })
	if _, err := jetstream.Open(t.Context(), js, same(s)); !errors.Is(err, jetstream.ErrSchema) {
		t.Errorf("no schema: %v", err)
	}
	// An older version, and settings that the store needs.
	edit(func(c *natsjs.StreamConfig) { c.Metadata[key], c.AllowAtomicPublish, c.RePublish = "0", false, nil })
	again := open(t, js, same(s))
	if _, err := again.Get(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	stream, err := js.Stream(t.Context(), s.Name()+"-0")
	if err != nil {
		t.Fatal(err)
	}
	if config := stream.CachedInfo().Config; config.Metadata[key] != "2" || !config.AllowAtomicPublish || config.RePublish == nil {
		t.Errorf("upgraded to %+v", config)
	}
}

// A store of version 1 of the schema is upgraded once none of its members is alive. Its unfinished
// tasks are found then.
func TestUpgradeBuildsIndexOfHolders(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	js := c.JetStream(t)
	s := open(t, js, jetstream.Options{Storage: natsjs.MemoryStorage, Partitions: 2})
	var want []string
	for i := range 20 {
		r := record(fmt.Sprint("task ", i))
		if i%2 == 0 {
			r.Claim = task.Claim{Member: fmt.Sprint("OLD", i%4), Epoch: 1}
		}
		if i%5 == 0 {
			r.Status = mcp.TaskStatusCompleted
		} else {
			want = append(want, r.ID)
		}
		create(t, s, r)
		if err := s.Downgrade(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	old := func(name string, subjects ...string) {
		t.Helper()
		stream, err := js.Stream(t.Context(), name)
		if err == nil {
			err = stream.Purge(t.Context(), natsjs.WithPurgeSubject(s.Name()+".*.h.>"))
		}
		if err == nil {
			config := stream.CachedInfo().Config
			config.Metadata["mcpwire_schema"] = "1"
			delete(config.Metadata, "mcpwire_holders")
			if len(subjects) > 0 {
				config.Subjects = subjects
			}
			_, err = js.UpdateStream(t.Context(), config)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []string{"0", "1"} {
		prefix := s.Name() + "." + n
		old(s.Name()+"-"+n, prefix+".r.*", prefix+".p.*.*.*")
		old(s.Name() + "-" + n + "-index")
	}
	members := s.Name() + ".members."
	old(s.Name()+"-members", members+"m.*")
	if _, err := js.Publish(t.Context(), members+"m.OLD", []byte(`{"name":"old one"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := jetstream.Open(t.Context(), js, same(s)); !errors.Is(err, jetstream.ErrSchema) || !strings.Contains(err.Error(), "old one") {
		t.Errorf("upgrade while an older member is alive: %v", err)
	}
	if _, err := js.Publish(t.Context(), members+"m.OLD", nil); err != nil { // it has left
		t.Fatal(err)
	}
	upgraded := open(t, js, same(s))
	if _, err := js.Publish(t.Context(), members+"m.OLD2", []byte(`{}`)); err == nil {
		t.Error("an older member can join after the upgrade")
	}
	m, _ := join(t, upgraded, "a", time.Minute)
	orphans := func() (ids []string) {
		t.Helper()
		for r, err := range m.Orphans(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if got := orphans(); !slices.Equal(got, want) {
		t.Errorf("orphans are %v, want %v", got, want)
	}
	for i, id := range want {
		r, err := upgraded.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		r.Claim = task.Claim{Member: m.Self().ID, Epoch: 2}
		if r = update(t, upgraded, r); i%2 == 0 {
			r.Status = mcp.TaskStatusCompleted
			update(t, upgraded, r)
		}
	}
	for range 3 {
		if got := orphans(); len(got) > 0 {
			t.Errorf("orphans are %v after they were claimed", got)
		}
	}
	again := open(t, js, same(s)) // which upgrades nothing
	if n := jetstream.Entries(t, again); n != len(want)/2 {
		t.Errorf("%d entries in the index", n)
	}
}

// The error of Open names the likely cause if no server answers for JetStream.
func TestOpenWithoutJetStream(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1, func(o *server.Options) { o.JetStream = false })
	o := overMemory
	o.Timeout = time.Millisecond
	_, err := jetstream.Open(t.Context(), newJetStream(t, c.Connect(t)), o)
	if !errors.Is(err, jetstream.ErrUnavailable) || !strings.Contains(err.Error(), "is JetStream enabled") {
		t.Errorf("got %v", err)
	}
}

func TestOpenChecksOptions(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	js := c.JetStream(t)
	for _, o := range []jetstream.Options{
		{Name: "a.b"}, {Name: "a b"}, {Replicas: -1}, {Replicas: 6}, {Partitions: -1}, {MaxBytes: -1}, {Timeout: -1},
	} {
		if _, err := jetstream.Open(t.Context(), js, o); err == nil {
			t.Errorf("%+v: opened", o)
		}
	}
	// The existing streams decide the number of partitions, and keep their values of unset options.
	s := open(t, js, jetstream.Options{Storage: natsjs.MemoryStorage, Partitions: 3, MaxBytes: 1 << 20})
	for n := range 20 {
		create(t, s, record(fmt.Sprint(n)))
	}
	again := open(t, js, jetstream.Options{Name: s.Name(), Partitions: 5})
	for n := range 20 {
		if _, err := again.Get(t.Context(), fmt.Sprint(n)); err != nil {
			t.Error(err)
		}
	}
	stream, err := js.Stream(t.Context(), s.Name()+"-2")
	if err != nil || stream.CachedInfo().Config.MaxBytes != 1<<20 {
		t.Errorf("stream of the last partition: %v", err)
	}
}

// Entries of indexes without a task, which a crash may leave, are neither listed nor swept, and do
// not make a Sweep report that it must be repeated.
func TestOrphansAreSkipped(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	js := c.JetStream(t)
	s := open(t, js, overMemory)
	r := record("a")
	r.TTL = time.Hour
	create(t, s, r)
	stream, err := js.Stream(t.Context(), s.Name()+"-0-index")
	if err != nil {
		t.Fatal(err)
	}
	for seq := range uint64(2) { // copies the entries of the task as those of others
		m, err := stream.GetMsg(t.Context(), seq+1)
		if err == nil {
			_, err = js.Publish(t.Context(), m.Subject, []byte(strings.Replace(string(m.Data), "a", "b", 1)))
		}
		if err == nil {
			_, err = js.Publish(t.Context(), m.Subject, m.Data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if list, err := s.List(t.Context(), "o", 0, 10); err != nil || len(list) != 1 || list[0].ID != "a" {
		t.Errorf("listed %v, %v", list, err)
	}
	dropped, next, err := s.Sweep(t.Context(), r.Expires(), 10)
	if err != nil || len(dropped) != 1 || !next.IsZero() {
		t.Errorf("swept %v, next %v, %v", dropped, next, err)
	}
	if dropped, next, err = s.Sweep(t.Context(), r.Expires(), 10); err != nil || len(dropped) != 0 || !next.IsZero() {
		t.Errorf("swept again: %v, next %v, %v", dropped, next, err)
	}
}

// A Sweep of many tasks that expire within a second reads no more of them than it drops, and goes
// on behind entries without a task.
func TestSweepReadsPortions(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	js := c.JetStream(t)
	s := open(t, js, overMemory)
	s.SetSweepPortion(10)
	start := time.Now().UTC().Truncate(time.Second)
	create := func(n int) {
		t.Helper()
		r := record(fmt.Sprint(n))
		r.TTL, r.Created = time.Hour, start.Add(time.Duration(100-n)*time.Microsecond)
		create(t, s, r)
	}
	create(0)
	stream, err := js.Stream(t.Context(), s.Name()+"-0-index")
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context(), natsjs.WithSubjectFilter(s.Name()+".0.d.>"))
	if err != nil {
		t.Fatal(err)
	}
	for subject := range info.State.Subjects {
		for range 15 { // entries without a task
			if _, err := js.Publish(t.Context(), subject, []byte("\x00orphan")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := 1; n <= 100; n++ {
		create(n)
	}
	// While not all have expired, the order is exact.
	now := start.Add(time.Hour + 20*time.Microsecond)
	dropped, next, err := s.Sweep(t.Context(), now, 5)
	if err != nil || len(dropped) != 5 || dropped[0].ID != "100" || dropped[4].ID != "96" || !next.Equal(start.Add(time.Hour+5*time.Microsecond)) {
		t.Errorf("dropped %d, next %v, %v", len(dropped), next, err)
	}
	now = start.Add(time.Hour + time.Second)
	for _, want := range []int{5, 30, 40, 21} {
		if dropped, _, err = s.Sweep(t.Context(), now, want); err != nil || len(dropped) != want {
			t.Errorf("dropped %d, want %d, %v", len(dropped), want, err)
		}
	}
	if dropped, next, err = s.Sweep(t.Context(), now, 100); err != nil || len(dropped) > 0 || !next.IsZero() {
		t.Errorf("dropped %d more, next %v, %v", len(dropped), next, err)
	}
}

func TestObserve(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	o := overMemory
	var mu sync.Mutex
	got := map[string]int{}
	o.Observe = func(operation string, took time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		if took < 0 || (err != nil) != (operation == "get") {
			t.Errorf("%s: %v, %v", operation, took, err)
		}
		got[operation]++
	}
	s := open(t, c.JetStream(t), o)
	r := create(t, s, record("a"))
	update(t, s, r)
	s.Get(t.Context(), "b")
	s.Journal(t.Context(), "a")
	s.List(t.Context(), "o", 0, 1)
	s.Sweep(t.Context(), time.Now(), 1)
	want := map[string]int{"create": 1, "update": 1, "get": 1, "journal": 1, "list": 1, "sweep": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A connection that may be closed after an outage is refused.
func TestConnectionMustReconnect(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	for name, option := range map[string]nats.Option{
		"default": func(*nats.Options) error { return nil }, "few attempts": nats.MaxReconnects(5), "none": nats.NoReconnect(),
	} {
		nc, err := nats.Connect("nats://node-0:4222", nats.SetCustomDialer(c), nats.SkipHostLookup(), option)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if s, err := jetstream.Open(t.Context(), newJetStream(t, nc), jetstream.Options{}); err == nil || !strings.Contains(err.Error(), "nats.MaxReconnects(-1)") {
			t.Errorf("%s: opened %v, %v", name, s, err)
		}
	}
}

// A full stream refuses new tasks, lets the tasks that exist end, and accepts new tasks again after
// some have been dropped. The health recovers without a call.
func TestFullStreamShedsLoad(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	s := open(t, c.JetStream(t), jetstream.Options{Storage: natsjs.MemoryStorage, MaxBytes: 2 << 20})
	m, err := task.New(t.Context(), task.Options{Store: s, Limits: task.Limits{Bytes: -1}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	result := &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: strings.Repeat("x", 50_000)}}}
	start := func(principal string, ttl time.Duration, work task.Work) (mcp.Task, error) {
		return m.Create(t.Context(), task.Request{
			Principal: principal, Method: mcp.MethodToolsCall, Work: work, Task: &mcp.TaskMetadata{TTL: new(ttl.Milliseconds())},
		})
	}
	release := make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	defer end()
	waiting, err := start("alice", time.Hour, func(context.Context, *task.Run) (codec.Encoder, error) {
		<-release
		return result, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const ttl = time.Hour
	filled := 0
	for ; err == nil && filled < 100; filled++ {
		var created mcp.Task
		if created, err = start("mallory", ttl, func(context.Context, *task.Run) (codec.Encoder, error) { return result, nil }); err == nil {
			if _, err := m.Result(t.Context(), "mallory", created.TaskID, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !errors.Is(err, jetstream.ErrFull) {
		t.Fatalf("after %d tasks: %v", filled, err)
	}
	if _, err := start("alice", ttl, func(context.Context, *task.Run) (codec.Encoder, error) { return result, nil }); !errors.Is(err, jetstream.ErrFull) {
		t.Errorf("another principal: %v", err)
	} else if wire := task.WireError(err); !strings.Contains(string(wire.Data), "retryAfter") || strings.Contains(wire.Message, "stream") {
		t.Errorf("another principal gets %v %s", wire, wire.Data)
	}
	end()
	if out, err := m.Result(t.Context(), "alice", waiting.TaskID, nil); err != nil || out.Error != nil {
		t.Errorf("a task that existed: %v, %v", out.Error, err)
	}
	natstest.Until(t, "there is room for new tasks", func() bool {
		if _, _, err := s.Sweep(t.Context(), time.Now().Add(2*ttl), 100); err != nil {
			t.Error(err)
		}
		_, err := start("alice", ttl, func(context.Context, *task.Run) (codec.Encoder, error) { return result, nil })
		return err == nil
	})
	natstest.Until(t, "the health recovers", func() bool { return s.Health() == nil })
}

// The health recovers without a call: a process that receives no calls because of it would never
// recover otherwise.
func TestHealthRecoversWithoutCalls(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	nc, link := c.ConnectLinked(t)
	s := open(t, newJetStream(t, nc), overMemory)
	s.SetTimeout(time.Millisecond)
	link.Cut()
	if _, err := s.Create(t.Context(), record("a")); !errors.Is(err, jetstream.ErrUnavailable) {
		t.Fatal(err)
	}
	link.Heal()
	natstest.Until(t, "the health recovers", func() bool { return s.Health() == nil })
}

// What is too large for the store fails at once: a task, the result of a task, and a step, whose
// work goes on. Nothing is repeated.
func TestTooLargeForStore(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1, func(o *server.Options) { o.MaxPayload = 8192 })
	s := open(t, c.JetStream(t), overMemory)
	m, err := task.New(t.Context(), task.Options{
		Store: s, Limits: task.Limits{Journal: -1, Bytes: -1}, Logger: slog.New(slog.DiscardHandler), Recovery: task.Recovery{Recover: func(task.Record) task.Work { return nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	large := json.RawMessage(`"` + strings.Repeat("x", 5<<20) + `"`)
	start := func(params json.RawMessage, work task.Work) (mcp.Task, error) {
		return m.Create(t.Context(), task.Request{Principal: "alice", Method: mcp.MethodToolsCall, Restartable: true, Params: params, Work: work})
	}
	work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		if err := run.Record(ctx, task.Entry{Key: "large", Occurrence: 1, Result: large}); !tooLarge(err) {
			t.Errorf("a large step: %v", err)
		}
		if err := run.Record(ctx, task.Entry{Key: "small", Occurrence: 1, Result: json.RawMessage(`1`)}); err != nil {
			t.Errorf("a small step: %v", err)
		}
		return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: string(large)}}}, nil
	}
	if _, err := start(large, work); !tooLarge(err) {
		t.Errorf("a large task: %v", err)
	}
	created, err := start(nil, work)
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.Result(t.Context(), "alice", created.TaskID, nil)
	if err != nil || out.Error == nil || out.Error.Code != task.CodeTooManyBytes {
		t.Errorf("a large result: %+v, %v", out, err)
	}
	if err := m.Health(); err != nil {
		t.Error(err)
	}
}

// tooLarge reports whether err says that a record is too large.
func tooLarge(err error) bool {
	limit, ok := errors.AsType[*task.LimitError](err)
	return ok && limit.Code == task.CodeTooManyBytes && limit.Limit > 0
}
