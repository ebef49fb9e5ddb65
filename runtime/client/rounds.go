package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// InputError is returned if a server needs input for a request in a revision without sessions, and
// the client cannot give it: a handler fails, or the server has asked for input
// [Limits].InputRounds times. The request then has no effect on the server, unless the server says
// so. A task still waits for the input: [requestor.Handle.Result] asks for it again.
type InputError struct {
	Method string // of the input request, such as elicitation/create; "" at the limit of rounds
	Err    error  // why there is no response; the error of the handler in Options
}

// Error names the method and the cause.
func (e *InputError) Error() string {
	if e.Method == "" {
		return fmt.Sprintf("client: input requests: %v", e.Err)
	}
	return fmt.Sprintf("client: input request %s: %v", e.Method, e.Err)
}

// Unwrap returns Err.
func (e *InputError) Unwrap() error { return e.Err }

// maxInputRequests limits the input requests in one result.
const maxInputRequests = 64

// caller sends the requests of the methods of Client. In revisions without sessions it uses cached
// results and responds to input requests; otherwise it passes results on.
type caller struct {
	c  *Client
	to jsonrpc.Caller
}

// caller returns a caller with options for the session.
func (c *Client) caller(opts ...session.Option) jsonrpc.Caller {
	if len(opts) == 0 {
		return c.requests
	}
	return caller{c, c.session.With(opts...)}
}

// Call implements [jsonrpc.Caller].
func (k caller) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	if !k.c.session.Traits().InputInResults {
		return k.to.Call(ctx, method, params)
	}
	return k.c.cache.call(ctx, method, params, func() (json.RawMessage, bool, error) { return k.rounds(ctx, method, params) })
}

// waiting is a caller of tools/call that waits for the task if the server creates one.
type waiting struct{ caller }

// waiting returns a caller of tools/call with options for the session.
func (c *Client) waiting(opts ...session.Option) jsonrpc.Caller {
	if len(opts) == 0 {
		return c.calls
	}
	if c.session.Traits().TasksByServer {
		opts = append(opts, c.session.Internals(boundary.Caller{}).OnLate(c.cancelLate))
	}
	return waiting{caller{c, c.session.With(opts...)}}
}

// Call implements [jsonrpc.Caller].
func (k waiting) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	result, err := k.caller.Call(ctx, method, params)
	if err != nil || !k.c.session.Traits().TasksByServer || !requestor.Internals(boundary.Caller{}).IsTask(result) {
		return result, err
	}
	ctx = modern.WithParamHeaders(ctx, nil) // these belong to tools/call
	h, err := requestor.Internals(boundary.Caller{}).Created(ctx, k.c.tasks, k.c.session, method, result)
	if err != nil {
		return nil, err
	}
	return h.ResultOrCancel(ctx)
}

// rounds sends a request until its result is complete. asked reports whether there was more than
// one round.
func (k caller) rounds(ctx context.Context, method string, params codec.Encoder) (result json.RawMessage, asked bool, err error) {
	limit := k.c.options.Limits.InputRounds
	result, asked, err = modern.CallInRounds(ctx, k.to, method, params, limit, k.c.respond)
	if err == modern.ErrRounds {
		err = &InputError{Err: fmt.Errorf("%s: limit of %d rounds reached", method, limit)}
	}
	return result, asked, err
}

// respond passes input requests to their handlers, all at once, and returns the responses. If one
// fails, it ends the contexts of the others. It does not wait for handlers after the end of their
// context.
func (c *Client) respond(ctx context.Context, requests []modern.InputRequest) ([]modern.InputResponse, error) {
	if len(requests) > maxInputRequests {
		return nil, fmt.Errorf("client: %d input requests in one result, more than %d", len(requests), maxInputRequests)
	}
	for _, in := range requests {
		if err := c.takes(in.Method); err != nil {
			return nil, &InputError{in.Method, err}
		}
	}
	ctx, stop := c.withInputTimeout(ctx)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	responses := make([]modern.InputResponse, len(requests))
	var handlers sync.WaitGroup
	for i, in := range requests {
		handlers.Go(func() { // ends with the handler
			text, err := c.handle(ctx, &session.Request{ID: codec.IntScalar(int64(i) + 1), Method: in.Method, Params: in.Params})
			if err != nil {
				cancel(&InputError{in.Method, err})
			}
			responses[i] = modern.InputResponse{Key: in.Key, Text: text}
		})
	}
	returned := make(chan struct{})
	go func() { // ends with the handlers
		handlers.Wait()
		close(returned)
	}()
	select {
	case <-returned:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return responses, nil
}

// withInputTimeout returns a context that ends when a handler of input requests has taken too long.
func (c *Client) withInputTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := cmp.Or(c.options.Session.Timeouts.Input, engine.DefaultInputTimeout)
	if limit == session.NoLimit {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, session.ErrTimeout)
}

// respondToTask passes an input request of a task to its handler.
func (c *Client) respondToTask(ctx context.Context, req *session.Request) (json.RawMessage, error) {
	err := c.takes(req.Method)
	var text json.RawMessage
	if err == nil {
		limited, stop := c.withInputTimeout(ctx)
		defer stop()
		if text, err = c.handle(limited, req); err != nil && limited.Err() != nil {
			err = context.Cause(limited)
		}
	}
	if err != nil {
		return nil, &InputError{req.Method, err}
	}
	return text, nil
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
func (c *Client) handle(ctx context.Context, req *session.Request) (json.RawMessage, error) {
	result, err := c.session.Internals(boundary.Caller{}).Handle(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case result == nil:
		return nil, errors.New("the handler returned no result")
	}
	return codec.Marshal(result)
}
