// Package receiver offers tasks through sessions: it runs requests of the peer as tasks of a
// [task.Manager], and answers what the peer asks about them. It serves either role: a server that
// runs tool calls, and a client that runs sampling and elicitation.
//
//	cfg := &session.Config{Handler: handler}
//	receiver.Attach(cfg, receiver.Options{Manager: manager})
//
// Which kinds of requests can be tasks, and whether they can be listed and cancelled, is what this
// side declares in its capabilities; see [ServerCapabilities] and [ClientCapabilities].
package receiver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Options says how requests become tasks.
type Options struct {
	// Manager runs the tasks. It must be set.
	Manager *task.Manager

	// Support says what holds for a request of a kind that was declared for tasks. It is called for
	// plain requests, too, and must be quick. Without it tools may be called as tasks or not, and so
	// may all else.
	Support func(ctx context.Context, req *session.Request) Support
}

// Support is what holds for one request that could be a task. For tools/call it belongs to the
// tool.
type Support struct {
	// Mode says whether the request may, must or must not be a task. The zero value is forbidden,
	// as it is for a tool that says nothing (MCP tasks, "Tool-Level Negotiation").
	Mode mcp.ToolExecutionTaskSupport

	// Restartable, Runner, StatusMessage and PollInterval are those of the [task.Request].
	Restartable   bool
	Runner        string
	StatusMessage string
	PollInterval  time.Duration

	// Immediate is what the model of the peer may be told until the task is over; "" for nothing.
	Immediate string
}

// Attach makes sessions of a configuration offer tasks. It adds middleware on both ways, inside of
// what is there already.
//
// The handler serves a request that runs as a task like any other one: under a context that ends
// with the task and not with the request, and with [session.PeerFrom] leading to the task's
// requestor, wherever that is by then.
func Attach(cfg *session.Config, o Options) {
	cfg.Receiving = append(cfg.Receiving, o.receive)
	cfg.Sending = append(cfg.Sending, relate)
}

// receive is the middleware for requests.
func (o Options) receive(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if req.IsNotification() {
			return next(ctx, req)
		}
		switch req.Method {
		case mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksList, mcp.MethodTasksCancel:
			result, err := o.answer(ctx, req)
			if err != nil {
				return nil, wire(ctx, err)
			}
			return result, nil
		}
		if m, ok := mcp.LookupMethod(req.Method); ok && m.Task {
			return o.request(ctx, req, next)
		}
		return next(ctx, req)
	}
}

// wire is the error that goes to the peer. Where the request itself was given up nobody reads it.
func wire(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return task.WireError(err)
}

// answer serves the methods about tasks. What a request says in its _meta is not looked at.
func (o Options) answer(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	m, who := o.Manager, session.Principal(ctx)
	switch req.Method {
	case mcp.MethodTasksGet:
		return jsonrpc.Serve(ctx, req.Params, false, func(ctx context.Context, p *mcp.GetTaskRequestParams) (*mcp.GetTaskResult, error) {
			t, err := m.Get(ctx, who, p.TaskID, via{s: req.Session})
			return &mcp.GetTaskResult{
				TaskID: t.TaskID, Status: t.Status, StatusMessage: t.StatusMessage, CreatedAt: t.CreatedAt,
				LastUpdatedAt: t.LastUpdatedAt, TTL: t.TTL, PollInterval: t.PollInterval,
			}, err
		})
	case mcp.MethodTasksCancel:
		return jsonrpc.Serve(ctx, req.Params, false, func(ctx context.Context, p *mcp.CancelTaskRequestParams) (*mcp.CancelTaskResult, error) {
			t, err := m.Cancel(ctx, who, p.TaskID, via{s: req.Session})
			return &mcp.CancelTaskResult{
				TaskID: t.TaskID, Status: t.Status, StatusMessage: t.StatusMessage, CreatedAt: t.CreatedAt,
				LastUpdatedAt: t.LastUpdatedAt, TTL: t.TTL, PollInterval: t.PollInterval,
			}, err
		})
	case mcp.MethodTasksList:
		return jsonrpc.Serve(ctx, req.Params, true, func(ctx context.Context, p *mcp.PaginatedRequestParams) (*mcp.ListTasksResult, error) {
			cursor := ""
			if p != nil && p.Cursor != nil {
				cursor = *p.Cursor
			}
			tasks, next, err := m.List(ctx, who, cursor)
			page := &mcp.ListTasksResult{Tasks: tasks}
			if next != "" {
				page.NextCursor = &next
			}
			return page, err
		})
	}
	return jsonrpc.Serve(ctx, req.Params, false, func(ctx context.Context, p *mcp.GetTaskPayloadRequestParams) (*payload, error) {
		out, err := m.Result(ctx, who, p.TaskID, via{s: req.Session, req: req})
		if err == nil && out.Error != nil {
			return nil, out.Error
		}
		return &payload{out.Result}, err
	})
}

// payload is a stored result, which goes out as it is.
type payload struct{ raw json.RawMessage }

func (p *payload) EncodeJSON(w *codec.Writer) { session.Raw(p.raw).EncodeJSON(w) }

