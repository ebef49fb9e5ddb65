package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

// A restarted server continues its sessions and streams. Requests that were being served are
// answered with an error.
func TestServerRestoresSessionsAfterRestart(t *testing.T) {
	for name, orderly := range map[string]bool{"killed": false, "shut down": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "events.db")
			synctest.Test(t, func(t *testing.T) { restart(t, path, orderly) })
		})
	}
}

func restart(t *testing.T, path string, orderly bool) {
	open := func() *boltstore.Store {
		store, err := boltstore.Open(path, boltstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := open()
	s := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}})
	id := s.openSession(initialize)
	stream := s.events("POST", call(1, "progress"), "MCP-Session-Id", id)
	for range 3 {
		stream.next() // the first event is not a message
	}
	half := stream.id
	stream.messages()
	waiting := s.events("POST", call(2, "wait"), "MCP-Session-Id", id)
	<-s.tools.started
	if _, err := waiting.next(); err != nil {
		t.Fatal(err)
	}
	s.changeList()
	ended := s.openSession(initialize)
	if got := s.status("DELETE", "", "MCP-Session-Id", ended); got != 204 {
		t.Errorf("delete: %d", got)
	}
	waiting.body.Close()
	if orderly {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.handler.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("Shutdown with a call that does not end: %v", err)
		}
	}
	store.Close() // later events are not stored
	s.stop()

	store = open()
	defer store.Close()
	s = serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}})
	defer s.stop()
	if diff := cmp.Diff([]string{progress(1, 3), progress(1, 4), progress(1, 5), result(1)},
		s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", half).messages()); diff != "" {
		t.Errorf("a stream that was complete before the restart (-want +got):\n%s", diff)
	}
	got := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", waiting.id).messages()
	if len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf(`"id":2,"error":{"code":%d`, session.CodeClosing)) {
		t.Errorf("a stream that was incomplete before the restart: %q", got)
	}
	standing := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", "0-0")
	if got := standing.message(); got != listChanged {
		t.Errorf("the stored event of the standing stream: %s", got)
	}
	s.changeList()
	if got := standing.message(); got != listChanged {
		t.Errorf("the new event of the standing stream: %s", got)
	}
	asked := s.events("POST", call(3, "sample"), "MCP-Session-Id", id)
	if got := asked.message(); !strings.Contains(got, "sampling/createMessage") {
		t.Errorf("the client's capabilities are lost: %s", got)
	}
	for _, old := range []string{half, waiting.id} {
		if name, _, _ := strings.Cut(old, "-"); strings.HasPrefix(asked.id, name+"-") {
			t.Errorf("a new stream has the id %s, an earlier one %s", asked.id, old)
		}
	}
	if got := s.status("POST", initialize, "MCP-Session-Id", id); got != 200 {
		t.Errorf("initialize again: %d", got)
	}
	if got := s.status("POST", call(4, "echo"), "MCP-Session-Id", ended); got != 404 {
		t.Errorf("a session that was deleted before the restart: %d", got)
	}
}

// A stored session is loaded once, and only for its principal.
func TestServerLoadsSessionOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		store, err := boltstore.Open(path, boltstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		opening := streamable.Opening{Revision: "2025-11-25", Client: []byte(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)}
		for id, principal := range map[string]string{"kept": "", "foreign": "ann"} {
			opening.Principal = principal
			if err := store.PersistOpening(t.Context(), id, opening); err != nil {
				t.Fatal(err)
			}
		}
		s := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}})
		defer s.stop()
		got := make(chan string)
		for i := range 8 {
			go func() { got <- s.text(call(i, "echo"), "MCP-Session-Id", "kept") }() // ends with the answer
		}
		for range 8 {
			if text := <-got; !strings.Contains(text, `"result"`) {
				t.Error(text)
			}
		}
		if n := len(s.tools.sessions); n != 1 {
			t.Errorf("loaded %d times", n)
		}
		if got := s.status("POST", call(1, "echo"), "MCP-Session-Id", "foreign"); got != 404 {
			t.Errorf("the session of another principal: %d", got)
		}
	})
}

// The state that the owner of a session has persisted is available after a restart. It is limited
// in size, and deleted with the session.
func TestServerPersistsState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	var store *boltstore.Store
	var conn transport.Conn
	begin := func(o streamable.HandlerOptions) (*streamable.Handler, func(body string, h ...string) *http.Response) {
		handler := streamable.NewHandler(func(_ *http.Request, c transport.Conn) {
			conn = c
			session.Serve(c, nil, nil)
		}, o)
		return handler, func(body string, h ...string) *http.Response {
			r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader(body))
			if body == "" {
				r.Method = "DELETE"
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			for i := 0; i < len(h); i += 2 {
				r.Header.Set(h[i], h[i+1])
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Result()
		}
	}
	restart := func() (*streamable.Handler, func(body string, h ...string) *http.Response) {
		if store != nil {
			store.Close()
		}
		var err error
		if store, err = boltstore.Open(path, boltstore.Options{}); err != nil {
			t.Fatal(err)
		}
		return begin(streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}, Limits: streamable.Limits{State: 10}})
	}
	keep := func(state string, want error) {
		t.Helper()
		if err := conn.(transport.Persister).PersistState(t.Context(), []byte(state)); !errors.Is(err, want) {
			t.Errorf("PersistState(%q): %v, want %v", state, err, want)
		}
	}
	kept := func(want string, wantOK bool) {
		t.Helper()
		if state, ok := conn.(transport.Persister).PersistedState(); string(state) != want || ok != wantOK {
			t.Errorf("PersistedState is %q, %v", state, ok)
		}
	}
	handler, post := restart()
	id := post(initialize).Header.Get("MCP-Session-Id")
	kept("", true)
	keep("first", nil)
	keep("longer than 10", transport.ErrTooLong)
	for _, state := range []string{"first", "second"} {
		if err := handler.Close(); err != nil {
			t.Error(err)
		}
		keep("too late", transport.ErrClosed)
		handler, post = restart()
		post(`{"jsonrpc":"2.0","id":7,"method":"ping"}`, "MCP-Session-Id", id)
		kept(state, true)
		keep("second", nil)
	}
	post("", "MCP-Session-Id", id)
	keep("too late", transport.ErrClosed)
	if _, _, err := store.Load(t.Context(), id); !errors.Is(err, streamable.ErrUnknown) {
		t.Errorf("a session that has ended: %v", err)
	}
	handler.Close()
	store.Close()

	for _, o := range []streamable.HandlerOptions{{}, {Stateless: true}} {
		handler, post := begin(o)
		post(initialize)
		kept("", false)
		keep("x", errors.ErrUnsupported)
		handler.Close()
	}
}
