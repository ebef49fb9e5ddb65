package endpoint_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/server/internal/endpoint"
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
		web := endpoint.NewServer(http.NotFoundHandler(), nil, transport.DefaultStallTimeout, slog.Default())
		served := make(chan error, 1)
		go func() { served <- web.Serve(listener) }() // ends with web
		for request, want := range map[string]time.Duration{"": endpoint.HeaderTimeout, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n": endpoint.IdleTimeout} {
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
				s := server.New("test", "1", nil)
				handler := must.Get(s.Handler(nil))
				old := sse.NewHandler(func(_ *http.Request, conn transport.Conn) { s.Serve(conn) }, sse.HandlerOptions{})
				listener, closed := make(pipes), make(chan struct{})
				web := endpoint.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch r.URL.Path {
					case "/mcp":
						handler.ServeHTTP(w, r)
					case "/sse":
						old.ServeHTTP(w, r)
					default:
						endpoint.ServeShort(http.NotFoundHandler(), w, r)
					}
				}), nil, transport.DefaultStallTimeout, slog.Default())
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

// selfSigned returns a TLS configuration of a server.
func selfSigned(t *testing.T) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	text, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{text}, PrivateKey: key}}}
}

// pausedConn is a connection that reads nothing more once paused is set.
type pausedConn struct {
	net.Conn
	paused atomic.Bool
	closed chan struct{}
}

func (c *pausedConn) Read(p []byte) (int, error) {
	if c.paused.Load() {
		<-c.closed
	}
	return c.Conn.Read(p)
}

// Over HTTP/2, too, a client that reads nothing does not hold its requests for ever.
func TestRequestsOfStalledHTTP2ConnectionEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 30 * time.Second
		listener, begun, pause, returned := make(pipes), make(chan struct{}), make(chan struct{}), make(chan error, 1)
		web := endpoint.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				t.Errorf("the protocol is %s", r.Proto)
			}
			close(begun)
			<-pause
			conn := http.NewResponseController(w)
			for {
				conn.SetWriteDeadline(time.Now().Add(stall / 2))
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					returned <- err
					return
				}
			}
		}), selfSigned(t), stall, slog.New(slog.DiscardHandler))
		served := make(chan error, 1)
		go func() { served <- web.ServeTLS(listener, "", "") }() // ends with web
		client, end := net.Pipe()
		listener <- end
		conn := &pausedConn{Conn: client, closed: make(chan struct{})}
		transport := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			return c, c.HandshakeContext(ctx)
		}}
		done := make(chan struct{})
		go func() { // ends with the connection
			defer close(done)
			r, err := http.NewRequest(http.MethodGet, "https://server/", nil)
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := transport.RoundTrip(r); err == nil {
				io.Copy(io.Discard, resp.Body)
			}
		}()
		<-begun
		conn.paused.Store(true)
		close(pause)
		select {
		case <-returned:
		case <-time.After(10 * stall):
			t.Error("the handler is still writing")
		}
		close(conn.closed)
		client.Close()
		end.Close()
		<-done
		close(listener)
		<-served
		web.Close()
	})
}

// The errors of connections reach the Logger of the server.
func TestErrorsOfConnectionsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		listener := make(pipes)
		web := endpoint.NewServer(http.NotFoundHandler(), selfSigned(t), time.Minute, slog.New(slog.NewTextHandler(&text, nil)))
		served := make(chan error, 1)
		go func() { served <- web.ServeTLS(listener, "", "") }() // ends with web
		client, end := net.Pipe()
		listener <- end
		go io.Copy(io.Discard, client) // ends with client
		fmt.Fprint(client, "GET / HTTP/1.1\r\n\r\n")
		synctest.Wait()
		client.Close()
		close(listener)
		<-served
		web.Close()
		synctest.Wait()
		if !strings.Contains(text.String(), "TLS handshake error") {
			t.Errorf("logged %q", text.String())
		}
	})
}
