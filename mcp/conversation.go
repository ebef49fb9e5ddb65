package mcp

import (
	"slices"

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
// created the task. Each side numbers its requests on its own: where both have one with the
// same id under way, [Conversation.DecodeFrom], which is told who speaks, pairs the answers
// for certain; the other methods go by which request's results have such a schema, and leave
// the answer without a request if that does not settle it. The zero value is ready to use. A
// Conversation belongs to one goroutine at a time.
type Conversation struct {
	// Params and Result read payloads by method, as [ReadMethodParams] and [ReadMethodResult] do, which
	// are used where they are nil. They are for methods of extensions.
	Params func(r *codec.Reader, method string) codec.Value
	Result func(r *codec.Reader, method string) codec.Value

	pending map[jsonrpc.ID][]request // requests without answer
	tasks   map[string]string        // method that created a task, by task id
}

// request is a request that was not answered yet.
type request struct {
	method string    // what it calls; "" if it is one of several and nobody knows which
	result string    // whose result answers it
	from   Direction // who may have sent it
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
	return c.DecodeFrom(FromClient|FromServer, data, opts...)
}

// DecodeFrom is Decode for a message that is known to come from one side.
func (c *Conversation) DecodeFrom(from Direction, data []byte, opts ...codec.Option) (Typed, error) {
	p := &payloads{c: c, from: from, opts: opts}
	m, err := jsonrpc.ParseTyped(data, p, opts...)
	return p.follow(m), err
}

// Next is Decode for a message that was parsed before, with its payload raw. Places in the
// error are counted from the start of the payload, and the default limits hold for it.
func (c *Conversation) Next(m jsonrpc.Message) (Typed, error) {
	p := &payloads{c: c, from: FromClient | FromServer}
	var err error
	raw := m.Params
	read := func(r *codec.Reader) codec.Value { return p.ReadParams(r, m.Method) }
	if m.Kind == jsonrpc.KindResponse {
		raw = m.Result
		read = func(r *codec.Reader) codec.Value { return p.ReadResult(r, m.ID) }
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
	return p.follow(m), err
}

// payloads are the types of a conversation's payloads, for one message.
type payloads struct {
	c    *Conversation
	from Direction // who may have sent it
	opts []codec.Option
	// settled is the request that a response turned out to answer, where the id alone does
	// not tell.
	settled request
}

func (p *payloads) ReadParams(r *codec.Reader, method string) codec.Value {
	if p.c.Params != nil {
		return p.c.Params(r, method)
	}
	return ReadMethodParams(r, method)
}

func (p *payloads) ReadResult(r *codec.Reader, id jsonrpc.ID) codec.Value {
	req, candidates := p.c.asked(id, p.from)
	if req.method == "" && len(candidates) > 1 {
		req = p.settle(r, id, candidates)
	}
	if req.method == "" {
		return codec.New(r, (*Result).DecodeJSON)
	}
	return p.result(r, req.result)
}

func (p *payloads) result(r *codec.Reader, method string) codec.Value {
	if p.c.Result != nil {
		return p.c.Result(r, method)
	}
	return ReadMethodResult(r, method)
}

// settle finds the only one of the candidates whose results have a schema that admits the
// result which is next. It consumes nothing.
func (p *payloads) settle(r *codec.Reader, id jsonrpc.ID, candidates []int) request {
	mark := r.Mark()
	raw := r.Raw()
	r.Rewind(mark)
	var fit []request
	for _, i := range candidates {
		req := p.c.pending[id][i]
		if !slices.Contains(fit, req) && p.admits(raw, req.result) {
			fit = append(fit, req)
		}
	}
	if len(fit) != 1 {
		return request{}
	}
	p.settled = fit[0]
	return fit[0]
}

// admits reports whether raw is a valid result of a method in some revision.
func (p *payloads) admits(raw []byte, method string) bool {
	v, err := codec.UnmarshalFunc(raw, func(r *codec.Reader) codec.Value { return p.result(r, method) }, p.opts...)
	typed, ok := v.(Value)
	m, known := LookupMethod(method)
	if err != nil || !ok || !known {
		return false
	}
	return slices.ContainsFunc(table.Revisions, func(rev string) bool {
		return m.In(Revision(rev)) && typed.Validate(Revision(rev)) == nil
	})
}

// follow takes note of a message.
func (p *payloads) follow(m jsonrpc.Message) Typed {
	c := p.c
	t := Typed{Message: m, For: m.Method}
	switch m.Kind {
	case jsonrpc.KindRequest:
		c.note(t, p.from)
	case jsonrpc.KindResponse:
		t.For = p.answered(m.ID)
		if created, ok := m.Payload.(*CreateTaskResult); ok {
			if c.tasks == nil {
				c.tasks = map[string]string{}
			}
			c.tasks[created.Task.TaskID] = t.For
		}
	case jsonrpc.KindErrorResponse:
		t.For = p.answered(m.ID)
	}
	return t
}

// Expect notes a request that was not part of the record, so that the response with its id
// is typed.
func (c *Conversation) Expect(id jsonrpc.ID, method string) {
	c.note(Typed{Message: jsonrpc.Message{ID: id, Method: method}}, FromClient|FromServer)
}

// Expects reports whether there is a request with that id and without an answer.
func (c *Conversation) Expects(id jsonrpc.ID) bool { return len(c.pending[id]) > 0 }

func (c *Conversation) note(t Typed, from Direction) {
	req := request{t.Method, t.Method, from}
	if m, ok := LookupMethod(t.Method); ok && m.From&from != 0 {
		req.from &= m.From
	}
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

// asked returns the request that a response from one side answers, and which of the pending
// ones it can be. If these want different results, the request is the zero one.
func (c *Conversation) asked(id jsonrpc.ID, from Direction) (req request, candidates []int) {
	for i, p := range c.pending[id] {
		if p.from == from && from != FromClient|FromServer {
			continue // nobody answers himself
		}
		if len(candidates) > 0 && (p.method != req.method || p.result != req.result) {
			p = request{}
		}
		if len(candidates) == 0 || p.method == "" {
			req = p
		}
		candidates = append(candidates, i)
	}
	return req, candidates
}

// answered takes the request that was answered off the list and returns its method. If it is
// not known which one it was, those that remain of the candidates are no longer known either.
func (p *payloads) answered(id jsonrpc.ID) string {
	req, candidates := p.c.asked(id, p.from)
	if len(candidates) == 0 {
		return ""
	}
	open := p.c.pending[id]
	gone := candidates[0]
	switch {
	case p.settled.method != "":
		req, gone = p.settled, slices.Index(open, p.settled)
	case req.method == "":
		for _, i := range candidates {
			open[i] = request{from: FromClient | FromServer}
		}
	}
	if len(open) == 1 {
		delete(p.c.pending, id)
	} else {
		p.c.pending[id] = slices.Delete(open, gone, gone+1)
	}
	return req.method
}
