package proxy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// A requestState for clients is the name of the upstream, a colon, and one of these followed by the
// state of that kind. Without any of these, the upstream has no state. The upstream must check its
// own state in any case. The name keeps the input from other upstreams. The tag keeps other
// principals, whom the upstream cannot tell apart, from continuing the call.
const (
	stateOpaque = "s" // the tag that binds the state of an upstream without sessions, a dot, and the state
	stateHeld   = "h" // of a held call, see heldState
	statePages  = "u" // the number of rounds in which the client was asked to visit pages
)

func invalidState(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState: " + fmt.Sprintf(format, args...)}
}

// callModern passes a modern request to the upstream.
func (l *link) callModern(ctx context.Context, conn *connection, req *session.Request, params json.RawMessage) (json.RawMessage, error) {
	state, given := textOf(params, "requestState")
	if given {
		ok := false
		if state, ok = strings.CutPrefix(state, l.up.Name+":"); !ok {
			return nil, invalidState("not issued for this request")
		}
	}
	if l.c.anonymous && (wantsLogs(req) || !conn.session.Traits().InputInResults && l.c.takesInput() && modern.TakesInput(req.Method)) {
		// Other clients may use the connection, too, and messages of the upstream do not say which
		// request they belong to.
		return l.callAlone(ctx, conn, req, params, state)
	}
	return l.callOver(ctx, conn, req, params, state, func() {})
}

// callAlone is callModern over a connection of its own, except for a held call, which has one.
func (l *link) callAlone(ctx context.Context, conn *connection, req *session.Request, params json.RawMessage, state string) (json.RawMessage, error) {
	if strings.HasPrefix(state, stateHeld) {
		return l.callOver(ctx, conn, req, params, state, func() {})
	}
	known, ok := conn.session.Internals(boundary.Caller{}).State()
	if !ok {
		return nil, l.unavailable()
	}
	own, err := l.open(ctx, &known)
	if err != nil {
		return nil, l.failure(ctx, req.Method, err)
	}
	// The response does not wait for the end of the connection, which may be that of a child process.
	return l.callOver(ctx, own, req, params, state, func() { l.c.p.upstream.Go(own.close) })
}

// callOver is callModern over a connection, with the upstream's part of the requestState. It calls
// done when it no longer uses the connection, which may be after it has returned.
func (l *link) callOver(ctx context.Context, conn *connection, req *session.Request, params json.RawMessage, state string, done func()) (json.RawMessage, error) {
	if conn.session.Traits().InputInResults {
		defer done()
		if tagged, ok := strings.CutPrefix(state, stateOpaque); ok {
			tag, opaque, _ := strings.Cut(tagged, ".")
			if !l.isBound(boundState, opaque, tag) {
				return nil, invalidState("not issued for this request")
			}
			params = jsonedit.With(params, "requestState", quote(opaque))
		} else if state == "" {
			params = jsonedit.With(params, "requestState", nil)
		} else {
			return nil, invalidState("the upstream has begun to speak another revision: send the request again without it")
		}
		result, err := l.callWith(l.mirror(ctx, conn, req.Method, params), conn, conn.callerFor(req), req, params)
		return l.namedRequests(l.withState(withoutAlike(result, "resultType", "inputRequests", "requestState"))), err
	}
	if held, ok := strings.CutPrefix(state, stateHeld); ok {
		defer done()
		return l.c.resume(ctx, l, req, held)
	}
	pages, visited := 0, false
	if text, ok := strings.CutPrefix(state, statePages); ok {
		pages, _ = strconv.Atoi(text)
		visited = true
	} else if state != "" {
		done()
		return nil, invalidState("the upstream has begun to speak another revision: send the request again without it")
	}
	if visited {
		if err := pagesVisited(req.Params); err != nil {
			done()
			return nil, err
		}
	}
	conn.setLogLevel(ctx, req)
	params = forSession(params)
	var result json.RawMessage
	var err error
	if l.c.takesInput() && modern.TakesInput(req.Method) {
		result, err = l.hold(ctx, conn, req, params, done)
	} else {
		defer done()
		result, err = l.callWith(ctx, conn, conn.callerFor(req), req, params)
	}
	return l.requirePages(req, result, err, pages)
}

