package session_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// fakeServer is a connection to a server whose answers the test defines. The test decides when a
// session is lost.
type fakeServer struct {
	in     chan readResult
	closed chan struct{}
	once   sync.Once

	// answer answers a request of a session; nil means an empty result. done is false if the
	// request is not answered yet.
	answer  func(session uint32, m jsonrpc.Message) (result string, err error, done bool)
	reopen  func(session uint32) error              // fails Reopen; may be nil
	written func(session uint32, m jsonrpc.Message) // called after a message is written; may be nil
	blocks  bool                                    // Write of tools/list waits for the end of its context

	mu      sync.Mutex
	session uint32
	lost    bool
	log     []string // written messages: the session and the method or id; also of rejected answers
}

type readResult struct {
	m   transport.Message
	err error
}

func newFakeServer() *fakeServer {
	return &fakeServer{in: make(chan readResult, 100), closed: make(chan struct{}), session: 1}
}

func (f *fakeServer) Read() (transport.Message, error) {
	select {
	case r := <-f.in:
		return r.m, r.err
	case <-f.closed:
		return transport.Message{}, transport.ErrClosed
	}
}

func (f *fakeServer) Write(ctx context.Context, m transport.Message) error {
	message, err := jsonrpc.Parse(m.Text)
	if err != nil {
		return err
	}
	f.mu.Lock()
	session, lost := f.session, f.lost || m.Session != f.session
	name := message.Method
	if name == "" {
		name = "answer to " + message.ID.String()
	}
	if !lost || message.Method == "" {
		f.log = append(f.log, string('0'+rune(m.Session))+" "+name)
	}
	f.mu.Unlock()
	if lost {
		return &transport.SessionLostError{Session: m.Session}
	}
	if f.blocks && message.Method == "tools/list" {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if f.written != nil {
		f.written(session, message)
	}
	if message.Kind != jsonrpc.KindRequest {
		return nil
	}
	result, done := `{}`, true
	if f.answer != nil {
		result, err, done = f.answer(session, message)
	}
	if message.Method == "initialize" && err == nil && result == `{}` {
		result = initializeResult("1", `"tools":{}`)
	}
	switch {
	case err != nil:
		f.in <- readResult{err: &transport.DeliveryError{ID: message.ID, Err: err}}
	case done:
		f.receive(session, `{"jsonrpc":"2.0","id":`+message.ID.String()+`,"result":`+result+`}`)
	}
	return nil
}

func initializeResult(version, capabilities string) string {
	return `{"protocolVersion":"2025-11-25","capabilities":{` + capabilities + `},"serverInfo":{"name":"s","version":"` + version + `"}}`
}

// receive makes the session read a message.
func (f *fakeServer) receive(session uint32, text string) {
	f.in <- readResult{m: transport.Message{Text: []byte(text), Session: session}}
}

// loseSession loses the current session.
func (f *fakeServer) loseSession() {
	f.mu.Lock()
	f.lost = true
	err := &transport.SessionLostError{Session: f.session, Err: errCut}
	f.mu.Unlock()
	f.in <- readResult{err: err}
}

func (f *fakeServer) Reopen(context.Context) (uint32, error) {
	if f.reopen != nil {
		if err := f.reopen(f.session); err != nil {
			return 0, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.session, f.lost = f.session+1, false
	return f.session, nil
}

func (f *fakeServer) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

// takeLog waits until all goroutines are idle, and returns the log and empties it.
func (f *fakeServer) takeLog() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.log
	f.log = nil
	return log
}

func (f *fakeServer) connect(t *testing.T, cfg *session.Options) *session.Session {
	t.Helper()
	s, err := session.Connect(t.Context(), wrapped{f}, &mcp.InitializeRequestParams{
		ClientInfo: mcp.Implementation{Name: "c", Version: "1"}, Capabilities: mcp.ClientCapabilities{Roots: &mcp.ClientCapabilitiesRoots{}},
	}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	f.takeLog()
	return s
}

// Requests that are sent while there is no session wait for the next session.
func TestLostSessionIsReopened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer()
		reopened := make(chan *mcp.InitializeResult, 1)
		s := f.connect(t, &session.Options{Hooks: session.Hooks{Reopened: func(r *mcp.InitializeResult) { reopened <- r }}})
		hold := make(chan bool)
		f.reopen = func(uint32) error { <-hold; return nil }
		f.loseSession()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := s.Ping(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		go func() { hold <- true }() // ends when Reopen is called
		wg.Wait()
		if got := (<-reopened).ServerInfo.Name; got != "s" {
			t.Errorf("reopened with server %q", got)
		}
		want := []string{"2 initialize", "2 notifications/initialized", "2 ping", "2 ping", "2 ping"}
		if diff := cmp.Diff(want, f.takeLog()); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
}

// A new session may be lost before its handshake has returned. Then the client opens another one.
func TestSessionLostDuringHandshakeIsReopened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer()
		reopened := make(chan bool, 10)
		f.connect(t, &session.Options{Hooks: session.Hooks{Reopened: func(*mcp.InitializeResult) { reopened <- true }}})
		f.written = func(session uint32, m jsonrpc.Message) {
			if session == 2 && m.Method == "notifications/initialized" {
				f.loseSession()
				synctest.Wait() // until the loss is read
			}
		}
		f.loseSession()
		<-reopened
		want := []string{"2 initialize", "2 notifications/initialized", "3 initialize", "3 notifications/initialized"}
		if diff := cmp.Diff(want, f.takeLog()); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
		if len(reopened) > 0 {
			t.Error("the lost session was reported as reopened")
		}
	})
}

