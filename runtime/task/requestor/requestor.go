// Package requestor follows tasks that the peer of a session runs: tool calls of a server, or
// sampling and elicitation of a client. A [Handle] stands for one task. It is returned by the call
// that creates the task, or attached to an existing task by its id, after a reconnect or in another
// process.
//
//	tasks := requestor.Attach(cfg) // before the session is opened
//	params := &mcp.CallToolRequestParams{Name: "render"}
//	h, err := tasks.CallTool(ctx, s, params, requestor.TTL(time.Hour))
//	…
//	result, err := h.Result(ctx)
package requestor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Tasks creates the handles of sessions and passes status notifications to them. It may be used
// concurrently.
type Tasks struct {
	log *slog.Logger
	// respond returns the response to an input request of a task of the Tasks extension. Its error
	// ends the call of [Handle.Result] or [Handle.Updates]. Its context ends with the last of these
	// calls, or when the server does not wait for the response any longer.
	respond func(ctx context.Context, req *session.Request) (json.RawMessage, error)
	// watch subscribes to changes of such a task until stop is called. It returns at once. It calls
	// reported with true each time that the server begins to report changes to the session's
	// handler, and with false when that ends. Nil means that handles only poll.
	watch func(id string, reported func(bool)) (stop func())

	notified atomic.Uint64 // notifications of the Tasks extension for handles
	missed   atomic.Bool   // a status has changed without a notification, and none has come since

	mu      sync.Mutex
	handles map[taskKey]*follower // the first of a list; see follower.next
	inputs  map[taskKey]weak.Pointer[inputs]
}

// taskKey identifies a task: ids are unique only within a receiver.
type taskKey struct {
	s  *session.Session
	id string
}

// Attach makes sessions of a configuration pass status notifications to the handles of the returned
// Tasks, and add the related task to responses to input requests (MCP tasks, "Associating
// Task-Related Messages"). It adds middleware inside existing middleware. The creation and the end
// of tasks are logged to the configuration's Logger.
//
// In revisions without sessions, it follows tasks of the Tasks extension, which the client must
// have declared in its capabilities.
func Attach(cfg *session.Options) *Tasks { return internals{}.Attach(cfg, respond, nil) }

// internals are the functions that only packages of this module call.
type internals struct{}

// Internals returns what only packages of this module can call.
func Internals(boundary.Caller) internals { return internals{} }

// Attach is the function Attach for a client that has functions of its own to respond to input
// requests and to watch tasks of the Tasks extension; see the fields of [Tasks].
func (internals) Attach(cfg *session.Options, respond func(ctx context.Context, req *session.Request) (json.RawMessage, error), watch func(id string, reported func(bool)) (stop func())) *Tasks {
	t := &Tasks{log: boundary.Logger(cfg.Logger), respond: respond, watch: watch, handles: map[taskKey]*follower{}}
	if cfg.Internals(boundary.Caller{}).ExtensionMethods == nil {
		cfg.Internals(boundary.Caller{}).ExtensionMethods = tasks.RevisionExtTasks.Has
	}
	cfg.Hooks.Receiving = append(cfg.Hooks.Receiving, t.receive)
	cfg.Hooks.Sending = append(cfg.Hooks.Sending, relate)
	return t
}

// respond passes an input request to the session's handler.
func respond(ctx context.Context, req *session.Request) (json.RawMessage, error) {
	result, err := req.Session.Internals(boundary.Caller{}).Handle(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case result == nil:
		return json.RawMessage(`{}`), nil
	}
	return codec.Marshal(result)
}

// receive is the receiving middleware.
func (t *Tasks) receive(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		switch req.Method {
		case mcp.MethodNotificationsTasksStatus:
			t.handleStatus(req)
		case tasks.MethodNotificationsTasks:
			t.handleDetail(req)
		}
		result, err := next(ctx, req)
		if err != nil || req.IsNotification() {
			return result, err
		}
		if id := relatedTo(req); id != "" {
			return relateResult(result, id)
		}
		return result, nil
	}
}

// relatedTo returns the id of the task that a message of the peer belongs to, or "".
func relatedTo(req *session.Request) string {
	switch req.Method {
	case mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksList, mcp.MethodTasksCancel:
		return "" // the taskId of these selects the task
	}
	meta, err := req.Meta()
	if err != nil || meta.RelatedTask == nil {
		return ""
	}
	return meta.RelatedTask.TaskID
}