// withState adds the name of the upstream to the requestState of a result that asks for input.
func (l *link) withState(result json.RawMessage) json.RawMessage {
	if _, ok := modern.ReadRequired(result); !ok {
		return result
	}
	state, ok := textOf(result, "requestState")
	if ok {
		state = stateOpaque + l.bind(boundState, state) + "." + state
	}
	return jsonedit.With(result, "requestState", quote(l.up.Name+":"+state))
}

// forSession removes the members of params that only revisions without sessions define.
func forSession(params json.RawMessage) json.RawMessage {
	for _, name := range []string{"inputResponses", "requestState", "task"} {
		params = jsonedit.With(params, name, nil)
	}
	meta, ok := codec.Member(params, "_meta")
	if !ok {
		return params
	}
	for _, name := range []string{modern.MetaVersion, modern.MetaClientInfo, modern.MetaCapabilities, modern.MetaLogLevel} {
		meta = jsonedit.With(meta, name, nil)
	}
	if string(meta) == "{}" {
		meta = nil
	}
	return jsonedit.With(params, "_meta", meta)
}

// mirror returns a context for a call of a tool with the header fields of its arguments.
func (l *link) mirror(ctx context.Context, conn *connection, method string, params json.RawMessage) context.Context {
	if method != mcp.MethodToolsCall || !conn.overHTTP {
		return ctx
	}
	name, _ := textOf(params, "name")
	for _, f := range l.features(tools) {
		if f.original == name {
			return modern.WithParamHeaders(ctx, modern.FieldHeader(f.headerFields(), argumentsOf(params)))
		}
	}
	return ctx
}

// features returns the features that the upstream lists.
func (l *link) features(k kind) []*feature {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.lists[k] == nil {
		return nil
	}
	return l.lists[k].features
}

// checkFields returns an error unless the header of a modern HTTP request repeats the arguments of
// a tool.
func (c *client) checkFields(ctx context.Context, req *session.Request) error {
	header, _ := transport.HTTP(ctx)
	if !req.Traits().ParamHeaders || header == nil {
		return nil
	}
	name, _ := textOf(req.Params, "name")
	f := c.table.Load().get(tools, name)
	if f == nil {
		return nil
	}
	return modern.CheckFields(f.headerFields(), argumentsOf(req.Params), header)
}

// headerFields returns the arguments of a tool that clients repeat in header fields, or nil if its
// schema is invalid.
func (f *feature) headerFields() []modern.Field {
	list, err := f.fields()
	if err != nil {
		return nil
	}
	return list
}

func argumentsOf(params json.RawMessage) json.RawMessage {
	if arguments, ok := codec.Member(params, "arguments"); ok {
		return arguments
	}
	return json.RawMessage(`{}`)
}

// callInRounds passes a request of a session to an upstream without sessions. Input requests of the
// upstream become requests to the client.
func (l *link) callInRounds(ctx context.Context, conn *connection, req *session.Request, params json.RawMessage) (json.RawMessage, error) {
	caller := &inRounds{l, conn.callerFor(req), req}
	return l.callWith(l.mirror(ctx, conn, req.Method, params), conn, caller, req, l.c.withLogLevel(params))
}

// inRounds sends a request of a session to an upstream without sessions, and again after each
// round.
type inRounds struct {
	l   *link
	to  jsonrpc.Caller
	req *session.Request
}

// Call implements [jsonrpc.Caller].
func (x *inRounds) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	result, _, err := modern.CallInRounds(ctx, x.to, method, params, x.l.c.p.maxRounds(), x.respond)
	if err == modern.ErrRounds {
		err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "upstream " + x.l.up.Name + " asks for input too often"}
	}
	return result, err
}

// maxInputRequests limits the input requests in one result.
const maxInputRequests = 64

