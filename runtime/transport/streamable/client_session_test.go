package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

func TestClientReopensDroppedSession(t *testing.T) {
	// Proves HTTP-45.
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		reopened := make(chan *mcp.InitializeResult, 1)
		s := f.connect(f.options(), &session.Options{Hooks: session.Hooks{Reopened: func(result *mcp.InitializeResult) { reopened <- result }}})
		f.drop()
		var wg sync.WaitGroup
		for range 3 { // concurrent pings open only one new session
			wg.Go(func() {
				if err := s.Ping(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		count := map[string]int{}
		for _, line := range f.takeLog() {
			if line != "POST ping s1 2025-11-25" { // pings sent before the loss is known
				count[line]++
			}
		}
		want := map[string]int{
			"POST initialize": 1, "POST notifications/initialized s2 2025-11-25": 1,
			"POST ping s2 2025-11-25": 3, "GET s2 2025-11-25": 1,
		}
		if diff := cmp.Diff(want, count); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if result := <-reopened; result.ServerInfo.Name != "fake" {
			t.Errorf("reopened with %+v", result)
		}
		if err := s.Notify(t.Context(), "notifications/roots/list_changed", nil); err != nil {
			t.Error(err)
		}
		check(t, "afterwards", []string{"POST notifications/roots/list_changed s2 2025-11-25"}, f.takeLog())
	})
}

// The server rejects a call of a dropped session when the next session is open.
func TestCallRejectedAfterReopenIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.reject = func(m jsonrpc.Message) {
			if m.Method == "tools/list" {
				time.Sleep(time.Second)
			}
		}
		s := f.connect(f.options(), nil)
		f.drop()
		f.takeLog()
		var wg sync.WaitGroup
		for _, method := range []string{"tools/list", "ping"} {
			wg.Go(func() {
				if _, err := s.Call(t.Context(), method, nil); err != nil {
					t.Errorf("%s: %v", method, err)
				}
			})
			if method == "tools/list" {
				synctest.Wait() // the server has received it
			}
		}
		wg.Wait()
		got := f.takeLog()
		slices.Sort(got)
		check(t, "requests", []string{
			"GET s2 2025-11-25", "POST initialize", "POST notifications/initialized s2 2025-11-25",
			"POST ping s1 2025-11-25", "POST ping s2 2025-11-25",
			"POST tools/list s1 2025-11-25", "POST tools/list s2 2025-11-25",
		}, got)
	})
}

