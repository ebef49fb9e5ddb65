package embedding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Engine has the tasks of one server. Its methods may be called concurrently.
type Engine struct {
	backend  Backend
	list     bool
	config   task.Options
	tools    map[string]*embed.Tool
	unlisted struct {
		sync.Mutex
		names map[string]bool // keys of Options.Tools that were in no list so far; nil after the warning
	}
	fallback *embed.Tool // for other tools; nil if they are never tasks
	required bool        // some tool must be called as a task

	principal func(ctx context.Context, header http.Header) string // of the options; may be nil

	running  atomic.Pointer[running]
	mu       sync.Mutex
	starting *starting // guarded by mu; nil if the Engine does not start now
	closed   bool      // guarded by mu
	// The tools that the SDK did not have when a task needed them; see lack. Guarded by mu.
	missing  map[string]*time.Timer
	watched  modern.Quota
	names    toolNames
	lifetime context.Context
	end      context.CancelCauseFunc
}

// running is the part of an Engine that Start makes.
type running struct {
	manager *task.Manager
	serve   session.Handler
}

// starting is an attempt to start an Engine.
type starting struct {
	done    chan struct{} // closed when the following are set
	running *running
	err     error
}

// New returns an Engine whose tools run in a backend. It fails if the options are invalid.
func New(o embed.Options, b Backend) (*Engine, error) {
	if o.Tasks.Store == nil {
		return nil, errors.New("embed: Options.Tasks has no Store")
	}
	if o.Tasks.Recovery.Recover != nil {
		return nil, errors.New("embed: Options.Tasks.Recovery.Recover is set: the embedding runs recovered tasks itself")
	}
	e := &Engine{backend: b, list: o.List, config: o.Tasks, principal: o.Principal, tools: make(map[string]*embed.Tool, len(o.Tools))}
	e.unlisted.names = make(map[string]bool, len(o.Tools))
	e.missing = make(map[string]*time.Timer)
	e.watched.Limit = modern.Size{Count: maxWatched, Bytes: maxWatchedBytes}
	for name, t := range o.Tools {
		if err := e.complete(&t); err != nil {
			return nil, fmt.Errorf("embed: tool %q: %w", name, err)
		}
		e.tools[name] = &t
		e.unlisted.names[name] = true
	}
	if o.Default != nil {
		e.fallback = new(*o.Default)
		if err := e.complete(e.fallback); err != nil {
			return nil, fmt.Errorf("embed: Options.Default: %w", err)
		}
	}
	e.config.Recovery.Recover = e.recover
	if e.config.Recovery.ToolVersion == nil {
		e.config.Recovery.ToolVersion = e.toolVersion
	}
	e.lifetime, e.end = context.WithCancelCause(context.Background())
	return e, nil
}

// complete checks a tool and sets its defaults.
func (e *Engine) complete(t *embed.Tool) error {
	switch t.Mode {
	case "":
		t.Mode = mcp.TaskSupportOptional
	case mcp.TaskSupportRequired:
		e.required = true
	case mcp.TaskSupportOptional, mcp.TaskSupportForbidden:
	default:
		return fmt.Errorf("task support %q is not defined: want %q, %q or %q", t.Mode, mcp.TaskSupportOptional, mcp.TaskSupportRequired, mcp.TaskSupportForbidden)
	}
	if _, err := taskrules.LabelSet(t.Labels); err != nil {
		return err
	}
	if len(t.Labels) > 0 && (!t.Restartable || t.Mode == mcp.TaskSupportForbidden) {
		return errors.New("labels need Restartable")
	}
	t.Accepts = slices.Clone(t.Accepts)
	return nil
}

// tool returns the Tool with a name, or nil if it is never a task.
func (e *Engine) tool(name string) *embed.Tool {
	if t, ok := e.tools[name]; ok {
		return t
	}
	return e.fallback
}

// Start starts the Engine and recovers the tasks in the store. It does nothing if the Engine has
// started. It returns the errors of [task.New]; a later call tries again. If ctx ends first, the
// Engine goes on to start. After Close, Start returns [task.ErrClosed].
func (e *Engine) Start(ctx context.Context) error {
	_, err := e.start(ctx)
	return err
}

// Begin is Start, but does not wait: plain calls need no store.
func (e *Engine) Begin() {
	if e.running.Load() == nil {
		e.attempt()
	}
}

func (e *Engine) start(ctx context.Context) (*running, error) {
	if r := e.running.Load(); r != nil {
		return r, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("embed: start: %w", context.Cause(ctx))
	}
	a := e.attempt()
	select {
	case <-a.done:
		return a.running, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("embed: start: %w", context.Cause(ctx))
	}
}

