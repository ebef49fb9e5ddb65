package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// InputRequiredError ends a run of a handler that the server calls again, from its top; see [Step]
// for the consequences. In a call of a revision without sessions, an input request that has no
// response yet returns it: the handler is called again when the client has sent the responses. In a
// task of a [Durable] tool, an input request or a [Sleep] returns it after a wait of
// [task.Options].Recovery.ParkAfter, or when the server shuts down: the handler is called again
// when the response or the time has come, or by the next process. The handler returns the error,
// wrapped or not.
//
// From then on, no [Step], no sleep and no input request of the run begins, in any branch: they
// fail with an InputRequiredError, too. A compensation in a defer, or a fallback for the error,
// therefore has no effect. What earlier runs have recorded is still returned. In a revision without
// sessions, the other functions of a [Call.RunAll] add their input requests to the round.
//
// The input requests and sleeps of the call decide, not the error that is returned. Even if the
// handler or its middleware returns something else, the server asks the client for the input and
// calls the handler again.
//
// Its field Method is that of the input request, such as elicitation/create, or "" for a step and a
// sleep.
type InputRequiredError = rerun.InputRequiredError

// InputName returns a context for an input request, such as that of [Elicit]. In revisions without
// sessions, the client gets the request under this key of inputRequests, and sends the response
// under the same key of inputResponses. If another request of the round has the name, a number is
// added. By default, the server generates a key. In revisions with sessions, InputName has no
// effect.
func InputName(ctx context.Context, name string) context.Context {
	return rerun.WithName(ctx, name)
}

// RunAll calls functions concurrently, waits for all of them, and returns the first error in their
// order, or nil. Each function is a branch of the handler: its [Step] calls, sleeps and input
// requests follow one another, and are independent of those of the other functions. A function must
// use the context that it gets, which names the branch. While RunAll runs, the handler itself must
// not do such an operation. A panic of a function fails the call.
//
// Input requests of the functions reach the client together: in revisions without sessions, in one
// round. A call may have 64 open input requests; more of them wait until there is room.
func (c *Call) RunAll(ctx context.Context, functions ...func(ctx context.Context) error) error {
	return c.recording().RunAll(ctx, functions)
}

// Branch calls f with a context for a branch of the handler, and returns its error. A handler that
// starts goroutines itself, instead of with [Call.RunAll], gives each of them that runs steps,
// sleeps or makes input requests a branch of its own. The name is one that no other branch below
// that of ctx has. F must use the context that it gets.
//
//	go func() {
//		done <- server.Branch(ctx, c, "mail", func(ctx context.Context) error { … })
//	}()
//
// The handler may cancel the contexts of the other branches when one fails, as errgroup.WithContext
// does. If it has failed with an [*InputRequiredError], what the others do is not cancelled for good:
// the next run does it again.
func Branch(ctx context.Context, c *Call, name string, f func(ctx context.Context) error) error {
	return c.recording().Branch(ctx, name, f)
}

// Replaying reports whether the handler runs again, after a wait, a restart or an input request, and
// has not yet asked for everything that earlier runs have recorded. Code outside of a [Step] runs
// again meanwhile. Use it to log such lines once:
//
//	if !c.Replaying() {
//		slog.Info("draft requested", "title", in.Title)
//	}
//
// The result depends on where earlier runs have ended, so it must not decide what the handler does.
func (c *Call) Replaying() bool { return c.recording().Replays() }

// recording returns the log of the run. It begins one on first use.
func (c *Call) recording() *rerun.Log {
	if l := c.log.Load(); l != nil {
		return l
	}
	run, _ := c.Task()
	l := rerun.New(c.ctx, rerun.Options{Package: "server", Task: run, Rounds: c.rounds && c.inRounds(), Promote: c.promotion(), Logger: c.p.s.cfg.Logger})
	if !c.log.CompareAndSwap(nil, l) {
		return c.log.Load()
	}
	if c.ended.Load() { // after CompareAndSwap, so that either this or end sees the other
		l.End()
	}
	return l
}

// promotion returns the function that makes the plain call of a [Durable] tool a task before its
// first step, sleep or input request, or nil if the call cannot become a task or need not.
func (c *Call) promotion() func(ctx context.Context) error {
	if c.tool == nil || !c.tool.support.Restartable {
		return nil
	}
	pending, ok := rerun.PendingFrom(c.ctx)
	if !ok {
		return nil
	}
	return pending.Promote
}

// beforeTask is the function for [rerun.Pending].
func (c *Call) beforeTask(promote rerun.Promote) { c.recording().BeforeTask(promote) }

// repeats reports whether the call is a task whose handler runs again and has not yet asked for all
// recorded results.
func (c *Call) repeats() bool {
	run, isTask := c.Task()
	return isTask && run.Durable() && c.recording().Repeats()
}

