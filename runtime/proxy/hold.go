package proxy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// heldCall is a request of a modern client to an upstream with sessions. When the upstream asks for
// input, the client gets the input requests as the result, and the request to the upstream stays
// open until the client has sent the responses with a further request. The upstream serves one
// request in all rounds.
type heldCall struct {
	c      *client
	call   *call // at the upstream
	id     string
	digest string // of the request without responses
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when result and err are set
	result json.RawMessage
	err    error
	wake   chan struct{} // has room for one; signals an input request
	alone  *connection   // of the call if it has one of its own, and otherwise nil
	waits  time.Time     // since when the call waits for input; guarded by slots.mu

	mu      sync.Mutex
	request *session.Request // that waits for the result; nil between rounds
	round   int              // number of rounds that have ended
	asked   []*askedInput    // without a response
	number  int              // of input requests so far
	timer   *time.Timer      // runs between rounds
}

// askedInput is an input request of a held call.
type askedInput struct {
	modern.InputRequest
	response chan json.RawMessage // buffers one
}

// maxHeld limits the held calls of a client that wait for the next round.
const maxHeld = 100

var (
	errInputLate     = errors.New("proxy: no input within the time limit")
	errInputRounds   = errors.New("proxy: limit of input rounds reached")
	errHeldEnded     = errors.New("proxy: call has ended")
	errTooManyHeld   = errors.New("proxy: too many calls wait for input")
	errNothingServed = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the client waits for no result: input requests belong to a call"}
)

// attached returns the request that waits for the result, or nil.
func (h *heldCall) attached() *session.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.request
}

// digestOf identifies a request in all its rounds.
func digestOf(req *session.Request) string {
	return rerun.InputKey(req.Method, jsonedit.With(jsonedit.With(req.Params, "inputResponses", nil), "requestState", nil))
}

// hold passes a request of a modern client to an upstream with sessions, and returns the result, or
// one that asks for input. It calls done when the request has ended, which may be after it has
// returned.
func (l *link) hold(ctx context.Context, conn *connection, req *session.Request, params json.RawMessage, done func()) (json.RawMessage, error) {
	h := &heldCall{
		c: l.c, id: rand.Text(), digest: digestOf(req), done: make(chan struct{}), wake: make(chan struct{}, 1), request: req,
	}
	h.call = l.newCall(req, h)
	if conn.alone {
		h.alone = conn
	}
	held, cancel := context.WithCancelCause(l.c.ctx)
	h.cancel = cancel
	caller := conn.caller
	if !req.Internals(boundary.Caller{}).ProgressToken().IsZero() {
		caller = conn.session.With(session.Timeout(0), session.OnProgress(func(p session.Progress) {
			if to := h.attached(); to != nil {
				conn.report(to.Internals(boundary.Caller{}).Progress(), p)
			}
		}))
	}
	l.c.p.keep(l.c)
	l.c.p.upstream.Go(func() { // ends with held, which attend and the timer end, or with the result
		defer l.c.p.leave(l.c)
		defer done()
		defer cancel(nil)
		defer close(h.done)
		h.result, h.err = l.serveCall(held, conn, caller, h.call, params)
	})
	return l.attend(ctx, h)
}

// attend waits for the result of a held call, or until the upstream needs input.
func (l *link) attend(ctx context.Context, h *heldCall) (json.RawMessage, error) {
	for {
		select {
		case <-h.done:
			h.c.release(h)
			return h.result, h.err
		case <-ctx.Done():
			h.cancel(context.Cause(ctx))
			<-h.done
			h.c.release(h)
			return nil, context.Cause(ctx)
		case <-h.wake:
			h.call.sendLogs(ctx)
			if result, ok, err := l.endRound(h); ok {
				return result, err
			}
		}
	}
}

// endRound ends a round if there are input requests without a response. Otherwise, ok is false.
func (l *link) endRound(h *heldCall) (result json.RawMessage, ok bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.asked) == 0 {
		return nil, false, nil
	}
	if limit := l.c.p.maxRounds(); limit >= 0 && h.round >= limit {
		h.cancel(errInputRounds)
		return nil, false, nil // the call fails
	}
	if !h.c.retain(h) {
		h.cancel(errTooManyHeld)
		return nil, false, nil
	}
	h.round++
	h.request = nil
	h.timer = time.AfterFunc(l.c.p.inputTimeout(), func() { h.cancel(errInputLate); h.c.release(h) })
	var open []modern.InputRequest
	for _, a := range h.asked {
		open = append(open, a.InputRequest)
	}
	result, err = l.require(open, stateHeld+l.c.p.process+"."+h.id+"."+strconv.Itoa(h.round))
	return result, true, err
}

// retain adds a call to those that wait for the next round. It returns false if there are too many.
func (c *client) retain(h *heldCall) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) >= maxHeld && c.held[h.id] == nil {
		return false
	}
	c.held[h.id] = h
	if h.alone != nil {
		h.alone.l.slots.begin(h.alone.account, h)
	}
	return true
}

// release removes a call from those that wait for the next round.
func (c *client) release(h *heldCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, h.id)
	if h.alone != nil {
		h.alone.l.slots.end(h.alone.account, h)
	}
}

