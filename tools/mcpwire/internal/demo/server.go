package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

// Serve runs the server of the demo on standard input and output. It stores tasks in file.
func Serve(file string) error {
	return withServer(file, func(s *server.Server) error { return s.ServeStdio(context.Background()) })
}

// ServeHTTP runs the server of the demo over HTTP, at a loopback address that it writes to standard
// output. It stores tasks in file and sessions in a second file, and ends when standard input ends.
func ServeHTTP(file string) error {
	return withServer(file, func(s *server.Server) error {
		events, err := boltstore.Open(file+".events", boltstore.Options{})
		if err != nil {
			return err
		}
		defer events.Close()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		handler, err := s.Handler(&streamable.HandlerOptions{Sessions: streamable.Sessions{Store: events}, Streams: streamable.Streams{After: -1, Retry: 200 * time.Millisecond}})
		if err != nil {
			return err
		}
		web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
		ended := make(chan error, 1)
		go func() { ended <- web.Serve(listener) }() // ends with Close
		fmt.Println(listener.Addr())
		_, err = io.Copy(io.Discard, os.Stdin)
		err = errors.Join(err, handler.Close(), web.Close())
		<-ended
		return err
	})
}

// withServer calls f with the server of the demo, which stores tasks in file until f returns.
func withServer(file string, f func(s *server.Server) error) (err error) {
	s := server.New("mcpwire demo server", "1", &server.Options{Tasks: task.Options{Store: bolt.File(file)}})
	defer func() { err = errors.Join(err, s.Close()) }()
	server.AddTool(s, "render", "Renders scenes.", render, server.Durable())
	server.AddTool(s, "export", "Exports the scenes.", export)
	return f(s)
}

// renderArguments are the arguments of the tool render.
type renderArguments struct {
	Scenes int `json:"scenes"`
}

// render renders each scene in a step. Its result names the processes that have rendered them.
func render(ctx context.Context, c *server.Call, args renderArguments) (string, error) {
	total := args.Scenes * sceneFrames
	rendered := func(frames int) error {
		return c.Progress(float64(frames), float64(total), fmt.Sprintf("frame %d", frames))
	}
	var in struct {
		Quality string `json:"quality"`
	}
	var processes []int
	for i := range args.Scenes {
		if i == askAfter {
			if _, err := server.Elicit(ctx, c, "Which quality?", &in); err != nil {
				return "", err
			}
		}
		name, first := fmt.Sprintf("scene %d", i+1), i*sceneFrames
		process, err := server.Step(ctx, c, name, func(ctx context.Context) (int, error) {
			for frame := 1; frame < sceneFrames; frame++ {
				if err := errors.Join(wait(ctx, frameTime), rendered(first+frame)); err != nil {
					return 0, err
				}
			}
			process := os.Getpid()
			return process, c.Log(ctx, mcp.LoggingLevelInfo, "", fmt.Sprintf("step %q was done by process %d", name, process))
		})
		if err != nil {
			return "", err
		}
		// The client kills the server after this report, and thus between two steps.
		if err := errors.Join(rendered(first+sceneFrames), wait(ctx, pause)); err != nil {
			return "", err
		}
		processes = append(processes, process)
	}
	return fmt.Sprintf("%d frames in %s quality (%s)", total, in.Quality, shares(processes)), nil
}

// shares lists the scenes that each process has rendered.
func shares(processes []int) string {
	var text strings.Builder
	for i, process := range processes {
		if i == 0 || process != processes[i-1] {
			fmt.Fprintf(&text, "; process %d: scenes", process)
		} else {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, " %d", i+1)
	}
	return strings.TrimPrefix(text.String(), "; ")
}

// wait waits for d, or fails when ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// export asks for the format.
func export(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
	var in struct {
		Format string `json:"format"`
	}
	action, err := server.Elicit(ctx, c, "Which format?", &in)
	if err != nil {
		return "", err
	}
	if action != mcp.ElicitActionAccept {
		return "nothing exported", nil
	}
	return "exported as " + in.Format, nil
}
