package requestor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

const (
	// reportedInterval is the poll interval of a task whose changes the server reports. The task is
	// polled because a report may be lost.
	reportedInterval = time.Minute

	// maxInput limits the input requests of a task, and maxInputKey the bytes of their keys, which
	// are stored as long as the task has handles. [taskrules.MaxOpenInput] limits those in one state, and
	// the handlers that run for a task.
	maxInput    = 4096
	maxInputKey = 1024

	// maxRejected is how long requests about a known task are repeated while responses come that
	// are not from the server. A gateway whose server is down may respond with status 404, with a
	// page or with a redirect to one.
	maxRejected = 5 * time.Minute
)

// IsTask reports whether a result is a task of the Tasks extension.
func (internals) IsTask(result json.RawMessage) bool {
	if !bytes.Contains(result, resultTask) { // most results, which may be long
		return false
	}
	kind, _ := codec.Member(result, "resultType")
	return bytes.Equal(kind, resultTask)
}

var resultTask = []byte(`"` + tasks.ResultTask + `"`)

// extension is the additional state of a follower of a task of the Tasks extension.
type extension struct {
	inputs *inputs
	wake   chan struct{} // buffers one; received when the time of the next poll has changed

	// Guarded by the lock of the follower.
	reported bool                   // the server reports changes of the task
	settled  bool                   // the task was polled since reported was set
	pollSoon bool                   // poll as soon as minPollInterval allows
	lastPoll time.Time              // or the response that created the task; zero if there was none
	running  map[string]*responding // by key
	sequence uint64                 // incremented with each entry of running
}

// responding is an input request that is being responded to.
type responding struct {
	cancel context.CancelCauseFunc
	since  uint64 // the sequence at its start
}

// inputs are the input requests of a task by key. All handles of the task in a process share them,
// so that each input request is handled once (MCP tasks extension, "Task Update Requests").
type inputs struct {
	mu    sync.Mutex
	byKey map[string]*input
	busy  int // inputs with busy set
}

// input is an input request that a handle has received.
type input struct {
	busy     bool            // a handle responds to it
	response json.RawMessage // nil until the handler has returned
	sent     bool            // the server has acknowledged the response
}

// inputsOf returns the input requests of a task.
func (t *Tasks) inputsOf(key taskKey) *inputs {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.inputs[key].Value(); known != nil {
		return known
	}
	x := &inputs{byKey: map[string]*input{}}
	if t.inputs == nil {
		t.inputs = map[taskKey]weak.Pointer[inputs]{}
	}
	t.inputs[key] = weak.Make(x)
	// The session may refer to a follower that has x, and so may t. The cleanup would keep x if it
	// referred to one of them.
	tasks, s := weak.Make(t), weak.Make(key.s)
	runtime.AddCleanup(x, func(id string) {
		t, key := tasks.Value(), taskKey{s.Value(), id}
		if t == nil || key.s == nil {
			return
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.inputs[key].Value() == nil {
			delete(t.inputs, key)
		}
	}, key.id)
	return x
}

// take claims an input request for the caller, which must respond to it. It returns nil if another
// handle does so, if the response was sent, or if too many handlers are running.
func (x *inputs) take(key string) (*input, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.byKey[key]
	switch {
	case in == nil && len(x.byKey) >= maxInput:
		return nil, fmt.Errorf("requestor: task has more than %d input requests", maxInput)
	case len(key) > maxInputKey:
		return nil, fmt.Errorf("requestor: key of an input request has %d bytes, more than %d", len(key), maxInputKey)
	case in != nil && (in.busy || in.sent) || x.busy >= taskrules.MaxOpenInput:
		return nil, nil
	case in == nil:
		in = new(input)
		x.byKey[key] = in
	}
	in.busy = true
	x.busy++
	return in, nil
}

// leave releases the claim of take. If there is no response, another handle may claim the input
// request.
func (x *inputs) leave(key string, in *input) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.busy--
	if in.busy = false; in.response == nil {
		delete(x.byKey, key)
	}
}

// detail is the state of a task with everything that tasks/get returns.
type detail struct {
	state    mcp.Task
	requests []modern.InputRequest // open input requests
	out      outcome               // of a terminal task
}

