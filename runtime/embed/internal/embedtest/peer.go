package embedtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// peer is a client that sends and receives raw messages.
type peer struct {
	c            *check
	conn         transport.Conn
	era          string
	capabilities string // of the client
	initialize   string // result of initialize or server/discover

	// serve responds to an input request with a result or an error. Nil responds with defaults.
	serve func(method, params string) (string, *jsonrpc.Error)

	// escape makes the client escape slashes in JSON.
	escape bool

	mu       sync.Mutex
	id       int64
	pending  map[jsonrpc.ID]chan jsonrpc.Message
	received []jsonrpc.Message // notifications, and input requests in sessions
	changed  chan struct{}     // closed and replaced when received has grown
	ended    chan struct{}
	closed   atomic.Bool // close was called
}

// Capabilities of clients.
const (
	inputCapabilities = `"elicitation":{},"sampling":{},"roots":{}`
	withExtension     = `"extensions":{"io.modelcontextprotocol/tasks":{}}`
)

// peer connects a client of the era of the case, with all capabilities.
func (c *check) peer() *peer {
	c.Helper()
	return c.peerOf(c.era, everything(c.era), nil)
}

// peerAs connects a client of a principal, over HTTP.
func (c *check) peerAs(user string) *peer {
	c.Helper()
	return c.peerOf(c.era, everything(c.era), http.Header{userHeader: {user}, "Authorization": {"Bearer " + user}})
}

// everything returns all capabilities of a client.
func everything(era string) string {
	if era == "modern" {
		return "{" + inputCapabilities + "," + withExtension + "}"
	}
	return "{" + inputCapabilities + "}"
}

// peerOf connects a client with the given capabilities and header.
func (c *check) peerOf(era, capabilities string, header http.Header) *peer {
	c.Helper()
	conn, listening, err := c.connect(header)
	if err != nil {
		c.Fatalf("connect: %v", err)
	}
	p := c.peerOver(conn, era, capabilities)
	if era == "session" && listening != nil {
		select {
		case <-listening: // a server may drop messages that it sends earlier
		case <-c.ctx.Done():
			c.Fatalf("the standing stream has not opened")
		}
	}
	return p
}

// peerOver connects a client over a connection.
func (c *check) peerOver(conn transport.Conn, era, capabilities string) *peer {
	c.Helper()
	p := c.open(conn, era, capabilities)
	if era == "modern" {
		p.initialize = p.result("server/discover", `{}`)
	} else {
		p.handshake("2025-11-25")
	}
	return p
}

// handshake opens a session.
func (p *peer) handshake(revision string) {
	p.c.Helper()
	p.initialize = p.result("initialize", `{"protocolVersion":"`+revision+`","clientInfo":{"name":"suite","version":"1"},"capabilities":`+p.capabilities+`}`)
	p.write(jsonrpc.NewNotification("notifications/initialized", nil))
}

// open returns a client that has sent nothing.
func (c *check) open(conn transport.Conn, era, capabilities string) *peer {
	c.Helper()
	p := &peer{c: c, conn: conn, era: era, capabilities: capabilities, pending: map[jsonrpc.ID]chan jsonrpc.Message{}, changed: make(chan struct{}), ended: make(chan struct{})}
	go p.read() // ends with the connection
	c.Cleanup(p.end)
	return p
}

// end cancels the requests without a response, such as subscriptions, and closes the connection.
// The server need not wait for these requests.
func (p *peer) end() {
	p.mu.Lock()
	open := slices.Collect(maps.Keys(p.pending))
	p.mu.Unlock()
	for _, id := range open {
		if text, err := new(jsonrpc.NewNotification("notifications/cancelled", cancelled(p, id.String()))).AppendJSON(nil); err == nil {
			p.conn.Write(p.c.ctx, transport.Message{Text: text})
		}
	}
	p.close()
}

// close closes the connection.
func (p *peer) close() {
	p.closed.Store(true)
	p.conn.Close()
	<-p.ended
}

func (p *peer) write(m jsonrpc.Message) {
	p.c.Helper()
	text, err := m.AppendJSON(nil)
	if err == nil {
		if p.escape {
			text = bytes.ReplaceAll(text, []byte("/"), []byte(`\/`))
		}
		err = p.conn.Write(p.c.ctx, transport.Message{Text: text})
	}
	if err != nil && !p.closed.Load() { // a case may end before a response to a withdrawn request is sent
		p.c.Errorf("send %s: %v", m.Method, err)
	}
}

