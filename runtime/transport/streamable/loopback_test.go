package streamable_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// serveLoopback serves a handler on a real socket. Its tools are those of serve.
func serveLoopback(t *testing.T, o streamable.HandlerOptions, configure func(*http.Server)) *served {
	t.Helper()
	s := &served{t: t, tools: newTools(), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	s.handler = streamable.NewHandler(s.tools.open, o)
	server := httptest.NewUnstartedServer(s.handler)
	if configure != nil {
		configure(server.Config)
	}
	server.Start()
	address := server.Listener.Addr().String()
	s.http.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	s.stop = sync.OnceFunc(func() {
		s.handler.Close()
		server.Close()
		s.http.CloseIdleConnections()
	})
	t.Cleanup(s.stop)
	return s
}

// A client that sends its message a byte at a time does not hold a connection for longer than allowed.
func TestServerSlowMessage(t *testing.T) {
	s := serveLoopback(t, streamable.HandlerOptions{ReadTimeout: 50 * time.Millisecond}, nil)
	conn, err := s.http.Transport.(*http.Transport).DialContext(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\nContent-Length: %d\r\n\r\n{", len(hello))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusRequestTimeout {
		t.Errorf("answered with %d", response.StatusCode)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
	if n, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection is still there: %d, %v", n, err)
	}
}

// What comes in front of a message is for the http.Server to limit, which can do so without harm to streams.
func TestServerHeaders(t *testing.T) {
	const timeout = 500 * time.Millisecond // which what is right must not need under load
	s := serveLoopback(t, streamable.HandlerOptions{StreamAfter: -1}, func(server *http.Server) {
		server.ReadHeaderTimeout, server.MaxHeaderBytes = timeout, 8<<10
	})
	id := s.opened(hello)
	standing := s.events("GET", "", "MCP-Session-Id", id)
	conn, err := s.http.Transport.(*http.Transport).DialContext(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ") // and nothing more
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a client that sends its header slowly: %v", err)
	}
	response := s.do("POST", call(1, "echo"), "MCP-Session-Id", id, "X-Long", strings.Repeat("x", 16<<10))
	response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a long header: status %d", response.StatusCode)
	}
	s.changeList()
	if got := standing.message(); got != listChanged {
		t.Errorf("the standing stream: %s", got)
	}
}

// The timeouts of an http.Server are for exchanges that are short. They do not end streams.
func TestServerStreamsOutliveTimeouts(t *testing.T) {
	const timeout = 100 * time.Millisecond
	s := serveLoopback(t, streamable.HandlerOptions{StreamAfter: -1}, func(server *http.Server) {
		server.ReadTimeout, server.WriteTimeout = timeout, timeout
	})
	id := s.opened(hello)
	standing := s.events("GET", "", "MCP-Session-Id", id)
	stream := s.events("POST", call(1, "wait"), "MCP-Session-Id", id)
	<-s.tools.started
	time.Sleep(3 * timeout)
	s.changeList()
	if got := standing.message(); got != listChanged {
		t.Errorf("the standing stream: %s", got)
	}
	close(s.tools.release)
	if got := stream.messages(); len(got) != 1 || got[0] != result(1) {
		t.Errorf("the stream: %q", got)
	}
}

// An answer is not lost when it comes just as its stream is opened.
func TestServerAnswersWhileAStreamOpens(t *testing.T) {
	for _, after := range []time.Duration{-1, time.Microsecond, 50 * time.Microsecond} {
		s := serveLoopback(t, streamable.HandlerOptions{StreamAfter: after}, nil)
		id := s.opened(hello)
		for i := range 1000 {
			response := s.do("POST", call(i, "echo"), "MCP-Session-Id", id)
			text, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || !strings.Contains(string(text), result(i)) {
				t.Fatalf("call %d, stream after %v: %q, %v", i, after, text, err)
			}
		}
		s.stop()
	}
}

// Many sessions at once, each with both kinds of streams. Nothing is left of them.
func TestServerManySessions(t *testing.T) {
	sessions := 200
	if testing.Short() {
		sessions = 20
	}
	before := runtime.NumGoroutine()
	s := serveLoopback(t, streamable.HandlerOptions{}, nil)
	var wg sync.WaitGroup
	for range sessions {
		wg.Go(func() {
			ctx := context.Background()
			c, _, err := s.dial(&session.Config{})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for i := range 10 {
				tool := []string{"echo", "progress", "log"}[i%3]
				raw, err := c.Call(ctx, "tools/call", session.Raw(fmt.Appendf(nil, `{"name":%q,"arguments":{"n":%d}}`, tool, i)))
				if err != nil || !strings.Contains(string(raw), fmt.Sprintf(`{\"n\":%d}`, i)) {
					t.Errorf("call %d: %s, %v", i, raw, err)
				}
			}
		})
	}
	wg.Wait()
	s.stop()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

// Whatever is sent, the answer is one of those that the protocol has, and a refusal says why.
func FuzzServer(f *testing.F) {
	f.Add("POST", true, "application/json, text/event-stream", "application/json", "2025-11-25", "", call(1, "echo"))
	f.Add("POST", false, "*/*", "application/json; charset=utf-8", "", "", hello)
	f.Add("POST", true, "*/*", "application/json", "2025-11-25", "", "["+ready+"]")
	f.Add("GET", true, "text/event-stream", "", "2025-06-18", "0-0", "")
	f.Add("DELETE", false, "", "", "1900-01-01", "", "")
	o := newTools()
	close(o.release)
	handler := streamable.NewHandler(o.open, streamable.HandlerOptions{MaxSessions: 50, StreamAfter: time.Millisecond})
	f.Cleanup(func() { handler.Close() })
	open := func(t *testing.T) string {
		r := httptest.NewRequest("POST", "/", strings.NewReader(hello))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		id := w.Header().Get("MCP-Session-Id")
		if id == "" {
			t.Fatalf("no session: %d %s", w.Code, w.Body)
		}
		return id
	}
	end := func(id string) {
		r := httptest.NewRequest("DELETE", "/", nil)
		r.Header.Set("MCP-Session-Id", id)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	allowed := map[int]bool{200: true, 202: true, 204: true, 400: true, 403: true, 404: true, 405: true, 406: true, 413: true, 415: true, 429: true}
	f.Fuzz(func(t *testing.T, method string, inSession bool, accept, contentType, protocol, last, body string) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, "http://localhost/", strings.NewReader(body))
		if err != nil {
			t.Skip()
		}
		for name, value := range map[string]string{"Accept": accept, "Content-Type": contentType, "MCP-Protocol-Version": protocol, "Last-Event-ID": last} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		id := ""
		if inSession {
			id = open(t)
			r.Header.Set("MCP-Session-Id", id)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if !allowed[w.Code] {
			t.Errorf("answered with %d", w.Code)
		}
		if w.Code >= 400 && !strings.Contains(w.Body.String(), `"error":{"code":-32`) {
			t.Errorf("refused with %d and %q", w.Code, w.Body)
		}
		for _, id := range []string{id, w.Header().Get("MCP-Session-Id")} {
			if id != "" {
				end(id)
			}
		}
	})
}
