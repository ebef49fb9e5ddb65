package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/console"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// RunHTTP plays the demo over HTTP, with one session and one call that waits for the result. It
// returns a recording of all messages.
func (c *Client) RunHTTP(ctx context.Context) (rec *trace.Recording, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rec, show := new(trace.Recording), console.New(strings.NewReader(""), c.Out)
	server, err := startWeb(c.Server)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	network, err := newNetwork(server.address)
	if err != nil {
		return nil, err
	}
	defer network.close()
	conn, err := streamable.Dial("http://"+network.address(), streamable.ClientOptions{})
	if err != nil {
		return nil, err
	}
	s, tasks, err := open(ctx, conn, rec, show, func() {})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	h, err := call(ctx, s, tasks, show)
	if err != nil {
		return nil, err
	}

	var result *mcp.CallToolResult
	var failed error
	var group sync.WaitGroup
	group.Go(func() { result, failed = h.Result(ctx) }) // ends with the task, or with ctx
	faults := []fault{
		{cutAfter, func() error {
			rec.Event(time.Now(), "network cut")
			network.cut()
			show.Line("the network was cut")
			return nil
		}},
		{killAfter * sceneFrames, func() error {
			server.kill()
			rec.Event(time.Now(), "kill -9")
			show.Line("the server was killed between two steps")
			next, err := startWeb(c.Server)
			if err != nil {
				return err
			}
			server = next
			network.setServer(server.address)
			show.Line("the server was started again")
			return nil
		}},
	}
	for p := range h.Progress(ctx) {
		show.Progress(p)
		if len(faults) == 0 || p.Value < faults[0].at {
			continue
		}
		if err := faults[0].cause(); err != nil {
			cancel(err)
		}
		faults = faults[1:]
	}
	group.Wait()
	if failed != nil {
		return nil, failed
	}
	printResult(result, show)
	return rec, errors.Join(s.Shutdown(ctx), ctx.Err())
}

// fault is a failure that the demo causes.
type fault struct {
	at    float64 // the frame after which it occurs
	cause func() error
}

// web is a process that runs [ServeHTTP].
type web struct {
	cmd     *exec.Cmd
	in      io.Closer // closing it ends the process
	address string
}

// startWeb starts the process and returns once it accepts connections.
func startWeb(c stdio.Command) (*web, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Stderr = stdio.DefaultEnv(), c.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w := &web{cmd: cmd, in: in}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		w.kill()
		return nil, fmt.Errorf("the server prints no address: %w", err)
	}
	w.address = strings.TrimSpace(line)
	return w, nil
}

// kill ends the process like a crash.
func (w *web) kill() {
	w.cmd.Process.Kill()
	w.cmd.Wait()
}

// stop ends the process. It does nothing if the process was killed.
func (w *web) stop() error {
	if w.cmd.ProcessState != nil {
		return nil
	}
	w.in.Close()
	return w.cmd.Wait()
}
