package receiver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/codec/wire/rpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// defaultAfter is how long a call runs before it becomes a task, if After of its [Support] is zero.
const defaultAfter = time.Second

// declaresExtension reports whether the client of a request has declared the extension.
func declaresExtension(req *session.Request) bool {
	_, ok := req.Internals(boundary.Caller{}).ClientExtension(tasks.ExtensionID)
	return ok
}

// missingExtension returns the error for a request that needs the extension, which its client has
// not declared.
func missingExtension() *jsonrpc.Error {
	return &jsonrpc.Error{
		Code: modern.CodeMissingCapability, Message: "the client has not declared the extension " + tasks.ExtensionID,
		Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + tasks.ExtensionID + `":{}}}}`),
	}
}

// serveByExtension serves a request whose method can be a task.
func (o *Options) serveByExtension(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	if _, ok := req.Internals(boundary.Caller{}).Task(); ok { // a member that modern revisions do not have
		plain, err := withoutTask(req)
		if err != nil {
			return nil, err
		}
		req = plain
	}
	support, err := o.support(ctx, req)
	if err != nil {
		return nil, err
	}
	m := o.Manager
	required := support.Mode == mcp.TaskSupportRequired
	if !required && support.Mode != mcp.TaskSupportOptional {
		return next(ctx, req)
	}
	switch declared := declaresExtension(req); {
	case required && !declared:
		return nil, missingExtension()
	case !declared:
		return next(ctx, req)
	case support.Runner != "":
		return createExtension(ctx, m, req, support, next)
	case required || support.After < 0 || len(support.Labels) > 0 || support.Restartable && !m.Internals(boundary.Caller{}).Runs(support.Name) || m.Internals(boundary.Caller{}).Limited(support.Name):
		if _, ok := codec.Member(req.Params, "requestState"); !ok {
			return createExtension(ctx, m, req, support, next)
		}
		// The results of earlier rounds become those of the task.
		support.After = time.Millisecond
	}
	return serveCall(ctx, m, req, support, next)
}

// createExtension runs a request as a task from its beginning.
func createExtension(ctx context.Context, m *task.Manager, req *session.Request, support Support, next session.Handler) (codec.Encoder, error) {
	if !req.Internals(boundary.Caller{}).Keep() {
		return nil, context.Cause(ctx)
	}
	req.Internals(boundary.Caller{}).Detach(bytes.Clone(req.Params)) // see Options.create
	q := extensionRequest(ctx, req, support)
	q.Work = support.work(next, req)
	created, err := m.Create(ctx, q)
	if err != nil {
		return nil, task.WireError(err)
	}
	return &extensionTask{task: created, resultType: tasks.ResultTask}, nil
}

// extensionRequest returns the description of a task without its work. Messages about it are not
// sent to the client, and it has no progress token (MCP tasks extension, "Task Status
// Notifications").
func extensionRequest(ctx context.Context, req *session.Request, support Support) task.Request {
	return task.Request{
		Principal: session.Principal(ctx), Method: req.Method, Params: req.Params, Protocol: req.Revision(),
		Name: support.Name, Runner: support.Runner, Restartable: support.Restartable, Labels: support.Labels, Version: support.Version, StatusMessage: support.StatusMessage, PollInterval: support.PollInterval,
	}
}

// serveExtension serves the tasks/* methods of the extension.
func serveExtension(ctx context.Context, m *task.Manager, req *session.Request) (codec.Encoder, error) {
	principal := session.Principal(ctx)
	if !declaresExtension(req) {
		return serveBridge(ctx, m, req)
	}
	raw, ok := codec.Member(req.Params, "taskId")
	if !ok {
		return nil, jsonrpc.InvalidParams(errors.New("taskId is missing"))
	}
	switch req.Method {
	case tasks.MethodTasksGet: // the most frequent one, which needs no other member
		var id string
		if err := codec.ReadPart(raw, func(r *wire.Reader) { id = r.Text() }); err != nil {
			return nil, jsonrpc.InvalidParams(fmt.Errorf("taskId: %w", err))
		}
		return readExtensionTask(ctx, m, principal, id, req.Method)
	case tasks.MethodTasksCancel:
		return rpc.Serve(ctx, req.Params, false, func(ctx context.Context, p *tasks.CancelTaskRequestParams) (*tasks.CancelTaskResult, error) {
			_, err := m.Cancel(ctx, principal, p.TaskID, nil)
			if _, terminal := errors.AsType[*task.MoveError](err); terminal {
				err = nil
			}
			return new(tasks.CancelTaskResult), err
		})
	}
	return rpc.Serve(ctx, req.Params, false, func(ctx context.Context, p *tasks.UpdateTaskRequestParams) (*tasks.UpdateTaskResult, error) {
		return new(tasks.UpdateTaskResult), update(ctx, m, principal, req, p)
	})
}

