package demo_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/demo"
)

// TestMain runs a server whose tool fails if the process was started as a server by a test.
func TestMain(m *testing.M) {
	if os.Getenv("DEMO_TEST_SERVER") == "" {
		os.Exit(m.Run())
	}
	s := server.New("failing", "1", &server.Options{Tasks: task.Options{Store: memory.New()}})
	server.AddTool(s, "render", "", func(context.Context, *server.Call, map[string]any) (string, error) {
		return "", errors.New("the disk is full")
	}, server.Durable())
	if err := s.ServeStdio(context.Background()); err != nil {
		panic(err)
	}
}

func TestDemoEndsIfItsTaskFails(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	client := demo.Client{Server: stdio.Command{Path: program, Env: []string{"DEMO_TEST_SERVER=1"}}, Out: io.Discard}
	if _, err := client.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the task ended before the server was killed") {
		t.Errorf("got %v", err)
	}
}
