// Package streamabletest has the suite that every event store of package streamable passes. The
// test of a store is:
//
//	func TestStore(t *testing.T) {
//		streamabletest.Run(t, func(t *testing.T, sessionBytes int) streamable.EventStore {
//			return streamable.NewMemoryStore(streamable.MemoryOptions{MaxSessionBytes: sessionBytes})
//		})
//	}
package streamabletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// Run checks that stores fulfil the contract of [streamable.EventStore]. It calls open once per
// subtest, with the limit in bytes for the events of a session. open returns a new store, and
// closes it at the end of the subtest.
func Run(t *testing.T, open func(t *testing.T, sessionBytes int) streamable.EventStore) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s streamable.EventStore)
	}{
		{"events are returned in order", inOrder},
		{"streams and sessions are separate", separate},
		{"unknown streams and sessions are reported", unknown},
		{"Forget deletes all streams of a session", forgotten},
		{"the oldest events are dropped first", bounded},
		{"an overlong event is rejected", tooLong},
		{"concurrent writes", concurrent},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t, 64<<10)) })
	}
}

// RunSessions checks that stores fulfil the contract of [streamable.SessionStore], in addition to
// that of Run. open opens the same store each time, and first closes the one that it returned
// before.
func RunSessions(t *testing.T, open func(t *testing.T) streamable.SessionStore) {
	ctx := t.Context()
	opening := streamable.Opening{Principal: "ann", Revision: "2025-11-25", Client: []byte(`{"a":1}`), State: []byte("of the opening")}
	s := open(t)
	if _, _, err := s.Load(ctx, "s"); !errors.Is(err, streamable.ErrUnknown) {
		t.Errorf("an unknown session: %v", err)
	}
	last := streamable.Event{Number: 2, Text: []byte("two"), Last: true}
	for _, err := range []error{
		s.PersistOpening(ctx, "s", opening),
		s.Append(ctx, "s", "0", streamable.Event{Number: 1, Text: []byte("zero")}),
		s.Begin(ctx, "s", "1", []byte(`["a"]`)),
		s.Append(ctx, "s", "1", streamable.Event{Number: 1, Text: []byte("one")}),
		s.Append(ctx, "s", "1", last),
		s.Begin(ctx, "s", "2", []byte(`["b"]`)),
		s.Append(ctx, "other", "1", last),
		s.PersistState(ctx, "other", []byte("of another session")),
		s.Touch(ctx, []string{"s", "unknown"}),
		s.Touch(ctx, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for reopened := range 2 {
		if reopened == 1 {
			s = open(t)
		}
		got, streams, err := s.Load(ctx, "s")
		if diff := cmp.Diff(opening, got); diff != "" || err != nil {
			t.Errorf("%v, (-want +got):\n%s", err, diff)
		}
		want := []streamable.PersistedStream{
			{Stream: "0", Last: streamable.Event{Number: 1}},
			{Stream: "1", Last: streamable.Event{Number: 2, Last: true}},
			{Stream: "2", Requests: []byte(`["b"]`)},
		}
		for i := range streams {
			if streams[i].Last.Last {
				streams[i].Requests = nil // the store may have deleted them
			}
		}
		if diff := cmp.Diff(want, streams); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		check(t, s, "s", "1", 1, []streamable.Event{last})
		if _, _, err := s.Load(ctx, "other"); !errors.Is(err, streamable.ErrUnknown) {
			t.Errorf("a session with a state but no opening: %v", err)
		}
		if _, _, err := s.Load(ctx, "secret"); !errors.Is(err, streamable.ErrUnknown) || strings.Contains(err.Error(), "secret") {
			t.Errorf("a session that was not stored: %v", err)
		}
	}
	for _, text := range []string{"first", strings.Repeat("long", 100_000), "", "last"} {
		if err := s.PersistState(ctx, "s", []byte(text)); err != nil {
			t.Fatal(err)
		}
		state := opening
		state.State = []byte(text)
		for range 2 {
			got, _, err := s.Load(ctx, "s")
			if diff := cmp.Diff(state, got); diff != "" || err != nil {
				t.Errorf("with a state of %d bytes: %v, (-want +got):\n%s", len(text), err, diff)
			}
			s = open(t)
		}
	}
	if err := s.Forget(ctx, "s"); err != nil {
		t.Error(err)
	}
	if _, _, err := open(t).Load(ctx, "s"); !errors.Is(err, streamable.ErrUnknown) {
		t.Errorf("a forgotten session: %v", err)
	}
	s = open(t)
	opening.State = nil
	err := s.PersistOpening(ctx, "s", opening)
	if got, _, loadErr := s.Load(ctx, "s"); got.State != nil || err != nil || loadErr != nil {
		t.Errorf("a new session after a forgotten one has state %q, %v, %v", got.State, err, loadErr)
	}
}

// event returns an event with a number and a text.
func event(n uint64) streamable.Event {
	return streamable.Event{Number: n, Text: fmt.Appendf(nil, `{"n":%d}`, n)}
}

func add(t *testing.T, s streamable.EventStore, session, stream string, e streamable.Event) {
	t.Helper()
	if err := s.Append(context.Background(), session, stream, e); err != nil {
		t.Error(err)
	}
}

// check compares the events of a stream after a number.
func check(t *testing.T, s streamable.EventStore, session, stream string, after uint64, want []streamable.Event) {
	t.Helper()
	got, err := s.Events(context.Background(), session, stream, after)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%s of %s after %d: %v, (-want +got):\n%s", stream, session, after, err, diff)
	}
}

func inOrder(t *testing.T, s streamable.EventStore) {
	var want []streamable.Event
	for n := range uint64(20) {
		e := event(n + 1)
		if n == 19 {
			e.Text, e.Last = nil, true
		}
		want = append(want, e)
		add(t, s, "s", "1", e)
	}
	for after := range uint64(20) {
		check(t, s, "s", "1", after, want[after:])
	}
	check(t, s, "s", "1", 20, nil)
}

func separate(t *testing.T, s streamable.EventStore) {
	for _, session := range []string{"s", "ss"} {
		for _, stream := range []string{"1", "11", "10"} {
			e := event(1)
			e.Text = []byte(session + stream)
			add(t, s, session, stream, e)
		}
	}
	for _, session := range []string{"s", "ss"} {
		for _, stream := range []string{"1", "11", "10"} {
			check(t, s, session, stream, 0, []streamable.Event{{Number: 1, Text: []byte(session + stream)}})
		}
	}
}

func unknown(t *testing.T, s streamable.EventStore) {
	add(t, s, "s", "1", event(1))
	add(t, s, "secret", "1", event(1))
	for _, id := range [][2]string{{"s", "2"}, {"t", "1"}, {"", ""}, {"secret", "2"}, {"secret-2", "1"}} {
		if _, err := s.Events(t.Context(), id[0], id[1], 0); !errors.Is(err, streamable.ErrUnknown) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func forgotten(t *testing.T, s streamable.EventStore) {
	add(t, s, "s", "1", event(1))
	add(t, s, "t", "1", event(1))
	for range 2 {
		if err := s.Forget(t.Context(), "s"); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Events(t.Context(), "s", "1", 0); !errors.Is(err, streamable.ErrUnknown) {
		t.Errorf("events of a forgotten session: %v", err)
	}
	check(t, s, "t", "1", 0, []streamable.Event{event(1)})
}

func bounded(t *testing.T, s streamable.EventStore) {
	add(t, s, "t", "1", event(1))
	add(t, s, "s", "0", event(1))
	long := streamable.Event{Text: []byte(strings.Repeat("x", 10<<10))}
	for n := range uint64(20) {
		long.Number = n + 1
		add(t, s, "s", "1", long)
	}
	got, err := s.Events(t.Context(), "s", "1", 0)
	if err != nil || len(got) < 3 || len(got) > 6 || got[len(got)-1].Number != 20 {
		t.Errorf("%d events are left, %v", len(got), err)
	}
	for i, e := range got {
		if e.Number != got[0].Number+uint64(i) {
			t.Errorf("event %d has number %d", i, e.Number)
		}
	}
	if _, err := s.Events(t.Context(), "s", "0", 0); !errors.Is(err, streamable.ErrUnknown) {
		t.Errorf("the stream with the oldest event: %v", err)
	}
	check(t, s, "t", "1", 0, []streamable.Event{event(1)})
}

func tooLong(t *testing.T, s streamable.EventStore) {
	add(t, s, "s", "1", event(1))
	err := s.Append(t.Context(), "s", "1", streamable.Event{Number: 2, Text: make([]byte, 65<<10)})
	if !errors.Is(err, transport.ErrTooLong) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a long event: %v", err)
	}
	add(t, s, "s", "1", event(3))
	check(t, s, "s", "1", 0, []streamable.Event{event(1), event(3)})
}

func concurrent(t *testing.T, s streamable.EventStore) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			stream := fmt.Sprint(i)
			for n := range uint64(20) {
				add(t, s, "s", stream, event(n+1))
				check(t, s, "s", stream, n, []streamable.Event{event(n + 1)})
			}
		})
	}
	wg.Wait()
}
