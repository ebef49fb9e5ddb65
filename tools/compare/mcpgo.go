package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcpwire/mcpwire/tools/compare/probe"
)

func mcpGo() Peer {
	return Peer{
		Name:   "mcp-go",
		Module: "github.com/mark3labs/mcp-go",
		How: "The types of its package mcp, and of client/transport for responses, with the functions that its client and server use: " +
			"`ParseCallToolResult` and similar functions for results, `ParseSamplingContent` for messages, `Validate` for elicitations, " +
			"and encoding/json for the rest. A request counts as refused if its server responds with a parse error or an invalid request error.",
		Attempt: func(in Input) probe.Trial {
			decode, ok := mcpGoDecoders[in.Def]
			if !ok {
				return probe.Trial{}
			}
			return probe.Run([]byte(in.Doc), in.Subject, decode, probe.Marshal)
		},
	}
}

// mcpGoDecoders maps definitions to mcp-go's way to decode them.
var mcpGoDecoders = map[string]func([]byte) (any, error){
	"CallToolRequestParams":                 probe.Unmarshal(new(mcp.CallToolParams)),
	"CallToolResult":                        parsed(mcp.ParseCallToolResult),
	"CancelTaskResult":                      parsed(mcp.ParseCancelTaskResult),
	"CancelledNotificationParams":           probe.Unmarshal(new(mcp.CancelledNotificationParams)),
	"CompleteResult":                        probe.Unmarshal(new(mcp.CompleteResult)),
	"CreateMessageRequestParams":            decodeCreateMessageParams,
	"CreateMessageResult":                   decodeCreateMessageResult,
	"CreateTaskResult":                      probe.Unmarshal(new(mcp.CreateTaskResult)),
	"DiscoverResult":                        probe.Unmarshal(new(mcp.DiscoverResult)),
	"ElicitRequestParams":                   decodeElicitationParams,
	"ElicitResult":                          probe.Unmarshal(new(mcp.ElicitationResult)),
	"ElicitationCompleteNotificationParams": probe.Unmarshal(new(mcp.NotificationParams)),
	"GetPromptResult":                       parsed(mcp.ParseGetPromptResult),
	"GetTaskPayloadResult":                  parsed(mcp.ParseTaskResultResult),
	"GetTaskResult":                         parsed(mcp.ParseGetTaskResult),
	"InitializeRequestParams":               probe.Unmarshal(new(mcp.InitializeParams)),
	"InitializeResult":                      probe.Unmarshal(new(mcp.InitializeResult)),
	"JSONRPCBatch":                          decodeMCPGoRequest,
	"JSONRPCError":                          probe.Unmarshal(new(transport.JSONRPCResponse)),
	"JSONRPCErrorResponse":                  probe.Unmarshal(new(transport.JSONRPCResponse)),
	"JSONRPCNotification":                   probe.Unmarshal(new(mcp.JSONRPCNotification)),
	"JSONRPCRequest":                        decodeMCPGoRequest,
	"JSONRPCResponse":                       probe.Unmarshal(new(transport.JSONRPCResponse)),
	"ListResourcesResult":                   probe.Unmarshal(new(mcp.ListResourcesResult)),
	"ListTasksResult":                       parsed(mcp.ParseListTasksResult),
	"ListToolsRequestParams":                probe.Unmarshal(new(mcp.PaginatedParams)),
	"ListToolsResult":                       probe.Unmarshal(new(mcp.ListToolsResult)),
	"LoggingMessageNotificationParams":      probe.Unmarshal(new(mcp.LoggingMessageNotificationParams)),
	"ProgressNotificationParams":            probe.Unmarshal(new(mcp.ProgressNotificationParams)),
	"ReadResourceResult":                    parsed(mcp.ParseReadResourceResult),
	"Task":                                  probe.Unmarshal(new(mcp.Task)),
	"TaskStatusNotificationParams":          probe.Unmarshal(new(mcp.TaskStatusNotificationParams)),
	"Tool":                                  probe.Unmarshal(new(mcp.Tool)),
	"URLElicitationRequiredError":           decodeMCPGoURLElicitation,
}

// parsed returns a decoder that calls one of mcp-go's functions for results.
func parsed[T any](parse func(*json.RawMessage) (*T, error)) func([]byte) (any, error) {
	return func(doc []byte) (any, error) {
		raw := json.RawMessage(doc)
		return parse(&raw)
	}
}

// decodeMCPGoRequest decodes a request that mcp-go's server accepts.
func decodeMCPGoRequest(doc []byte) (any, error) {
	answer := server.NewMCPServer("s", "1").HandleMessage(context.Background(), doc)
	if e, ok := answer.(mcp.JSONRPCError); ok && (e.Error.Code == mcp.PARSE_ERROR || e.Error.Code == mcp.INVALID_REQUEST) {
		return nil, errors.New(e.Error.Message)
	}
	m := new(mcp.JSONRPCRequest)
	return m, json.Unmarshal(doc, m)
}

func decodeCreateMessageParams(doc []byte) (any, error) {
	p := new(mcp.CreateMessageParams)
	if err := json.Unmarshal(doc, p); err != nil {
		return nil, err
	}
	for i := range p.Messages {
		c, err := mcp.ParseSamplingContent(p.Messages[i].Content)
		if err != nil {
			return nil, err
		}
		p.Messages[i].Content = c
	}
	return p, nil
}

func decodeCreateMessageResult(doc []byte) (any, error) {
	r := new(mcp.CreateMessageResult)
	if err := json.Unmarshal(doc, r); err != nil {
		return nil, err
	}
	c, err := mcp.ParseSamplingContent(r.Content)
	r.Content = c
	return r, err
}

func decodeElicitationParams(doc []byte) (any, error) {
	p := new(mcp.ElicitationParams)
	if err := json.Unmarshal(doc, p); err != nil {
		return nil, err
	}
	return p, p.Validate()
}

// mcpGoURLElicitation is a response whose error data has mcp-go's type.
type mcpGoURLElicitation struct {
	transport.JSONRPCResponse
	Error struct {
		Code    int                             `json:"code"`
		Message string                          `json:"message"`
		Data    mcp.URLElicitationRequiredError `json:"data"`
	} `json:"error"`
}

func decodeMCPGoURLElicitation(doc []byte) (any, error) {
	v := new(mcpGoURLElicitation)
	if err := json.Unmarshal(doc, &v.JSONRPCResponse); err != nil {
		return nil, err
	}
	e := v.JSONRPCResponse.Error
	if e == nil {
		return nil, errors.New("not an error")
	}
	data, err := json.Marshal(e.Data)
	if err != nil {
		return nil, err
	}
	v.Error.Code, v.Error.Message = e.Code, e.Message
	return v, json.Unmarshal(data, &v.Error.Data)
}
