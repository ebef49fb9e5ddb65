package streamable_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
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

// A principal that resumes streams of many sessions and does not read cannot make the server hold
// the events of all of them.
func TestServerLimitsReplaysOfPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := copyingStore{streamable.NewMemoryStore(streamable.MemoryOptions{}), new(atomic.Int32)}
		s := serve(t, streamable.HandlerOptions{
			Store: store, StreamAfter: -1, MaxMessage: 49 << 10, MaxInitialize: 1 << 10, // 196 KiB have room, and the last event may be longer
			Principal: func(r *http.Request) (string, error) { return r.Header.Get("X-From"), nil },
		})
		defer s.stop()
		resume := func(from string) func() *events {
			id := s.openSession(initialize, "X-From", from)
			first := s.events("POST", call(1, "echo"), "MCP-Session-Id", id, "X-From", from)
			if _, err := first.next(); err != nil {
				t.Fatal(err)
			}
			start := first.id
			first.messages()
			return func() *events {
				return s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", start, "X-From", from)
			}
		}
		one, two, other := resume("ann"), resume("ann"), resume("ben")
		unread := one()
		synctest.Wait()
		if got := two().messages(); len(got) != 0 {
			t.Errorf("a stream without room has %d messages", len(got))
		}
		for name, e := range map[string]*events{"of another principal": other(), "that was not read": unread} {
			if got := e.messages(); len(got) != 1 {
				t.Errorf("the stream %s has %d messages, want 1", name, len(got))
			}
		}
		synctest.Wait()
		if got := two().messages(); len(got) != 1 {
			t.Errorf("the stream that is resumed again has %d messages, want 1", len(got))
		}
	})
}