// Some servers reject a dropped session with status 400, not 404. The client distinguishes this
// from the rejection of a single message.
func TestClientDistinguishesDroppedSessionFromRejectedMessage(t *testing.T) {
	const sdk = `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`
	reject := func(w http.ResponseWriter, kind, text string) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(http.StatusBadRequest)
		w.Write([]byte(text))
	}
	reopened := []string{
		"POST tools/list s1 2025-11-25", "POST ping s1 2025-11-25",
		"POST initialize", "POST notifications/initialized s2 2025-11-25", "GET s2 2025-11-25",
		"POST tools/list s2 2025-11-25",
	}
	for _, test := range []struct {
		name string
		// Answers tools/list in the first session.
		list   func(w http.ResponseWriter, m jsonrpc.Message)
		ping   func(f *fakeServer, w http.ResponseWriter, m jsonrpc.Message)
		want   []string
		status bool // the request fails with status 400
	}{
		{"JSON-RPC error without an id", func(w http.ResponseWriter, _ jsonrpc.Message) { reject(w, "application/json", sdk) },
			func(_ *fakeServer, w http.ResponseWriter, _ jsonrpc.Message) { reject(w, "application/json", sdk) }, reopened, false},
		{"text", func(w http.ResponseWriter, _ jsonrpc.Message) { reject(w, "text/plain", "Invalid session ID") },
			func(_ *fakeServer, w http.ResponseWriter, _ jsonrpc.Message) {
				reject(w, "text/plain", "Invalid session ID")
			}, reopened, false},
		{"ping gets 404", func(w http.ResponseWriter, _ jsonrpc.Message) { reject(w, "text/plain", "no") },
			func(_ *fakeServer, w http.ResponseWriter, _ jsonrpc.Message) { w.WriteHeader(http.StatusNotFound) }, reopened, false},
		{"ping is answered", func(w http.ResponseWriter, _ jsonrpc.Message) { reject(w, "application/json", sdk) },
			func(f *fakeServer, w http.ResponseWriter, m jsonrpc.Message) { f.answer(w, m, `{}`) }, reopened[:2], true},
		{"server without ping", func(w http.ResponseWriter, _ jsonrpc.Message) { reject(w, "text/plain", "no") },
			func(_ *fakeServer, w http.ResponseWriter, m jsonrpc.Message) {
				reject(w, "application/json", `{"jsonrpc":"2.0","id":`+m.ID.String()+`,"error":{"code":-32601,"message":"unknown method"}}`)
			}, reopened[:2], true},
		{"ping gets 502", func(w http.ResponseWriter, _ jsonrpc.Message) { reject(w, "text/plain", "no") },
			func(_ *fakeServer, w http.ResponseWriter, _ jsonrpc.Message) { w.WriteHeader(http.StatusBadGateway) }, reopened[:2], true},
		{"JSON-RPC error with the request's id", func(w http.ResponseWriter, m jsonrpc.Message) {
			reject(w, "application/json", `{"jsonrpc":"2.0","id":`+m.ID.String()+`,"error":{"code":-32602,"message":"no"}}`)
		}, nil, reopened[:1], false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				f.call = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
					switch {
					case r.Header.Get("Mcp-Session-Id") != "s1":
						f.answer(w, m, `{}`)
					case m.Method == "tools/list":
						test.list(w, m)
					default:
						test.ping(f, w, m)
					}
				}
				s := f.connect(f.options(), nil)
				_, err := s.Call(t.Context(), "tools/list", nil)
				status, rejected := errors.AsType[*httpclient.StatusError](err)
				if rejected != test.status || rejected && status.Code != http.StatusBadRequest {
					t.Errorf("got %v", err)
				}
				check(t, "requests", test.want, f.takeLog())
			})
		})
	}
}

func TestStatus400OnStreamRevealsDroppedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		cut := make(chan bool)
		f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
			switch {
			case r.Method != "GET":
				return false
			case r.Header.Get("Last-Event-Id") != "":
				http.Error(w, "Invalid or missing session ID", http.StatusBadRequest)
				return true
			}
			stream(w)("id: 1\ndata:\n\n")
			select {
			case <-cut:
			case <-r.Context().Done():
			}
			return true
		}
		f.call = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			http.Error(w, "Invalid or missing session ID", http.StatusBadRequest)
		}
		f.connect(f.options(), nil)
		cut <- true
		time.Sleep(time.Second)
		check(t, "requests", []string{
			"GET s1 2025-11-25 1", "POST ping s1 2025-11-25",
			"POST initialize", "POST notifications/initialized s2 2025-11-25", "GET s2 2025-11-25",
		}, f.takeLog())
	})
}

// If a server drops each session at once, the client opens further ones more and more slowly, even
// if the host uses each session or the server accepts a request in it.
func TestClientBacksOffWhenSessionsAreDropped(t *testing.T) {
	for name, accepted := range map[string]int{"no request": 0, "one request": 1} {
		t.Run(name, func(t *testing.T) { testDroppedSessions(t, accepted) })
	}
}

func testDroppedSessions(t *testing.T, accepted int) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		o := f.options()
		o.NoListen = true
		var s *session.Session
		connected := make(chan bool)
		cfg := &session.Options{Timeouts: session.Timeouts{Request: -1}, Hooks: session.Hooks{Reopened: func(*mcp.InitializeResult) {
			<-connected
			for range accepted + 1 {
				s.Ping(context.Background())
			}
		}}}
		var mu sync.Mutex
		calls := map[string]int{} // number of calls by session id
		f.call = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			mu.Lock()
			id := r.Header.Get("Mcp-Session-Id")
			calls[id]++
			accept := calls[id] <= accepted || len(calls) > 1000 // ends a flood
			mu.Unlock()
			if accept {
				f.answer(w, m, `{}`)
				return
			}
			w.WriteHeader(http.StatusNotFound)
		}
		s = f.connect(o, cfg)
		close(connected)
		for range accepted + 1 {
			s.Ping(t.Context())
		}
		time.Sleep(10 * time.Minute)
		if f.mu.Lock(); f.sessions < 20 || f.sessions > 50 {
			t.Errorf("%d sessions were opened in ten minutes", f.sessions)
		}
		f.mu.Unlock()
	})
}

