package streamable_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
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
	hangs  map[string]bool          // processes that do not respond
	forget error                    // of the store
	claim  func() error             // called by Claim; may be nil
}

// fenced is the store of a process. It accepts writes of the holder only.
type fenced struct {
	*boltstore.Store
	member
}

func (s fenced) check(session string) error {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	if holder := s.f.holder[session]; holder != s.name {
		return fmt.Errorf("held by %q: %w", holder, streamable.ErrNotHeld)
	}
	return nil
}

func (s fenced) Append(ctx context.Context, session, stream string, e streamable.Event) error {
	if err := s.check(session); err != nil {
		return err
	}
	return s.Store.Append(ctx, session, stream, e)
}

func (s fenced) Begin(ctx context.Context, session, stream string, requests []byte) error {
	if err := s.check(session); err != nil {
		return err
	}
	return s.Store.Begin(ctx, session, stream, requests)
}

func (s fenced) Forget(ctx context.Context, session string) error {
	s.f.mu.Lock()
	err := s.f.forget
	s.f.mu.Unlock()
	if err == nil {
		err = s.check(session)
	}
	if err != nil {
		return err
	}
	return s.Store.Forget(ctx, session)
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

func (m member) Claim(_ context.Context, session string, lost func()) (streamable.Holder, error) {
	m.f.mu.Lock()
	claim := m.f.claim
	m.f.mu.Unlock()
	if claim != nil {
		if err := claim(); err != nil {
			return streamable.Holder{}, err
		}
	}
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	holder, ok := m.f.holder[session]
	switch {
	case !ok:
		return streamable.Holder{}, streamable.ErrUnknown
	case holder != "" && holder != m.name && !m.f.dead[holder]:
		return streamable.Holder{URL: "http://" + holder + "/internal", Process: holder}, nil
	}
	m.f.holder[session], m.f.lost[session] = m.name, lost
	return streamable.Holder{}, nil
}

func (m member) Alive(_ context.Context, holder streamable.Holder) (bool, error) {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	return !m.f.dead[holder.Process], nil
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
	fail, hangs := m.f.fail, m.f.hangs[r.URL.Host]
	m.f.mu.Unlock()
	if hangs {
		if r.Body != nil {
			io.Copy(io.Discard, r.Body)
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
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
		dead: map[string]bool{}, holder: map[string]string{}, lost: map[string]func(){}, header: map[string][]http.Header{}, hangs: map[string]bool{},
	}
	for _, name := range []string{"a", "b"} {
		o := o
		m := member{f, name}
		o.Sessions.Store, o.Sessions.Locator, o.Sessions.ForwardTransport = fenced{store, m}, m, m
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
	inFleet(t, streamable.HandlerOptions{Access: streamable.Access{Principal: principal, Origins: []string{"https://app.example"}}}, func(t *testing.T, f *fleet, a, b *testServer) {
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
	inFleet(t, streamable.HandlerOptions{Streams: streamable.Streams{After: -1}}, func(t *testing.T, f *fleet, a, b *testServer) {
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
		s := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store, Locator: losing{}}})
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
func (losing) Claim(context.Context, string, func()) (streamable.Holder, error) {
	panic("not called")
}
func (losing) Alive(context.Context, streamable.Holder) (bool, error) { panic("not called") }
func (losing) Release(context.Context, string) error                  { return nil }

// A request that may have reached the holder is not answered with a status with which the client
// sends it again.
func TestBrokenForwardIsNotRepeated(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{}, func(t *testing.T, f *fleet, a, b *testServer) {
		id := a.openSession(initialize)
		f.mu.Lock()
		f.fail = errors.New("connection broken")
		f.mu.Unlock()
		if resp, err := b.send("POST", strings.NewReader(call(1, "echo")), id); err == nil {
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

// send sends a request, whose response may be a broken connection.
func (s *testServer) send(method string, body io.Reader, id string) (*http.Response, error) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://localhost/mcp", body)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header = http.Header{"Mcp-Session-Id": {id}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	resp, err := s.http.Do(r)
	if err == nil {
		s.t.Cleanup(func() { resp.Body.Close() })
	}
	return resp, err
}

// Requests that wait for a process that hangs end soon after it counts as dead: calls without a
// response, because the process may have served them.
func TestHangingHolder(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{}, func(t *testing.T, f *fleet, a, b *testServer) {
		id := a.openSession(initialize)
		standing := b.events("GET", "", "MCP-Session-Id", id)
		standing.next()
		f.mu.Lock()
		f.hangs["a"] = true
		f.mu.Unlock()
		ended := make(chan error)
		go func() { // ends with the request
			_, err := b.send("POST", strings.NewReader(call(1, "echo")), id)
			ended <- err
		}()
		time.Sleep(time.Minute)
		select {
		case err := <-ended:
			t.Fatalf("the call has ended while the process counts as alive: %v", err)
		default:
		}
		f.mu.Lock()
		f.dead["a"] = true
		f.mu.Unlock()
		start := time.Now()
		if err := <-ended; err == nil {
			t.Error("the call has a response")
		}
		standing.messagesUntilCut()
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("the requests have ended after %v", d)
		}
		if got := b.text(call(2, "echo"), "MCP-Session-Id", id); got != result(2) {
			t.Errorf("the next call: %s", got)
		}
	})
}

// Requests to a process that cannot be reached wait until it counts as dead, and are then served once,
// elsewhere.
func TestRequestsWaitForUnreachableHolder(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{}, func(t *testing.T, f *fleet, a, b *testServer) {
		id := a.openSession(initialize)
		a.stop()
		f.mu.Lock()
		f.holder[id] = "a" // as if it was killed
		f.mu.Unlock()
		time.AfterFunc(20*time.Second, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.dead["a"] = true
		})
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if got := b.text(call(1, "echo"), "MCP-Session-Id", id); got != result(1) {
				t.Errorf("the call: %s", got)
			}
		})
		b.events("GET", "", "MCP-Session-Id", id).next()
		wg.Wait()
		if d := time.Since(start); d < 20*time.Second || d > 22*time.Second || b.tools.calls.Load() != 1 {
			t.Errorf("%d calls after %v", b.tools.calls.Load(), d)
		}
	})
}

// A client that reads no response to a forwarded request does not hold it up forever.
func TestForwardToStalledClient(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{Timeouts: streamable.Timeouts{Stall: 10 * time.Second}}, func(t *testing.T, f *fleet, a, b *testServer) {
		id := a.openSession(initialize)
		long := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"n":%q}}}`, strings.Repeat("n", 1<<20))
		if _, err := b.send("POST", strings.NewReader(long), id); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := b.handler.Shutdown(testContext(t)); err != nil || time.Since(start) > 15*time.Second {
			t.Errorf("Shutdown after %v: %v", time.Since(start), err)
		}
	})
}

// Close does not wait for a client that reads no response to a forwarded request.
func TestCloseWithStalledForward(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{Timeouts: streamable.Timeouts{Stall: time.Hour}}, func(t *testing.T, f *fleet, a, b *testServer) {
		id := a.openSession(initialize)
		long := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"n":%q}}}`, strings.Repeat("n", 1<<20))
		if _, err := b.send("POST", strings.NewReader(long), id); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		start := time.Now()
		if b.handler.Close(); time.Since(start) > 10*time.Second {
			t.Errorf("Close has waited %v", time.Since(start))
		}
	})
}

