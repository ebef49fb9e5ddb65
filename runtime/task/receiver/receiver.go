// Package receiver offers tasks through sessions. It runs requests of the peer as tasks of a
// [task.Manager] and serves the peer's tasks/* requests. It works in both roles: for a server that
// runs tool calls, and for a client that runs sampling and elicitation.
//
//	cfg := &session.Options{Handler: handler}
//	receiver.Attach(cfg, receiver.Options{Manager: manager})
//
// The declared capabilities determine which requests can be tasks, and whether tasks can be listed
// and cancelled. See [ServerCapabilities] and [ClientCapabilities].
//
// In revisions without sessions, [Middleware] offers the tasks of a Manager by the Tasks extension.
// A principal finds all of its tasks in either way.
package receiver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/codec/wire/rpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Options configures [Attach] and [Middleware].
type Options struct {
	// Manager runs the tasks. It is required.
	Manager *task.Manager

	// Requestor returns the requestor that reaches the sender of a request, from now on. While a
	// tasks/result waits, its calls have the context of that request. Requestor may return nil if
	// the peer cannot be reached. If Requestor is nil, the peer is reached through
	// [session.Request].Session.
	Requestor func(ctx context.Context, req *session.Request) task.Requestor

	// Support returns the task support of a request whose method was declared for tasks, or an
	// error that rejects the request. It is called for plain requests, too, and must be fast. If it
	// is nil, task support is optional for all requests.
	Support func(ctx context.Context, req *session.Request) (Support, error)
}

// Support is the task support of one request. For tools/call it is that of the tool.
type Support struct {
	// Mode says whether the request may, must or must not be a task. The zero value means
	// forbidden, as for a tool without taskSupport (MCP tasks, "Tool-Level Negotiation").
	Mode mcp.TaskSupport

	// Name, Restartable, Labels, Version, Runner, StatusMessage and PollInterval are fields of the
	// [task.Request]. Labels have no effect on plain requests.
	Name          string
	Restartable   bool
	Labels        []string
	Version       string
	Runner        string
	StatusMessage string
	PollInterval  time.Duration

	// After is how long a request of a client with the Tasks extension runs before it becomes a
	// task; see [Middleware]. A request that finishes earlier stays a plain one. 0 means a
	// second. With a negative value, if Mode is required, if Runner or Labels are set, and if the
	// number of calls is limited (see [task.Options].Limits.Tool), the request is a task from its
	// beginning; if it continues the input rounds of a plain request, it becomes a task after a
	// millisecond. In sessions, clients ask for tasks, and After has no effect.
	After time.Duration

	// Immediate is a text for the peer's model until the task is terminal. "" sends none.
	Immediate string

	// Middleware wraps the handler of a request that is a task from its beginning. The work of the
	// task may begin long after the request, when what the handler would look up has changed. Nil
	// wraps nothing. Package server sets it for its tools.
	Middleware session.Middleware
}

// work returns the work of a task that is created for req.
func (s *Support) work(next session.Handler, req *session.Request) task.Work {
	switch {
	case s.Runner != "":
		return nil
	case s.Middleware != nil:
		next = s.Middleware(next)
	}
	return serve(next, req)
}

// Attach makes sessions of a configuration offer tasks. It adds receiving and sending middleware,
// inside existing middleware.
//
// The handler serves a request that runs as a task like a plain one. Its context ends with the
// task, not with the request, and [session.PeerFrom] returns the requestor of the task, even after
// it has reconnected.
func Attach(cfg *session.Options, o Options) {
	cfg.Hooks.Receiving = append(cfg.Hooks.Receiving, Middleware(o))
	cfg.Hooks.Sending = append(cfg.Hooks.Sending, relate)
}

// Middleware returns the receiving middleware of [Attach]. It also serves requests that belong to no
// [session.Session].
//
// A stored request of a revision with sessions has the principal of [transport.WithPrincipal]. All
// methods of the protocol that can be tasks are offered to it as tasks.
//
// In revisions without sessions, it offers tasks by the Tasks extension
// (io.modelcontextprotocol/tasks). A request whose method can be a task, such as tools/call, becomes
// one if its client has declared the extension in the request itself, and if its [Support] says so.
// Until then it is a plain request: its context ends with the request, and it may report progress.
// When it has become a task, its context ends with the task, and the goroutine of the handler
// continues. For other clients, it stays a plain request, or fails if it can only run as a task.
//
// The middleware also serves the requests about tasks of the principal, including tasks that were
// created in sessions. A client that has declared the tasks capability of sessions, and not the
// extension, may use tasks/get and tasks/cancel for tasks that were created in sessions, and gets
// the results that sessions have.
func Middleware(o Options) session.Middleware { return (&o).receive }