// relateResult adds the related task to the _meta of a result.
func relateResult(result codec.Encoder, id string) (codec.Encoder, error) {
	var raw json.RawMessage
	if result != nil {
		var err error
		if raw, err = codec.Marshal(result); err != nil {
			return nil, err
		}
	}
	raw, err := taskrules.Relate(raw, id)
	return session.Raw(raw), err
}

// relate is the sending middleware. It adds the related task to messages that are sent while an
// input request of a task is handled.
func relate(next session.Sender) session.Sender {
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		if req, ok := session.FromContext(ctx); ok && req.Session == call.Session {
			if id := relatedTo(req); id != "" {
				call.SetMeta(taskrules.RelatedTask, &mcp.RelatedTaskMetadata{TaskID: id})
			}
		}
		return next(ctx, call)
	}
}

// handleStatus passes a status notification to the handles of its task.
func (t *Tasks) handleStatus(req *session.Request) {
	var p mcp.TaskStatusNotificationParams
	if codec.Unmarshal(req.Params, &p) != nil {
		return // the session's handler receives the notification, too
	}
	var buffer [4]*follower
	for _, f := range t.followers(buffer[:0], taskKey{req.Session, p.TaskID}) {
		f.observe(p.AsTask(), 0)
	}
}

// followers appends the followers of a task to list.
func (t *Tasks) followers(list []*follower, key taskKey) []*follower {
	t.mu.Lock()
	defer t.mu.Unlock()
	for f := t.handles[key]; f != nil; f = f.next {
		list = append(list, f)
	}
	return list
}

// handleDetail passes a notification of the Tasks extension to the handles of its task.
func (t *Tasks) handleDetail(req *session.Request) {
	d, err := readDetail(req.Params)
	if err != nil {
		return // the session's handler receives the notification, too
	}
	var buffer [4]*follower
	for _, f := range t.followers(buffer[:0], taskKey{req.Session, d.state.TaskID}) {
		if f.ext != nil {
			t.notified.Add(1)
			t.missed.Store(false)
			f.take(d, 0, 0)
		}
	}
}

// subscribe makes a follower receive status notifications.
func (t *Tasks) subscribe(f *follower) {
	key := taskKey{f.s, f.id}
	t.mu.Lock()
	defer t.mu.Unlock()
	f.next = t.handles[key]
	t.handles[key] = f
}

// unsubscribe undoes subscribe.
func (t *Tasks) unsubscribe(f *follower) {
	key := taskKey{f.s, f.id}
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.handles[key]
	link := &first
	for *link != f {
		link = &(*link).next
	}
	if *link = f.next; first == nil {
		delete(t.handles, key)
	} else {
		t.handles[key] = first
	}
	f.next = nil
}

// Option changes how a task is created or followed.
type Option func(*options)

type options struct {
	ttl      *int64
	progress bool
	tracker  engine.Tracker[session.Progress]
	tool     *mcp.Tool // nil if unknown
	via      func(...session.Option) jsonrpc.Caller
}

// TTL requests that the receiver keep the task for d after its creation, at least 1 ms. The
// receiver may choose another lifetime. TTL overrides the task metadata in the params.
func TTL(d time.Duration) Option {
	return func(o *options) { o.ttl = new(max(d.Milliseconds(), 1)) }
}

// Progress requests progress; see [Handle.Progress]. A handle that is attached to an existing task
// receives the reports with the task in their _meta, if the request that created the task has
// requested progress.
func Progress() Option { return func(o *options) { o.progress = true } }

// Track receives progress with a tracker of the session, which the handle does not close. It is for
// packages of this module.
func Track(t engine.Tracker[session.Progress]) Option { return func(o *options) { o.tracker = t } }

// Via sends the request that creates a task through the caller that it returns for options, and not
// through the session itself. The caller may respond to input requests in results of revisions
// without sessions.
func (internals) Via(caller func(opts ...session.Option) jsonrpc.Caller) Option {
	return func(o *options) { o.via = caller }
}

// CallTool calls a tool as a task. The params are not changed.
//
// In revisions without sessions, the server decides whether the call becomes a task, and how long
// it keeps it. The id of the handle is "" if the server has returned the result.
func (t *Tasks) CallTool(ctx context.Context, s *session.Session, p *mcp.CallToolRequestParams, opts ...Option) (*Handle[*mcp.CallToolResult], error) {
	q := *p
	return create(ctx, t, s, mcp.MethodToolsCall, &q, &q.Task, readTool, opts)
}