// attempt returns the current attempt to start the Engine, which all requests share. It begins one
// if there is none.
func (e *Engine) attempt() *starting {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.starting != nil {
		return e.starting
	}
	a := &starting{done: make(chan struct{}), running: e.running.Load()}
	switch {
	case a.running != nil: // meanwhile
		close(a.done)
	case e.closed:
		a.err = task.ErrClosed
		close(a.done)
	default:
		e.starting = a
		go e.serveAttempt(a) // ends when the store is read, or with the Engine
	}
	return a
}

func (e *Engine) serveAttempt(a *starting) {
	a.running, a.err = e.open()
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.running != nil {
		e.running.Store(a.running)
		if e.closed { // Close may have given up
			a.running.manager.Close(e.lifetime)
		}
	}
	e.starting = nil
	close(a.done)
}

// open starts the Manager.
func (e *Engine) open() (_ *running, err error) {
	defer boundary.Catch(&err)
	// Recovered tasks inherit the values of the context of New. They must not see those of a
	// request.
	m, err := task.New(e.lifetime, e.config)
	if errors.Is(err, task.ErrInUse) {
		return nil, fmt.Errorf("embed: start: %w: attach the tasks to one server, or give each server its own store", err)
	}
	if err != nil {
		return nil, fmt.Errorf("embed: start: %w", err)
	}
	return &running{
		manager: m,
		serve: receiver.Middleware(receiver.Options{
			Manager: m, Requestor: requestorOf,
			Support: func(_ context.Context, req *session.Request) (receiver.Support, error) {
				return e.support(req.Params), nil
			},
		})(e.serveCall),
	}, nil
}

func (e *Engine) logger() *slog.Logger { return boundary.Logger(e.config.Logger) }

// Logger returns the logger of the tasks. It is never nil, and does not panic.
func (e *Engine) Logger() *slog.Logger { return e.logger() }

// Manager returns the Manager of the tasks, or nil before the start.
func (e *Engine) Manager() *task.Manager {
	if r := e.running.Load(); r != nil {
		return r.manager
	}
	return nil
}

// closeTimeout bounds how long Close waits for tools that ignore the end of their context.
const closeTimeout = 10 * time.Second

// Close ends all tasks and subscriptions. Durable tasks continue when the next Engine starts with
// the store; others fail. Close waits up to ten seconds for their tools to return.
func (e *Engine) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	e.mu.Lock()
	e.closed = true
	a := e.starting
	e.mu.Unlock()
	e.end(task.ErrClosed)
	if a != nil {
		select {
		case <-a.done:
		case <-ctx.Done():
			return context.Cause(ctx) // the store does not respond
		}
	}
	if r := e.running.Load(); r != nil {
		return r.manager.Close(ctx)
	}
	return nil
}

// recover returns the work of a task whose process has ended; see [task.Options].Recovery.Recover.
func (e *Engine) recover(r task.Record) task.Work {
	if r.Method != mcp.MethodToolsCall {
		return nil
	}
	name, _ := toolName(r.Params)
	t := e.tool(name)
	if t == nil || !rerun.Continues(&r, t.Version, t.Accepts) || e.lacks(name) {
		return nil
	}
	work := receiver.Work(e.serveCall, r)
	if r.StatusMessage != waitsFor(name) {
		return work
	}
	return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		run.SetStatusMessage(ctx, "") // it waits no longer, unless awaitTool says so
		return work(ctx, run)
	}
}

// waitsFor returns the status message of a task that waits for its tool.
func waitsFor(name string) string {
	return fmt.Sprintf("waits for a process that has the tool %q", boundary.Text(name, maxQuoted))
}

// lackTime is how long the Engine does not run stored tasks of a tool after the SDK did not have it.
const lackTime = 2 * time.Minute

// lack records that the SDK does not have the tool of a stored task. For a while, such tasks wait:
// in a fleet, for another member.
func (e *Engine) lack(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if end := e.missing[name]; end != nil {
		end.Stop()
	}
	name = strings.Clone(name) // of params
	var end *time.Timer
	end = time.AfterFunc(lackTime, func() {
		e.mu.Lock()
		latest := e.missing[name] == end
		if latest {
			delete(e.missing, name)
		}
		e.mu.Unlock()
		if m := e.Manager(); latest && m != nil && e.lifetime.Err() == nil {
			m.ToolsChanged()
		}
	})
	e.missing[name] = end
}

