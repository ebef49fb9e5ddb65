package jetstreamstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/jetstreamstore"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/streamabletest"
)

func open(t *testing.T, js jetstream.JetStream, o jetstreamstore.Options) *jetstreamstore.Store {
	t.Helper()
	o.Timeout = 30 * time.Second // for a busy machine
	o.Logger = slog.New(slog.DiscardHandler)
	s, err := jetstreamstore.Open(t.Context(), js, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			if nodes > 1 && testing.Short() {
				t.Skip("takes seconds")
			}
			js := natstest.Run(t, nodes).JetStream(t)
			names := 0
			next := func() string {
				names++
				return fmt.Sprint("s", names)
			}
			streamabletest.Run(t, func(t *testing.T, sessionBytes int) streamable.EventStore {
				return open(t, js, jetstreamstore.Options{Name: next(), Replicas: nodes, MaxSessionBytes: sessionBytes})
			})
			name := next()
			streamabletest.RunSessions(t, func(t *testing.T) streamable.SessionStore {
				return open(t, js, jetstreamstore.Options{Name: name, Replicas: nodes})
			})
		})
	}
}

// text returns a text of n bytes that differs from other texts.
func text(n, size int) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%08d", n)), size/8+1)[:size]
}

func add(t *testing.T, s streamable.EventStore, session, stream string, e streamable.Event) {
	t.Helper()
	if err := s.Append(t.Context(), session, stream, e); err != nil {
		t.Error(err)
	}
}

// readAll returns all events of a stream after a number, in as many calls as necessary.
func readAll(t *testing.T, s streamable.EventStore, session, stream string, after uint64) (all []streamable.Event) {
	t.Helper()
	for {
		events, err := s.Events(t.Context(), session, stream, after)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			return all
		}
		all = append(all, events...)
		after = events[len(events)-1].Number
	}
}

// Events longer than a message of NATS, and more than one batch of them, are read from any position
// by the Store that wrote them, and by another one.
func TestLongStreams(t *testing.T) {
	js := natstest.Run(t, 1).JetStream(t)
	s := open(t, js, jetstreamstore.Options{MaxSessionBytes: 32 << 20})
	var want []streamable.Event
	for n := range 700 {
		size := 100
		if n%300 == 7 {
			size = 3 << 20
		}
		want = append(want, streamable.Event{Number: uint64(n + 1), Text: text(n, size)})
	}
	want = append(want, streamable.Event{Number: 701, Last: true})
	for _, e := range want {
		add(t, s, "s", "1", e)
		add(t, s, "s", "0", streamable.Event{Number: e.Number, Text: []byte("other")})
	}
	for _, s := range []*jetstreamstore.Store{s, open(t, js, jetstreamstore.Options{MaxSessionBytes: 32 << 20})} {
		for _, after := range []uint64{0, 690, 10, 308, 701} {
			got := readAll(t, s, "s", "1", after)
			same := func(a, b streamable.Event) bool {
				return a.Number == b.Number && bytes.Equal(a.Text, b.Text) && a.Last == b.Last
			}
			if !slices.EqualFunc(want[after:], got, same) {
				t.Errorf("after %d, %d events differ from the %d that were written", after, len(got), len(want)-int(after))
			}
		}
	}
}

// A full stream loses the oldest events of all sessions, but no opening, and writes go on.
func TestFullStreamLosesOldestEvents(t *testing.T) {
	js := natstest.Run(t, 1).JetStream(t)
	s := open(t, js, jetstreamstore.Options{MaxBytes: 1 << 20, MaxSessionBytes: 100 << 10})
	opening := streamable.Opening{Principal: "ann", Client: []byte(`{}`)}
	for n := range 50 {
		session := fmt.Sprint(n)
		if err := s.PersistOpening(t.Context(), session, opening); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			add(t, s, session, "1", streamable.Event{Number: uint64(i + 1), Text: text(n, 10<<10)})
		}
	}
	for n := range 50 {
		session := fmt.Sprint(n)
		if got, _, err := s.Load(t.Context(), session); err != nil || got.Principal != "ann" {
			t.Errorf("session %d: %+v, %v", n, got, err)
		}
		_, err := s.Events(t.Context(), session, "1", 0)
		if old := n < 25; old && !errors.Is(err, streamable.ErrUnknown) || n > 45 && err != nil {
			t.Errorf("events of session %d: %v", n, err)
		}
	}
}

