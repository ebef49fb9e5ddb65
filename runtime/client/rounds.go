package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// InputError is returned if a server needs input for a request in a revision without sessions, and
// the client cannot give it. The request has no effect on the server then, unless it says so.
type InputError struct {
	Method string // of the input request, such as elicitation/create
	Err    error  // why there is no response; the error of the handler in Options
}

// Error names the method and the cause.
func (e *InputError) Error() string {
	return fmt.Sprintf("client: input request %s: %v", e.Method, e.Err)
}

// Unwrap returns Err.
func (e *InputError) Unwrap() error { return e.Err }

// ErrInputRounds is returned if a server asks for input more often than [Options].MaxInputRounds
// allows.
var ErrInputRounds = errors.New("client: limit of input rounds reached")

// maxInputRequests limits the input requests in one result.
const maxInputRequests = 64

// caller sends the requests of the methods of Client. In revisions without sessions it uses cached
// results and responds to input requests; otherwise it does nothing of its own.
type caller struct {
	c  *Client
	to jsonrpc.Caller
}

// caller returns a caller with options for the session.
func (c *Client) caller(opts ...session.Option) caller {
	if len(opts) == 0 {
		return caller{c, c.session}
	}
	return caller{c, c.session.With(opts...)}
}

// Call implements [jsonrpc.Caller].
func (k caller) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	if !k.c.session.Modern() {
		return k.to.Call(ctx, method, params)
	}
	return k.c.cache.call(ctx, method, params, func() (json.RawMessage, bool, error) { return k.rounds(ctx, method, params) })
}

// rounds sends a request until its result is complete. Each time that the result asks for input,
// rounds collects the responses and sends the request again (MCP multi round-trip requests, "Client
// Requirements"). asked reports whether there was more than one round.
func (k caller) rounds(ctx context.Context, method string, params codec.Encoder) (result json.RawMessage, asked bool, err error) {
	result, err = k.to.Call(ctx, method, params)
	if err != nil || !takesInput(method) {
		return result, false, err
	}
	var wait time.Duration // before the next round without input requests
	for round := 1; ; round++ {
		required, ok := inputRequired(result)
		if !ok {
			return result, round > 1, nil
		}
		if limit := k.c.options.MaxInputRounds; limit >= 0 && round > limit {
			return nil, true, fmt.Errorf("%w: %s: %d", ErrInputRounds, method, limit)
		}
		again := &retry{params: params, state: required.state}
		if required.requests != nil {
			wait = 0
			if again.responses, err = k.c.respond(ctx, required.requests); err != nil {
				return nil, true, err
			}
		} else if wait, err = pause(ctx, wait); err != nil {
			return nil, true, err
		}
		if result, err = k.to.Call(ctx, method, again); err != nil {
			return nil, true, err
		}
	}
}

// Delays before rounds without input requests. The first such round follows at once.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// pause waits for d, and returns the next delay. It fails with the cause of ctx.
func pause(ctx context.Context, d time.Duration) (next time.Duration, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return min(max(2*d, firstPause), maxPause), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// takesInput reports whether the result of a method may ask for input.
func takesInput(method string) bool {
	return method == mcp.MethodToolsCall || method == mcp.MethodPromptsGet || method == mcp.MethodResourcesRead
}

// required is what a result asks for.
type required struct {
	requests []inputRequest  // nil if it asks for no input
	state    json.RawMessage // the text of requestState; nil if there is none
}

type inputRequest struct {
	key    string
	method string
	params json.RawMessage // nil for none
}

// inputRequired returns what a result asks for. ok is false if it is complete. The session has
// checked its resultType.
func inputRequired(result json.RawMessage) (r required, ok bool) {
	kind, found := codec.Member(result, "resultType")
	if !found || string(kind) != `"input_required"` {
		return required{}, false
	}
	r.state, _ = codec.Member(result, "requestState")
	requests, found := codec.Member(result, "inputRequests")
	if !found {
		return r, true
	}
	codec.ReadPart(requests, func(reader *wire.Reader) {
		for reader.Object(); reader.More(); {
			in := inputRequest{key: reader.Key()}
			text := reader.Raw()
			if method, ok := codec.Member(text, "method"); ok {
				codec.ReadPart(method, func(m *wire.Reader) { in.method = m.Text() })
			}
			in.params, _ = codec.Member(text, "params")
			r.requests = append(r.requests, in)
		}
	})
	return r, true
}

// response is the response to an input request.
type response struct {
	key  string
	text json.RawMessage
}

// respond passes input requests to their handlers, all at once, and returns the responses. If one
// fails, it ends the contexts of the others.
func (c *Client) respond(ctx context.Context, requests []inputRequest) ([]response, error) {
	if len(requests) > maxInputRequests {
		return nil, fmt.Errorf("client: %d input requests in one result, more than %d", len(requests), maxInputRequests)
	}
	for _, in := range requests {
		if err := c.takes(in.method); err != nil {
			return nil, &InputError{in.method, err}
		}
	}
	if limit := c.options.Session.InputTimeout; limit >= 0 {
		if limit == 0 {
			limit = session.DefaultInputTimeout
		}
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, session.ErrTimeout)
		defer stop()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	responses := make([]response, len(requests))
	var handlers sync.WaitGroup
	for i, in := range requests {
		handlers.Go(func() { // ends with the handler
			text, err := c.handle(ctx, i, in)
			if err != nil {
				cancel(&InputError{in.method, err})
			}
			responses[i] = response{in.key, text}
		})
	}
	handlers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return responses, nil
}

// takes returns an error if the client has not declared that it responds to an input request.
func (c *Client) takes(method string) error {
	declared := c.session.Client().Capabilities
	switch {
	case method == mcp.MethodElicitationCreate && declared.Elicitation != nil,
		method == mcp.MethodSamplingCreateMessage && declared.Sampling != nil,
		method == mcp.MethodRootsList && declared.Roots != nil:
		return nil
	}
	return errors.New("not declared by the client")
}

// handle passes an input request to its handler.
func (c *Client) handle(ctx context.Context, number int, in inputRequest) (json.RawMessage, error) {
	result, err := c.session.Handle(ctx, &session.Request{ID: codec.IntScalar(int64(number) + 1), Method: in.method, Params: in.params})
	switch {
	case err != nil:
		return nil, err
	case result == nil:
		return nil, errors.New("the handler returned no result")
	}
	return codec.Marshal(result)
}

// retry is the params of a request that is sent again with input.
type retry struct {
	params    codec.Encoder
	responses []response      // nil for none
	state     json.RawMessage // nil for none
}

// EncodeJSON implements [codec.Encoder].
func (r *retry) EncodeJSON(w *wire.Writer) {
	params, err := codec.Marshal(r.params)
	if err != nil {
		w.Fail("", err)
		return
	}
	w.Begin()
	err = codec.ReadPart(params, func(reader *wire.Reader) {
		for reader.Object(); reader.More(); {
			name := reader.Key()
			if raw := reader.Raw(); !slices.Contains([]string{"inputResponses", "requestState"}, name) {
				w.MapKey(name)
				w.Raw(raw)
			}
		}
	})
	w.Fail("", err)
	if r.responses != nil {
		w.Key(`,"inputResponses":`)
		w.Begin()
		for _, response := range r.responses {
			w.MapKey(response.key)
			w.Raw(response.text)
		}
		w.End()
	}
	if r.state != nil {
		w.Key(`,"requestState":`)
		w.Raw(r.state)
	}
	w.End()
}
