package sse_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
)

// Neither one principal nor one network of clients without a principal can take all connections.
func TestStreamsOfOneClientAreLimited(t *testing.T) {
	for name, o := range map[string]sse.HandlerOptions{
		"principals": {Access: sse.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get("X-From"), nil }}},
		"networks":   {Access: sse.Access{ClientAddress: func(r *http.Request) netip.Addr { return netip.MustParseAddr(r.Header.Get("X-From")) }}},
	} {
		t.Run(name, func(t *testing.T) {
			o.Limits.Streams = 3 // the default of MaxStreamsPerPrincipal is half of it
			u, _, conns := start(t, o)
			for _, test := range []struct {
				from string
				want int
			}{{"203.0.113.7", 200}, {"203.0.113.7", 200}, {"203.0.113.7", 429}, {"198.51.100.1", 200}, {"198.51.100.2", 503}} {
				if response, _ := open(t, u, "X-From", test.from); response.StatusCode != test.want {
					t.Errorf("%s: status %d, want %d", test.from, response.StatusCode, test.want)
				}
			}
			(<-conns).Close()
			(<-conns).Close()
		})
	}
}

// The messages that a principal is sending to all of its connections have a limit together.
func TestServerLimitsIncompleteMessagesOfAllConnections(t *testing.T) {
	u, h, _ := start(t, sse.HandlerOptions{
		Limits: sse.Limits{Message: 300 << 10},
		Access: sse.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get("X-From"), nil }},
	})
	endpoint := func(from string) string {
		_, next := open(t, u, "X-From", from)
		return endpoint(t, u, next())
	}
	blocked, end := io.Pipe() // blocks the bodies after their text
	defer end.Close()
	defer time.AfterFunc(time.Minute, func() { end.Close() }).Stop() // if no message is rejected
	status := make(chan int, 8)
	for range 4 {
		to := endpoint("ann")
		for range 2 { // 1808 KiB in total, and 1200 KiB are free
			body := io.MultiReader(strings.NewReader(strings.Repeat(" ", 290<<10)), blocked)
			r := httptest.NewRequest("POST", to, body)
			r.Header = http.Header{"Content-Type": {"application/json"}, "X-From": {"ann"}}
			go func() { // ends when the body is rejected, or with the test
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				status <- w.Code
			}()
		}
	}
	if got := <-status; got != http.StatusTooManyRequests {
		t.Errorf("a message without room: %d", got)
	}
	for from, size := range map[string]int{"ann": 60 << 10, "ben": 290 << 10} {
		text := `{"jsonrpc":"2.0","id":1,"method":"ping"}` + strings.Repeat(" ", size)
		if got, answer := post(t, endpoint(from), text, "X-From", from); got != http.StatusAccepted {
			t.Errorf("%d bytes of %s: %d %s", size, from, got, answer)
		}
	}
}

// If a principal is sending very many messages at once, their first bytes count, too.
func TestServerLimitsShortIncompleteMessages(t *testing.T) {
	u, h, _ := start(t, sse.HandlerOptions{
		Limits: sse.Limits{Message: 50 << 10, StreamsPerPrincipal: 2},
		Access: sse.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get("X-From"), nil }},
	})
	endpoint := func(from string) string {
		_, next := open(t, u, "X-From", from)
		return endpoint(t, u, next())
	}
	ann, ben := endpoint("ann"), endpoint("ben")
	blocked, end := io.Pipe() // blocks the bodies after their text
	defer end.Close()
	defer time.AfterFunc(time.Minute, func() { end.Close() }).Stop() // if no message is rejected
	status := make(chan int, 9)
	for range 9 { // one connection and three messages are free, and the others have 200 KiB
		r := httptest.NewRequest("POST", ann, io.MultiReader(strings.NewReader(strings.Repeat(" ", 40<<10)), blocked))
		r.Header = http.Header{"Content-Type": {"application/json"}, "X-From": {"ann"}}
		go func() { // ends when the body is rejected, or with the test
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			status <- w.Code
		}()
	}
	if got := <-status; got != http.StatusTooManyRequests {
		t.Errorf("a message without room: %d", got)
	}
	text := `{"jsonrpc":"2.0","id":1,"method":"ping"}` + strings.Repeat(" ", 40<<10)
	if got, answer := post(t, ben, text, "X-From", "ben"); got != http.StatusAccepted {
		t.Errorf("another principal: %d %s", got, answer)
	}
}

