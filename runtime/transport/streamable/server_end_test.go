package streamable_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

func plain(l net.Listener) net.Listener { return l }

// openStore opens a store in a file, and fails the test on an error.
func openStore(t *testing.T, path string) *boltstore.Store {
	t.Helper()
	store, err := boltstore.Open(path, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Shutdown waits for a running call until its context ends, for any grace period of the session.
func TestShutdownWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		stream := s.events("POST", call(1, "wait"), "MCP-Session-Id", id)
		<-s.tools.started
		time.AfterFunc(40*time.Second, func() { close(s.tools.release) })
		if err := s.handler.Shutdown(testContext(t)); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{result(1)}, stream.messages()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestShutdownAnswersAbandonedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		stream := s.events("POST", call(1, "wait"), "MCP-Session-Id", id)
		<-s.tools.started
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		if err := s.handler.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("the error is %v", err)
		}
		if d := time.Since(start); d < 10*time.Second || d > 12*time.Second {
			t.Errorf("Shutdown took %v", d)
		}
		if got := stream.messages(); len(got) != 1 || !strings.Contains(got[0], `"id":1,"error":{"code":-32051`) {
			t.Errorf("the call got %q", got)
		}
	})
}

// A handler receives the answer to its input request while the server shuts down.
func TestShutdownAcceptsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		stream := s.events("POST", call(1, "sample"), "MCP-Session-Id", id)
		stream.message()
		done := make(chan error, 1)
		go func() { done <- s.handler.Shutdown(testContext(t)) }() // ends with the call
		synctest.Wait()
		if got := s.status("POST", `{"jsonrpc":"2.0","id":1,"result":{"model":"m"}}`, "MCP-Session-Id", id); got != 202 {
			t.Errorf("the POST of the answer has status %d", got)
		}
		if got := stream.messages(); len(got) != 1 || !strings.Contains(got[0], `{\"model\":\"m\"}`) {
			t.Errorf("the result is %s", got)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// While a server shuts down and its listener is still open, requests are answered with status 503,
// because a later process can restore stored sessions.
func TestShutdownKeepsStoredSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, path)
		s := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}})
		idle, busy, other := s.openSession(initialize), s.openSession(initialize), s.openSession(initialize)
		stream := s.events("POST", call(1, "wait"), "MCP-Session-Id", busy)
		<-s.tools.started
		done := make(chan error, 1)
		go func() { done <- s.handler.Shutdown(testContext(t)) }() // ends with the call
		synctest.Wait()
		checkRejected := func(when string) {
			for _, test := range []struct{ method, body, id string }{
				{"POST", call(2, "echo"), idle},
				{"POST", initialized, idle},
				{"GET", "", idle},
				{"POST", call(2, "echo"), busy},
				{"POST", call(2, "echo"), "unknown"},
				{"POST", initialize, "-"},
			} {
				response := s.do(test.method, test.body, "MCP-Session-Id", test.id)
				if response.StatusCode != 503 || response.Header.Get("Retry-After") == "" {
					t.Errorf("%s: %s %s: status %d, header %v", when, test.method, test.body, response.StatusCode, response.Header)
				}
			}
		}
		checkRejected("while a session is served")
		if got := s.status("DELETE", "", "MCP-Session-Id", busy); got != 204 {
			t.Errorf("DELETE: %d", got)
		}
		stream.messages()
		if err := <-done; err != nil {
			t.Error(err)
		}
		checkRejected("after Shutdown")
		s.stop()
		store.Close()

		store = openStore(t, path)
		defer store.Close()
		s = serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}})
		defer s.stop()
		for id, want := range map[string]int{idle: 200, other: 200, busy: 404} {
			if got := s.status("POST", call(3, "echo"), "MCP-Session-Id", id); got != want {
				t.Errorf("after the restart: %d, want %d", got, want)
			}
		}
	})
}

// No session is lost if the server is shut down before the handler.
func TestShutdownOfServerBeforeHandlerKeepsSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		var srv *server.Server
		restart := func(store *boltstore.Store) *testServer {
			srv = server.New("s", "1", nil)
			s := &testServer{t: t, tools: newTools()}
			s.handler = must.Get(srv.Handler(&streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}}))
			s.serveHTTP(plain)
			return s
		}
		store := openStore(t, path)
		s := restart(store)
		id := s.openSession(initialize)
		if err := srv.Shutdown(testContext(t)); err != nil {
			t.Error(err)
		}
		for range 2 { // the first request loads the session
			if got := s.status("POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "MCP-Session-Id", id); got != 503 {
				t.Errorf("a request of the session: %d", got)
			}
			if got := s.status("POST", initialize); got != 503 {
				t.Errorf("a new session: %d", got)
			}
		}
		s.stop()
		store.Close()
		store = openStore(t, path)
		defer store.Close()
		s = restart(store)
		defer s.stop()
		if got := s.status("POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "MCP-Session-Id", id); got != 200 {
			t.Errorf("after the restart: %d", got)
		}
		srv.Close()
	})
}

