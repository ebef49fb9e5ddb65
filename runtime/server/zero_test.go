package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/memory"
)

// What is missing is an error, and no panic later on.
func TestNilArgumentsAreRefused(t *testing.T) {
	s := newServer(t, server.Config{})
	get := func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil }
	h := must(server.AddTool(s, mcp.Tool{Name: "x"}, hi))
	for name, do := range map[string]func() error{
		"server": func() error {
			_, err := server.AddTool(nil, mcp.Tool{Name: "y"}, hi)
			return err
		},
		"tool option": func() error {
			_, err := server.AddTool(s, mcp.Tool{Name: "y"}, hi, nil)
			return err
		},
		"prompt option": func() error {
			_, err := s.AddPrompt(mcp.Prompt{Name: "y"}, get, nil)
			return err
		},
		"template option": func() error {
			_, err := s.AddTemplate(mcp.ResourceTemplate{Name: "y", URITemplate: "y://{z}"}, readText, nil)
			return err
		},
		"connection": func() error {
			_, err := s.Serve(nil)
			return err
		},
		"function to open a session": func() error {
			_, err := s.Open(nil)
			return err
		},
		"function to change": func() error { return h.Change(nil) },
	} {
		if err := do(); err == nil || !strings.HasPrefix(err.Error(), "server: n") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	var zero server.Handle[mcp.Tool]
	for _, err := range []error{zero.Change(func(*mcp.Tool) {}), zero.Disable(), zero.Enable(), zero.Remove()} {
		if !errors.Is(err, server.ErrRemoved) {
			t.Errorf("the zero Handle: got %v", err)
		}
	}
	run(t, side{}, func(ctx context.Context, c *server.Call) (string, error) {
		if _, err := c.Sample(ctx, nil); err == nil {
			t.Error("sampling without params: no error")
		}
		if _, err := c.ElicitForm(ctx, nil); err == nil {
			t.Error("a form without params: no error")
		}
		return "", nil
	})
}

// A panic of the author's function for the capabilities ends the opening of a session, and nothing else.
func TestCapabilitiesMayPanic(t *testing.T) {
	panics := true
	s := newServer(t, server.Config{Capabilities: func(*mcp.ServerCapabilities) {
		if panics {
			panic("no")
		}
	}})
	_, there := memory.Pair(memory.Options{})
	if _, err := s.Serve(there); err == nil || !strings.Contains(err.Error(), "capabilities") {
		t.Errorf("got %v", err)
	}
	panics = false
	if err := connect(t, s, side{}).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}
