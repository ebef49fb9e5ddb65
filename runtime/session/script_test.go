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

// peer is the other end of a session's connection, without a session: it sends the messages of a
// test and records those that it receives. It works inside of a synctest bubble.
type peer struct {
	t      *testing.T
	conn   transport.HalfCloser
	mu     sync.Mutex
	got    []string
	closed chan struct{} // closed with the connection
}

// newPeer returns a peer, and the connection for the session.
func newPeer(t *testing.T) (*peer, transport.Conn) {
	x, y := inmemory.Pair(inmemory.Options{})
	p := &peer{t: t, conn: x, closed: make(chan struct{})}
	go func() { // ends with the connection
		defer close(p.closed)
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
		<-p.closed
	})
	return p, y
}

// send sends text as one message, and waits until all goroutines are idle.
func (p *peer) send(text string) {
	p.t.Helper()
	if err := p.conn.Write(p.t.Context(), transport.Message{Text: []byte(text)}); err != nil {
		p.t.Errorf("%s: %v", text, err)
	}
	synctest.Wait()
}

// take waits until all goroutines are idle, and returns the messages received since the last call.
func (p *peer) take() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.got
	p.got = nil
	return got
}

// talk plays a script. It sends lines that start with >, and expects to receive exactly those that
// start with <. Other lines are comments. Errors are compared by code and data, and must have a
// message.
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

// canonical returns a message with its members sorted, and without the message of an error. It
// sorts the answers of a batch, because they may come in any order.
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

// handshake is the script of a handshake of revision 2025-11-25 with a server.
const handshake = `
	> {"jsonrpc":"2.0","id":"handshake","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"roots":{},"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}
	< {"jsonrpc":"2.0","id":"handshake","result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}
	> {"jsonrpc":"2.0","method":"notifications/initialized"}
`

// serve returns a server with tools, and its peer, in a synctest bubble.
func serve(t *testing.T, cfg *session.Options) (*session.Session, *peer) {
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

// open is serve with a complete handshake.
func open(t *testing.T, cfg *session.Options) (*session.Session, *peer) {
	s, p := serve(t, cfg)
	p.talk(handshake)
	return s, p
}

// bubble runs a test in a synctest bubble, which fails if a goroutine is left at the end.
func bubble(f func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

// connect opens a session as a client of the peer, a server with tools, and checks the handshake.
func connect(t *testing.T, cfg *session.Options, client mcp.ClientCapabilities) (*session.Session, *peer) {
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
