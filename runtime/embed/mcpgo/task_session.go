package mcpgo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	codecwire "github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// backend runs tools of a server for an [embedding.Engine].
type backend struct{ server *server.MCPServer }

// CallTool implements [embedding.Backend].
func (b backend) CallTool(ctx context.Context, c *embedding.Call) (json.RawMessage, error) {
	return b.serve(ctx, wire.MethodToolsCall, c)
}

// ListTools implements [embedding.Backend].
func (b backend) ListTools(ctx context.Context, c *embedding.Call) (json.RawMessage, error) {
	return b.serve(ctx, wire.MethodToolsList, c)
}

// serve serves a request in a session of its own.
func (b backend) serve(ctx context.Context, method string, c *embedding.Call) (result json.RawMessage, err error) {
	defer boundary.Catch(&err)
	s, params, err := newTaskSession(ctx, b.server, c)
	if err != nil {
		return nil, err
	}
	defer s.close()
	// The hooks and the cancellations of the SDK identify a request by its id.
	s.id = "mcpwire-" + rand.Text()
	message := slices.Concat(json.RawMessage(`{"jsonrpc":"2.0","method":"`), []byte(method), []byte(`","id":"`), []byte(s.id), []byte(`","params":`), params, []byte(`}`))
	ctx = b.server.WithContext(withoutCarrier(ctx), s)
	if c.Modern {
		ctx = withoutVersion{ctx}
	}
	switch response := b.server.HandleMessage(ctx, message).(type) {
	case mcp.JSONRPCResponse:
		return json.Marshal(response.Result)
	case mcp.JSONRPCError:
		if _, ok := errors.AsType[*jsonrpc.Error](s.failure); ok { // the response has only its text
			return nil, s.failure
		}
		err := wireError(response)
		if e, ok := err.(*jsonrpc.Error); ok && e.Code == jsonrpc.CodeInvalidParams && errors.Is(s.failure, server.ErrToolNotFound) {
			return nil, &embedding.UnknownToolError{Response: e}
		}
		return nil, err
	default:
		return nil, fmt.Errorf("mcpgo: unexpected response of type %T", response)
	}
}

// withoutVersion is a context in which the header of the HTTP request has no protocol version. The
// SDK would compare the version with that of the message, which is not the body of the HTTP
// request.
type withoutVersion struct{ context.Context }

// Value implements [context.Context].
func (c withoutVersion) Value(key any) any {
	v := c.Context.Value(key)
	if header, ok := v.(http.Header); ok && header.Get(modern.HeaderVersion) != "" {
		header = header.Clone()
		header.Del(modern.HeaderVersion)
		return header
	}
	return v
}

// wireError converts an error response of the SDK.
func wireError(response mcp.JSONRPCError) error {
	e := &jsonrpc.Error{Code: int64(response.Error.Code), Message: response.Error.Message}
	if response.Error.Data != nil {
		data, err := json.Marshal(response.Error.Data)
		if err != nil {
			return err
		}
		e.Data = data
	}
	return e
}

// taskSession is the session in which a tool runs. It passes the requests and notifications of the
// handler to an [embedding.Call]. Its revision is 2025-11-25, so that the handler can send requests
// to clients of any revision. Only in calls in rounds, the revision is that of the call.
//
// What a handler sets in its session is set in that of the client. Until the call ends, it is also
// kept here: after a restart, and in revisions without sessions, there is no session of the client.
type taskSession struct {
	server  *server.MCPServer
	ctx     context.Context
	call    *embedding.Call
	client  server.ClientSession // that created the call; nil after a restart
	id      string               // of the request
	failure error                // of the request, set by a hook

	// The tool of the call, if it is replaced in tools.
	replaced *server.ServerTool
	name     string // of replaced in tools
	owned    bool   // replaced belongs to the session of the client, and not to the server

	mu        sync.Mutex
	level     mcp.LoggingLevel // "" for no log messages
	tools     map[string]server.ServerTool
	resources map[string]server.ServerResource
	templates map[string]server.ServerResourceTemplate

	start   sync.Once // of deliver
	started atomic.Bool
	queue   chan mcp.JSONRPCNotification
	flushes chan chan struct{}
	done    chan struct{} // closed when the handler has returned
}

// queueSize is the number of notifications of the handler that may be pending. The SDK rejects
// more.
const queueSize = 256