// replays reports whether an earlier run of the handler may have recorded the responses to its input
// requests: the call is a modern one, even if it has become a task since, or a durable task.
func (c *Call) replays() bool {
	run, isTask := c.Task()
	return c.traits().InputInResults || isTask && run.Durable()
}

// ask returns the response to an input request of a call that replays. It calls prepare if there is
// none yet. Params identify the request, so all runs encode them in the same way.
func (c *Call) ask(ctx context.Context, method string, params codec.Encoder, transient bool, prepare func() (mcp.InputRequest, error)) (json.RawMessage, error) {
	if err := rerun.InStep(ctx, method); err != nil {
		return nil, err
	}
	request := &rerun.Request{Method: method, Transient: transient}
	if params != nil {
		var err error
		if request.Params, err = codec.Marshal(params); err != nil {
			if _, invalid := prepare(); invalid != nil {
				err = invalid // says more
			}
			return nil, err
		}
	}
	request.Prepare = func() (any, string, error) {
		if !c.rounds {
			req, _ := session.FromContext(c.ctx)
			return nil, "", fmt.Errorf("server: %s cannot ask the client for input: revision %s allows it in tools/call, prompts/get and resources/read only", req.Method, c.Revision())
		}
		asked, err := prepare()
		return asked, labelOf(method, asked), err
	}
	return c.recording().Ask(ctx, request)
}

// labelOf describes an input request in errors.
func labelOf(method string, request mcp.InputRequest) string {
	const maxLabel = 64
	message := ""
	if elicit, ok := request.(*mcp.ElicitRequest); ok {
		switch p := elicit.Params.(type) {
		case *mcp.ElicitRequestFormParams:
			message = p.Message
		case *mcp.ElicitRequestURLParams:
			message = p.Message
		}
	}
	if message == "" {
		return method
	}
	return method + " " + strconv.Quote(boundary.Text(message, maxLabel))
}

// resume continues a modern call in which the client sends the responses of the last round. Name is
// that of the tool or prompt, or the URI of the resource.
func (c *Call) resume(name string, sealed *string, responses mcp.InputResponses) error {
	if sealed == nil || !c.inRounds() {
		return nil
	}
	state, err := c.openState(name, *sealed)
	if err != nil && c.tool != nil && c.tool.support.Restartable {
		err = fmt.Errorf("%w (to clients that declare the Tasks extension, this call is a task, which needs no requestState)", err)
	}
	if err != nil {
		c.p.s.cfg.Logger.Info("request state rejected", "name", boundary.Text(name, maxQuotedBytes), "error", err)
		return invalidParams("requestState: %s", err)
	}
	req, _ := session.FromContext(c.ctx)
	raw, _ := codec.Member(req.Params, "inputResponses")
	var pending []rerun.Asked // the handler asks again
	for i := range state.Asked {
		asked := &state.Asked[i]
		response, ok := responses[asked.Name]
		if !ok || asked.Name == "" {
			pending = append(pending, *asked)
			continue
		}
		if !modern.IsResponse(asked.Method, response) {
			return invalidParams("inputResponses: %q is not a response to %s", asked.Name, asked.Method)
		}
		text, _ := codec.Member(raw, asked.Name)
		state.Entries = append(state.Entries, asked.Entry(text))
	}
	c.number = state.Round
	c.log.Store(rerun.New(c.ctx, rerun.Options{Package: "server", ID: state.Call, Rounds: true, Promote: c.promotion(), Logger: c.p.s.cfg.Logger, Earlier: state.Entries, Pending: pending}))
	return nil
}

// openState opens a sealed state. It fails if the state does not belong to the request.
func (c *Call) openState(name, sealed string) (*rerun.State, error) {
	s := c.p.s
	if len(sealed) > s.cfg.Limits.State {
		return nil, fmt.Errorf("longer than %d bytes", s.cfg.Limits.State)
	}
	state, err := s.keys.get(c.ctx).OpenState(c.stateContext(name), sealed, s.now())
	switch {
	case errors.Is(err, rerun.ErrKey):
		return nil, errors.New("sealed with a key that this server does not have")
	case errors.Is(err, rerun.ErrExpired):
		return nil, errors.New("expired")
	case err != nil:
		return nil, errors.New("not issued for this request")
	case !state.Unversioned && !c.tool.continues(state.Version):
		return nil, fmt.Errorf("version %q of the tool has begun this call, and version %q does not continue it", state.Version, c.tool.functionVersion())
	}
	return state, nil
}

// functionVersion returns the version of the tool's function. Prompts and resources, for which t is
// nil, have the version "".
func (t *tool) functionVersion() string {
	if t == nil {
		return ""
	}
	return t.version
}

// continues reports whether the function of the tool continues calls that another version has
// begun.
func (t *tool) continues(version string) bool {
	return version == t.functionVersion() || t != nil && slices.Contains(t.accepted, version)
}

