package streamable_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// copyingStore is a store that returns a long copy of each event.
type copyingStore struct {
	*streamable.MemoryStore
	reads *atomic.Int32 // number of calls of Events
}

func (s copyingStore) Events(ctx context.Context, session, stream string, after uint64) ([]streamable.Event, error) {
	s.reads.Add(1)
	events, err := s.MemoryStore.Events(ctx, session, stream, after)
	list := append([]streamable.Event{}, events...)
	for i := range list {
		if list[i].Text != nil {
			list[i].Text = []byte(strings.Repeat("x", 200<<10))
		}
	}
	return list, err
}

// A client that resumes a stream on many connections and does not read cannot make the server hold a
// copy of the events for each of them.
func TestServerLimitsReplaysOfSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const conns, most = 30, 8
		store := copyingStore{streamable.NewMemoryStore(streamable.MemoryOptions{}), new(atomic.Int32)}
		s := serve(t, streamable.HandlerOptions{Store: store, StreamAfter: -1})
		defer s.stop()
		id := s.openSession(initialize)
		first := s.events("POST", call(1, "echo"), "MCP-Session-Id", id)
		if _, err := first.next(); err != nil {
			t.Fatal(err)
		}
		start := first.id
		first.messages()
		store.reads.Store(0)
		var streams []*events
		for range conns {
			streams = append(streams, s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", start))
		}
		synctest.Wait()
		if got := store.reads.Load(); got != conns+most { // each GET checks first that there are events
			t.Errorf("%d reads of the store for %d connections that are not read, want %d", got, conns, conns+most)
		}
		complete := make(chan bool, conns)
		for _, e := range streams {
			go func() { // ends with the stream
				text, err := io.ReadAll(e.body)
				complete <- err == nil && bytes.Count(text, []byte("x")) >= 200<<10
			}()
		}
		for range streams {
			if !<-complete {
				t.Error("a stream is incomplete")
			}
		}
	})
}