// The delay also increases if the server accepts initialize and never answers it.
func TestClientBacksOffWhenInitializeIsUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		o := f.options()
		o.NoListen = true
		s := f.connect(o, &session.Options{Timeouts: session.Timeouts{Request: -1}})
		var attempts atomic.Int64
		f.initialize = func(w http.ResponseWriter, _ *http.Request) bool {
			if attempts.Add(1) > 1000 {
				return false // ends a flood
			}
			stream(w)(": cut\n\n")
			return true
		}
		f.drop()
		s.Ping(t.Context())
		time.Sleep(10 * time.Minute)
		if n := attempts.Load(); n < 20 || n > 50 {
			t.Errorf("%d attempts in ten minutes", n)
		}
	})
}

func TestClientDoesNotRepeatAcceptedRequests(t *testing.T) {
	// Proves HTTP-45 and HTTP-37.
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		cancelled := make(chan error, 1)
		f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			if m.Method == "ping" {
				f.answer(w, m, `{}`)
				return
			}
			stream(w)("id: 1\ndata: %s\n\n", `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
		}
		s := f.connect(f.options(), &session.Options{Handler: sessiontest.ClientHandler(blockingClient{cancelled: cancelled}, nil)})
		answer := make(chan error)
		go func() {
			_, err := s.Call(t.Context(), "tools/list", nil)
			answer <- err
		}()
		synctest.Wait() // the stream has broken, and the client waits to resume it
		f.drop()
		if err := <-answer; !errors.Is(err, transport.ErrSessionLost) {
			t.Errorf("the request fails with %v", err)
		}
		if err := <-cancelled; !errors.Is(err, session.ErrCancelled) {
			t.Errorf("the server's request ends with %v", err)
		}
		check(t, "requests", []string{
			"POST tools/list s1 2025-11-25", "GET s1 2025-11-25 1",
			"POST initialize", "POST notifications/initialized s2 2025-11-25", "GET s2 2025-11-25",
		}, f.takeLog())
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("a ping in the new session: %v", err)
		}
	})
}

// blockingClient is a client that does not answer roots/list. It waits until the request is
// cancelled.
type blockingClient struct {
	mcp.UnimplementedClientHandler
	cancelled chan error
}

func (a blockingClient) ListRoots(ctx context.Context, _ *mcp.RequestParams) (*mcp.ListRootsResult, error) {
	<-ctx.Done()
	a.cancelled <- context.Cause(ctx)
	return nil, ctx.Err()
}

// Proves HTTP-45.
func TestStandingStreamRevealsDroppedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		cut := make(chan bool)
		f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
			if r.Method != "GET" {
				return false
			}
			stream(w)("id: 1\ndata:\n\n")
			select {
			case <-cut:
			case <-r.Context().Done():
			}
			return true
		}
		f.connect(f.options(), nil)
		f.drop()
		cut <- true
		time.Sleep(time.Second)
		check(t, "requests", []string{
			"GET s1 2025-11-25 1", "POST initialize", "POST notifications/initialized s2 2025-11-25", "GET s2 2025-11-25",
		}, f.takeLog())
	})
}

// An answer belongs to one session. If that session is lost, the client opens another one and does
// not send the answer there.
//
// Proves HTTP-45.
func TestRejectedAnswerRevealsDroppedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
			if r.Method != "GET" {
				return false
			}
			send := stream(w)
			if strings.HasSuffix(r.Header.Get("Mcp-Session-Id"), "s1") {
				send("data: %s\n\n", `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
			}
			<-r.Context().Done()
			return true
		}
		dropped := make(chan bool)
		f.connect(f.options(), &session.Options{Handler: func(context.Context, *session.Request) (codec.Encoder, error) {
			<-dropped
			return session.Raw(`{"roots":[]}`), nil
		}})
		f.drop()
		close(dropped)
		check(t, "requests", []string{
			`POST {"jsonrpc":"2.0","id":"q","result":{"roots":[]}} s1 2025-11-25`,
			"POST initialize", "POST notifications/initialized s2 2025-11-25", "GET s2 2025-11-25",
		}, f.takeLog())
	})
}

