package server_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// earlyConn is a connection of a restored session. Its message is answered before the session has
// been returned to the server.
type earlyConn struct {
	unpersisted
	message string
	answer  chan string
	closed  chan struct{}
}

// unpersisted has the methods of a [transport.Persister] that persists nothing.
type unpersisted struct{}

func (unpersisted) PersistedState() (state []byte, ok bool)    { return nil, false }
func (unpersisted) PersistState(context.Context, []byte) error { return errors.ErrUnsupported }
func (unpersisted) Suspend()                                   {}

func (c *earlyConn) Restored() (mcp.Revision, []byte, bool) {
	return mcp.Revision("2025-11-25"), nil, true
}

func (c *earlyConn) Push(_ transport.Conn, take func(transport.Message, error)) bool {
	take(transport.Message{Text: []byte(c.message)}, nil)
	synctest.Wait()
	return true
}

func (c *earlyConn) Read() (transport.Message, error) { <-c.closed; return transport.Message{}, io.EOF }

func (c *earlyConn) Write(_ context.Context, m transport.Message) error {
	c.answer <- string(m.Text)
	return nil
}

func (c *earlyConn) Close() error {
	close(c.closed)
	return nil
}

func TestToolThatMustBeATaskIsNotCalledPlainlyInNewSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := withTasks(t, memory.New(), func(s *server.Server) {
			server.AddTool(s, "required", "", sayHi, server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired}))
		})
		conn := &earlyConn{message: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"required"}}`, answer: make(chan string, 1), closed: make(chan struct{})}
		sess, err := s.Serve(conn)
		if err != nil {
			t.Fatal(err)
		}
		defer sess.Close()
		if answer := <-conn.answer; !strings.Contains(answer, "this tool can only be called as a task") {
			t.Errorf("got %s", answer)
		}
	})
}