// blocking is a handler of tools that sends to started and blocks until release is closed.
type blocking struct {
	mcp.UnimplementedServerHandler
	started, release chan struct{}
}

func (b blocking) CallTool(context.Context, *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	b.started <- struct{}{}
	<-b.release
	return &mcp.CallToolResult{}, nil
}

// The requests of all connections of a principal that are being served have a limit together, apart
// from the first 64 KiB of each connection. One network of clients without a principal has half of
// that limit.
func TestServerLimitsRequestsOfAllConnections(t *testing.T) {
	for name, test := range map[string]struct {
		o    sse.HandlerOptions
		fill int // number of calls that have room, on two connections
	}{
		"principal": {sse.HandlerOptions{Access: sse.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get("X-From"), nil }}}, 6},
		"network":   {sse.HandlerOptions{Access: sse.Access{ClientAddress: func(r *http.Request) netip.Addr { return netip.MustParseAddr(r.Header.Get("X-From")) }}}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			test.o.Limits.Message, test.o.Limits.StreamsPerPrincipal = 100<<10, 10
			u, _, conns := start(t, test.o)
			started, release := make(chan struct{}, 100), make(chan struct{})
			id := 0
			connect := func(from string) (call func(size int), next func() string) {
				_, next = open(t, u, "X-From", from)
				to := endpoint(t, u, next())
				session.Serve(<-conns, &mcp.InitializeResult{Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}}},
					&session.Options{Handler: sessiontest.ServerHandler(blocking{started: started, release: release}, nil)})
				send := func(text string) {
					if got, answer := post(t, to, text, "X-From", from); got != http.StatusAccepted {
						t.Fatalf("%d %s", got, answer)
					}
				}
				send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
				next()
				send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				return func(size int) {
					id++
					send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t","arguments":{"x":"%s"}}}`, id, strings.Repeat("x", size)))
				}, next
			}
			one, _ := connect("203.0.113.7")
			two, second := connect("203.0.113.8")
			if name == "principal" {
				two, second = connect("203.0.113.7")
			}
			three, third := connect("203.0.113.7")
			other, fourth := connect("198.51.100.1")
			for i := range test.fill {
				[]func(int){one, two}[i%2](92 << 10)
				<-started
			}
			two(20 << 10)
			if got := second(); !strings.Contains(got, `"error":{"code":-32050`) {
				t.Errorf("a request without room: %s", got)
			}
			three(90 << 10)
			if got := third(); !strings.Contains(got, `"error":{"code":-32050`) {
				t.Errorf("a request without room of another connection: %s", got)
			}
			three(20 << 10)
			other(90 << 10)
			close(release)
			for who, next := range map[string]func() string{"a short request": third, "another client": fourth} {
				if got := next(); !strings.Contains(got, `"result"`) {
					t.Errorf("%s: %s", who, got)
				}
			}
			for range test.fill / 2 {
				second()
			}
			two(90 << 10)
			if got := second(); !strings.Contains(got, `"result"`) {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

// The endpoint is on the host of the stream, also if the path of the stream begins with two slashes,
// which stand for a host in a relative URL.
func TestEndpointIsOnTheSameHost(t *testing.T) {
	h := sse.NewHandler(func(*http.Request, transport.Conn) {}, sse.HandlerOptions{})
	defer h.Close()
	web := httptest.NewServer(h) // without a ServeMux, which would clean the path
	defer web.Close()
	for path, want := range map[string]string{"//evil.example/sse": "/evil.example/sse", "///evil.example/a%2Fb": "/evil.example/a%2Fb", "/a%2Fb": "/a%2Fb", "//": "/"} {
		c, err := net.Dial("tcp", web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n", path)
		lines := bufio.NewScanner(c)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
		}
		base, err := url.Parse(web.URL)
		if err != nil {
			t.Fatal(err)
		}
		u, err := base.Parse(strings.TrimPrefix(lines.Text(), "data: "))
		if err != nil || u.Host != base.Host || u.EscapedPath() != want {
			t.Errorf("%s: got %v, %v, want the path %s", path, u, err, want)
		}
		c.Close()
	}
}
