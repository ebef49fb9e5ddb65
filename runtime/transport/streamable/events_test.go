package streamable_test

import (
	"testing"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/streamabletest"
)

func TestMemoryStore(t *testing.T) {
	streamabletest.Run(t, func(_ *testing.T, sessionBytes int) streamable.EventStore {
		return streamable.NewMemoryStore(streamable.MemoryOptions{MaxSessionBytes: sessionBytes})
	})
}

// All sessions together are bounded as well, at the cost of the one that wants more.
func TestMemoryStoreIsBounded(t *testing.T) {
	s := streamable.NewMemoryStore(streamable.MemoryOptions{MaxBytes: 10 << 10})
	ctx := t.Context()
	for n := range uint64(100) {
		for _, session := range []string{"quiet", "busy"} {
			if session == "quiet" && n > 2 {
				continue
			}
			if err := s.Append(ctx, session, "1", streamable.Event{Number: n + 1, Text: make([]byte, 500)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for session, want := range map[string]int{"quiet": 3, "busy": 13} {
		if got, err := s.Events(ctx, session, "1", 0); err != nil || len(got) != want {
			t.Errorf("%s has %d events, want %d; %v", session, len(got), want, err)
		}
	}
}