// A request is sent again only if the server cannot have received it.
func TestRequestIsSentAgainUnlessTaken(t *testing.T) {
	for name, taken := range map[string]bool{"rejected": false, "taken": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer()
				s := f.connect(t, nil)
				f.answer = func(session uint32, m jsonrpc.Message) (string, error, bool) {
					if m.Method != "tools/list" || session > 1 {
						return `{}`, nil, true
					}
					f.in <- readResult{err: &transport.DeliveryError{ID: m.ID, Taken: taken, Err: &transport.SessionLostError{Session: 1}}}
					f.loseSession()
					return "", nil, false
				}
				_, err := s.Call(t.Context(), "tools/list", nil)
				want := []string{"1 tools/list", "2 initialize", "2 notifications/initialized"}
				if !taken {
					want = append(want, "2 tools/list")
				}
				if errors.Is(err, transport.ErrSessionLost) != taken || !taken && err != nil {
					t.Errorf("got %v", err)
				}
				if diff := cmp.Diff(want, f.takeLog()); diff != "" {
					t.Errorf("written (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A notification is sent in the next session. A cancellation is not, because its request is lost.
func TestNotificationIsSentInNextSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer()
		s := f.connect(t, nil)
		hold := make(chan bool)
		f.reopen = func(uint32) error { <-hold; return nil }
		f.loseSession()
		err := s.Notify(t.Context(), "notifications/cancelled", session.Raw(`{"requestId":1}`))
		if !errors.Is(err, transport.ErrSessionLost) {
			t.Errorf("the cancellation: %v", err)
		}
		go func() { hold <- true }() // ends when Reopen is called
		if err := s.Notify(t.Context(), "x/changed", nil); err != nil {
			t.Error(err)
		}
		want := []string{"2 initialize", "2 notifications/initialized", "2 x/changed"}
		if diff := cmp.Diff(want, f.takeLog()); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
}

func TestShutdownWaitsForRequestOfLostSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer()
		s := f.connect(t, nil)
		hold := make(chan bool)
		f.reopen = func(uint32) error { <-hold; return nil }
		f.loseSession()
		pinged, ended := make(chan error, 1), make(chan error, 1)
		go func() { pinged <- s.Ping(t.Context()) }() // ends when the session is reopened
		synctest.Wait()
		go func() { ended <- s.Shutdown(t.Context()) }() // ends after the ping
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("Shutdown has not waited for the request")
		}
		hold <- true
		if err := <-pinged; err != nil {
			t.Errorf("the request: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// Requests of a lost session are cancelled and not answered, even if they arrive after the loss.
// The next session may use the same ids.
func TestRequestsOfLostSessionAreWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer()
		ended := make(chan error, 4)
		f.connect(t, &session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			switch req.ID {
			case codec.StringScalar("late"):
				t.Error("a request of the lost session was served")
			case codec.StringScalar("kept"):
				if !req.Internals(boundary.Caller{}).Keep() {
					t.Error("the request was cancelled before the loss")
				}
			}
			select {
			case <-ctx.Done():
				ended <- context.Cause(ctx)
			case <-time.After(time.Minute):
			}
			return session.Raw(`{"roots":[]}`), nil
		}})
		request := func(id string) string { return `{"jsonrpc":"2.0","id":"` + id + `","method":"roots/list"}` }
		f.receive(1, request("q"))
		f.receive(1, request("kept"))
		synctest.Wait()
		f.loseSession()
		f.receive(1, request("late"))
		if err := <-ended; !errors.Is(err, session.ErrCancelled) {
			t.Errorf("the handler ends with %v", err)
		}
		synctest.Wait()
		f.receive(2, request("q"))
		time.Sleep(2 * time.Minute)
		if len(ended) > 0 {
			t.Errorf("another request was cancelled: %v", <-ended)
		}
		want := []string{"2 initialize", "2 notifications/initialized", `2 answer to "q"`}
		if diff := cmp.Diff(want, f.takeLog()); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
	})
}

