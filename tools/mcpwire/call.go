package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/experimental/partial"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/console"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/printable"
)

// call is the command call.
func call() command {
	return command{
		name:  "call",
		args:  "[-task] [-ttl TIME] [-json] [-env NAME] [-header H] [-root DIR] SERVER TOOL [KEY=VALUE...]",
		short: "call a tool of a server",
		help: `
Connects with a server, calls a tool, shows its progress and writes its result. Values are read as
the tool's schema says: text as it is, all else as JSON. A result that comes in parts is asked for to
its end.

With -task, and for a tool that wants it so, the call is a task, which goes on at the server
whatever becomes of this command. Ctrl-C then offers to cancel the task or to leave it alone; the
commands "task watch" and "task result" come back to it. Without a terminal it is left alone.
` + serverHelp + `
Exit status: 0 if all is well, 1 if the call or the tool has failed or the task was left alone, 2
for wrong usage.

Example:

  mcpwire call -task 'go run ./examples/jobserver' render frames=30
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			c := new(caller)
			c.declare(flags)
			flags.BoolVar(&c.task, "task", false, "call the tool as a task")
			flags.DurationVar(&c.ttl, "ttl", 0, "how long the server is asked to keep the task; default is up to the server")
			return func(ctx context.Context, s streams, args []string) error {
				if len(args) < 2 {
					return usagef("SERVER and TOOL are missing")
				}
				return c.with(ctx, s, args[0], func() error { return c.call(ctx, args[0], args[1], args[2:]) })
			}
		},
	}
}

// caller is the command call with its flags.
type caller struct {
	remote
	task bool
	ttl  time.Duration
}

func (c *caller) call(ctx context.Context, server, name string, pairs []string) error {
	tool, err := c.find(ctx, name)
	if err != nil {
		return err
	}
	list, err := arguments(tool, pairs)
	if err != nil {
		return err
	}
	text, err := codec.Marshal(value.Of(list))
	if err != nil {
		return err
	}
	args := json.RawMessage(text)
	for {
		var result *mcp.CallToolResult
		if c.task || mustBeTask(tool) && c.Session().PeerTakesTask(mcp.MethodToolsCall) {
			result, err = c.asTask(ctx, server, name, args)
		} else {
			result, err = c.CallTool(ctx, name, args, client.Timeout(0), client.OnProgress(c.console.Progress))
		}
		c.console.Finish()
		if list, ok := client.URLsRequired(err); ok && c.visit(ctx, list) {
			continue
		}
		if err != nil {
			return err
		}
		return errors.Join(c.result(result), c.more(ctx, name, args, result))
	}
}

// more asks for the parts of a result behind the first one, as long as there is a token for another, and writes them.
func (c *caller) more(ctx context.Context, name string, args json.RawMessage, result *mcp.CallToolResult) error {
	token, ok, err := partial.TokenOf(result)
	if err != nil || !ok {
		return err
	}
	to := c.Session().With(session.Timeout(0), session.OnProgress(c.console.Progress))
	o, err := partial.Continue(to, mcp.MethodToolsCall, &mcp.CallToolRequestParams{Name: name, Arguments: args}, token)
	if err != nil {
		return err
	}
	for n := 2; ok; n++ {
		c.console.Line("there is more; part %d:", n)
		raw, err := o.Next(ctx)
		c.console.Finish()
		if err != nil {
			return err
		}
		part := new(mcp.CallToolResult)
		if err := codec.Unmarshal(raw, part); err != nil {
			return err
		}
		if err := c.result(part); err != nil {
			return err
		}
		_, ok = o.Token()
	}
	return nil
}

// find returns a tool, or an error that says which ones there are.
func (c *caller) find(ctx context.Context, name string) (*mcp.Tool, error) {
	tool, err := c.Tool(ctx, name)
	if !errors.Is(err, client.ErrUnknown) {
		return tool, err
	}
	var names []string
	for t, err := range c.Tools(ctx) {
		if err != nil {
			return nil, err
		}
		names = append(names, t.Name)
	}
	return nil, fmt.Errorf("the server has no tool %s%s; it has %s", name, similar(name, names), strings.Join(names, ", "))
}

func mustBeTask(tool *mcp.Tool) bool {
	return tool.Execution != nil && tool.Execution.TaskSupport != nil && *tool.Execution.TaskSupport == mcp.ToolExecutionTaskSupportRequired
}

// visit asks the user to open pages that a call needs first, and reports whether to call again.
func (c *caller) visit(ctx context.Context, list []mcp.ElicitRequestURLParams) bool {
	c.console.Line("before it does that, the server wants you to open a page in your browser. It says:")
	for _, p := range list {
		c.console.Quote(p.Message)
		c.console.Page(p.URL)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, p := range list {
		if p.ElicitationID == nil {
			continue
		}
		if done, ok := c.URLDone(*p.ElicitationID); ok && len(list) == 1 {
			go func() { // ends with ctx
				select {
				case <-done:
					cancel(errVisited)
				case <-ctx.Done():
				}
			}()
		}
	}
	line, err := c.console.Ask(ctx, "Call again? (yes or no) [yes]: ")
	if errors.Is(err, errVisited) {
		c.console.Line("")
		return true
	}
	return err == nil && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "n")
}

// errVisited says that the server has what it wanted from a page.
var errVisited = errors.New("the page was visited")

// asTask calls a tool as a task.
func (c *caller) asTask(ctx context.Context, server, name string, args any) (*mcp.CallToolResult, error) {
	opts := []requestor.Option{requestor.Progress()}
	if c.ttl > 0 {
		opts = append(opts, requestor.TTL(c.ttl))
	}
	h, err := c.StartTool(ctx, name, args, opts...)
	if err != nil {
		return nil, err
	}
	if h.ID() != "" {
		c.console.Line("task %s", h.ID())
	}
	return c.follow(ctx, server, h, onConsole{c.console})
}

// viewer shows what becomes of a task. Its methods are called by several goroutines.
type viewer interface {
	state(mcp.Task)
	progress(session.Progress)
}

// onConsole is a viewer for people.
type onConsole struct{ *console.Console }

func (v onConsole) progress(p session.Progress) { v.Progress(p) }

func (v onConsole) state(t mcp.Task) {
	switch t.Status {
	case mcp.TaskStatusWorking, mcp.TaskStatusInputRequired, mcp.TaskStatusCompleted, mcp.TaskStatusFailed, mcp.TaskStatusCancelled:
	default: // an unknown status comes from the server and must not start a line unquoted
		t.Status = mcp.TaskStatus(strconv.Quote(string(t.Status)))
	}
	if t.StatusMessage != nil && *t.StatusMessage != "" {
		v.Line("%s: %s", t.Status, *t.StatusMessage)
	} else {
		v.Line("%s", string(t.Status))
	}
}

// lastWords is how long a task that is over may take to tell its last state.
const lastWords = 2 * time.Second

// follow shows how a task goes on, and returns its result, or errFaults if the user has left it alone.
func (r *remote) follow(ctx context.Context, server string, h *requestor.Handle[*mcp.CallToolResult], view viewer) (*mcp.CallToolResult, error) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { // as the others, ends with work, or with the task
		for p := range h.Progress(work) {
			view.progress(p)
		}
	})
	group.Go(func() { states(work, h, view) })
	type outcome struct {
		result *mcp.CallToolResult
		err    error
	}
	over := make(chan outcome, 1)
	group.Go(func() {
		result, err := h.Result(work)
		over <- outcome{result, err}
	})
	finish := func(out outcome) (*mcp.CallToolResult, error) {
		defer time.AfterFunc(lastWords, cancel).Stop()
		group.Wait()
		return out.result, out.err
	}
	select {
	case out := <-over:
		return finish(out)
	case <-ctx.Done():
	}
	asking, stop := context.WithCancel(work)
	defer stop()
	choice := make(chan int, 1)
	group.Go(func() { choice <- r.offer(asking, h.ID()) })
	select {
	case out := <-over:
		stop()
		return finish(out)
	case what := <-choice:
		switch what {
		case wait:
			return finish(<-over)
		case cancelTask:
			if _, err := h.Cancel(work); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("task %s is cancelled", h.ID())
		}
	}
	r.console.Line("task %s goes on; to come back:\n  mcpwire task watch %s %s", h.ID(), quoted(server), quoted(h.ID()))
	return nil, errFaults
}

// states tells of the states of a task, as they change.
func states(ctx context.Context, h *requestor.Handle[*mcp.CallToolResult], view viewer) {
	var last mcp.Task
	for state, err := range h.Updates(ctx) {
		if err != nil {
			return // Result says it, too
		}
		if state.Status != last.Status || !equal(state.StatusMessage, last.StatusMessage) {
			view.state(state)
		}
		last = state
	}
}

func equal(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// What to do about a task after Ctrl-C.
const (
	detach = iota
	cancelTask
	wait
)

// offer asks what to do about a task. Without a terminal it is left alone.
func (r *remote) offer(ctx context.Context, id string) int {
	if !r.console.Terminal() || id == "" {
		return detach
	}
	back := r.console.SetAside() // what the task asks stays open if it is left
	line, err := r.console.Ask(ctx, "\nTask "+printable.Line(id)+" goes on. Cancel it, detach from it, or wait for it? [detach]: ")
	word := strings.ToLower(strings.TrimSpace(line))
	switch {
	case err != nil || word == "":
		return detach
	case strings.HasPrefix("cancel", word):
		return cancelTask
	case strings.HasPrefix("wait", word):
		back()
		return wait
	}
	return detach
}

// quoted returns word quoted for a shell. It puts "--" in front of a word that begins with a dash, so
// that it is not taken for a flag.
func quoted(word string) string {
	safe := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_./:=@-", c)
	}
	text := word
	if word == "" || strings.ContainsFunc(word, func(c rune) bool { return !safe(c) }) {
		text = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	if strings.HasPrefix(word, "-") {
		text = "-- " + text
	}
	return text
}
