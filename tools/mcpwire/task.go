package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/printable"
)

// taskCommands returns the commands about tasks.
func taskCommands() []command {
	return []command{
		taskCommand("list", "list your tasks on a server", "", (*remote).listTasks),
		taskCommand("get", "show the state of a task", "", (*remote).getTask),
		taskCommand("watch", "show the progress of a task and write its result", `
Shows each state of the task, and its progress if the call that created the task requested progress.
Passes input requests of the task to the user. With -json, each of these is a line on standard output:
{"task":…}, {"progress":…} and finally {"result":…}. Ctrl-C asks whether to cancel the task or to
detach from it.
`, (*remote).watchTask),
		taskCommand("result", "wait for a task and write its result", "", (*remote).taskResult),
		taskCommand("cancel", "cancel a task", "", (*remote).cancelTask),
	}
}

// taskCommand returns the command task VERB.
func taskCommand(verb, short, more string, run func(r *remote, ctx context.Context, server, id string) error) command {
	id, want, example := " ID", 2, " 7f3a"
	if verb == "list" {
		id, want, example = "", 1, ""
	}
	return command{
		name:  "task " + verb,
		args:  "[-json] [-era ERA] [-env NAME] [-header H] [-root DIR] " + authArgs + " SERVER" + id,
		short: short,
		help: `
Connects to a server to ` + strings.TrimSuffix(short, " on a server") + `. "mcpwire call -task" creates tasks.
Without -era, the revision has sessions, which report the progress of tasks.
` + more + serverHelp + `
Example:

  mcpwire task ` + verb + ` https://example.com/mcp` + example + `
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			r := new(remote)
			r.declare(flags)
			return func(ctx context.Context, s streams, args []string) error {
				if len(args) < want {
					return usagef("missing argument; want SERVER%s", id)
				}
				if len(args) > want {
					return usagef("unexpected argument %q", args[want])
				}
				id := ""
				if want == 2 {
					id = args[1]
				}
				if r.era.preferSessions(); r.era == modernEra && verb == "list" {
					return usagef("revisions without sessions do not list tasks; leave out -era")
				}
				return r.withServer(ctx, s, args[0], func() error { return run(r, ctx, args[0], id) })
			}
		},
	}
}

// explainTasks adds to the error of a server without tasks why it may have none.
func explainTasks(err error, server string) error {
	missing, ok := errors.AsType[*session.CapabilityError](err)
	ok = ok && !missing.Own && strings.HasPrefix(missing.Capability, "tasks")
	if rpc, unknown := errors.AsType[*jsonrpc.Error](err); unknown && rpc.Code == jsonrpc.CodeMethodNotFound {
		ok = ok || strings.HasPrefix(rpc.Message, "method not found: tasks/")
	}
	switch {
	case !ok:
		return err
	case !isURL(server):
		return fmt.Errorf("%w; if the server has reported that another process uses its store, end that process, such as the host that has started it, and repeat the command", err)
	case missing != nil && missing.Capability == "tasks.list":
		return fmt.Errorf("%w; a server over HTTP lists tasks only if its clients have principals, see HandlerOptions.Access.Principal", err)
	}
	return err
}

func (r *remote) listTasks(ctx context.Context, _, _ string) error {
	for t, err := range r.Tasks(ctx) {
		if err == nil {
			err = r.writeState(t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeState writes the state of a task.
func (r *remote) writeState(t mcp.Task) error {
	if r.json {
		return r.writeJSON(&t)
	}
	message := ""
	if t.StatusMessage != nil {
		message = *t.StatusMessage
	}
	_, err := fmt.Fprintf(r.out, "%s  %-14s  created %s, last change %s  %s\n",
		printable.Line(t.TaskID), statusText(t.Status), printable.Line(t.CreatedAt), printable.Line(t.LastUpdatedAt), printable.Line(message))
	return err
}

// statusText returns the status of a task for people. A status that the protocol does not define
// comes from the server, and must not begin a line unquoted.
func statusText(s mcp.TaskStatus) string {
	switch s {
	case mcp.TaskStatusWorking, mcp.TaskStatusInputRequired, mcp.TaskStatusCompleted, mcp.TaskStatusFailed, mcp.TaskStatusCancelled:
		return string(s)
	}
	return strconv.Quote(string(s))
}

func (r *remote) getTask(ctx context.Context, _, id string) error {
	t, err := r.AttachTool(id).Refresh(ctx)
	if err != nil {
		return err
	}
	return r.writeState(t)
}

func (r *remote) watchTask(ctx context.Context, server, id string) error {
	var view viewer = onConsole{r.console}
	if r.json {
		view = asLines{r}
	}
	result, err := r.follow(ctx, server, r.AttachTool(id, requestor.Progress()), view)
	if err != nil {
		return err
	}
	r.console.Finish()
	if !r.json {
		return r.writeResult(result)
	}
	if err := r.writeMember("result", result); err != nil {
		return err
	}
	if result.Failed() {
		return errFaults
	}
	return nil
}

// asLines is a viewer for scripts. It ignores write errors, because writing the result reports
// them.
type asLines struct{ r *remote }

func (v asLines) state(t mcp.Task) { v.r.writeMember("task", &t) }

func (v asLines) progress(p session.Progress) {
	v.r.writeMember("progress", value.Of(struct {
		Progress float64  `json:"progress"`
		Total    *float64 `json:"total,omitempty"`
		Message  string   `json:"message,omitempty"`
	}{p.Value, p.Total, p.Message}))
}

// writeMember writes a line of JSON: an object with one member. It may be called by several
// goroutines.
func (r *remote) writeMember(name string, v codec.Encoder) error {
	text, err := codec.Marshal(v)
	if err != nil {
		return err
	}
	r.lines.Lock()
	defer r.lines.Unlock()
	_, err = fmt.Fprintf(r.out, "{%q:%s}\n", name, text)
	return err
}

func (r *remote) taskResult(ctx context.Context, _, id string) error {
	result, err := r.AttachTool(id).Result(ctx)
	if err != nil {
		return err
	}
	return r.writeResult(result)
}

func (r *remote) cancelTask(ctx context.Context, _, id string) error {
	t, err := r.AttachTool(id).Cancel(ctx)
	if err != nil {
		return err
	}
	return r.writeState(t)
}
