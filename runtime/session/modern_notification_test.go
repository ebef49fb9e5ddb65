package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":1}`

// serveBoth returns the peer of a server for sessions and modern requests. handled returns what its
// handlers have received since the last call, each notification with the Revision of its session or
// its own, and logged what was logged.
func serveBoth(t *testing.T) (p *peer, handled func() []string, logged func() string) {
	var got []string
	var log bytes.Buffer
	handler := func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		got = append(got, fmt.Sprintf("%s %s %t", req.Method, req.Revision(), req.Session != nil))
		if !req.IsNotification() {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		if !req.Traits().Sessionless {
			return nil, nil
		}
		req.Internals(boundary.Caller{}).EndOnShutdown()
		peer, _ := session.PeerFrom(ctx)
		if _, err := peer.Call(ctx, "ping", nil); !errors.As(err, new(*session.CapabilityError)) {
			t.Errorf("a request to the client fails with %v", err)
		}
		peer.Report(session.Progress{Value: 1})
		return nil, peer.Notify(ctx, "notifications/message", session.Raw(`{}`)) // has no response stream
	}
	responder := newResponder(&session.Options{Handler: handler})
	t.Cleanup(func() { responder.Close() })
	_, p = serve(t, with(responder, session.Options{
		Handler: handler, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}))
	handled = func() []string {
		p.take()
		out := got
		got = nil
		return out
	}
	return p, handled, func() string { p.take(); return log.String() }
}

// Proves M-CANC-03, M-CANC-04, M-CANC-08 and M-ERA-02.
func TestNotificationsOfModernClient(t *testing.T) {
	bubble(func(t *testing.T) {
		p, handled, logged := serveBoth(t)
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait",` + modernMeta + `}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,` + modernMeta + `}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"unknown"}}
			> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}
			> {"jsonrpc":"2.0","method":"notifications/roots/list_changed"}
			> {"jsonrpc":"2.0","method":"notifications/initialized"}
			> {"jsonrpc":"2.0","method":"custom/event"}
			> {"jsonrpc":"2.0","method":"custom/event","params":{` + modernMeta + `}}
		`)
		want := []string{"tools/call 2026-07-28 false", "custom/event 2026-07-28 false", "custom/event 2026-07-28 false"}
		if diff := cmp.Diff(want, handled()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := logged(); got != "" {
			t.Errorf("logged %s", got)
		}
		p.talk(`> {"jsonrpc":"2.0","method":"custom/event","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"v999.0.0","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		if got := handled(); got != nil || !strings.Contains(logged(), "notification failed") {
			t.Errorf("in an unknown version: handled %q, logged %q", got, logged())
		}

		p.talk(handshake + `
			> {"jsonrpc":"2.0","method":"custom/event"}
			> {"jsonrpc":"2.0","method":"custom/event","params":{` + modernMeta + `}}
		`)
		want = []string{"notifications/initialized 2025-11-25 true", "custom/event 2025-11-25 true", "custom/event 2026-07-28 false"}
		if diff := cmp.Diff(want, handled()); diff != "" {
			t.Errorf("beside a session (-want +got):\n%s", diff)
		}
	})(t)
}

// A session handles a notification that a bridge has received without a session.
func TestHandleTakesNotificationOfResponder(t *testing.T) {
	bubble(func(t *testing.T) {
		var got []string
		c, _ := sessiontest.Pair(t, sessiontest.Side{Config: session.Options{Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			got = append(got, req.Method)
			return nil, nil
		}}}, sessiontest.Side{})
		responder := newResponder(&session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			return c.Internals(boundary.Caller{}).Handle(ctx, req.Clone())
		}})
		defer responder.Close()
		_, p := serve(t, with(responder, session.Options{}))
		p.talk(`> {"jsonrpc":"2.0","method":"custom/event","params":{` + modernMeta + `}}`)
		if diff := cmp.Diff([]string{"custom/event"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})(t)
}

func TestClientExtension(t *testing.T) {
	const modern = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`
	bubble(func(t *testing.T) {
		var got []string
		handler := func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			if req.IsNotification() || req.Method == "initialize" {
				return nil, nil
			}
			req.Internals(boundary.Caller{}).ProgressToken() // reads the _meta
			for _, req := range []*session.Request{req, req.Clone()} {
				settings, ok := req.Internals(boundary.Caller{}).ClientExtension("x/y")
				req.Internals(boundary.Caller{}).Detach([]byte(`{"_meta":{` + modern + `{"extensions":{"x/y":"other"}}}}`))
				other, _ := req.Internals(boundary.Caller{}).ClientExtension("x/y")
				got = append(got, fmt.Sprintf("%s %t %s", string(settings), ok, string(other)))
			}
			return nil, nil
		}
		responder := newResponder(&session.Options{Handler: handler})
		defer responder.Close()
		_, p := serve(t, with(responder, session.Options{Handler: handler}))
		var want []string
		for i, x := range []struct{ capabilities, want string }{
			{`{"sampling":{"extensions":{}},"extensions":{"a":1,"x/y":{"b":[2]}}}`, `{"b":[2]} true "other"`},
			{`{"extensions":{"a":{"x/y":1}}}`, ` false "other"`},
			{`{"extensions":["x/y"]}`, ` false "other"`},
			{`{}`, ` false "other"`},
		} {
			p.talk(fmt.Sprintf(`
				> {"jsonrpc":"2.0","id":%d,"method":"custom/call","params":{"_meta":{%s%s}}}
				< {"jsonrpc":"2.0","id":%d,"result":{}}
			`, i, modern, x.capabilities, i))
			want = append(want, x.want, x.want)
		}
		p.talk(strings.Replace(handshake, `"sampling":{}`, `"extensions":{"x/y":{}}`, 1) + `
			> {"jsonrpc":"2.0","id":"s","method":"custom/call"}
			< {"jsonrpc":"2.0","id":"s","result":{}}
		`)
		want = append(want, `{} true {}`, `{} true {}`)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		rerun := new(session.Request).Internals(boundary.Caller{}).Stored(codec.IntScalar(1), "tools/call", []byte(`{"_meta":{`+modern+`{"extensions":{"x/y":1}}}}`), "2026-07-28")
		if settings, ok := rerun.Internals(boundary.Caller{}).ClientExtension("x/y"); string(settings) != "1" || !ok {
			t.Errorf("re-run: %s, %t", settings, ok)
		}
	})(t)
}

// The requests of a client without a session that are open at the end of a Shutdown get the error
// code of their revision.
func TestShutdownAnswersModernRequests(t *testing.T) {
	bubble(func(t *testing.T) {
		release := make(chan struct{})
		handler := func(context.Context, *session.Request) (codec.Encoder, error) {
			<-release
			return nil, nil
		}
		responder := newResponder(&session.Options{Handler: handler})
		s, p := serve(t, with(responder, session.Options{Handler: handler}))
		p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait",` + modernMeta + `}}`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		p.talk(`< {"jsonrpc":"2.0","id":1,"error":{"code":-31051}}`)
		close(release)
	})(t)
}
