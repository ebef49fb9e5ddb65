package embedding

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// maxRounds limits how often the results of a tool may ask for input in a task.
const maxRounds = 10

// inputRequest is a member of the inputRequests of a result.
type inputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// rounds calls the tool. If the result asks for input, a plain call returns it. A task sends the
// input requests, and calls the tool again with the responses.
func (c *call) rounds(ctx context.Context, to *Call) (json.RawMessage, error) {
	for round := 0; ; round++ {
		result, err := c.callTool(ctx, to)
		if err != nil || !asksForInput(result) || c.log.StayPlain() {
			return result, err
		}
		if round == maxRounds {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("the tool asks for input again after %d rounds, which is the limit", maxRounds)}
		}
		responses, err := c.respond(result)
		if err != nil {
			return nil, err
		}
		next := *to
		next.Params = jsonedit.With(to.Params, "inputResponses", responses)
		state, _ := codec.Member(result, "requestState")
		next.Params = jsonedit.With(next.Params, "requestState", state)
		to = &next
	}
}

// asksForInput reports whether a result is one that asks for input.
func asksForInput(result json.RawMessage) (yes bool) {
	codec.ReadPart(result, func(r *wire.Reader) {
		text, kind, ok := r.PeekMember("resultType")
		yes = ok && kind == wire.KindString && text == modern.ResultInputRequired
	})
	return yes
}

// respond makes the input requests of a result at the same time, and returns the inputResponses.
func (c *call) respond(result json.RawMessage) (json.RawMessage, error) {
	var requests map[string]inputRequest
	if list, ok := codec.Member(result, "inputRequests"); ok {
		if err := codec.Unmarshal(list, value.Of(&requests), codec.AllowSize(list)...); err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the input requests of the tool are not valid"}
		}
	}
	keys := slices.Sorted(maps.Keys(requests))
	responses, ask := make([]json.RawMessage, len(keys)), make([]func(ctx context.Context) error, len(keys))
	for i, key := range keys {
		ask[i] = func(ctx context.Context) (err error) {
			responses[i], err = c.request(ctx, requests[key].Method, requests[key].Params)
			return err
		}
	}
	if err := c.log.RunAll(c.ctx, ask); err != nil {
		return nil, err
	}
	out := json.RawMessage(`{}`)
	for i, key := range keys {
		out = jsonedit.With(out, key, responses[i])
	}
	return out, nil
}

// modernParams adds the _meta of a revision without sessions to the params of a request of a
// session. SDKs let a tool ask for input by its result only in such a request.
func modernParams(params json.RawMessage, client Client) json.RawMessage {
	if modern.Is(params) {
		return params
	}
	set := func(name string, value json.RawMessage) { params = jsonedit.WithPath(params, value, "_meta", name) }
	capabilities, ok := codec.Member(client.Initialize, "capabilities")
	if !ok {
		capabilities = json.RawMessage(`{}`)
	}
	set(modern.MetaVersion, json.RawMessage(`"`+modern.Revisions()[0]+`"`))
	set(modern.MetaCapabilities, capabilities)
	if info, ok := codec.Member(client.Initialize, "clientInfo"); ok {
		set(modern.MetaClientInfo, info)
	}
	return params
}