// newTaskSession returns the session for a call, and the params of the call in it.
func newTaskSession(ctx context.Context, s *server.MCPServer, c *embedding.Call) (*taskSession, json.RawMessage, error) {
	t := &taskSession{server: s, ctx: ctx, call: c, done: make(chan struct{})}
	var name string
	err := codec.ReadPart(c.Params, func(r *codecwire.Reader) { name, _, _ = r.PeekMember("name") })
	if err != nil {
		return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid params: " + err.Error()}
	}
	t.client = server.ClientSessionFromContext(ctx)
	if client, ok := t.client.(server.SessionWithLogging); ok {
		t.level = client.GetLogLevel()
	}
	if client, ok := t.client.(server.SessionWithTools); ok {
		t.tools = client.GetSessionTools()
	}
	if client, ok := t.client.(server.SessionWithResources); ok {
		t.resources = client.GetSessionResources()
	}
	if client, ok := t.client.(server.SessionWithResourceTemplates); ok {
		t.templates = client.GetSessionResourceTemplates()
	}
	t.replaceTool(s, name)
	if c.Modern || !modern.Is(c.Params) {
		return t, c.Params, nil
	}
	meta, _ := codec.Member(c.Params, "_meta")
	t.level = ""
	if level, ok := codec.Member(meta, modern.MetaLogLevel); ok {
		json.Unmarshal(level, &t.level)
	}
	for _, name := range modernMembers {
		meta = jsonedit.With(meta, name, nil)
	}
	if string(meta) == `{}` {
		meta = nil
	}
	return t, jsonedit.With(c.Params, "_meta", meta), nil
}

// replaceTool replaces the tool in the session by one without Execution if it requires tasks: the
// SDK rejects plain calls of such a tool.
func (t *taskSession) replaceTool(s *server.MCPServer, name string) {
	tool, ok := t.tools[name]
	if !ok {
		registered := s.GetTool(name)
		if registered == nil {
			return
		}
		tool = *registered
	}
	if tool.Tool.Execution == nil || tool.Tool.Execution.TaskSupport != mcp.TaskSupportRequired {
		return
	}
	t.replaced, t.name, t.owned = new(tool), name, ok
	tool.Tool.Execution = nil
	t.tools = maps.Clone(t.tools)
	if t.tools == nil {
		t.tools = make(map[string]server.ServerTool, 1)
	}
	t.tools[name] = tool
}

// modernMembers are the members of _meta that make a request modern.
var modernMembers = []string{modern.MetaVersion, modern.MetaCapabilities, modern.MetaClientInfo, modern.MetaLogLevel}

// Initialize implements [server.ClientSession].
func (t *taskSession) Initialize() {}

// Initialized implements [server.ClientSession].
func (t *taskSession) Initialized() bool { return true }

// SessionID implements [server.ClientSession].
func (t *taskSession) SessionID() string { return t.call.ID }

// NotificationChannel implements [server.ClientSession].
func (t *taskSession) NotificationChannel() chan<- mcp.JSONRPCNotification {
	t.start.Do(func() {
		t.queue, t.flushes = make(chan mcp.JSONRPCNotification, queueSize), make(chan chan struct{})
		t.started.Store(true)
		go t.deliver() // ends when the handler has returned
	})
	return t.queue
}

// deliver passes the notifications of the handler to the call, in order, until the session is
// closed.
func (t *taskSession) deliver() {
	for {
		select {
		case n := <-t.queue:
			t.notify(n)
		case flushed := <-t.flushes:
			for empty := false; !empty; {
				select {
				case n := <-t.queue:
					t.notify(n)
				default:
					empty = true
				}
			}
			close(flushed)
		case <-t.done:
			return
		}
	}
}

// notify passes on a notification. It drops one that cannot be encoded or sent, as the transports
// of the SDK do.
func (t *taskSession) notify(n mcp.JSONRPCNotification) {
	if t.ended() {
		return
	}
	params, err := json.Marshal(n.Params)
	if err == nil {
		t.call.Notify(t.ctx, n.Method, params)
	}
}

// flush waits until all notifications that were sent before it have been delivered.
func (t *taskSession) flush() {
	if !t.started.Load() {
		return
	}
	flushed := make(chan struct{})
	select {
	case t.flushes <- flushed:
		<-flushed
	case <-t.done:
	}
}

// close ends the session when the handler has returned. Later notifications are dropped.
func (t *taskSession) close() {
	t.flush()
	close(t.done)
}

func (t *taskSession) ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// errEnded is the error of requests that are sent after the handler has returned.
var errEnded = errors.New("mcpgo: the call has ended")

