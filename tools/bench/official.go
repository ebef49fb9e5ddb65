package main

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	segmentio "github.com/segmentio/encoding/json"

	"github.com/mcpwire/mcpwire/tools/bench/internal/messages"
)

// enterOfficial decodes like the sessions of the official SDK: the envelope with
// jsonrpc.DecodeMessage, then the payload into the type of its package mcp, with the decoder of
// segmentio/encoding and the setting of the SDK's internal package json. It omits the SDK's check
// of the payload's depth. It encodes by marshalling the payload without HTML escapes and calling
// jsonrpc.EncodeMessage.
func enterOfficial(m messages.Message) (entry, error) {
	var e entry
	var err error
	if zero := officialType(m); zero != nil {
		e, err = enter(m, func(text []byte) (jsonrpc.Message, any, error) {
			envelope, err := jsonrpc.DecodeMessage(text)
			if err != nil {
				return nil, nil, err
			}
			value := zero()
			return envelope, value, officialUnmarshal(officialPayload(envelope), value)
		}, func(envelope *jsonrpc.Message, value any) ([]byte, error) {
			payload, err := officialMarshal(value)
			if err != nil {
				return nil, err
			}
			if r, ok := (*envelope).(*jsonrpc.Request); ok {
				return jsonrpc.EncodeMessage(&jsonrpc.Request{ID: r.ID, Method: r.Method, Params: payload})
			}
			return jsonrpc.EncodeMessage(&jsonrpc.Response{ID: (*envelope).(*jsonrpc.Response).ID, Result: payload})
		})
	}
	if m.Form != messages.BareTask {
		e.envelope = func() error {
			_, err := jsonrpc.DecodeMessage(m.Data)
			return err
		}
	}
	return e, err
}

// officialType returns a function that makes a value of the SDK's type for the payload of m. It
// returns nil if the SDK has no type, as for tasks.
func officialType(m messages.Message) func() any {
	switch {
	case m.Form == messages.BareTask || m.AsTask:
		return nil
	case m.Form == messages.Response:
		return map[string]func() any{
			"initialize":     func() any { return new(mcp.InitializeResult) },
			"prompts/get":    func() any { return new(mcp.GetPromptResult) },
			"resources/list": func() any { return new(mcp.ListResourcesResult) },
			"tools/call":     func() any { return new(mcp.CallToolResult) },
			"tools/list":     func() any { return new(mcp.ListToolsResult) },
		}[m.Method]
	}
	return map[string]func() any{
		"elicitation/create":     func() any { return new(mcp.ElicitParams) },
		"initialize":             func() any { return new(mcp.InitializeParams) },
		"notifications/progress": func() any { return new(mcp.ProgressNotificationParams) },
		//lint:ignore SA1019 clients decode sampling requests into it
		"sampling/createMessage": func() any { return new(mcp.CreateMessageWithToolsParams) },
		"tools/call":             func() any { return new(mcp.CallToolParamsRaw) },
	}[m.Method]
}

func officialPayload(envelope jsonrpc.Message) json.RawMessage {
	if r, ok := envelope.(*jsonrpc.Request); ok {
		return r.Params
	}
	return envelope.(*jsonrpc.Response).Result
}

func officialUnmarshal(text []byte, v any) error {
	d := segmentio.NewDecoder(bytes.NewReader(text))
	d.DontMatchCaseInsensitiveStructFields()
	return d.Decode(v)
}

func officialMarshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
