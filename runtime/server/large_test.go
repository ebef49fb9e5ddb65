package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	taskmemory "github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// Arguments and results may be as long as the transport allows.
func TestTransportAloneLimitsMessageLength(t *testing.T) {
	if testing.Short() {
		t.Skip("allocates several hundred megabytes")
	}
	type text struct {
		Text string `json:"text"`
	}
	s := server.New("s", "1", &server.Options{Tasks: task.Options{Store: taskmemory.New(), Limits: task.Limits{Bytes: 1 << 30}}})
	defer s.Close()
	echo := func(_ context.Context, _ *server.Call, in text) (text, error) { return in, nil }
	server.AddTool(s, "echo", "", echo, server.Tasks(receiver.Support{}))
	clientConn, serverConn := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(serverConn); err != nil {
		t.Fatal(err)
	}
	c, err := client.Connect(t.Context(), clientConn, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	arguments := json.RawMessage(`{"text":"` + strings.Repeat("x", wire.DefaultSize) + `"}`)
	result, err := c.CallTool(t.Context(), "echo", arguments)
	if err != nil || len(result.StructuredContent) != len(arguments) {
		t.Errorf("got %v", err)
	}
	handle, err := c.StartTool(t.Context(), "echo", arguments)
	if err != nil {
		t.Fatal(err)
	}
	result, err = handle.Result(t.Context())
	if err != nil || len(result.StructuredContent) != len(arguments) {
		t.Errorf("as a task: got %v", err)
	}
}