// The ids of requests count for the size of a session until the last event of their stream.
func TestUnansweredRequestsCount(t *testing.T) {
	js := natstest.Run(t, 1).JetStream(t)
	s := open(t, js, jetstreamstore.Options{MaxSessionBytes: 64 << 10})
	add(t, s, "s", "0", streamable.Event{Number: 1, Text: []byte("first")})
	for n := range 20 {
		stream := fmt.Sprint(n + 1)
		if err := s.Begin(t.Context(), "s", stream, text(n, 20<<10)); err != nil {
			t.Fatal(err)
		}
		add(t, s, "s", stream, streamable.Event{Number: 1, Text: []byte("answer"), Last: true})
	}
	if _, err := s.Events(t.Context(), "s", "0", 0); err != nil {
		t.Errorf("the answered requests have deleted an event: %v", err)
	}
	wait(t, "deletion of the ids", func() bool {
		info, err := js.Stream(t.Context(), jetstreamstore.DefaultName)
		return err == nil && info.CachedInfo().State.Msgs == 21
	})
	for n := range 4 {
		if err := s.Begin(t.Context(), "s", fmt.Sprint(100+n), text(n, 20<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Events(t.Context(), "s", "0", 0); !errors.Is(err, streamable.ErrUnknown) {
		t.Errorf("the oldest event of a session that is too large: %v", err)
	}
	if err := s.Begin(t.Context(), "s", "200", text(0, 65<<10)); !errors.Is(err, transport.ErrTooLong) {
		t.Errorf("too many ids: %v", err)
	}
}

func TestStreamIsConfiguredAndUpgraded(t *testing.T) {
	js := natstest.Run(t, 1).JetStream(t)
	open(t, js, jetstreamstore.Options{})
	open(t, js, jetstreamstore.Options{MaxBytes: 1 << 20, MaxAge: time.Minute})
	stream, err := js.Stream(t.Context(), jetstreamstore.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	if c.MaxBytes != 1<<20 || c.MaxAge != 2*time.Minute || c.Replicas != 1 || c.Storage != jetstream.FileStorage || c.Metadata["mcpwire-sessions-schema"] != "1" {
		t.Errorf("configuration: %+v", c)
	}
	c.Metadata["mcpwire-sessions-schema"] = "2"
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := jetstreamstore.Open(t.Context(), js, jetstreamstore.Options{}); !errors.Is(err, jetstreamstore.ErrSchema) {
		t.Errorf("a newer schema: %v", err)
	}
	if _, err := jetstreamstore.Open(t.Context(), js, jetstreamstore.Options{Name: "no.name"}); err == nil {
		t.Error("an invalid name was accepted")
	}
}

// JetStream deletes old messages. The Store writes those of sessions in use again before.
func TestSessionsInUseDoNotExpire(t *testing.T) {
	js := natstest.Run(t, 1).JetStream(t)
	s := open(t, js, jetstreamstore.Options{MaxAge: time.Hour})
	stream, err := js.Stream(t.Context(), jetstreamstore.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	opening := streamable.Opening{Principal: "ann", Client: []byte(`{}`)}
	state := opening
	state.State = []byte("state")
	for _, session := range []string{"used", "unused"} {
		if err := errors.Join(s.PersistOpening(t.Context(), session, opening), s.PersistState(t.Context(), session, state.State)); err != nil {
			t.Fatal(err)
		}
	}
	newest := func() uint64 {
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.State.LastSeq
	}
	now, last := time.Now(), newest()
	s.SetClock(func() time.Time { return now })
	for _, step := range []struct {
		after  time.Duration
		writes uint64
	}{{10 * time.Minute, 0}, {10 * time.Minute, 2}, {10 * time.Minute, 0}, {10 * time.Minute, 2}} {
		now = now.Add(step.after)
		if err := s.Touch(t.Context(), []string{"used", "unknown"}); err != nil {
			t.Fatal(err)
		}
		if got := newest() - last; got != step.writes {
			t.Errorf("%d writes, want %d", got, step.writes)
		}
		last += step.writes
	}
	// Delete the messages that JetStream deletes because of their age.
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(5)); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Load(t.Context(), "used"); err != nil || cmp.Diff(state, got) != "" {
		t.Errorf("the session in use: %+v, %v", got, err)
	}
	if _, _, err := s.Load(t.Context(), "unused"); !errors.Is(err, streamable.ErrUnknown) {
		t.Errorf("the other session: %v", err)
	}
}

// With three servers, one may fail: writes go on, and no event is lost.
func TestServerFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	servers := natstest.Run(t, 3)
	js := servers.JetStream(t)
	s := open(t, js, jetstreamstore.Options{Replicas: 3})
	if err := s.PersistOpening(t.Context(), "s", streamable.Opening{Principal: "ann"}); err != nil {
		t.Fatal(err)
	}
	var want []streamable.Event
	next := func() {
		e := streamable.Event{Number: uint64(len(want) + 1), Text: text(len(want), 100)}
		want = append(want, e)
		add(t, s, "s", "1", e)
	}
	for range 20 {
		next()
	}
	servers.Kill(servers.Leader(jetstreamstore.DefaultName))
	for range 20 {
		next()
	}
	if diff := cmp.Diff(want, readAll(t, s, "s", "1", 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, streams, err := open(t, js, jetstreamstore.Options{Replicas: 3}).Load(t.Context(), "s")
	if err != nil || len(streams) != 1 || streams[0].Last.Number != 40 {
		t.Errorf("%+v, %v", streams, err)
	}
}

// wait waits until done returns true.
func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no " + what)
		}
	}
}

// A connection that may be closed after an outage is refused.
func TestConnectionMustReconnect(t *testing.T) {
	c := natstest.Run(t, 1)
	nc, err := nats.Connect("nats://node-0:4222", nats.SetCustomDialer(c), nats.SkipHostLookup())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := jetstreamstore.Open(t.Context(), js, jetstreamstore.Options{}); err == nil || !strings.Contains(err.Error(), "nats.MaxReconnects(-1)") {
		t.Errorf("opened %v, %v", s, err)
	}
}
