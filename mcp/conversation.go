package mcp

import (
	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// DecodeRequest decodes a request or notification from JSON text, its params included, in one
// pass: they are its Payload, a pointer to a struct. Params of a method that the table does not
// have stay raw. For a response, and for the error, see [jsonrpc.Parse].
func DecodeRequest(data []byte, opts ...codec.Option) (jsonrpc.Message, error) {
	return jsonrpc.ParseTyped(data, answerTo(""), opts...)
}

// DecodeResponse decodes the response to a request of the given method from JSON text, its
// result included, in one pass: that is its Payload, as [DecodeResult] returns it. For an
// error response and for the error see [jsonrpc.Parse].
func DecodeResponse(method string, data []byte, opts ...codec.Option) (jsonrpc.Message, error) {
	return jsonrpc.ParseTyped(data, answerTo(method), opts...)
}

// answerTo types requests, and responses as what answers a method.
type answerTo string

func (a answerTo) ReadParams(r *codec.Reader, method string) codec.Value {
	return ReadMethodParams(r, method)
}

func (a answerTo) ReadResult(r *codec.Reader, id jsonrpc.ID) codec.Value {
	return ReadMethodResult(r, string(a))
}

// Conversation gives types to the messages of one connection, recorded in the order they
// went over it, both directions together. A response has no type of its own: it takes that
// of the request with its id, and what answers tasks/result takes that of the request that
// created the task. The zero value is ready to use. A Conversation belongs to one goroutine
// at a time.
type Conversation struct {
	// Params and Result read payloads by method, as [ReadMethodParams] and [ReadMethodResult] do, which
	// are used where they are nil. They are for methods of extensions.
	Params func(r *codec.Reader, method string) codec.Value
	Result func(r *codec.Reader, method string) codec.Value

	pending map[jsonrpc.ID][]request // requests without answer, the latest last
	tasks   map[string]string        // method that created a task, by task id
}

// request is a request that was not answered yet.
type request struct {
	method string // what it calls
	result string // whose result answers it
}

// Typed is a message with its place in a conversation. Its Payload is the decoded params or
// result: of the type that the method table names, or a *[Result] in a response whose request
// is not known.
type Typed struct {
	jsonrpc.Message
	// For is the method that the message calls or answers, or "" for a response whose
	// request is not known.
	For string
}

// Decode decodes the next message of the conversation from JSON text. The error is that of
// [jsonrpc.ParseTyped]; a message whose payload is at fault counts as seen all the same.
func (c *Conversation) Decode(data []byte, opts ...codec.Option) (Typed, error) {
	m, err := jsonrpc.ParseTyped(data, payloads{c}, opts...)
	return c.follow(m), err
}

// Next is Decode for a message that was parsed before, with its payload raw. Places in the
// error are counted from the start of the payload.
func (c *Conversation) Next(m jsonrpc.Message) (Typed, error) {
	var err error
	raw := m.Params
	read := func(r *codec.Reader) codec.Value { return payloads{c}.ReadParams(r, m.Method) }
	if m.Kind == jsonrpc.KindResponse {
		raw = m.Result
		read = func(r *codec.Reader) codec.Value { return payloads{c}.ReadResult(r, m.ID) }
	}
	if len(raw) > 0 && m.Payload == nil {
		known := true
		m.Payload, err = codec.UnmarshalFunc(raw, func(r *codec.Reader) codec.Value {
			v := read(r)
			if known = v != nil; !known {
				r.Skip()
			}
			return v
		})
		if err == nil && known {
			m.Params, m.Result = nil, nil
		}
	}
	return c.follow(m), err
}

// payloads are the types of a conversation's payloads.
type payloads struct{ c *Conversation }

func (p payloads) ReadParams(r *codec.Reader, method string) codec.Value {
	if p.c.Params != nil {
		return p.c.Params(r, method)
	}
	return ReadMethodParams(r, method)
}

func (p payloads) ReadResult(r *codec.Reader, id jsonrpc.ID) codec.Value {
	open := p.c.pending[id]
	if len(open) == 0 {
		return codec.New(r, (*Result).DecodeJSON)
	}
	method := open[len(open)-1].result
	if p.c.Result != nil {
		return p.c.Result(r, method)
	}
	return ReadMethodResult(r, method)
}

// follow takes note of a message.
func (c *Conversation) follow(m jsonrpc.Message) Typed {
	t := Typed{Message: m, For: m.Method}
	switch m.Kind {
	case jsonrpc.KindRequest:
		c.note(t)
	case jsonrpc.KindResponse:
		t.For = c.answered(m.ID).method
		if created, ok := m.Payload.(*CreateTaskResult); ok {
			if c.tasks == nil {
				c.tasks = map[string]string{}
			}
			c.tasks[created.Task.TaskID] = t.For
		}
	case jsonrpc.KindErrorResponse:
		t.For = c.answered(m.ID).method
	}
	return t
}

// Expect notes a request that was not part of the record, so that the response with its id
// is typed.
func (c *Conversation) Expect(id jsonrpc.ID, method string) {
	c.note(Typed{Message: jsonrpc.Message{ID: id, Method: method}})
}

// Expects reports whether there is a request with that id and without an answer.
func (c *Conversation) Expects(id jsonrpc.ID) bool { return len(c.pending[id]) > 0 }

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
