// Command jobclient calls the tool of jobserver as a task. In the middle it leaves, which ends the
// server, starts that again, and waits for the result by the task's id.
//
//	go run ./examples/jobclient
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

func main() {
	dir, err := os.MkdirTemp("", "jobs")
	if err == nil {
		defer os.RemoveAll(dir)
		server := stdio.Command{Path: "go", Args: []string{"run", "./examples/jobserver", "-store", filepath.Join(dir, "jobs.db")}, Env: os.Environ(), Stderr: os.Stderr}
		err = run(context.Background(), server, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, server stdio.Command, out io.Writer) error {
	s, tasks, err := connect(ctx, server)
	if err != nil {
		return err
	}
	h, err := tasks.CallTool(ctx, s, &mcp.CallToolRequestParams{
		Name: "render", Arguments: json.RawMessage(`{"frames":20}`),
	}, requestor.Progress())
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "task", h.ID(), "is", h.State().Status)
	for p := range h.Progress(ctx) {
		fmt.Fprintln(out, p.Message)
		if p.Value >= 5 {
			break
		}
	}
	s.Close() // and with it the server

	fmt.Fprintln(out, "the server is gone, and comes back")
	if s, tasks, err = connect(ctx, server); err != nil {
		return err
	}
	defer s.Close()
	h = tasks.ResumeTool(s, h.ID())
	for state, err := range h.Updates(ctx) {
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "task", state.TaskID, "is", state.Status)
	}
	result, err := h.Result(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, result.Content[0].(*mcp.TextContent).Text)
	return nil
}

// connect starts the server.
func connect(ctx context.Context, server stdio.Command) (*session.Session, *requestor.Tasks, error) {
	conn, err := stdio.Start(server)
	if err != nil {
		return nil, nil, err
	}
	var cfg session.Config
	tasks := requestor.Attach(&cfg)
	s, err := session.Connect(ctx, conn, &mcp.InitializeRequestParams{ClientInfo: mcp.Implementation{Name: "jobclient", Version: "1"}}, &cfg)
	return s, tasks, err
}
