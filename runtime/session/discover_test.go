package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// requestMeta is the _meta of the requests of a modern client.
const requestMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}`

const (
	probe      = `< {"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + requestMeta + `}}`
	discovered = `> {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},` +
		`"instructions":"Be kind.","ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}}}`
	initialize = `< {"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"c","version":"1"}}}`
	opened     = `> {"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}}`
)

// bothEras are the revisions of a client that speaks all of them.
func bothEras() []mcp.Revision { return append(session.ModernRevisions(), session.Revisions()...) }

// dialling is a call of Connect that has not returned yet.
type dialling struct {
	*peer
	t    *testing.T
	done chan struct{}
	s    *session.Session
	err  error
}

// dial starts Connect with a peer in a synctest bubble.
func dial(t *testing.T, cfg session.Options) *dialling {
	p, conn := newPeer(t)
	d := &dialling{peer: p, t: t, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		d.s, d.err = session.Connect(t.Context(), conn, &mcp.InitializeRequestParams{
			Capabilities: mcp.ClientCapabilities{Roots: &mcp.ClientCapabilitiesRoots{ListChanged: new(true)}},
			ClientInfo:   mcp.Implementation{Name: "c", Version: "1"},
		}, &cfg)
	}()
	t.Cleanup(func() {
		<-d.done
		if d.s != nil {
			d.s.Close()
		}
	})
	return d
}

// session returns the session, which must be open.
func (d *dialling) session() *session.Session {
	d.t.Helper()
	synctest.Wait()
	select {
	case <-d.done:
	default:
		d.t.Fatal("Connect has not returned")
	}
	if d.err != nil {
		d.t.Fatal(d.err)
	}
	return d.s
}

// knowing returns the configuration of a client that knows a server.
func knowing(state *session.State) session.Options {
	cfg := session.Options{Revisions: bothEras()}
	cfg.Internals(boundary.Caller{}).Known = state
	return cfg
}

// modern returns a session with a peer that has answered server/discover.
func modern(t *testing.T, cfg session.Options) (*session.Session, *peer) {
	t.Helper()
	if cfg.Revisions == nil {
		cfg.Revisions = bothEras()
	}
	d := dial(t, cfg)
	d.talk(probe + "\n" + discovered)
	return d.session(), d.peer
}

// Proves M-ERA-10, M-META-01, M-META-02, M-ROOT-01.
func TestConnectProbesWithDiscover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := modern(t, session.Options{})
		server := s.Server()
		if !s.Traits().Sessionless || s.Revision() != mcp.Revision20260728 || server.ServerInfo.Name != "s" || *server.Instructions != "Be kind." {
			t.Errorf("modern %v, revision %s, server %+v", s.Traits().Sessionless, s.Revision(), server)
		}
		go mcp.ToServer{Caller: s}.ListTools(t.Context(), nil)
		p.talk(`
			< {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{` + requestMeta + `}}
			> {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}}
		`)
	})
}

// Proves M-ERA-12, M-ERR-04.
func TestConnectFallsBackToInitialize(t *testing.T) {
	for name, answer := range map[string]string{
		"method not found": `"error":{"code":-32601,"message":"x"}`,
		"invalid params":   `"error":{"code":-32602,"message":"x"}`,
		"own code":         `"error":{"code":-32000,"message":"x"}`,
		"invalid request":  `"error":{"code":-32600,"message":"x"}`,
		"foreign result":   `"result":{}`,
		"older revisions":  `"result":{"supportedVersions":["2025-11-25"],"capabilities":{},"resultType":"complete","ttlMs":0,"cacheScope":"public"}`,
	} {
		t.Run(name, bubble(func(t *testing.T) {
			d := dial(t, session.Options{Revisions: bothEras()})
			d.talk(probe + "\n> {\"jsonrpc\":\"2.0\",\"id\":1," + answer + "}\n" + initialize + "\n" + opened + `
				< {"jsonrpc":"2.0","method":"notifications/initialized"}
			`)
			if s := d.session(); s.Traits().Sessionless || s.Revision() != mcp.Revision20251125 || s.Server().ServerInfo.Name != "old" {
				t.Errorf("modern %v, revision %s", s.Traits().Sessionless, s.Revision())
			}
		}))
	}
}