// request sends a request of the handler.
func (t *taskSession) request(ctx context.Context, method mcp.MCPMethod, params, result any) error {
	if t.ended() {
		return errEnded
	}
	t.flush()
	var raw json.RawMessage
	if params != nil {
		text, err := json.Marshal(params)
		if err != nil {
			return err
		}
		raw = text
	}
	response, err := t.call.Request(ctx, string(method), raw)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(response, result); err != nil {
		return fmt.Errorf("mcpgo: response to %s: %w", method, err)
	}
	return nil
}

// RequestElicitation implements [server.SessionWithElicitation].
func (t *taskSession) RequestElicitation(ctx context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	result := new(mcp.ElicitationResult)
	if err := t.request(ctx, mcp.MethodElicitationCreate, r.Params, result); err != nil {
		return nil, err
	}
	return result, nil
}

// RequestSampling implements [server.SessionWithSampling].
func (t *taskSession) RequestSampling(ctx context.Context, r mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	result := new(mcp.CreateMessageResult)
	if err := t.request(ctx, mcp.MethodSamplingCreateMessage, r.CreateMessageParams, result); err != nil {
		return nil, err
	}
	var err error
	if result.Content, err = mcp.ParseSamplingContent(result.Content); err != nil {
		return nil, fmt.Errorf("mcpgo: response to %s: %w", mcp.MethodSamplingCreateMessage, err)
	}
	return result, nil
}

// ListRoots implements [server.SessionWithRoots].
func (t *taskSession) ListRoots(ctx context.Context, r mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	result := new(mcp.ListRootsResult)
	if err := t.request(ctx, mcp.MethodListRoots, nil, result); err != nil {
		return nil, err
	}
	return result, nil
}

// GetClientInfo implements [server.SessionWithClientInfo].
func (t *taskSession) GetClientInfo() (info mcp.Implementation) {
	t.decodeClient("clientInfo", &info)
	return info
}

// SetClientInfo implements [server.SessionWithClientInfo]. It does nothing.
func (t *taskSession) SetClientInfo(mcp.Implementation) {}

// GetClientCapabilities implements [server.SessionWithClientInfo].
func (t *taskSession) GetClientCapabilities() (c mcp.ClientCapabilities) {
	t.decodeClient("capabilities", &c)
	return c
}

// decodeClient decodes a member of the params of initialize. v stays zero if the client has not
// declared it.
func (t *taskSession) decodeClient(member string, v any) {
	if raw, ok := codec.Member(t.call.Client.Initialize, member); ok {
		json.Unmarshal(raw, v) // members of other types stay zero
	}
}

// SetClientCapabilities implements [server.SessionWithClientInfo]. It does nothing.
func (t *taskSession) SetClientCapabilities(mcp.ClientCapabilities) {}

// ProtocolVersion implements [server.SessionWithProtocolVersion].
func (t *taskSession) ProtocolVersion() string { return mcp.LATEST_LEGACY_PROTOCOL_VERSION }

// GetLogLevel implements [server.SessionWithLogging].
func (t *taskSession) GetLogLevel() mcp.LoggingLevel { return get(t, &t.level) }

// SetLogLevel implements [server.SessionWithLogging].
func (t *taskSession) SetLogLevel(level mcp.LoggingLevel) {
	set(t, &t.level, level)
	if client, ok := t.client.(server.SessionWithLogging); ok {
		client.SetLogLevel(level)
	}
}

// GetSessionTools implements [server.SessionWithTools].
func (t *taskSession) GetSessionTools() map[string]server.ServerTool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.tools)
}

// SetSessionTools implements [server.SessionWithTools].
func (t *taskSession) SetSessionTools(tools map[string]server.ServerTool) {
	set(t, &t.tools, maps.Clone(tools))
	client, ok := t.client.(server.SessionWithTools)
	if !ok {
		return
	}
	if tool, ok := tools[t.name]; ok && t.replaced != nil && tool.Tool.Execution == nil { // only for this call
		tools = maps.Clone(tools)
		if delete(tools, t.name); t.owned {
			tools[t.name] = *t.replaced
		}
	}
	client.SetSessionTools(tools)
}

// GetSessionResources implements [server.SessionWithResources].
func (t *taskSession) GetSessionResources() map[string]server.ServerResource {
	return maps.Clone(get(t, &t.resources))
}

