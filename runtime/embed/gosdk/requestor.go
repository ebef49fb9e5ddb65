//lint:file-ignore SA1019 sampling, roots and logging are deprecated, and tasks serve them as long as the SDK has them

package gosdk

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/codec"
	wirerpc "github.com/mcpwire/mcpwire/codec/jsonrpc"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// clientOf describes the client of a tools/call.
func clientOf(params json.RawMessage, isModern bool, handshake *mcp.InitializeParams, token *auth.TokenInfo) (c embedding.Client) {
	if isModern {
		c.Initialize = modernClient(params)
	} else if handshake != nil {
		c.Initialize = sessionClient(handshake)
	}
	if token != nil {
		c.User, c.Scopes = token.UserID, token.Scopes
	}
	return c
}

// modernClient returns the params of initialize for the client of a modern request.
func modernClient(params json.RawMessage) json.RawMessage {
	meta, _ := codec.Member(params, "_meta")
	members := make(map[string]json.RawMessage, 3)
	for name, key := range map[string]string{
		"protocolVersion": modern.MetaVersion, "clientInfo": modern.MetaClientInfo, "capabilities": modern.MetaCapabilities,
	} {
		if v, ok := codec.Member(meta, key); ok {
			members[name] = v
		}
	}
	text, err := json.Marshal(members)
	if err != nil {
		return nil
	}
	return text
}

// sessionClient returns the params of initialize of a session.
func sessionClient(p *mcp.InitializeParams) json.RawMessage {
	type capabilities struct {
		mcp.ClientCapabilities
		Roots *mcp.RootCapabilities `json:"roots,omitempty"` // the field of the SDK is always written
	}
	out := struct {
		ProtocolVersion string              `json:"protocolVersion"`
		ClientInfo      *mcp.Implementation `json:"clientInfo,omitempty"`
		Capabilities    capabilities        `json:"capabilities"`
	}{ProtocolVersion: p.ProtocolVersion, ClientInfo: p.ClientInfo}
	if p.Capabilities != nil {
		out.Capabilities = capabilities{*p.Capabilities, p.Capabilities.RootsV2}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return nil
	}
	return text
}

// sessionRequestor is the [task.Requestor] of the client of a session over HTTP.
type sessionRequestor struct {
	t     *Tasks
	ss    *mcp.ServerSession
	reply *httpReply // to the tasks/result that is being served; nil for other requests
}

// Call implements [task.Requestor]. ctx is the context of tasks/result, so the SDK sends the
// request on the stream of its response.
func (r sessionRequestor) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	text, err := encodeParams(params)
	if err != nil {
		return nil, err
	}
	result, err := call(ctx, r.ss, method, text)
	if err == nil {
		return json.Marshal(result)
	}
	if ctx.Err() != nil || errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, &jsonrpc.Error{Code: codeRejected}) {
		return nil, err // no response yet: the next tasks/result sends the input request again
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e != nil {
		return nil, &wirerpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
	}
	// The SDK has rejected the request or the result. A repetition would fail, too.
	return nil, &wirerpc.Error{Code: wirerpc.CodeInternalError, Message: err.Error()}
}

// codeRejected is the code of the SDK for messages that its transport could not deliver.
const codeRejected = -32005

// call sends a request to the client of a session.
func call(ctx context.Context, ss *mcp.ServerSession, method string, params json.RawMessage) (any, error) {
	switch method {
	case methodElicit:
		p, err := decode[mcp.ElicitParams](params)
		if err != nil {
			return nil, err
		}
		return ss.Elicit(ctx, p)
	case methodCreateMessage:
		p, err := decode[mcp.CreateMessageWithToolsParams](params)
		if err != nil {
			return nil, err
		}
		return ss.CreateMessageWithTools(ctx, p)
	case methodListRoots:
		p, err := decode[mcp.ListRootsParams](params)
		if err != nil {
			return nil, err
		}
		return ss.ListRoots(ctx, p)
	}
	return nil, wirerpc.MethodNotFound(method)
}

// Supports implements [task.Capable].
func (r sessionRequestor) Supports(method string) bool {
	p := r.ss.InitializeParams()
	return p != nil && supports(p.Capabilities, method)
}

// supports reports whether a client can serve an input request.
func supports(c *mcp.ClientCapabilities, method string) bool {
	if c == nil {
		return false
	}
	switch method {
	case methodElicit:
		return c.Elicitation != nil
	case methodCreateMessage:
		return c.Sampling != nil
	case methodListRoots:
		return c.RootsV2 != nil
	}
	return false
}

// Notify implements [task.Requestor].
func (r sessionRequestor) Notify(ctx context.Context, method string, params codec.Encoder) error {
	text, err := notification(ctx, method, params)
	if err != nil {
		return err
	}
	if r.reply != nil {
		if err := r.reply.notify(ctx, method, text); err == nil || ctx.Err() != nil {
			return err
		}
		// The response has ended; the session may still have a GET stream.
	}
	return (&httpReply{t: r.t, ss: r.ss, k: new(ticket), ctx: context.Background()}).notify(ctx, method, text)
}

// notification returns the params of a notification about a task.
func notification(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	text, err := encodeParams(params)
	if run, ok := task.FromContext(ctx); err == nil && ok && method != wire.MethodNotificationsTasksStatus {
		return taskrules.Relate(text, run.ID())
	}
	return text, err
}

func encodeParams(params codec.Encoder) (json.RawMessage, error) {
	if params == nil {
		return json.RawMessage(`{}`), nil
	}
	return codec.Marshal(params)
}

// httpReply sends notifications while a request is being served over HTTP. It is the
// [session.Peer] of a modern call.
type httpReply struct {
	t   *Tasks
	ss  *mcp.ServerSession
	k   *ticket
	ctx context.Context // of the request in the SDK, or without a request for the GET stream
}

// Call implements [session.Peer]. Clients of modern revisions serve no requests.
func (r *httpReply) Call(_ context.Context, method string, _ codec.Encoder) (json.RawMessage, error) {
	return nil, wirerpc.MethodNotFound(method)
}

// Report implements [session.Peer]. The handlers of the SDK send notifications instead.
func (r *httpReply) Report(session.Progress) error { return nil }

// Notify implements [session.Peer].
func (r *httpReply) Notify(ctx context.Context, method string, params codec.Encoder) error {
	text, err := encodeParams(params)
	if err != nil {
		return err
	}
	return r.notify(ctx, method, text)
}

// notify sends notifications that the SDK knows through the SDK, which repeats them when the client
// resumes a stream. It writes others to the stream of the response or to the GET stream.
func (r *httpReply) notify(ctx context.Context, method string, params json.RawMessage) error {
	switch method {
	case methodMessage:
		p, err := decode[mcp.LoggingMessageParams](params)
		if err != nil {
			return err
		}
		return r.ss.Log(r.ctx, p)
	case methodProgress:
		p, err := decode[mcp.ProgressNotificationParams](params)
		if err != nil {
			return err
		}
		return r.ss.NotifyProgress(r.ctx, p)
	case methodElicitComplete:
		p, err := decode[mcp.ElicitationCompleteParams](params)
		if err != nil {
			return err
		}
		return r.ss.NotifyElicitationComplete(r.ctx, p)
	}
	if r.k.stream != nil {
		r.k.stream.Open()
		return r.k.stream.Send(ctx, method, params)
	}
	return r.t.send(ctx, r.ss.ID(), method, params)
}
