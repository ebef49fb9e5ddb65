package gosdk

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/codec"
	wirerpc "github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Transport wraps a transport, such as [mcp.StdioTransport], so that its clients can call the tools
// of the server as tasks. Middleware of the server sees neither their tasks/* requests nor the
// calls that become tasks. It sees each run of a handler. If the transport sets Extra of requests to
// a [mcp.RequestExtra], as those over HTTP do, the tasks have its token info and its header.
func (t *Tasks) Transport(inner mcp.Transport) mcp.Transport { return transport{t, inner} }

type transport struct {
	t     *Tasks
	inner mcp.Transport
}

// Connect implements [mcp.Transport].
func (t transport) Connect(ctx context.Context) (mcp.Connection, error) {
	if err := t.t.Start(ctx); err != nil {
		return nil, err
	}
	inner, err := t.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &connection{
		Connection: inner, t: t.t, prefix: "mcpwire-" + rand.Text() + "-", forwarded: make(chan forwarded),
		calls: make(map[jsonrpc.ID]chan<- *jsonrpc.Response), serving: make(map[jsonrpc.ID]context.CancelCauseFunc), edits: make(map[jsonrpc.ID]edit),
	}
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return c, nil
}

// SupportsProtocolVersion implements [mcp.ProtocolVersionSupporter].
func (t transport) SupportsProtocolVersion(version string) bool {
	inner, ok := t.inner.(mcp.ProtocolVersionSupporter)
	return !ok || inner.SupportsProtocolVersion(version)
}

// connection is a connection to a client. It serves requests about tasks and passes all other
// messages to the SDK.
type connection struct {
	mcp.Connection
	t      *Tasks
	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc
	prefix string // of the ids of requests that this package sends to the client

	// The sources of Read, once a request may have to be forwarded to the SDK; see merge. The
	// engine decides while it serves a request whether the SDK has to serve it instead.
	incoming  chan incoming
	forwarded chan forwarded

	mu      sync.Mutex
	number  int64
	calls   map[jsonrpc.ID]chan<- *jsonrpc.Response // requests to the client that have no response
	serving map[jsonrpc.ID]context.CancelCauseFunc  // requests that the engine serves
	edits   map[jsonrpc.ID]edit                     // requests whose result is edited
	creates map[chan struct{}]struct{}              // one for each call that may create a task; closed after its response
	acks    map[wirerpc.ID]embedding.Outcome        // subscriptions with tasks that the SDK serves
	client  json.RawMessage                         // params of initialize; nil before
	// The same decoded, for the calls in the session; nil if that fails.
	handshake *mcp.InitializeParams
	version   string // of the session
	level     string // least level of log messages for the client
}

type incoming struct {
	message jsonrpc.Message
	err     error
}

// forwarded is a request that the SDK has to serve.
type forwarded struct {
	message *jsonrpc.Request
	ctx     context.Context // ends if the client cancels the request
	stop    func()          // of its subscription, or nil
}

// release hands a request over to the SDK: the connection no longer cancels it. It returns false if
// the client has cancelled it before.
func (c *connection) release(f forwarded) bool {
	cancelled := context.Cause(f.ctx) == errCancelled
	c.mu.Lock()
	cancel := c.serving[f.message.ID]
	delete(c.serving, f.message.ID)
	if cancelled {
		delete(c.acks, wireID(f.message.ID))
	}
	c.mu.Unlock()
	switch {
	case f.stop == nil:
		cancel(nil)
	case cancelled:
		f.stop()
	}
	return !cancelled
}

// edit describes a request whose result is edited.
type edit struct {
	method string
	modern bool
	params json.RawMessage
}

// Read implements [mcp.Connection].
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var in incoming
		if c.incoming == nil {
			in.message, in.err = c.Connection.Read(ctx)
		} else {
			select {
			case in = <-c.incoming:
			case f := <-c.forwarded:
				if c.release(f) {
					return f.message, nil
				}
				continue
			case <-c.ctx.Done():
				return nil, io.EOF
			}
		}
		if in.err != nil {
			c.end(in.err)
			return nil, in.err
		}
		if !c.intercept(ctx, in.message) {
			return in.message, nil
		}
	}
}

// merge makes Read return forwarded messages, too. The goroutine of Read calls it.
func (c *connection) merge(ctx context.Context) {
	if c.incoming != nil {
		return
	}
	c.incoming = make(chan incoming)
	go func() { // ends with the connection
		for {
			var in incoming
			in.message, in.err = c.Connection.Read(ctx)
			select {
			case c.incoming <- in:
			case <-c.ctx.Done():
				return
			}
			if in.err != nil {
				return
			}
		}
	}()
}

