package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// Proves LIFE-01, LIFE-03, LIFE-14.
func TestServerServesNothingBeforeInitialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serve(t, &session.Options{Handler: custom()})
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32600}}
			> {"jsonrpc":"2.0","id":2,"method":"x/nothing"}
			< {"jsonrpc":"2.0","id":2,"error":{"code":-32600}}
			> {"jsonrpc":"2.0","method":"notifications/initialized"}
			> {"jsonrpc":"2.0","id":3,"method":"x/nothing"}
			< {"jsonrpc":"2.0","id":3,"error":{"code":-32600}}
			> {"jsonrpc":"2.0","id":4,"method":"initialize","params":{"capabilities":{}}}
			< {"jsonrpc":"2.0","id":4,"error":{"code":-32602}}
			> {"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"x":{}},"other":7},"clientInfo":{"name":"c","version":"1"}}}
			< {"jsonrpc":"2.0","id":5,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}
			> {"jsonrpc":"2.0","id":6,"method":"x/nothing"}
			< {"jsonrpc":"2.0","id":6,"result":{}}
		`)
		if got := string(s.Client().Capabilities.Experimental); got != `{"x":{}}` {
			t.Errorf("experimental capabilities are %s", got)
		}
		if _, ok := s.Client().Capabilities.Extra.Get("other"); !ok {
			t.Error("an unknown capability is lost")
		}
	})
}

// Scripts send all messages at once. Those after initialize wait for its answer.
func TestClientSendsBeforeAnswerToInitialize(t *testing.T) {
	slow := func(next session.Handler) session.Handler {
		return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.Method == "initialize" {
				time.Sleep(time.Second)
			}
			return next(ctx, req)
		}
	}
	for _, c := range []struct{ name, params, want string }{
		{"accepted", `{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}`, `
			< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}
			< {"jsonrpc":"2.0","id":2,"result":{}}
		`},
		{"rejected", `{}`, `
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32602}}
			< {"jsonrpc":"2.0","id":2,"error":{"code":-32600}}
		`},
	} {
		t.Run(c.name, bubble(func(t *testing.T) {
			s, p := serve(t, &session.Options{Handler: custom(), Hooks: session.Hooks{Receiving: []session.Middleware{slow}}})
			p.talk(`
				> {"jsonrpc":"2.0","id":1,"method":"initialize","params":` + c.params + `}
				> {"jsonrpc":"2.0","method":"notifications/initialized"}
				> {"jsonrpc":"2.0","id":2,"method":"x/nothing"}
				> {"jsonrpc":"2.0","id":3,"method":"x/nothing"}
				> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}
			`)
			time.Sleep(time.Second)
			p.talk(c.want)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := s.Ready(ctx); (err == nil) != (c.name == "accepted") {
				t.Errorf("got %v", err)
			}
		}))
	}
}

// Proves LIFE-08, LIFE-09, LIFE-10.
func TestServerNegotiatesRevision(t *testing.T) {
	for _, c := range []struct {
		request, want string
		supported     []mcp.Revision
	}{
		{"2024-11-05", "2024-11-05", nil},
		{"2025-03-26", "2025-03-26", nil},
		{"2025-06-18", "2025-06-18", nil},
		{"2025-11-25", "2025-11-25", nil},
		{"1999-01-01", "2025-11-25", nil},
		{"2099-01-01", "2025-11-25", nil},
		{"2026-07-28", "2025-11-25", nil}, // a revision without initialize
		{"2025-11-25", "2025-06-18", []mcp.Revision{mcp.Revision20250618, mcp.Revision20241105}},
	} {
		t.Run(c.request, bubble(func(t *testing.T) {
			s, p := serve(t, &session.Options{Revisions: c.supported})
			p.talk(fmt.Sprintf(`
				> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
				< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}
			`, c.request, c.want))
			if got := s.Revision(); got != mcp.Revision(c.want) {
				t.Errorf("revision is %s", got)
			}
		}))
	}
}

// Proves LIFE-02, LIFE-04, LIFE-05, LIFE-07.
func TestClientHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := newPeer(t)
		done := make(chan *session.Session)
		go func() {
			s, err := session.Connect(t.Context(), conn, &mcp.InitializeRequestParams{
				ClientInfo:   mcp.Implementation{Name: "c", Version: "1"},
				Capabilities: mcp.ClientCapabilities{Roots: &mcp.ClientCapabilitiesRoots{}},
			}, nil)
			if err != nil {
				t.Error(err)
			}
			done <- s
		}()
		p.talk(`
			< {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}
			Only pings are answered meanwhile.
			> {"jsonrpc":"2.0","id":1,"method":"ping"}
			< {"jsonrpc":"2.0","id":1,"result":{}}
			> {"jsonrpc":"2.0","id":2,"method":"roots/list"}
			< {"jsonrpc":"2.0","id":2,"error":{"code":-32600}}
			> {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"Be nice."}}
			< {"jsonrpc":"2.0","method":"notifications/initialized"}
		`)
		s := <-done
		defer s.Close()
		if got := s.Revision(); got != mcp.Revision20250618 {
			t.Errorf("revision is %s", got)
		}
		if got := *s.Server().Instructions; got != "Be nice." {
			t.Errorf("instructions are %q", got)
		}
		if err := s.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestRequestIDsHavePrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := newPeer(t)
		done := make(chan error)
		go func() { // ends with Ping
			var cfg session.Options
			cfg.Internals(boundary.Caller{}).IDPrefix = "a-"
			s, err := session.Connect(t.Context(), conn, nil, &cfg)
			if err == nil {
				err = s.Ping(t.Context())
				s.Close()
			}
			done <- err
		}()
		p.talk(`
			< {"jsonrpc":"2.0","id":"a-1","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"","version":""}}}
			> {"jsonrpc":"2.0","id":"a-1","result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}
			< {"jsonrpc":"2.0","method":"notifications/initialized"}
			< {"jsonrpc":"2.0","id":"a-2","method":"ping"}
			> {"jsonrpc":"2.0","id":"a-2","result":{}}
		`)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A client that does not support the newest revision requests the first of its own revisions. It
// ignores the version in its params.
func TestClientRequestsSupportedRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := newPeer(t)
		done := make(chan *session.Session)
		go func() {
			s, err := session.Connect(t.Context(), conn, &mcp.InitializeRequestParams{
				ProtocolVersion: string(mcp.Revision20251125), ClientInfo: mcp.Implementation{Name: "c", Version: "1"},
			}, &session.Options{Revisions: []mcp.Revision{mcp.Revision20250618, mcp.Revision20250326}})
			if err != nil {
				t.Error(err)
			}
			done <- s
		}()
		p.talk(`
			< {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
			> {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}
			< {"jsonrpc":"2.0","method":"notifications/initialized"}
		`)
		s := <-done
		defer s.Close()
	})
}

// Proves LIFE-04, LIFE-11, LIFE-23, CANC-03.
func TestFailedConnectClosesConnection(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		check        func(error) bool
	}{
		{"rejected", `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}`, func(err error) bool {
			e, ok := errors.AsType[*jsonrpc.Error](err)
			return ok && e.Code == -32000
		}},
		{"no common revision", `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, func(err error) bool {
			e, ok := errors.AsType[*session.VersionError](err)
			return ok && e.Offered == "1999-01-01" && e.Requested == mcp.Revision20251125 && len(e.Supported) == 4
		}},
		{"invalid result", `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":7}}`, func(err error) bool { return jsonrpc.CodeOf(err) == jsonrpc.CodeInvalidParams }},
		{"timeout", ``, func(err error) bool {
			return errors.Is(err, session.ErrTimeout) && errors.Is(err, context.DeadlineExceeded)
		}},
	} {
		t.Run(c.name, bubble(func(t *testing.T) {
			p, conn := newPeer(t)
			done := make(chan error)
			go func() {
				_, err := session.Connect(t.Context(), conn, nil, nil)
				done <- err
			}()
			if got := p.take(); len(got) != 1 {
				t.Errorf("got %q", got)
			}
			if c.answer != "" {
				p.send(c.answer)
			}
			if err := <-done; !c.check(err) {
				t.Errorf("got %v", err)
			}
			<-p.closed
			if got := p.take(); got != nil {
				t.Errorf("got %q", got)
			}
		}))
	}
	t.Run("cancelled", bubble(func(t *testing.T) {
		p, conn := newPeer(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("cancelled by the caller")
		done := make(chan error)
		go func() {
			_, err := session.Connect(ctx, conn, nil, nil)
			done <- err
		}()
		p.take()
		cancel(cause)
		if err := <-done; err != cause {
			t.Errorf("got %v, want %v", err, cause)
		}
		if got := p.take(); got != nil {
			t.Errorf("got %q", got)
		}
	}))
}

