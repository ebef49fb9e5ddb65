package streamable_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// newServerWithTool returns a server whose tool "wait" waits for release or the end of its context.
func newServerWithTool(t *testing.T, release, started chan struct{}) *server.Server {
	t.Helper()
	srv := server.New("s", "1", nil)
	err := srv.AddRawTool(mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ json.RawMessage) (*mcp.CallToolResult, error) {
		started <- struct{}{}
		select {
		case <-release:
			return server.Text("released"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}).Err()
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

func listen(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + metaOf("2026-07-28", 1) + `}}`
}

// A subscription is a stream that stays open. When the server shuts down, it ends with its result.
// Calls of both eras are answered before the server ends, and no goroutine is left.
func TestServerShutdownWithModernRequests(t *testing.T) {
	// Proves M-ERA-01, M-SUBS-07, M-SUBS-13.
	synctest.Test(t, func(t *testing.T) {
		release, started := make(chan struct{}), make(chan struct{}, 2)
		srv := newServerWithTool(t, release, started)
		s := &testServer{t: t, tools: newTools()}
		s.handler = must.Get(srv.Handler(&streamable.HandlerOptions{Streams: streamable.Streams{KeepAlive: 10 * time.Second}}))
		s.serveHTTP(plain)
		var streams []*events
		for _, id := range []string{`"a"`, `7`} {
			stream := s.events("POST", listen(id), methodHeader("subscriptions/listen")...)
			if got := stream.message(); !strings.Contains(got, "notifications/subscriptions/acknowledged") || !strings.Contains(got, `subscriptionId":`+id) {
				t.Errorf("the first message is %s", got)
			}
			streams = append(streams, stream)
		}
		session := s.openSession(initialize)
		answers := make(chan string, 2)
		go func() { answers <- s.text(modernCall(1, "wait"), callHeader("wait")...) }() // ends with the call
		go func() { answers <- s.text(call(1, "wait"), "MCP-Session-Id", session) }()   // ends with the call
		<-started
		<-started
		time.AfterFunc(300*time.Millisecond, func() { close(release) })
		done := make(chan error, 1)
		go func() { done <- srv.Shutdown(testContext(t)) }() // ends with the calls
		for i, id := range []string{`"a"`, `7`} {
			if got := streams[i].messages(); len(got) != 1 || !strings.Contains(got[0], `"id":`+id+`,"result":{`) || !strings.Contains(got[0], `"resultType":"complete"`) {
				t.Errorf("the stream of %s ends with %q", id, got)
			}
		}
		response := s.do("POST", modernCall(2, "wait"), callHeader("wait")...)
		io.Copy(io.Discard, response.Body)
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
			t.Errorf("another call: %d %v", response.StatusCode, response.Header)
		}
		for range 2 {
			if got := <-answers; !strings.Contains(got, "released") {
				t.Errorf("a call is answered with %s", got)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.handler.Shutdown(testContext(t)); err != nil {
			t.Error(err)
		}
	})
}

// A subscription ends with its stream.
func TestClosedStreamEndsSubscription(t *testing.T) {
	// Proves M-SUBS-12.
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan string, 1)
		srv := server.New("s", "1", &server.Options{Hooks: server.Hooks{Unsubscribe: func(_ context.Context, _ *server.Call, uri string) { ended <- uri }}})
		defer srv.Close()
		err := server.AddResource(srv, "x:a", "a", func(context.Context, *server.Call, server.Resource) (string, error) { return "", nil }).Err()
		if err != nil {
			t.Fatal(err)
		}
		s := &testServer{t: t, tools: newTools()}
		s.handler = must.Get(srv.Handler(&streamable.HandlerOptions{Streams: streamable.Streams{KeepAlive: -1}}))
		s.serveHTTP(plain)
		body := strings.Replace(listen("1"), `"toolsListChanged":true`, `"resourceSubscriptions":["x:a"]`, 1)
		stream := s.events("POST", body, methodHeader("subscriptions/listen")...)
		stream.message()
		time.Sleep(time.Hour)
		if len(ended) > 0 {
			t.Error("the subscription has ended before its stream")
		}
		stream.body.Close()
		if got := <-ended; got != "x:a" {
			t.Errorf("the subscription to %s has ended", got)
		}
	})
}

// Close cancels calls and waits for them.
func TestServerCloseWithModernRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{}, 1)
		srv := newServerWithTool(t, nil, started)
		s := &testServer{t: t, tools: newTools()}
		s.handler = must.Get(srv.Handler(nil))
		s.serveHTTP(plain)
		answer := make(chan string, 1)
		go func() { answer <- lastMessage(t, s.do("POST", modernCall(1, "wait"), callHeader("wait")...)) }() // ends with the call
		<-started
		start := time.Now()
		if err := errors.Join(srv.Close(), s.handler.Close()); err != nil || time.Since(start) > 0 {
			t.Errorf("closed after %v: %v", time.Since(start), err)
		}
		if got := <-answer; !strings.Contains(got, `"id":1,"error":{"code":-31051,`) {
			t.Errorf("the call is answered with %s", got)
		}
	})
}

// Subscriptions of clients that do not read delay neither others nor the end of the server.
func TestUnreadSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServerWithTool(t, nil, nil)
		s := &testServer{t: t, tools: newTools()}
		s.handler = must.Get(srv.Handler(&streamable.HandlerOptions{Timeouts: streamable.Timeouts{Stall: time.Hour}, Streams: streamable.Streams{KeepAlive: -1}}))
		s.serveHTTP(plain)
		for range 20 {
			s.do("POST", listen(`1`), methodHeader("subscriptions/listen")...) // never read
		}
		reading := s.events("POST", listen(`2`), methodHeader("subscriptions/listen")...)
		reading.message()
		start := time.Now()
		for range 10 {
			srv.ListChanged(mcp.MethodNotificationsToolsListChanged)
			if got := reading.message(); !strings.Contains(got, "notifications/tools/list_changed") {
				t.Errorf("got %s", got)
			}
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("the notifications took %v", d)
		}
		start = time.Now()
		if err := srv.Close(); err != nil || time.Since(start) > time.Second {
			t.Errorf("closed after %v: %v", time.Since(start), err)
		}
	})
}

// panickingWriter is an http.ResponseWriter of a wrapper that panics when a stream begins.
type panickingWriter struct{ *httptest.ResponseRecorder }

func (w panickingWriter) WriteHeader(int) { panic(http.ErrAbortHandler) }

// A wrapper of the handler may end a request with a panic of its writer. In a goroutine of the
// Handler, such a panic would end the process.
func TestPanicOfWriterCancelsModernRequest(t *testing.T) {
	for name, begin := range map[string]func(*streamable.Handler){
		"stream begins": func(*streamable.Handler) { time.Sleep(time.Second) },
		"closed":        func(h *streamable.Handler) { h.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := make(chan struct{}, 1)
				h := must.Get(newServerWithTool(t, nil, started).Handler(&streamable.HandlerOptions{Streams: streamable.Streams{After: 500 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler)}))
				defer h.Close()
				r := httptest.NewRequest("POST", "/", strings.NewReader(modernCall(1, "wait")))
				r.Header.Set("Content-Type", "application/json")
				for fields := callHeader("wait"); len(fields) > 0; fields = fields[2:] {
					r.Header.Set(fields[0], fields[1])
				}
				done := make(chan struct{})
				go func() { // ends with the call
					defer close(done)
					defer func() { recover() }() // as package http does
					h.ServeHTTP(panickingWriter{httptest.NewRecorder()}, r)
				}()
				<-started
				begin(h)
				<-done
			})
		})
	}
}