func TestClientEndsIfReopenFails(t *testing.T) {
	for _, test := range []struct {
		name       string
		initialize func(f *fakeServer, w http.ResponseWriter) bool
		ends       bool // the session ends, and there are no further attempts
	}{
		{"initialize is rejected", func(_ *fakeServer, w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusForbidden)
			return true
		}, true},
		{"the revision has changed", func(f *fakeServer, _ http.ResponseWriter) bool {
			f.revision = "2025-03-26"
			return false
		}, true},
		{"the server is unavailable", func(_ *fakeServer, w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}, false},
		{"a proxy knows no path", func(_ *fakeServer, w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusNotFound)
			return true
		}, false},
		{"a proxy serves only files", func(_ *fakeServer, w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return true
		}, false},
		{"a proxy shows a page", func(_ *fakeServer, w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<p>Back soon</p>")
			return true
		}, false},
		{"a proxy redirects to a page", func(_ *fakeServer, w http.ResponseWriter) bool {
			w.Header().Set("Location", "/maintenance")
			w.WriteHeader(http.StatusFound)
			return true
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				s := f.connect(f.options(), nil)
				f.drop()
				f.initialize = func(w http.ResponseWriter, _ *http.Request) bool { return test.initialize(f, w) }
				if err := s.Ping(t.Context()); !errors.Is(err, transport.ErrSessionLost) {
					t.Errorf("got %v, want %v", err, transport.ErrSessionLost)
				}
				synctest.Wait()
				f.initialize = nil
				err := s.Ping(t.Context())
				if ended := errors.Is(err, session.ErrClosed); ended != test.ends || !ended && err != nil {
					t.Errorf("the second ping: %v", err)
				}
			})
		})
	}
}

// The responses that do not end a client fail its first handshake at once.
func TestFirstSessionIsOpenedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		var attempts atomic.Int32
		f.initialize = func(w http.ResponseWriter, _ *http.Request) bool {
			attempts.Add(1)
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		o := f.options()
		o.NoFallback = true
		_, err := session.Connect(t.Context(), f.dial(o), &mcp.InitializeRequestParams{}, nil)
		status, _ := errors.AsType[*httpclient.StatusError](err)
		if status == nil || status.Code != http.StatusNotFound || attempts.Load() != 1 || time.Since(f.begin) != 0 {
			t.Errorf("%d attempts in %v: %v", attempts.Load(), time.Since(f.begin), err)
		}
	})
}

func TestTimedOutCallSendsCancellation(t *testing.T) {
	// Proves HTTP-23.
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		closedAt := make(chan time.Duration, 1)
		f.call = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			stream(w)(": working\n\n")
			<-r.Context().Done()
			closedAt <- f.since()
		}
		s := f.connect(f.options(), nil)
		start := f.since()
		_, err := s.With(session.Timeout(3*time.Second)).Call(t.Context(), "tools/list", nil)
		if err != session.ErrTimeout {
			t.Errorf("got %v", err)
		}
		check(t, "requests", []string{"POST tools/list s1 2025-11-25", "POST notifications/cancelled s1 2025-11-25"}, f.takeLog())
		if d := <-closedAt - start; d < 3*time.Second || d > 5*time.Second {
			t.Errorf("the client closed the stream after %v", d)
		}
	})
}

// The stream of a request that was cancelled is not resumed when the server ends it.
func TestStreamOfCancelledRequestIsNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		cancelled := make(chan bool)
		f.call = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
			stream(w)("id: 1\nretry: 1\ndata:\n\n")
			<-cancelled
		}
		f.other = func(_ http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			if m.Method == "notifications/cancelled" {
				cancelled <- true
			}
			return false
		}
		s := f.connect(f.options(), nil)
		if _, err := s.With(session.Timeout(time.Second)).Call(t.Context(), "tools/list", nil); err != session.ErrTimeout {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Minute)
		check(t, "requests", []string{"POST tools/list s1 2025-11-25", "POST notifications/cancelled s1 2025-11-25"}, f.takeLog())
	})
}