func (p *peer) read() {
	defer close(p.ended)
	var served sync.WaitGroup
	defer served.Wait()
	for {
		received, err := p.conn.Read()
		var m jsonrpc.Message
		switch e := err.(type) {
		case nil:
			if m, err = jsonrpc.ParseReceived(received.Text); err != nil {
				p.c.Errorf("received %s: %v", received.Text, err)
				continue
			}
		case *transport.DeliveryError:
			m = jsonrpc.NewErrorResponse(e.ID, &jsonrpc.Error{Code: lost, Message: e.Error()})
		case *transport.MessageError, *transport.SessionLostError:
			p.c.Logf("received %v", err)
			continue
		default:
			p.mu.Lock()
			for id, waiter := range p.pending {
				waiter <- jsonrpc.NewErrorResponse(id, &jsonrpc.Error{Code: lost, Message: err.Error()})
				delete(p.pending, id)
			}
			p.mu.Unlock()
			return
		}
		p.receiveMessage(m, &served)
	}
}

// lost is the code of the error of requests whose response is lost.
const lost = 1

// receiveMessage passes a response to its request. It records other messages, and serves requests.
func (p *peer) receiveMessage(m jsonrpc.Message, served *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Method == "" {
		if waiter := p.pending[m.ID]; waiter != nil {
			waiter <- m
			delete(p.pending, m.ID)
		}
		return
	}
	p.received = append(p.received, m)
	close(p.changed)
	p.changed = make(chan struct{})
	if m.Kind == jsonrpc.KindRequest {
		served.Go(func() {
			result, failed := p.respond(m.Method, string(m.Params))
			if failed != nil {
				p.write(jsonrpc.NewErrorResponse(m.ID, failed))
			} else {
				p.write(jsonrpc.NewResponse(m.ID, json.RawMessage(result)))
			}
		})
	}
}

// respond responds to an input request.
func (p *peer) respond(method, params string) (string, *jsonrpc.Error) {
	if p.serve != nil {
		return p.serve(method, params)
	}
	switch method {
	case "elicitation/create":
		return accept(unquote(part(params, "message"))), nil
	case "sampling/createMessage":
		return `{"role":"assistant","model":"m","content":{"type":"text","text":"sampled"}}`, nil
	case "roots/list":
		return `{"roots":[{"uri":"file:///a"},{"uri":"file:///b"}]}`, nil
	case "ping":
		return `{}`, nil
	}
	return "", &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method}
}

// accept returns the response to a form.
func accept(name string) string {
	return fmt.Sprintf(`{"action":"accept","content":{"name":%q}}`, name)
}

// part returns a nested member of a JSON object, or "" if there is none.
func part(object string, names ...string) string {
	for _, name := range names {
		value, _ := codec.Member([]byte(object), name)
		object = string(value)
	}
	return object
}

// members returns the elements of a list in a JSON object.
func members(object, name string) (list []string) {
	var raw []json.RawMessage
	json.Unmarshal([]byte(part(object, name)), &raw)
	for _, r := range raw {
		list = append(list, string(r))
	}
	return list
}

// names returns the names of the members of a JSON object, sorted.
func names(object string) []string {
	var raw map[string]json.RawMessage
	json.Unmarshal([]byte(object), &raw)
	return slices.Sorted(maps.Keys(raw))
}

// unquote returns the value of a JSON string.
func unquote(text string) (value string) {
	json.Unmarshal([]byte(text), &value)
	return value
}

// start sends a request. Params is an object. In revisions without sessions, it gets a _meta unless
// it has one.
func (p *peer) start(method, params string) (id int64, response chan jsonrpc.Message) {
	p.c.Helper()
	params = p.complete(params)
	p.mu.Lock()
	p.id++
	id = p.id
	p.mu.Unlock()
	return id, p.startAs(codec.IntScalar(id), method, params)
}

// complete adds the _meta of revisions without sessions to params that have none.
func (p *peer) complete(params string) string {
	if p.era == "modern" && part(params, "_meta") == "" {
		return withMeta(params, p.capabilities, "")
	}
	return params
}

// startAs sends a request with an id.
func (p *peer) startAs(id jsonrpc.ID, method, params string) (response chan jsonrpc.Message) {
	p.c.Helper()
	response = make(chan jsonrpc.Message, 1)
	p.mu.Lock()
	p.pending[id] = response
	p.mu.Unlock()
	p.write(jsonrpc.NewRequest(id, method, json.RawMessage(params)))
	return response
}

// withMeta adds the _meta of revisions without sessions to params. More is empty or further
// members, each after a comma.
func withMeta(params, capabilities, more string) string {
	rest := strings.TrimPrefix(strings.TrimSpace(params), "{")
	if rest != "}" {
		rest = "," + rest
	}
	return fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"suite","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s%s}%s`, capabilities, more, rest)
}

