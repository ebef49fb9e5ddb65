package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// CallOption changes how one tool is called.
type CallOption func(*call)

// call is a tool call on its way.
type call struct {
	params   mcp.CallToolRequestParams
	progress func(session.Progress)
	timeout  *time.Duration // nil for that of the session
	ttl      time.Duration  // 0 for none
	err      error          // of an option
}

// OnProgress asks for progress and calls f for each report, as [session.OnProgress] does.
func OnProgress(f func(session.Progress)) CallOption { return func(c *call) { c.progress = f } }

// Timeout limits how long the tool may take, until its result is there; 0 means no limit. The default
// is the session's for a plain call, and no limit for a task.
func Timeout(d time.Duration) CallOption { return func(c *call) { c.timeout = &d } }

// TTL asks the server to keep the task for so long, should the tool be called as one.
func TTL(d time.Duration) CallOption { return func(c *call) { c.ttl = d } }

// Meta adds a member to the _meta of the call, as [codec/value] writes it. The call fails if the name
// is none for such a member, or belongs to the protocol; see [session.CheckMetaKey].
func Meta(name string, v any) CallOption {
	return func(c *call) {
		text, err := codec.Marshal(value.Of(v))
		if err == nil {
			err = session.CheckMetaKey(name)
		}
		if err == nil && session.ReservedMetaKey(name) {
			err = fmt.Errorf("client: _meta key %q is reserved", name)
		}
		if err != nil {
			c.err = errors.Join(c.err, err)
			return
		}
		if c.params.Meta == nil {
			c.params.Meta = new(mcp.RequestMetaObject)
		}
		c.params.Meta.Extra.Set(name, text)
	}
}

// CallTool calls a tool and waits for its result, which may be an error of the tool: see IsError, and
// [Output]. Arguments are what package codec/value writes as an object, a [json.RawMessage] for
// instance; nil means none.
//
// Where the server runs tools as tasks, the tool is looked up in the list, and one that must be
// called as a task is. If ctx ends first, the call is cancelled, and so is the task. If the tool is
// known from the list, structured content that does not comply with its output schema is an
// [*OutputError] (MCP tools, "Calling Tools" and "Output Schema", and tasks, "Tool-Level
// Negotiation"), and all parts of partial results are fetched if the tool announces them by
// [partial.PartialResultsMeta] in its _meta. The combined result has the content of all parts in
// order, and everything else from the last one. CallTool fails if there are more than 10,000 parts,
// or more than 64 MiB in them: fetch those one by one, with a [partial.Operation].
func (c *Client) CallTool(ctx context.Context, name string, arguments any, opts ...CallOption) (*mcp.CallToolResult, error) {
	p, err := toolParams(name, arguments)
	if err != nil {
		return nil, err
	}
	k := &call{params: p}
	for _, o := range opts {
		o(k)
	}
	if k.err != nil {
		return nil, k.err
	}
	must, err := c.mustBeTask(ctx, name)
	if err != nil {
		return nil, err
	}
	result, err := c.callAs(ctx, k, must)
	if err == nil || jsonrpc.CodeOf(err) != jsonrpc.CodeMethodNotFound || !c.runsToolTasks() {
		return result, err
	}
	// That is how a server refuses the wrong way to call a tool. The tool may be another one by now.
	c.tools.changed()
	if now, failed := c.mustBeTask(ctx, name); failed != nil || now == must {
		return nil, err
	}
	return c.callAs(ctx, k, !must)
}

// toolParams are the params of a call.
func toolParams(name string, arguments any) (p mcp.CallToolRequestParams, err error) {
	p.Name = name
	if arguments == nil {
		return p, nil
	}
	var text []byte
	if raw, ok := arguments.(json.RawMessage); ok {
		text = bytes.TrimLeft(raw, " \t\r\n") // the rest is looked at when it is sent
	} else {
		text, err = codec.Marshal(value.Of(arguments))
	}
	if err != nil {
		return p, fmt.Errorf("client: arguments of %s: %w", name, err)
	}
	if len(text) == 0 || text[0] != '{' {
		return p, fmt.Errorf("client: arguments of %s: %T is no JSON object", name, arguments)
	}
	p.Arguments = text
	return p, nil
}

// runsToolTasks reports whether the server runs tools as tasks.
func (c *Client) runsToolTasks() bool { return c.session.PeerTakesTask(mcp.MethodToolsCall) }

// mustBeTask reports whether a tool has to be called as a task, as far as the server says so.
func (c *Client) mustBeTask(ctx context.Context, name string) (bool, error) {
	if !c.runsToolTasks() {
		return false, nil
	}
	tool, err := c.Tool(ctx, name)
	if errors.Is(err, ErrUnknown) {
		return false, nil // the server shall say so
	}
	return err == nil && taskSupport(tool) == mcp.ToolExecutionTaskSupportRequired, err
}

