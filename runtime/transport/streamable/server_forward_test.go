package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

// fleet is a number of handlers with one store. It is the table of their claims.
type fleet struct {
	servers map[string]*testServer
	store   *boltstore.Store

	mu     sync.Mutex
	dead   map[string]bool          // processes that count as dead
	holder map[string]string        // process by session
	lost   map[string]func()        // by session
	header map[string][]http.Header // of the forwarded requests by process
	fail   error                    // of forwarded requests, after they were sent
}

// member is the Locator of a process, and its transport to the others.
type member struct {
	f    *fleet
	name string
}

func (m member) Open(_ context.Context, session string, lost func()) error {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	m.f.holder[session], m.f.lost[session] = m.name, lost
	return nil
}

func (m member) Claim(_ context.Context, session string, lost func()) (string, error) {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	holder, ok := m.f.holder[session]
	switch {
	case !ok:
		return "", streamable.ErrUnknown
	case holder != "" && holder != m.name && !m.f.dead[holder]:
		return "http://" + holder + "/internal", nil
	}
	m.f.holder[session], m.f.lost[session] = m.name, lost
	return "", nil
}

func (m member) Release(_ context.Context, session string) error {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	if m.f.holder[session] == m.name {
		m.f.holder[session] = ""
	}
	return nil
}

// RoundTrip sends a forwarded request.
func (m member) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/internal" {
		return nil, fmt.Errorf("path %q", r.URL.Path)
	}
	m.f.mu.Lock()
	m.f.header[r.URL.Host] = append(m.f.header[r.URL.Host], r.Header)
	fail := m.f.fail
	m.f.mu.Unlock()
	resp, err := m.f.servers[r.URL.Host].http.Transport.RoundTrip(r)
	if fail != nil && err == nil {
		resp.Body.Close()
		return nil, fail
	}
	return resp, err
}

// startFleet starts handlers a and b.
func startFleet(t *testing.T, path string, o streamable.HandlerOptions) *fleet {
	t.Helper()
	store, err := boltstore.Open(path, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{
		servers: map[string]*testServer{}, store: store,
		dead: map[string]bool{}, holder: map[string]string{}, lost: map[string]func(){}, header: map[string][]http.Header{},
	}
	for _, name := range []string{"a", "b"} {
		o := o
		o.Store, o.Locator, o.ForwardTransport = store, member{f, name}, member{f, name}
		f.servers[name] = serve(t, o)
	}
	return f
}

func (f *fleet) stop() {
	for _, s := range f.servers {
		s.stop()
	}
	f.store.Close()
}

// inFleet runs f in a bubble with two handlers.
func inFleet(t *testing.T, o streamable.HandlerOptions, f func(t *testing.T, f *fleet, a, b *testServer)) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		fleet := startFleet(t, path, o)
		defer fleet.stop()
		f(t, fleet, fleet.servers["a"], fleet.servers["b"])
	})
}

