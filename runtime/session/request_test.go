package session_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

func TestPrincipalOfMessageOverridesSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			conn, want string
		}{{"", "the session's"}, {"the message's", "the message's"}} {
			x, y := inmemory.Pair(inmemory.Options{})
			defer x.Close()
			var got string
			s := session.Serve(&authenticated{y, c.conn}, nil, &session.Options{Principal: "the session's", Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				got = session.Principal(ctx)
				return nil, nil
			}})
			defer s.Close()
			for _, text := range []string{
				`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
				`{"jsonrpc":"2.0","method":"x"}`,
			} {
				if err := x.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
					t.Error(err)
				}
			}
			synctest.Wait()
			if got != c.want {
				t.Errorf("the principal is %q, want %q", got, c.want)
			}
		}
	})
}

// authenticated is a connection that sets a principal per message.
type authenticated struct {
	transport.Conn
	principal string
}

func (a *authenticated) Read() (transport.Message, error) {
	m, err := a.Conn.Read()
	if a.principal != "" {
		m.Context = transport.WithPrincipal(context.Background(), a.principal)
	}
	return m, err
}

// recorded is a connection that records the sent messages, and gives a Reply to each request.
type recorded struct {
	transport.Conn
	mu  sync.Mutex
	got []string
}

func (r *recorded) Read() (transport.Message, error) {
	m, err := r.Conn.Read()
	if parsed, fault := m.Parse(); err == nil && fault == nil && parsed.Kind == jsonrpc.KindRequest {
		m.Reply = &recordedReply{r: r, id: parsed.ID}
	}
	return m, err
}

func (r *recorded) Write(ctx context.Context, m transport.Message) error {
	return r.send(ctx, m.Text, "for ")
}

func (r *recorded) send(ctx context.Context, text []byte, of string) error {
	parsed, err := jsonrpc.Parse(text)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.got = append(r.got, fmt.Sprintf("%s %s %s", parsed.Kind, parsed.Method, of))
	r.mu.Unlock()
	return r.Conn.Write(ctx, transport.Message{Text: text})
}

// recordedReply is the Reply of a request.
type recordedReply struct {
	r        *recorded
	id       jsonrpc.ID
	answered atomic.Bool
}

func (p *recordedReply) Send(ctx context.Context, text []byte) error {
	if p.answered.Load() {
		return transport.ErrAnswered
	}
	return p.r.send(ctx, text, fmt.Sprintf("for %s", p.id))
}

func (p *recordedReply) Answer(ctx context.Context, text []byte, failed *jsonrpc.Error) error {
	p.answered.Store(true)
	if m, err := jsonrpc.Parse(text); err != nil || (m.Error != nil) != (failed != nil) {
		return fmt.Errorf("the answer %s has the error %v", text, failed)
	}
	return p.r.send(ctx, text, fmt.Sprintf("answers %s", p.id))
}

func TestMessagesBelongToTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := inmemory.Pair(inmemory.Options{})
		conn := &recorded{Conn: y}
		s := session.Serve(conn, nil, &session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.IsNotification() {
				return nil, nil
			}
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			peer, _ := session.PeerFrom(ctx)
			peer.Report(session.Progress{Value: 1})
			peer.Notify(ctx, "x/n", nil)
			peer.Call(ctx, "x/q", nil)
			req.Session.Notify(context.Background(), "x/alone", nil)
			return nil, nil
		}})
		defer s.Close()
		for _, text := range []string{
			`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			`{"jsonrpc":"2.0","id":"r","method":"x","params":{"_meta":{"progressToken":1}}}`,
			`{"jsonrpc":"2.0","id":"p","method":"ping"}`,
			`7`,
		} {
			if err := x.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		conn.mu.Lock()
		defer conn.mu.Unlock()
		got := conn.got
		want := []string{
			`response  answers "i"`,
			`notification notifications/progress for "r"`,
			`notification x/n for "r"`,
			`request x/q for "r"`,
			`response  answers "p"`,
			`error response  for `,
			`notification notifications/cancelled for "r"`,
			`notification x/alone for `,
			`response  answers "r"`,
		}
		slices.Sort(got[6:]) // the order of the cancellation varies
		slices.Sort(want[6:])
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// overlongConn is a connection that rejects the messages "long" and "long with an id".
type overlongConn struct{ transport.Conn }

func (o overlongConn) Read() (transport.Message, error) {
	m, err := o.Conn.Read()
	if err != nil {
		return m, err
	}
	switch string(m.Text) {
	case "long":
		err = &transport.MessageError{Err: transport.ErrTooLong}
	case "long with an id":
		err = &transport.MessageError{ID: codec.StringScalar("7"), Err: transport.ErrTooLong}
	}
	return m, err
}

// Proves JSONRPC-08, JSONRPC-11.
func TestMessageRejectedByTransportIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := newPeer(t)
		s := session.Serve(overlongConn{conn}, nil, nil)
		defer s.Close()
		p.talk(`
			> long
			< {"jsonrpc":"2.0","error":{"code":-32700}}
			> long with an id
			< {"jsonrpc":"2.0","id":"7","error":{"code":-32600}}
			> {"jsonrpc":"2.0","id":1,"method":"ping"}
			< {"jsonrpc":"2.0","id":1,"result":{}}
		`)
	})
}