// update stores responses to input requests. It ignores responses whose key is not that of an open
// input request.
func update(ctx context.Context, m *task.Manager, principal string, req *session.Request, p *tasks.UpdateTaskRequestParams) error {
	if p.InputResponses == nil {
		return jsonrpc.InvalidParams(errors.New("inputResponses are missing"))
	}
	raw, _ := codec.Member(req.Params, "inputResponses")
	return m.Update(ctx, principal, p.TaskID, req.Method, func(q *task.InputRequest) (json.RawMessage, error) {
		key := inputKey(q)
		response, ok := p.InputResponses[key]
		if !ok {
			return nil, nil
		}
		if !modern.IsResponse(q.Method, response) {
			return nil, jsonrpc.InvalidParams(fmt.Errorf("inputResponses: %q is not a response to %s", key, q.Method))
		}
		text, _ := codec.Member(raw, key)
		return text, nil
	})
}

// inputKey returns the key of an input request. It is unique within the task.
func inputKey(q *task.InputRequest) string { return "input-" + strconv.FormatUint(q.Number, 10) }

// serveBridge serves the tasks/* methods for a client that has not declared the extension. The
// client may use tasks of sessions if it has declared the tasks capability of sessions (SEP-2663,
// "Backward Compatibility").
func serveBridge(ctx context.Context, m *task.Manager, req *session.Request) (codec.Encoder, error) {
	capabilities := req.ClientCapabilities()
	if capabilities == nil || capabilities.Tasks == nil || req.Method == tasks.MethodTasksUpdate {
		return nil, missingExtension()
	}
	principal := session.Principal(ctx)
	known := func(ctx context.Context, id string) (mcp.Task, error) {
		r, err := m.Internals(boundary.Caller{}).GetRecord(ctx, principal, id, req.Method)
		if err == nil && r.Protocol.Traits().TasksByServer || errors.Is(err, task.ErrNotFound) || errors.Is(err, task.ErrExpired) {
			err = missingExtension()
		}
		return r.Task(), err
	}
	if req.Method == tasks.MethodTasksCancel {
		return rpc.Serve(ctx, req.Params, false, func(ctx context.Context, p *mcp.CancelTaskRequestParams) (*mcp.CancelTaskResult, error) {
			t, err := known(ctx, p.TaskID)
			if err == nil {
				t, err = m.Cancel(ctx, principal, p.TaskID, nil)
			}
			return t.AsCancelTaskResult(), err
		})
	}
	return rpc.Serve(ctx, req.Params, false, func(ctx context.Context, p *mcp.GetTaskRequestParams) (*mcp.GetTaskResult, error) {
		t, err := known(ctx, p.TaskID)
		return t.AsGetTaskResult(), err
	})
}

// readExtensionTask returns the state of a task of a principal, for a request with the given
// method. It fails as [task.Manager.Get] does.
func readExtensionTask(ctx context.Context, m *task.Manager, principal, id, method string) (*extensionTask, error) {
	r, err := m.Internals(boundary.Caller{}).GetRecord(ctx, principal, id, method)
	if err != nil {
		return nil, err
	}
	return newExtensionTask(&r)
}

// internals are the functions that only packages of this module call.
type internals struct{}

// Internals returns what only packages of this module can call.
func Internals(boundary.Caller) internals { return internals{} }

// WatchedIDs returns the ids of tasks in taskIds, the member of the filter of a
// subscriptions/listen. They are not nil. WatchedIDs fails if the client has not declared the
// extension.
func (internals) WatchedIDs(req *session.Request, taskIDs json.RawMessage) ([]string, error) {
	if !declaresExtension(req) {
		return nil, missingExtension()
	}
	ids := []string{}
	if err := codec.Unmarshal(taskIDs, value.Of(&ids), codec.AllowSize(taskIDs)...); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	return ids, nil
}

// WatchedTask returns the params of notifications/tasks, with a _meta, for a task that a Watch has
// reported, or nil if there is nothing to send. It removes a task from the Watch that has ended or
// expired.
func (internals) WatchedTask(ctx context.Context, w taskrules.Watch[task.Record], id string, meta codec.Encoder) codec.Encoder {
	r, err := w.Get(ctx, id, tasks.MethodNotificationsTasks)
	if errors.Is(err, task.ErrUnavailable) {
		return nil // the Watch reports the task again
	}
	var t *extensionTask
	if err == nil {
		t, err = newExtensionTask(&r)
	}
	if err != nil { // such as task.ErrExpired
		w.Remove(id)
		return nil
	}
	if t.resultType, t.meta = "", meta; task.Terminal(t.task.Status) {
		w.Remove(id)
	}
	return t
}