// A call that creates a task is not cancelled when its caller stops waiting, but its stream is
// closed.
func TestStreamOfAbandonedTaskCallIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.tasks = true
		var left atomic.Int32 // used by the server's goroutines
		f.call = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) {
			stream(w)(": waiting\n\n")
			<-r.Context().Done()
			left.Add(1)
		}
		s := f.connect(f.options(), nil)
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := s.Call(ctx, "tools/call", &mcp.CallToolRequestParams{Name: "t", Task: &mcp.TaskMetadata{}})
			if cancel(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		time.Sleep(time.Minute)
		if synctest.Wait(); left.Load() != 3 {
			t.Errorf("%d streams were closed, want 3", left.Load())
		}
	})
}

func TestCallReturnsErrorOfItsResponse(t *testing.T) {
	long := strings.Repeat("x", 2000)
	status := func(code int) func(*fakeServer, http.ResponseWriter, jsonrpc.Message) {
		return func(_ *fakeServer, w http.ResponseWriter, _ jsonrpc.Message) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "rejected", code)
		}
	}
	raw := func(contentType, text string) func(*fakeServer, http.ResponseWriter, jsonrpc.Message) {
		return func(_ *fakeServer, w http.ResponseWriter, m jsonrpc.Message) {
			w.Header().Set("Content-Type", contentType)
			w.Write([]byte(strings.ReplaceAll(text, "ANSWER", response(m, `{"tools":[]}`))))
		}
	}
	isStatus := func(code int) func(error) bool {
		return func(err error) bool {
			e, ok := errors.AsType[*httpclient.StatusError](err)
			return ok && e.Code == code && e.Header.Get("WWW-Authenticate") == "Bearer" && strings.Contains(e.Error(), "rejected")
		}
	}
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	fine := func(err error) bool { return err == nil }
	for _, test := range []struct {
		name string
		call func(*fakeServer, http.ResponseWriter, jsonrpc.Message)
		want func(error) bool
	}{
		{"401", status(401), isStatus(401)},
		{"403", status(403), isStatus(403)},
		{"405", status(405), isStatus(405)},
		{"429", status(429), isStatus(429)},
		{"500", status(500), isStatus(500)},
		{"503", status(503), isStatus(503)},
		{"JSON-RPC error with the request's id and a status", func(_ *fakeServer, w http.ResponseWriter, m jsonrpc.Message) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			w.Write([]byte(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"error":{"code":-32602,"message":"no"}}`))
		}, func(err error) bool {
			e, ok := errors.AsType[*jsonrpc.Error](err)
			return ok && e.Code == -32602
		}},
		{"JSON-RPC error without an id and a status", func(_ *fakeServer, w http.ResponseWriter, m jsonrpc.Message) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			w.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}`))
		}, func(err error) bool {
			e, ok := errors.AsType[*httpclient.StatusError](err)
			return ok && e.RPC != nil && e.RPC.Code == -32000
		}},
		{"HTML", raw("text/html", "<html>"), is(httpclient.ErrContent)},
		{"no content type", func(_ *fakeServer, w http.ResponseWriter, _ jsonrpc.Message) { w.WriteHeader(http.StatusNoContent) }, is(httpclient.ErrContent)},
		{"202 without a standing stream", func(_ *fakeServer, w http.ResponseWriter, _ jsonrpc.Message) { w.WriteHeader(http.StatusAccepted) }, is(httpclient.ErrContent)},
		{"content type in capitals with parameters", raw("Application/JSON; charset=UTF-8", "ANSWER"), fine},
		{"stream with malformed parameters", raw("text/event-stream;;x", "data: ANSWER\n\n"), fine},
		{"invalid JSON", raw("application/json", "ANSWER}"), func(err error) bool { return err != nil && !errors.Is(err, session.ErrClosed) }},
		{"empty body", raw("application/json", ""), is(httpclient.ErrContent)},
		{"answer to another request", raw("application/json", `{"jsonrpc":"2.0","id":"other","result":{}}`), is(httpclient.ErrContent)},
		{"overlong answer", raw("application/json", `{"x":"`+long+`"}`), is(transport.ErrTooLong)},
		{"overlong answer of unknown length", func(_ *fakeServer, w http.ResponseWriter, m jsonrpc.Message) {
			w.Header().Set("Content-Type", "application/json")
			for range 4 {
				w.Write([]byte(long))
				http.NewResponseController(w).Flush()
			}
		}, is(transport.ErrTooLong)},
		{"overlong event before the answer", raw("text/event-stream", "data: "+long+"\n\ndata: ANSWER\n\n"), fine},
		{"overlong answer in an event", raw("text/event-stream", `data: {"result":{"x":"`+long+`"},"jsonrpc":"2.0","id":"other"}`+"\n\n"), is(transport.ErrTooLong)},
		{"overlong answer in many data lines", raw("text/event-stream", "data: {\"result\":{\ndata: \"x\":\ndata: \""+long+"\"},\ndata: \"id\":7\ndata: }\n\n"), is(transport.ErrTooLong)},
		{"stream without an answer", raw("text/event-stream", "data: {}\n\n"), is(httpclient.ErrCut)},
		{"stream with an event of another kind", raw("text/event-stream", "event: other\ndata: ANSWER\n\n"), is(httpclient.ErrCut)},
		{"stream with all kinds of fields", raw("text/event-stream", "\ufeff: hello\r\rid:1\revent: message\rdata:\r\r\nretry: x\r\nfoo: bar\r\nevent:message\r\ndata:ANSWER\r\n\r\n"), fine},
		{"redirect to another origin", func(_ *fakeServer, w http.ResponseWriter, _ jsonrpc.Message) {
			w.Header().Set("Location", "http://elsewhere.example/mcp")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, is(httpclient.ErrRedirect)},
		{"redirect that changes the method", func(_ *fakeServer, w http.ResponseWriter, _ jsonrpc.Message) {
			w.Header().Set("Location", "/other")
			w.WriteHeader(http.StatusFound)
		}, is(httpclient.ErrRedirect)},
		{"broken connection", func(*fakeServer, http.ResponseWriter, jsonrpc.Message) { panic(http.ErrAbortHandler) },
			func(err error) bool { return err != nil && !errors.Is(err, session.ErrClosed) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				o := f.options()
				o.Limits.Message = 1500
				s := f.connect(o, nil)
				posts := 0
				f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
					if m.Method == "ping" {
						f.answer(w, m, `{}`)
						return
					}
					posts++
					test.call(f, w, m)
				}
				_, err := s.Call(t.Context(), "tools/list", nil)
				if !test.want(err) {
					t.Errorf("got %v", err)
				}
				if err := s.Ping(t.Context()); err != nil {
					t.Errorf("a ping after the response: %v", err)
				}
				if posts != 1 {
					t.Errorf("the request was posted %d times", posts)
				}
			})
		})
	}
}

func TestClientFollowsRedirectWithinOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		s := f.connect(f.options(), nil)
		f.call = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			if r.URL.Path == "/mcp" {
				w.Header().Set("Location", "/other")
				w.WriteHeader(http.StatusPermanentRedirect)
				return
			}
			f.answer(w, m, `{}`)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestClientResumesAfterCutAtEveryByte(t *testing.T) {
	// Proves HTTP-35.
	full := "id: a1\ndata: \n\nid: a2\ndata: " + logLine("one") + "\n\nid: a3\r\ndata: ANSWER\r\n\r\n"
	for cut := len("id: a1\ndata: \n\n"); cut < len(full)+30; cut += 1 {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeServer(t)
			var asked jsonrpc.Message
			events := func() string { return strings.ReplaceAll(full, "ANSWER", response(asked, `{"tools":[]}`)) }
			f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
				asked = m
				stream(w)("%s", events()[:min(cut, len(events()))])
				panic(http.ErrAbortHandler)
			}
			f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
				id := r.Header.Get("Last-Event-Id")
				if id == "" {
					return false
				}
				rest := events()
				rest = rest[strings.Index(rest, "id: "+id):]
				_, rest, _ = strings.Cut(rest, "\n\n")
				stream(w)("%s", rest)
				return true
			}
			logs := make(chan string, 10)
			s := f.connect(f.options(), &session.Options{Handler: sessiontest.ClientHandler(mcp.UnimplementedClientHandler{}, logger{logs: logs})})
			if _, err := (mcp.ToServer{Caller: s}).ListTools(t.Context(), nil); err != nil {
				t.Errorf("cut at %d: %v", cut, err)
			}
			synctest.Wait()
			if len(logs) != 1 {
				t.Errorf("cut at %d: %d messages arrived before the answer, want 1", cut, len(logs))
			}
		})
	}
}

func TestClientRetriesUnreachableServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		o := f.options()
		real := f.client.Transport
		down := 0
		o.HTTP = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if down > 0 {
				down--
				listener, unreachable := pipes(t)
				listener.Close()
				return unreachable.Transport.RoundTrip(r)
			}
			return real.RoundTrip(r)
		})}
		s := f.connect(o, nil)
		down = 5
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		check(t, "requests", []string{"POST ping s1 2025-11-25"}, f.takeLog())
		down = 5 + 1
		if err := s.Ping(t.Context()); err == nil || errors.Is(err, session.ErrClosed) {
			t.Errorf("got %v", err)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestHeaderAndPrepareAddHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		f := newFakeServer(t)
		o := f.options()
		o.Header = http.Header{"x-static": {"a"}}
		noToken := errors.New("no token")
		var panics atomic.Bool
		o.Prepare = func(r *http.Request) error {
			if r.Context().Value(key{}) == "no" {
				return noToken
			}
			if panics.Swap(false) {
				panic("no header")
			}
			r.Header.Add("X-Static", "b")
			r.Header.Set("X-Value", "of "+r.Method)
			return nil
		}
		s := f.connect(o, nil)
		var got []string
		f.call = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			got = append(r.Header["X-Static"], r.Header["X-Value"]...)
			f.answer(w, m, `{}`)
		}
		for range 2 {
			if err := s.Ping(t.Context()); err != nil {
				t.Error(err)
			}
			check(t, "headers", []string{"a", "b", "of POST"}, got)
		}
		if err := s.Ping(context.WithValue(t.Context(), key{}, "no")); !errors.Is(err, noToken) {
			t.Errorf("got %v", err)
		}
		panics.Store(true)
		if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "no header") {
			t.Errorf("after a panic: got %v", err)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("a ping after the panic: %v", err)
		}
	})
}

// The server fails in every way that causes an error or a log line. The session id is in none of
// them.
//
// Proves HTTP-41.
func TestErrorsAndLogsOmitSessionID(t *testing.T) {
	for name, fail := range map[string]func(f *fakeServer, w http.ResponseWriter, r *http.Request, m jsonrpc.Message){
		"status": func(_ *fakeServer, w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
			w.WriteHeader(http.StatusForbidden)
		},
		"broken stream": func(_ *fakeServer, w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
			stream(w)("id: 1\ndata:\n\n")
		},
		"HTML": func(_ *fakeServer, w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
			w.Header().Set("Content-Type", "text/html")
		},
		"broken connection": func(*fakeServer, http.ResponseWriter, *http.Request, jsonrpc.Message) { panic(http.ErrAbortHandler) },
		"redirect": func(_ *fakeServer, w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
			w.Header().Set("Location", "http://elsewhere.example/mcp")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		"dropped session": func(f *fakeServer, w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
			f.revision = "2025-06-18" // so that the client cannot open a new session
			f.drop()
			w.WriteHeader(http.StatusNotFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				f.prefix = "SECRET-"
				var log lines
				o := f.options()
				o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				s := f.connect(o, &session.Options{Logger: o.Logger})
				f.call = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) { fail(f, w, r, m) }
				f.other = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
					fail(f, w, r, m)
					return true
				}
				_, err := s.Call(t.Context(), "tools/list", nil)
				if err == nil {
					t.Error("the call has succeeded")
				}
				notified := s.Notify(t.Context(), "notifications/roots/list_changed", nil)
				closed := s.Close()
				for _, text := range []string{fmt.Sprintf("%v %+v %v %v", err, err, notified, closed), log.String()} {
					if strings.Contains(text, "SECRET") {
						t.Errorf("the id of the session is in %s", text)
					}
				}
				if status, ok := errors.AsType[*httpclient.StatusError](err); ok && strings.Contains(fmt.Sprint(status.Header, status.Body), "SECRET") {
					t.Errorf("the id of the session is in %v", status.Header)
				}
				if log.String() == "" {
					t.Error("nothing was logged")
				}
			})
		})
	}
}

