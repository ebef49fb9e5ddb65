package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// CallOption is an option of [Client.CallTool].
type CallOption func(*call)

// call is a tool call with its options.
type call struct {
	params   mcp.CallToolRequestParams
	progress func(session.Progress)
	timeout  *time.Duration // nil means the default of the session
	ttl      time.Duration  // 0 means that none is sent
	err      error          // of an option
}

// OnProgress requests progress and calls f for each report, like [session.OnProgress]. In revisions
// without sessions, the progress starts again each time that the call is sent with responses to
// input requests.
func OnProgress(f func(session.Progress)) CallOption { return func(c *call) { c.progress = f } }

// Timeout limits the time until the result is received; 0 means no limit. The default is that of
// the session for a plain call, and no limit for a task.
func Timeout(d time.Duration) CallOption { return func(c *call) { c.timeout = &d } }

// TTL requests that the server keeps the task for d. It has no effect if the tool does not run as a
// task.
func TTL(d time.Duration) CallOption { return func(c *call) { c.ttl = d } }

// Meta adds a member to the _meta of the call, encoded by package codec/value. The call fails if
// name is not a valid key, such as "com.example/trace", or is reserved by the protocol (MCP base
// protocol, "_meta").
func Meta(name string, v any) CallOption {
	return func(c *call) {
		text, err := codec.Marshal(value.Of(v))
		if err == nil {
			err = methods.CheckMetaKey(name)
		}
		if err == nil && methods.ReservedMetaKey(name) {
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

// CallTool calls a tool and waits for its result. The result may be an error of the tool; see its
// IsError and [Output]. Arguments must encode as a JSON object with package codec/value, for
// example a struct, a map or a [json.RawMessage]; nil means none (MCP tools, "Calling Tools").
//
// If the server supports tasks for tools, CallTool looks the tool up in the list and runs it as a
// task if the tool requires that (MCP tasks, "Tool-Level Negotiation"). If ctx ends first, CallTool
// cancels the call or the task.
//
// CallTool uses two more properties of the tool if the list is cached. It returns an [*OutputError]
// if the structured content does not comply with the output schema (MCP tools, "Output Schema"). It
// fetches all partial results if the tool announces them by [partial.PartialResultsMeta] in its
// _meta. The combined result has the content of all parts in order, and everything else from the
// last part. CallTool fails for more than 10,000 parts or 64 MiB: fetch those one by one with a
// [partial.Operation].
//
// In revisions without sessions, CallTool responds to input requests with the handlers of [Options]
// and sends the call again with the responses, up to [Limits].InputRounds times. It fails with
// an [*InputError] if a handler fails. Over HTTP, it repeats the arguments that the schema of the
// tool marks with x-mcp-header in header fields. If the server rejects these, CallTool fetches the
// list of tools and calls the tool once more.
func (c *Client) CallTool(ctx context.Context, name string, arguments any, opts ...CallOption) (*mcp.CallToolResult, error) {
	k := new(call)
	if err := toolParams(&k.params, name, arguments); err != nil {
		return nil, err
	}
	for _, o := range opts {
		o(k)
	}
	if k.err != nil {
		return nil, k.err
	}
	must, err := c.requiresTask(ctx, name)
	if err != nil {
		return nil, err
	}
	result, err := c.callAs(ctx, k, must)
	if err == nil || jsonrpc.CodeOf(err) != jsonrpc.CodeMethodNotFound || !c.runsToolTasks() {
		return result, err
	}
	// A server returns this error if a tool is called in the wrong mode (MCP tasks, "Tool-Level
	// Negotiation"). The cached description of the tool may be outdated.
	c.tools.changed()
	if now, failed := c.requiresTask(ctx, name); failed != nil || now == must {
		return nil, err
	}
	return c.callAs(ctx, k, !must)
}

// toolParams sets the params of a call.
func toolParams(p *mcp.CallToolRequestParams, name string, arguments any) (err error) {
	p.Name = name
	if arguments == nil {
		return nil
	}
	var text []byte
	if raw, ok := arguments.(json.RawMessage); ok {
		text = bytes.TrimLeft(raw, " \t\r\n") // the rest is validated when it is sent
	} else {
		text, err = codec.MarshalFunc(value.Of(arguments).EncodeJSON)
	}
	if err != nil {
		return fmt.Errorf("client: arguments of tool %q: %w", name, err)
	}
	if len(text) == 0 || text[0] != '{' {
		return fmt.Errorf("client: arguments of tool %q: %T is not a JSON object", name, arguments)
	}
	p.Arguments = text
	return nil
}

// runsToolTasks reports whether the server supports tasks for tools.
func (c *Client) runsToolTasks() bool {
	return c.session.Internals(boundary.Caller{}).PeerTakesTask(mcp.MethodToolsCall)
}

// requiresTask reports whether a tool requires to be run as a task.
func (c *Client) requiresTask(ctx context.Context, name string) (bool, error) {
	if !c.runsToolTasks() {
		return false, nil
	}
	tool, err := c.Tool(ctx, name)
	if errors.Is(err, ErrUnknown) {
		return false, nil // call it: the server returns the error
	}
	return err == nil && taskSupport(tool) == mcp.TaskSupportRequired, err
}

func taskSupport(tool *mcp.Tool) mcp.TaskSupport {
	if tool.Execution == nil || tool.Execution.TaskSupport == nil {
		return mcp.TaskSupportForbidden
	}
	return *tool.Execution.TaskSupport
}

// callAs calls a tool, plainly or as a task, and checks the result.
func (c *Client) callAs(ctx context.Context, k *call, task bool) (*mcp.CallToolResult, error) {
	callTool := c.callPlain
	if task {
		callTool = c.callTask
	}
	result, err := callTool(ctx, k)
	if err != nil {
		return nil, err
	}
	if result, err = c.fetchParts(ctx, k, result); err != nil {
		return nil, err
	}
	return c.checkOutput(ctx, k.params.Name, result)
}

func (c *Client) callPlain(ctx context.Context, k *call) (*mcp.CallToolResult, error) {
	var opts []session.Option
	if k.progress != nil {
		opts = append(opts, session.OnProgress(k.progress))
	}
	if k.timeout != nil {
		opts = append(opts, session.Timeout(*k.timeout))
	}
	if k.timeout != nil && *k.timeout > 0 && c.session.Traits().InputInResults { // of all rounds together
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, *k.timeout, session.ErrTimeout)
		defer cancel()
	}
	to := mcp.ToServer{Caller: c.waiting(opts...)}
	return withHeaders(c, ctx, &k.params, func(ctx context.Context) (*mcp.CallToolResult, error) {
		return resultAs[*mcp.CallToolResult](to.CallTool(ctx, &k.params))
	})
}

// withHeaders calls a tool with the header fields of its arguments.
func withHeaders[R any](c *Client, ctx context.Context, p *mcp.CallToolRequestParams, call func(context.Context) (R, error)) (R, error) {
	result, err := call(c.withMirrors(ctx, p))
	if err == nil || !c.mirrorsHeaders() || !errors.Is(err, modern.ErrHeaders) {
		return result, err
	}
	// The server has not called the tool. Its schema is unknown or has changed (MCP Streamable
	// HTTP, "Client Behavior").
	c.tools.changed()
	if _, failed := c.Tool(ctx, p.Name); failed != nil {
		return result, err
	}
	return call(c.withMirrors(ctx, p))
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
		tracker := c.session.Internals(boundary.Caller{}).NewTracker()
		reported := make(chan struct{})
		go func() { // ends when the tracker is closed, or with ctx, once the callback has returned
			defer close(reported)
			for p := range tracker.Updates(ctx) {
				err := boundary.Run(func() error { k.progress(p); return nil })
				boundary.Report(c.log, "progress callback panicked", err)
			}
		}()
		defer func() {
			tracker.Close()
			select {
			case <-reported:
			case <-ctx.Done(): // as in a plain call, a running callback does not delay the caller
			}
		}()
		opts = append(opts, requestor.Track(tracker))
	}
	h, err := c.tasks.CallTool(ctx, c.session, &k.params, opts...)
	if err != nil {
		return nil, err
	}
	return h.ResultOrCancel(ctx)
}

// StartTool starts a tool as a task and returns its handle once the server has created the task
// (MCP tasks, "Creating Tasks"). If the tool does not support tasks, StartTool fails with
// [requestor.ErrNotAsTask] and does not call it.
//
// In revisions without sessions, the server decides whether a call becomes a task. StartTool
// responds to input requests until then, as CallTool does. The id of the handle is "" if the server
// has returned the result.
func (c *Client) StartTool(ctx context.Context, name string, arguments any, opts ...requestor.Option) (*requestor.Handle[*mcp.CallToolResult], error) {
	var p mcp.CallToolRequestParams
	if err := toolParams(&p, name, arguments); err != nil {
		return nil, err
	}
	if c.session.Traits().TasksByServer {
		opts = append([]requestor.Option{requestor.Internals(boundary.Caller{}).Via(c.caller)}, opts...)
		return withHeaders(c, ctx, &p, func(ctx context.Context) (*requestor.Handle[*mcp.CallToolResult], error) {
			return c.tasks.CallTool(ctx, c.session, &p, opts...)
		})
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

// AttachTool returns a handle attached to an existing task of a tool call. It sends nothing.
func (c *Client) AttachTool(id string, opts ...requestor.Option) *requestor.Handle[*mcp.CallToolResult] {
	return c.tasks.AttachTool(c.session, id, opts...)
}

// Tasks iterates over the tasks that the server lists for this client; see [requestor.List].
func (c *Client) Tasks(ctx context.Context) iter.Seq2[mcp.Task, error] {
	return requestor.List(ctx, c.session)
}

// ToolError is the error of a tool that failed.
type ToolError struct {
	Result *mcp.CallToolResult // with IsError set
}

// Error returns the first text of the result.
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

// Title returns the label to show for an item: its title, for a tool also the title in its
// annotations, or its name (MCP, "BaseMetadata", title). It is "" if item is nil.
func Title[T mcp.Implementation | mcp.Tool | mcp.Resource | mcp.ResourceTemplate | mcp.ResourceLink | mcp.Prompt | mcp.PromptArgument](item *T) string {
	if item == nil {
		return ""
	}
	switch x := any(item).(type) {
	case *mcp.Implementation:
		return label(x.Name, x.Title)
	case *mcp.Tool:
		if x.Annotations != nil {
			return label(x.Name, x.Title, x.Annotations.Title)
		}
		return label(x.Name, x.Title)
	case *mcp.Resource:
		return label(x.Name, x.Title)
	case *mcp.ResourceTemplate:
		return label(x.Name, x.Title)
	case *mcp.ResourceLink:
		return label(x.Name, x.Title)
	case *mcp.Prompt:
		return label(x.Name, x.Title)
	case *mcp.PromptArgument:
		return label(x.Name, x.Title)
	}
	panic("client: title: unexpected type") // the constraint allows none
}

// label returns the first title that is not empty, or the name.
func label(name string, titles ...*string) string {
	for _, title := range titles {
		if title != nil && *title != "" {
			return *title
		}
	}
	return name
}