// Calls of Reopened do not overlap, even if the server loses sessions repeatedly. During a call,
// only the latest session is remembered.
func TestReopenedCallsDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer()
		f.answer = func(number uint32, m jsonrpc.Message) (string, error, bool) {
			if m.Method != "initialize" {
				return `{}`, nil, true
			}
			return initializeResult(string('0'+rune(number)), ""), nil, true
		}
		calls, release := make(chan string, 10), make(chan struct{})
		f.connect(t, &session.Options{Hooks: session.Hooks{Reopened: func(server *mcp.InitializeResult) {
			calls <- server.ServerInfo.Version
			<-release
		}}})
		for range 4 {
			f.loseSession()
			synctest.Wait()
		}
		close(release)
		synctest.Wait()
		f.loseSession()
		synctest.Wait()
		close(calls)
		var got []string
		for version := range calls {
			got = append(got, version)
		}
		if diff := cmp.Diff([]string{"2", "5", "6"}, got); diff != "" {
			t.Errorf("calls of Reopened (-want +got):\n%s", diff)
		}
	})
}

// A handler may ignore the end of its context, for example while it reads from a terminal. A
// request of the next session with the same id is served nevertheless, and can be cancelled.
func TestIDOfWithdrawnRequestIsReusable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer()
		calls, release, ended := make(chan bool, 10), make(chan struct{}), make(chan error, 1)
		f.connect(t, &session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.IsNotification() {
				return nil, nil
			}
			calls <- true
			switch len(calls) {
			case 1:
				<-release
			case 2:
				<-ctx.Done()
				ended <- context.Cause(ctx)
			}
			return session.Raw(`{"roots":[]}`), nil
		}})
		const request = `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`
		f.receive(1, request)
		synctest.Wait()
		f.loseSession()
		synctest.Wait()
		f.receive(2, request)
		synctest.Wait()
		close(release)
		synctest.Wait()
		f.receive(2, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		if err := <-ended; !errors.Is(err, session.ErrCancelled) {
			t.Errorf("the handler ends with %v", err)
		}
		synctest.Wait()
		f.receive(2, request)
		want := []string{"2 initialize", "2 notifications/initialized", "2 answer to 1"}
		if diff := cmp.Diff(want, f.takeLog()); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
		if len(calls) != 3 {
			t.Errorf("the handler was called %d times", len(calls))
		}
	})
}

// A failed attempt fails the waiting requests. The session tries again unless the failure is final.
func TestSessionIsNotReopened(t *testing.T) {
	for _, test := range []struct {
		name   string
		reopen func() error
		answer func(m jsonrpc.Message) (string, error)
		closes bool
	}{
		{"Reopen fails", func() error { return errCut }, nil, true},
		{"Reopen panics", func() error { panic("no") }, nil, true},
		{"the revision has changed", nil, func(jsonrpc.Message) (string, error) { return `{"protocolVersion":"2024-11-05"}`, nil }, true},
		{"initialize is lost", nil, func(jsonrpc.Message) (string, error) { return "", errCut }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer()
				s := f.connect(t, nil)
				f.reopen = func(uint32) error {
					time.Sleep(time.Second) // so that each Ping waits for this attempt
					if test.reopen == nil {
						return nil
					}
					return test.reopen()
				}
				f.answer = func(session uint32, m jsonrpc.Message) (string, error, bool) {
					if m.Method == "initialize" && session == 2 && test.answer != nil {
						result, err := test.answer(m)
						return result, err, true
					}
					return `{}`, nil, true
				}
				f.loseSession()
				if err := s.Ping(t.Context()); !errors.Is(err, transport.ErrSessionLost) {
					t.Errorf("the waiting request: %v", err)
				}
				err := s.Ping(t.Context())
				if test.closes != errors.Is(err, session.ErrClosed) || !test.closes && err != nil {
					t.Errorf("the next request: %v", err)
				}
				if test.closes {
					if err := s.Wait(); err != nil {
						t.Errorf("the session ends with %v", err)
					}
				}
			})
		})
	}
}

func TestWaitForReopenedSessionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer()
		s := f.connect(t, nil)
		hold := make(chan bool)
		f.reopen = func(uint32) error { <-hold; return errCut }
		defer close(hold)
		f.loseSession()
		synctest.Wait()
		if _, err := s.With(session.Timeout(time.Second)).Call(t.Context(), "tools/list", nil); err != session.ErrTimeout {
			t.Errorf("after the timeout: %v", err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errCut)
		defer cancel()
		if err := s.Ping(ctx); err != errCut {
			t.Errorf("after the end of the context: %v", err)
		}
	})
}

// A request that is sent again in a new session does not start a new timeout.
func TestTimeoutIncludesLostSession(t *testing.T) {
	for name, blocks := range map[string]bool{"no answer": false, "blocked write": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer()
				s := f.connect(t, nil)
				f.reopen = func(uint32) error { time.Sleep(40 * time.Second); return nil }
				f.answer = func(_ uint32, m jsonrpc.Message) (string, error, bool) { return `{}`, nil, m.Method == "initialize" }
				f.blocks = blocks
				f.loseSession()
				synctest.Wait()
				start := time.Now()
				_, err := s.With(session.Timeout(time.Minute)).Call(t.Context(), "tools/list", nil)
				if took := time.Since(start); !errors.Is(err, session.ErrTimeout) || took != time.Minute {
					t.Errorf("after %v: %v", took, err)
				}
				if log := f.takeLog(); !slices.Contains(log, "2 tools/list") {
					t.Errorf("the request was not sent again: %q", log)
				}
			})
		})
	}
}

// The capabilities of the latest handshake apply at once.
func TestLaterHandshakeReplacesCapabilities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer()
		s := f.connect(t, nil)
		undeclared := func(method string) bool {
			_, err := s.Call(t.Context(), method, nil)
			_, is := errors.AsType[*session.CapabilityError](err)
			return is
		}
		if !undeclared("prompts/list") {
			t.Error("prompts were not declared")
		}
		f.answer = func(_ uint32, m jsonrpc.Message) (string, error, bool) {
			if m.Method == "initialize" {
				return initializeResult("2", `"prompts":{},"tasks":{"requests":{"tools":{"call":{}}}}`), nil, true
			}
			return `{}`, nil, true
		}
		f.loseSession()
		synctest.Wait()
		if got := s.Server().ServerInfo.Version; got != "2" {
			t.Errorf("the server has version %s", got)
		}
		if !undeclared("tools/list") || undeclared("prompts/list") || !s.Internals(boundary.Caller{}).PeerTakesTask("tools/call") {
			t.Error("the session uses the capabilities of the first server")
		}
	})
}

// A client over HTTP does not end when its server stops answering: it opens a new session when the
// server answers again.
func TestMissedPingsReplaceSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer()
		reopened := make(chan bool, 10)
		var down atomic.Bool
		down.Store(true)
		f.answer = func(session uint32, m jsonrpc.Message) (string, error, bool) {
			switch {
			case m.Method != "initialize":
				return "{}", nil, session > 1
			case session > 1 && down.Load():
				return "", errCut, true
			}
			return "{}", nil, true
		}
		f.reopen = func(uint32) error { time.Sleep(time.Minute); return nil }
		s := f.connect(t, &session.Options{Timeouts: session.Timeouts{KeepAlive: 10 * time.Second}, Hooks: session.Hooks{Reopened: func(*mcp.InitializeResult) { reopened <- true }}})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		down.Store(false)
		<-reopened
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Minute)
		if len(reopened) != 0 {
			t.Error("a session whose pings are answered was replaced")
		}
	})
}
