package main

import (
	"encoding/json"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcpwire/mcpwire/tools/bench/internal/messages"
)

// mcpGoEnvelope is the part of an envelope that is needed to encode it again.
type mcpGoEnvelope struct {
	id     mcp.RequestId
	method string
}

// mcpGoBase is the type into which mcp-go's client and server first decode a message to determine
// its kind.
type mcpGoBase struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      *mcp.RequestId `json:"id,omitempty"`
	Method  string         `json:"method,omitempty"`
}

// enterMCPGo decodes with the types and functions of mcp-go's client and server, in as few passes
// as possible: one for the kind of the message, one for the message with its params or with the raw
// result, and one for the result. (mcp-go makes several more passes over the metadata and the
// protocol version of requests, and a client marshals and unmarshals params once more.) Encoding is
// one json.Marshal, as in mcp-go.
func enterMCPGo(m messages.Message) (entry, error) {
	if m.Form == messages.BareTask {
		return enter(m, func(text []byte) (envelope struct{}, value any, err error) {
			task := new(mcp.Task)
			return envelope, task, json.Unmarshal(text, task)
		}, func(_ *struct{}, value any) ([]byte, error) {
			return json.Marshal(value)
		})
	}
	var e entry
	var err error
	switch m.Form {
	case messages.Response:
		e, err = enterMCPGoResponse(m)
		e.envelope = func() error {
			var base mcpGoBase
			if err := json.Unmarshal(m.Data, &base); err != nil {
				return err
			}
			return json.Unmarshal(m.Data, new(transport.JSONRPCResponse))
		}
	case messages.Notification:
		e, err = enter(m, func(text []byte) (mcpGoEnvelope, any, error) {
			var base mcpGoBase
			if err := json.Unmarshal(text, &base); err != nil {
				return mcpGoEnvelope{}, nil, err
			}
			n := new(mcp.JSONRPCNotification) // the only argument of handlers
			return mcpGoEnvelope{}, n, json.Unmarshal(text, n)
		}, func(_ *mcpGoEnvelope, value any) ([]byte, error) {
			return json.Marshal(value)
		})
	case messages.Request:
		e, err = enterMCPGoRequest(m)
	}
	return e, err
}

func enterMCPGoResponse(m messages.Message) (entry, error) {
	parse := map[string]func(*json.RawMessage) (any, error){
		"initialize":     parsed(unmarshalResult[mcp.InitializeResult]),
		"prompts/get":    parsed(mcp.ParseGetPromptResult),
		"resources/list": parsed(unmarshalResult[mcp.ListResourcesResult]),
		"tasks/list":     parsed(mcp.ParseListTasksResult),
		"tools/call":     parsed(mcp.ParseCallToolResult),
		"tools/list":     parsed(unmarshalResult[mcp.ListToolsResult]),
	}[m.Method]
	if m.AsTask {
		parse = parsed(unmarshalResult[mcp.CreateTaskResult])
	}
	return enter(m, func(text []byte) (mcpGoEnvelope, any, error) {
		var base mcpGoBase
		if err := json.Unmarshal(text, &base); err != nil {
			return mcpGoEnvelope{}, nil, err
		}
		var r transport.JSONRPCResponse
		if err := json.Unmarshal(text, &r); err != nil {
			return mcpGoEnvelope{}, nil, err
		}
		value, err := parse(&r.Result)
		return mcpGoEnvelope{id: r.ID}, value, err
	}, func(envelope *mcpGoEnvelope, value any) ([]byte, error) {
		return json.Marshal(mcp.NewJSONRPCResultResponse(envelope.id, value))
	})
}

// mcpGoRequest is a type of request.
type mcpGoRequest struct {
	zero   func() any
	finish func(v any) error // completes the value after unmarshalling
	params func(v any) any
}

func enterMCPGoRequest(m messages.Message) (entry, error) {
	r := map[string]mcpGoRequest{
		"elicitation/create": {
			zero:   func() any { return new(mcp.ElicitationRequest) },
			finish: func(v any) error { return v.(*mcp.ElicitationRequest).Params.Validate() },
			params: func(v any) any { return v.(*mcp.ElicitationRequest).Params },
		},
		"initialize": {
			zero:   func() any { return new(mcp.InitializeRequest) },
			params: func(v any) any { return v.(*mcp.InitializeRequest).Params },
		},
		"sampling/createMessage": {
			zero:   func() any { return new(mcp.CreateMessageRequest) },
			finish: func(v any) error { return parseSamplingContent(v.(*mcp.CreateMessageRequest).Messages) },
			params: func(v any) any { return v.(*mcp.CreateMessageRequest).CreateMessageParams },
		},
		"tools/call": {
			zero:   func() any { return new(mcp.CallToolRequest) },
			params: func(v any) any { return v.(*mcp.CallToolRequest).Params },
		},
	}[m.Method]
	return enter(m, func(text []byte) (mcpGoEnvelope, any, error) {
		var base mcpGoBase
		if err := json.Unmarshal(text, &base); err != nil {
			return mcpGoEnvelope{}, nil, err
		}
		value := r.zero()
		err := json.Unmarshal(text, value)
		if err == nil && r.finish != nil {
			err = r.finish(value)
		}
		return mcpGoEnvelope{*base.ID, base.Method}, value, err
	}, func(envelope *mcpGoEnvelope, value any) ([]byte, error) {
		return json.Marshal(transport.JSONRPCRequest{
			JSONRPC: mcp.JSONRPC_VERSION, ID: envelope.id, Method: envelope.method, Params: r.params(value),
		})
	})
}

func parseSamplingContent(messages []mcp.SamplingMessage) error {
	for i := range messages {
		content, err := mcp.ParseSamplingContent(messages[i].Content)
		if err != nil {
			return err
		}
		messages[i].Content = content
	}
	return nil
}

// parsed converts a function for results to one that returns any.
func parsed[T any](parse func(*json.RawMessage) (*T, error)) func(*json.RawMessage) (any, error) {
	return func(raw *json.RawMessage) (any, error) { return parse(raw) }
}

// unmarshalResult decodes results for which mcp-go has no function. Its client unmarshals them.
func unmarshalResult[T any](raw *json.RawMessage) (*T, error) {
	v := new(T)
	return v, json.Unmarshal(*raw, v)
}