// respond passes input requests to the client, all at once, and returns the responses.
func (x *inRounds) respond(ctx context.Context, requests []modern.InputRequest) ([]modern.InputResponse, error) {
	if len(requests) > maxInputRequests {
		return nil, fmt.Errorf("proxy: upstream %s makes %d input requests at once", x.l.up.Name, len(requests))
	}
	ctx, cancel := context.WithCancelCause(x.req.Internals(boundary.Caller{}).NewContext(ctx))
	defer cancel(nil)
	responses := make([]modern.InputResponse, len(requests))
	done := make(chan struct{})
	for i, in := range requests {
		go func() { // ends with ctx or the client's response
			defer func() { done <- struct{}{} }()
			text, err := x.l.askFor(ctx, in)
			if err != nil {
				cancel(fmt.Errorf("input request %s of upstream %s: %w", in.Method, x.l.up.Name, err))
			}
			responses[i] = modern.InputResponse{Key: in.Key, Text: text}
		}()
	}
	for range requests {
		<-done
	}
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if _, undeclared := errors.AsType[*session.CapabilityError](cause); undeclared {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: boundary.ErrorText(cause)}
		}
		return nil, cause
	}
	return responses, nil
}

// askFor passes an input request to the client, over its session.
func (l *link) askFor(ctx context.Context, in modern.InputRequest) (json.RawMessage, error) {
	switch in.Method {
	case mcp.MethodElicitationCreate, mcp.MethodSamplingCreateMessage, mcp.MethodRootsList:
	default:
		return nil, errors.New("unknown method")
	}
	params := l.named(in.Method, in.Params)
	if mode, _ := textOf(params, "mode"); mode == "url" {
		params = jsonedit.With(params, "elicitationId", quote(rand.Text())) // required in sessions
	}
	return l.ask(ctx, &session.Request{Method: in.Method}, params)
}

// requirePages returns the result of a call. If the error is that of an upstream whose user must
// visit pages first, the result asks the client for that: revisions without sessions do not have
// the error. Pages is the number of rounds so far.
func (l *link) requirePages(req *session.Request, result json.RawMessage, err error, pages int) (json.RawMessage, error) {
	failed, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || failed.Code != server.CodeURLElicitationRequired || !modern.TakesInput(req.Method) || !l.c.params.Capabilities.Declares("elicitation.url") {
		return result, err
	}
	if limit := l.c.p.maxRounds(); limit >= 0 && pages >= limit {
		return nil, err
	}
	var asked []modern.InputRequest
	for i, page := range elements(failed.Data, "elicitations") {
		asked = append(asked, modern.InputRequest{
			Key: "page" + strconv.Itoa(i+1), Method: mcp.MethodElicitationCreate, Params: jsonedit.With(jsonedit.With(page, "elicitationId", nil), "mode", quote("url")),
		})
	}
	if len(asked) == 0 || len(asked) > maxInputRequests {
		return nil, err
	}
	return l.require(asked, statePages+strconv.Itoa(pages+1))
}

// pagesVisited returns an error unless the user has agreed to visit all pages.
func pagesVisited(params json.RawMessage) error {
	responses, _ := codec.Member(params, "inputResponses")
	action := ""
	err := codec.ReadPart(responses, func(r *wire.Reader) {
		for r.Object(); r.More(); {
			r.Key()
			if text, _ := textOf(r.Raw(), "action"); action == "" || action == string(mcp.ElicitActionAccept) {
				action = text
			}
		}
	})
	if err != nil || action != string(mcp.ElicitActionAccept) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the user has not agreed to visit the page"}
	}
	return nil
}

// require returns a result that asks the client for input.
func (l *link) require(asked []modern.InputRequest, state string) (json.RawMessage, error) {
	requests := json.RawMessage(`{}`)
	for _, in := range asked {
		request := jsonedit.With(json.RawMessage(`{}`), "method", quote(in.Method))
		if in.Params != nil {
			request = jsonedit.With(request, "params", in.Params)
		}
		requests = jsonedit.With(requests, in.Key, request)
	}
	result := json.RawMessage(`{"resultType":"` + modern.ResultInputRequired + `"}`)
	result = jsonedit.With(result, "inputRequests", requests)
	return jsonedit.With(result, "requestState", quote(l.up.Name+":"+state)), nil
}
