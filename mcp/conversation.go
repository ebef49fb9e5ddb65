package mcp

import (
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// DecodeRequest decodes a request or notification and its params from JSON text in one pass. The
// Payload of the message is a pointer to the struct of the params. Params of an unknown method stay
// raw. DecodeRequest handles responses, and returns errors, like [jsonrpc.Parse].
func DecodeRequest(data []byte, opts ...codec.Option) (jsonrpc.Message, error) {
	return jsonrpc.ParseTyped(data, answerTo(""), opts...)
}

// DecodeResponse decodes the response to a request of the given method, and its result, from JSON
// text in one pass. The Payload of the message is the value that [DecodeResult] returns.
// DecodeResponse handles error responses, and returns errors, like [jsonrpc.Parse].
func DecodeResponse(method string, data []byte, opts ...codec.Option) (jsonrpc.Message, error) {
	return jsonrpc.ParseTyped(data, answerTo(method), opts...)
}

// answerTo selects the types of payloads: results are those of the method that it names.
type answerTo string

func (a answerTo) ReadParams(r *wire.Reader, method string) codec.Value {
	return ReadMethodParams(r, method)
}

func (a answerTo) ReadResult(r *wire.Reader, id jsonrpc.ID) codec.Value {
	return ReadMethodResult(r, string(a))
}

// NeedsID returns false, because the method is known.
func (a answerTo) NeedsID() bool { return false }

// Conversation gives types to the messages of one connection, both directions together, in the
// order in which they were sent. The type of a result depends on the request with the same id, and
// the type of the result of tasks/result on the request that created the task.
//
// Each side chooses the ids of its requests, so both sides may have pending requests with the same
// id. [Conversation.DecodeFrom] knows the sender and always finds the right request. The other
// methods choose the request whose result schema admits the result. If that does not determine the
// request, the response has none.
//
// A Conversation keeps each request until it is answered, and the id and method of each task
// forever. The zero value is ready to use. A Conversation is not safe for concurrent use.
type Conversation struct {
	// Params and Result read payloads by method. Set them to support the methods of extensions.
	// They default to [ReadMethodParams] and [ReadMethodResult]. Package ext/tasks has those of the Tasks
	// extension.
	Params func(r *wire.Reader, method string) codec.Value
	Result func(r *wire.Reader, method string) codec.Value

	pending map[jsonrpc.ID][]requests
	tasks   map[string]string // method that created a task, by task id
}

// requests counts equal requests that are pending.
type requests struct {
	request
	count int
}

type request struct {
	method string    // "" if it is one of several requests and it is not known which
	result string    // the method whose result type the response has
	from   Direction // the sides that may have sent it
}

// maxPending limits the number of different requests that may be pending under one id. A valid
// conversation has at most two, one from each side. Beyond maxPending, a Conversation no longer
// distinguishes them, so that a peer that uses one id for all requests causes no extra work.
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
// [jsonrpc.ParseTyped]. A response whose payload has the wrong shape still counts as the response
// to its request. Malformed text and invalid messages do not: the conversation still expects a
// response to that request.
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

// payloads reads the payload of one message of a conversation.
type payloads struct {
	c    *Conversation
	from Direction // the sides that may have sent it
	opts []codec.Option
	// settled is the request that a response answers, if its result determined the request.
	settled request
}

func (p *payloads) ReadParams(r *wire.Reader, method string) codec.Value {
	if p.c.Params != nil {
		return p.c.Params(r, method)
	}
	return ReadMethodParams(r, method)
}

func (p *payloads) NeedsID() bool { return true }

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

// settle returns the only candidate whose result schema admits the next value of r, or the zero
// request. It consumes nothing.
func (p *payloads) settle(r *wire.Reader, id jsonrpc.ID, candidates []int) request {
	mark := r.Checkpoint()
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

// follow records a valid message.
func (p *payloads) follow(m jsonrpc.Message) Typed {
	c := p.c
	t := Typed{Message: m, For: m.Method}
	switch m.Kind {
	case jsonrpc.KindRequest:
		c.record(t, p.from)
	case jsonrpc.KindResponse:
		t.For = p.answered(m.ID)
		if created, ok := m.Payload.(*CreateTaskResult); ok {
			if c.tasks == nil {
				c.tasks = map[string]string{}
			}
			c.tasks[strings.Clone(created.Task.TaskID)] = t.For // a copy, so that it does not keep the whole message in memory
		}
	case jsonrpc.KindErrorResponse:
		t.For = p.answered(m.ID)
	}
	return t
}

// Expect records a request that was not decoded by c, so that c can give a type to its response.
func (c *Conversation) Expect(id jsonrpc.ID, method string) {
	c.record(Typed{Message: jsonrpc.Message{ID: id, Method: method}}, FromClient|FromServer)
}

// Expects reports whether a request with that id is pending.
func (c *Conversation) Expects(id jsonrpc.ID) bool { return len(c.pending[id]) > 0 }

func (c *Conversation) record(t Typed, from Direction) {
	method := strings.Clone(t.Method) // a copy, so that it does not keep the whole message in memory
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
		open = merge(open, func(request) bool { return true })
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

// merge replaces all requests in open that match by requests of an unknown method.
func merge(open []requests, match func(request) bool) []requests {
	var merged requests
	open = slices.DeleteFunc(open, func(r requests) bool {
		if !match(r.request) {
			return false
		}
		merged.count += r.count
		merged.from |= r.from
		return true
	})
	return add(open, merged.request, merged.count)
}

// mayAnswer reports whether a message from one side may answer the request.
func (r request) mayAnswer(from Direction) bool {
	return r.from != from || from == FromClient|FromServer // a side does not answer its own requests
}

// asked returns the request that a response from one side answers, and the indexes of the pending
// requests that it can be. If their results differ in type, the request is the zero value.
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

// answered removes the answered request and returns its method. If several requests can be meant,
// it merges them first and removes one of the result.
func (p *payloads) answered(id jsonrpc.ID) string {
	req, candidates := p.c.asked(id, p.from)
	if len(candidates) == 0 {
		return ""
	}
	open := p.c.pending[id]
	answered := candidates[0]
	switch {
	case p.settled.method != "":
		req = p.settled
		answered = slices.IndexFunc(open, func(r requests) bool { return r.request == req })
	case req.method == "":
		open = merge(open, func(r request) bool { return r.mayAnswer(p.from) })
		answered = len(open) - 1
	}
	if open[answered].count--; open[answered].count == 0 {
		open = slices.Delete(open, answered, answered+1)
	}
	if len(open) == 0 {
		delete(p.c.pending, id)
	} else {
		p.c.pending[id] = open
	}
	return req.method
}
