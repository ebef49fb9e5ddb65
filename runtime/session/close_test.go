package session_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 100)
		s, p := open(t, &session.Options{Handler: waiting(causes), Timeouts: session.Timeouts{KeepAlive: time.Second}})
		failed := make(chan error, 100)
		for range 50 {
			go func() {
				_, err := s.With(session.OnProgress(func(session.Progress) {})).Call(t.Context(), "roots/list", nil)
				failed <- err
			}()
		}
		tracker := s.Internals(boundary.Caller{}).NewTracker()
		for i := range 50 {
			p.send(`{"jsonrpc":"2.0","id":` + string(rune('0'+i/10)) + `.` + `0,"method":"ping"}`)
			p.send(`{"jsonrpc":"2.0","id":"` + strings.Repeat("i", i) + `","method":"x"}`)
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for range 50 {
			if err := <-failed; !errors.Is(err, session.ErrClosed) {
				t.Errorf("a call failed with %v", err)
			}
			if err := <-causes; err != session.ErrClosed {
				t.Errorf("a handler's context ended with %v", err)
			}
		}
		for range tracker.Updates(t.Context()) {
			t.Error("a report after Close")
		}
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
		if err := s.Notify(t.Context(), "x", nil); err != session.ErrClosed {
			t.Errorf("got %v", err)
		}
		if _, err := s.Call(t.Context(), "roots/list", nil); err != session.ErrClosed {
			t.Errorf("got %v", err)
		}
		if err := s.Ready(t.Context()); err != session.ErrClosed {
			t.Errorf("got %v", err)
		}
		<-p.closed
	})
}

func TestHandlerMayCloseItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, &session.Options{Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			if !req.IsNotification() {
				req.Session.Internals(boundary.Caller{}).StartClose()
			}
			return nil, nil
		}})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownWaitsForRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, &session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if !req.IsNotification() {
				_, err := req.Session.Call(ctx, "roots/list", nil)
				return nil, err
			}
			return nil, nil
		}})
		answered := make(chan error, 1)
		go func() {
			_, err := s.Call(t.Context(), "roots/list", nil)
			answered <- err
		}()
		p.talk(`
			< {"jsonrpc":"2.0","id":1,"method":"roots/list"}
			> {"jsonrpc":"2.0","id":"a","method":"x"}
			< {"jsonrpc":"2.0","id":2,"method":"roots/list"}
		`)
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(t.Context()) }()
		synctest.Wait()
		if _, err := s.Call(t.Context(), "roots/list", nil); !errors.Is(err, session.ErrClosed) {
			t.Errorf("a call during Shutdown: %v", err)
		}
		p.talk(`
			> {"jsonrpc":"2.0","id":"b","method":"x"}
			< {"jsonrpc":"2.0","id":"b","error":{"code":-32051}}
			> {"jsonrpc":"2.0","id":"p","method":"ping"}
			< {"jsonrpc":"2.0","id":"p","result":{}}
			> {"jsonrpc":"2.0","id":2,"result":{"roots":[]}}
			< {"jsonrpc":"2.0","id":"a","result":{}}
			> {"jsonrpc":"2.0","id":1,"result":{"roots":[]}}
		`)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-p.closed
	})
}

// A handler that has called EndOnShutdown ends at once, and its request is answered. If the handler
// has called the peer, it first receives the peer's answer.
func TestShutdownEndsWaitingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, &session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.IsNotification() {
				return nil, nil
			}
			req.Internals(boundary.Caller{}).EndOnShutdown()
			if req.Method == "ask" {
				if _, err := req.Session.Call(ctx, "roots/list", nil); err != nil {
					return nil, err
				}
			}
			<-ctx.Done()
			return nil, ctx.Err() // as most functions do: the peer gets the cause
		}})
		p.talk(`
			> {"jsonrpc":"2.0","id":"a","method":"wait"}
			> {"jsonrpc":"2.0","id":"b","method":"ask"}
			< {"jsonrpc":"2.0","id":1,"method":"roots/list"}
		`)
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(t.Context()) }()
		p.talk(`
			< {"jsonrpc":"2.0","id":"a","error":{"code":-32051}}
			> {"jsonrpc":"2.0","id":1,"result":{"roots":[]}}
			< {"jsonrpc":"2.0","id":"b","error":{"code":-32051}}
		`)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A peer that closes its sending side still receives the answers to requests whose handlers have
// called EndOnShutdown.
func TestWaitingRequestsSurviveEndOfInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := newPeer(t)
		s := session.Serve(halfClosed{conn}, nil, &session.Options{Timeouts: session.Timeouts{Grace: time.Minute}, Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.IsNotification() {
				return nil, nil
			}
			req.Internals(boundary.Caller{}).EndOnShutdown()
			select {
			case <-time.After(time.Second):
				return nil, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}})
		for line := range strings.Lines(handshake) {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), "> "); ok {
				p.send(text)
			}
		}
		p.take()
		p.send(`{"jsonrpc":"2.0","id":"a","method":"wait"}`)
		p.send("EOF")
		s.Wait()
		p.talk(`< {"jsonrpc":"2.0","id":"a","result":{}}`)
	})
}

func TestShutdownAnswersAbandonedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 1)
		s, p := open(t, &session.Options{Handler: waiting(causes)})
		p.send(`{"jsonrpc":"2.0","id":"a","method":"x"}`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		p.talk(`< {"jsonrpc":"2.0","id":"a","error":{"code":-32051}}`)
		if err := <-causes; err != session.ErrClosed {
			t.Errorf("the handler's context ended with %v", err)
		}
	})
}