// intercept starts to serve a message of the client if it concerns tasks. It returns false if the
// SDK has to serve the message.
func (c *connection) intercept(ctx context.Context, m jsonrpc.Message) bool {
	switch m := m.(type) {
	case *jsonrpc.Response:
		return c.receiveResponse(m)
	case *jsonrpc.Request:
		switch m.Method {
		case methodInitialize, methodListTools, methodDiscover:
			if m.IsCall() {
				c.mu.Lock()
				c.edits[m.ID] = edit{m.Method, modern.Is(m.Params), m.Params}
				c.mu.Unlock()
			}
			return false
		case methodSetLevel:
			level, _ := codec.Member(m.Params, "level")
			c.mu.Lock()
			c.level = text(level)
			c.mu.Unlock()
			return false
		case methodCancelled:
			return c.cancelRequest(m.Params)
		}
		if m.IsCall() && c.t.engine.IsSpecial(m.Method, m.Params) {
			return c.startServing(ctx, m)
		}
	}
	return false
}

// text returns the text of a JSON string, or "".
func text(raw json.RawMessage) (s string) {
	json.Unmarshal(raw, &s)
	return s
}

// errCancelled is the cause of the end of a request that the client has cancelled.
var errCancelled = errors.New("gosdk: request cancelled by the client")

// cancelRequest cancels the request that a notifications/cancelled names. It returns false if the
// engine does not serve that request.
func (c *connection) cancelRequest(params json.RawMessage) bool {
	raw, _ := codec.Member(params, "requestId")
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return false
	}
	id, err := jsonrpc.MakeID(v)
	if err != nil {
		return false
	}
	c.mu.Lock()
	cancel := c.serving[id]
	c.mu.Unlock()
	if cancel == nil {
		return false
	}
	cancel(errCancelled)
	return true
}

// startServing starts to serve a request. It returns false for requests that are left to the SDK: it
// rejects those before the handshake, and serves one whose id is in use as if there were no tasks.
func (c *connection) startServing(ctx context.Context, m *jsonrpc.Request) bool {
	isModern := modern.Is(m.Params)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !isModern && c.version == "" {
		return false // the session is not initialized
	}
	if c.serving[m.ID] != nil {
		return false
	}
	if m.Method == methodCallTool || m.Method == methodListen {
		c.merge(ctx)
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	c.serving[m.ID] = cancel
	go c.serve(ctx, m, isModern, c.version, c.client, c.handshake) // ends with the request or the connection
	return true
}

// serve serves a request, or forwards it to the SDK.
func (c *connection) serve(ctx context.Context, m *jsonrpc.Request, isModern bool, version string, client json.RawMessage, handshake *mcp.InitializeParams) {
	in := &embedding.Incoming{ID: wireID(m.ID), Method: m.Method, Params: m.Params, Revision: wire.Revision(version), Session: c.SessionID()}
	extra, _ := m.Extra.(*mcp.RequestExtra) // of transports that know tokens or headers
	if extra != nil {
		in.Header = extra.Header
	}
	if isModern {
		in.Revision = wire.Revision(modernVersion)
		meta, _ := codec.Member(m.Params, "_meta")
		level, _ := codec.Member(meta, modern.MetaLogLevel)
		in.Plain = plainCall{c, text(level)}
		in.Send = func(ctx context.Context, method string, params json.RawMessage) error {
			return c.Connection.Write(ctx, &jsonrpc.Request{Method: method, Params: params})
		}
		in.Client.Initialize = modernClient(m.Params)
		handshake = nil
	} else {
		in.Requestor = c
		in.Client.Initialize = client
		if m.Method == methodCallTool {
			defer c.creating()()
		}
	}
	if extra != nil && extra.TokenInfo != nil {
		in.Client.User, in.Client.Scopes = extra.TokenInfo.UserID, extra.TokenInfo.Scopes
	}
	ctx = context.WithValue(ctx, originKey{}, &origin{extra: extra, client: handshake})
	var out embedding.Outcome
	var err error
	if in.Principal, err = c.t.principal(ctx, extra); err == nil {
		out, err = c.t.engine.Serve(ctx, in)
	}
	ended := context.Cause(ctx)
	forwards := err == nil && (!out.Handled || out.TaskIDs != nil) && ended != errCancelled
	c.mu.Lock()
	cancel := c.serving[m.ID]
	if !forwards {
		delete(c.serving, m.ID)
	}
	c.mu.Unlock()
	if stop := out.Stop; stop != nil {
		out.Stop = func() { stop(); cancel(nil) }
	} else if !forwards {
		cancel(nil)
	}
	response := &jsonrpc.Response{ID: m.ID}
	switch {
	case ended == errCancelled:
		if out.Stop != nil {
			out.Stop()
		}
		return // the client does not expect a response
	case err != nil:
		response.Error = sdkError(boundary.WireError(err))
	case forwards:
		c.forward(ctx, m, out)
		return
	default:
		response.Result, err = codec.Marshal(out.Result)
		if isModern {
			response.Result = complete(response.Result)
		}
		if err != nil {
			response.Result, response.Error = nil, sdkError(boundary.WireError(err))
		}
	}
	c.Connection.Write(c.ctx, response)
}

// creating records a call that may create a task. The caller must call the returned function after
// the response: notifications about the task follow it, because it tells the client the id.
func (c *connection) creating() (responded func()) {
	done := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.creates == nil {
		c.creates = make(map[chan struct{}]struct{})
	}
	c.creates[done] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.creates, done)
		close(done)
	}
}

