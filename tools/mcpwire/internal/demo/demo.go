// Package demo shows what the runtime does: a client calls a tool as a task, looks on, answers a
// question of the task, and gets the result although the server was killed in the middle.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// frames is how many frames the tool renders, killAt the one after which the server is killed, and
// askAt the one before which the tool asks for the quality.
const (
	frames = 40
	killAt = 12
	askAt  = 25
)

// Client is the part of the demo that somebody looks at.
type Client struct {
	Server   stdio.Command // starts [Serve]
	Out      io.Writer     // gets the story, and then the conversation
	Terminal bool          // Out is a terminal, which can show a progress bar
}

// Run plays the demo and returns what went over the wire.
func (c *Client) Run(ctx context.Context) (*Recording, error) {
	rec := newRecording()
	show := &display{out: c.Out, terminal: c.Terminal}

	s, tasks, kill, err := c.connect(ctx, rec, show)
	if err != nil {
		return nil, err
	}
	defer func() { s.Close() }()
	show.line("calling render(%d) as a task", frames)
	h, err := tasks.CallTool(ctx, s, &mcp.CallToolRequestParams{
		Name: "render", Arguments: json.RawMessage(fmt.Sprintf(`{"frames":%d}`, frames)),
	}, requestor.Progress())
	if err != nil {
		return nil, err
	}
	show.line("task %s is %s", h.ID(), h.State().Status)
	for p := range h.Progress(ctx) {
		show.progress(p)
		if p.Value >= killAt {
			break
		}
	}
	if err := kill(); err != nil {
		return nil, err
	}
	s.Close()
	show.line("the server was killed")
	rec.note("kill -9")

	token, id := h.Token(), h.ID()
	if s, tasks, _, err = c.connect(ctx, rec, show); err != nil {
		return nil, err
	}
	show.line("the server was started again; waiting for task %s", id)
	tracker, err := s.NewTrackerFor(token)
	if err != nil {
		return nil, err
	}
	var group sync.WaitGroup
	group.Go(func() { // ends when the tracker is closed
		for p := range tracker.Updates(ctx) {
			show.progress(p)
		}
	})
	result, err := tasks.ResumeTool(s, id, requestor.Track(tracker)).Result(ctx)
	tracker.Close()
	group.Wait()
	if err != nil {
		return nil, err
	}
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			show.line("result: %s", text.Text)
		}
	}
	return rec, errors.Join(s.Shutdown(ctx), ctx.Err())
}

// connect starts the server, and returns what kills it.
func (c *Client) connect(ctx context.Context, rec *Recording, show *display) (*session.Session, *requestor.Tasks, func() error, error) {
	process, err := stdio.Start(c.Server)
	if err != nil {
		return nil, nil, nil, err
	}
	kill := func() error {
		p, err := os.FindProcess(process.PID())
		if err != nil {
			return err
		}
		return p.Kill()
	}
	cfg := &session.Config{Handler: session.ClientHandler(user{show: show}, nil)}
	tasks := requestor.Attach(cfg)
	s, err := session.Connect(ctx, rec.tap(process), &mcp.InitializeRequestParams{
		ClientInfo:   mcp.Implementation{Name: "mcpwire demo", Version: "1"},
		Capabilities: mcp.ClientCapabilities{Elicitation: new(mcp.ClientCapabilitiesElicitation)},
	}, cfg)
	return s, tasks, kill, err
}

// user answers the questions of the server.
type user struct {
	mcp.UnimplementedClientHandler
	show *display
}

func (u user) Elicit(ctx context.Context, p mcp.ElicitRequestParams) (mcp.ElicitOutcome, error) {
	form, ok := p.(*mcp.ElicitRequestFormParams)
	if !ok {
		return &mcp.ElicitResult{Action: mcp.ElicitResultActionDecline}, nil
	}
	u.show.line("the task asks: %s", form.Message)
	u.show.line("the answer is: high")
	return answer("high")
}

// display tells the story as it happens.
type display struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	bar      bool // the cursor is behind a progress bar
	quarter  int  // the last one that was shown without a terminal
}

func (d *display) line(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bar {
		fmt.Fprintln(d.out)
		d.bar = false
	}
	fmt.Fprintf(d.out, format+"\n", args...)
}

// progress draws a bar, or without a terminal a line now and then.
func (d *display) progress(p session.Progress) {
	if p.Total == nil || *p.Total <= 0 {
		return
	}
	share := min(max(p.Value / *p.Total, 0), 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.terminal {
		const width = 40
		full := int(share * width)
		fmt.Fprintf(d.out, "\r  [%s%s] %3.0f %%  %s", strings.Repeat("█", full), strings.Repeat("·", width-full), 100*share, p.Message)
		d.bar = true
		return
	}
	if quarter := int(4 * share); quarter != d.quarter {
		d.quarter = quarter
		fmt.Fprintf(d.out, "  %3.0f %%  %s\n", 100*share, p.Message)
	}
}
