package mcp

import (
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
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

func (a answerTo) ReadParams(r *wire.Reader, method string) codec.Value {
	return ReadMethodParams(r, method)
}

func (a answerTo) ReadResult(r *wire.Reader, id jsonrpc.ID) codec.Value {
	return ReadMethodResult(r, string(a))
}

// ReadsAnyResult says that the id does not matter: the method is known.
func (a answerTo) ReadsAnyResult() {}

// Conversation gives types to the messages of one connection, recorded in the order they
// went over it, both directions together. A response has no type of its own: it takes that
// of the request with its id, and what answers tasks/result takes that of the request that
// created the task. Each side numbers its requests on its own: where both have one with the
// same id under way, [Conversation.DecodeFrom], which is told who speaks, pairs the answers
// for certain; the other methods go by which request's results have such a schema, and leave
// the answer without a request if that does not settle it. A Conversation keeps each request until its
// answer comes, and the id and the method of each task for as long as it is in use itself. The zero value
// is ready to use. A Conversation belongs to one goroutine at a time.
type Conversation struct {
	// Params and Result read payloads by method, as [ReadMethodParams] and [ReadMethodResult] do, which
	// are used where they are nil. They are for methods of extensions.
	Params func(r *wire.Reader, method string) codec.Value
	Result func(r *wire.Reader, method string) codec.Value

	pending map[jsonrpc.ID][]requests
	tasks   map[string]string // method that created a task, by task id
}

// requests are some that were not answered yet, all alike.
type requests struct {
	request
	count int
}

type request struct {
	method string    // what it calls; "" if it is one of several and nobody knows which
	result string    // whose result answers it
	from   Direction // who may have sent it
}

// maxPending is how many requests that differ may be pending under one id. Two are in order, one from each side. With
// more than maxPending nobody can tell which of them an answer belongs to, and all are the same to a Conversation,
// so that a peer that uses one id for everything makes no more work than another.
const maxPending = 8

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
// [jsonrpc.ParseTyped]. A response whose payload has the wrong shape still counts as the response to
// its request. Malformed text and invalid messages do not: the conversation still expects a response
// to that request.
func (c *Conversation) Decode(data []byte, opts ...codec.Option) (Typed, error) {
	return c.DecodeFrom(FromClient|FromServer, data, opts...)
}

// DecodeFrom is Decode for a message that is known to come from one side.
func (c *Conversation) DecodeFrom(from Direction, data []byte, opts ...codec.Option) (Typed, error) {
	p := &payloads{c: c, from: from, opts: opts}
	m, err := jsonrpc.ParseTyped(data, p, opts...)
	return p.take(m, err)
}

// Next is Decode for a message that was parsed before, with its payload raw. Places in the
// error are counted from the start of the payload, and the default limits hold for it.
func (c *Conversation) Next(m jsonrpc.Message) (Typed, error) {
	p := &payloads{c: c, from: FromClient | FromServer}
	var err error
	raw := m.Params
	read := func(r *wire.Reader) codec.Value { return p.ReadParams(r, m.Method) }
	if m.Kind == jsonrpc.KindResponse {
		raw = m.Result
		read = func(r *wire.Reader) codec.Value { return p.ReadResult(r, m.ID) }
	}
	if len(raw) > 0 && m.Payload == nil {
		known := true
		m.Payload, err = codec.UnmarshalFunc(raw, func(r *wire.Reader) codec.Value {
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
	return p.take(m, err)
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

func (p *payloads) ReadParams(r *wire.Reader, method string) codec.Value {
	if p.c.Params != nil {
		return p.c.Params(r, method)
	}
	return ReadMethodParams(r, method)
}

func (p *payloads) ReadResult(r *wire.Reader, id jsonrpc.ID) codec.Value {
	req, candidates := p.c.asked(id, p.from)
	if req.method == "" && len(candidates) > 1 {
		req = p.settle(r, id, candidates)
	}
	if req.method == "" {
		return wire.New(r, (*Result).DecodeJSON)
	}
	return p.result(r, req.result)
}

func (p *payloads) result(r *wire.Reader, method string) codec.Value {
	if p.c.Result != nil {
		return p.c.Result(r, method)
	}
	return ReadMethodResult(r, method)
}

// settle finds the only one of the candidates whose results have a schema that admits the
// result which is next. It consumes nothing.
func (p *payloads) settle(r *wire.Reader, id jsonrpc.ID, candidates []int) request {
	mark := r.Mark()
	raw := r.Raw()
	r.Rewind(mark)
	var fit []request
	for _, i := range candidates {
		if req := p.c.pending[id][i].request; p.admits(raw, req.result) {
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
	v, err := codec.UnmarshalFunc(raw, func(r *wire.Reader) codec.Value { return p.result(r, method) }, p.opts...)
	typed, ok := v.(Value)
	m, known := LookupMethod(method)
	if err != nil || !ok || !known {
		return false
	}
	return slices.ContainsFunc(table.Revisions, func(rev string) bool {
		return m.In(Revision(rev)) && typed.Validate(Revision(rev)) == nil
	})
}

// take records m in the conversation. If err says that m is not a valid message, it leaves the
// conversation unchanged.
func (p *payloads) take(m jsonrpc.Message, err error) (Typed, error) {
	if err == nil || jsonrpc.CodeOf(err) == jsonrpc.CodeInvalidParams {
		return p.follow(m), err
	}
	t := Typed{Message: m, For: m.Method}
	if m.Kind == jsonrpc.KindResponse || m.Kind == jsonrpc.KindErrorResponse {
		req, _ := p.c.asked(m.ID, p.from)
		t.For = req.method
	}
	return t, err
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
			c.tasks[strings.Clone(created.Task.TaskID)] = t.For // without the message that it is part of
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
	method := strings.Clone(t.Method) // without the message that it is part of
	req := request{method, method, from}
	if m, ok := LookupMethod(method); ok && m.From&from != 0 {
		req.from &= m.From
	}
	if p, ok := t.Payload.(*GetTaskPayloadRequestParams); ok {
		if creator := c.tasks[p.TaskID]; creator != "" {
			req.result = creator
		}
	}
	if c.pending == nil {
		c.pending = map[jsonrpc.ID][]requests{}
	}
	open := add(c.pending[t.ID], req, 1)
	if len(open) > maxPending {
		open = forget(open, func(request) bool { return true })
	}
	c.pending[t.ID] = open
}

// add adds requests that are all alike to open.
func add(open []requests, req request, count int) []requests {
	if i := slices.IndexFunc(open, func(r requests) bool { return r.request == req }); i >= 0 {
		open[i].count += count
		return open
	}
	return append(open, requests{req, count})
}

// forget makes one of all requests in open that match, of which nobody knows any more what they call.
func forget(open []requests, match func(request) bool) []requests {
	var lost requests
	open = slices.DeleteFunc(open, func(r requests) bool {
		if !match(r.request) {
			return false
		}
		lost.count += r.count
		lost.from |= r.from
		return true
	})
	return add(open, lost.request, lost.count)
}

// mayAnswer reports whether a message from one side may answer the request.
func (r request) mayAnswer(from Direction) bool {
	return r.from != from || from == FromClient|FromServer // nobody answers himself
}

// asked returns the request that a response from one side answers, and which of the pending
// ones it can be. If these want different results, the request is the zero one.
func (c *Conversation) asked(id jsonrpc.ID, from Direction) (req request, candidates []int) {
	for i, open := range c.pending[id] {
		p := open.request
		if !p.mayAnswer(from) {
			continue
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
		req = p.settled
		gone = slices.IndexFunc(open, func(r requests) bool { return r.request == req })
	case req.method == "":
		open = forget(open, func(r request) bool { return r.mayAnswer(p.from) })
		gone = len(open) - 1
	}
	if open[gone].count--; open[gone].count == 0 {
		open = slices.Delete(open, gone, gone+1)
	}
	if len(open) == 0 {
		delete(p.c.pending, id)
	} else {
		p.c.pending[id] = open
	}
	return req.method
}
