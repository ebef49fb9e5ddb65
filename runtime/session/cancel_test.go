package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// waiting returns a handler that waits for the end of its context, and sends the cause to causes.
func waiting(causes chan<- error) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if req.IsNotification() {
			return nil, nil
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, ctx.Err()
	}
}

// Proves CANC-05, CANC-06, CANC-10, CANC-11.
func TestCancelledRequestIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 1)
		var log bytes.Buffer
		_, p := open(t, &session.Options{Handler: waiting(causes), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		p.talk(`
			> {"jsonrpc":"2.0","id":"1","method":"x"}
			None of these refers to the request.
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"2"}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{"id":"1"}}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled"}
		`)
		select {
		case err := <-causes:
			t.Fatalf("cancelled: %v", err)
		default:
		}
		p.talk(`
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1","reason":"obsolete"}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}
			> {"jsonrpc":"2.0","id":2,"method":"ping"}
			< {"jsonrpc":"2.0","id":2,"result":{}}
		`)
		if err := <-causes; !errors.Is(err, session.ErrCancelled) || !strings.Contains(err.Error(), "obsolete") {
			t.Errorf("the handler's context ended with %v", err)
		}
		if !strings.Contains(log.String(), "reason=obsolete") {
			t.Errorf("the reason is not in the log:\n%s", &log)
		}
	})
}

// Proves CANC-01, CANC-02, CANC-08.
func TestCancelledCallSendsCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("obsolete")
		done := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := s.Call(ctx, "roots/list", nil)
				done <- err
			}()
			synctest.Wait()
		}
		p.talk(`
			< {"jsonrpc":"2.0","id":1,"method":"roots/list"}
			< {"jsonrpc":"2.0","id":2,"method":"roots/list"}
			> {"jsonrpc":"2.0","id":2,"result":{"roots":[]}}
		`)
		if err := <-done; err != nil {
			t.Error(err)
		}
		cancel(cause)
		if err := <-done; err != cause {
			t.Errorf("got %v, want %v", err, cause)
		}
		p.talk(`
			< {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"obsolete"}}
			> {"jsonrpc":"2.0","id":1,"result":{"roots":[]}}
		`)
		if _, err := s.Call(ctx, "roots/list", nil); err != cause {
			t.Errorf("a call with an ended context: %v", err)
		}
		p.talk("")
	})
}

// Proves CANC-04.
func TestTaskRequestIsNotCancelledByNotification(t *testing.T) {
	object := []byte("{}")
	capabilities := mcp.ClientCapabilities{Tasks: &mcp.ClientCapabilitiesTasks{Requests: &mcp.ClientCapabilitiesTasksRequests{
		Sampling: &mcp.ClientCapabilitiesTasksRequestsSampling{CreateMessage: object},
	}}, Sampling: &mcp.ClientCapabilitiesSampling{}}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []string
		c, s := sessiontest.Pair(t, sessiontest.Side{Client: capabilities, Config: session.Options{
			Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				mu.Lock()
				seen = append(seen, req.Method)
				mu.Unlock()
				if req.IsNotification() {
					return nil, nil
				}
				if task, ok := req.Internals(boundary.Caller{}).Task(); !ok || string(task) != `{"ttl":5}` {
					t.Errorf("the task is %s", task)
				}
				time.Sleep(time.Minute)
				return session.Raw(`{"task":{}}`), nil
			},
		}}, sessiontest.Side{})
		_ = c
		late := make(chan string, 1)
		call := s.With(session.Timeout(time.Second), session.OnLate(func(result json.RawMessage, err error) {
			late <- fmt.Sprint(string(result), err)
		}))
		for _, params := range []codec.Encoder{
			&mcp.CreateMessageRequestParams{Task: &mcp.TaskMetadata{TTL: new(int64(5))}},
			session.Raw(`{"task":{"ttl":5}}`),
		} {
			if _, err := call.Call(t.Context(), "sampling/createMessage", params); err != session.ErrTimeout {
				t.Errorf("got %v", err)
			}
			if got := <-late; got != `{"task":{}}<nil>` {
				t.Errorf("the late answer is %s", got)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 2 {
			t.Errorf("the receiver got %q", seen)
		}
	})
}

// Proves CANC-04.
func TestCancelIgnoresRequestThatBecameTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan bool)
		_, p := open(t, &session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.IsNotification() {
				return nil, nil
			}
			if req.Method == "x/late" {
				<-proceed
			}
			if got, want := req.Internals(boundary.Caller{}).Keep(), req.Method == "x/early"; got != want {
				t.Errorf("Keep returns %v", got)
			}
			<-proceed
			return nil, ctx.Err()
		}})
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"x/early"}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
		`)
		proceed <- true
		p.talk(`
			< {"jsonrpc":"2.0","id":1,"result":{}}
			> {"jsonrpc":"2.0","id":2,"method":"x/late"}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}
		`)
		proceed <- true
		proceed <- true
		p.talk("")
	})
}

// Proves CANC-07.
func TestInitializeCannotBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(next session.Handler) session.Handler {
			return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if !req.IsNotification() {
					time.Sleep(time.Second)
				}
				return next(ctx, req)
			}
		}
		s, p := serve(t, &session.Options{Hooks: session.Hooks{Receiving: []session.Middleware{slow}}})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		p.talk(`
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
			> {"jsonrpc":"2.0","id":3,"method":"ping"}
			< {"jsonrpc":"2.0","id":3,"result":{}}
		`)
		time.Sleep(time.Second)
		p.talk(`
			< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}
			> {"jsonrpc":"2.0","method":"notifications/initialized"}
		`)
		if err := s.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Proves CANC-09.
func TestCancellationCrossesAnswer(t *testing.T) {
	c, s := sessiontest.Pair(t, sessiontest.Side{}, toolServer(sessiontest.ServerHandler(tools{}, nil)))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				go func() { // ends with the call
					for range i % 50 {
						ctx.Err() // takes a varying time
					}
					cancel()
				}()
				_, err := mcp.ToServer{Caller: c}.CallTool(ctx, &mcp.CallToolRequestParams{Name: "t", Arguments: []byte("{}")})
				if err != nil && err != context.Canceled {
					t.Errorf("got %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	for _, s := range []*session.Session{c, s} {
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
