package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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

// call returns the command call.
func call() command {
	return command{
		name:  "call",
		args:  "[-task] [-ttl TIME] [-json] [-era ERA] [-env NAME] [-header H] [-root DIR] " + authArgs + " SERVER TOOL [KEY=VALUE...]",
		short: "call a tool of a server",
		help: `
Connects to a server, calls a tool, shows its progress and writes its result. The schema of the tool
decides how a VALUE is read: as text if the argument is a string, otherwise as JSON. If the result
comes in parts, call fetches all of them.

With -task, and for a tool that requires it, the call runs as a task, which continues on the server if
this command ends. Ctrl-C asks whether to cancel the task or to detach from it. To reattach, run
"mcpwire task watch" or "mcpwire task result". Without a terminal, Ctrl-C detaches.
` + serverHelp + `
Exit status: 0 on success, 1 if the call or the tool failed or call detached from the task, 2 for
invalid usage.

Example:

  mcpwire call -task 'go run ./examples/jobserver' render frames=30
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			c := new(caller)
			c.declare(flags)
			flags.BoolVar(&c.task, "task", false, "call the tool as a task")
			flags.DurationVar(&c.ttl, "ttl", 0, "ask the server to keep the task for `TIME`; by default the server chooses")
			return func(ctx context.Context, s streams, args []string) error {
				if len(args) < 2 {
					return usagef("missing SERVER or TOOL")
				}
				if c.ttl < 0 {
					return usagef("-ttl %v is negative", c.ttl)
				}
				if c.task {
					c.era.preferSessions()
				}
				return c.withServer(ctx, s, args[0], func() error { return c.call(ctx, args[0], args[1], args[2:]) })
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
	tool, err := c.findTool(ctx, name)
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
		if c.task || requiresTask(tool) && c.Session().Server().Capabilities.Declares("tasks.requests.tools.call") {
			result, err = c.asTask(ctx, server, name, args)
		} else if c.ttl != 0 {
			return usagef("-ttl is for tasks; add -task")
		} else {
			result, err = c.CallTool(ctx, name, args, client.Timeout(0), client.OnProgress(c.console.Progress))
		}
		c.console.Finish()
		if list, ok := c.URLsRequired(err); ok && c.confirmVisits(ctx, list) {
			continue
		}
		if err != nil {
			return err
		}
		return errors.Join(c.writeResult(result), c.fetchParts(ctx, name, args, result))
	}
}

// fetchParts fetches and writes the remaining parts of a result, until a part has no token for
// another one.
func (c *caller) fetchParts(ctx context.Context, name string, args json.RawMessage, result *mcp.CallToolResult) error {
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
		c.console.Line("part %d:", n)
		raw, err := o.Next(ctx)
		c.console.Finish()
		if err != nil {
			return err
		}
		part := new(mcp.CallToolResult)
		if err := codec.Unmarshal(raw, part); err != nil {
			return err
		}
		if err := c.writeResult(part); err != nil {
			return err
		}
		_, ok = o.Token()
	}
	return nil
}

// findTool returns a tool, or an error that lists the server's tools.
func (c *caller) findTool(ctx context.Context, name string) (*mcp.Tool, error) {
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
	return nil, fmt.Errorf("the server has no tool %s%s; its tools are %s", name, similar(name, names), strings.Join(names, ", "))
}

func requiresTask(tool *mcp.Tool) bool {
	return tool.Execution != nil && tool.Execution.TaskSupport != nil && *tool.Execution.TaskSupport == mcp.TaskSupportRequired
}

// confirmVisits asks the user to open the pages that a call requires, and reports whether to call
// again.
func (c *caller) confirmVisits(ctx context.Context, list []*client.URLRequest) bool {
	c.console.Line("first, the server wants you to open a page in your browser. It says:")
	for _, p := range list {
		c.console.Quote(p.Message)
		c.console.Page(p.URL)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if len(list) == 1 {
		go func() { // ends with ctx
			select {
			case <-list[0].Done:
				cancel(errVisited)
			case <-ctx.Done():
			}
		}()
	}
	line, err := c.console.Ask(ctx, "Call again? (yes or no) [yes]: ")
	if errors.Is(err, errVisited) {
		c.console.Line("")
		return true
	}
	return err == nil && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "n")
}

// errVisited means that the server has reported the page as visited.
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

// viewer shows the states and progress of a task. Its methods are called by several goroutines.
type viewer interface {
	state(mcp.Task)
	progress(session.Progress)
}

// onConsole is a viewer for people.
type onConsole struct{ *console.Console }

func (v onConsole) progress(p session.Progress) { v.Progress(p) }

func (v onConsole) state(t mcp.Task) {
	if t.StatusMessage != nil && *t.StatusMessage != "" {
		v.Line("%s: %s", statusText(t.Status), *t.StatusMessage)
	} else {
		v.Line("%s", statusText(t.Status))
	}
}

// lastStateTimeout limits how long follow waits for the last state of a terminal task.
const lastStateTimeout = 2 * time.Second

// follow shows the states and progress of a task and returns its result. It returns errFaults if
// the user detaches.
func (r *remote) follow(ctx context.Context, server string, h *requestor.Handle[*mcp.CallToolResult], view viewer) (*mcp.CallToolResult, error) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { // ends with work or with the task, like the others
		for p := range h.Progress(work) {
			view.progress(p)
		}
	})
	group.Go(func() { states(work, h, view) })
	type outcome struct {
		result *mcp.CallToolResult
		err    error
	}
	outcomes := make(chan outcome, 1)
	group.Go(func() {
		result, err := h.Result(work)
		outcomes <- outcome{result, err}
	})
	finish := func(out outcome) (*mcp.CallToolResult, error) {
		defer time.AfterFunc(lastStateTimeout, cancel).Stop()
		group.Wait()
		return out.result, out.err
	}
	select {
	case out := <-outcomes:
		return finish(out)
	case <-ctx.Done():
	}
	asking, stop := context.WithCancel(work)
	defer stop()
	choice := make(chan int, 1)
	group.Go(func() { choice <- r.askAfterInterrupt(asking, h.ID()) })
	select {
	case out := <-outcomes:
		stop()
		return finish(out)
	case action := <-choice:
		switch action {
		case wait:
			return finish(<-outcomes)
		case cancelTask:
			if _, err := h.Cancel(work); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("task %s was cancelled", h.ID())
		}
	}
	flags := ""
	if r.Session().Traits().Sessionless { // the server may have no revision with sessions
		flags = "-era modern "
	}
	if !r.console.Terminal() { // the output may be a log
		server = withoutSecrets(server)
	}
	r.console.Line("detached from task %s; to reattach:\n  mcpwire task watch %s%s %s", h.ID(), flags, quoted(server), quoted(h.ID()))
	return nil, errFaults
}

// states shows each change of a task's state.
func states(ctx context.Context, h *requestor.Handle[*mcp.CallToolResult], view viewer) {
	var last mcp.Task
	for state, err := range h.Updates(ctx) {
		if err != nil {
			return // Result reports it, too
		}
		if state.Status != last.Status || !equal(state.StatusMessage, last.StatusMessage) {
			view.state(state)
		}
		last = state
	}
}

func equal(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// The choices after Ctrl-C.
const (
	detach = iota
	cancelTask
	wait
)

// askAfterInterrupt asks the user to cancel a task, to detach from it, or to wait for it. Without a
// terminal, it returns detach.
func (r *remote) askAfterInterrupt(ctx context.Context, id string) int {
	if !r.console.Terminal() || id == "" {
		return detach
	}
	back := r.console.SetAside() // input requests of the task stay pending if the user detaches
	line, err := r.console.Ask(ctx, "\nTask "+printable.Line(id)+" is still running. Cancel it, detach from it, or wait for it? [detach]: ")
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

// quoted returns word quoted for a shell. It puts "--" before a word that begins with a dash, so
// that it is not parsed as a flag.
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
