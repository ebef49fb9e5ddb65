package mcp

import (
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// Conversation gives types to the messages of one connection, recorded in the order they
// went over it, both directions together. A response has no type of its own: it takes that
// of the request with its id, and what answers tasks/result takes that of the request that
// created the task. The zero value is ready to use. A Conversation belongs to one goroutine
// at a time.
type Conversation struct {
	// Params and Result decode payloads by method, as [DecodeParams] and [DecodeResult] do,
	// which are used where they are nil. They are for methods of extensions.
	Params func(method string, data []byte) (codec.Value, error)
	Result func(method string, data []byte) (codec.Value, error)

	pending map[jsonrpc.ID][]request // requests without answer, the latest last
	tasks   map[string]string        // method that created a task, by task id
}

// request is a request that was not answered yet.
type request struct {
	method string // what it calls
	result string // whose result answers it
}

// Typed is a message whose payload is decoded.
type Typed struct {
	jsonrpc.Message
	// For is the method that the message calls or answers, or "" for a response whose
	// request is not known.
	For string
	// Payload is the decoded params or result: of the type that the method table names, nil
	// if there are no params or in an error response, and a *[Result] in a response whose
	// request is not known.
	Payload codec.Value
}

// Next decodes the payload of the next message. The error is that of decoding it, with
// places counted from the start of the payload; the message counts as seen all the same.
func (c *Conversation) Next(m jsonrpc.Message) (Typed, error) {
	t := Typed{Message: m, For: m.Method}
	var err error
	switch m.Kind {
	case jsonrpc.KindRequest, jsonrpc.KindNotification:
		if len(m.Params) > 0 {
			t.Payload, err = c.params(m.Method, m.Params)
		}
		if m.Kind == jsonrpc.KindRequest {
			c.note(t)
		}
	case jsonrpc.KindResponse:
		req := c.answered(m.ID)
		t.For = req.method
		if req.method == "" {
			result := new(Result)
			t.Payload, err = result, codec.Unmarshal(m.Result, result)
			break
		}
		t.Payload, err = c.result(req.result, m.Result)
		if created, ok := t.Payload.(*CreateTaskResult); ok && err == nil {
			if c.tasks == nil {
				c.tasks = map[string]string{}
			}
			c.tasks[created.Task.TaskID] = req.method
		}
	case jsonrpc.KindErrorResponse:
		t.For = c.answered(m.ID).method
	}
	if err != nil {
		t.Payload = nil
	}
	return t, err
}

// Expect notes a request that was not part of the record, so that the response with its id
// is typed.
func (c *Conversation) Expect(id jsonrpc.ID, method string) {
	c.note(Typed{Message: jsonrpc.Message{ID: id, Method: method}})
}

func (c *Conversation) note(t Typed) {
	req := request{t.Method, t.Method}
	if p, ok := t.Payload.(*GetTaskPayloadRequestParams); ok {
		if creator := c.tasks[p.TaskID]; creator != "" {
			req.result = creator
		}
	}
	if c.pending == nil {
		c.pending = map[jsonrpc.ID][]request{}
	}
	c.pending[t.ID] = append(c.pending[t.ID], req)
}

// answered takes the latest request with an id off the list. Both sides number their
// requests on their own; where one asks the other during a call, the inner answer is first.
func (c *Conversation) answered(id jsonrpc.ID) request {
	open := c.pending[id]
	if len(open) == 0 {
		return request{}
	}
	req := open[len(open)-1]
	if len(open) == 1 {
		delete(c.pending, id)
	} else {
		c.pending[id] = open[:len(open)-1]
	}
	return req
}

func (c *Conversation) params(method string, data json.RawMessage) (codec.Value, error) {
	if c.Params != nil {
		return c.Params(method, data)
	}
	return DecodeParams(method, data)
}

func (c *Conversation) result(method string, data json.RawMessage) (codec.Value, error) {
	if c.Result != nil {
		return c.Result(method, data)
	}
	return DecodeResult(method, data)
}