func (e *Engine) lacks(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.missing[name] != nil
}

// toolVersion returns the version of a tool; see [task.Options].Recovery.ToolVersion.
func (e *Engine) toolVersion(name string) string {
	if t := e.tool(name); t != nil {
		return t.Version
	}
	return ""
}

// Principal returns the principal of a request. If the options have no function for it, it is
// fallback. If the function panics, Principal logs that and returns an error for the client.
func (e *Engine) Principal(ctx context.Context, header http.Header, fallback string) (principal string, err error) {
	if e.principal == nil {
		return fallback, nil
	}
	err = boundary.Run(func() error {
		principal = e.principal(ctx, header)
		return nil
	})
	if err != nil {
		boundary.Report(e.logger(), "Principal panicked", err)
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the principal of the request is unknown"}
	}
	return principal, nil
}

// support returns the task support of the tool that params call.
func (e *Engine) support(params json.RawMessage) receiver.Support {
	name, ok := toolName(params)
	t := e.tool(name)
	if !ok || t == nil {
		return receiver.Support{Mode: mcp.TaskSupportForbidden}
	}
	s := t.Support
	if s.Name == "" {
		s.Name = strings.Clone(name)
	}
	return s
}

// toolName returns the name of the tool that params call. Ok is false if they name no tool.
func toolName(params json.RawMessage) (name string, ok bool) {
	return modern.TextMember(params, "name")
}

// origin is the context of a request, with the data of the request. The context of its task or
// pending call holds it as a value, until the process ends or the task is parked.
type origin struct {
	context.Context
	client    Client
	session   string
	header    http.Header
	requestor task.Requestor

	// The task and the call that made the request, if its client runs in the same process.
	task *task.Run
	call rerun.Pending
}

type originKey struct{}

// Value implements [context.Context].
func (o *origin) Value(key any) any {
	if key == (originKey{}) {
		return o
	}
	return o.Context.Value(key)
}

func originOf(ctx context.Context) *origin {
	o, _ := ctx.Value(originKey{}).(*origin)
	return o
}

func requestorOf(ctx context.Context, _ *session.Request) task.Requestor {
	if o := originOf(ctx); o != nil {
		return o.requestor
	}
	return nil
}

// errPlain is returned for a request that the SDK has to serve.
var errPlain = errors.New("embed: not a task")

// Serve serves a request if it is about tasks, is a task, or may become one. It is called for the
// methods of Peek; other requests are not handled. If the Engine has not started, Serve starts it.
//
// The error is a [*jsonrpc.Error] for the client, unless ctx has ended: then it is the cause of
// ctx.
func (e *Engine) Serve(ctx context.Context, in *Incoming) (Outcome, error) {
	out, err := e.serve(ctx, in)
	switch {
	case err == nil:
		return out, nil
	case err == errPlain:
		return Outcome{}, nil
	case ctx.Err() != nil:
		return Outcome{Handled: true}, context.Cause(ctx)
	}
	boundary.Report(e.logger(), "handler panicked", err, "method", in.Method)
	wired := boundary.WireError(err)
	if code := modern.MapCode(wired.Code); in.Revision.Traits().OwnErrors && code != wired.Code {
		wired = &jsonrpc.Error{Code: code, Message: wired.Message, Data: wired.Data}
	}
	return Outcome{Handled: true}, wired
}

