package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// Shutdown returns when its context ends, even if a handler ignores its own context. Only Wait
// waits for that handler.
func TestShutdownReturnsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s, p := open(t, &session.Options{Handler: func(context.Context, *session.Request) (codec.Encoder, error) {
			<-release
			return nil, nil
		}})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := s.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took > 1200*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		p.talk(`< {"jsonrpc":"2.0","id":1,"error":{"code":-32051}}`)
		select {
		case <-s.Done():
			t.Error("the session ended although a handler runs")
		default:
		}
		close(release)
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// Shutdown also returns with its context if the peer does not read.
func TestShutdownReturnsWhenPeerDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := inmemory.Pair(inmemory.Options{MaxQueue: 1})
		defer x.Close()
		s := session.Serve(y, nil, &session.Options{Timeouts: session.Timeouts{Request: -1}})
		defer s.Close()
		for range 3 {
			go s.Ping(t.Context()) // ends with the session
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := s.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took > 1200*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

func TestPendingNotificationsAreHandledBeforeEnd(t *testing.T) {
	for name, end := range map[string]func(s *session.Session, p *peer) error{
		"CloseWrite of the peer": func(s *session.Session, p *peer) error {
			p.conn.CloseWrite()
			return s.Wait()
		},
		"Shutdown": func(s *session.Session, p *peer) error { return s.Shutdown(context.Background()) },
	} {
		for _, c := range []struct {
			each time.Duration
			want int
		}{{time.Millisecond, 100}, {time.Second, 100}} {
			if name != "Shutdown" && c.each == time.Second {
				c.want = 2 // the handler runs until the grace period ends
			}
			t.Run(fmt.Sprintf("%s, %v each", name, c.each), bubble(func(t *testing.T) {
				got := 0
				s, p := open(t, &session.Options{Timeouts: session.Timeouts{Grace: 2*time.Second + 500*time.Millisecond}, Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
					if req.Method != "x" {
						return nil, nil
					}
					select {
					case <-time.After(c.each):
						got++
					case <-ctx.Done():
					}
					return nil, nil
				}})
				for range 100 {
					if err := p.conn.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"x"}`)}); err != nil {
						t.Error(err)
					}
				}
				if err := end(s, p); err != nil {
					t.Error(err)
				}
				if got != c.want {
					t.Errorf("%d of 100 notifications were handled, want %d", got, c.want)
				}
			}))
		}
	}
}

// Calls that have returned and still wait for a late answer do not delay Shutdown.
func TestUnansweredCallsDoNotDelayShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, &session.Options{Timeouts: session.Timeouts{Request: time.Second}})
		var timedOut, closed atomic.Int32
		call := s.With(session.OnLate(func(_ json.RawMessage, err error) {
			switch {
			case errors.Is(err, session.ErrClosed):
				closed.Add(1)
			case err == session.ErrTimeout:
				timedOut.Add(1)
			default:
				t.Errorf("got %v", err)
			}
		}))
		const n = 3000
		for range n {
			go func() {
				if _, err := call.Call(t.Context(), "roots/list", nil); err != session.ErrTimeout {
					t.Errorf("got %v", err)
				}
			}()
		}
		time.Sleep(time.Minute)
		p.take()
		if got := timedOut.Load(); got != n-1024 {
			t.Errorf("%d late answers timed out, want %d", got, n-1024)
		}
		start := time.Now()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("Shutdown took %v", took)
		}
		if got := closed.Load(); got != 1024 {
			t.Errorf("%d late answers ended with the session, want 1024", got)
		}
	})
}

func TestLateAnswerIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		late := make(chan string, 10)
		call := s.With(session.Timeout(time.Second), session.OnLate(func(result json.RawMessage, err error) { late <- fmt.Sprint(string(result), err) }))
		for i := range 3 {
			if _, err := call.Call(t.Context(), "roots/list", nil); err != session.ErrTimeout {
				t.Errorf("got %v", err)
			}
			p.take()
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"n":%d}}`, i+1, i))
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"n":"again"}}`, i+1))
			if got, want := <-late, fmt.Sprintf(`{"n":%d}<nil>`, i); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		synctest.Wait()
		if len(late) > 0 {
			t.Errorf("an answer was delivered twice: %s", <-late)
		}
	})
}

func TestOnProgressIsNotCalledAfterReturn(t *testing.T) {
	for _, by := range []string{"timeout", "context"} {
		t.Run(by, bubble(func(t *testing.T) {
			c, _ := sessiontest.Pair(t, sessiontest.Side{}, toolServer(func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				for i := 1; ctx.Err() == nil; i++ {
					req.Internals(boundary.Caller{}).Progress().Report(session.Progress{Value: float64(i)})
					time.Sleep(100 * time.Millisecond)
				}
				return nil, nil
			}))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			timeout := session.Timeout(5 * time.Second)
			if by == "context" {
				timeout = session.Timeout(0)
				time.AfterFunc(5*time.Second, cancel)
			}
			var begun, ended, returned atomic.Int32
			_, err := c.With(timeout, session.OnProgress(func(session.Progress) {
				if returned.Load() > 0 {
					t.Error("OnProgress was called after the return of the call")
				}
				begun.Add(1)
				time.Sleep(700 * time.Millisecond)
				ended.Add(1)
			})).Call(ctx, "x", nil)
			returned.Add(1)
			if err == nil {
				t.Error("the call succeeded")
			}
			if by == "timeout" && begun.Load() != ended.Load() {
				t.Error("OnProgress was running when the call returned")
			}
			time.Sleep(time.Minute)
		}))
	}
}

func TestNegativeTimeoutFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		start := time.Now()
		if _, err := s.With(session.Timeout(time.Until(start.Add(-time.Second)))).Call(t.Context(), "roots/list", nil); err != session.ErrTimeout || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		p.talk("")
	})
}

// Proves LIFE-18.
func TestInputRequestsHaveTheirOwnTimeout(t *testing.T) {
	for _, c := range []struct {
		cfg    session.Options
		method string
		want   time.Duration
	}{
		{session.Options{}, "roots/list", session.DefaultTimeout},
		{session.Options{}, "elicitation/create", session.DefaultInputTimeout},
		{session.Options{}, "sampling/createMessage", session.DefaultInputTimeout},
		{session.Options{Timeouts: session.Timeouts{Request: time.Second, Input: 2 * time.Second}}, "roots/list", time.Second},
		{session.Options{Timeouts: session.Timeouts{Request: time.Second, Input: 2 * time.Second}}, "elicitation/create", 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, p := open(t, &c.cfg)
			start := time.Now()
			if _, err := s.Call(t.Context(), c.method, session.Raw(`{}`)); err != session.ErrTimeout || time.Since(start) != c.want {
				t.Errorf("%s: after %v: %v", c.method, time.Since(start), err)
			}
			p.take()
		})
	}
}

// The default timeout of a client starts again when the user has answered an input request.
func TestTimeoutStartsAgainAfterInputRequest(t *testing.T) {
	const minute = time.Minute
	for name, test := range map[string]struct {
		user, work time.Duration // how long the user takes, and then the tool
		cfg        session.Options
		opts       []session.Option
		want       time.Duration // when the call ends
		failure    error
	}{
		"slow user":            {user: 5 * minute, work: minute / 2, want: 5*minute + minute/2},
		"slow tool afterwards": {user: 5 * minute, work: 2 * minute, want: 6 * minute, failure: session.ErrTimeout},
		"slow tool before":     {work: 2 * minute, want: minute, failure: session.ErrTimeout},
		"user without end":     {user: 2 * time.Hour, want: time.Hour, failure: session.ErrTimeout},
		"other limit":          {user: time.Hour, cfg: session.Options{Timeouts: session.Timeouts{Input: 3 * minute}}, want: 3 * minute, failure: session.ErrTimeout},
		"explicit timeout":     {user: 5 * minute, opts: []session.Option{session.Timeout(2 * minute)}, want: 2 * minute, failure: session.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wait := func(ctx context.Context, d time.Duration) error {
					select {
					case <-time.After(d):
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
				test.cfg.Handler = func(ctx context.Context, _ *session.Request) (codec.Encoder, error) {
					return session.Raw(`{"action":"decline"}`), wait(ctx, test.user)
				}
				tools := toolServer(func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
					if test.user > 0 {
						ask := req.Session.With(session.Timeout(0))
						if _, err := ask.Call(ctx, "elicitation/create", session.Raw(`{"message":"?","requestedSchema":{"type":"object","properties":{}}}`)); err != nil {
							return nil, err
						}
					}
					return session.Raw(`{}`), wait(ctx, test.work)
				})
				user := sessiontest.Side{Config: test.cfg, Client: mcp.ClientCapabilities{Elicitation: &mcp.ClientCapabilitiesElicitation{}}}
				c, _ := sessiontest.Pair(t, user, tools)
				start := time.Now()
				_, err := c.With(test.opts...).Call(t.Context(), "tools/call", session.Raw(`{"name":"book"}`))
				if took := time.Since(start); err != test.failure || took != test.want {
					t.Errorf("after %v: %v, want %v after %v", took, err, test.failure, test.want)
				}
			})
		})
	}
}

// Proves LIFE-01.
func TestNotificationsWaitForHandshake(t *testing.T) {
	handler := func(got *methodNames) session.Handler {
		return func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			got.mu.Lock()
			defer got.mu.Unlock()
			got.names = append(got.names, req.Method)
			return nil, nil
		}
	}
	t.Run("server", bubble(func(t *testing.T) {
		var got methodNames
		slow := func(next session.Handler) session.Handler {
			return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if req.Method == "initialize" {
					time.Sleep(time.Second)
				}
				return next(ctx, req)
			}
		}
		_, p := serve(t, &session.Options{Logger: quiet(), Handler: handler(&got), Hooks: session.Hooks{Receiving: []session.Middleware{slow}}})
		p.send(`{"jsonrpc":"2.0","method":"x/before"}`)
		p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
		p.send(`{"jsonrpc":"2.0","method":"x/rejected"}`)
		time.Sleep(time.Minute)
		p.send(`{"jsonrpc":"2.0","method":"x/still before"}`)
		p.send(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		p.send(`{"jsonrpc":"2.0","method":"x/meanwhile"}`)
		if got := got.String(); got != "" {
			t.Errorf("the handler got %s before the answer to initialize", got)
		}
		time.Sleep(time.Minute)
		p.send(`{"jsonrpc":"2.0","method":"x/after"}`)
		if got := got.String(); got != "x/meanwhile x/after" {
			t.Errorf("the handler got %s", got)
		}
		p.take()
	}))
	t.Run("client", bubble(func(t *testing.T) {
		var got methodNames
		p, conn := newPeer(t)
		done := make(chan *session.Session)
		go func() {
			s, err := session.Connect(t.Context(), conn, nil, &session.Options{Handler: handler(&got)})
			if err != nil {
				t.Error(err)
			}
			done <- s
		}()
		p.take()
		p.send(`{"jsonrpc":"2.0","method":"x/meanwhile"}`)
		if got := got.String(); got != "" {
			t.Errorf("the handler got %s before the answer to initialize", got)
		}
		p.send(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)
		s := <-done
		p.take()
		if got := got.String(); got != "x/meanwhile" {
			t.Errorf("the handler got %s", got)
		}
		s.Close()
	}))
}

// methodNames records the names of the methods that a handler has received.
type methodNames struct {
	mu    sync.Mutex
	names []string
}

func (m *methodNames) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.names, " ")
}

// answeringContext is a context whose Err calls answer after done is closed. The answer thus
// arrives while the call is failing.
type answeringContext struct {
	context.Context
	done   chan struct{}
	answer func()
}

func (c *answeringContext) Done() <-chan struct{} { return c.done }

func (c *answeringContext) Err() error {
	select {
	case <-c.done:
		c.answer()
		return context.Canceled
	default:
		return nil
	}
}

// Proves CANC-02.
func TestAnsweredRequestIsNotCancelled(t *testing.T) {
	for name, opts := range map[string][]session.Option{
		"answer is dropped":   nil,
		"answer is delivered": {session.OnLate(func(json.RawMessage, error) {})},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			s, p := open(t, nil)
			ctx := &answeringContext{context.Background(), make(chan struct{}), func() {
				p.conn.Write(context.Background(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)})
			}}
			failed := make(chan error)
			go func() {
				_, err := s.With(opts...).Call(ctx, "roots/list", nil)
				failed <- err
			}()
			p.talk(`< {"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
			close(ctx.done)
			if err := <-failed; err != context.Canceled {
				t.Errorf("got %v", err)
			}
			p.talk("")
		}))
	}
}