// Proves M-ERA-12.
func TestConnectFallsBackIfDiscoverIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dial(t, session.Options{Revisions: bothEras()})
		d.talk(probe)
		time.Sleep(5 * time.Second)
		d.talk(initialize + "\n" + opened + "\n" + `< {"jsonrpc":"2.0","method":"notifications/initialized"}`)
		if s := d.session(); s.Traits().Sessionless {
			t.Error("session is modern")
		}
		d.talk(discovered) // too late: ignored
		if d.s.Traits().Sessionless {
			t.Error("session has become modern")
		}
	})
}

// A server that starts slowly reads server/discover first.
func TestConnectTakesLateAnswerToDiscover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dial(t, session.Options{Revisions: bothEras()})
		d.talk(probe)
		time.Sleep(5 * time.Second)
		d.talk(initialize + "\n" + discovered + "\n" + `> {"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"x"}}`)
		if s := d.session(); !s.Traits().Sessionless {
			t.Error("session is not modern")
		}
	})
}

// Proves M-ERA-11, M-VER-03.
func TestConnectChoosesFromSupportedRevisions(t *testing.T) {
	unsupported := func(id, list string) string {
		return `> {"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32022,"message":"x","data":{"requested":"2026-07-28","supported":` + list + `}}}`
	}
	t.Run("common", bubble(func(t *testing.T) {
		d := dial(t, session.Options{Revisions: bothEras()})
		d.talk(probe + "\n" + unsupported("1", `["2027-01-01","2026-07-28"]`) + "\n" +
			strings.Replace(probe, `"id":1`, `"id":2`, 1) + "\n" + strings.Replace(discovered, `"id":1`, `"id":2`, 1))
		if !d.session().Traits().Sessionless {
			t.Error("session is not modern")
		}
	}))
	t.Run("only with sessions", bubble(func(t *testing.T) {
		d := dial(t, session.Options{Revisions: bothEras()})
		d.talk(probe + "\n" + unsupported("1", `["2025-11-25"]`) + "\n" + initialize + "\n" + opened + `
			< {"jsonrpc":"2.0","method":"notifications/initialized"}
		`)
		if d.session().Traits().Sessionless {
			t.Error("session is modern")
		}
	}))
	t.Run("none", bubble(func(t *testing.T) {
		d := dial(t, session.Options{Revisions: bothEras()})
		d.talk(probe + "\n" + unsupported("1", `["2027-01-01"]`))
		<-d.done
		if e, ok := errors.AsType[*session.VersionError](d.err); !ok || e.Offered != "2027-01-01" {
			t.Error(d.err)
		}
	}))
	t.Run("rejected again", bubble(func(t *testing.T) {
		d := dial(t, session.Options{Revisions: bothEras()})
		d.talk(probe + "\n" + unsupported("1", `["2026-07-28"]`) + "\n" + strings.Replace(probe, `"id":1`, `"id":2`, 1) + "\n" + unsupported("2", `["2026-07-28"]`))
		<-d.done
		if _, ok := errors.AsType[*session.VersionError](d.err); !ok {
			t.Error(d.err)
		}
	}))
}

// Proves M-ERA-11.
func TestConnectStaysModernAfterModernError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dial(t, session.Options{Revisions: bothEras()})
		d.talk(probe + "\n" + `> {"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"x","data":{"requiredCapabilities":{"sampling":{}}}}}`)
		<-d.done
		if e, ok := errors.AsType[*session.CapabilityError](d.err); !ok || e.Capability != "sampling" || !e.Own {
			t.Error(d.err)
		}
	})
}

// Proves M-ERA-15.
func TestConnectOfModernRevisionsFailsClearly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dial(t, session.Options{Revisions: session.ModernRevisions()})
		d.talk(probe + "\n" + `> {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method"}}`)
		<-d.done
		if !errors.Is(d.err, session.ErrNotModern) || !strings.Contains(d.err.Error(), "no such method") {
			t.Error(d.err)
		}
	})
}