// stateContext returns the identity of the call, to which its state is bound.
func (c *Call) stateContext(name string) *rerun.Context {
	req, _ := session.FromContext(c.ctx)
	arguments, ok := codec.Member(req.Params, "arguments")
	if !ok {
		arguments = json.RawMessage(`{}`)
	}
	return &rerun.Context{Principal: c.Principal(), Method: req.Method, Name: name, Arguments: arguments}
}

// end ends the run of the handler, which has returned err. It returns the result that asks for
// input if the handler made an input request without a response. It fails if the run is not valid.
// For other calls it returns nil.
func (c *Call) end(name string, err error) (*mcp.InputRequiredResult, error) {
	c.ended.Store(true)
	r := c.log.Load()
	if r == nil {
		return nil, nil
	}
	entries, open, fault := r.End()
	if fault != nil {
		if rerun.Invalid(fault) {
			fault = c.invalidRun(name, fault)
		}
		return nil, fault
	}
	if len(open) == 0 {
		return nil, nil
	}
	if p, panicked := err.(*boundary.Panic); panicked {
		cause, _ := p.Value.(error)
		if _, expected := errors.AsType[*InputRequiredError](cause); !expected {
			boundary.Report(c.p.s.cfg.Logger, "handler panicked", err, "name", name)
		}
	}
	cfg := &c.p.s.cfg
	if cfg.Limits.Rounds > 0 && c.number >= cfg.Limits.Rounds {
		return nil, c.invalidRun(name, fmt.Errorf("the call needs input again after %d rounds, which is the limit", c.number))
	}
	state := &rerun.State{Call: r.ID(), Version: c.tool.functionVersion(), Round: c.number + 1, Expires: c.p.s.now().Add(cfg.stateTTL()), Entries: entries, Asked: make([]rerun.Asked, len(open))}
	result := &mcp.InputRequiredResult{ResultType: modern.ResultInputRequired, InputRequests: make(mcp.InputRequests, len(open))}
	for i, o := range open {
		state.Asked[i] = o.Asked
		result.InputRequests[o.Name], _ = o.Value.(mcp.InputRequest)
	}
	state.Asked = append(state.Asked, r.Left()...)
	sealed := c.p.s.keys.get(c.ctx).SealState(c.stateContext(name), state)
	if len(sealed) > cfg.Limits.State {
		return nil, c.invalidRun(name, fmt.Errorf("the results of steps and input requests take %d bytes of requestState, the limit is %d: return less from the steps", len(sealed), cfg.Limits.State))
	}
	result.RequestState = &sealed
	return result, nil
}

// compensate runs the undos that the handler has registered, if the call has failed or the task was
// cancelled or has expired. Failed says that the outcome is an error: err or, if that is nil,
// result. First is the outcome of the call in place of that, if it is not nil and fault is nil.
func (c *Call) compensate(failed bool, result codec.Encoder, err error) (first *task.Outcome, fault error) {
	if l := c.log.Load(); l != nil {
		return l.Undo(failed, result, err)
	}
	return nil, nil
}

// exit ends the run and runs the undos if the function of the call has not returned, but called
// [runtime.Goexit].
func (c *Call) exit(returned *bool) {
	if *returned {
		return
	}
	c.ended.Store(true)
	if l := c.log.Load(); l != nil {
		l.Exit()
	}
}

// handlerContext returns the context for the function of the call. The caller must call release
// when the function has returned.
func (c *Call) handlerContext(ctx context.Context) (in context.Context, release func()) {
	if run, ok := c.Task(); ok && run.Internals(boundary.Caller{}).Undoes() {
		return c.recording().HandlerContext(ctx)
	}
	return ctx, func() {}
}

// invalidRun logs why the run of a handler is not valid, and returns the error for the client.
func (c *Call) invalidRun(name string, fault error) error {
	if c.ctx.Err() != nil {
		return fault
	}
	c.p.s.cfg.Logger.Error("handler not continued", "name", boundary.Text(name, maxQuotedBytes), "error", fault)
	return internalError("%s", fault)
}

// now returns the time that sealed texts expire by: that of the task store if there is one, because
// the process that opens a text may not be the one that has sealed it.
func (s *Server) now() time.Time {
	now := time.Now()
	if store := s.cfg.Tasks.Store; store != nil {
		boundary.Run(func() error { now = store.Now(); return nil })
	}
	return now
}

// maxStateTTL is how long a state is valid if [Limits.InputTimeout] is not limited.
const maxStateTTL = 24 * time.Hour

// stateTTL returns how long a state is valid.
func (cfg *Options) stateTTL() time.Duration {
	if cfg.Limits.InputTimeout <= 0 {
		return maxStateTTL
	}
	return cfg.Limits.InputTimeout
}