// CreateMessage requests a message of the client's model as a task. The params are not changed.
func (t *Tasks) CreateMessage(ctx context.Context, s *session.Session, p *mcp.CreateMessageRequestParams, opts ...Option) (*Handle[*mcp.CreateMessageResult], error) {
	q := *p
	return create(ctx, t, s, mcp.MethodSamplingCreateMessage, &q, &q.Task, readMessage, opts)
}

// Elicit requests input of the client's user as a task. The params are not changed.
func (t *Tasks) Elicit(ctx context.Context, s *session.Session, p mcp.ElicitRequestParams, opts ...Option) (*Handle[*mcp.ElicitResult], error) {
	switch p := p.(type) {
	case *mcp.ElicitRequestFormParams:
		q := *p
		return create(ctx, t, s, mcp.MethodElicitationCreate, &q, &q.Task, readElicit, opts)
	case *mcp.ElicitRequestURLParams:
		q := *p
		return create(ctx, t, s, mcp.MethodElicitationCreate, &q, &q.Task, readElicit, opts)
	}
	return nil, fmt.Errorf("requestor: elicit: params of type %T are not supported", p)
}

// AttachTool returns a handle attached to the existing task id of a tool call. It sends nothing.
func (t *Tasks) AttachTool(s *session.Session, id string, opts ...Option) *Handle[*mcp.CallToolResult] {
	return attach(t, s, id, readTool, opts)
}

// AttachMessage is [Tasks.AttachTool] for sampling.
func (t *Tasks) AttachMessage(s *session.Session, id string, opts ...Option) *Handle[*mcp.CreateMessageResult] {
	return attach(t, s, id, readMessage, opts)
}

// AttachElicit is [Tasks.AttachTool] for elicitation.
func (t *Tasks) AttachElicit(s *session.Session, id string, opts ...Option) *Handle[*mcp.ElicitResult] {
	return attach(t, s, id, readElicit, opts)
}

func readTool(raw json.RawMessage) (*mcp.CallToolResult, error) {
	r, err := decodeInto(raw, new(mcp.CallToolResult))
	if err == nil && r.Content == nil {
		return nil, errors.New("requestor: tool result without content")
	}
	return r, err
}

func readMessage(raw json.RawMessage) (*mcp.CreateMessageResult, error) {
	return decodeInto(raw, new(mcp.CreateMessageResult))
}

func readElicit(raw json.RawMessage) (*mcp.ElicitResult, error) {
	return decodeInto(raw, new(mcp.ElicitResult))
}

func decodeInto[T codec.Decoder](raw json.RawMessage, v T) (T, error) {
	var none T
	if err := codec.Unmarshal(raw, v, codec.AllowSize(raw)...); err != nil {
		return none, err
	}
	return v, nil
}

// create sends a request that creates a task. If the receiver responds with the result instead of a
// task, the returned handle has its outcome already.
func create[R any](ctx context.Context, t *Tasks, s *session.Session, method string, params codec.Encoder, metadata **mcp.TaskMetadata, read func(json.RawMessage) (R, error), opts []Option) (*Handle[R], error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	switch {
	case s.Traits().TasksByServer:
		*metadata = nil
	case !o.asTask():
		return nil, fmt.Errorf("%w: %q", ErrNotAsTask, o.tool.Name)
	default:
		meta := new(mcp.TaskMetadata)
		if *metadata != nil {
			*meta = **metadata
		}
		if o.ttl != nil {
			meta.TTL = o.ttl
		}
		*metadata = meta
	}
	if o.progress = o.progress && o.tracker == nil; o.progress {
		o.tracker = s.Internals(boundary.Caller{}).NewTracker()
	}
	call := []session.Option{s.Internals(boundary.Caller{}).OnLate(func(raw json.RawMessage, err error) { internals{}.CancelLate(s, raw, err) })}
	if o.tracker != nil {
		call = append(call, s.Internals(boundary.Caller{}).Track(o.tracker))
	}
	var to jsonrpc.Caller
	if o.via != nil {
		to = o.via(call...)
	} else {
		to = s.With(call...)
	}
	raw, err := to.Call(ctx, method, params)
	var d *detail
	if err == nil && s.Traits().TasksByServer {
		d, err = createdExtension(raw)
	}
	if err != nil {
		if o.progress {
			o.tracker.Close()
		}
		return nil, err
	}
	h := newHandle(t, s, o, read)
	if d != nil {
		h.adopt(d)
		t.logCreated(ctx, h.f.id, method)
		return h, nil
	}
	if created, ok := createdTask(raw); ok {
		h.f.id, h.f.state = created.Task.TaskID, created.Task
		t.logCreated(ctx, h.f.id, method)
		if created.Meta != nil && created.Meta.ModelImmediateResponse != nil {
			h.immediate = *created.Meta.ModelImmediateResponse
		}
		return h, nil
	}
	h.f.finish(outcome{raw: raw})
	return h, nil
}

