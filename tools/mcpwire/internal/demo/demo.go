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
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/console"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
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
	Server stdio.Command // starts [Serve]
	Out    io.Writer     // gets the story
}

// Run plays the demo and returns what went over the wire.
func (c *Client) Run(ctx context.Context) (*trace.Recording, error) {
	rec := new(trace.Recording)
	show := console.New(strings.NewReader(""), c.Out)

	s, tasks, kill, err := c.connect(ctx, rec, show)
	if err != nil {
		return nil, err
	}
	defer func() { s.Close() }()
	show.Line("calling render(%d) as a task", frames)
	h, err := tasks.CallTool(ctx, s, &mcp.CallToolRequestParams{
		Name: "render", Arguments: json.RawMessage(fmt.Sprintf(`{"frames":%d}`, frames)),
	}, requestor.Progress())
	if err != nil {
		return nil, err
	}
	show.Line("task %s is %s", h.ID(), h.State().Status)
	for p := range h.Progress(ctx) {
		show.Progress(p)
		if p.Value >= killAt {
			break
		}
	}
	if err := kill(); err != nil {
		return nil, err
	}
	s.Close()
	show.Line("the server was killed")
	rec.Event(time.Now(), "kill -9")

	token, id := h.Token(), h.ID()
	if s, tasks, _, err = c.connect(ctx, rec, show); err != nil {
		return nil, err
	}
	show.Line("the server was started again; waiting for task %s", id)
	tracker, err := s.NewTrackerFor(token)
	if err != nil {
		return nil, err
	}
	var group sync.WaitGroup
	group.Go(func() { // ends when the tracker is closed
		for p := range tracker.Updates(ctx) {
			show.Progress(p)
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
			show.Line("result: %s", text.Text)
		}
	}
	return rec, errors.Join(s.Shutdown(ctx), ctx.Err())
}

// connect starts the server, and returns what kills it.
func (c *Client) connect(ctx context.Context, rec *trace.Recording, show *console.Console) (*session.Session, *requestor.Tasks, func() error, error) {
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
	s, err := session.Connect(ctx, tapped{process, rec}, &mcp.InitializeRequestParams{
		ClientInfo:   mcp.Implementation{Name: "mcpwire demo", Version: "1"},
		Capabilities: mcp.ClientCapabilities{Elicitation: new(mcp.ClientCapabilitiesElicitation)},
	}, cfg)
	return s, tasks, kill, err
}

// user answers the questions of the server.
type user struct {
	mcp.UnimplementedClientHandler
	show *console.Console
}

func (u user) Elicit(ctx context.Context, p mcp.ElicitRequestParams) (mcp.ElicitOutcome, error) {
	form, ok := p.(*mcp.ElicitRequestFormParams)
	if !ok {
		return &mcp.ElicitResult{Action: mcp.ElicitResultActionDecline}, nil
	}
	u.show.Line("the task asks: %s", form.Message)
	u.show.Line("the answer is: high")
	return answer("high")
}

// tapped is a connection of which is recorded what goes over it.
type tapped struct {
	transport.Conn
	rec *trace.Recording
}

func (t tapped) Read() (transport.Message, error) {
	m, err := t.Conn.Read()
	if err == nil {
		t.rec.Message(time.Now(), mcp.FromServer, m.Text)
	}
	return m, err
}

func (t tapped) Write(ctx context.Context, m transport.Message) error {
	t.rec.Message(time.Now(), mcp.FromClient, m.Text)
	return t.Conn.Write(ctx, m)
}
