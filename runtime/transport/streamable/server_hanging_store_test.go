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

// tryRequest sends a request of a session. What becomes of it does not matter: a Handler that is closed
// interrupts its connection.
func (s *testServer) tryRequest(ctx context.Context, method, body, session string) {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost/mcp", strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("MCP-Session-Id", session)
	if resp, err := s.http.Do(r); err == nil {
		resp.Body.Close()
	}
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
			s := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}, Timeouts: streamable.Timeouts{Flush: time.Millisecond}})
			id := s.openSession(initialize)
			store.hang.Store(true)
			sent := make(chan struct{})
			go func() { // ends with the server
				defer close(sent)
				s.tryRequest(t.Context(), "POST", call(1, "log"), id)
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

// hangingLocator is a Locator whose methods return when their context ends, once it hangs.
type hangingLocator struct {
	claims, releases atomic.Bool   // Claim hangs; Release hangs
	begun            chan struct{} // receives when a method hangs
	ended            chan struct{} // receives when it returns
}

func (l *hangingLocator) wait(ctx context.Context, hang *atomic.Bool) error {
	if !hang.Load() {
		return nil
	}
	l.begun <- struct{}{}
	<-ctx.Done()
	l.ended <- struct{}{}
	return ctx.Err()
}

func (l *hangingLocator) Open(context.Context, string, func()) error { return nil }

func (l *hangingLocator) Claim(ctx context.Context, _ string, _ func()) (streamable.Holder, error) {
	return streamable.Holder{}, l.wait(ctx, &l.claims)
}

func (l *hangingLocator) Alive(context.Context, streamable.Holder) (bool, error) { return true, nil }

func (l *hangingLocator) Release(ctx context.Context, _ string) error {
	return l.wait(ctx, &l.releases)
}

// loadingStore is a store whose Load returns when its context ends, while hang is set.
type loadingStore struct {
	streamable.SessionStore
	hang *atomic.Bool
	wait func(context.Context, *atomic.Bool) error
}

func (s loadingStore) Load(ctx context.Context, session string) (streamable.Opening, []streamable.PersistedStream, error) {
	if err := s.wait(ctx, s.hang); err != nil {
		return streamable.Opening{}, nil, err
	}
	return s.SessionStore.Load(ctx, session)
}

// A Locator that hangs delays the end of a Handler, and does not prevent it.
func TestHandlerEndsDespiteHangingLocator(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.db")
	synctest.Test(t, func(t *testing.T) {
		bolt := openStore(t, path)
		defer bolt.Close()
		l := &hangingLocator{begun: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
		s := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: bolt, Locator: l}})
		s.openSession(initialize)
		l.releases.Store(true)
		closed := make(chan struct{})
		go func() { // ends with the handler
			defer close(closed)
			s.handler.Close()
		}()
		select {
		case <-closed:
		case <-time.After(time.Hour):
			t.Fatal("Close has not returned after an hour")
		}
		<-l.ended
		s.stop()
	})
}

// A session is not loaded any longer than its client waits, or than the Handler is open. Another client
// that waits for the same session gets it.
func TestLoadEndsWithItsClientOrHandler(t *testing.T) {
	for _, test := range []struct{ claim, closes bool }{{true, false}, {true, true}, {false, false}, {false, true}} {
		path := filepath.Join(t.TempDir(), "sessions.db")
		t.Run(fmt.Sprintf("%+v", test), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bolt := openStore(t, path)
				defer bolt.Close()
				l := &hangingLocator{begun: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
				var loads atomic.Bool
				o := streamable.HandlerOptions{Sessions: streamable.Sessions{Store: loadingStore{bolt, &loads, l.wait}, Locator: l}}
				before := serve(t, o)
				id := before.openSession(initialize)
				if err := before.handler.Shutdown(t.Context()); err != nil {
					t.Fatal(err)
				}
				before.stop()
				hang := &loads
				if test.claim {
					hang = &l.claims
				}
				hang.Store(true)
				s := serve(t, o)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				gone := make(chan struct{})
				go func() { // ends with ctx or the server
					defer close(gone)
					s.tryRequest(ctx, "GET", "", id)
				}()
				<-l.begun
				hang.Store(false)
				if test.closes {
					s.handler.Close()
				} else {
					answered := make(chan struct{})
					go func() { // ends with the response
						defer close(answered)
						if got := s.text(call(1, "echo"), "MCP-Session-Id", id); got != result(1) {
							t.Errorf("the other client got %s", got)
						}
					}()
					synctest.Wait()
					cancel()
					<-answered
				}
				select {
				case <-l.ended:
				case <-time.After(time.Hour):
					t.Error("the context has not ended after an hour")
				}
				cancel()
				<-gone
				s.stop()
			})
		})
	}
}

// A principal with many sessions does not cost another one the events of a larger session.
func TestMemoryStoreDropsEventsOfLargestPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{
			Streams: streamable.Streams{After: -1}, Sessions: streamable.Sessions{Store: streamable.NewMemoryStore(streamable.MemoryOptions{MaxBytes: 100 << 10})},
			Access: streamable.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get("X-From"), nil }},
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
