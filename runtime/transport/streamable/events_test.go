package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/streamabletest"
)

func TestMemoryStore(t *testing.T) {
	streamabletest.Run(t, func(_ *testing.T, sessionBytes int) streamable.EventStore {
		return streamable.NewMemoryStore(streamable.MemoryOptions{MaxSessionBytes: sessionBytes})
	})
}

// countEvents returns the number of events of stream 1 of a session in a store.
func countEvents(t *testing.T, s streamable.EventStore, session string) int {
	t.Helper()
	events, err := s.Events(t.Context(), session, "1", 0)
	if err != nil && !errors.Is(err, streamable.ErrUnknown) {
		t.Error(err)
	}
	return len(events)
}

// Above MaxBytes, the largest session loses events.
func TestMemoryStoreLargestSessionLosesEvents(t *testing.T) {
	s := streamable.NewMemoryStore(streamable.MemoryOptions{MaxBytes: 21 << 10})
	add := func(session string, n int) {
		t.Helper()
		// The event has 1000 bytes, overhead included.
		e := streamable.Event{Number: uint64(n + 1), Text: make([]byte, 744)}
		if err := s.Append(t.Context(), session, "1", e); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 100 {
		add("busy", n)
	}
	for n := range 5 {
		add("late", n)
		add("busy", 100+n)
	}
	if got := []int{countEvents(t, s, "late"), countEvents(t, s, "busy")}; got[0] != 5 || got[1] != 15 {
		t.Errorf("the sessions have %d events", got)
	}
	if events, err := s.Events(t.Context(), "busy", "1", 0); err != nil || events[0].Number != 91 {
		t.Errorf("the first event is %d, %v", events[0].Number, err)
	}
	if err := s.Forget(t.Context(), "busy"); err != nil {
		t.Error(err)
	}
	for n := range 30 {
		add("late", n+5)
	}
	if got := countEvents(t, s, "late"); got != 20 {
		t.Errorf("the session has %d events, want 20", got)
	}
}

// heap returns how many bytes are in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A store uses at most twice MaxBytes of memory, for any events.
func TestMemoryStoreLimitsMemory(t *testing.T) {
	const limit = 2 << 20
	long := strings.Repeat("x", 1<<20)
	for name, fill := range map[string]func(add func(session, stream string, number int, text string)){
		"long events": func(add func(string, string, int, string)) {
			for n := range 60 {
				add(fmt.Sprint(n), "1", 1, strings.Repeat("x", 200<<10))
			}
		},
		"overlong events": func(add func(string, string, int, string)) {
			for n := range 60 {
				add(fmt.Sprint(n), "1", 1, long)
			}
		},
		"empty events of one stream": func(add func(string, string, int, string)) {
			for n := range 100_000 {
				add("s", "1", n+1, "")
			}
		},
		"empty events of many streams": func(add func(string, string, int, string)) {
			for n := range 100_000 {
				add("s", fmt.Sprint(n), 1, "")
			}
		},
		"empty events of many sessions": func(add func(string, string, int, string)) {
			for n := range 100_000 {
				add(fmt.Sprintf("session-%026d", n), "1", 1, "")
			}
		},
	} {
		before := heap()
		s := streamable.NewMemoryStore(streamable.MemoryOptions{MaxBytes: limit, MaxSessionBytes: limit / 4})
		fill(func(session, stream string, number int, text string) {
			e := streamable.Event{Number: uint64(number), Text: []byte(text)}
			err := s.Append(context.Background(), session, stream, e)
			if tooLong := len(text) > limit/4; errors.Is(err, transport.ErrTooLong) != tooLong || !tooLong && err != nil {
				t.Fatalf("%s: event of %d bytes: %v", name, len(text), err)
			}
		})
		if held := heap() - before; held > 2*limit {
			t.Errorf("%s: the store holds %d bytes, with a limit of %d", name, held, limit)
		}
		runtime.KeepAlive(s)
	}
}

// The events of a call of Events have at most a little more than a mebibyte, so that connections that
// are not read hold few of them.
func TestMemoryStoreReturnsFewEventsAtOnce(t *testing.T) {
	s := streamable.NewMemoryStore(streamable.MemoryOptions{})
	const total, size = 50, 100 << 10
	for n := range total {
		if err := s.Append(t.Context(), "s", "1", streamable.Event{Number: uint64(n + 1), Text: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
	}
	next := uint64(1)
	for next <= total {
		events, err := s.Events(t.Context(), "s", "1", next-1)
		if err != nil || len(events) == 0 || len(events)*size > 1<<20+size {
			t.Fatalf("%d events after %d, %v", len(events), next-1, err)
		}
		for _, e := range events {
			if e.Number != next {
				t.Fatalf("event %d, want %d", e.Number, next)
			}
			next++
		}
	}
}
