package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

func TestRequestsAboveLimitAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		_, p := open(t, &session.Options{Limits: session.Limits{Requests: 2, Bytes: 300}, Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			if !req.IsNotification() {
				<-release
			}
			return nil, nil
		}})
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"x"}
			> {"jsonrpc":"2.0","id":1,"method":"x"}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32600}}
			> {"jsonrpc":"2.0","id":2,"method":"x"}
			> {"jsonrpc":"2.0","id":3,"method":"x"}
			< {"jsonrpc":"2.0","id":3,"error":{"code":-32050}}
		`)
		release <- true
		p.talk(`< {"jsonrpc":"2.0","id":1,"result":{}}`)
		release <- true
		long := strings.Repeat("x", 400)
		p.talk(`
			< {"jsonrpc":"2.0","id":2,"result":{}}
			A single request may exceed MaxBytes.
			> {"jsonrpc":"2.0","id":4,"method":"x","params":{"long":"` + long + `"}}
			> {"jsonrpc":"2.0","id":5,"method":"x"}
			< {"jsonrpc":"2.0","id":5,"error":{"code":-32050}}
		`)
		release <- true
		p.talk(`< {"jsonrpc":"2.0","id":4,"result":{}}`)
	})
}

func TestSlowHandlerDelaysNoOtherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := sessiontest.Pair(t, sessiontest.Side{}, toolServer(func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.Method == "x/slow" || req.IsNotification() {
				<-ctx.Done()
			}
			return nil, nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		for range 1000 {
			go c.Call(ctx, "x/slow", nil) // ends with ctx
			if err := c.Notify(ctx, "x/slow", nil); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		for range 100 {
			if _, err := c.Call(ctx, "x/quick", nil); err != nil {
				t.Error(err)
			}
		}
		cancel()
		synctest.Wait()
	})
}

func TestNotificationsAreOrderedAndLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		release := make(chan bool)
		_, p := open(t, &session.Options{Limits: session.Limits{Notifications: 3}, Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			if strings.HasPrefix(req.Method, "x/") {
				got = append(got, req.Method)
				<-release
			}
			return nil, nil
		}})
		for i := range 10 {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"x/%d"}`, i))
		}
		close(release)
		p.talk("")
		if got := strings.Join(got, " "); got != "x/0 x/1 x/2 x/3" {
			t.Errorf("got %s", got)
		}
	})
}

// Both sides reject most messages of the other side, through queues of a few messages.
func TestPeersThatFloodEachOtherMakeProgress(t *testing.T) {
	side := sessiontest.Side{Config: session.Options{Limits: session.Limits{Requests: 2}, Timeouts: session.Timeouts{Request: -1}, Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if req.Method == "x/nested" {
			result, err := req.Session.Call(ctx, "x", nil)
			return session.Raw(result), err
		}
		return session.Raw(`{"text":"` + strings.Repeat("x", 200) + `"}`), nil
	}}}
	a, b := inmemory.Pair(inmemory.Options{MaxQueue: 2000, StallTimeout: time.Minute})
	c, s := sessiontest.Connect(t, a, b, side, side)
	var wg sync.WaitGroup
	for _, s := range []*session.Session{c, s} {
		for range 200 {
			wg.Go(func() {
				for range 20 {
					_, err := s.Call(t.Context(), "x/nested", nil)
					if e, ok := errors.AsType[*jsonrpc.Error](err); err != nil && (!ok || e.Code != session.CodeOverloaded) {
						t.Errorf("got %v", err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

// The session stops reading from a peer that sends requests and reads no answers, and ends after a
// timeout.
func TestPeerThatDoesNotReadEndsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := inmemory.Pair(inmemory.Options{MaxQueue: 10_000, StallTimeout: time.Minute})
		defer x.Close()
		s := session.Serve(y, nil, nil)
		var err error
		sent := 0
		start := time.Now()
		for ; err == nil; sent++ {
			if sent%1000 == 0 {
				synctest.Wait() // until the session has read all it can
			}
			// The session has ended and drops messages until the connection is closed.
			if time.Since(start) >= time.Minute {
				break
			}
			err = x.Write(t.Context(), transport.Message{Text: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`, sent)})
		}
		if sent < 10_000 || sent > 40_000 {
			t.Errorf("%d pings were accepted", sent)
		}
		if err := s.Wait(); !errors.Is(err, transport.ErrStalled) {
			t.Errorf("the session ends with %v", err)
		}
	})
}

func TestCallTimeoutCoversWaitingForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := inmemory.Pair(inmemory.Options{MaxQueue: 1})
		defer x.Close()
		s := session.Serve(y, nil, nil)
		defer s.Close()
		go s.Ping(t.Context()) // fills the queue, and ends with the session
		synctest.Wait()
		for want, call := range map[time.Duration]func() error{
			time.Second: func() error {
				_, err := s.With(session.Timeout(time.Second)).Call(t.Context(), "ping", nil)
				return err
			},
			2 * time.Second: func() error {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, session.ErrTimeout)
				defer cancel()
				return s.Ping(ctx)
			},
			3 * time.Second: func() error {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, session.ErrTimeout)
				defer cancel()
				_, err := s.With(session.Timeout(0)).Call(ctx, "ping", nil)
				return err
			},
		} {
			start := time.Now()
			if err := call(); err != session.ErrTimeout || time.Since(start) != want {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		}
	})
}