// otherPeer is a Peer other than the requestor.
type otherPeer struct {
	session.Peer
	reports []session.Progress
}

func (s *otherPeer) Report(p session.Progress) error {
	s.reports = append(s.reports, p)
	return nil
}

func TestWithPeerReplacesPeerAndRequest(t *testing.T) {
	ctx := t.Context()
	if peer, ok := session.PeerFrom(ctx); ok {
		t.Errorf("the peer is %v", peer)
	}
	if req, ok := session.FromContext(ctx); ok {
		t.Errorf("the request is %v", req)
	}
	if got := session.Principal(ctx); got != "" {
		t.Errorf("the principal is %q", got)
	}
	req := &session.Request{Method: "tools/call", Params: []byte(`{"name":"echo","arguments":{}}`), ID: codec.IntScalar(1)}
	ctx = req.Internals(boundary.Caller{}).NewContext(ctx)
	if peer, ok := session.PeerFrom(ctx); ok || session.Principal(ctx) != "" {
		t.Errorf("without a session the peer is %v", peer)
	}
	if _, err := sessiontest.ServerHandler(tools{}, nil)(ctx, req); err != nil {
		t.Errorf("a request without a session: %v", err)
	}
	if got, ok := session.FromContext(ctx); got != req || !ok {
		t.Errorf("the request is %v", got)
	}
	other := &otherPeer{}
	ctx = session.WithPeer(ctx, other)
	peer, ok := session.PeerFrom(ctx)
	if peer != session.Peer(other) || !ok {
		t.Errorf("the peer is %v", peer)
	}
	if err := peer.Report(session.Progress{Value: 1}); err != nil || len(other.reports) != 1 {
		t.Errorf("got %v, %v", other.reports, err)
	}
}

func TestTaskMember(t *testing.T) {
	for params, want := range map[string]string{
		`{"name":"t","task":{"ttl":1}}`:      `{"ttl":1}`,
		`{"name":"t","t\u0061sk":{"ttl":1}}`: `{"ttl":1}`,
		`{"name":"t","task": null}`:          `null`,
		`{"name":"task"}`:                    ``,
		`{"name":"t","tasks":{}}`:            ``,
		`{"_meta":{"task":{}}}`:              ``,
		``:                                   ``,
	} {
		req := &session.Request{Params: []byte(params)}
		if got, ok := req.Internals(boundary.Caller{}).Task(); string(got) != want || ok != (want != "") {
			t.Errorf("%s: got %s, %t, want %s", params, got, ok, want)
		}
	}
}