// The body of a forwarded request must arrive within Timeouts.Read. Then the connection is closed.
func TestForwardOfSlowBody(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{Timeouts: streamable.Timeouts{Read: 10 * time.Second}}, func(t *testing.T, f *fleet, a, b *testServer) {
		id := a.openSession(initialize)
		conn, err := b.http.Transport.(*http.Transport).DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: 100\r\n\r\n{", id)
		start := time.Now()
		conn.SetReadDeadline(start.Add(time.Hour))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != 408 {
			t.Errorf("%+v, %v", resp, err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil || time.Since(start) > 20*time.Second {
			t.Errorf("the connection is open after %v, %v", time.Since(start), err)
		}

		in, out := io.Pipe()
		go func() { // ends when it is read
			for _, part := range []string{call(1, "slow")[:20], call(1, "slow")[20:]} {
				out.Write([]byte(part))
				time.Sleep(4 * time.Second)
			}
			out.Close()
		}()
		resp, err = b.send("POST", in, id) // the handler sleeps longer than the rest of the timeout
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `{\"n\":1}`) {
			t.Errorf("a request that arrives in time: %q, %v", text, err)
		}
	})
}

// A process that has lost a session sends no event with a number that the new holder uses for
// another one.
func TestLostHolderSendsNoEvent(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{}, func(t *testing.T, f *fleet, a, b *testServer) {
		id := a.openSession(initialize)
		standing := a.events("GET", "", "MCP-Session-Id", id)
		a.changeList()
		standing.message()
		f.mu.Lock()
		f.dead["a"] = true // it does not know
		f.mu.Unlock()
		last := standing.id
		if got := b.text(call(1, "echo"), "MCP-Session-Id", id); got != result(1) {
			t.Fatalf("a call at the new holder: %s", got)
		}
		if err := a.tools.last().Notify(t.Context(), "notifications/message", &mcp.LoggingMessageNotificationParams{Level: "info", Data: []byte(`"late"`)}); err == nil {
			t.Error("the old holder has sent a message")
		}
		b.changeList()
		again := b.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", last)
		if got := again.message(); got != listChanged {
			t.Errorf("the event of the new holder: %s", got)
		}
		a.stop()
		if e, err := standing.next(); err == nil {
			t.Errorf("the old holder has sent event %s: %s", e.ID, e.Data)
		}
	})
}