// Proves M-ERA-14.
func TestConnectToKnownServer(t *testing.T) {
	known := &session.State{Revision: mcp.Revision20260728, Server: &mcp.InitializeResult{ServerInfo: mcp.Implementation{Name: "s"}}}
	t.Run("modern", bubble(func(t *testing.T) {
		d := dial(t, knowing(known))
		d.talk("")
		s := d.session()
		if state, ok := s.Internals(boundary.Caller{}).State(); !ok || state.Revision != known.Revision || state.Server.ServerInfo.Name != "s" {
			t.Errorf("state %+v", state)
		}
	}))
	t.Run("with sessions", bubble(func(t *testing.T) {
		d := dial(t, knowing(&session.State{Revision: mcp.Revision20251125}))
		d.talk(strings.Replace(initialize, `"id":2`, `"id":1`, 1) + "\n" + strings.Replace(opened, `"id":2`, `"id":1`, 1) + `
			< {"jsonrpc":"2.0","method":"notifications/initialized"}
		`)
		if d.session().Traits().Sessionless {
			t.Error("session is modern")
		}
	}))
	t.Run("has changed", bubble(func(t *testing.T) {
		d := dial(t, knowing(&session.State{Revision: mcp.Revision20251125}))
		d.talk(strings.Replace(initialize, `"id":2`, `"id":1`, 1) + `
			> {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}
			` + strings.Replace(probe, `"id":1`, `"id":2`, 1) + "\n" + strings.Replace(discovered, `"id":1`, `"id":2`, 1))
		if !d.session().Traits().Sessionless {
			t.Error("session is not modern")
		}
	}))
}

// Proves M-META-01.
func TestModernRequestKeepsItsOwnMeta(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := modern(t, session.Options{})
		meta := &mcp.RequestMetaObject{ProgressToken: codec.StringScalar("t")}
		go mcp.ToServer{Caller: s}.CallTool(t.Context(), &mcp.CallToolRequestParams{Name: "x", Meta: meta})
		p.talk(`< {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x",` + strings.Replace(requestMeta, `{`, `{"progressToken":"t",`, 1) + `}}`)
		go s.Call(t.Context(), "own/method", session.Raw(`{ "a": 1 }`))
		p.talk(`< {"jsonrpc":"2.0","id":3,"method":"own/method","params":{"a":1,` + requestMeta + `}}`)
		go s.Call(t.Context(), "own/method", session.Raw(`{}`))
		p.talk(`< {"jsonrpc":"2.0","id":4,"method":"own/method","params":{` + requestMeta + `}}`)
		go s.Call(t.Context(), "own/method", session.Raw(`{"a":1,"_meta":{"b":2,"io.modelcontextprotocol/protocolVersion":"forged"}}`))
		p.talk(`< {"jsonrpc":"2.0","id":5,"method":"own/method","params":{"a":1,` + strings.Replace(requestMeta, `{`, `{"b":2,`, 1) + `}}`)
	})
}

// Proves M-RPC-08, M-RPC-09.
func TestModernResultTypes(t *testing.T) {
	for _, c := range []struct {
		name, method, result string
		ok                   bool
	}{
		{"complete", "tools/call", `{"resultType":"complete","content":[]}`, true},
		{"absent", "tools/call", `{"content":[]}`, true},
		{"input required", "tools/call", `{"resultType":"input_required","requestState":"x"}`, true},
		{"input required for a list", "tools/list", `{"resultType":"input_required","requestState":"x"}`, false},
		{"unknown", "tools/call", `{"resultType":"bogus","content":[]}`, false},
		{"task without the extension", "tools/call", `{"resultType":"task"}`, false},
		{"not a string", "tools/call", `{"resultType":1}`, false},
	} {
		t.Run(c.name, bubble(func(t *testing.T) {
			s, p := modern(t, session.Options{})
			failed := make(chan error, 1)
			go func() {
				_, err := s.Call(t.Context(), c.method, session.Raw(`{"name":"x"}`))
				failed <- err
			}()
			p.take()
			p.send(`{"jsonrpc":"2.0","id":2,"result":` + c.result + `}`)
			if err := <-failed; (err == nil) != c.ok {
				t.Error(err)
			}
		}))
	}
}