// awaitCreated waits for the responses to the calls that may have created a task until now.
func (c *connection) awaitCreated(ctx context.Context) {
	c.mu.Lock()
	creates := slices.Collect(maps.Keys(c.creates))
	c.mu.Unlock()
	for _, responded := range creates {
		select {
		case <-responded:
		case <-ctx.Done():
			return
		}
	}
}

// forward passes a request to the SDK. For a subscription with tasks, the middleware of the server
// ends their notifications when the subscription ends.
func (c *connection) forward(ctx context.Context, m *jsonrpc.Request, out embedding.Outcome) {
	if out.TaskIDs != nil {
		id, stop := rand.Text(), out.Stop
		out.Stop = func() {
			c.t.tickets.Delete(id)
			stop()
		}
		c.t.tickets.Store(id, &ticket{taskIDs: out.TaskIDs, stop: out.Stop})
		c.mu.Lock()
		if c.acks == nil {
			c.acks = make(map[wirerpc.ID]embedding.Outcome)
		}
		c.acks[wireID(m.ID)] = out
		c.mu.Unlock()
		copied, extra := *m, new(mcp.RequestExtra)
		if e, ok := m.Extra.(*mcp.RequestExtra); ok && e != nil {
			*extra = *e
		}
		extra.Header = extra.Header.Clone()
		if extra.Header == nil {
			extra.Header = http.Header{}
		}
		extra.Header.Set(headerTicket, id)
		copied.Extra = extra
		m = &copied
	}
	select {
	case c.forwarded <- forwarded{m, ctx, out.Stop}:
	case <-c.ctx.Done():
		if out.Stop != nil {
			out.Stop()
		}
	}
}

// wireID converts the id of a request. It returns the zero ID if there is none.
func wireID(id jsonrpc.ID) wirerpc.ID {
	switch v := id.Raw().(type) {
	case int64:
		return codec.IntScalar(v)
	case string:
		return codec.StringScalar(v)
	}
	return wirerpc.ID{}
}

// Write implements [mcp.Connection].
func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	switch r := m.(type) {
	case *jsonrpc.Response:
		c.mu.Lock()
		e, ok := c.edits[r.ID]
		delete(c.edits, r.ID)
		var subscription embedding.Outcome
		if len(c.acks) > 0 {
			subscription = c.acks[wireID(r.ID)]
			delete(c.acks, wireID(r.ID))
		}
		c.mu.Unlock()
		if subscription.Stop != nil {
			subscription.Stop()
		}
		if ok && r.Error == nil {
			m = c.edited(r, e)
		}
	case *jsonrpc.Request:
		if r.Method == methodAcknowledged {
			m = c.acknowledged(r)
		}
	}
	return c.Connection.Write(ctx, m)
}

// edited adds the support for tasks to a response. It also records the handshake.
func (c *connection) edited(r *jsonrpc.Response, e edit) *jsonrpc.Response {
	if e.method == methodInitialize {
		version, _ := codec.Member(r.Result, "protocolVersion")
		c.mu.Lock()
		c.client, c.version = e.params, text(version)
		c.handshake, _ = decodeClient(e.params) // if it fails, so does each task
		c.mu.Unlock()
	}
	rev := wire.Revision(modernVersion)
	if !e.modern {
		c.mu.Lock()
		rev = wire.Revision(c.version)
		c.mu.Unlock()
	}
	result, err := c.t.edit(e.method, rev, r.Result)
	if err != nil {
		return &jsonrpc.Response{ID: r.ID, Error: sdkError(boundary.WireError(err))}
	}
	return &jsonrpc.Response{ID: r.ID, Result: result}
}

