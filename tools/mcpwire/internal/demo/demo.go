// Package demo demonstrates the runtime: a client calls a tool as a task, follows its steps,
// responds to its input request, and gets the result, although the server is killed between two
// steps and, over HTTP, the network is cut before that.
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

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/console"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// The tool renders scenes, each in a step, and asks for the quality after askAfter of them. The
// server is killed after killAfter scenes, in the pause that follows each of them. Over HTTP, the
// network is cut before that, after cutAfter frames.
const (
	scenes      = 4
	sceneFrames = 10
	killAfter   = 2
	askAfter    = 3
	cutAfter    = 4

	frameTime = 50 * time.Millisecond
	pause     = 250 * time.Millisecond
)

// Client runs the demo.
type Client struct {
	Server stdio.Command // starts [Serve], or for RunHTTP [ServeHTTP]
	Out    io.Writer     // receives the output for the user
}

// Run plays the demo over standard input and output and returns a recording of all messages. At its
// end, it calls a tool that asks for input in a revision without sessions.
func (c *Client) Run(ctx context.Context) (*trace.Recording, error) {
	rec := new(trace.Recording)
	show := console.New(strings.NewReader(""), c.Out)

	working, ended := context.WithCancel(ctx)
	defer ended()
	s, tasks, kill, err := c.connect(ctx, rec, show, ended)
	if err != nil {
		return nil, err
	}
	defer func() { s.Close() }()
	h, err := call(ctx, s, tasks, show)
	if err != nil {
		return nil, err
	}
	rendered := 0.0
	for p := range h.Progress(working) {
		show.Progress(p)
		if rendered = p.Value; rendered >= killAfter*sceneFrames {
			break
		}
	}
	if rendered < killAfter*sceneFrames {
		result, err := h.Result(ctx)
		if err != nil {
			return nil, err
		}
		printResult(result, show)
		return nil, errors.New("the task ended before the server was killed")
	}
	if err := kill(); err != nil {
		return nil, err
	}
	s.Close()
	show.Line("the server was killed between two steps")
	rec.Event(time.Now(), "kill -9")

	id := h.ID()
	if s, tasks, _, err = c.connect(ctx, rec, show, func() {}); err != nil {
		return nil, err
	}
	show.Line("the server was started again; waiting for task %s", id)
	again := tasks.AttachTool(s, id, requestor.Progress())
	var group sync.WaitGroup
	group.Go(func() { // ends with the task, or with ctx
		for p := range again.Progress(ctx) {
			show.Progress(p)
		}
	})
	result, err := again.Result(ctx)
	group.Wait()
	if err != nil {
		return nil, err
	}
	printResult(result, show)
	if err := errors.Join(s.Shutdown(ctx), ctx.Err()); err != nil {
		return nil, err
	}
	return rec, c.callInRounds(ctx, rec, show)
}

// call calls the tool as a task.
func call(ctx context.Context, s *session.Session, tasks *requestor.Tasks, show *console.Console) (*requestor.Handle[*mcp.CallToolResult], error) {
	show.Line("calling render(%d) as a task", scenes)
	h, err := tasks.CallTool(ctx, s, &mcp.CallToolRequestParams{
		Name: "render", Arguments: json.RawMessage(fmt.Sprintf(`{"scenes":%d}`, scenes)),
	}, requestor.Progress())
	if err == nil {
		show.Line("task %s is %s", h.ID(), h.State().Status)
	}
	return h, err
}

// printResult prints a result.
func printResult(result *mcp.CallToolResult, show *console.Console) {
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			show.Line("result: %s", text.Text)
		}
	}
}

// connect starts the server and returns a function that kills it. For ended, see open.
func (c *Client) connect(ctx context.Context, rec *trace.Recording, show *console.Console, ended func()) (*session.Session, *requestor.Tasks, func() error, error) {
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
	s, tasks, err := open(ctx, process, rec, show, ended)
	return s, tasks, kill, err
}

// open opens a recorded session, in which ended is called when a task has ended. If open fails, it
// closes the connection.
func open(ctx context.Context, conn transport.Conn, rec *trace.Recording, show *console.Console, ended func()) (*session.Session, *requestor.Tasks, error) {
	cfg := &session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if req.IsNotification() {
			return nil, mcp.DispatchClientNotification(ctx, notifications{show: show, ended: ended}, req.Revision(), req.Method, req.Params)
		}
		return mcp.DispatchClient(ctx, user{show: show}, req.Revision(), req.Method, req.Params)
	}}
	tasks := requestor.Attach(cfg)
	s, err := session.Connect(ctx, tapped{conn, rec}, &mcp.InitializeRequestParams{
		ClientInfo:   mcp.Implementation{Name: "mcpwire demo", Version: "1"},
		Capabilities: mcp.ClientCapabilities{Elicitation: new(mcp.ClientCapabilitiesElicitation)},
	}, cfg)
	return s, tasks, err
}

// user responds to the input requests of the server.
type user struct {
	mcp.UnimplementedClientHandler
	show *console.Console
}

func (u user) Elicit(ctx context.Context, p mcp.ElicitRequestParams) (mcp.ElicitOutcome, error) {
	form, ok := p.(*mcp.ElicitRequestFormParams)
	if !ok {
		return &mcp.ElicitResult{Action: mcp.ElicitActionDecline}, nil
	}
	u.show.Line("the task asks: %s", form.Message)
	u.show.Line("the answer is: high")
	result := new(mcp.ElicitResult)
	return result, codec.Unmarshal([]byte(`{"action":"accept","content":{"quality":"high"}}`), result)
}

// notifications shows the log messages of the server, and calls ended when a task has ended.
type notifications struct {
	mcp.UnimplementedClientNotificationHandler
	show  *console.Console
	ended func()
}

func (n notifications) TaskStatus(_ context.Context, p *mcp.TaskStatusNotificationParams) error {
	if task.Terminal(p.Status) {
		n.ended()
	}
	return nil
}

func (n notifications) LoggingMessage(_ context.Context, p *mcp.LoggingMessageNotificationParams) error {
	var text string
	if err := json.Unmarshal(p.Data, &text); err != nil {
		return err
	}
	n.show.Line("%s", text)
	return nil
}

// tapped records the messages of a connection.
type tapped struct {
	transport.Conn
	rec *trace.Recording
}

// Unwrap implements [transport.Unwrapper].
func (t tapped) Unwrap() transport.Conn { return t.Conn }

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
