package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/replay"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// InputRequiredError is the error of an input request that has no response yet, and of a [Step] that
// is not begun for that reason, in a call of a revision without sessions. The handler returns it,
// wrapped or not. It is called again, from its top, when the client has sent the responses; see
// [Step] for what that means.
//
// The server goes by the input requests of the call: whatever the handler and its middleware return,
// the client is asked for the input.
type InputRequiredError struct {
	// Method is the method of the input request, such as elicitation/create, or "" for a step.
	Method string
}

// Error says what to do with the error.
func (e *InputRequiredError) Error() string {
	return "server: input required: return this error, the handler is called again with the response"
}

// InputName returns a context for an input request, such as that of [Elicit]. In revisions without
// sessions, the client gets the request under this key of inputRequests, and sends the response under
// the same key of inputResponses. If another request of the round has the name, a number is added.
// By default, the server makes up a key. In revisions with sessions, InputName has no effect.
func InputName(ctx context.Context, name string) context.Context {
	return replay.WithName(ctx, name)
}

// RunAll calls functions concurrently, waits for all of them, and returns the first error in their
// order, or nil. Input requests of the functions reach the client together: in revisions without
// sessions, in one round. Requests that are made at the same time need different params, such as
// messages, unless it does not matter which of them gets which response. A panic of a function fails
// the call.
func (c *Call) RunAll(ctx context.Context, functions ...func(ctx context.Context) error) error {
	failed := make([]error, len(functions))
	done := make(chan struct{})
	for i, f := range functions {
		go func() { // ends with f
			defer func() { done <- struct{}{} }()
			failed[i] = boundary.ErrGoexit // unless f returns
			failed[i] = boundary.Run(func() error { return f(ctx) })
		}()
	}
	for range functions {
		<-done
	}
	var first error
	for _, err := range failed {
		switch p := err.(type) {
		case *boundary.Panic:
			panic(p) // in the goroutine of the handler
		case nil:
		default:
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// replayRun is one run of the handler of a call.
type replayRun struct {
	call     string // its id
	recorder *replay.Recorder
	rounds   *replay.Rounds // nil for a call that is not run again
	number   int            // of rounds that have ended
}

// recording returns the run of the call. It starts one on first use.
func (c *Call) recording() *replayRun {
	if r := c.replay.Load(); r != nil {
		return r
	}
	r := new(replayRun)
	if run, isTask := c.Task(); isTask {
		r.call = run.ID()
	} else {
		r.call = rand.Text()
		if c.rounds && c.inRounds() {
			r.rounds = replay.NewRounds(nil)
		}
	}
	if r.rounds == nil {
		r.recorder = replay.New(nil, nil, nil)
	} else {
		r.recorder = replay.New(r.rounds, nil, nil)
	}
	if !c.replay.CompareAndSwap(nil, r) {
		return c.replay.Load()
	}
	return r
}

// ask returns the response to an input request of a plain modern call. It calls prepare if there is
// none yet. The request is known by params, which are encoded in the same way in all runs.
func (c *Call) ask(ctx context.Context, method string, params codec.Encoder, transient bool, prepare func() (mcp.InputRequest, error)) (json.RawMessage, error) {
	if err := inStep(ctx, method); err != nil {
		return nil, err
	}
	request := &replay.Request{Method: method, Transient: transient}
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
	answer, err := c.recording().recorder.Input(ctx, request)
	return answer, replayError(err, method)
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

// replayError converts an error of the Recorder.
func replayError(err error, method string) error {
	switch err {
	case nil:
		return nil
	case replay.ErrSuspended:
		return &InputRequiredError{method}
	case replay.ErrEnded:
		return errors.New("server: the handler of the call has returned")
	}
	return err
}

// resume continues a modern call in which the client sends the responses of the last round. Name is
// that of the tool or prompt, or the URI of the resource.
func (c *Call) resume(name string, sealed *string, responses mcp.InputResponses) error {
	if sealed == nil || !c.inRounds() {
		return nil
	}
	state, err := c.openState(name, *sealed)
	if err != nil {
		c.p.s.cfg.Logger.Info("request state rejected", "name", boundary.Text(name, maxQuotedBytes), "error", err)
		return invalidParams("requestState: %s", err)
	}
	req, _ := session.FromContext(c.ctx)
	raw, _ := codec.Member(req.Params, "inputResponses")
	var pending []replay.Asked // the handler asks again
	for i := range state.Asked {
		asked := &state.Asked[i]
		response, ok := responses[asked.Name]
		if !ok {
			pending = append(pending, *asked)
			continue
		}
		if !answers(asked.Method, response) {
			return invalidParams("inputResponses: %q is not a response to %s", asked.Name, asked.Method)
		}
		text, _ := codec.Member(raw, asked.Name)
		state.Entries = append(state.Entries, asked.Entry(text))
	}
	r := &replayRun{call: state.Call, number: state.Round, rounds: replay.NewRounds(state.Entries)}
	r.recorder = replay.New(r.rounds, state.Entries, pending)
	c.replay.Store(r)
	return nil
}

// openState opens a sealed state. It fails if the state does not belong to the request.
func (c *Call) openState(name, sealed string) (*replay.State, error) {
	s := c.p.s
	if len(sealed) > s.cfg.MaxState {
		return nil, fmt.Errorf("longer than %d bytes", s.cfg.MaxState)
	}
	state, err := s.keys.OpenState(c.stateContext(name), sealed, time.Now())
	switch {
	case errors.Is(err, replay.ErrKey):
		return nil, errors.New("sealed with a key that this server does not have")
	case errors.Is(err, replay.ErrExpired):
		return nil, errors.New("expired")
	case err != nil:
		return nil, errors.New("not issued for this request")
	case state.Version != s.cfg.Info.Version:
		return nil, fmt.Errorf("issued by version %q of the server, this is version %q", state.Version, s.cfg.Info.Version)
	}
	return state, nil
}

// stateContext returns what identifies the call in its state.
func (c *Call) stateContext(name string) *replay.Context {
	req, _ := session.FromContext(c.ctx)
	arguments, ok := codec.Member(req.Params, "arguments")
	if !ok {
		arguments = json.RawMessage(`{}`)
	}
	return &replay.Context{Principal: c.Principal(), Method: req.Method, Name: name, Arguments: arguments}
}

// answers reports whether a response is of the type that an input request of the method has.
func answers(method string, response mcp.InputResponse) bool {
	switch r := response.(type) {
	case *mcp.ElicitResult:
		return method == mcp.MethodElicitationCreate && isElicitResult(r)
	case *mcp.CreateMessageResult:
		return method == mcp.MethodSamplingCreateMessage
	case *mcp.ListRootsResult:
		return method == mcp.MethodRootsList
	}
	return false
}

// end ends the run of the handler, which has returned err. It returns the result that asks for input
// if the handler made an input request without a response. It fails if the run is not valid. For
// other calls it returns nil.
func (c *Call) end(name string, err error) (*mcp.InputRequiredResult, error) {
	r := c.replay.Load()
	if r == nil {
		return nil, nil
	}
	if fault := r.recorder.End(c.ctx); fault != nil {
		return nil, c.invalidRun(name, fault)
	}
	if r.rounds == nil {
		return nil, nil
	}
	entries, open := r.rounds.Ended()
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
	if cfg.MaxRounds > 0 && r.number >= cfg.MaxRounds {
		return nil, c.invalidRun(name, fmt.Errorf("the call needs input again after %d rounds, which is the limit", r.number))
	}
	state := &replay.State{Call: r.call, Version: cfg.Info.Version, Round: r.number + 1, Expires: time.Now().Add(cfg.stateTTL()), Entries: entries, Asked: make([]replay.Asked, len(open))}
	result := &mcp.InputRequiredResult{ResultType: "input_required", InputRequests: make(mcp.InputRequests, len(open))}
	for i, o := range open {
		state.Asked[i] = o.Asked
		result.InputRequests[o.Name], _ = o.Value.(mcp.InputRequest)
	}
	sealed := c.p.s.keys.SealState(c.stateContext(name), state)
	if len(sealed) > cfg.MaxState {
		return nil, c.invalidRun(name, fmt.Errorf("the results of steps and input requests take %d bytes of requestState, the limit is %d: return less from the steps", len(sealed), cfg.MaxState))
	}
	result.RequestState = &sealed
	return result, nil
}

// invalidRun logs why the run of a handler is not valid, and returns the error for the client.
func (c *Call) invalidRun(name string, fault error) error {
	if c.ctx.Err() != nil {
		return fault
	}
	c.p.s.cfg.Logger.Error("handler not continued", "name", boundary.Text(name, maxQuotedBytes), "error", fault)
	return internalError("%s", fault)
}

// maxStateTTL is how long a state is valid if [Config.InputTimeout] is not limited.
const maxStateTTL = 24 * time.Hour

// stateTTL returns how long a state is valid.
func (cfg *Config) stateTTL() time.Duration {
	if cfg.InputTimeout <= 0 {
		return maxStateTTL
	}
	return cfg.InputTimeout
}