// readDetail decodes a [tasks.CreateTaskResult], a [tasks.GetTaskResult] or
// [tasks.TaskStatusNotificationParams].
func readDetail(raw json.RawMessage) (*detail, error) {
	var t tasks.Task
	if err := codec.Unmarshal(raw, &t, codec.AllowSize(raw)...); err != nil {
		return nil, err
	}
	d := &detail{state: mcp.Task{
		TaskID: t.TaskID, Status: mcp.TaskStatus(t.Status), StatusMessage: t.StatusMessage, CreatedAt: t.CreatedAt,
		LastUpdatedAt: t.LastUpdatedAt, TTL: t.TTLMs, PollInterval: t.PollIntervalMs,
	}}
	switch t.Status {
	case tasks.TaskStatusWorking:
	case tasks.TaskStatusInputRequired:
		if text, ok := t.Extra.Get("inputRequests"); ok {
			d.requests = modern.ReadInputRequests(text)
		}
	case tasks.TaskStatusCompleted:
		var ok bool
		if d.out.raw, ok = t.Extra.Get("result"); !ok {
			d.out.err = fmt.Errorf("%w: completed task %q without result", ErrNoResult, t.TaskID)
		}
	case tasks.TaskStatusFailed:
		text, _ := t.Extra.Get("error")
		d.out.err = readError(text, &d.state)
	case tasks.TaskStatusCancelled:
		d.out.err = task.ErrCancelled
	default:
		return nil, fmt.Errorf("requestor: task %q has the unknown status %q", t.TaskID, t.Status)
	}
	return d, nil
}

// readError returns the error of a failed task.
func readError(text json.RawMessage, state *mcp.Task) error {
	var e mcp.Error
	if err := codec.Unmarshal(text, &e, codec.AllowSize(text)...); err != nil {
		message := ""
		if state.StatusMessage != nil {
			message = ": " + *state.StatusMessage
		}
		return fmt.Errorf("%w: failed task %q without error%s", ErrNoResult, state.TaskID, message)
	}
	return &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
}

// createdExtension returns the task that a result holds, or nil if it holds the outcome of the
// request itself.
func createdExtension(result json.RawMessage) (*detail, error) {
	if !(internals{}).IsTask(result) {
		return nil, nil
	}
	d, err := readDetail(result)
	if err == nil && d.state.TaskID == "" {
		err = errors.New("requestor: result of type task without taskId")
	}
	return d, err
}

// adopt makes h the handle of a task that the server has created.
func (h *Handle[R]) adopt(d *detail) {
	h.f.setID(d.state.TaskID)
	h.f.state, h.f.ext.lastPoll = d.state, time.Now()
	if task.Terminal(d.state.Status) { // the result is in tasks/get only
		h.f.ext.pollSoon = true
	}
}

// setID sets the id of the task.
func (f *follower) setID(id string) {
	f.id = id
	if f.ext != nil && id != "" {
		f.ext.inputs = f.tasks.inputsOf(taskKey{f.s, id})
	}
}

// get requests the state of a task of the Tasks extension.
func (f *follower) get(ctx context.Context) error {
	f.mu.Lock()
	version, sequence := f.version, f.ext.sequence
	f.mu.Unlock()
	raw, err := f.s.Call(ctx, tasks.MethodTasksGet, &tasks.GetTaskRequestParams{TaskID: f.id})
	if err != nil {
		return err
	}
	d, err := readDetail(raw)
	if err != nil {
		return err
	}
	if d.state.TaskID != f.id {
		return fmt.Errorf("requestor: result of %s for task %q is about task %q", tasks.MethodTasksGet, f.id, d.state.TaskID)
	}
	f.take(d, version, sequence)
	return nil
}

// take processes a state that the server has sent. version and sequence are those at the time of
// the request; version is 0 for a notification.
func (f *follower) take(d *detail, version, sequence uint64) {
	fresh := f.observe(d.state, version)
	if task.Terminal(d.state.Status) {
		f.finish(d.out)
		return
	}
	if fresh {
		f.takeInput(d, version == 0, sequence)
	}
	f.ext.signal()
}