func (t *Tasks) logCreated(ctx context.Context, id, method string) {
	if t.log.Enabled(ctx, slog.LevelInfo) {
		t.log.Info("task created", "task", id, "method", method)
	}
}

// Created returns a handle of the task that the server has created for a request of a method, in a
// revision without sessions. The result is that of the request; see IsTask.
func (internals) Created(ctx context.Context, t *Tasks, s *session.Session, method string, result json.RawMessage) (*Handle[json.RawMessage], error) {
	d, err := createdExtension(result)
	if err != nil || d == nil {
		return nil, cmp.Or(err, errNoTask)
	}
	h := newHandle(t, s, options{}, func(raw json.RawMessage) (json.RawMessage, error) { return raw, nil })
	h.adopt(d)
	t.logCreated(ctx, h.f.id, method)
	return h, nil
}

// createdTask decodes the response to a request that creates a task. It returns false if the
// response is not a CreateTaskResult.
func createdTask(raw json.RawMessage) (*mcp.CreateTaskResult, bool) {
	task, _ := codec.Member(raw, "task")
	created := new(mcp.CreateTaskResult)
	if len(task) == 0 || task[0] != '{' || codec.Unmarshal(raw, created, codec.AllowSize(raw)...) != nil || created.Task.TaskID == "" {
		return nil, false
	}
	return created, true
}

// CancelLate is a function for OnLate of a session. It cancels a task whose creating call was
// cancelled before the response arrived.
func (internals) CancelLate(s *session.Session, raw json.RawMessage, err error) {
	if err != nil {
		return // no task was created
	}
	if d, _ := createdExtension(raw); d != nil && s.Traits().TasksByServer {
		ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
		defer cancel()
		tasks.ToServer{Caller: s}.CancelTask(ctx, &tasks.CancelTaskRequestParams{TaskID: d.state.TaskID})
		return
	}
	if created, ok := createdTask(raw); ok {
		ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
		defer cancel()
		peer(s).CancelTask(ctx, &mcp.CancelTaskRequestParams{TaskID: created.Task.TaskID})
	}
}

// tasksMethods are the tasks/* methods, which clients and servers have in common.
type tasksMethods interface {
	GetTask(context.Context, *mcp.GetTaskRequestParams) (*mcp.GetTaskResult, error)
	ListTasks(context.Context, *mcp.PaginatedRequestParams) (*mcp.ListTasksResult, error)
	CancelTask(context.Context, *mcp.CancelTaskRequestParams) (*mcp.CancelTaskResult, error)
}

// peer returns a sender of typed requests to the peer.
func peer(s *session.Session) tasksMethods {
	if s.Internals(boundary.Caller{}).IsServer() {
		return mcp.ToClient{Caller: s}
	}
	return mcp.ToServer{Caller: s}
}

func attach[R any](t *Tasks, s *session.Session, id string, read func(json.RawMessage) (R, error), opts []Option) *Handle[R] {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if o.progress = o.progress && o.tracker == nil; o.progress {
		o.tracker = s.Internals(boundary.Caller{}).NewTrackerOfTask(id)
	}
	h := newHandle(t, s, o, read)
	h.f.setID(id)
	return h
}

func newHandle[R any](t *Tasks, s *session.Session, o options, read func(json.RawMessage) (R, error)) *Handle[R] {
	return &Handle[R]{read: read, f: newFollower(t, s, o)}
}

var errNoTask = errors.New("requestor: no task id: the receiver returned the result without creating a task")