// newExtensionTask returns the state of the task with record r. It may change r.
func newExtensionTask(r *task.Record) (*extensionTask, error) {
	if !r.Protocol.Traits().TasksByServer {
		if err := unrelate(r); err != nil {
			return nil, err
		}
	}
	return &extensionTask{task: r.Task(), resultType: modern.ResultComplete, record: r}, nil
}

// unrelate removes the related task from the payloads of a record that was created in a session.
func unrelate(r *task.Record) (err error) {
	if r.Result, err = unrelated(r.Result); err != nil {
		return err
	}
	r.InputRequests = slices.Clone(r.InputRequests)
	for i := range r.InputRequests {
		q := &r.InputRequests[i]
		if q.Params, err = unrelated(q.Params); err != nil {
			return err
		}
	}
	return nil
}

// unrelated returns a copy of object without the related task in its _meta.
func unrelated(object json.RawMessage) (json.RawMessage, error) {
	meta, ok := codec.Member(object, "_meta")
	if !ok || !bytes.HasPrefix(meta, []byte{'{'}) {
		return object, nil
	}
	rest, err := without(meta, taskrules.RelatedTask)
	if err != nil || len(rest) == len(meta) {
		return object, err
	}
	object, err = without(object, "_meta")
	if err != nil || bytes.Equal(rest, []byte(`{}`)) {
		return object, err
	}
	return codec.Marshal(merged{object, rest})
}

// merged is an object with a _meta.
type merged struct{ object, meta json.RawMessage }

// EncodeJSON implements [codec.Encoder].
func (m merged) EncodeJSON(w *wire.Writer) {
	w.Begin()
	w.Key(`,"_meta":`)
	w.Raw(m.meta)
	w.EndWith(session.Raw(m.object))
}

// extensionTask is the state of a task as the Tasks extension represents it: a
// [tasks.CreateTaskResult], a [tasks.GetTaskResult] or [tasks.TaskStatusNotificationParams]. It
// encodes stored payloads without decoding them.
type extensionTask struct {
	modern.TypedTask
	task       mcp.Task
	resultType string       // "" for a notification
	record     *task.Record // nil for a CreateTaskResult
	meta       codec.Encoder
}

// EncodeJSON implements [codec.Encoder].
func (t *extensionTask) EncodeJSON(w *wire.Writer) {
	status := t.task.Status
	if status == mcp.TaskStatusFailed && t.record != nil && t.record.Error == nil {
		status = mcp.TaskStatusCompleted // the result of a tool with isError
	}
	w.Begin()
	if t.resultType != "" {
		w.KeyText(`,"resultType":"`, t.resultType)
	}
	if t.meta != nil {
		w.Key(`,"_meta":`)
		t.meta.EncodeJSON(w)
	}
	w.KeyText(`,"taskId":"`, t.task.TaskID)
	w.KeyText(`,"status":"`, string(status))
	if t.task.StatusMessage != nil {
		w.KeyText(`,"statusMessage":"`, *t.task.StatusMessage)
	}
	w.KeyText(`,"createdAt":"`, t.task.CreatedAt)
	w.KeyText(`,"lastUpdatedAt":"`, t.task.LastUpdatedAt)
	w.Key(`,"ttlMs":`)
	if t.task.TTL == nil {
		w.Null()
	} else {
		w.Int(*t.task.TTL)
	}
	if t.task.PollInterval != nil {
		w.Key(`,"pollIntervalMs":`)
		w.Int(*t.task.PollInterval)
	}
	if t.record != nil {
		t.encodePayload(w, status)
	}
	w.End()
}

// encodePayload writes the additional member of a status, if there is one.
func (t *extensionTask) encodePayload(w *wire.Writer, status mcp.TaskStatus) {
	switch status {
	case mcp.TaskStatusInputRequired:
		w.Key(`,"inputRequests":`)
		w.Begin()
		for i := range t.record.InputRequests {
			q := &t.record.InputRequests[i]
			if !q.Open() {
				continue
			}
			w.MapKey(inputKey(q))
			w.Begin()
			w.KeyText(`,"method":"`, q.Method)
			if q.Params != nil {
				w.Key(`,"params":`)
				w.Raw(q.Params)
			}
			w.End()
		}
		w.End()
	case mcp.TaskStatusCompleted:
		w.Key(`,"result":`)
		if _, ok := codec.Member(t.record.Result, "resultType"); ok {
			w.Raw(t.record.Result)
			return
		}
		w.Begin() // as the request itself would have returned it
		w.KeyText(`,"resultType":"`, modern.ResultComplete)
		w.EndWith(session.Raw(t.record.Result))
	case mcp.TaskStatusFailed:
		w.Key(`,"error":`)
		w.Raw(t.record.Error)
	}
}