// SetSessionResources implements [server.SessionWithResources].
func (t *taskSession) SetSessionResources(resources map[string]server.ServerResource) {
	set(t, &t.resources, maps.Clone(resources))
	if client, ok := t.client.(server.SessionWithResources); ok {
		client.SetSessionResources(resources)
	}
}

// GetSessionResourceTemplates implements [server.SessionWithResourceTemplates].
func (t *taskSession) GetSessionResourceTemplates() map[string]server.ServerResourceTemplate {
	return maps.Clone(get(t, &t.templates))
}

// SetSessionResourceTemplates implements [server.SessionWithResourceTemplates].
func (t *taskSession) SetSessionResourceTemplates(templates map[string]server.ServerResourceTemplate) {
	set(t, &t.templates, maps.Clone(templates))
	if client, ok := t.client.(server.SessionWithResourceTemplates); ok {
		client.SetSessionResourceTemplates(templates)
	}
}

// UpgradeToSSEWhenReceiveNotification implements [server.SessionWithStreamableHTTPConfig]. It does
// nothing: notifications of a task have a stream.
func (t *taskSession) UpgradeToSSEWhenReceiveNotification() {}

// SetSubscriptionFilter implements [server.SessionWithSubscriptionFilter].
func (t *taskSession) SetSubscriptionFilter(filter mcp.SubscriptionFilter) {
	if client, ok := t.client.(server.SessionWithSubscriptionFilter); ok {
		client.SetSubscriptionFilter(filter)
	}
}

// SubscriptionFilter implements [server.SessionWithSubscriptionFilter].
func (t *taskSession) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	if client, ok := t.client.(server.SessionWithSubscriptionFilter); ok {
		return client.SubscriptionFilter()
	}
	return mcp.SubscriptionFilter{}, false
}

// errNoSubscriptions is returned for a client whose session has no subscriptions, as those of the
// SDK have none.
var errNoSubscriptions = errors.New("mcpgo: the session of the client does not implement server.SessionWithResourceSubscriptions")

// SubscribeToResourceErr implements [server.SessionWithResourceSubscriptionsErr].
func (t *taskSession) SubscribeToResourceErr(uri string) error {
	switch client := t.client.(type) {
	case server.SessionWithResourceSubscriptionsErr:
		return client.SubscribeToResourceErr(uri)
	case server.SessionWithResourceSubscriptions:
		client.SubscribeToResource(uri)
		return nil
	}
	return errNoSubscriptions
}

// SubscribeToResource implements [server.SessionWithResourceSubscriptions].
func (t *taskSession) SubscribeToResource(uri string) { t.SubscribeToResourceErr(uri) }

// UnsubscribeFromResource implements [server.SessionWithResourceSubscriptions].
func (t *taskSession) UnsubscribeFromResource(uri string) {
	if client, ok := t.client.(server.SessionWithResourceSubscriptions); ok {
		client.UnsubscribeFromResource(uri)
	}
}

// SubscribedResources implements [server.SessionWithResourceSubscriptions].
func (t *taskSession) SubscribedResources() []string {
	if client, ok := t.client.(server.SessionWithResourceSubscriptions); ok {
		return client.SubscribedResources()
	}
	return nil
}

// IsSubscribedToResource implements [server.SessionWithResourceSubscriptions].
func (t *taskSession) IsSubscribedToResource(uri string) bool {
	client, ok := t.client.(server.SessionWithResourceSubscriptions)
	return ok && client.IsSubscribedToResource(uri)
}

func get[T any](t *taskSession, field *T) T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *field
}

func set[T any](t *taskSession, field *T, value T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*field = value
}

var (
	_ server.SessionWithElicitation              = (*taskSession)(nil)
	_ server.SessionWithSampling                 = (*taskSession)(nil)
	_ server.SessionWithRoots                    = (*taskSession)(nil)
	_ server.SessionWithClientInfo               = (*taskSession)(nil)
	_ server.SessionWithProtocolVersion          = (*taskSession)(nil)
	_ server.SessionWithLogging                  = (*taskSession)(nil)
	_ server.SessionWithTools                    = (*taskSession)(nil)
	_ server.SessionWithResources                = (*taskSession)(nil)
	_ server.SessionWithResourceTemplates        = (*taskSession)(nil)
	_ server.SessionWithStreamableHTTPConfig     = (*taskSession)(nil)
	_ server.SessionWithSubscriptionFilter       = (*taskSession)(nil)
	_ server.SessionWithResourceSubscriptionsErr = (*taskSession)(nil)
)