// acknowledged adds the tasks of a subscription to its acknowledgment.
func (c *connection) acknowledged(r *jsonrpc.Request) *jsonrpc.Request {
	c.mu.Lock()
	ids := c.acks[subscription(r.Params)].TaskIDs
	c.mu.Unlock()
	if ids == nil {
		return r
	}
	text, err := json.Marshal(ids)
	if err != nil {
		return r
	}
	return &jsonrpc.Request{Method: r.Method, Params: jsonedit.WithPath(r.Params, text, "notifications", "taskIds")}
}

// Close implements [mcp.Connection].
func (c *connection) Close() error {
	c.end(io.EOF)
	return c.Connection.Close()
}

// end ends all requests that the engine serves, and the notifications of subscriptions.
func (c *connection) end(cause error) {
	c.cancel(cause)
	c.mu.Lock()
	subscriptions := c.acks
	c.acks = nil
	c.mu.Unlock()
	for _, s := range subscriptions {
		s.Stop()
	}
}

// Call implements [task.Requestor].
func (c *connection) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	text, err := encodeParams(params)
	if err != nil {
		return nil, err
	}
	response := make(chan *jsonrpc.Response, 1)
	c.mu.Lock()
	c.number++
	id, err := jsonrpc.MakeID(c.prefix + strconv.FormatInt(c.number, 10))
	c.calls[id] = response
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}()
	if err == nil {
		err = c.Connection.Write(ctx, &jsonrpc.Request{ID: id, Method: method, Params: text})
	}
	if err != nil {
		return nil, err
	}
	select {
	case r := <-response:
		if r.Error != nil {
			return nil, boundary.WireError(callError(r.Error))
		}
		return r.Result, nil
	case <-ctx.Done():
		reason, err := json.Marshal(map[string]any{"requestId": id.Raw(), "reason": context.Cause(ctx).Error()})
		if err == nil {
			c.Connection.Write(c.ctx, &jsonrpc.Request{Method: methodCancelled, Params: reason})
		}
		return nil, context.Cause(ctx)
	case <-c.ctx.Done():
		return nil, mcp.ErrConnectionClosed
	}
}

// receiveResponse passes a response to Call. It returns false for other responses.
func (c *connection) receiveResponse(r *jsonrpc.Response) bool {
	if id, ok := r.ID.Raw().(string); !ok || !strings.HasPrefix(id, c.prefix) {
		return false
	}
	c.mu.Lock()
	waiting := c.calls[r.ID]
	delete(c.calls, r.ID)
	c.mu.Unlock()
	if waiting != nil {
		waiting <- r
	}
	return true
}

// Supports implements [task.Capable].
func (c *connection) Supports(method string) bool {
	c.mu.Lock()
	client := c.client
	c.mu.Unlock()
	capabilities, _ := codec.Member(client, "capabilities")
	_, ok := codec.Member(capabilities, capability(method))
	return ok
}

// capability returns the capability that a client needs for an input request.
func capability(method string) string {
	switch method {
	case methodElicit:
		return "elicitation"
	case methodCreateMessage:
		return "sampling"
	case methodListRoots:
		return "roots"
	}
	return ""
}

// Notify implements [task.Requestor].
func (c *connection) Notify(ctx context.Context, method string, params codec.Encoder) error {
	if method == wire.MethodNotificationsTasksStatus {
		c.awaitCreated(ctx)
	}
	c.mu.Lock()
	level := c.level
	c.mu.Unlock()
	text, err := notification(ctx, method, params)
	if err != nil {
		return err
	}
	return c.notify(ctx, method, text, level)
}

// notify sends a notification, unless it is a log message below level. If level is "", it drops all
// log messages.
func (c *connection) notify(ctx context.Context, method string, params json.RawMessage, level string) error {
	if method == methodMessage {
		of, _ := codec.Member(params, "level")
		if least := slices.Index(levels, level); least < 0 || slices.Index(levels, text(of)) < least {
			return nil
		}
	}
	return c.Connection.Write(ctx, &jsonrpc.Request{Method: method, Params: params})
}

// levels are the levels of log messages, in ascending order.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// plainCall is the [session.Peer] of a modern call.
type plainCall struct {
	c     *connection
	level string // least level of log messages for the client
}

// Call implements [session.Peer]. Clients of modern revisions serve no requests.
func (p plainCall) Call(_ context.Context, method string, _ codec.Encoder) (json.RawMessage, error) {
	return nil, wirerpc.MethodNotFound(method)
}

// Report implements [session.Peer]. The handlers of the SDK send notifications instead.
func (p plainCall) Report(session.Progress) error { return nil }

// Notify implements [session.Peer].
func (p plainCall) Notify(ctx context.Context, method string, params codec.Encoder) error {
	text, err := encodeParams(params)
	if err != nil {
		return err
	}
	return p.c.notify(ctx, method, text, p.level)
}
