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

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

func main() {
	file := flag.String("store", "jobs.db", "store tasks in `FILE`")
	flag.Parse()
	s := server.New("jobserver", "1", &server.Options{Tasks: task.Options{Store: bolt.File(*file)}})
	server.AddTool(s, "render", "Renders a number of frames, one tenth of a second each.", render, server.Durable())
	if err := s.ServeStdio(context.Background()); err != nil {
		log.Fatal(err)
	}
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
