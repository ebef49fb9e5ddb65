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