// failingStore is a store whose calls can be made to fail or panic.
type failingStore struct {
	streamable.SessionStore
	load, append, events func() error
}

func (f *failingStore) Events(ctx context.Context, session, stream string, after uint64) ([]streamable.Event, error) {
	if f.events != nil {
		if err := f.events(); err != nil {
			return nil, err
		}
	}
	return f.SessionStore.Events(ctx, session, stream, after)
}

func (f *failingStore) Load(ctx context.Context, session string) (streamable.Opening, []streamable.PersistedStream, error) {
	if f.load != nil {
		if err := f.load(); err != nil {
			return streamable.Opening{}, nil, err
		}
	}
	return f.SessionStore.Load(ctx, session)
}

func (f *failingStore) Append(ctx context.Context, session, stream string, e streamable.Event) error {
	if f.append != nil {
		if err := f.append(); err != nil {
			return err
		}
	}
	return f.SessionStore.Append(ctx, session, stream, e)
}

// A session that cannot be loaded now is not reported as unknown.
func TestFailedLoadReturnsStatus503(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, path)
		defer store.Close()
		first := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}})
		id := first.openSession(initialize)
		first.handler.Close()
		failing := &failingStore{SessionStore: store, load: func() error { return errors.New("disk full") }}
		s := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: failing}, Limits: streamable.Limits{Sessions: 1}})
		defer s.stop()
		if got := s.status("POST", call(1, "echo"), "MCP-Session-Id", id); got != 503 {
			t.Errorf("while the store fails: %d", got)
		}
		failing.load = nil
		if got := s.status("POST", call(1, "echo"), "MCP-Session-Id", id); got != 200 {
			t.Errorf("after the store has recovered: %d", got)
		}
	})
}

// A handler that waits for an answer from a client without a connection does not keep the session
// alive.
func TestSessionThatAwaitsItsClientExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Timeouts: streamable.Timeouts{Idle: time.Minute}, Limits: streamable.Limits{Sessions: 3}})
		var ids []string
		for range 3 {
			id := s.openSession(initialize)
			stream := s.events("POST", call(1, "sample"), "MCP-Session-Id", id)
			stream.message()
			stream.body.Close()
			ids = append(ids, id)
		}
		standing := s.events("GET", "", "MCP-Session-Id", ids[2])
		go io.Copy(io.Discard, standing.body) // ends below
		time.Sleep(2 * time.Minute)
		for i, want := range []int{404, 404, 200} {
			if got := s.status("POST", call(2, "echo"), "MCP-Session-Id", ids[i]); got != want {
				t.Errorf("session %d: %d, want %d", i, got, want)
			}
		}
		s.openSession(initialize)
		standing.body.Close()
	})
}

// Proves HTTP-51.
func TestServerRejectsUnsupportedRevisions(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tools := newTools()
			tools.configure = func(cfg *session.Options) {
				cfg.Revisions = []mcp.Revision{mcp.Revision20251125, mcp.Revision20250618}
			}
			s := serveOver(t, streamable.HandlerOptions{Stateless: stateless}, tools, plain)
			id := "-"
			if !stateless {
				id = s.openSession(initialize)
			}
			for revision, want := range map[string]int{
				"2025-11-25": 200, "2025-06-18": 200, "2025-03-26": 400, "2024-11-05": 400, "1900-01-01": 400, "": 400,
				strings.Repeat("2025-11-25", 1000): 400,
			} {
				if got := s.status("POST", call(1, "echo"), "MCP-Session-Id", id, "MCP-Protocol-Version", revision); got != want {
					t.Errorf("stateless %v, POST in revision %.20q: %d, want %d", stateless, revision, got, want)
				}
				if stateless {
					continue
				}
				response := s.do("GET", "", "MCP-Session-Id", id, "MCP-Protocol-Version", revision)
				if response.Body.Close(); response.StatusCode != want {
					t.Errorf("GET in revision %.20q: %d, want %d", revision, response.StatusCode, want)
				}
			}
			// A session has negotiated its revision.
			want := map[bool]int{false: 200, true: 400}[stateless]
			if got := s.status("POST", call(1, "echo"), "MCP-Session-Id", id, "MCP-Protocol-Version", "-"); got != want {
				t.Errorf("stateless %v, without the header: %d, want %d", stateless, got, want)
			}
			if got := tools.calls.Load(); got != map[bool]int32{false: 3, true: 2}[stateless] {
				t.Errorf("stateless %v: %d calls were served", stateless, got)
			}
			if !stateless {
				if got := s.status("DELETE", "", "MCP-Session-Id", id, "MCP-Protocol-Version", "2024-11-05"); got != 400 {
					t.Errorf("DELETE: %d", got)
				}
			}
		})
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
