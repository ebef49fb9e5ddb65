package sse_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
	"github.com/mcpwire/mcpwire/runtime/transport/transporttest"
)

// start starts a server that passes its connections to the returned channel.
func start(t *testing.T, o sse.HandlerOptions) (serverURL string, h *sse.Handler, conns chan transport.Conn) {
	conns = make(chan transport.Conn, 100)
	h = sse.NewHandler(func(_ *http.Request, c transport.Conn) { conns <- c }, o)
	mux := http.NewServeMux()
	mux.Handle("/sse", h)
	mux.Handle("/post", h)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		h.Close()
		server.Close()
	})
	return server.URL + "/sse", h, conns
}

// dial connects to a server.
func dial(t *testing.T, serverURL string, o httpclient.Options) transport.Reopener {
	t.Helper()
	c, err := sse.Dial(t.Context(), serverURL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestBothEndsKeepTransportContract(t *testing.T) {
	// Proves TRANS-01 and TRANS-03.
	open := func(t *testing.T, stall time.Duration, queue int) (client, server transport.Conn) {
		u, _, conns := start(t, sse.HandlerOptions{Timeouts: sse.Timeouts{Stall: stall}, Limits: sse.Limits{Queue: queue}})
		c := dial(t, u, httpclient.Options{Timeouts: httpclient.Timeouts{Stall: stall}, Limits: httpclient.Limits{Queue: queue}})
		return c, <-conns
	}
	t.Run("client to server", func(t *testing.T) {
		transporttest.Run(t, func(t *testing.T, stall time.Duration, queue int) transporttest.Ends {
			client, server := open(t, stall, queue)
			return transporttest.Ends{A: client, B: server}
		})
	})
	t.Run("server to client", func(t *testing.T) {
		transporttest.Run(t, func(t *testing.T, stall time.Duration, queue int) transporttest.Ends {
			client, server := open(t, stall, queue)
			return transporttest.Ends{A: server, B: client}
		})
	})
}

// tools is a server with a tool that sends an input request to its client.
type tools struct{ mcp.UnimplementedServerHandler }

func (tools) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	peer, _ := session.PeerFrom(ctx)
	result, err := mcp.ToClient{Caller: peer}.CreateMessage(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 10})
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: result.(*mcp.CreateMessageResult).Model}}}, nil
}

type model struct{ mcp.UnimplementedClientHandler }

func (model) CreateMessage(context.Context, *mcp.CreateMessageRequestParams) (mcp.CreateMessageOutcome, error) {
	return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "x"}}}}, nil
}

func TestConcurrentSessions(t *testing.T) {
	// Proves LEGACY-01, SDK-20.
	u, _, conns := start(t, sse.HandlerOptions{})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			c := dial(t, u, httpclient.Options{})
			s, err := session.Connect(t.Context(), c, &mcp.InitializeRequestParams{
				Capabilities: mcp.ClientCapabilities{Sampling: &mcp.ClientCapabilitiesSampling{}},
			}, &session.Options{Handler: sessiontest.ClientHandler(model{}, nil)})
			if err != nil {
				t.Error(err)
				return
			}
			for range 10 {
				got, err := mcp.ToServer{Caller: s}.CallTool(t.Context(), &mcp.CallToolRequestParams{Name: "t"})
				if err != nil || got.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text != "m" {
					t.Errorf("%v, %v", got, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for range 20 {
		s := session.Serve(<-conns, &mcp.InitializeResult{Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}}},
			&session.Options{Handler: sessiontest.ServerHandler(tools{}, nil)})
		defer func() { <-s.Done() }() // when the client disconnects
	}
	wg.Wait()
}

// open opens a stream without a Client, and returns its events.
func open(t *testing.T, u string, header ...string) (resp *http.Response, next func() string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", u, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err = http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	return resp, func() string {
		var event strings.Builder
		for lines.Scan() && lines.Text() != "" {
			fmt.Fprintln(&event, lines.Text())
		}
		return event.String()
	}
}

// post posts a message without a Client, and returns the status and the body.
func post(t *testing.T, u, text string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", u, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(body)
}

// endpoint returns the URL in the first event of a stream.
func endpoint(t *testing.T, u string, event string) string {
	t.Helper()
	rest, ok := strings.CutPrefix(event, "event: endpoint\ndata: ")
	base, err := url.Parse(u)
	if !ok || err != nil {
		t.Fatalf("the first event is %q, %v", event, err)
	}
	post, err := base.Parse(strings.TrimSpace(rest))
	if err != nil {
		t.Fatal(err)
	}
	return post.String()
}

