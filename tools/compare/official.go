// Types of features that revision 2026-07-28 deprecates are compared like all others.
//
//lint:file-ignore SA1019 the comparison includes deprecated types

package main

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	segmentio "github.com/segmentio/encoding/json"

	"github.com/mcpwire/mcpwire/tools/compare/probe"
)

func official() Peer {
	attempt := func(in Input, decode func([]byte, any) error) probe.Trial {
		switch in.Def {
		case "JSONRPCRequest", "JSONRPCNotification", "JSONRPCResponse", "JSONRPCError", "JSONRPCErrorResponse", "JSONRPCBatch":
			return probe.Run([]byte(in.Doc), in.Subject, decodeOfficialMessage, encodeOfficialMessage)
		case "URLElicitationRequiredError":
			return probe.Run([]byte(in.Doc), in.Subject, decodeURLElicitation, encodeURLElicitation)
		}
		zero, ok := officialTypes[in.Def]
		if !ok {
			return probe.Trial{}
		}
		return probe.Run([]byte(in.Doc), in.Subject, func(doc []byte) (any, error) {
			v := zero()
			return v, decode(doc, v)
		}, probe.Marshal)
	}
	return Peer{
		Name:   "go-sdk",
		Module: "github.com/modelcontextprotocol/go-sdk",
		How: "The official SDK. Messages use `jsonrpc.DecodeMessage` and `jsonrpc.EncodeMessage`; a request counts as refused if its " +
			"params do not match their type. Everything else uses encoding/json with the types of its package mcp: for params those that a " +
			"receiver gets (`CallToolParamsRaw`), for sampling those with tools. Its own sessions decode params and results with another " +
			"decoder, which matches names case-sensitively; the details report where that makes a difference.",
		Attempt: func(in Input) probe.Trial { return attempt(in, json.Unmarshal) },
		Else:    func(in Input) probe.Trial { return attempt(in, sessionUnmarshal) },
	}
}

// officialTypes maps definitions to the SDK's types.
var officialTypes = map[string]func() any{
	"CallToolRequestParams":                 func() any { return new(mcp.CallToolParamsRaw) },
	"CallToolResult":                        func() any { return new(mcp.CallToolResult) },
	"CancelledNotificationParams":           func() any { return new(mcp.CancelledParams) },
	"CompleteResult":                        func() any { return new(mcp.CompleteResult) },
	"CreateMessageRequestParams":            func() any { return new(mcp.CreateMessageWithToolsParams) },
	"CreateMessageResult":                   func() any { return new(mcp.CreateMessageWithToolsResult) },
	"DiscoverResult":                        func() any { return new(mcp.DiscoverResult) },
	"ElicitRequestParams":                   func() any { return new(mcp.ElicitParams) },
	"ElicitResult":                          func() any { return new(mcp.ElicitResult) },
	"ElicitationCompleteNotificationParams": func() any { return new(mcp.ElicitationCompleteParams) },
	"GetPromptResult":                       func() any { return new(mcp.GetPromptResult) },
	"InitializeRequestParams":               func() any { return new(mcp.InitializeParams) },
	"InitializeResult":                      func() any { return new(mcp.InitializeResult) },
	"ListResourcesResult":                   func() any { return new(mcp.ListResourcesResult) },
	"ListToolsRequestParams":                func() any { return new(mcp.ListToolsParams) },
	"ListToolsResult":                       func() any { return new(mcp.ListToolsResult) },
	"LoggingMessageNotificationParams":      func() any { return new(mcp.LoggingMessageParams) },
	"ProgressNotificationParams":            func() any { return new(mcp.ProgressNotificationParams) },
	"ReadResourceResult":                    func() any { return new(mcp.ReadResourceResult) },
	"Tool":                                  func() any { return new(mcp.Tool) },
}

// sessionUnmarshal decodes like the SDK's sessions: with the decoder and the setting of its
// internal package json.
func sessionUnmarshal(doc []byte, v any) error {
	d := segmentio.NewDecoder(bytes.NewReader(doc))
	d.DontMatchCaseInsensitiveStructFields()
	return d.Decode(v)
}

// decodeOfficialMessage decodes a message. For requests of the methods below, it also decodes the
// params into the type that a session would use.
func decodeOfficialMessage(doc []byte) (any, error) {
	m, err := jsonrpc.DecodeMessage(doc)
	if err != nil {
		return nil, err
	}
	request, ok := m.(*jsonrpc.Request)
	if !ok || request.Params == nil {
		return m, nil
	}
	var params any
	switch request.Method {
	case "ping":
		params = new(mcp.PingParams)
	case "tools/call":
		params = new(mcp.CallToolParamsRaw)
	case "notifications/initialized":
		params = new(mcp.InitializedParams)
	default:
		return m, nil
	}
	return m, sessionUnmarshal(request.Params, params)
}

func encodeOfficialMessage(v any) ([]byte, error) { return jsonrpc.EncodeMessage(v.(jsonrpc.Message)) }

// urlElicitation is a message whose error data is decoded like in the SDK's client.
type urlElicitation struct {
	message *jsonrpc.Response
	Error   struct {
		Data struct {
			Elicitations []*mcp.ElicitParams `json:"elicitations"`
		} `json:"data"`
	} `json:"error"`
}

func decodeURLElicitation(doc []byte) (any, error) {
	m, err := jsonrpc.DecodeMessage(doc)
	if err != nil {
		return nil, err
	}
	response, _ := m.(*jsonrpc.Response)
	if response == nil {
		return nil, errors.New("not a response")
	}
	v := &urlElicitation{message: response}
	e, ok := errors.AsType[*jsonrpc.Error](response.Error)
	if !ok || e.Code != mcp.CodeURLElicitationRequired {
		return nil, errors.New("not error -32042")
	}
	return v, json.Unmarshal(e.Data, &v.Error.Data)
}

func encodeURLElicitation(x any) ([]byte, error) {
	v := x.(*urlElicitation)
	e, ok := errors.AsType[*jsonrpc.Error](v.message.Error)
	if !ok {
		return nil, errors.New("no error")
	}
	var err error
	if e.Data, err = probe.Marshal(v.Error.Data); err != nil {
		return nil, err
	}
	return jsonrpc.EncodeMessage(v.message)
}