// receive waits for the response to a request.
func (p *peer) receive(response chan jsonrpc.Message) (result string, failed *jsonrpc.Error) {
	p.c.Helper()
	select {
	case m := <-response:
		return string(m.Result), m.Error
	case <-p.c.ctx.Done():
		p.c.Fatalf("no response: %v", p.c.ctx.Err())
		return "", nil
	}
}

// call sends a request and returns its response.
func (p *peer) call(method, params string) (result string, failed *jsonrpc.Error) {
	p.c.Helper()
	_, response := p.start(method, params)
	return p.receive(response)
}

// result sends a request and returns its result.
func (p *peer) result(method, params string) string {
	p.c.Helper()
	result, failed := p.call(method, params)
	if failed != nil {
		p.c.Fatalf("%s %s: %v %s", method, params, failed, string(failed.Data))
	}
	return result
}

// fails sends a request and checks the code of its error. It returns the error.
func (p *peer) fails(method, params string, code int64) *jsonrpc.Error {
	p.c.Helper()
	result, failed := p.call(method, params)
	switch {
	case failed == nil:
		p.c.Errorf("%s %s: got %s, want error %d", method, params, result, code)
		return &jsonrpc.Error{}
	case failed.Code != code:
		p.c.Errorf("%s %s: got error %d: %s, want code %d", method, params, failed.Code, failed.Message, code)
	}
	return failed
}

// await waits for a notification, or an input request of a session, for which wanted returns true.
func (p *peer) await(what string, wanted func(m jsonrpc.Message) bool) jsonrpc.Message {
	p.c.Helper()
	for from := 0; ; {
		p.mu.Lock()
		received, changed := p.received, p.changed
		p.mu.Unlock()
		for ; from < len(received); from++ {
			if wanted(received[from]) {
				return received[from]
			}
		}
		select {
		case <-changed:
		case <-p.c.ctx.Done():
			p.c.Fatalf("%s did not arrive", what)
		}
	}
}

// got returns the params of the received messages of a method.
func (p *peer) got(method string) (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.received {
		if m.Method == method {
			list = append(list, string(m.Params))
		}
	}
	return list
}

// call returns the params of tools/call. More is empty or further members, each after a comma.
func call(tool, arguments, more string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":%s%s}`, tool, arguments, more)
}

// keyed returns the arguments of a tool with a key.
func keyed(k string) string { return fmt.Sprintf(`{"key":%q}`, k) }

// plain calls a tool plainly and returns its result as outcome does. In revisions without sessions
// the request does not declare the extension.
func (p *peer) plain(tool, arguments string) string {
	p.c.Helper()
	params := call(tool, arguments, "")
	if p.era == "modern" {
		params = withMeta(params, "{"+inputCapabilities+"}", "")
	}
	return outcome(p.call("tools/call", params))
}

// create calls a tool as a task, and returns the result that has the task.
func (p *peer) create(tool, arguments string) string {
	p.c.Helper()
	return p.result("tools/call", asTask(p.era, tool, arguments))
}

// task calls a tool as a task and returns its id.
func (p *peer) task(tool, arguments string) string {
	p.c.Helper()
	return p.taskOf(p.create(tool, arguments))
}

// taskOf returns the id of a task in the result that has created it.
func (p *peer) taskOf(created string) string {
	p.c.Helper()
	id := part(created, "taskId")
	if p.era == "session" {
		id = part(created, "task", "taskId")
	} else if part(created, "resultType") != `"task"` {
		p.c.Fatalf("got %s, want a task", created)
	}
	if unquote(id) == "" {
		p.c.Fatalf("got %s, want a task", created)
	}
	return unquote(id)
}

// get returns the result of tasks/get.
func (p *peer) get(id string) string {
	p.c.Helper()
	return p.result("tasks/get", ofTask(id))
}

// ofTask returns the params of a request about a task.
func ofTask(id string) string { return fmt.Sprintf(`{"taskId":%q}`, id) }

// status returns the status of a task.
func (p *peer) status(id string) string {
	p.c.Helper()
	return unquote(part(p.get(id), "status"))
}

// awaitInput waits until a task has an open input request.
func (p *peer) awaitInput(id string) {
	p.c.Helper()
	for p.status(id) != "input_required" {
		p.pause()
	}
}

// cancel cancels a task and returns the result.
func (p *peer) cancel(id string) string {
	p.c.Helper()
	return p.result("tasks/cancel", ofTask(id))
}