// DELETE is successful only if the session is deleted: in the store, and at the process that holds
// it.
func TestDeleteThatFails(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{}, func(t *testing.T, f *fleet, a, b *testServer) {
		id := a.openSession(initialize)
		f.mu.Lock()
		f.forget = errors.New("no connection")
		f.mu.Unlock()
		if got := b.status("DELETE", "", "MCP-Session-Id", id); got != 503 {
			t.Errorf("without a store: %d", got)
		}
		f.mu.Lock()
		f.forget, f.dead["a"] = nil, true
		f.mu.Unlock()
		if got := b.text(call(1, "echo"), "MCP-Session-Id", id); got != result(1) {
			t.Fatalf("a call at another process: %s", got)
		}
		f.mu.Lock()
		f.dead["a"] = false
		f.mu.Unlock()
		for _, want := range []int{204, 404} {
			if got := a.status("DELETE", "", "MCP-Session-Id", id); got != want {
				t.Errorf("DELETE: %d, want %d", got, want)
			}
		}
		held := a.openSession(initialize)
		f.mu.Lock()
		f.dead["a"] = true // it does not know
		f.mu.Unlock()
		if got := b.text(call(1, "echo"), "MCP-Session-Id", held); got != result(1) {
			t.Fatalf("a call at another process: %s", got)
		}
		for _, want := range []int{503, 204} {
			if got := a.status("DELETE", "", "MCP-Session-Id", held); got != want {
				t.Errorf("DELETE at the old holder: %d, want %d", got, want)
			}
		}
		if got := b.status("POST", call(2, "echo"), "MCP-Session-Id", held); got != 404 {
			t.Errorf("the deleted session: %d", got)
		}
	})
}

// Concurrent requests of a session wait for the Locator together, not one after the other.
func TestRequestsWhileLocatorFails(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{}, func(t *testing.T, f *fleet, a, b *testServer) {
		id := a.openSession(initialize)
		f.mu.Lock()
		f.claim = func() error {
			time.Sleep(5 * time.Second)
			return errors.New("no connection")
		}
		f.mu.Unlock()
		start := time.Now()
		var wg sync.WaitGroup
		for n := range 20 {
			wg.Go(func() {
				if got := b.status("POST", call(n, "echo"), "MCP-Session-Id", id); got != 503 {
					t.Errorf("call %d: %d", n, got)
				}
			})
		}
		wg.Wait()
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("the calls have taken %v", d)
		}
	})
}

// A process that shuts down answers forwarded calls, ends forwarded GET streams, and releases its
// sessions.
func TestShutdownWithForwardedRequests(t *testing.T) {
	inFleet(t, streamable.HandlerOptions{Streams: streamable.Streams{After: time.Hour}}, func(t *testing.T, f *fleet, a, b *testServer) {
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
		s := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Locator: losing{}}})
		if got := s.status("POST", initialize); got != 200 {
			t.Errorf("initialize: %d", got)
		}
	})
}