// receive is the middleware for requests.
func (o *Options) receive(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (result codec.Encoder, err error) {
		extension := req.Session == nil && req.Traits().TasksByServer
		switch {
		case req.IsNotification():
			return next(ctx, req)
		case extension && tasks.RevisionExtTasks.Has(req.Method):
			result, err = serveExtension(ctx, o.Manager, req)
		case extension && canBeTask(req.Method):
			return o.serveByExtension(ctx, req, next)
		case !extension && isAboutTask(req.Method):
			result, err = o.serveTasks(ctx, req)
		case !extension && canBeTask(req.Method):
			return o.serveRequest(ctx, req, next)
		default:
			return next(ctx, req)
		}
		if err != nil {
			return nil, wireError(ctx, err)
		}
		return result, nil
	}
}

// isAboutTask reports whether a method of sessions is about tasks.
func isAboutTask(method string) bool {
	switch method {
	case mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksList, mcp.MethodTasksCancel:
		return true
	}
	return false
}

// canBeTask reports whether requests of a method can be tasks. It is not part of receive, so that the
// frames below a running handler are small.
func canBeTask(method string) bool {
	m, _ := mcp.LookupMethod(method)
	return m.Task
}

// support returns the task support of a request.
func (o *Options) support(ctx context.Context, req *session.Request) (Support, error) {
	if o.Support == nil {
		return Support{Mode: mcp.TaskSupportOptional}, nil
	}
	return o.Support(ctx, req)
}

// wireError converts an error for the peer. An error of a cancelled request is not sent and stays
// as it is, except for that of a context without its cause: on shutdown, the cause tells the peer
// so.
func wireError(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		if errors.Is(err, ended) {
			return context.Cause(ctx)
		}
		return err
	}
	return task.WireError(err)
}

// serveTasks serves the tasks/* methods. It ignores the _meta of requests: the taskId in their
// params selects the task.
func (o *Options) serveTasks(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	m, principal := o.Manager, session.Principal(ctx)
	switch req.Method {
	case mcp.MethodTasksGet:
		return rpc.Serve(ctx, req.Params, false, func(ctx context.Context, p *mcp.GetTaskRequestParams) (*mcp.GetTaskResult, error) {
			t, err := m.Get(ctx, principal, p.TaskID, o.requestor(ctx, req))
			return t.AsGetTaskResult(), err
		})
	case mcp.MethodTasksCancel:
		return rpc.Serve(ctx, req.Params, false, func(ctx context.Context, p *mcp.CancelTaskRequestParams) (*mcp.CancelTaskResult, error) {
			t, err := m.Cancel(ctx, principal, p.TaskID, o.requestor(ctx, req))
			return t.AsCancelTaskResult(), err
		})
	case mcp.MethodTasksList:
		return rpc.Serve(ctx, req.Params, true, func(ctx context.Context, p *mcp.PaginatedRequestParams) (*mcp.ListTasksResult, error) {
			cursor := ""
			if p != nil && p.Cursor != nil {
				cursor = *p.Cursor
			}
			list, next, err := m.List(ctx, principal, cursor)
			page := &mcp.ListTasksResult{Tasks: list}
			if next != "" {
				page.NextCursor = &next
			}
			return page, err
		})
	}
	req.Internals(boundary.Caller{}).EndOnShutdown() // the task continues, and the requestor asks again
	return rpc.Serve(ctx, req.Params, false, func(ctx context.Context, p *mcp.GetTaskPayloadRequestParams) (*payload, error) {
		out, err := m.Result(ctx, principal, p.TaskID, o.resultRequestor(ctx, req))
		if err == nil && out.Error != nil {
			return nil, out.Error
		}
		return &payload{out.Result}, err
	})
}