// Proves CANC-09: each request is answered at most once, and a request that was cancelled earlier
// is not answered.
func TestNoRequestIsAnsweredTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := make(chan bool, 1000)
		_, p := open(t, &session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.IsNotification() {
				return nil, nil
			}
			runtime.Gosched()
			cancelled <- ctx.Err() != nil
			return nil, ctx.Err()
		}})
		const n = 500
		for i := range n {
			for _, text := range []string{`{"jsonrpc":"2.0","id":%d,"method":"x"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`} {
				if err := p.conn.Write(t.Context(), transport.Message{Text: fmt.Appendf(nil, text, i+1)}); err != nil {
					t.Error(err)
				}
			}
		}
		synctest.Wait()
		answers := map[codec.Scalar]int{}
		for _, text := range p.take() {
			var m struct {
				ID     codec.Scalar
				Result *struct{}
			}
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				t.Error(err)
			}
			if answers[m.ID]++; answers[m.ID] > 1 || m.Result == nil {
				t.Errorf("request %v, answer %d: %s", m.ID, answers[m.ID], text)
			}
		}
		for range n {
			<-cancelled
		}
	})
}

// Proves META-02.
func TestMetaKeysAreChecked(t *testing.T) {
	meta := func(key string) mcp.ResultMetaObject {
		var m mcp.ResultMetaObject
		m.Extra.Set(key, json.RawMessage(`1`))
		return m
	}
	for key, valid := range map[string]bool{
		"name": true, "": true, "com.example/name": true, "io.modelcontextprotocol/related-task": true, "a-b.c/": true, "x_y.z-1": true,
		"1a/x": false, "a-/x": false, "a/-x": false, "-": false, "a b": false, "/x": false, "a..b/x": false, "ä": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			m := meta(key)
			s, p := open(t, &session.Options{Logger: quiet(), Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
				return &mcp.CallToolResult{Meta: &m}, nil
			}})
			p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
			if got := p.take(); len(got) != 1 || strings.Contains(got[0], `"result"`) != valid {
				t.Errorf("result with %q: %s", key, got)
			}
			var params mcp.NotificationMetaObject
			params.Extra.Set(key, json.RawMessage(`1`))
			err := s.Notify(t.Context(), "notifications/x", &mcp.NotificationParams{Meta: &params})
			if (err == nil) != valid {
				t.Errorf("notification with %q: %v", key, err)
			}
			_, err = methods.AddMeta(json.RawMessage(`{}`), key, codec.IntScalar(1))
			if (err == nil) != valid {
				t.Errorf("AddMeta with %q: %v", key, err)
			}
			p.take()
		})
		synctest.Test(t, func(t *testing.T) {
			c, _ := sessiontest.Pair(t, sessiontest.Side{Config: session.Options{Hooks: session.Hooks{Sending: []session.SendMiddleware{func(next session.Sender) session.Sender {
				return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
					if call.Method == "x" {
						call.SetMeta(key, codec.IntScalar(1))
					}
					return next(ctx, call)
				}
			}}}}}, toolServer(func(context.Context, *session.Request) (codec.Encoder, error) { return nil, nil }))
			if _, err := c.Call(t.Context(), "x", nil); (err == nil) != valid {
				t.Errorf("SetMeta with %q: %v", key, err)
			}
		})
	}
	// Raw text is not checked: it may come from a third party.
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		if err := s.Notify(t.Context(), "notifications/x", session.Raw(`{"_meta":{"a b":1}}`)); err != nil {
			t.Error(err)
		}
		p.talk(`< {"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"a b":1}}}`)
	})
}