// Proves M-RPC-01, M-RPC-02, M-RPC-03, M-PROG-01.
func TestSentModernMessagesAreValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := modern(t, session.Options{})
		const n = 100
		failed := make(chan error, n)
		ids, tokens := map[string]bool{}, map[string]bool{}
		for i := range n {
			to := s.With(session.OnProgress(func(session.Progress) {}), session.OnLate(func(json.RawMessage, error) {}))
			go func() {
				_, err := to.Call(t.Context(), "tools/call", session.Raw(`{"name":"a\ufffdb"}`))
				failed <- err
			}()
			if i%3 == 0 {
				s.Notify(t.Context(), "notifications/own", session.Raw(`{}`))
			}
			for _, text := range p.take() {
				m, err := jsonrpc.Parse([]byte(text)) // strict
				if err != nil || codec.Valid([]byte(text)) != nil {
					t.Errorf("%s: %v", text, err)
				}
				if m.Kind != jsonrpc.KindRequest {
					continue
				}
				meta, _ := codec.Member(m.Params, "_meta")
				token, _ := codec.Member(meta, "progressToken")
				if ids[m.ID.String()] || tokens[string(token)] || len(token) == 0 || token[0] != '"' && (token[0] < '0' || token[0] > '9') {
					t.Errorf("%s: the id or the progress token is invalid or that of another open request", text)
				}
				ids[m.ID.String()], tokens[string(token)] = true, true
				if i%2 == 0 {
					p.send(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{"content":[]}}`)
					delete(ids, m.ID.String())
					delete(tokens, string(token))
				}
			}
		}
		if len(ids) != n/2 || len(tokens) != n/2 {
			t.Errorf("%d requests are open", len(ids))
		}
		for id := range ids {
			p.send(`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[]}}`)
		}
		for range n {
			if err := <-failed; err != nil {
				t.Error(err)
			}
		}
	})
}

// Proves M-CANC-05, M-CANC-08.
func TestAnsweredModernRequestIsNotCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := modern(t, session.Options{})
		answer := func() {
			p.conn.Write(context.Background(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","id":2,"result":{}}`)})
		}
		ctx := &answeringContext{context.Background(), make(chan struct{}), answer}
		failed := make(chan error)
		go func() { _, err := s.Call(ctx, "tools/list", nil); failed <- err }()
		p.take()
		close(ctx.done)
		if err := <-failed; err != context.Canceled {
			t.Errorf("got %v", err)
		}
		p.talk("")
		answer() // once more
		p.talk("")
	})
}