// outcome returns the text of a result, or the error.
func outcome(result string, failed *jsonrpc.Error) string {
	if failed != nil {
		return fmt.Sprintf("error %d: %s", failed.Code, failed.Message)
	}
	var r struct {
		Content []struct{ Type, Text string }
		IsError bool
	}
	if json.Unmarshal([]byte(result), &r) != nil || len(r.Content) != 1 || r.Content[0].Type != "text" {
		return "result " + result
	}
	if r.IsError {
		return "failure: " + r.Content[0].Text
	}
	return r.Content[0].Text
}

// outcome waits for the end of a task and returns its outcome. It responds to the input requests.
func (p *peer) outcome(id string) string {
	p.c.Helper()
	return outcome(p.wait(id))
}

// wait waits for the end of a task and returns its result or error.
func (p *peer) wait(id string) (result string, failed *jsonrpc.Error) {
	p.c.Helper()
	if p.era == "session" {
		return p.call("tasks/result", ofTask(id))
	}
	for {
		state := p.get(id)
		switch status := unquote(part(state, "status")); status {
		case "completed":
			return part(state, "result"), nil
		case "failed":
			failed := new(jsonrpc.Error)
			if err := codec.Unmarshal([]byte(part(state, "error")), failed); err != nil {
				p.c.Fatalf("task %s: %v", state, err)
			}
			return "", failed
		case "cancelled":
			return "", &jsonrpc.Error{Code: task.CodeCancelled, Message: status}
		case "input_required":
			p.update(id, p.responses(part(state, "inputRequests")))
		default:
			p.pause()
		}
	}
}

// responses responds to input requests by key.
func (p *peer) responses(requests string) string {
	p.c.Helper()
	var open map[string]struct {
		Method string
		Params json.RawMessage
	}
	if err := json.Unmarshal([]byte(requests), &open); err != nil {
		p.c.Fatalf("input requests %s: %v", requests, err)
	}
	responses := map[string]json.RawMessage{}
	for key, q := range open {
		result, failed := p.respond(q.Method, string(q.Params))
		if failed != nil {
			p.c.Fatalf("%s: %v: the extension has no error responses", q.Method, failed)
		}
		responses[key] = json.RawMessage(result)
	}
	text, err := json.Marshal(responses)
	if err != nil {
		p.c.Fatal(err)
	}
	return string(text)
}

// update sends tasks/update.
func (p *peer) update(id, responses string) {
	p.c.Helper()
	p.result("tasks/update", fmt.Sprintf(`{"taskId":%q,"inputResponses":%s}`, id, responses))
}

// pause waits for the poll interval of the client.
func (p *peer) pause() {
	p.c.Helper()
	select {
	case <-time.After(2 * time.Millisecond):
	case <-p.c.ctx.Done():
		p.c.Fatalf("task has not ended: %v", p.c.ctx.Err())
	}
}

// finish calls a tool until the result asks for no input. The result may be a task.
func (p *peer) finish(tool, arguments string) (result string, failed *jsonrpc.Error) {
	p.c.Helper()
	more := ""
	for range 10 {
		result, failed = p.call("tools/call", call(tool, arguments, more))
		if part(result, "resultType") != `"input_required"` {
			return result, failed
		}
		more = p.nextRound(result)
	}
	p.c.Fatalf("%s asks for input in each round", tool)
	return "", nil
}

// nextRound returns the members that a call has in the round after a result that asks for input,
// each after a comma.
func (p *peer) nextRound(result string) string {
	p.c.Helper()
	more := `,"inputResponses":` + p.responses(part(result, "inputRequests"))
	if state := part(result, "requestState"); state != "" {
		more += `,"requestState":` + state
	}
	return more
}

// finishTask is finish for a call that becomes a task before or in one of the rounds. It returns
// the outcome.
func (p *peer) finishTask(tool, arguments string) string {
	p.c.Helper()
	result, failed := p.finish(tool, arguments)
	if id := part(result, "taskId"); id != "" {
		return p.outcome(unquote(id))
	}
	return outcome(result, failed)
}

// events waits until handlers have noted count events with the key, and returns all of them.
func (p *peer) events(k string, count int) []string {
	p.c.Helper()
	var list []string
	text := p.plain("events", fmt.Sprintf(`{"key":%q,"count":%d}`, k, count))
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		p.c.Fatalf("events: %s", text)
	}
	return list
}

// release opens a gate.
func (p *peer) release(k string) {
	p.c.Helper()
	if got := p.plain("release", keyed(k)); got != "released" {
		p.c.Fatalf("release: %s", got)
	}
}

// signal sends a signal to a task.
func (p *peer) signal(id, name string) {
	p.c.Helper()
	if got := p.plain("signal", fmt.Sprintf(`{"task":%q,"name":%q}`, id, name)); got != "sent" {
		p.c.Fatalf("signal: %s", got)
	}
}
