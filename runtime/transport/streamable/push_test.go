package streamable_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// watched is a wrapper that overrides the Read of the Client.
type watched struct {
	*streamable.Client
	reads atomic.Int32
}

func (w *watched) Read() (transport.Message, error) {
	w.reads.Add(1)
	return w.Client.Read()
}

// A wrapper of a connection receives all messages through its Read.
func TestClientIsNotPushedPastARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		w := &watched{Client: f.dial(f.options())}
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
	if !c.Push(c, func(_ transport.Message, err error) { got = append(got, err) }) || len(got) != 1 || got[0] != transport.ErrClosed {
		t.Errorf("got %v", got)
	}
}
