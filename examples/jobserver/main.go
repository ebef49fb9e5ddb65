// Command jobserver is a server on standard input and output with one slow tool. If the tool is
// called as a task, it survives the end or a crash of the server: the next server process re-runs
// it.
//
//	go run ./examples/jobclient
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

func main() {
	file := flag.String("store", "jobs.db", "store tasks in `FILE`")
	flag.Parse()
	if err := run(context.Background(), *file); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string) error {
	s, err := server.New(server.Config{
		Info:    mcp.Implementation{Name: "jobserver", Version: "1"},
		Session: session.Config{Principal: "local"}, // the user of this process; a principal lets the client list its tasks
	})
	if err != nil {
		return err
	}
	tool := mcp.Tool{Name: "render", Description: new("Renders a number of frames, one tenth of a second each.")}
	asTask := server.Tasks(receiver.Support{Mode: mcp.TaskSupportOptional, Restartable: true})
	if _, err := server.AddTool(s, tool, render, asTask); err != nil {
		return err
	}
	store, err := bolt.Open(file)
	if err != nil {
		return err
	}
	defer store.Close()
	tasks, err := task.New(ctx, task.Config{Store: store, Recover: s.RecoverTask})
	if err != nil {
		return err
	}
	defer tasks.Close(context.Background())
	s.OfferTasks(tasks, true)
	return s.Run(ctx, stdio.Server(stdio.Options{}))
}

type film struct {
	Frames int `json:"frames" jsonschema:"how many frames to render"`
}

// render serves both plain calls and tasks.
func render(ctx context.Context, c *server.Call, in film) (string, error) {
	for i := range in.Frames {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		if err := c.Progress(float64(i+1), float64(in.Frames), fmt.Sprintf("frame %d", i+1)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d frames are ready", in.Frames), nil
}