func (e *Engine) serve(ctx context.Context, in *Incoming) (out Outcome, err error) {
	defer boundary.Catch(&err)
	sessions, extension := in.Revision.Has(mcp.MethodTasksGet), in.Revision.Traits().TasksByServer
	switch in.Method {
	case mcp.MethodTasksGet, mcp.MethodTasksCancel, mcp.MethodTasksResult, mcp.MethodTasksList, tasks.MethodTasksUpdate:
		if !in.Revision.Has(in.Method) && !(extension && tasks.RevisionExtTasks.Has(in.Method)) ||
			in.Method == mcp.MethodTasksList && !e.list {
			return Outcome{}, jsonrpc.MethodNotFound(in.Method)
		}
	case mcp.MethodToolsCall:
		if !sessions && !extension || extension && e.support(in.Params).Mode == mcp.TaskSupportForbidden {
			return Outcome{}, errPlain // needs no store
		}
	case mcp.MethodSubscriptionsListen:
		if !extension {
			return Outcome{}, errPlain
		}
	default:
		return Outcome{}, errPlain
	}
	if err := ctx.Err(); err != nil {
		return Outcome{}, err
	}
	if in.ID.IsZero() {
		return Outcome{}, errPlain
	}
	if err := checkObject(in.Params); err != nil {
		return Outcome{}, jsonrpc.InvalidParams(err)
	}
	r, err := e.start(ctx)
	if err != nil {
		e.logger().Error("tasks not started", "error", err)
		return Outcome{}, task.WireError(err)
	}
	if in.Method == mcp.MethodSubscriptionsListen {
		return e.listen(ctx, r.manager, in)
	}
	o := &origin{
		Context: transport.WithPrincipal(ctx, in.Principal), client: in.Client, session: in.Session, header: in.Header, requestor: in.Requestor,
	}
	o.task, _ = task.FromContext(ctx)
	o.call, _ = rerun.PendingFrom(ctx)
	params := in.Params
	if in.Method == mcp.MethodToolsCall {
		if err := e.checkTool(ctx, in); err != nil {
			return Outcome{}, err
		}
		if params, err = e.withClient(in); err != nil {
			return Outcome{}, jsonrpc.InvalidParams(err)
		}
	}
	ctx = o
	if extension {
		plain := in.Plain
		if plain == nil {
			plain = silent{}
		}
		ctx = session.WithPeer(ctx, plain)
	}
	result, err := r.serve(ctx, new(session.Request).Internals(boundary.Caller{}).Stored(in.ID, in.Method, params, in.Revision))
	return Outcome{Handled: true, Result: result}, err
}

// checkTool returns an error if a session calls a tool as a task that the SDK does not know.
// Without it, the tool would be refused as one that is never a task. Tools with a task support are
// not checked: for them, the SDK fails the task.
func (e *Engine) checkTool(ctx context.Context, in *Incoming) error {
	name, ok := toolName(in.Params)
	if metadata, asTask := codec.Member(in.Params, "task"); !asTask || string(metadata) == "null" || in.Revision.Traits().TasksByServer || !ok || e.tool(name) != nil {
		return nil
	}
	if known, err := e.names.has(ctx, in, name, e.listNames); err != nil { // the tool may exist
		e.logger().Warn("tools not listed", "error", boundary.ErrorText(err))
	} else if !known {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool: %q", boundary.Text(name, maxQuoted))}
	}
	return nil
}

// listNames calls add with the name of each tool that the SDK lists for the client of a request.
func (e *Engine) listNames(ctx context.Context, in *Incoming, add func(name string)) error {
	var cursors methods.Cursors
	for params := json.RawMessage(`{}`); ; {
		result, err := e.backend.ListTools(ctx, &Call{Params: params, Client: in.Client, ID: in.Session, Header: in.Header, Request: rejectRequest, Notify: dropNotification})
		if err != nil {
			return err
		}
		list, _ := codec.Member(result, "tools")
		err = codec.ReadPart(list, func(r *wire.Reader) {
			for r.Array(); r.More(); {
				if name, ok := toolName(r.RawBytes()); ok {
					add(name)
				}
			}
		})
		if err != nil {
			return err
		}
		cursor, ok := codec.Member(result, "nextCursor")
		if !ok {
			return nil
		}
		if _, err := cursors.Next(new(string(cursor))); err != nil {
			return err
		}
		params = jsonedit.With(nil, "cursor", cursor)
	}
}

// rejectRequest is the Request of a [Call] that sends nothing to the client.
func rejectRequest(_ context.Context, method string, _ json.RawMessage) (json.RawMessage, error) {
	return nil, jsonrpc.MethodNotFound(method)
}

// dropNotification is the Notify of a [Call] that sends nothing to the client.
func dropNotification(context.Context, string, json.RawMessage) error { return nil }

// checkObject returns an error if params are not an object.
func checkObject(params json.RawMessage) error {
	if len(params) == 0 {
		return nil
	}
	if err := codec.Valid(params, codec.AllowSize(params)...); err != nil {
		return err
	}
	return codec.ReadPart(params, func(r *wire.Reader) {
		if kind := r.Kind(); kind != wire.KindObject {
			r.Fail(r.Offset(), wire.WrongKind("object", kind))
		}
	})
}

// silent is the peer of a call that sends no notifications.
type silent struct{}

func (silent) Call(_ context.Context, method string, _ codec.Encoder) (json.RawMessage, error) {
	return nil, jsonrpc.MethodNotFound(method)
}
func (silent) Notify(context.Context, string, codec.Encoder) error { return nil }
func (silent) Report(session.Progress) error                       { return nil }