// Requests of a session may reach any process: the holder serves them, and its streams and requests
// reach the client.
func TestRequestsAreForwardedToHolder(t *testing.T) {
	principal := func(r *http.Request) (string, error) {
		if user := r.Header.Get("Authorization"); user != "" {
			return user, nil
		}
		return "", errors.New("who?")
	}
	inFleet(t, streamable.HandlerOptions{Principal: principal, Origins: []string{"https://app.example"}}, func(t *testing.T, f *fleet, a, b *testServer) {
		ann := []string{"Authorization", "ann"}
		id := a.openSession(initialize, ann...)
		ann = append(ann, "MCP-Session-Id", id)
		if got := b.text(call(1, "echo"), ann...); got != result(1) {
			t.Errorf("a call: %s", got)
		}
		if got := b.text(call(1, "principal"), ann...); !strings.Contains(got, `"ann"`) {
			t.Errorf("the principal: %s", got)
		}
		if got := b.events("POST", call(2, "progress"), ann...).messages(); len(got) != 6 || got[5] != result(2) {
			t.Errorf("a stream: %q", got)
		}
		standing := b.events("GET", "", ann...)
		a.changeList()
		if got := standing.message(); got != listChanged {
			t.Errorf("the standing stream: %s", got)
		}
		asked := b.events("POST", call(3, "sample"), ann...)
		question := asked.message()
		_, rest, _ := strings.Cut(question, `"id":`)
		number, _, _ := strings.Cut(rest, ",")
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"model":"m","role":"assistant","content":{"type":"text","text":"yes"}}}`, number)
		if got := b.status("POST", answer, ann...); got != 202 {
			t.Errorf("the answer to %s: %d", question, got)
		}
		if got := asked.message(); !strings.Contains(got, "yes") {
			t.Errorf("the call: %s", got)
		}
		if n := len(b.tools.sessions); n != 0 {
			t.Errorf("the other process has opened %d sessions", n)
		}

		f.mu.Lock()
		for _, h := range f.header["a"] {
			if h.Get("Authorization") != "ann" || h.Get("Mcp-Session-Forwarded") == "" {
				t.Errorf("header of a forwarded request: %v", h)
			}
		}
		n := len(f.header["a"])
		f.mu.Unlock()
		if got := b.status("POST", call(4, "echo"), "MCP-Session-Id", id); got != 401 {
			t.Errorf("a request without a principal: %d", got)
		}
		f.mu.Lock()
		if len(f.header["a"]) != n {
			t.Error("a request without a principal was forwarded")
		}
		f.mu.Unlock()
		if got := b.status("POST", call(4, "echo"), "MCP-Session-Id", id, "Authorization", "eve"); got != 404 {
			t.Errorf("a request of another principal: %d", got)
		}
		page := b.do("POST", call(4, "echo"), append(ann, "Origin", "https://app.example", "X-Forwarded-Proto", "https")...)
		if got := page.Header.Values("Access-Control-Allow-Origin"); page.StatusCode != 200 || len(got) != 1 {
			t.Errorf("a web page: %d, %q", page.StatusCode, got)
		}
		if got := b.status("POST", call(5, "echo"), append(ann, "Mcp-Session-Forwarded", "1")...); got != 503 {
			t.Errorf("a request that was forwarded already: %d", got)
		}
		if got := b.status("DELETE", "", ann...); got != 204 {
			t.Errorf("DELETE: %d", got)
		}
		for _, s := range []*testServer{a, b} {
			if got := s.status("POST", call(5, "echo"), ann...); got != 404 {
				t.Errorf("a deleted session: %d", got)
			}
		}
	})
}

// While a dead process counts as alive, its requests are to be repeated. Then another process
// restores its sessions, and the client resumes its streams.
func TestSessionOfDeadProcessIsRestored(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{StreamAfter: -1}, func(t *testing.T, f *fleet, a, b *testServer) {
		id := a.openSession(initialize)
		waiting := b.events("POST", call(1, "wait"), "MCP-Session-Id", id)
		<-a.tools.started
		waiting.next()
		standing := b.events("GET", "", "MCP-Session-Id", id)
		standing.next()
		a.changeList()
		synctest.Wait()
		a.stop() // its sessions stay in the store
		f.mu.Lock()
		f.holder[id] = "a" // as if it was killed
		f.mu.Unlock()
		for _, e := range []*events{waiting, standing} {
			e.messagesUntilCut()
		}
		for method, body := range map[string]string{"POST": call(2, "echo"), "GET": ""} {
			resp := b.do(method, body, "MCP-Session-Id", id)
			if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
				t.Errorf("%s while the process counts as alive: %d, %v", method, resp.StatusCode, resp.Header)
			}
		}
		f.mu.Lock()
		f.dead["a"] = true
		f.mu.Unlock()
		got := b.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", waiting.id).messages()
		if len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf(`"code":%d`, session.CodeClosing)) {
			t.Errorf("the stream of the call: %q", got)
		}
		again := b.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", "0-0")
		if got := again.message(); got != listChanged {
			t.Errorf("the stored event of the standing stream: %s", got)
		}
		b.changeList()
		if got := again.message(); got != listChanged {
			t.Errorf("the new event of the standing stream: %s", got)
		}
	})
}

// A process that has lost a session ends its connections, keeps the session in the store, and
// forwards later requests to the new holder.
func TestLostSessionIsServedByNewHolder(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{}, func(t *testing.T, f *fleet, a, b *testServer) {
		id := a.openSession(initialize)
		standing := a.events("GET", "", "MCP-Session-Id", id)
		standing.next()
		f.mu.Lock()
		f.dead["a"] = true
		lost := f.lost[id]
		f.mu.Unlock()
		if got := b.events("POST", call(1, "log"), "MCP-Session-Id", id).messages(); len(got) != 4 {
			t.Errorf("a call at the new holder: %q", got)
		}
		go lost() // as a Locator does
		standing.messagesUntilCut()
		synctest.Wait()
		if got := a.text(call(2, "echo"), "MCP-Session-Id", id); got != result(2) {
			t.Errorf("a call at the old holder: %s", got)
		}
		if n := len(f.header["b"]); n != 1 {
			t.Errorf("%d requests were forwarded", n)
		}
	})
}

// A claim that is lost before the session is complete leaves no session behind.
func TestClaimLostWhileSessionOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		store, err := boltstore.Open(path, boltstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		s := serve(t, streamable.HandlerOptions{Store: store, Locator: losing{}})
		defer s.stop()
		for range 2 {
			if got := s.status("POST", initialize); got != 503 {
				t.Errorf("initialize: %d", got)
			}
			s.tools.last().Wait()
		}
	})
}

// losing loses each claim at once.
type losing struct{}

func (losing) Open(_ context.Context, _ string, lost func()) error { lost(); return nil }
func (losing) Claim(context.Context, string, func()) (string, error) {
	panic("not called")
}
func (losing) Release(context.Context, string) error { return nil }

// A request that may have reached the holder is not answered with a status with which the client
// sends it again.
func TestBrokenForwardIsNotRepeated(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{}, func(t *testing.T, f *fleet, a, b *testServer) {
		id := a.openSession(initialize)
		f.mu.Lock()
		f.fail = errors.New("connection broken")
		f.mu.Unlock()
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://localhost/mcp", strings.NewReader(call(1, "echo")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Mcp-Session-Id": {id}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if resp, err := b.http.Do(r); err == nil {
			t.Errorf("status %d", resp.StatusCode)
		}
		if n := a.tools.calls.Load(); n != 1 {
			t.Errorf("the holder has served %d calls", n)
		}
		if got := b.status("GET", "", "MCP-Session-Id", id); got != 503 {
			t.Errorf("GET: %d", got)
		}
	})
}

// A process that shuts down answers forwarded calls, ends forwarded GET streams, and releases its
// sessions.
func TestShutdownWithForwardedRequests(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{StreamAfter: time.Hour}, func(t *testing.T, f *fleet, a, b *testServer) {
		id, own := a.openSession(initialize), b.openSession(initialize)
		standing := b.events("GET", "", "MCP-Session-Id", id)
		standing.next()
		answer := make(chan string)
		go func() { answer <- b.text(call(1, "wait"), "MCP-Session-Id", id) }() // ends with the call
		<-a.tools.started
		done := make(chan error)
		go func() { done <- b.handler.Shutdown(testContext(t)) }() // ends with the answer
		standing.messagesUntilCut()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("Shutdown has not waited for the call: %v", err)
		default:
		}
		a.tools.release <- struct{}{}
		if got := <-answer; got != result(1) {
			t.Errorf("the call: %s", got)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := a.text(call(2, "echo"), "MCP-Session-Id", own); got != result(2) {
			t.Errorf("a session of the process that has shut down: %s", got)
		}
	})
}

// messagesUntilCut reads until the connection ends, in any way.
func (e *events) messagesUntilCut() {
	for {
		if _, err := e.r.Next(); err != nil {
			return
		}
	}
}

// A Locator needs a SessionStore.
func TestLocatorNeedsSessionStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Locator: losing{}})
		if got := s.status("POST", initialize); got != 200 {
			t.Errorf("initialize: %d", got)
		}
	})
}