// requestor returns the requestor for the sender of a request, or nil.
func (o *Options) requestor(ctx context.Context, req *session.Request) task.Requestor {
	switch {
	case o.Requestor != nil:
		return o.Requestor(ctx, req)
	case req.Session == nil:
		return nil
	}
	return via{s: req.Session}
}

// resultRequestor returns the requestor for the sender of a tasks/result, which can be reached
// through the stream of that request while it waits.
func (o *Options) resultRequestor(ctx context.Context, req *session.Request) task.Requestor {
	to := o.requestor(ctx, req)
	if v, ok := to.(via); ok {
		v.req = req
		return v
	}
	return to
}

// payload is a stored result. It is sent unchanged.
type payload struct{ raw json.RawMessage }

func (p *payload) EncodeJSON(w *wire.Writer) { session.Raw(p.raw).EncodeJSON(w) }

// serveRequest serves a request whose method can be a task.
func (o *Options) serveRequest(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	req, support, err := o.admit(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case support != nil:
		return o.create(ctx, req, support, next)
	}
	return next(ctx, req)
}

// admit returns the request to serve, or the error that rejects it. If it is to be a task, admit
// also returns its task support; otherwise nil. It is not part of serveRequest, so that the frames
// below a running handler are small.
func (o *Options) admit(ctx context.Context, req *session.Request) (*session.Request, *Support, error) {
	metadata, asTask := req.Internals(boundary.Caller{}).Task()
	offered := req.Session == nil || req.Session.Internals(boundary.Caller{}).TakesTask(req.Method)
	if asTask && (!offered || string(metadata) == "null") { // the task member is ignored
		plain, err := withoutTask(req)
		if err != nil {
			return nil, nil, err
		}
		req, asTask = plain, false
	}
	if !offered {
		return req, nil, nil
	}
	support, err := o.support(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	if err := refusal(req.Method, support.Mode, asTask); err != nil || !asTask {
		return req, nil, err
	}
	return req, new(support), nil
}

// refusal returns the error for a request that mode does not allow, as a task or as a plain request
// (MCP tasks, "Tool-Level Negotiation" and "Protocol Errors").
func refusal(method string, mode mcp.TaskSupport, asTask bool) error {
	tool := method == mcp.MethodToolsCall
	switch {
	case mode == mcp.TaskSupportRequired && !asTask && tool:
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this tool can only be called as a task"}
	case mode == mcp.TaskSupportRequired && !asTask:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: method + " can only be run as a task"}
	case mode != mcp.TaskSupportRequired && mode != mcp.TaskSupportOptional && asTask && tool:
		return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this tool cannot be called as a task"}
	case mode != mcp.TaskSupportRequired && mode != mcp.TaskSupportOptional && asTask:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this request cannot be run as a task"}
	}
	return nil
}