// signal makes poll compute the time of the next poll again.
func (x *extension) signal() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// takeInput responds to new input requests of a state, and cancels the handlers of those that are
// no longer open.
func (f *follower) takeInput(d *detail, notified bool, sequence uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.period
	if p == nil || p.ctx.Err() != nil {
		return
	}
	open := map[string]bool{}
	for _, in := range d.requests {
		open[in.Key] = true
	}
	for key, r := range f.ext.running {
		if !open[key] && (notified || r.since <= sequence) {
			r.cancel(errWithdrawn)
		}
	}
	if len(d.requests) > taskrules.MaxOpenInput {
		p.fail(fmt.Errorf("requestor: task %q has %d open input requests, more than %d", f.id, len(d.requests), taskrules.MaxOpenInput))
		return
	}
	for _, in := range d.requests {
		taken, err := f.ext.inputs.take(in.Key)
		if err != nil {
			p.fail(err)
			return
		}
		if taken == nil {
			continue
		}
		f.ext.sequence++
		ctx, cancel := context.WithCancelCause(&p.ctx)
		f.ext.running[in.Key] = &responding{cancel, f.ext.sequence}
		// The goroutine ends with the handler, or when the response is sent. No call of Result
		// waits for it: a handler may ignore its context.
		go func() {
			defer cancel(nil)
			p.respond(ctx, in, taken)
		}()
	}
}

// errWithdrawn is the cause of the context of a handler whose input request is no longer open.
var errWithdrawn = errors.New("requestor: the server no longer waits for the input")

// respond lets the handler respond to an input request, unless it has done so before, and sends the
// response.
func (p *followPeriod) respond(ctx context.Context, in modern.InputRequest, taken *input) {
	f := p.f
	defer func() {
		f.mu.Lock()
		delete(f.ext.running, in.Key)
		f.mu.Unlock()
		f.ext.inputs.leave(in.Key, taken)
		if ctx.Err() != nil {
			f.tasks.pollSoon(taskKey{f.s, f.id})
		}
	}()
	if taken.response == nil {
		var response json.RawMessage
		err := boundary.Run(func() (err error) {
			response, err = f.tasks.respond(ctx, &session.Request{ID: codec.IntScalar(1), Method: in.Method, Params: in.Params, Session: f.s})
			return err
		})
		boundary.Report(f.tasks.log, "Respond panicked", err)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.fail(err)
			return
		}
		f.ext.inputs.mu.Lock()
		taken.response = response
		f.ext.inputs.mu.Unlock()
	}
	err := p.update(ctx, in.Key, taken.response)
	_, answered := errors.AsType[*jsonrpc.Error](err)
	f.ext.inputs.mu.Lock()
	switch {
	case err == nil:
		taken.sent, taken.response = true, json.RawMessage{}
	case answered && ctx.Err() == nil:
		taken.response = nil // the server has rejected it
	}
	f.ext.inputs.mu.Unlock()
	if err != nil && ctx.Err() == nil && !f.isFinished() {
		p.fail(fmt.Errorf("requestor: task %q: response to %s: %w", f.id, in.Method, err))
	}
}

// pollSoon makes the followers of a task poll soon: one of them may have to respond to an input
// request now.
func (t *Tasks) pollSoon(key taskKey) {
	for _, f := range t.followers(nil, key) {
		f.mu.Lock()
		f.ext.pollSoon = true
		f.mu.Unlock()
		f.ext.signal()
	}
}