// lines is a log that is safe for concurrent use.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestClientAcceptsAnswersInBatches(t *testing.T) {
	for _, kind := range []string{"application/json", "text/event-stream"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeServer(t)
			f.revision = "2025-03-26"
			pong := make(chan bool, 1)
			f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
				text := `[{"jsonrpc":"2.0","id":"q","method":"ping"},` + response(m, `{"tools":[]}`) + `]`
				if kind != "application/json" {
					text = "id: 1\ndata: " + text + "\n\n"
				}
				w.Header().Set("Content-Type", kind)
				w.Write([]byte(text))
			}
			f.other = func(_ http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
				if r.Method == "POST" {
					pong <- true
				}
				return false
			}
			s := f.connect(f.options(), nil)
			<-pong // notifications/initialized
			if _, err := (mcp.ToServer{Caller: s}).ListTools(t.Context(), nil); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			<-pong
			check(t, kind, []string{"POST tools/list s1 2025-03-26", `POST [{"jsonrpc":"2.0","id":"q","result":{}}] s1 2025-03-26`}, f.takeLog())
		})
	}
}

// valuelessContext is a context without values: it hides the trace hooks of the request.
type valuelessContext struct{ context.Context }

func (valuelessContext) Value(any) any { return nil }

func TestClientCancelsWithoutTraceHooks(t *testing.T) {
	// Proves HTTP-23.
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		o := f.options()
		real := f.client.Transport
		o.HTTP = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return real.RoundTrip(r.WithContext(valuelessContext{r.Context()}))
		})}
		f.call = func(_ http.ResponseWriter, r *http.Request, _ jsonrpc.Message) { <-r.Context().Done() }
		s := f.connect(o, nil)
		if _, err := s.With(session.Timeout(time.Second)).Call(t.Context(), "tools/list", nil); err != session.ErrTimeout {
			t.Errorf("got %v", err)
		}
		time.Sleep(10 * time.Second)
		check(t, "requests", []string{"POST tools/list s1 2025-11-25", "POST notifications/cancelled s1 2025-11-25"}, f.takeLog())
	})
}

// A server that answers nothing for longer than the interval of pings does not end the session for
// good. A call that the server may have received is not sent again.
func TestUnresponsiveServerIsReopened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		var hangs atomic.Bool
		f.call = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			if hangs.Load() {
				<-r.Context().Done()
				return
			}
			f.answer(w, m, `{}`)
		}
		f.initialize = func(w http.ResponseWriter, r *http.Request) bool {
			if hangs.Load() {
				<-r.Context().Done()
			}
			return hangs.Load()
		}
		reopened := make(chan bool, 1)
		s := f.connect(f.options(), &session.Options{Timeouts: session.Timeouts{KeepAlive: 10 * time.Second}, Hooks: session.Hooks{Reopened: func(*mcp.InitializeResult) { reopened <- true }}})
		hangs.Store(true)
		_, err := s.Call(t.Context(), "tools/list", nil)
		lost, ok := errors.AsType[*transport.DeliveryError](err)
		if !ok || !lost.Taken || !errors.Is(err, transport.ErrSessionLost) {
			t.Errorf("got %v", err)
		}
		if waited := f.since(); waited > time.Minute {
			t.Errorf("the call fails after %v", waited)
		}
		time.Sleep(5 * time.Minute)
		hangs.Store(false)
		<-reopened
		if _, err := s.Call(t.Context(), "tools/list", nil); err != nil {
			t.Error(err)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