// Codes from -32000 to -32019 have no meaning, apart from that of an error.
//
// Proves M-ERR-04.
func TestOldErrorCodesHaveNoMeaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := modern(t, session.Options{})
		for code := -32000; code >= -32019; code-- {
			failed := make(chan error, 1)
			go func() { _, err := s.Call(t.Context(), "tools/list", nil); failed <- err }()
			m, err := jsonrpc.Parse([]byte(p.take()[0]))
			if err != nil {
				t.Fatal(err)
			}
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"x","data":{"supported":["2025-11-25"]}}}`, m.ID, code))
			if e, ok := (<-failed).(*jsonrpc.Error); !ok || e.Code != int64(code) {
				t.Errorf("%d: got %v", code, e)
			}
		}
		if !s.Traits().Sessionless {
			t.Error("the session is no longer modern")
		}
		p.talk("")
	})
}

func TestModernErrorCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := modern(t, session.Options{})
		call := func(id, answer string) error {
			failed := make(chan error, 1)
			go func() {
				_, err := s.Call(t.Context(), "tools/call", session.Raw(`{"name":"x"}`))
				failed <- err
			}()
			p.take()
			p.send(`{"jsonrpc":"2.0","id":` + id + `,"error":` + answer + `}`)
			return <-failed
		}
		err := call("2", `{"code":-32020,"message":"Mcp-Param-Region is missing"}`)
		if !strings.Contains(err.Error(), "rejected the headers") || jsonrpc.CodeOf(err) != -32020 || !strings.Contains(err.Error(), "Mcp-Param-Region") {
			t.Error(err)
		}
		err = call("3", `{"code":-32021,"message":"x","data":{"requiredCapabilities":{"elicitation":{"form":{},"url":{}}}}}`)
		if e, ok := errors.AsType[*session.CapabilityError](err); !ok || e.Capability != "elicitation.form, elicitation.url" || jsonrpc.CodeOf(err) != -32021 {
			t.Error(err)
		}
		err = call("4", `{"code":-32022,"message":"x","data":{"requested":"2026-07-28","supported":["2030-01-01"]}}`)
		if e, ok := errors.AsType[*session.VersionError](err); !ok || e.Offered != "2030-01-01" || e.Requested != mcp.Revision20260728 {
			t.Error(err)
		}
		err = call("5", `{"code":-32004,"message":"own"}`)
		if e, ok := err.(*jsonrpc.Error); !ok || e.Code != -32004 {
			t.Error(err)
		}
	})
}

// Proves M-VER-03.
func TestModernRequestIsRepeatedWithSupportedRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := modern(t, session.Options{})
		failed := make(chan error, 1)
		go func() { _, err := s.Call(t.Context(), "tools/list", nil); failed <- err }()
		p.talk(`
			< {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{` + requestMeta + `}}
			> {"jsonrpc":"2.0","id":2,"error":{"code":-32022,"message":"x","data":{"requested":"2026-07-28","supported":["2026-07-28"]}}}
			< {"jsonrpc":"2.0","id":3,"method":"tools/list","params":{` + requestMeta + `}}
			> {"jsonrpc":"2.0","id":3,"result":{"tools":[]}}
		`)
		if err := <-failed; err != nil {
			t.Error(err)
		}
	})
}

// Proves M-CANC-02, M-CANC-09.
func TestModernTimeoutCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := modern(t, session.Options{Timeouts: session.Timeouts{Request: time.Second}})
		_, err := s.Call(t.Context(), "tools/list", nil)
		if !errors.Is(err, session.ErrTimeout) {
			t.Error(err)
		}
		got := p.take()
		if len(got) != 2 || p.canonical(got[1]) != p.canonical(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"session: request timed out","requestId":2}}`) {
			t.Errorf("got %q", got)
		}
		p.send(`{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`) // late: dropped
		p.talk("")
	})
}

func TestModernPingIsDiscover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := modern(t, session.Options{})
		failed := make(chan error, 1)
		go func() { failed <- s.Ping(t.Context()) }()
		p.talk(strings.Replace(probe, `"id":1`, `"id":2`, 1) + "\n" + strings.Replace(discovered, `"id":1`, `"id":2`, 1))
		if err := <-failed; err != nil {
			t.Error(err)
		}
		for _, method := range []string{mcp.MethodPing, mcp.MethodInitialize, mcp.MethodLoggingSetLevel, mcp.MethodResourcesSubscribe} {
			_, err := s.Call(t.Context(), method, nil)
			if e, ok := errors.AsType[*session.CapabilityError](err); !ok || e.Capability != "" {
				t.Errorf("%s: %v", method, err)
			}
		}
	})
}

// A client asks the server for its capabilities before it fails a request for lack of one, because
// the server may have been replaced, but only once in ten seconds.
func TestModernClientAsksForCapabilityAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			ask    = `< {"jsonrpc":"2.0","id":ID,"method":"server/discover","params":{` + requestMeta + `}}`
			answer = `> {"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"CAPABILITY":{}},"ttlMs":0,"cacheScope":"public"}}`
		)
		s, p := modern(t, session.Options{})
		call := func(script string) error {
			t.Helper()
			done := make(chan error, 1)
			go func() { // ends with the script
				_, err := s.Call(t.Context(), mcp.MethodPromptsList, nil)
				done <- err
			}()
			p.talk(script)
			select {
			case err := <-done:
				return err
			default:
				t.Fatal("the call waits")
				return nil
			}
		}
		refused := func(err error) {
			t.Helper()
			if e, ok := errors.AsType[*session.CapabilityError](err); !ok || e.Capability != "prompts" {
				t.Errorf("the call fails with %v", err)
			}
		}
		discovery := func(id, capability string) string {
			return strings.NewReplacer("ID", id, "CAPABILITY", capability).Replace(ask + "\n" + answer)
		}
		refused(call(""))
		time.Sleep(10 * time.Second)
		refused(call(discovery("2", "resources")))
		if s.Server().Capabilities.Resources == nil || s.Server().Capabilities.Tools != nil {
			t.Errorf("the server has the capabilities %+v", s.Server().Capabilities)
		}
		refused(call(""))
		time.Sleep(10 * time.Second)
		err := call(discovery("3", "prompts") + `
			< {"jsonrpc":"2.0","id":4,"method":"prompts/list","params":{` + requestMeta + `}}
			> {"jsonrpc":"2.0","id":4,"result":{"resultType":"complete","prompts":[]}}
		`)
		if err != nil {
			t.Error(err)
		}
	})
}