// create runs a request as a task.
func (o *Options) create(ctx context.Context, req *session.Request, support *Support, next session.Handler) (codec.Encoder, error) {
	metadata, _ := req.Internals(boundary.Caller{}).Task()
	meta := new(mcp.TaskMetadata)
	if err := codec.Unmarshal(metadata, meta); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	plain, err := withoutTask(req)
	if err != nil {
		return nil, err
	}
	if !req.Internals(boundary.Caller{}).Keep() {
		return nil, context.Cause(ctx)
	}
	// The context of the work refers to the request, which must not keep the message in memory
	// until the task is terminal.
	req.Internals(boundary.Caller{}).Detach(plain.Params)
	q := task.Request{
		Values:    plain.Internals(boundary.Caller{}).Outlive(ctx),
		Principal: session.Principal(ctx), Method: req.Method, Params: plain.Params, Protocol: req.Revision(), Token: req.Internals(boundary.Caller{}).ProgressToken(), Task: meta,
		Name: support.Name, Runner: support.Runner, Restartable: support.Restartable, Labels: support.Labels, Version: support.Version, StatusMessage: support.StatusMessage, PollInterval: support.PollInterval,
		Via: o.requestor(ctx, req), Work: support.work(next, plain),
	}
	if support.Restartable && req.Session != nil {
		if q.Params, err = withClient(plain.Params, req.Session.Client()); err != nil {
			return nil, err
		}
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

// withClient returns params with the info and the capabilities of the client of a session in their
// _meta, where requests of revisions without sessions have them. So the work knows them when it runs
// again, without the session, and does what it has done for the same client before.
func withClient(params json.RawMessage, client *mcp.InitializeRequestParams) (json.RawMessage, error) {
	if client == nil {
		return params, nil
	}
	meta, ok := codec.Member(params, "_meta")
	if ok {
		var err error
		if params, err = without(params, "_meta"); err != nil {
			return nil, err
		}
	}
	if ok = ok && bytes.HasPrefix(meta, []byte{'{'}); ok {
		for _, name := range []string{modern.MetaClientInfo, modern.MetaCapabilities} {
			var err error
			if meta, err = without(meta, name); err != nil {
				return nil, err
			}
		}
	}
	return codec.MarshalFunc(func(w *wire.Writer) {
		w.Begin()
		w.Key(`,"_meta":`)
		w.Begin()
		w.Key(`,"` + modern.MetaClientInfo + `":`)
		client.ClientInfo.EncodeJSON(w)
		w.Key(`,"` + modern.MetaCapabilities + `":`)
		client.Capabilities.EncodeJSON(w)
		if ok {
			w.EndWith(session.Raw(meta))
		} else {
			w.End()
		}
		w.EndWith(session.Raw(params))
	})
}

// Work returns work that serves the stored request of a task with a handler again. The request
// belongs to no session, its ID is the task's id, its revision is that of the request that created
// the task, and its principal is that of the task. Work is meant for [task.Recovery.Recover].
func Work(handler session.Handler, r task.Record) task.Work {
	work := serve(handler, new(session.Request).Internals(boundary.Caller{}).Stored(codec.StringScalar(r.ID), r.Method, r.Params, r.Protocol))
	return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		return work(transport.WithPrincipal(ctx, r.Owner), run)
	}
}

// serve returns the work of a task that serves req with next. The outcome is that of a plain
// request.
func serve(next session.Handler, req *session.Request) task.Work {
	return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		result, err := next(session.WithPeer(ctx, taskPeer{run}), req)
		if err == nil && result == nil {
			result = session.Raw(`{}`)
		}
		return result, err
	}
}

// taskPeer is the peer of a handler that runs as a task.
type taskPeer struct{ *task.Run }

// Session returns the session over which messages are sent now, or nil if there is none.
func (r taskPeer) Session() *session.Session {
	to, _ := r.Run.Internals(boundary.Caller{}).Requestor().(via)
	return to.s
}

func (r taskPeer) Report(p session.Progress) error {
	err := r.Run.Report(task.Progress(p))
	switch {
	case errors.Is(err, task.ErrNotIncreasing):
		return session.ErrNotIncreasing
	case errors.Is(err, task.ErrProgressOver):
		return session.ErrProgressOver
	}
	return err
}

// Notify drops the notification if the requestor has disconnected. This is not an error of the
// work, because the task continues.
func (r taskPeer) Notify(ctx context.Context, method string, params codec.Encoder) error {
	err := r.Run.Notify(ctx, method, params)
	if err != nil && ctx.Err() == nil && disconnected(err) {
		return nil
	}
	return err
}

// withoutTask returns a copy of req without the task member of its params. The copy has its own
// params.
func withoutTask(req *session.Request) (*session.Request, error) {
	plain := req.Clone()
	var err error
	if plain.Params, err = without(req.Params, "task"); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	return plain, nil
}

// without returns a copy of a JSON object without its members called name. All other bytes are
// kept. The session has already checked that object is well formed.
func without(object json.RawMessage, name string) (out json.RawMessage, err error) {
	err = codec.ReadPart(object, func(r *wire.Reader) { out = cut(r, object, name) })
	return out, err
}

// cut implements without for the object that r reads.
func cut(r *wire.Reader, object json.RawMessage, name string) (out json.RawMessage) {
	r.Object()
	last := 0 // object[:last] has been copied to out or dropped
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
			end++ // the comma after the member is dropped, too
		} else {
			out = bytes.TrimSuffix(bytes.TrimRight(out, " \t\r\n"), []byte{','})
		}
		last = end
	}
	r.End()
	out = append(out, object[last:]...)
	if cap(out) > 2*len(out) { // append has allocated too much, for dropped text or white space
		out = bytes.Clone(out)
	}
	return out
}
