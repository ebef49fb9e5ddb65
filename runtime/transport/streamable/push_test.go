package streamable_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// countingClient is a wrapper that overrides Read and counts its calls.
type countingClient struct {
	dialed
	reads atomic.Int32
}

func (w *countingClient) Read() (transport.Message, error) {
	w.reads.Add(1)
	return w.dialed.Read()
}

// A wrapper of a connection receives all messages through its Read.
func TestPushRejectsWrappedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		w := &countingClient{dialed: f.dial(f.options())}
		s, err := session.Connect(t.Context(), w, &mcp.InitializeRequestParams{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := w.reads.Load(); n < 2 {
			t.Errorf("there were %d reads", n)
		}
	})
}

// If the connection has ended before Push, take receives the error at once.
func TestClientPushAfterClose(t *testing.T) {
	c, err := streamable.Dial("http://localhost/mcp", streamable.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	var got []error
	if !c.(dialed).Push(c, func(_ transport.Message, err error) { got = append(got, err) }) || len(got) != 1 || got[0] != transport.ErrClosed {
		t.Errorf("got %v", got)
	}
}

// gated is a wrapper that passes messages on while it can acquire gate.
type gated struct {
	dialed
	gate chan struct{} // capacity 1
}

func (g gated) Push(_ transport.Conn, take func(transport.Message, error)) bool {
	return g.dialed.Push(g.dialed, func(m transport.Message, err error) {
		g.gate <- struct{}{}
		defer func() { <-g.gate }()
		take(m, err)
	})
}

// The loss of a session does not drop an answer that has already arrived. Servers that shut down
// send their last answers when they no longer know the session.
func TestClientDeliversArrivedAnswerAfterLossOfSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			if m.Method == mcp.MethodToolsList {
				stream(w)("data: %s\n\n", response(m, `{"tools":[]}`))
				return
			}
			f.answer(w, m, `{}`)
		}
		g := gated{f.dial(f.options()), make(chan struct{}, 1)}
		s, err := session.Connect(t.Context(), g, &mcp.InitializeRequestParams{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		g.gate <- struct{}{}
		go s.Ping(t.Context())
		synctest.Wait() // its answer is being delivered
		answer := make(chan error, 1)
		go func() {
			_, err := s.Call(t.Context(), mcp.MethodToolsList, nil)
			answer <- err
		}()
		synctest.Wait() // its answer waits for the other one
		f.drop()
		go s.Ping(t.Context()) // reveals the loss
		synctest.Wait()
		<-g.gate
		if err := <-answer; err != nil {
			t.Error(err)
		}
	})
}