// update sends a response to an input request. It repeats it after temporary failures.
func (p *followPeriod) update(ctx context.Context, key string, response json.RawMessage) error {
	f := p.f
	var failed failures
	for {
		_, err := f.s.Call(ctx, tasks.MethodTasksUpdate, session.Raw(updateParams(f.id, key, response)))
		if err == nil {
			return nil
		}
		if failed.add(err, true) {
			if _, answered := errors.AsType[*jsonrpc.Error](err); answered {
				f.findEnd(ctx)
			}
			return err
		}
		timer := time.NewTimer(f.backoff(failed.n - 1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// findEnd requests the state of a task that may have ended.
func (f *follower) findEnd(ctx context.Context) error {
	err := f.get(ctx)
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e.Code == jsonrpc.CodeInvalidParams {
		f.finishUnknown(err)
	}
	return err
}

// updateParams returns the params of tasks/update with one response.
func updateParams(id, key string, response json.RawMessage) json.RawMessage {
	text, _ := codec.MarshalFunc(func(w *wire.Writer) { // the response was encoded before
		w.Begin()
		w.KeyText(`,"taskId":"`, id)
		w.Key(`,"inputResponses":`)
		w.Begin()
		w.MapKey(key)
		w.Raw(response)
		w.End()
		w.End()
	})
	return text
}

// failures counts consecutive failures of a request about a task.
type failures struct {
	n        int
	unclear  int       // those that are not temporary, and are no clear answer of the server
	rejected time.Time // the first of the rejections that are not from the server; zero if none
}

// add counts a failure. It returns true if the request must not be repeated. known reports whether
// the server has responded about the task before.
func (x *failures) add(err error, known bool) (final bool) {
	x.n++
	lost, undelivered := errors.AsType[*transport.DeliveryError](err)
	switch {
	case temporaryExtension(err):
		x.unclear, x.rejected = 0, time.Time{}
		return false
	case errors.Is(err, transport.ErrTooLong), errors.Is(err, session.ErrClosed), undelivered && lost.Refused && !known:
		return true
	case undelivered && x.rejected.IsZero():
		x.rejected = time.Now()
		return false
	case undelivered:
		return time.Since(x.rejected) > maxRejected
	case isUnclear(err):
		x.unclear++
		return x.unclear >= maxUnclear
	}
	return true
}

// isUnclear reports whether an error leaves the state of a task unclear: its code is not one for
// which the server would reject the request again, or the response is invalid.
func isUnclear(err error) bool {
	if _, undeclared := errors.AsType[*session.CapabilityError](err); undeclared {
		return false
	}
	e, answered := errors.AsType[*jsonrpc.Error](err)
	if !answered {
		return true
	}
	switch e.Code {
	case jsonrpc.CodeInvalidParams, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound:
		return false
	}
	return !modern.IsCode(e.Code)
}

// temporaryExtension reports whether a request about a task of the Tasks extension that failed with
// err may succeed later.
func temporaryExtension(err error) bool {
	if errors.Is(err, transport.ErrTooLong) {
		return false
	}
	if lost, ok := errors.AsType[*transport.DeliveryError](err); ok {
		return !lost.Refused
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return temporary(e)
	}
	return errors.Is(err, session.ErrTimeout)
}

// backoff returns how long to wait after a number of failed requests.
func (f *follower) backoff(failures int) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return jittered(max(min(f.interval()<<min(failures, 16), maxBackoff), f.interval()))
}

// fail ends a period with an error that is not the outcome of the task. The task continues.
func (p *followPeriod) fail(err error) {
	p.failing.Do(func() {
		p.err = err
		close(p.failed)
		p.cancel()
	})
}

// poll requests the state of a task of the Tasks extension at intervals until there is an outcome,
// the period ends, or ctx ends. It polls less often while the server reports changes. A server may
// accept a subscription and report nothing: once a status has changed without a notification, poll
// keeps to the interval until a notification arrives.
func (p *followPeriod) poll(ctx context.Context) {
	f := p.f
	either := lazyctx.WithBoth(&p.ctx, ctx)
	defer either.Release()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var failed failures
	for {
		timer.Reset(f.untilPoll(failed.n))
		select {
		case <-timer.C:
		case <-f.s.Done(): // the request returns the error
		case <-f.ext.wake:
			continue
		case <-f.finished:
			return
		case <-p.ctx.Done():
			return
		case <-ctx.Done():
			return
		}
		notified := f.tasks.notified.Load()
		f.mu.Lock()
		status, reported := f.state.Status, f.ext.reported && f.ext.settled
		f.ext.settled, f.ext.pollSoon = f.ext.reported, false
		f.mu.Unlock()
		err := f.get(either)
		f.mu.Lock()
		f.ext.lastPoll = time.Now()
		if reported && f.state.Status != status && f.tasks.notified.Load() == notified {
			f.tasks.missed.Store(true)
		}
		f.mu.Unlock()
		switch {
		case either.Err() != nil:
			return
		case err == nil:
			failed = failures{}
		case f.expired(err):
			f.finish(outcome{err: fmt.Errorf("requestor: task %q: no response before the task expired: %w", f.id, err)})
			return
		case failed.add(err, f.lastState().Status != ""):
			p.conclude(err)
			return
		}
	}
}

// conclude ends the period after an error of tasks/get. If the state of the task is not clear, the
// error is not the outcome of the task.
func (p *followPeriod) conclude(err error) {
	_, undelivered := errors.AsType[*transport.DeliveryError](err)
	e, answered := errors.AsType[*jsonrpc.Error](err)
	switch {
	case answered && e.Code == jsonrpc.CodeInvalidParams:
		p.f.finishUnknown(err)
	case errors.Is(err, session.ErrClosed), errors.Is(err, transport.ErrTooLong):
		p.f.finish(outcome{err: err})
	case undelivered, isUnclear(err):
		p.fail(fmt.Errorf("%w: task %q: %w", ErrNoResult, p.f.id, err))
	default:
		p.f.finish(outcome{err: err})
	}
}

// finishUnknown sets the outcome if the server does not know the task.
func (f *follower) finishUnknown(err error) {
	f.mu.Lock()
	f.unknown = true
	f.mu.Unlock()
	if f.wasCancelled() {
		err = task.ErrCancelled
		state := f.lastState()
		state.TaskID, state.Status = f.id, mcp.TaskStatusCancelled
		f.observe(state, 0)
	}
	f.finish(outcome{err: err})
}

// untilPoll returns the time until the next poll, after a number of failures.
func (f *follower) untilPoll(failures int) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.ext
	if x.lastPoll.IsZero() {
		return 0
	}
	wait := f.interval()
	switch {
	case x.pollSoon:
		wait = minPollInterval
	case failures > 0:
		wait = max(min(wait<<min(failures, 16), maxBackoff), wait)
	case x.reported && x.settled && !f.tasks.missed.Load():
		wait = max(wait, reportedInterval)
	}
	return jittered(wait) - time.Since(x.lastPoll)
}

// setReported records whether the server reports changes of the task. A change may have been missed
// before the server began to report, so the task is polled once more.
func (f *follower) setReported(reported bool) {
	f.mu.Lock()
	f.ext.reported, f.ext.settled = reported, false
	f.mu.Unlock()
	f.ext.signal()
}

// expired reports whether a task has expired while the server did not respond. An error response
// counts as a response. The clock of the server may differ: after a response, the task has not
// expired for at least a minute, or for its lifetime if that is shorter.
func (f *follower) expired(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, answered := errors.AsType[*jsonrpc.Error](err); answered {
		f.lastResponse = time.Now()
	}
	created, failed := time.Parse(time.RFC3339Nano, f.state.CreatedAt)
	if f.state.TTL == nil || *f.state.TTL <= 0 || failed != nil {
		return false
	}
	ttl := time.Duration(min(*f.state.TTL, maxTTL.Milliseconds())) * time.Millisecond
	return time.Since(created) > ttl && time.Since(f.lastResponse) > min(ttl, time.Minute)
}

// maxTTL keeps lifetimes within the range of time.Duration.
const maxTTL = 100 * 365 * 24 * time.Hour

// cancelExtension sends tasks/cancel for a task of the Tasks extension, and then requests its
// state, because the acknowledgment is empty (MCP tasks extension, "Task Cancellation").
func (f *follower) cancelExtension(ctx context.Context) error {
	if err := f.sendCancel(ctx); err != nil || f.isFinished() {
		return err
	}
	err := f.findEnd(ctx)
	if f.isFinished() { // the server may have dropped the task
		return nil
	}
	return err
}

// sendCancel sends tasks/cancel for a task of the Tasks extension.
func (f *follower) sendCancel(ctx context.Context) error {
	f.addCancels(1)
	_, err := tasks.ToServer{Caller: f.s}.CancelTask(ctx, &tasks.CancelTaskRequestParams{TaskID: f.id})
	if _, refused := errors.AsType[*jsonrpc.Error](err); refused {
		f.addCancels(-1)
	}
	return err
}