// request serves a request of a kind that can be run as a task.
func (o Options) request(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	wish, asked := req.Task()
	offered := req.Session.TakesTask(req.Method)
	if asked && (!offered || string(wish) == "null") { // as if it were not there
		plain, err := withoutTask(req)
		if err != nil {
			return nil, err
		}
		req, asked = plain, false
	}
	if !offered {
		return next(ctx, req)
	}
	support := Support{Mode: mcp.ToolExecutionTaskSupportOptional}
	if o.Support != nil {
		support = o.Support(ctx, req)
	}
	if err := refusal(req.Method, support.Mode, asked); err != nil {
		return nil, err
	}
	if !asked {
		return next(ctx, req)
	}
	return o.create(ctx, req, wish, support, next)
}

// refusal tells why a request is not served, in this way (MCP tasks, "Tool-Level Negotiation" and
// "Protocol Errors").
func refusal(method string, mode mcp.ToolExecutionTaskSupport, asked bool) error {
	tool := method == mcp.MethodToolsCall
	switch {
	case mode == mcp.ToolExecutionTaskSupportRequired && !asked && tool:
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this tool can only be called as a task"}
	case mode == mcp.ToolExecutionTaskSupportRequired && !asked:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: method + " is served as a task only"}
	case mode != mcp.ToolExecutionTaskSupportRequired && mode != mcp.ToolExecutionTaskSupportOptional && asked && tool:
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this tool cannot be called as a task"}
	case mode != mcp.ToolExecutionTaskSupportRequired && mode != mcp.ToolExecutionTaskSupportOptional && asked:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this request cannot be run as a task"}
	}
	return nil
}

// create runs a request as a task.
func (o Options) create(ctx context.Context, req *session.Request, wish json.RawMessage, support Support, next session.Handler) (codec.Encoder, error) {
	meta := new(mcp.TaskMetadata)
	if err := codec.Unmarshal(wish, meta); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	plain, err := withoutTask(req)
	if err != nil {
		return nil, err
	}
	if !req.Keep() {
		return nil, context.Cause(ctx)
	}
	// The context of the work leads to the request, which must not hold the message until the task is over.
	req.Detach(plain.Params)
	q := task.Request{
		Principal: session.Principal(ctx), Method: req.Method, Params: plain.Params, Token: req.ProgressToken(), Task: meta,
		Runner: support.Runner, Restartable: support.Restartable, StatusMessage: support.StatusMessage, PollInterval: support.PollInterval,
		Via: via{s: req.Session},
	}
	if support.Runner == "" {
		q.Work = serve(next, plain)
	}
	created, err := o.Manager.Create(ctx, q)
	if err != nil {
		return nil, task.WireError(err)
	}
	result := &mcp.CreateTaskResult{Task: created}
	if support.Immediate != "" {
		result.Meta = &mcp.ResultMetaObject{ModelImmediateResponse: &support.Immediate}
	}
	return result, nil
}

// Work returns the work that serves a stored request with a handler, as it was served when it
// came, but outside of any session and with the task's id for that of the request. The principal is
// that of the task. It is for [task.Config.Recover].
func Work(handler session.Handler, r task.Record) task.Work {
	work := serve(handler, &session.Request{ID: codec.StringScalar(r.ID), Method: r.Method, Params: r.Params})
	return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		return work(transport.WithPrincipal(ctx, r.Owner), run)
	}
}

// serve is the work of a task: to serve its request. The outcome is that of a plain request.
func serve(next session.Handler, req *session.Request) task.Work {
	return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		result, err := next(session.WithPeer(ctx, requestor{run}), req)
		if err == nil && result == nil {
			result = session.Raw(`{}`)
		}
		return result, err
	}
}

// requestor is the peer of a handler that runs as a task.
type requestor struct{ *task.Run }

func (r requestor) Report(p session.Progress) error {
	err := r.Run.Report(task.Progress(p))
	switch {
	case errors.Is(err, task.ErrNotIncreasing):
		return session.ErrNotIncreasing
	case errors.Is(err, task.ErrProgressOver):
		return session.ErrProgressOver
	}
	return err
}

// withoutTask returns a request without the task member of its params, which it shares with nobody.
func withoutTask(req *session.Request) (*session.Request, error) {
	plain := req.Clone()
	var err error
	if plain.Params, err = without(req.Params, "task"); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	return plain, nil
}

// without returns a copy of a JSON object, which a session has found well formed, without the member
// of a name. The rest stays as it is.
func without(object json.RawMessage, name string) (out json.RawMessage, err error) {
	r := codec.Borrow(object, codec.AllowSize(object)...)
	defer func() { err = errors.Join(err, r.Release()) }()
	r.Object()
	last := 0 // out has what is kept of the text in front of it
	for key, more := r.NextKey(); more; key, more = r.NextKey() {
		drop := string(key) == name
		at := r.KeyOffset()
		r.Skip()
		end := r.Offset()
		if !drop || r.Failed() || end == len(object) {
			continue
		}
		out = append(out, object[last:at]...)
		if object[end] == ',' {
			end++ // which goes with the member in front of it
		} else {
			out = bytes.TrimSuffix(bytes.TrimRight(out, " \t\r\n"), []byte{','})
		}
		last = end
	}
	r.End()
	out = append(out, object[last:]...)
	if cap(out) > 2*len(out) { // there was much white space in front of what was dropped
		out = bytes.Clone(out)
	}
	return out, nil
}
