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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Tasks creates the handles of sessions and passes status notifications to them. It may be used
// concurrently.
type Tasks struct {
	log *slog.Logger

	mu      sync.Mutex
	handles map[taskKey]*follower // the first of a list; see follower.next
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
func Attach(cfg *session.Config) *Tasks {
	t := &Tasks{log: boundary.Logger(cfg.Logger), handles: map[taskKey]*follower{}}
	cfg.Receiving = append(cfg.Receiving, t.receive)
	cfg.Sending = append(cfg.Sending, relate)
	return t
}

// receive is the receiving middleware.
func (t *Tasks) receive(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if req.Method == mcp.MethodNotificationsTasksStatus {
			t.handleStatus(req)
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
	raw, err := task.Relate(raw, id)
	return session.Raw(raw), err
}

// relate is the sending middleware. It adds the related task to messages that are sent while an
// input request of a task is handled.
func relate(next session.Sender) session.Sender {
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		if req, ok := session.FromContext(ctx); ok && req.Session == call.Session {
			if id := relatedTo(req); id != "" {
				call.SetMeta(task.RelatedTask, &mcp.RelatedTaskMetadata{TaskID: id})
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
	list := buffer[:0]
	t.mu.Lock()
	for f := t.handles[taskKey{req.Session, p.TaskID}]; f != nil; f = f.next {
		list = append(list, f)
	}
	t.mu.Unlock()
	for _, f := range list {
		f.observe(p.AsTask(), 0)
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
	tracker  *session.Tracker
	tool     *mcp.Tool // nil if unknown
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

// Track receives progress with the tracker t, which the handle does not close. For a task that was
// created in an earlier session, create t by [session.Session.NewTrackerFor] with the task's token.
func Track(t *session.Tracker) Option { return func(o *options) { o.tracker = t } }

// CallTool calls a tool as a task. The params are not changed.
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
	if !o.asTask() {
		return nil, fmt.Errorf("%w: %q", ErrNotAsTask, o.tool.Name)
	}
	meta := new(mcp.TaskMetadata)
	if *metadata != nil {
		*meta = **metadata
	}
	if o.ttl != nil {
		meta.TTL = o.ttl
	}
	*metadata = meta
	if o.progress = o.progress && o.tracker == nil; o.progress {
		o.tracker = s.NewTracker()
	}
	call := []session.Option{session.OnLate(func(raw json.RawMessage, err error) { cancelLate(s, raw, err) })}
	if o.tracker != nil {
		call = append(call, session.Track(o.tracker))
	}
	raw, err := s.With(call...).Call(ctx, method, params)
	if err != nil {
		if o.progress {
			o.tracker.Close()
		}
		return nil, err
	}
	h := newHandle(t, s, o, read)
	if created, ok := createdTask(raw); ok {
		h.f.id, h.f.state = created.Task.TaskID, created.Task
		if t.log.Enabled(ctx, slog.LevelInfo) {
			t.log.Info("task created", "task", h.f.id, "method", method)
		}
		if created.Meta != nil && created.Meta.ModelImmediateResponse != nil {
			h.immediate = *created.Meta.ModelImmediateResponse
		}
		return h, nil
	}
	h.f.finish(outcome{raw: raw})
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

// cancelLate cancels a task whose creating call was cancelled before the response arrived.
func cancelLate(s *session.Session, raw json.RawMessage, err error) {
	if err != nil {
		return // no task was created
	}
	if created, ok := createdTask(raw); ok {
		ctx, cancel := context.WithTimeout(context.Background(), cancelTimeout)
		defer cancel()
		peer(s).CancelTask(ctx, &mcp.CancelTaskRequestParams{TaskID: created.Task.TaskID})
	}
}

// methods are the tasks/* methods, which clients and servers have in common.
type methods interface {
	GetTask(context.Context, *mcp.GetTaskRequestParams) (*mcp.GetTaskResult, error)
	ListTasks(context.Context, *mcp.PaginatedRequestParams) (*mcp.ListTasksResult, error)
	CancelTask(context.Context, *mcp.CancelTaskRequestParams) (*mcp.CancelTaskResult, error)
}

// peer returns a sender of typed requests to the peer.
func peer(s *session.Session) methods {
	if s.Role() == session.RoleServer {
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
		o.tracker = s.NewTrackerOfTask(id)
	}
	h := newHandle(t, s, o, read)
	h.f.id = id
	return h
}

func newHandle[R any](t *Tasks, s *session.Session, o options, read func(json.RawMessage) (R, error)) *Handle[R] {
	return &Handle[R]{read: read, f: newFollower(t, s, o)}
}

var errNoTask = errors.New("requestor: the receiver returned the result without creating a task")