// A batch is answered even if some of its requests are abandoned, because one array holds the
// answers to all.
func TestShutdownAnswersBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serve(t, &session.Options{Handler: waiting(make(chan error, 1))})
		p.talk(strings.ReplaceAll(handshake, "2025-11-25", "2025-03-26"))
		p.send(`[{"jsonrpc":"2.0","id":"a","method":"x"},{"jsonrpc":"2.0","id":"b","method":"ping"}]`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		p.talk(`< [{"jsonrpc":"2.0","id":"a","error":{"code":-32051}},{"jsonrpc":"2.0","id":"b","result":{}}]`)
	})
}

func TestCloseEndsPeerSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 1)
		c, s := sessiontest.Pair(t, sessiontest.Side{}, toolServer(waiting(causes)))
		failed := make(chan error, 1)
		go func() {
			_, err := c.Call(t.Context(), "x", nil)
			failed <- err
		}()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-failed; err != session.ErrClosed {
			t.Errorf("the call failed with %v", err)
		}
		if err := s.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
		if err := <-causes; !errors.Is(err, transport.ErrClosed) {
			t.Errorf("the handler's context ended with %v", err)
		}
		if _, err := s.Call(t.Context(), "ping", nil); !errors.Is(err, session.ErrClosed) || !errors.Is(err, transport.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// halfClosed is a connection whose peer has closed its sending side and still reads.
type halfClosed struct{ transport.Conn }

func (h halfClosed) Read() (transport.Message, error) {
	m, err := h.Conn.Read()
	if string(m.Text) == "EOF" {
		err = io.EOF
	}
	return m, err
}

func TestHandlersFinishAfterPeerClosesSending(t *testing.T) {
	for _, c := range []struct {
		name                     string
		handlerTime, sessionTime time.Duration
		want                     string
	}{
		{"quick", session.DefaultGrace / 2, session.DefaultGrace / 2, `< {"jsonrpc":"2.0","id":1,"result":{}}`},
		{"slow", time.Hour, session.DefaultGrace, `< {"jsonrpc":"2.0","id":1,"error":{"code":-32051}}`},
		{"idle", 0, 0, `< {"jsonrpc":"2.0","id":1,"result":{}}`},
	} {
		t.Run(c.name, bubble(func(t *testing.T) {
			p, conn := newPeer(t)
			s := session.Serve(halfClosed{conn}, nil, &session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if req.IsNotification() {
					return nil, nil
				}
				if _, err := req.Session.Call(context.Background(), "ping", nil); c.handlerTime > 0 && !errors.Is(err, session.ErrClosed) {
					t.Errorf("a call after the end of the peer's messages: %v", err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(c.handlerTime):
				}
				return nil, ctx.Err()
			}})
			p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			p.take()
			p.send(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
			p.take()
			if c.handlerTime == 0 {
				p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`)
			}
			start := time.Now()
			if err := p.conn.Write(t.Context(), transport.Message{Text: []byte("EOF")}); err != nil {
				t.Error(err)
			}
			if err := s.Wait(); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took != c.sessionTime {
				t.Errorf("the session ended after %v, want %v", took, c.sessionTime)
			}
			p.talk(c.want)
		}))
	}
}

// Sessions are closed at different moments while both sides call each other.
func TestSessionsStartAndStopUnderLoad(t *testing.T) {
	for i := range 40 {
		quick := func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			req.Internals(boundary.Caller{}).Progress().Report(session.Progress{Value: 1})
			return nil, nil
		}
		c, s := sessiontest.Pair(t, sessiontest.Side{Config: session.Options{Handler: quick}}, toolServer(quick))
		var wg sync.WaitGroup
		for _, s := range []*session.Session{c, s} {
			for range 4 {
				wg.Go(func() {
					for {
						_, err := s.With(session.OnProgress(func(session.Progress) {})).Call(t.Context(), "x", nil)
						if err != nil {
							if e, ok := errors.AsType[*jsonrpc.Error](err); !errors.Is(err, session.ErrClosed) && (!ok || e.Code != session.CodeClosing) {
								t.Errorf("got %v", err)
							}
							return
						}
					}
				})
			}
		}
		for range i {
			if err := c.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		}
		switch i % 4 {
		case 0:
			c.Close()
		case 1:
			s.Close()
		case 2:
			wg.Go(func() { c.Shutdown(t.Context()) })
			wg.Go(func() { s.Close() })
		case 3:
			c.Internals(boundary.Caller{}).StartClose()
			c.Close()
		}
		wg.Wait()
		if err := errors.Join(c.Wait(), s.Wait()); err != nil {
			t.Error(err)
		}
	}
}

func TestAfterDoneRunsAfterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t, nil)
		calls := 0
		count := func() {
			select {
			case <-s.Done():
				calls++
			default:
				t.Error("AfterDone was called before the session ended")
			}
		}
		s.Internals(boundary.Caller{}).AfterDone(count)
		s.Internals(boundary.Caller{}).AfterDone(count)
		synctest.Wait()
		if calls != 0 {
			t.Errorf("%d functions were called while the session was open", calls)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		s.Internals(boundary.Caller{}).AfterDone(count)
		synctest.Wait()
		if calls != 3 {
			t.Errorf("%d of 3 functions were called", calls)
		}
	})
}

// Shutdown of a session that has ended does not wait for a handler that ignores its context.
func TestShutdownAfterEndReturnsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s, p := open(t, &session.Options{Handler: func(context.Context, *session.Request) (codec.Encoder, error) {
			<-release
			return nil, nil
		}})
		p.send(`{"jsonrpc":"2.0","id":2,"method":"x"}`)
		s.Internals(boundary.Caller{}).StartClose()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		if err := s.Shutdown(ctx); err != context.DeadlineExceeded || time.Since(start) > 6*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		close(release)
		<-s.Done()
	})
}
