package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
)

// pipes is a listener that accepts the ends of pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A connection without a request does not stay open, whether it has had one or not.
func TestIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipes)
		web := newHTTPServer(http.NotFoundHandler(), nil)
		served := make(chan error, 1)
		go func() { served <- web.Serve(listener) }() // ends with web
		for request, want := range map[string]time.Duration{"": headerTimeout, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n": idleTimeout} {
			client, end := net.Pipe()
			listener <- end
			begun := time.Now()
			r := bufio.NewReader(client)
			if request != "" {
				fmt.Fprint(client, request)
				response, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, response.Body); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.ReadByte(); err == nil || time.Since(begun) != want {
				t.Errorf("%q: %v after %v, want the end after %v", request, err, time.Since(begun), want)
			}
			client.Close()
		}
		close(listener)
		<-served
		web.Close()
	})
}

// The connection of a request that is rejected or answered with a status ends if its client does not
// send the rest of the request, or reads nothing.
func TestConnectionsOfRejectedRequestsEnd(t *testing.T) {
	const body = "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
	for name, request := range map[string]string{
		"unknown path":                "POST /other HTTP/1.1\r\nHost: localhost\r\n" + body,
		"unknown session":             "POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: none\r\n" + body,
		"unknown session, chunked":    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: none\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
		"other origin":                "POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n" + body,
		"GET with a body":             "GET /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: none\r\n" + body,
		"unknown method":              "PUT /mcp HTTP/1.1\r\nHost: localhost\r\n" + body,
		"unknown session, SSE":        "POST /sse?sessionId=none HTTP/1.1\r\nHost: localhost\r\n" + body,
		"unread, unknown path":        "GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"unread, unknown session":     "GET /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: none\r\n\r\n",
		"unread, preflight request":   "OPTIONS /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nAccess-Control-Request-Method: POST\r\n\r\n",
		"unread, unknown method, SSE": "PUT /sse HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New("test", "1", nil)
				handler := s.Handler(nil)
				old := sse.NewHandler(func(_ *http.Request, conn transport.Conn) { s.Serve(conn) }, sse.HandlerOptions{})
				listener, closed := make(pipes), make(chan struct{})
				web := newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch r.URL.Path {
					case "/mcp":
						handler.ServeHTTP(w, r)
					case "/sse":
						old.ServeHTTP(w, r)
					default:
						serveShort(http.NotFoundHandler(), w, r)
					}
				}), nil)
				web.ConnState = func(_ net.Conn, state http.ConnState) {
					if state == http.StateClosed {
						close(closed)
					}
				}
				served := make(chan error, 1)
				go func() { served <- web.Serve(listener) }() // ends with web
				client, end := net.Pipe()
				listener <- end
				if _, err := io.WriteString(client, request); err != nil {
					t.Fatal(err)
				}
				select {
				case <-closed:
				case <-time.After(time.Minute):
					t.Error("the connection is still open after a minute")
				}
				client.Close()
				close(listener)
				<-served
				web.Close()
				old.Close()
				handler.Close()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
