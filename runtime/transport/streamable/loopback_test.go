package streamable_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// serveLoopback serves a handler on a real socket, with the tools of serve.
func serveLoopback(t *testing.T, o streamable.HandlerOptions, configure func(*http.Server)) *testServer {
	t.Helper()
	s := &testServer{t: t, tools: newTools(), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
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

// serveTimed serves a handler over pipes in a synctest bubble, by a server with timeouts.
func serveTimed(t *testing.T, o streamable.HandlerOptions, server *http.Server) *testServer {
	s := &testServer{t: t, tools: newTools()}
	s.handler = streamable.NewHandler(s.tools.open, o)
	s.serveBy(server, plain)
	return s
}

// dialRaw connects to the server without an HTTP client.
func (s *testServer) dialRaw() net.Conn {
	s.t.Helper()
	conn, err := s.http.Transport.(*http.Transport).DialContext(s.t.Context(), "tcp", "localhost:80")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

// A client that sends its message slowly loses its connection after Timeouts.Read.
func TestSlowBodyTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveTimed(t, streamable.HandlerOptions{Timeouts: streamable.Timeouts{Read: time.Second}}, &http.Server{})
		conn := s.dialRaw()
		start := time.Now()
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\nContent-Length: %d\r\n\r\n{", len(initialize))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if d := time.Since(start); response.StatusCode != http.StatusRequestTimeout || d != time.Second {
			t.Errorf("answered with %d after %v", response.StatusCode, d)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Error(err)
		}
		if n, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection is still open: %d, %v", n, err)
		}
	})
}

// A client that does not read even a short answer loses its connection.
func TestUnreadAnswerClosesConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveTimed(t, streamable.HandlerOptions{Timeouts: streamable.Timeouts{Stall: time.Second}}, &http.Server{})
		id := s.openSession(initialize)
		conn := s.dialRaw()
		body := call(1, "echo")
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", id, len(body), body)
		time.Sleep(2 * time.Second)
		if text, err := io.ReadAll(conn); len(text) > 0 || err != nil {
			t.Errorf("the connection is still open: %q, %v", text, err)
		}
	})
}

// A client that reads the last message of a stream but not the end of the response loses its
// connection.
func TestUnreadEndOfStreamClosesConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveTimed(t, streamable.HandlerOptions{Streams: streamable.Streams{After: -1}, Timeouts: streamable.Timeouts{Stall: time.Second}}, &http.Server{})
		id := s.openSession(initialize)
		conn := s.dialRaw()
		body := call(1, "echo")
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", id, len(body), body)
		var text []byte
		for !strings.HasSuffix(string(text), result(1)+"\n\n\r\n") {
			part := make([]byte, 1024)
			n, err := conn.Read(part)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, part[:n]...)
		}
		time.Sleep(2 * time.Second)
		if text, err := io.ReadAll(conn); len(text) > 0 || err != nil {
			t.Errorf("the connection is still open: %q, %v", text, err)
		}
	})
}

// A client that does not read loses its connections Timeouts.Flush after the end of its session.
func TestEndedSessionClosesConnections(t *testing.T) {
	for _, exchange := range []struct {
		name        string
		streamAfter time.Duration
		method      string
		body        string
	}{
		{"answer", time.Hour, "POST", call(1, "echo")},
		{"stream of a request", -1, "POST", call(1, "echo")},
		{"standing stream", -1, "GET", ""},
		{"stream that has ended", -1, "GET", ""},
	} {
		for _, end := range []struct {
			name string
			end  func(s *testServer, id string)
		}{
			{"delete", func(s *testServer, id string) { s.status("DELETE", "", "MCP-Session-Id", id) }},
			{"close", func(s *testServer, id string) { s.handler.Close() }},
		} {
			t.Run(exchange.name+", "+end.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := serveTimed(t, streamable.HandlerOptions{Streams: streamable.Streams{After: exchange.streamAfter}, Timeouts: streamable.Timeouts{Stall: time.Minute, Flush: time.Second}}, &http.Server{})
					id := s.openSession(initialize)
					var last string
					if exchange.name == "stream that has ended" {
						stream := s.events("POST", call(1, "progress"), "MCP-Session-Id", id)
						stream.messages()
						name, _, _ := strings.Cut(stream.id, "-")
						last = "Last-Event-ID: " + name + "-0\r\n"
					}
					conn := s.dialRaw()
					fmt.Fprintf(conn, "%s /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Session-Id: %s\r\n%sContent-Length: %d\r\n\r\n%s",
						exchange.method, id, last, len(exchange.body), exchange.body)
					synctest.Wait()
					start := time.Now()
					end.end(s, id)
					synctest.Wait()
					if text, err := io.ReadAll(conn); len(text) > 0 || err != nil {
						t.Errorf("the connection is still open: %q, %v", text, err)
					}
					if d := time.Since(start); d != time.Second {
						t.Errorf("the connection was closed after %v", d)
					}
				})
			})
		}
	}
}

