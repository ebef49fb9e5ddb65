package client

import (
	"errors"
	"os"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// A message for a process that has ended says nothing about the process that has replaced it.
func TestMessageOfEndedProcessDoesNotLoseItsSuccessor(t *testing.T) {
	p, err := startProcess(stdio.Command{Path: os.Args[0], Env: append(stdio.DefaultEnv(), "MCPWIRE_TEST_CHILD=modern")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.restart()
	if err := p.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"die","params":{"name":"die"}}`), Session: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(); !errors.Is(err, transport.ErrSessionLost) {
		t.Errorf("Read returns %v", err)
	}
	if session, err := p.Reopen(t.Context()); err != nil || session != 2 {
		t.Fatalf("session %d, error %v", session, err)
	}
	err = p.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"x"}`), Session: 1})
	if lost, ok := errors.AsType[*transport.SessionLostError](err); !ok || lost.Session != 1 {
		t.Errorf("Write returns %#v", err)
	}
	if err := p.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"x"}`), Session: 2}); err != nil {
		t.Error(err)
	}
}
