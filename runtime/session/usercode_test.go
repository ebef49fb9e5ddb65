package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// quiet returns a Logger that discards everything.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// pair returns a connected client and server with the given handlers.
func pair(t *testing.T, client session.Handler, server session.Handler) (c, s *session.Session) {
	side := toolServer(server)
	side.Config.Logger = quiet()
	return sessiontest.Pair(t, sessiontest.Side{Config: session.Options{Handler: client, Logger: quiet()}}, side)
}

// panicking is an error and a result whose methods panic.
type panicking struct{}

func (panicking) Error() string                { panic("Error") }
func (panicking) EncodeJSON(*wire.Writer)      { panic("EncodeJSON") }
func (panicking) MarshalJSON() ([]byte, error) { panic("MarshalJSON") }

// However a handler ends, its request is answered and the session keeps serving.
func TestHandlerPanicFailsOnlyItsRequest(t *testing.T) {
	var none *jsonrpc.Error
	handlers := map[string]session.Handler{
		"panic":             func(context.Context, *session.Request) (codec.Encoder, error) { panic("no") },
		"Goexit":            func(context.Context, *session.Request) (codec.Encoder, error) { runtime.Goexit(); return nil, nil },
		"nil error":         func(context.Context, *session.Request) (codec.Encoder, error) { return nil, none },
		"wrapped nil error": func(context.Context, *session.Request) (codec.Encoder, error) { return nil, fmt.Errorf("no: %w", none) },
		"error that panics": func(context.Context, *session.Request) (codec.Encoder, error) { return nil, panicking{} },
		"wrapped error that panics": func(context.Context, *session.Request) (codec.Encoder, error) {
			return nil, errors.Join(panicking{}, none)
		},
		"result that panics": func(context.Context, *session.Request) (codec.Encoder, error) { return panicking{}, nil },
		"value that panics": func(context.Context, *session.Request) (codec.Encoder, error) {
			return value.Of(map[string]any{"a": panicking{}}), nil
		},
	}
	for name, handler := range handlers {
		t.Run(name, bubble(func(t *testing.T) {
			c, s := pair(t, nil, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if strings.HasSuffix(req.Method, "quick") {
					return nil, nil
				}
				return handler(ctx, req)
			})
			for range 2 {
				if err := c.Notify(t.Context(), "notifications/x", nil); err != nil {
					t.Error(err)
				}
				_, err := c.Call(t.Context(), "x", nil)
				if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeInternalError {
					t.Errorf("got %v", err)
				}
			}
			if _, err := c.Call(t.Context(), "x/quick", nil); err != nil {
				t.Error(err)
			}
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}))
	}
}

func TestErrorWithInvalidUTF8IsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pair(t, nil, func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			return nil, errors.New("open caf\xe9.txt: no such file")
		})
		_, err := c.Call(t.Context(), "x", nil)
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Message != "open caf\uFFFD.txt: no such file" {
			t.Errorf("got %v", err)
		}
	})
}

// panickingConn is a connection with one method that panics. Read and Write panic on a message that
// contains "panic".
type panickingConn struct {
	transport.Conn
	in string
}

func (e *panickingConn) Read() (transport.Message, error) {
	m, err := e.Conn.Read()
	if e.in == "Read" && bytes.Contains(m.Text, []byte("panic")) {
		panic("in Read")
	}
	return m, err
}

func (e *panickingConn) Write(ctx context.Context, m transport.Message) error {
	if e.in == "Write" && bytes.Contains(m.Text, []byte("panic")) {
		panic("in Write")
	}
	return e.Conn.Write(ctx, m)
}

func (e *panickingConn) Close() error {
	e.Conn.Close()
	if e.in == "Close" {
		panic("in Close")
	}
	return nil
}

func TestTransportPanicEndsSession(t *testing.T) {
	for _, in := range []string{"Read", "Write", "Close"} {
		t.Run(in, bubble(func(t *testing.T) {
			p, conn := newPeer(t)
			s := session.Serve(&panickingConn{conn, in}, nil, &session.Options{Logger: quiet(), Handler: func(context.Context, *session.Request) (codec.Encoder, error) {
				return session.Raw(`{"panic":1}`), nil
			}})
			p.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			p.send(`{"jsonrpc":"2.0","id":1,"method":"x/panic"}`)
			if in == "Close" {
				s.Internals(boundary.Caller{}).StartClose()
			}
			if err := s.Wait(); err == nil || !strings.Contains(err.Error(), "in "+in) {
				t.Errorf("got %v", err)
			}
		}))
	}
}

// Panics in callbacks, in middleware and in the encoding of params do not end the session.
func TestCallbackPanicsAreContained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		var mu sync.Mutex
		log := slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return logged.Write(b)
		}), nil))
		side := toolServer(func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.Method == "x/slow" {
				time.Sleep(time.Minute)
			}
			return nil, req.Internals(boundary.Caller{}).Progress().Report(session.Progress{Value: 1})
		})
		side.Config.Logger = log
		c, _ := sessiontest.Pair(t, sessiontest.Side{Config: session.Options{
			Logger:   log,
			Timeouts: session.Timeouts{KeepAlive: time.Hour},
			Hooks: session.Hooks{Sending: []session.SendMiddleware{func(next session.Sender) session.Sender {
				return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
					if call.Method == "ping" || call.Method == "notifications/cancelled" {
						panic("in Sending")
					}
					return next(ctx, call)
				}
			}}},
		}}, side)
		if _, err := c.With(session.OnProgress(func(session.Progress) { panic("in OnProgress") })).Call(t.Context(), "x", nil); err != nil {
			t.Error(err)
		}
		if _, err := c.Call(t.Context(), "x", panicking{}); err == nil || errors.Is(err, session.ErrClosed) {
			t.Errorf("params that panic: %v", err)
		}
		late := func(json.RawMessage, error) { panic("in OnLate") }
		if _, err := c.With(session.Timeout(time.Second), session.OnLate(late)).Call(t.Context(), "x/slow", nil); err != session.ErrTimeout {
			t.Errorf("got %v", err)
		}
		time.Sleep(2 * time.Hour) // the answer arrives, and the session pings the peer
		c.Internals(boundary.Caller{}).AfterDone(func() { panic("in AfterDone") })
		called := false
		c.Internals(boundary.Caller{}).AfterDone(func() { called = true })
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if !called {
			t.Error("the second function of AfterDone was not called")
		}
		mu.Lock()
		defer mu.Unlock()
		for _, place := range []string{"in OnProgress", "in OnLate", "in AfterDone"} {
			if !strings.Contains(logged.String(), place) || !strings.Contains(logged.String(), "usercode_test.go") {
				t.Errorf("a panic %s is not logged:\n%s", place, logged.String())
			}
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// The session logs at most ten lines about rejected messages per second.
func TestRejectedMessagesDoNotFloodLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
		defer slog.SetDefault(before)
		_, p := open(t, nil)
		for range 1000 {
			p.send(`{"jsonrpc":"2.0","id":1,"method":7}`)
		}
		time.Sleep(time.Minute)
		p.send(`{"jsonrpc":"2.0","id":1,"method":7}`)
		if n := strings.Count(logged.String(), "message rejected"); n != 11 {
			t.Errorf("%d lines were logged, want 11", n)
		}
		if !strings.Contains(logged.String(), "=990") {
			t.Errorf("the number of skipped lines is missing:\n%s", logged.String())
		}
		p.take()
	})
}
