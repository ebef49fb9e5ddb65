// Command jobclient calls the tool of jobserver as a task. While the task runs, it disconnects,
// which ends the server. It then starts the server again and waits for the result by the task's id.
//
//	go run ./examples/jobclient
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
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
	options := &client.Options{Info: mcp.Implementation{Name: "jobclient", Version: "1"}, Session: session.Options{Revisions: session.Revisions()}}
	c, err := client.Command(ctx, server, options)
	if err != nil {
		return err
	}
	h, err := c.StartTool(ctx, "render", map[string]int{"frames": 20}, requestor.Progress())
	if err != nil {
		return errors.Join(err, c.Close())
	}
	fmt.Fprintln(out, "task", h.ID(), "is", h.State().Status)
	for p := range h.Progress(ctx) {
		fmt.Fprintln(out, p.Message)
		if p.Value >= 5 {
			break
		}
	}
	c.Close() // also ends the server

	fmt.Fprintln(out, "the server has ended; starting it again")
	if c, err = client.Command(ctx, server, options); err != nil {
		return err
	}
	defer c.Close()
	h = c.AttachTool(h.ID())
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