// A session holds no memory for a Tracker that has become unreachable.
func TestUnreachableTrackersAreRemoved(t *testing.T) {
	c, _ := pair(t, nil, func(context.Context, *session.Request) (codec.Encoder, error) { return nil, nil })
	kept := c.Internals(boundary.Caller{}).NewTracker()
	before := heap()
	for i := range 3000 {
		c.Internals(boundary.Caller{}).NewTracker()
		c.Internals(boundary.Caller{}).NewTrackerOfTask(fmt.Sprint(i))
		c.Internals(boundary.Caller{}).NewTrackerOfTask("the same")
		if _, err := c.Internals(boundary.Caller{}).NewTrackerFor(codec.StringScalar(fmt.Sprintf("a token with some text %d", i))); err != nil {
			t.Fatal(err)
		}
	}
	held := 0
	for range 1000 { // unreachable trackers are removed a moment after the collection
		if held = heap() - before; held < 1<<20 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if held >= 1<<20 { // a map keeps its size
		t.Errorf("unreachable trackers hold %d KiB", held>>10)
	}
	if _, err := c.Internals(boundary.Caller{}).NewTrackerFor(kept.Token()); err == nil || !strings.Contains(err.Error(), "token is in use") {
		t.Errorf("a Tracker that is in use: %v", err)
	}
	runtime.KeepAlive(kept)
}

// If the transport rejects an answer, its call fails. If it rejects a request, the session answers
// the request with an error.
func TestMessagesRejectedByTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := newPeer(t)
		s := session.Serve(&rejectingConn{conn}, nil, &session.Options{Logger: quiet()})
		p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		p.take()
		p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		failed := make(chan error)
		go func() {
			_, err := s.Call(t.Context(), "ping", nil)
			failed <- err
		}()
		p.talk(`
			< {"jsonrpc":"2.0","id":1,"method":"ping"}
			> {"jsonrpc":"2.0","id":1,"result":{"reject":1}}
		`)
		if err := <-failed; !errors.Is(err, transport.ErrTooLong) {
			t.Errorf("got %v", err)
		}
		p.talk(`
			> {"jsonrpc":"2.0","id":"a","method":"reject"}
			< {"jsonrpc":"2.0","id":"a","error":{"code":-32600}}
		`)
		s.Close()
	})
}

// rejectingConn is a connection that rejects marked messages as too long.
type rejectingConn struct{ transport.Conn }

func (r *rejectingConn) Read() (transport.Message, error) {
	m, err := r.Conn.Read()
	switch {
	case err != nil:
		return m, err
	case strings.Contains(string(m.Text), `"result":{"reject"`):
		return transport.Message{}, &transport.DeliveryError{ID: codec.IntScalar(1), Err: transport.ErrTooLong}
	case strings.Contains(string(m.Text), `"reject"`):
		return transport.Message{}, &transport.MessageError{ID: codec.StringScalar("a"), Err: transport.ErrTooLong}
	}
	return m, nil
}
