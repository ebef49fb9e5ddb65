// Package requestor follows tasks that the peer of a session runs: a tool call at a server, or a
// sampling or an elicitation at a client. A [Handle] is one such task. It is made by the request that
// creates the task, or from the task's id alone, after a reconnect or in another process.
//
//	tasks := requestor.Attach(cfg) // before the session is opened
//	h, err := tasks.CallTool(ctx, s, &mcp.CallToolRequestParams{Name: "render"}, requestor.TTL(time.Hour))
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

// Tasks knows the handles of the sessions that it is attached to. It may be used by many goroutines.
type Tasks struct {
	log *slog.Logger

	mu      sync.Mutex
	handles map[name]map[*follower]bool
}

// name is what a task is called: its id is unique among those of its receiver.
type name struct {
	s  *session.Session
	id string
}

// Attach makes sessions of a configuration bring status notifications to the handles of the Tasks
// that it returns, and mark answers to questions of a task as belonging to it (MCP tasks,
// "Associating Task-Related Messages"). It adds middleware, inside of what is there already. The
// configuration's logger is told which tasks are created, and how they end.
func Attach(cfg *session.Config) *Tasks {
	t := &Tasks{log: boundary.Logger(cfg.Logger), handles: map[name]map[*follower]bool{}}
	cfg.Receiving = append(cfg.Receiving, t.receive)
	cfg.Sending = append(cfg.Sending, relate)
	return t
}

// receive is the middleware for what comes in.
func (t *Tasks) receive(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if req.Method == mcp.MethodNotificationsTasksStatus {
			t.notified(req)
		}
		result, err := next(ctx, req)
		if id := relatedTo(req); id != "" && err == nil && !req.IsNotification() {
			return relateResult(result, id)
		}
		return result, err
	}
}

// relatedTo returns the task that a message of the peer belongs to, or "".
func relatedTo(req *session.Request) string {
	switch req.Method {
	case mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksList, mcp.MethodTasksCancel:
		return "" // where such metadata means nothing
	}
	meta, err := req.Meta()
	if err != nil || meta.RelatedTask == nil {
		return ""
	}
	return meta.RelatedTask.TaskID
}

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

// relate is the middleware that marks what is sent while a question of a task is being answered.
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

// notified brings a status notification to the handles of its task.
func (t *Tasks) notified(req *session.Request) {
	var p mcp.TaskStatusNotificationParams
	if codec.Unmarshal(req.Params, &p) != nil {
		return // the session's handler gets to see it all the same
	}
	t.mu.Lock()
	var list []*follower
	for f := range t.handles[name{req.Session, p.TaskID}] {
		list = append(list, f)
	}
	t.mu.Unlock()
	for _, f := range list {
		f.saw(mcp.Task{
			TaskID: p.TaskID, Status: p.Status, StatusMessage: p.StatusMessage, CreatedAt: p.CreatedAt,
			LastUpdatedAt: p.LastUpdatedAt, TTL: p.TTL, PollInterval: p.PollInterval,
		}, 0)
	}
}

// sign makes a follower receive notifications, or not any more.
func (t *Tasks) sign(f *follower, in bool) {
	key := name{f.s, f.id}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !in {
		delete(t.handles[key], f)
		if len(t.handles[key]) == 0 {
			delete(t.handles, key)
		}
		return
	}
	if t.handles[key] == nil {
		t.handles[key] = map[*follower]bool{}
	}
	t.handles[key][f] = true
}

// Option changes how a task is created or followed.
type Option func(*options)

type options struct {
	ttl      *int64
	progress bool
	tracker  *session.Tracker
	tool     *mcp.Tool // nil if it is not known
}

// TTL asks the receiver to keep the task for so long after its creation; it may settle on another
// time. It is for requests whose params do not say so themselves.
func TTL(d time.Duration) Option {
	return func(o *options) { o.ttl = new(max(d.Milliseconds(), 1)) }
}

// Progress asks for progress; see [Handle.Progress]. A handle of a task that was created before receives the reports that
// say that they belong to the task, if the request that created it has asked for any.
func Progress() Option { return func(o *options) { o.progress = true } }

// Track receives progress with a tracker of one's own. For a task that was created in an earlier
// session it is that of [session.Session.NewTrackerFor], if its token is known. The handle does not close it.
func Track(t *session.Tracker) Option { return func(o *options) { o.tracker = t } }

// CallTool calls a tool as a task. The params are not changed.
func (t *Tasks) CallTool(ctx context.Context, s *session.Session, p *mcp.CallToolRequestParams, opts ...Option) (*Handle[*mcp.CallToolResult], error) {
	q := *p
	return create(ctx, t, s, mcp.MethodToolsCall, &q, &q.Task, readTool, opts)
}