// heldCall returns the held call with an id, or nil. A client without a principal may have begun it
// in another network.
func (c *client) heldCall(id string) *heldCall {
	for _, other := range c.p.alike(c) {
		other.mu.Lock()
		h := other.held[id]
		other.mu.Unlock()
		if h != nil {
			return h
		}
	}
	return nil
}

// resume continues a held call with the responses in a request. State is that of require.
func (c *client) resume(ctx context.Context, l *link, req *session.Request, state string) (json.RawMessage, error) {
	process, rest, _ := strings.Cut(state, ".")
	id, number, _ := strings.Cut(rest, ".")
	if process != c.p.process {
		return nil, invalidState("the call was held by another process of the proxy: send the request again without it")
	}
	h := c.heldCall(id)
	if h == nil {
		return nil, invalidState("the call has ended, was made by another client, or has waited for input too long: send the request again without it")
	}
	if err := h.respond(req, number); err != nil {
		return nil, err
	}
	return l.attend(ctx, h)
}

// respond begins a round: it passes the responses in a request to the upstream. It fails, and the
// call continues to wait, if the request does not fit.
func (h *heldCall) respond(req *session.Request, round string) error {
	responses, _ := codec.Member(req.Params, "inputResponses")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case digestOf(req) != h.digest:
		return invalidState("not issued for this request")
	case h.request != nil || round != strconv.Itoa(h.round):
		return invalidState("the input of this round was received before")
	}
	for _, a := range h.asked {
		if response, ok := codec.Member(responses, a.Key); ok && !responds(a.Method, response) {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "inputResponses: " + strconv.Quote(a.Key) + " is not a response to " + a.Method}
		}
	}
	if !h.timer.Stop() {
		return invalidState("the call has waited for input too long: send the request again without it")
	}
	if h.alone != nil {
		h.alone.l.slots.end(h.alone.account, h)
	}
	h.request = req
	h.asked = slices.DeleteFunc(h.asked, func(a *askedInput) bool {
		response, ok := codec.Member(responses, a.Key)
		if ok {
			a.response <- slices.Clone(response)
		}
		return ok
	})
	if len(h.asked) > 0 {
		h.signal() // the client is asked again
	}
	return nil
}

// responds reports whether a text has the members that a response to an input request needs.
func responds(method string, response json.RawMessage) bool {
	switch method {
	case mcp.MethodElicitationCreate:
		action, _ := textOf(response, "action")
		return slices.Contains([]mcp.ElicitAction{mcp.ElicitActionAccept, mcp.ElicitActionDecline, mcp.ElicitActionCancel}, mcp.ElicitAction(action))
	case mcp.MethodSamplingCreateMessage:
		_, ok := codec.Member(response, "model")
		return ok
	}
	_, ok := codec.Member(response, "roots")
	return ok
}

// signal makes attend look at the input requests.
func (h *heldCall) signal() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// ask passes a request of an upstream with sessions to a modern client, in the result of a call.
func (x *connection) ask(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	switch req.Method {
	case mcp.MethodElicitationCreate, mcp.MethodSamplingCreateMessage, mcp.MethodRootsList:
	default:
		return nil, jsonrpc.MethodNotFound(req.Method)
	}
	params := x.l.named(req.Method, jsonedit.With(forClient(req.Params), "elicitationId", nil))
	for h := x.asking(); h != nil; h = x.asking() {
		response, err := h.ask(ctx, req.Method, params)
		if err == errHeldEnded {
			continue // the request belongs to another call
		}
		if err != nil {
			return nil, err
		}
		return session.Raw(response), nil
	}
	return nil, errNothingServed
}

// asking returns the held call whose result asks for an input request, or nil. An upstream does not
// say which call the request belongs to: all are of one client. Calls that wait for their result
// come first.
func (x *connection) asking() *heldCall {
	x.mu.Lock()
	defer x.mu.Unlock()
	var waiting *heldCall
	for _, call := range x.calls {
		switch {
		case call.held == nil:
		case call.held.attached() != nil:
			return call.held
		case waiting == nil:
			waiting = call.held
		}
	}
	return waiting
}

// forClient removes the members of the params of an input request that only sessions define.
func forClient(params json.RawMessage) json.RawMessage {
	meta, ok := codec.Member(params, "_meta")
	if !ok {
		return params
	}
	if meta = jsonedit.With(meta, "progressToken", nil); string(meta) == "{}" {
		meta = nil
	}
	return jsonedit.With(params, "_meta", meta)
}

// ask adds an input request and waits for the response. It fails with errHeldEnded if the call ends
// first.
func (h *heldCall) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	a := &askedInput{response: make(chan json.RawMessage, 1)}
	h.mu.Lock()
	h.number++
	a.InputRequest = modern.InputRequest{Key: "input" + strconv.Itoa(h.number), Method: method, Params: slices.Clone(params)}
	h.asked = append(h.asked, a)
	h.mu.Unlock()
	h.signal()
	select {
	case response := <-a.response:
		return response, nil
	case <-ctx.Done():
		h.withdraw(a)
		return nil, context.Cause(ctx)
	case <-h.done:
		h.withdraw(a)
	}
	select {
	case response := <-a.response:
		return response, nil
	default:
		return nil, errHeldEnded
	}
}

// withdraw removes an input request that the upstream has cancelled.
func (h *heldCall) withdraw(a *askedInput) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = slices.DeleteFunc(h.asked, func(other *askedInput) bool { return other == a })
}