// Without sessions, a POST of a client that writes or reads slowly counts towards Limits.Sessions.
// Otherwise such clients could make the server hold any number of messages.
func TestStatelessServerLimitsSlowClients(t *testing.T) {
	body := call(1, "echo")
	for _, test := range []struct {
		name string
		sent string // the sent part of the body
	}{
		{"message that does not arrive", body[:10]},
		{"answer that is not read", body},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serveTimed(t, streamable.HandlerOptions{
					Stateless: true, Limits: streamable.Limits{Requests: 1}, Timeouts: streamable.Timeouts{Read: time.Minute, Stall: time.Minute}}, &http.Server{})
				conn := s.dialRaw()
				fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), test.sent)
				time.Sleep(30 * time.Second)
				if got := s.status("POST", body); got != http.StatusTooManyRequests {
					t.Errorf("another request: %d", got)
				}
				conn.Close()
				time.Sleep(time.Second)
				if got := s.status("POST", body); got != http.StatusOK {
					t.Errorf("a request after the disconnect: %d", got)
				}
			})
		})
	}
}

// The http.Server limits the header of a request. These limits do not end streams.
func TestHTTPServerLimitsHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveTimed(t, streamable.HandlerOptions{Streams: streamable.Streams{After: -1}},
			&http.Server{ReadHeaderTimeout: time.Second, MaxHeaderBytes: 8 << 10})
		id := s.openSession(initialize)
		standing := s.events("GET", "", "MCP-Session-Id", id)
		conn := s.dialRaw()
		fmt.Fprint(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ") // incomplete
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
		standing.body.Close()
		time.Sleep(time.Second) // net/http closes the connection with the long header meanwhile
	})
}

// The timeouts of an http.Server are for short exchanges. They do not end streams.
func TestStreamsOutliveHTTPTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveTimed(t, streamable.HandlerOptions{Streams: streamable.Streams{After: -1}},
			&http.Server{ReadTimeout: time.Second, WriteTimeout: time.Second})
		id := s.openSession(initialize)
		standing := s.events("GET", "", "MCP-Session-Id", id)
		stream := s.events("POST", call(1, "wait"), "MCP-Session-Id", id)
		<-s.tools.started
		time.Sleep(3 * time.Second)
		s.changeList()
		if got := standing.message(); got != listChanged {
			t.Errorf("the standing stream: %s", got)
		}
		close(s.tools.release)
		if got := stream.messages(); len(got) != 1 || got[0] != result(1) {
			t.Errorf("the stream: %q", got)
		}
		standing.body.Close()
	})
}

// An answer is not lost if it arrives while its stream is being opened.
func TestAnswerArrivesWhileStreamOpens(t *testing.T) {
	for _, after := range []time.Duration{-1, time.Microsecond, 50 * time.Microsecond} {
		s := serveLoopback(t, streamable.HandlerOptions{Streams: streamable.Streams{After: after}}, nil)
		id := s.openSession(initialize)
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

// Many concurrent sessions, each with both kinds of streams, leave no goroutine behind. A remaining
// goroutine would fail the bubble.
func TestManySessionsLeaveNoGoroutine(t *testing.T) {
	sessions := 200
	if testing.Short() {
		sessions = 20
	}
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		var wg sync.WaitGroup
		for range sessions {
			wg.Go(func() {
				ctx := context.Background()
				c, _, err := s.dial(&session.Options{})
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
	})
}

// For any request, the status is one of those that the protocol defines, and a rejection has a
// JSON-RPC error.
func FuzzServer(f *testing.F) {
	f.Add("POST", true, "application/json, text/event-stream", "application/json", "2025-11-25", "", call(1, "echo"))
	f.Add("POST", false, "*/*", "application/json; charset=utf-8", "", "", initialize)
	f.Add("POST", true, "*/*", "application/json", "2025-11-25", "", "["+initialized+"]")
	f.Add("GET", true, "text/event-stream", "", "2025-06-18", "0-0", "")
	f.Add("DELETE", false, "", "", "1900-01-01", "", "")
	o := newTools()
	close(o.release)
	handler := streamable.NewHandler(o.open, streamable.HandlerOptions{Limits: streamable.Limits{Sessions: 50}, Streams: streamable.Streams{After: time.Millisecond}})
	f.Cleanup(func() { handler.Close() })
	open := func(t *testing.T) string {
		r := httptest.NewRequest("POST", "/", strings.NewReader(initialize))
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
		// 503: the context ended before the owner accepted the request.
		if !allowed[w.Code] && (ctx.Err() == nil || w.Code != 503) {
			t.Errorf("answered with %d", w.Code)
		}
		if w.Code >= 400 && !strings.Contains(w.Body.String(), `"error":{"code":-32`) {
			t.Errorf("rejected with %d and %q", w.Code, w.Body)
		}
		for _, id := range []string{id, w.Header().Get("MCP-Session-Id")} {
			if id != "" {
				end(id)
			}
		}
	})
}
