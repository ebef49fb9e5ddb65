package endpoint

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// serve serves a handler, and returns a connection to it.
func serve(t *testing.T, h http.HandlerFunc) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: h, ConnContext: connContext}
	ended := make(chan struct{})
	go func() { // ends with web
		defer close(ended)
		web.Serve(newListener(l))
	}()
	t.Cleanup(func() {
		web.Close()
		<-ended
	})
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// The context of a request ends with the connection, whatever the client has sent before.
func TestDisconnectEndsRequest(t *testing.T) {
	for name, next := range map[string]string{
		"nothing": "", "a byte": "P", "a request": post("/", "b"), "a part of a body": post("/", strings.Repeat("b", 10000))[:5000],
	} {
		t.Run(name, func(t *testing.T) {
			begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
			c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				begun <- struct{}{}
				<-r.Context().Done()
				ended <- struct{}{}
			})
			fmt.Fprint(c, post("/", "body"))
			<-begun
			fmt.Fprint(c, next)
			c.Close()
			<-ended
		})
	}
}

// All connections together read ahead into limited memory, and give it back when they end.
func TestConnectionsGiveBackTheirPlaces(t *testing.T) {
	const atOnce = 64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{}, atOnce)
	web := &http.Server{ConnContext: connContext, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}), ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}}
	ended := make(chan struct{})
	go func() { // ends with web
		defer close(ended)
		web.Serve(newListener(l))
	}()
	for range 3 {
		for range atOnce {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(c, post("/", "body"), post("/", strings.Repeat("b", 50000))[:40000])
			c.Close()
		}
		for range atOnce {
			<-closed
		}
	}
	web.Close()
	<-ended
}

// Requests that were sent before the response to the first one are served in order.
func TestPipelinedRequestsAreServed(t *testing.T) {
	begun, release := make(chan struct{}, 1), make(chan struct{})
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if r.URL.Path == "/0" {
			begun <- struct{}{}
			<-release
		}
		fmt.Fprint(w, r.URL.Path, " ", len(text), " ", err, " ", r.Context().Err())
	})
	sizes := []int{1, 0, 10, 1 << 20, 3, 200_000, 0}
	var all strings.Builder
	for i, n := range sizes[1:] {
		all.WriteString(post(fmt.Sprint("/", i+1), strings.Repeat("b", n)))
	}
	fmt.Fprint(c, post("/0", "b"))
	<-begun
	sent := make(chan struct{})
	go func() { // ends with the test
		defer close(sent)
		text := all.String()
		fmt.Fprint(c, text[:40000])
		close(release)
		fmt.Fprint(c, text[40000:])
	}()
	in := bufio.NewReader(c)
	for i, n := range sizes {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if want := fmt.Sprint("/", i, " ", n, " <nil> <nil>"); err != nil || string(text) != want {
			t.Errorf("got %s, %v, want %s", text, err, want)
		}
	}
	<-sent
}