// changes records notifications.
func changes(got *[]string) session.Handler {
	return func(_ context.Context, req *session.Request) (codec.Encoder, error) {
		*got = append(*got, req.Method)
		return nil, nil
	}
}

// Proves M-SUBS-02, M-SUBS-16.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		s, p := modern(t, session.Options{Handler: changes(&got)})
		ended := make(chan error, 1)
		var accepted mcp.SubscriptionFilter
		go func() {
			filter := mcp.SubscriptionFilter{ToolsListChanged: new(true), ResourceSubscriptions: []string{"file:///a"}}
			ended <- s.Listen(t.Context(), filter, func(f mcp.SubscriptionFilter) { accepted = f })
		}()
		p.talk(`
			< {"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{` + requestMeta + `,"notifications":{"resourceSubscriptions":["file:///a"],"toolsListChanged":true}}}
			> {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2},"notifications":{"toolsListChanged":true}}}
			> {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}
			> {"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}
			> {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":2}}}
		`)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if accepted.ToolsListChanged == nil || accepted.ResourceSubscriptions != nil {
			t.Errorf("accepted %+v", accepted)
		}
		if want := []string{"notifications/subscriptions/acknowledged", "notifications/tools/list_changed"}; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("notifications %q, want %q", got, want)
		}
		p.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}`)
		if len(got) != 2 {
			t.Error("the notification of an ended subscription has reached the handler")
		}
	})
}

func TestListenEnds(t *testing.T) {
	const listen = `< {"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{` + requestMeta + `,"notifications":{}}}`
	begin := func(t *testing.T) (*session.Session, *peer, chan error) {
		s, p := modern(t, session.Options{})
		ended := make(chan error, 1)
		go func() { ended <- s.Listen(t.Context(), mcp.SubscriptionFilter{}, func(mcp.SubscriptionFilter) {}) }()
		p.talk(listen)
		return s, p, ended
	}
	t.Run("not acknowledged", bubble(func(t *testing.T) {
		_, _, ended := begin(t)
		if err := <-ended; !errors.Is(err, session.ErrTimeout) {
			t.Error(err)
		}
	}))
	t.Run("cancelled by the server", bubble(func(t *testing.T) {
		_, p, ended := begin(t)
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		if err := <-ended; !errors.Is(err, session.ErrCancelled) {
			t.Error(err)
		}
	}))
	t.Run("shutdown", bubble(func(t *testing.T) {
		s, _, ended := begin(t)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, session.ErrClosed) {
			t.Error(err)
		}
	}))
}

func TestHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		cfg := session.Options{
			Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if found, ok := session.FromContext(ctx); !ok || found.Session == nil {
					t.Error("the context has no request")
				}
				return session.Raw(`{"roots":[]}`), nil
			},
			Hooks: session.Hooks{Receiving: []session.Middleware{func(next session.Handler) session.Handler {
				return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
					order = append(order, req.Method)
					return next(ctx, req)
				}
			}}},
		}
		s, _ := modern(t, cfg)
		result, err := s.Internals(boundary.Caller{}).Handle(t.Context(), &session.Request{ID: codec.IntScalar(1), Method: "roots/list"})
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := codec.Marshal(result); !json.Valid(text) || len(order) != 1 {
			t.Errorf("result %s, middleware %q", text, order)
		}
		if _, err := s.Internals(boundary.Caller{}).Handle(t.Context(), &session.Request{Method: "notifications/tools/list_changed"}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(order) != 2 {
			t.Errorf("middleware %q", order)
		}
		s.Close()
		if _, err := s.Internals(boundary.Caller{}).Handle(t.Context(), &session.Request{ID: codec.IntScalar(1), Method: "roots/list"}); !errors.Is(err, session.ErrClosed) {
			t.Error(err)
		}
	})
}