func taskSupport(tool *mcp.Tool) mcp.ToolExecutionTaskSupport {
	if tool.Execution == nil || tool.Execution.TaskSupport == nil {
		return mcp.ToolExecutionTaskSupportForbidden
	}
	return *tool.Execution.TaskSupport
}

// callAs calls a tool in one of the two ways, and checks the result.
func (c *Client) callAs(ctx context.Context, k *call, task bool) (*mcp.CallToolResult, error) {
	way := c.callPlain
	if task {
		way = c.callTask
	}
	result, err := way(ctx, k)
	if err != nil {
		return nil, err
	}
	if result, err = c.parts(ctx, k, result); err != nil {
		return nil, err
	}
	return c.checked(ctx, k.params.Name, result)
}

func (c *Client) callPlain(ctx context.Context, k *call) (*mcp.CallToolResult, error) {
	var opts []session.Option
	if k.progress != nil {
		opts = append(opts, session.OnProgress(k.progress))
	}
	if k.timeout != nil {
		opts = append(opts, session.Timeout(*k.timeout))
	}
	to := mcp.ToServer{Caller: c.session}
	if len(opts) > 0 {
		to = c.With(opts...)
	}
	return expect[*mcp.CallToolResult](to.CallTool(ctx, &k.params))
}

// callTask calls a tool as a task and waits for it.
func (c *Client) callTask(ctx context.Context, k *call) (*mcp.CallToolResult, error) {
	if k.timeout != nil && *k.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, *k.timeout, session.ErrTimeout)
		defer cancel()
	}
	var opts []requestor.Option
	if k.ttl > 0 {
		opts = append(opts, requestor.TTL(k.ttl))
	}
	if k.progress != nil {
		tracker := c.session.NewTracker()
		var group sync.WaitGroup
		group.Go(func() { // ends when the tracker is closed, or with ctx
			err := boundary.Run(func() error {
				for p := range tracker.Updates(ctx) {
					k.progress(p)
				}
				return nil
			})
			boundary.Report(c.log, "progress callback panicked", err)
		})
		defer group.Wait()
		defer tracker.Close()
		opts = append(opts, requestor.Track(tracker))
	}
	h, err := c.tasks.CallTool(ctx, c.session, &k.params, opts...)
	if err != nil {
		return nil, err
	}
	return h.ResultOrCancel(ctx)
}

// StartTool calls a tool as a task, and returns as soon as the server has taken it. A tool that cannot
// be called as a task fails with [requestor.ErrNotAsTask], and nothing is sent (MCP tasks, "Creating
// Tasks").
func (c *Client) StartTool(ctx context.Context, name string, arguments any, opts ...requestor.Option) (*requestor.Handle[*mcp.CallToolResult], error) {
	p, err := toolParams(name, arguments)
	if err != nil {
		return nil, err
	}
	if c.runsToolTasks() {
		tool, err := c.Tool(ctx, name)
		if err != nil {
			return nil, err
		}
		opts = append([]requestor.Option{requestor.Tool(tool)}, opts...)
	}
	return c.tasks.CallTool(ctx, c.session, &p, opts...)
}

// ResumeTool returns the handle of a tool call that is a task already. Nothing is sent yet.
func (c *Client) ResumeTool(id string, opts ...requestor.Option) *requestor.Handle[*mcp.CallToolResult] {
	return c.tasks.AttachTool(c.session, id, opts...)
}

// Tasks goes over the tasks that the server has for this client; see [requestor.List].
func (c *Client) Tasks(ctx context.Context) iter.Seq2[mcp.Task, error] {
	return requestor.List(ctx, c.session)
}

// ToolError is what a tool says of its failure.
type ToolError struct {
	Result *mcp.CallToolResult // with IsError set
}

// Error is the text of the result.
func (e *ToolError) Error() string {
	if e.Result == nil {
		return "client: tool failed"
	}
	for _, block := range e.Result.Content {
		if text, ok := block.(*mcp.TextContent); ok {
			return "client: tool failed: " + text.Text
		}
	}
	return "client: tool failed"
}

// ToolTitle returns what to call a tool in front of people: its title, else the one among its
// annotations, else its name (MCP, "Tool", title).
func ToolTitle(t *mcp.Tool) string {
	if t == nil {
		return ""
	}
	if (t.Title == nil || *t.Title == "") && t.Annotations != nil {
		return Title(t.Annotations.Title, t.Name)
	}
	return Title(t.Title, t.Name)
}

// Title returns what to call anything else that has a title and a name: the title if there is one.
func Title(title *string, name string) string {
	if title != nil && *title != "" {
		return *title
	}
	return name
}