// CreateMessage asks a client for a message of its model, as a task. The params are not changed.
func (t *Tasks) CreateMessage(ctx context.Context, s *session.Session, p *mcp.CreateMessageRequestParams, opts ...Option) (*Handle[*mcp.CreateMessageResult], error) {
	q := *p
	return create(ctx, t, s, mcp.MethodSamplingCreateMessage, &q, &q.Task, readMessage, opts)
}

// Elicit asks the user of a client, as a task. The params are not changed.
func (t *Tasks) Elicit(ctx context.Context, s *session.Session, p mcp.ElicitRequestParams, opts ...Option) (*Handle[*mcp.ElicitResult], error) {
	switch p := p.(type) {
	case *mcp.ElicitRequestFormParams:
		q := *p
		return create(ctx, t, s, mcp.MethodElicitationCreate, &q, &q.Task, readElicit, opts)
	case *mcp.ElicitRequestURLParams:
		q := *p
		return create(ctx, t, s, mcp.MethodElicitationCreate, &q, &q.Task, readElicit, opts)
	}
	return nil, fmt.Errorf("requestor: an elicitation of type %T cannot be a task", p)
}

// AttachTool returns the handle of a tool call that is a task already.
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
	r, err := into(raw, new(mcp.CallToolResult))
	if err == nil && r.Content == nil {
		return nil, errors.New("requestor: result of a tool has no content")
	}
	return r, err
}

func readMessage(raw json.RawMessage) (*mcp.CreateMessageResult, error) {
	return into(raw, new(mcp.CreateMessageResult))
}

func readElicit(raw json.RawMessage) (*mcp.ElicitResult, error) {
	return into(raw, new(mcp.ElicitResult))
}

func into[T codec.Decoder](raw json.RawMessage, v T) (T, error) {
	var none T
	if err := codec.Unmarshal(raw, v, codec.AllowSize(raw)...); err != nil {
		return none, err
	}
	return v, nil
}

// create sends a request that asks for a task. A receiver that answers with the result itself makes
// a handle that is over from the start.
func create[R any](ctx context.Context, t *Tasks, s *session.Session, method string, params codec.Encoder, wish **mcp.TaskMetadata, read func(json.RawMessage) (R, error), opts []Option) (*Handle[R], error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if !o.asTask() {
		return nil, fmt.Errorf("%w: %s", ErrNotAsTask, o.tool.Name)
	}
	meta := new(mcp.TaskMetadata)
	if *wish != nil {
		*meta = **wish
	}
	if o.ttl != nil {
		meta.TTL = o.ttl
	}
	*wish = meta
	if o.progress = o.progress && o.tracker == nil; o.progress {
		o.tracker = s.NewTracker()
	}
	call := []session.Option{session.OnLate(func(raw json.RawMessage, err error) { abandon(s, raw, err) })}
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
		t.log.Info("task created", "task", h.f.id, "method", method)
		if created.Meta != nil && created.Meta.ModelImmediateResponse != nil {
			h.immediate = *created.Meta.ModelImmediateResponse
		}
		return h, nil
	}
	h.f.finish(outcome{raw: raw})
	return h, nil
}

// createdTask reads the answer to a request for a task, unless it is the result itself.
func createdTask(raw json.RawMessage) (*mcp.CreateTaskResult, bool) {
	r := codec.Borrow(raw, codec.AllowSize(raw)...)
	_, kind, ok := r.PeekMember("task")
	r.Release()
	created := new(mcp.CreateTaskResult)
	if !ok || kind != codec.KindObject || codec.Unmarshal(raw, created, codec.AllowSize(raw)...) != nil || created.Task.TaskID == "" {
		return nil, false
	}
	return created, true
}

// abandon cancels a task whose creation was given up before it was known.
func abandon(s *session.Session, raw json.RawMessage, err error) {
	if err != nil {
		return // there is no task
	}
	if created, ok := createdTask(raw); ok {
		ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
		defer cancel()
		peer(s).CancelTask(ctx, &mcp.CancelTaskRequestParams{TaskID: created.Task.TaskID})
	}
}

// methods are those about tasks, which both sides have.
type methods interface {
	GetTask(context.Context, *mcp.GetTaskRequestParams) (*mcp.GetTaskResult, error)
	ListTasks(context.Context, *mcp.PaginatedRequestParams) (*mcp.ListTasksResult, error)
	CancelTask(context.Context, *mcp.CancelTaskRequestParams) (*mcp.CancelTaskResult, error)
}

// peer sends typed requests to the other side.
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

var errNoTask = errors.New("requestor: the receiver has answered at once, there is no task")