func TestHandlerSendsEndpointAndAnswersOnStream(t *testing.T) {
	// Proves LEGACY-02 and LEGACY-03.
	for _, test := range []struct{ name, option, path string }{
		{"default", "", "/sse?"},
		{"relative", "post", "/post?"},
		{"absolute path", "/post", "/post?"},
	} {
		t.Run(test.name, func(t *testing.T) {
			u, _, conns := start(t, sse.HandlerOptions{Endpoint: test.option})
			seen := map[string]bool{}
			for range 2 {
				resp, next := open(t, u)
				if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
					t.Errorf("content type %q", got)
				}
				to := endpoint(t, u, next())
				if seen[to] || !strings.Contains(to, test.path) {
					t.Errorf("the endpoint is %s", to)
				}
				seen[to] = true
				s := session.Serve(<-conns, nil, nil)
				if status, body := post(t, to, `{"jsonrpc":"2.0","id":"é","method":"ping"}`); status != 202 || body != "" {
					t.Errorf("status %d, %q", status, body)
				}
				if got := next(); got != "event: message\ndata: "+`{"jsonrpc":"2.0","id":"é","result":{}}`+"\n" {
					t.Errorf("the answer is %q", got)
				}
				pinged := make(chan error, 1)
				go func() { pinged <- s.Ping(t.Context()) }()
				if got := next(); got != "event: message\ndata: "+`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n" {
					t.Errorf("the request of the server is %q", got)
				}
				if status, body := post(t, to, `{"jsonrpc":"2.0","id":1,"result":{}}`); status != 202 || body != "" {
					t.Errorf("status %d, %q", status, body)
				}
				if err := <-pinged; err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if status, _ := post(t, to, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); status != 404 {
					t.Errorf("a POST after the end: status %d", status)
				}
			}
		})
	}
}

func TestHandlerRejects(t *testing.T) {
	users := func(r *http.Request) (string, error) {
		if user := r.Header.Get("Authorization"); user != "" {
			return user, nil
		}
		return "", errors.New("no credentials")
	}
	u, h, conns := start(t, sse.HandlerOptions{Limits: sse.Limits{Message: 100, Streams: 2, Queue: 100}, Timeouts: sse.Timeouts{Stall: 50 * time.Millisecond}, Access: sse.Access{Principal: users}})
	_, next := open(t, u, "Authorization", "ann")
	to := endpoint(t, u, next())
	conn := <-conns
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	if status, _ := post(t, to, ping, "Authorization", "ann"); status != 202 {
		t.Errorf("status %d", status)
	}
	for _, test := range []struct {
		name   string
		url    string
		text   string
		header []string
		want   int
	}{
		{"no principal", to, ping, nil, 401},
		{"another principal", to, ping, []string{"Authorization", "bob"}, 404},
		{"another connection", u + "?sessionId=x", ping, []string{"Authorization", "ann"}, 404},
		{"no connection", u, ping, []string{"Authorization", "ann"}, 404},
		{"foreign origin", to, ping, []string{"Authorization", "ann", "Origin", "http://evil.example"}, 403},
		{"too long", to, strings.Repeat("x", 200), []string{"Authorization", "ann"}, 413},
		{"wrong content type", to, ping, []string{"Authorization", "ann", "Content-Type", "text/plain"}, 415},
		{"full queue", to, ping, []string{"Authorization", "ann"}, 429},
	} {
		status, body := post(t, test.url, test.text, test.header...)
		m, err := jsonrpc.Parse([]byte(body))
		if status != test.want || err != nil || m.Kind != jsonrpc.KindErrorResponse {
			t.Errorf("%s: status %d, %q", test.name, status, body)
		}
	}
	got := make(chan string)
	go func() {
		m, err := conn.Read()
		principal, _ := transport.Principal(m.Context)
		got <- fmt.Sprint(string(m.Text), " of ", principal, " ", err)
	}()
	if diff := cmp.Diff(ping+" of ann <nil>", <-got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	if resp, _ := open(t, u, "Authorization", "bob"); resp.StatusCode != 200 {
		t.Errorf("a second stream: status %d", resp.StatusCode)
	}
	if resp, _ := open(t, u, "Authorization", "ann"); resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a stream above MaxStreams: status %d, header %v", resp.StatusCode, resp.Header)
	}
	request, err := http.NewRequestWithContext(t.Context(), "DELETE", u, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "ann")
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, POST" {
		t.Errorf("another method: status %d, header %v", resp.StatusCode, resp.Header)
	}
	h.Close()
	if next() != "" {
		t.Error("the stream continues after Close")
	}
	if resp, _ := open(t, u, "Authorization", "ann"); resp.StatusCode != 503 {
		t.Errorf("a stream after Close: status %d", resp.StatusCode)
	}
}

func TestConnEndsWithItsStream(t *testing.T) {
	u, _, conns := start(t, sse.HandlerOptions{})
	c := dial(t, u, httpclient.Options{})
	conn := <-conns
	c.Close()
	if _, err := conn.Read(); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("the server's Read fails with %v", err)
	}
	if err := conn.Write(t.Context(), transport.Message{Text: []byte("{}")}); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("the server's Write fails with %v", err)
	}
}

func TestIdleStreamSendsComments(t *testing.T) {
	u, _, _ := start(t, sse.HandlerOptions{KeepAlive: time.Millisecond})
	_, next := open(t, u)
	endpoint(t, u, next())
	if got := next(); got != ": \n" {
		t.Errorf("got %q", got)
	}
}