// Proves LIFE-06.
func TestServerSendsNothingBeforeInitialized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := newPeer(t)
		s := session.Serve(conn, &mcp.InitializeResult{Capabilities: mcp.ServerCapabilities{Logging: []byte("{}")}}, nil)
		defer s.Close()
		log := func() error {
			return mcp.NotifyClient{Notifier: s}.LoggingMessage(t.Context(), &mcp.LoggingMessageNotificationParams{Level: "info", Data: []byte("1")})
		}
		if err := log(); err != session.ErrNotInitialized {
			t.Errorf("got %v", err)
		}
		p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`)
		p.take()
		if _, err := s.Call(t.Context(), "roots/list", nil); err != session.ErrNotInitialized {
			t.Errorf("got %v", err)
		}
		if err := s.Notify(t.Context(), "x", nil); err != session.ErrNotInitialized {
			t.Errorf("got %v", err)
		}
		if err := log(); err != nil {
			t.Error(err)
		}
		go s.Ping(t.Context()) // ends with the session
		p.talk(`
			< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}
			< {"jsonrpc":"2.0","id":1,"method":"ping"}
			> {"jsonrpc":"2.0","id":1,"result":{}}
			> {"jsonrpc":"2.0","method":"notifications/initialized"}
		`)
		go s.Call(t.Context(), "roots/list", nil) // ends with the session
		p.talk(`< {"jsonrpc":"2.0","id":2,"method":"roots/list"}`)
	})
}

// allServerCapabilities returns all capabilities of a server.
func allServerCapabilities() mcp.ServerCapabilities {
	object := []byte("{}")
	return mcp.ServerCapabilities{
		Completions: object, Logging: object,
		Prompts:   &mcp.ServerCapabilitiesPrompts{ListChanged: new(true)},
		Resources: &mcp.ServerCapabilitiesResources{ListChanged: new(true), Subscribe: new(true)},
		Tools:     &mcp.ServerCapabilitiesTools{ListChanged: new(true)},
		Tasks: &mcp.ServerCapabilitiesTasks{List: object, Cancel: object, Requests: &mcp.ServerCapabilitiesTasksRequests{
			Tools: &mcp.ServerCapabilitiesTasksRequestsTools{Call: object},
		}},
	}
}

// allClientCapabilities returns all capabilities of a client.
func allClientCapabilities() mcp.ClientCapabilities {
	object := []byte("{}")
	return mcp.ClientCapabilities{
		Elicitation: &mcp.ClientCapabilitiesElicitation{Form: object, URL: object},
		Roots:       &mcp.ClientCapabilitiesRoots{ListChanged: new(true)},
		Sampling:    &mcp.ClientCapabilitiesSampling{},
		Tasks: &mcp.ClientCapabilitiesTasks{List: object, Cancel: object, Requests: &mcp.ClientCapabilitiesTasksRequests{
			Elicitation: &mcp.ClientCapabilitiesTasksRequestsElicitation{Create: object},
			Sampling:    &mcp.ClientCapabilitiesTasksRequestsSampling{CreateMessage: object},
		}},
	}
}

// Without capabilities, the sender rejects every method except ping and the notifications that need
// no capability. With all capabilities, it rejects only methods that the revision does not have.
func TestOnlyNegotiatedMethodsAreSent(t *testing.T) {
	for _, c := range []struct {
		name   string
		rev    mcp.Revision
		client mcp.ClientCapabilities
		server mcp.ServerCapabilities
		want   func(m mcp.Method, from mcp.Direction) bool
	}{
		{"no capabilities", mcp.Revision20251125, mcp.ClientCapabilities{}, mcp.ServerCapabilities{}, func(m mcp.Method, from mcp.Direction) bool {
			return m.Name == "ping" || m.Name == "notifications/cancelled" || m.Name == "notifications/progress" || m.Name == "notifications/initialized"
		}},
		{"all capabilities", mcp.Revision20251125, allClientCapabilities(), allServerCapabilities(), func(m mcp.Method, from mcp.Direction) bool {
			return m.In(mcp.Revision20251125) && m.Name != "initialize"
		}},
		{"all capabilities, older revision", mcp.Revision20250618, allClientCapabilities(), allServerCapabilities(), func(m mcp.Method, from mcp.Direction) bool {
			return m.In(mcp.Revision20250618) && m.Name != "initialize"
		}},
		{"all capabilities, oldest revision", mcp.Revision20241105, allClientCapabilities(), allServerCapabilities(), func(m mcp.Method, from mcp.Direction) bool {
			return m.In(mcp.Revision20241105) && m.Name != "initialize"
		}},
	} {
		t.Run(c.name, bubble(func(t *testing.T) {
			cfg := session.Options{Revisions: []mcp.Revision{c.rev}}
			client, server := sessiontest.Pair(t, sessiontest.Side{Client: c.client, Config: cfg}, sessiontest.Side{Server: c.server, Config: cfg})
			for _, side := range []struct {
				s    *session.Session
				from mcp.Direction
			}{{client, mcp.FromClient}, {server, mcp.FromServer}} {
				for _, m := range mcp.Methods() {
					if m.Name == "initialize" {
						continue // has no caller
					}
					var err error
					if m.Notification {
						err = side.s.Notify(t.Context(), m.Name, session.Raw(`{}`))
					} else {
						_, err = side.s.Call(t.Context(), m.Name, session.Raw(`{}`))
					}
					_, rejected := errors.AsType[*session.CapabilityError](err)
					if want := m.From&side.from != 0 && c.want(m, side.from); want == rejected {
						t.Errorf("%s, server %v: %v", m.Name, side.s.Internals(boundary.Caller{}).IsServer(), err)
					}
				}
				if err := side.s.Notify(t.Context(), "x/y", nil); err != nil {
					t.Errorf("a custom notification: %v", err)
				}
			}
			asTask := &mcp.CallToolRequestParams{Name: "t", Task: &mcp.TaskMetadata{}}
			_, err := client.Call(t.Context(), "tools/call", asTask)
			_, rejected := errors.AsType[*session.CapabilityError](err)
			if want := c.rev == mcp.Revision20251125 && c.server.Tasks != nil; want == rejected || want != client.Internals(boundary.Caller{}).PeerTakesTask("tools/call") || want != server.Internals(boundary.Caller{}).TakesTask("tools/call") {
				t.Errorf("tools/call as a task: %v", err)
			}
			for _, method := range []string{"sampling/createMessage", "elicitation/create"} {
				_, err := server.Call(t.Context(), method, session.Raw(`{"task":{}}`))
				_, rejected := errors.AsType[*session.CapabilityError](err)
				if want := c.rev == mcp.Revision20251125 && c.client.Tasks != nil; want == rejected || want != server.Internals(boundary.Caller{}).PeerTakesTask(method) || want != client.Internals(boundary.Caller{}).TakesTask(method) {
					t.Errorf("%s as a task: %v", method, err)
				}
			}
			if client.Internals(boundary.Caller{}).PeerTakesTask("tools/list") || server.Internals(boundary.Caller{}).TakesTask("tools/list") {
				t.Error("tools/list was declared as a task method")
			}
		}))
	}
}

// Proves LIFE-12, LIFE-13.
func TestPartialCapabilitiesAreNegotiated(t *testing.T) {
	object := []byte("{}")
	form, url, tools := &mcp.ElicitRequestFormParams{}, &mcp.ElicitRequestURLParams{}, &mcp.CreateMessageRequestParams{Tools: []mcp.Tool{}}
	const elicit, sample = "elicitation/create", "sampling/createMessage"
	for _, c := range []struct {
		name   string
		rev    mcp.Revision
		client mcp.ClientCapabilities
		method string
		params codec.Encoder
		want   string // the missing capability
	}{
		{"an empty object means forms", mcp.Revision20251125, mcp.ClientCapabilities{Elicitation: &mcp.ClientCapabilitiesElicitation{}}, elicit, form, ""},
		{"an empty object does not mean URLs", mcp.Revision20251125, mcp.ClientCapabilities{Elicitation: &mcp.ClientCapabilitiesElicitation{}}, elicit, url, "elicitation.url"},
		{"URLs only, form requested", mcp.Revision20251125, mcp.ClientCapabilities{Elicitation: &mcp.ClientCapabilitiesElicitation{URL: object}}, elicit, form, "elicitation.form"},
		{"URLs", mcp.Revision20251125, mcp.ClientCapabilities{Elicitation: &mcp.ClientCapabilitiesElicitation{URL: object}}, elicit, url, ""},
		{"forms", mcp.Revision20251125, mcp.ClientCapabilities{Elicitation: &mcp.ClientCapabilitiesElicitation{Form: object, URL: object}}, elicit, form, ""},
		{"URLs in a revision without them", mcp.Revision20250618, mcp.ClientCapabilities{Elicitation: &mcp.ClientCapabilitiesElicitation{URL: object}}, elicit, url, "elicitation.url"},
		{"forms in a revision without URLs", mcp.Revision20250618, mcp.ClientCapabilities{Elicitation: &mcp.ClientCapabilitiesElicitation{URL: object}}, elicit, form, ""},
		{"sampling with tools", mcp.Revision20251125, mcp.ClientCapabilities{Sampling: &mcp.ClientCapabilitiesSampling{Tools: object}}, sample, tools, ""},
		{"sampling with undeclared tools", mcp.Revision20251125, mcp.ClientCapabilities{Sampling: &mcp.ClientCapabilitiesSampling{}}, sample, tools, "sampling.tools"},
		{"sampling without tools", mcp.Revision20251125, mcp.ClientCapabilities{Sampling: &mcp.ClientCapabilitiesSampling{}}, sample, &mcp.CreateMessageRequestParams{}, ""},
	} {
		t.Run(c.name, bubble(func(t *testing.T) {
			cfg := session.Options{Revisions: []mcp.Revision{c.rev}}
			_, s := sessiontest.Pair(t, sessiontest.Side{Client: c.client, Config: cfg}, sessiontest.Side{Config: cfg})
			_, err := s.Call(t.Context(), c.method, c.params)
			got := ""
			if e, ok := errors.AsType[*session.CapabilityError](err); ok {
				got = e.Capability
			}
			if got != c.want {
				t.Errorf("got %v, want %q to be missing", err, c.want)
			}
		}))
	}
}

func TestCapabilityErrorText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := sessiontest.Pair(t, sessiontest.Side{}, sessiontest.Side{Server: mcp.ServerCapabilities{Resources: &mcp.ServerCapabilitiesResources{}}})
		for _, row := range []struct {
			s      *session.Session
			method string
			want   session.CapabilityError
		}{
			{c, "resources/subscribe", session.CapabilityError{Capability: "resources.subscribe"}},
			{c, "notifications/roots/list_changed", session.CapabilityError{Capability: "roots.listChanged", Own: true}},
			{c, "server/discover", session.CapabilityError{}},
			{c, "roots/list", session.CapabilityError{}},
			{s, "sampling/createMessage", session.CapabilityError{Capability: "sampling"}},
		} {
			row.want.Method, row.want.Revision = row.method, mcp.Revision20251125
			var err error
			if strings.HasPrefix(row.method, "notifications/") {
				err = row.s.Notify(t.Context(), row.method, nil)
			} else {
				_, err = row.s.Call(t.Context(), row.method, nil)
			}
			got, _ := errors.AsType[*session.CapabilityError](err)
			if diff := cmp.Diff(&row.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", row.method, diff)
			}
			if !strings.Contains(err.Error(), row.method) || !strings.Contains(err.Error(), row.want.Capability) {
				t.Errorf("%s: %v", row.method, err)
			}
		}
	})
}

// Proves LIFE-18, LIFE-19, LIFE-20, LIFE-23, CANC-08.
func TestEveryRequestHasTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		for i, c := range []struct {
			call func() error
			want time.Duration
		}{
			{func() error { _, err := s.Call(t.Context(), "roots/list", nil); return err }, session.DefaultTimeout},
			{func() error {
				_, err := s.With(session.Timeout(time.Second)).Call(t.Context(), "roots/list", nil)
				return err
			}, time.Second},
			{func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				_, err := s.With(session.Timeout(0)).Call(ctx, "roots/list", nil)
				return err
			}, 2 * time.Second},
		} {
			start := time.Now()
			err := c.call()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if took := time.Since(start); took != c.want {
				t.Errorf("it took %v, want %v", took, c.want)
			}
			p.talk(fmt.Sprintf(`
				< {"jsonrpc":"2.0","id":%[1]d,"method":"roots/list"}
				< {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%[1]d,"reason":%[2]q}}
				The call has already returned.
				> {"jsonrpc":"2.0","id":%[1]d,"result":{"roots":[]}}
			`, i+1, err))
		}
	})
}

// Proves LIFE-21, LIFE-22.
func TestProgressExtendsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		tracker := s.Internals(boundary.Caller{}).NewTracker()
		defer tracker.Close()
		start := time.Now()
		done := make(chan error)
		go func() {
			_, err := s.With(session.Timeout(time.Second), session.ProgressExtends(3500*time.Millisecond), session.Track(tracker)).Call(t.Context(), "roots/list", nil)
			done <- err
		}()
		for i := range 10 {
			time.Sleep(900 * time.Millisecond)
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, tracker.Token(), i))
			select {
			case err := <-done:
				if took := time.Since(start); err != session.ErrTimeout || took != 3600*time.Millisecond {
					t.Errorf("after %v: %v", took, err)
				}
				if got := p.take(); len(got) != 2 || !strings.Contains(got[1], "notifications/cancelled") {
					t.Errorf("got %q", got)
				}
				return
			default:
			}
		}
		t.Error("the call did not end")
	})
}

func TestProgressExtendsRequestsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		go s.With(session.ProgressExtends(time.Hour)).Call(t.Context(), "roots/list", nil) // ends with the session
		if got := p.take(); len(got) != 1 || !strings.Contains(got[0], `"progressToken":"`) {
			t.Errorf("got %q", got)
		}
		start := time.Now()
		_, err := s.With(session.Timeout(0), session.ProgressExtends(time.Hour)).Call(t.Context(), "roots/list", nil)
		if took := time.Since(start); err != session.ErrTimeout || took != time.Hour {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// restoredConn is a connection of a session that was opened before.
type restoredConn struct {
	transport.Conn
	unpersisted
	revision   mcp.Revision
	initialize []byte // nil if it is unknown
}

// unpersisted has the methods of a [transport.Persister] that persists nothing.
type unpersisted struct{}

func (unpersisted) PersistedState() (state []byte, ok bool)    { return nil, false }
func (unpersisted) PersistState(context.Context, []byte) error { return errors.ErrUnsupported }
func (unpersisted) Suspend()                                   {}

func (c restoredConn) Restored() (mcp.Revision, []byte, bool) { return c.revision, c.initialize, true }

// Proves JSONRPC-04.
func TestRestoreOverAnotherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := serve(t, nil)
		if _, ok := s.Internals(boundary.Caller{}).State(); ok {
			t.Error("State is set before the handshake")
		}
		p.talk(handshake)
		state, ok := s.Internals(boundary.Caller{}).State()
		if !ok {
			t.Fatal("State is not set after the handshake")
		}
		initialize, err := codec.Marshal(state.Client)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		for range 2 {
			p, there := newPeer(t)
			conn := restoredConn{Conn: there, revision: state.Revision, initialize: initialize}
			s := session.Serve(conn, state.Server, &session.Options{Handler: custom()})
			defer s.Close()
			if err := s.Ready(t.Context()); err != nil {
				t.Error(err)
			}
			p.talk(`
				> {"jsonrpc":"2.0","id":1,"method":"x/nothing"}
				< {"jsonrpc":"2.0","id":1,"result":{}}
				> {"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
				< {"jsonrpc":"2.0","id":2,"error":{"code":-32600}}
			`)
			ids := map[jsonrpc.ID]bool{codec.IntScalar(1): true, codec.IntScalar(2): true}
			for range 2 {
				got := make(chan error)
				go func() {
					// The client has declared roots.
					_, err := s.Call(t.Context(), "roots/list", nil)
					got <- err
				}()
				m, err := jsonrpc.Parse([]byte(p.take()[0]))
				if err != nil {
					t.Fatal(err)
				}
				if ids[m.ID] {
					t.Errorf("id %s is used again", m.ID)
				}
				ids[m.ID] = true
				p.send(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{"roots":[]}}`)
				if err := <-got; err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func TestRestoreWithUnknownClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := newPeer(t)
		s := session.Serve(restoredConn{Conn: conn, revision: mcp.Revision20250326}, nil, &session.Options{Handler: custom()})
		defer s.Close()
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"x/nothing"}
			< {"jsonrpc":"2.0","id":1,"result":{}}
		`)
		if _, err := s.Call(t.Context(), "roots/list", nil); !strings.Contains(err.Error(), "roots") {
			t.Errorf("got %v", err)
		}
	})
}

// A session with an invalid configuration is not opened, and its connection is closed.
func TestInvalidConfigIsRejected(t *testing.T) {
	cfg := &session.Options{Limits: session.Limits{Bytes: -3}, Timeouts: session.Timeouts{Grace: -3}, Logger: quiet()}
	want := "session: negative Limits.Bytes (-3)\nsession: negative Timeouts.Grace (-3ns)"
	here, there := inmemory.Pair(inmemory.Options{})
	if s, err := session.Connect(t.Context(), here, nil, cfg); s != nil || err == nil || err.Error() != want {
		t.Errorf("Connect returns %v", err)
	}
	if _, err := there.Read(); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("the peer reads %v", err)
	}
	here, there = inmemory.Pair(inmemory.Options{})
	if err := session.Serve(here, nil, cfg).Wait(); err == nil || err.Error() != want {
		t.Errorf("Wait returns %v", err)
	}
	if _, err := there.Read(); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("the peer reads %v", err)
	}
}
