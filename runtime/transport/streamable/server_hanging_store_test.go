package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// hangingStore is a store whose Append does not return before wait does, once hang is set.
type hangingStore struct {
	streamable.SessionStore
	hang  atomic.Bool
	begun chan struct{} // receives when Append hangs
	wait  func(context.Context)
}

func (s *hangingStore) Append(ctx context.Context, session, stream string, e streamable.Event) error {
	if s.hang.Load() {
		select {
		case s.begun <- struct{}{}:
		default:
		}
		s.wait(ctx)
	}
	return s.SessionStore.Append(ctx, session, stream, e)
}

// A store that hangs delays the end of a Handler, and does not prevent it. Shutdown does not even wait
// for a store that ignores its context. The test runs outside of a bubble, because goroutines wait
// for a mutex.
func TestHandlerEndsDespiteHangingStore(t *testing.T) {
	for _, test := range []struct{ shutdown, heedless bool }{{true, true}, {true, false}, {false, false}} {
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			release := make(chan struct{})
			bolt := openStore(t, filepath.Join(t.TempDir(), "sessions.db"))
			defer bolt.Close()
			store := &hangingStore{SessionStore: bolt, begun: make(chan struct{}, 1), wait: func(ctx context.Context) {
				if test.heedless {
					<-release
					return
				}
				<-ctx.Done()
			}}
			s := serve(t, streamable.HandlerOptions{Store: store, FlushTimeout: time.Millisecond})
			id := s.openSession(initialize)
			store.hang.Store(true)
			sent := make(chan struct{})
			go func() { // ends with the server
				defer close(sent)
				s.do("POST", call(1, "log"), "MCP-Session-Id", id).Body.Close()
			}()
			<-store.begun
			if test.shutdown {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := s.handler.Shutdown(ctx); err != context.Canceled {
					t.Errorf("the error is %v", err)
				}
			} else {
				s.handler.Close()
			}
			close(release)
			<-sent
			s.stop()
		})
	}
}

// A principal with many sessions does not cost another one the events of a larger session.
func TestMemoryStoreDropsEventsOfLargestPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{
			StreamAfter: -1, Store: streamable.NewMemoryStore(streamable.MemoryOptions{MaxBytes: 100 << 10}),
			Principal: func(r *http.Request) (string, error) { return r.Header.Get("X-From"), nil },
		})
		store := func(from string, bytes int) (id string, resume string) {
			id = s.openSession(initialize, "X-From", from)
			body := strings.Replace(call(1, "echo"), `"n":1`, `"n":"`+strings.Repeat("x", bytes)+`"`, 1)
			stream := s.events("POST", body, "MCP-Session-Id", id, "X-From", from)
			first, err := stream.next()
			if err != nil {
				t.Fatal(err)
			}
			stream.messages()
			return id, first.ID
		}
		id, resume := store("ann", 20<<10)
		for range 10 {
			store("bob", 15<<10)
		}
		if got := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", resume, "X-From", "ann").messages(); len(got) != 1 || len(got[0]) < 20<<10 {
			t.Errorf("the resumed stream has %d messages", len(got))
		}
	})
}
