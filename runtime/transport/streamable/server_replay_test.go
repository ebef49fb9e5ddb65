package streamable_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// copyingStore is a store that returns a long copy of each event.
type copyingStore struct{ streamable.EventStore }

func (s copyingStore) Events(ctx context.Context, session, stream string, after uint64) ([]streamable.Event, error) {
	events, err := s.EventStore.Events(ctx, session, stream, after)
	list := append([]streamable.Event{}, events...)
	for i := range list {
		if list[i].Text != nil {
			list[i].Text = []byte(strings.Repeat("x", 200<<10))
		}
	}
	return list, err
}

// slowStore is a copyingStore whose reads take a second.
type slowStore struct {
	copyingStore

	mu            sync.Mutex
	reading, most int // number of reads that run, and the most so far; guarded by mu
}

func (s *slowStore) Events(ctx context.Context, session, stream string, after uint64) ([]streamable.Event, error) {
	s.count(1)
	defer s.count(-1)
	time.Sleep(time.Second)
	return s.copyingStore.Events(ctx, session, stream, after)
}

func (s *slowStore) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading += n
	s.most = max(s.most, s.reading)
}

// A client that resumes streams of many sessions on many connections cannot make the server hold a
// copy of the events for each of them before they count. All networks together have the limit of a
// principal, and each has half of it.
func TestServerLimitsReadsOfStore(t *testing.T) {
	const sessions, conns, most = 4, 10, 16
	from := func(r *http.Request) netip.Addr { return netip.MustParseAddr(r.Header.Get("X-From")) }
	for name, test := range map[string]struct {
		o    streamable.HandlerOptions
		from string // format of the address for a session
		most int
	}{
		"principal":     {streamable.HandlerOptions{}, "203.0.113.%d", most},
		"network":       {streamable.HandlerOptions{Access: streamable.Access{ClientAddress: from}}, "203.0.113.%d", most / 2},
		"many networks": {streamable.HandlerOptions{Access: streamable.Access{ClientAddress: from}}, "203.0.%d.7", most},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowStore{copyingStore: copyingStore{streamable.NewMemoryStore(streamable.MemoryOptions{})}}
				test.o.Sessions.Store, test.o.Streams.After = store, -1
				s := serve(t, test.o)
				defer s.stop()
				var complete atomic.Int32
				var clients sync.WaitGroup
				for i := range sessions {
					from := fmt.Sprintf(test.from, i)
					id := s.openSession(initialize, "X-From", from)
					first := s.events("POST", call(1, "echo"), "MCP-Session-Id", id, "X-From", from)
					if _, err := first.next(); err != nil {
						t.Fatal(err)
					}
					start := first.id
					first.messages()
					for range conns {
						clients.Go(func() { // ends with the stream
							response := s.do("GET", "", "MCP-Session-Id", id, "Last-Event-ID", start, "X-From", from)
							text, err := io.ReadAll(response.Body)
							if err == nil && bytes.Count(text, []byte("x")) >= 200<<10 {
								complete.Add(1)
							}
						})
					}
				}
				clients.Wait()
				if got := complete.Load(); got != sessions*conns {
					t.Errorf("%d of %d streams are complete", got, sessions*conns)
				}
				store.mu.Lock()
				defer store.mu.Unlock()
				if store.most != test.most {
					t.Errorf("%d reads of the store at once, want %d", store.most, test.most)
				}
			})
		})
	}
}

// A principal that resumes streams of many sessions and does not read cannot make the server hold
// the events of all of them.
func TestServerLimitsReplaysOfPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := copyingStore{streamable.NewMemoryStore(streamable.MemoryOptions{})}
		s := serve(t, streamable.HandlerOptions{
			Sessions: streamable.Sessions{Store: store}, Streams: streamable.Streams{After: -1}, Limits: streamable.Limits{
				Message:    49 << 10,
				Initialize: 1 << 10, // 196 KiB have room, and the last event may be longer
			},
			Access: streamable.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get("X-From"), nil }},
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
