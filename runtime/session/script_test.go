package session_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// peer is the other end of a session's connection, without a session: it sends what it is told and notes what it
// gets. It works inside of a bubble of synctest.
type peer struct {
	t    *testing.T
	conn *inmemory.Conn
	mu   sync.Mutex
	got  []string
	over chan struct{} // closed when the connection is
}

// newPeer returns a peer, and the end that is for the session.
func newPeer(t *testing.T) (*peer, transport.Conn) {
	x, y := inmemory.Pair(inmemory.Options{})
	p := &peer{t: t, conn: x, over: make(chan struct{})}
	go func() { // ends with the connection
		defer close(p.over)
		for {
			m, err := x.Read()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.got = append(p.got, string(m.Text))
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		x.Close()
		<-p.over
	})
	return p, y
}

// send sends text as one message, and waits until nothing moves any more.
func (p *peer) send(text string) {
	p.t.Helper()
	if err := p.conn.Write(p.t.Context(), transport.Message{Text: []byte(text)}); err != nil {
		p.t.Errorf("%s: %v", text, err)
	}
	synctest.Wait()
}

// take returns what has come since the last time, once nothing moves any more.
func (p *peer) take() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.got
	p.got = nil
	return got
}

// talk plays a script. A line that starts with > is sent; one that starts with < is what must have come then; a line
// without either is a comment. Errors are compared by code and data, but must have a message. Nothing else may
// come.
func (p *peer) talk(script string) {
	p.t.Helper()
	var want []string
	check := func() {
		p.t.Helper()
		got := p.take()
		for i := range got {
			got[i] = p.canonical(got[i])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			p.t.Errorf("(-want +got):\n%s", diff)
		}
		want = nil
	}
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "> "); ok {
			check()
			p.send(text)
		} else if text, ok := strings.CutPrefix(line, "< "); ok {
			want = append(want, p.canonical(text))
		}
	}
	check()
}

// canonical returns a message with its members sorted, and without the message of an error. The answers of a batch,
// which may come in any order, are sorted too.
func (p *peer) canonical(text string) string {
	p.t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		p.t.Errorf("%s: %v", text, err)
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, v := range list {
		m, _ := v.(map[string]any)
		if e, ok := m["error"].(map[string]any); ok {
			if message, ok := e["message"]; ok && message == "" {
				p.t.Errorf("%s has no message", text)
			}
			delete(e, "message")
		}
	}
	if ok {
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		p.t.Error(err)
	}
	return string(sorted)
}

// hello opens a session of revision 2025-11-25 with a server.
const hello = `
	> {"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"roots":{},"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}
	< {"jsonrpc":"2.0","id":"hello","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}
	> {"jsonrpc":"2.0","method":"notifications/initialized"}
`

// serve returns a server with tools, and its peer, in a bubble of synctest.
func serve(t *testing.T, cfg *session.Config) (*session.Session, *peer) {
	p, conn := newPeer(t)
	s := session.Serve(conn, &mcp.InitializeResult{
		Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}},
		ServerInfo:   mcp.Implementation{Name: "s", Version: "1"},
	}, cfg)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, p
}

// open is serve with the opening behind it.
func open(t *testing.T, cfg *session.Config) (*session.Session, *peer) {
	s, p := serve(t, cfg)
	p.talk(hello)
	return s, p
}

// bubble runs a test in a bubble of synctest, which fails if a goroutine is left at the end.
func bubble(f func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

// connect opens a session as a client, whose server is the peer and has tools, sees to it that the handshake is as
// it must be.
func connect(t *testing.T, cfg *session.Config, client mcp.ClientCapabilities) (*session.Session, *peer) {
	p, conn := newPeer(t)
	var s *session.Session
	done := make(chan error)
	go func() {
		var err error
		s, err = session.Connect(t.Context(), conn, &mcp.InitializeRequestParams{
			Capabilities: client, ClientInfo: mcp.Implementation{Name: "c", Version: "1"},
		}, cfg)
		done <- err
	}()
	p.take()
	p.send(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	p.talk(`< {"jsonrpc":"2.0","method":"notifications/initialized"}`)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, p
}
