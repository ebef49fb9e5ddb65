package embedding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// tools is a Backend: a function for each tool.
type tools map[string]func(ctx context.Context, c *Call) (json.RawMessage, error)

func (b tools) CallTool(ctx context.Context, c *Call) (json.RawMessage, error) {
	name, _ := toolName(c.Params)
	if f := b[name]; f != nil {
		return f(ctx, c)
	}
	return nil, &UnknownToolError{Response: &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("no tool %q", name)}}
}

// ListTools lists one tool for each page. The cursor is the number of the tool.
func (b tools) ListTools(_ context.Context, c *Call) (json.RawMessage, error) {
	names := slices.Sorted(maps.Keys(b))
	if slices.Contains(names, "unlisted") {
		return nil, errors.New("the list fails")
	}
	n, _ := strconv.Atoi(part(string(c.Params), "cursor"))
	switch {
	case len(names) == 0:
		return json.RawMessage(`{"tools":[]}`), nil
	case n == len(names)-1:
		return json.RawMessage(`{"tools":[{"name":"` + names[n] + `"}]}`), nil
	}
	return json.RawMessage(fmt.Sprintf(`{"tools":[{"name":%q}],"nextCursor":"%d"}`, names[n], n+1)), nil
}

// peer is the client of a request. It records messages and responds to input requests. Peers with
// different names are not equal.
type peer struct {
	name   string
	mu     *sync.Mutex
	got    *[]string
	answer func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

	notified func(ctx context.Context) // called for progress; may be nil
}

func newPeer(name string) *peer { return &peer{name: name, mu: new(sync.Mutex), got: new([]string)} }

func (p *peer) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	text := p.record(method, params)
	if p.answer == nil {
		return json.RawMessage(`{"action":"accept","content":{"name":"` + p.name + `"}}`), nil
	}
	return p.answer(ctx, method, text)
}

func (p *peer) Notify(ctx context.Context, method string, params codec.Encoder) error {
	p.record(method, params)
	if method == mcp.MethodNotificationsProgress && p.notified != nil {
		p.notified(ctx)
	}
	return nil
}

func (p *peer) Report(session.Progress) error { panic("progress is sent by Notify") }

func (p *peer) record(method string, params codec.Encoder) json.RawMessage {
	text := []byte("none")
	if params != nil {
		text, _ = codec.Marshal(params)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	*p.got = append(*p.got, method+" "+string(text))
	return text
}

// messages returns the messages at the peer whose text has all the words.
func (p *peer) messages(words ...string) (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
next:
	for _, m := range *p.got {
		for _, w := range words {
			if !strings.Contains(m, w) {
				continue next
			}
		}
		list = append(list, m)
	}
	return list
}

// server is an Engine under test.
type server struct {
	*Engine
	t     *testing.T
	store task.Store
}

func newServer(t *testing.T, b Backend, edit func(o *embed.Options)) *server {
	t.Helper()
	o := embed.Options{Tasks: task.Options{Store: memory.New()}, Default: new(embed.Tool), List: true}
	if edit != nil {
		edit(&o)
	}
	e, err := New(o, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return &server{e, t, o.Tasks.Store}
}

// in returns a request of a client.
func in(rev mcp.Revision, method, params string) *Incoming {
	return &Incoming{ID: codec.StringScalar("1"), Method: method, Params: json.RawMessage(params), Revision: rev, Principal: "alice"}
}

// inSession returns a request of a client in a session.
func inSession(p *peer, method, params string) *Incoming {
	i := in(mcp.Revision20251125, method, params)
	i.Session = "session-" + p.name
	i.Client.Initialize = json.RawMessage(`{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{}}}`)
	i.Requestor = p
	return i
}

const metaText = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"` + tasks.ExtensionID + `":{}}}`

// inModern returns a request of a client with the Tasks extension.
func inModern(p *peer, method, params string) *Incoming {
	meta := `"_meta":{` + metaText + `}`
	if params != "{}" {
		meta = "," + meta
	}
	i := in(mcp.Revision20260728, method, strings.TrimSuffix(params, "}")+meta+"}")
	i.Client.Initialize = json.RawMessage(`{"protocolVersion":"2026-07-28","capabilities":{"elicitation":{}}}`)
	if p != nil {
		i.Plain = p
	}
	return i
}

// serve serves a request and returns its result as JSON.
func (s *server) serve(ctx context.Context, i *Incoming) (string, error) {
	s.t.Helper()
	out, err := s.Serve(ctx, i)
	switch {
	case err != nil:
		return "", err
	case !out.Handled:
		return "plain", nil
	}
	text, err := codec.Marshal(out.Result)
	return string(text), err
}

// result serves a request that must not fail.
func (s *server) result(i *Incoming) string {
	s.t.Helper()
	text, err := s.serve(s.t.Context(), i)
	if err != nil {
		s.t.Fatalf("%s: %v", i.Method, err)
	}
	return text
}

// part returns a member of an object: a string without quotes, or JSON.
func part(object string, path ...string) string {
	raw := json.RawMessage(object)
	for _, name := range path {
		raw, _ = codec.Member(raw, name)
	}
	return strings.Trim(string(raw), `"`)
}

// start starts a task in a session and returns its id.
func (s *server) start(p *peer, params string) string {
	s.t.Helper()
	created := s.result(inSession(p, "tools/call", params))
	id := part(created, "task", "taskId")
	if id == "" {
		s.t.Fatalf("got %s, want a task", created)
	}
	return id
}

func (s *server) payload(p *peer, id string) string {
	s.t.Helper()
	return s.result(inSession(p, "tasks/result", `{"taskId":"`+id+`"}`))
}

// state returns the result of tasks/get of the extension.
func (s *server) state(id string) string {
	s.t.Helper()
	return s.result(inModern(nil, "tasks/get", `{"taskId":"`+id+`"}`))
}

// wantError checks the code and the text of an error.
func wantError(t *testing.T, err error, code int64, text string) {
	t.Helper()
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != code || !strings.Contains(e.Message, text) {
		t.Errorf("got error %v, want %d %s", err, code, text)
	}
}

// echo returns the params that the SDK gets.
func echo(_ context.Context, c *Call) (json.RawMessage, error) {
	return json.RawMessage(`{"params":` + string(c.Params) + `,"session":"` + c.ID + `"}`), nil
}

func hang(ctx context.Context, _ *Call) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func ask(ctx context.Context, c *Call) (json.RawMessage, error) {
	answer, err := c.Request(ctx, "elicitation/create", json.RawMessage(`{"message":"name?"}`))
	if err != nil {
		return nil, err
	}
	return json.RawMessage(`{"answer":` + string(answer) + `}`), nil
}

func TestTaskOfSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, tools{"echo": echo}, nil)
		p := newPeer("p")
		id := s.start(p, `{"name":"echo","task":{"ttl":60000},"arguments":{"n":12345678901234567890,"x":[1.0]},"other":1}`)
		want := `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}},"params":{"name":"echo","arguments":{"n":12345678901234567890,"x":[1.0]},"other":1},"session":"session-p"}`
		if got := s.payload(p, id); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := s.result(inSession(p, "tasks/get", `{"taskId":"`+id+`"}`)); part(got, "status") != "completed" || part(got, "ttl") != "60000" {
			t.Errorf("got %s", got)
		}
		if got := s.result(inSession(p, "tasks/list", `{}`)); !strings.Contains(got, id) {
			t.Errorf("got %s", got)
		}
		_, err := s.serve(t.Context(), inSession(p, "tasks/cancel", `{"taskId":"`+id+`"}`))
		wantError(t, err, jsonrpc.CodeInvalidParams, "terminal")
	})
}

func TestExtensionTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, c *Call) (json.RawMessage, error) {
			time.Sleep(10 * time.Second)
			return echo(ctx, c)
		}
		s := newServer(t, tools{"slow": slow, "echo": echo}, nil)
		p := newPeer("p")
		start := time.Now()
		created := s.result(inModern(p, "tools/call", `{"name":"slow","task":{}}`))
		if part(created, "resultType") != "task" || time.Since(start) != time.Second {
			t.Errorf("got %s after %v", created, time.Since(start))
		}
		id := part(created, "taskId")
		if got := s.state(id); part(got, "status") != "working" {
			t.Errorf("got %s", got)
		}
		time.Sleep(time.Minute)
		want := `{"resultType":"complete","params":{"name":"slow","_meta":{` + metaText + `}},"session":""}`
		if got := s.state(id); part(got, "result") != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got := s.result(inModern(p, "tools/call", `{"name":"echo"}`)); part(got, "resultType") != "complete" || part(got, "taskId") != "" {
			t.Errorf("a short call is %s", got)
		}
	})
}

// The Engine leaves requests that are not tasks to the SDK.
func TestPlainRequests(t *testing.T) {
	s := newServer(t, tools{}, func(o *embed.Options) {
		o.Default = nil
		o.Tools = map[string]embed.Tool{"t": {}, "forbidden": {Support: receiver.Support{Mode: mcp.TaskSupportForbidden}}}
	})
	p := newPeer("p")
	withoutExtension := inModern(p, "tools/call", `{"name":"t"}`)
	withoutExtension.Params = json.RawMessage(`{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`)
	older := inSession(p, "tools/call", `{"name":"t","task":{}}`)
	older.Revision = mcp.Revision20250618
	unknown := inSession(p, "tools/call", `{"name":"t","task":{}}`)
	unknown.Revision = ""
	notification := inSession(p, "tools/call", `{"name":"t","task":{}}`)
	notification.ID = jsonrpc.ID{}
	for name, i := range map[string]*Incoming{
		"session": inSession(p, "tools/call", `{"name":"t"}`), "task of null": inSession(p, "tools/call", `{"name":"t","task":null}`),
		"unknown tool": inSession(p, "tools/call", `{"name":"u"}`), "extension in a session": inSession(p, "tools/call", `{"name":"t","_meta":{`+metaText+`}}`),
		"modern client without the extension": withoutExtension, "modern call of a forbidden tool": inModern(p, "tools/call", `{"name":"forbidden"}`),
		"modern call of an unknown tool": inModern(p, "tools/call", `{"name":"u"}`), "no name": inModern(p, "tools/call", `{"name":7}`),
		"older revision": older, "unknown revision": unknown, "notification": notification,
		"other method": inSession(p, "tools/list", `{"task":{}}`), "sampling": inSession(p, "sampling/createMessage", `{"task":{}}`),
	} {
		if got, err := s.serve(t.Context(), i); got != "plain" || err != nil {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}

func TestRefusedRequests(t *testing.T) {
	s := newServer(t, tools{"echo": echo}, func(o *embed.Options) {
		o.Tools = map[string]embed.Tool{
			"required":  {Support: receiver.Support{Mode: mcp.TaskSupportRequired}},
			"forbidden": {Support: receiver.Support{Mode: mcp.TaskSupportForbidden}},
		}
		o.List = false
	})
	p := newPeer("p")
	without := in(mcp.Revision20260728, "tools/call", `{"name":"required","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`)
	old := inSession(p, "tasks/get", `{"taskId":"x"}`)
	old.Revision = mcp.Revision20250618
	for name, row := range map[string]struct {
		in   *Incoming
		code int64
		text string
	}{
		"plain call of a required tool":                 {inSession(p, "tools/call", `{"name":"required"}`), jsonrpc.CodeMethodNotFound, "as a task"},
		"modern call of a required tool":                {without, -32021, "extension"},
		"task of a forbidden tool":                      {inSession(p, "tools/call", `{"name":"forbidden","task":{}}`), jsonrpc.CodeMethodNotFound, "as a task"},
		"task of the wrong type":                        {inSession(p, "tools/call", `{"name":"echo","task":7}`), jsonrpc.CodeInvalidParams, ""},
		"ttl of zero":                                   {inSession(p, "tools/call", `{"name":"echo","task":{"ttl":0}}`), jsonrpc.CodeInvalidParams, "ttl"},
		"unknown task":                                  {inSession(p, "tasks/get", `{"taskId":"x"}`), jsonrpc.CodeInvalidParams, "not found"},
		"tasks/update in a session":                     {inSession(p, "tasks/update", `{"taskId":"x"}`), jsonrpc.CodeMethodNotFound, "tasks/update"},
		"tasks/result without a session":                {inModern(p, "tasks/result", `{"taskId":"x"}`), jsonrpc.CodeMethodNotFound, "tasks/result"},
		"tasks/list without a session":                  {inModern(p, "tasks/list", `{}`), jsonrpc.CodeMethodNotFound, "tasks/list"},
		"tasks/list that is not offered":                {inSession(p, "tasks/list", `{}`), jsonrpc.CodeMethodNotFound, "tasks/list"},
		"tasks/get of a revision without tasks":         {old, jsonrpc.CodeMethodNotFound, "tasks/get"},
		"params that are an array":                      {inSession(p, "tasks/get", `["x"]`), jsonrpc.CodeInvalidParams, "object"},
		"params with a member twice":                    {inSession(p, "tools/call", `{"name":"echo","name":"required","task":{}}`), jsonrpc.CodeInvalidParams, "name"},
		"params that are too deep":                      {inSession(p, "tools/call", `{"name":"echo","task":`+strings.Repeat("[", 10000)+strings.Repeat("]", 10000)+`}`), jsonrpc.CodeInvalidParams, ""},
		"params that are no JSON":                       {inSession(p, "tools/call", `{"name":"echo","task":{}`), jsonrpc.CodeInvalidParams, ""},
		"tasks/get without params":                      {inSession(p, "tasks/get", ``), jsonrpc.CodeInvalidParams, ""},
		"tasks/get with a taskId of another type":       {inModern(p, "tasks/get", `{"taskId":7}`), jsonrpc.CodeInvalidParams, "taskId"},
		"tasks/update without responses":                {inModern(p, "tasks/update", `{"taskId":"x"}`), jsonrpc.CodeInvalidParams, "inputResponses"},
		"tasks/get of a client without the extension":   {in(mcp.Revision20260728, "tasks/get", `{"taskId":"x"}`), -32021, "extension"},
		"extension with settings, but not as an object": {in(mcp.Revision20260728, "tasks/get", `{"taskId":"x","_meta":7}`), -32021, "extension"},
	} {
		out, err := s.Serve(t.Context(), row.in)
		if !out.Handled {
			t.Errorf("%s: not handled", name)
			continue
		}
		e, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok || e.Code != row.code || !strings.Contains(e.Message, row.text) {
			t.Errorf("%s: got %v, want %d %s", name, err, row.code, row.text)
		}
	}
}

// A session that calls a tool without tasks as a task is refused. The code says whether the SDK has
// the tool.
func TestTaskOfToolWithoutTasks(t *testing.T) {
	withoutTasks := func(o *embed.Options) { o.Default, o.Tasks.Logger = nil, slog.New(slog.DiscardHandler) }
	s := newServer(t, tools{"a": echo, "b": echo, "c": echo}, withoutTasks)
	p := newPeer("p")
	for _, name := range []string{"a", "b", "c"} {
		_, err := s.serve(t.Context(), inSession(p, "tools/call", `{"name":"`+name+`","task":{}}`))
		wantError(t, err, jsonrpc.CodeMethodNotFound, "cannot be called as a task")
	}
	for _, name := range []string{"", "d", "A"} {
		_, err := s.serve(t.Context(), inSession(p, "tools/call", `{"name":"`+name+`","task":{}}`))
		wantError(t, err, jsonrpc.CodeInvalidParams, fmt.Sprintf("unknown tool: %q", name))
	}
	_, err := s.serve(t.Context(), inSession(p, "tools/call", `{"name":7,"task":{}}`))
	wantError(t, err, jsonrpc.CodeMethodNotFound, "cannot be called as a task")
	if got := s.result(inSession(p, "tools/call", `{"name":"d"}`)); got != "plain" {
		t.Errorf("got %s", got)
	}

	s = newServer(t, tools{"unlisted": echo}, withoutTasks)
	_, err = s.serve(t.Context(), inSession(p, "tools/call", `{"name":"d","task":{}}`))
	wantError(t, err, jsonrpc.CodeMethodNotFound, "cannot be called as a task")
}

func TestInvalidOptions(t *testing.T) {
	store := memory.New()
	for want, o := range map[string]embed.Options{
		"no Store":                          {},
		"Recover is set":                    {Tasks: task.Options{Store: store, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return nil }}}},
		`tool "t": task support "may"`:      {Tasks: task.Options{Store: store}, Tools: map[string]embed.Tool{"t": {Support: receiver.Support{Mode: "may"}}}},
		`Default: task support "may"`:       {Tasks: task.Options{Store: store}, Default: &embed.Tool{Support: receiver.Support{Mode: "may"}}},
		`tool "t": label "g pu": want`:      {Tasks: task.Options{Store: store}, Tools: map[string]embed.Tool{"t": {Support: receiver.Support{Restartable: true, Labels: []string{"g pu"}}}}},
		`tool "t": labels need Restartable`: {Tasks: task.Options{Store: store}, Tools: map[string]embed.Tool{"t": {Support: receiver.Support{Labels: []string{"gpu"}}}}},
	} {
		if _, err := New(o, tools{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		causes := make(chan error, 10)
		s := newServer(t, tools{"hang": func(ctx context.Context, c *Call) (json.RawMessage, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, ctx.Err()
		}}, nil)
		p := newPeer("p")
		id := s.start(p, `{"name":"hang","task":{}}`)
		s.result(inSession(p, "tasks/cancel", `{"taskId":"`+id+`"}`))
		if cause := <-causes; cause != task.ErrCancelled {
			t.Errorf("the context of a task ended with %v", cause)
		}

		// A task does not end with the request that created it.
		ctx, cancel := context.WithCancel(t.Context())
		out, err := s.Serve(ctx, inModern(p, "tools/call", `{"name":"hang"}`))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if len(causes) > 0 {
			t.Error("a task ended with its request")
		}
		text, _ := codec.Marshal(out.Result)
		for range 2 {
			s.result(inModern(p, "tasks/cancel", `{"taskId":"`+part(string(text), "taskId")+`"}`))
		}
		if cause := <-causes; cause != task.ErrCancelled {
			t.Errorf("the context of a promoted call ended with %v", cause)
		}

		// A plain call does.
		gone := errors.New("gone")
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { end(gone) })
		if out, err := s.Serve(ctx, inModern(p, "tools/call", `{"name":"hang"}`)); err != gone || !out.Handled {
			t.Errorf("got %v, %v", out, err)
		}
		if cause := <-causes; cause != gone {
			t.Errorf("the context of a plain call ended with %v", cause)
		}
		if out, err := s.Serve(ctx, inSession(p, "tools/call", `{"name":"hang","task":{}}`)); err != gone {
			t.Errorf("a cancelled request got %v, %v", out, err)
		}
	})
}

func TestPrincipalsAreSeparate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, tools{"hang": hang}, nil)
		p := newPeer("p")
		id := s.start(p, `{"name":"hang","task":{}}`)
		for _, i := range []*Incoming{
			inSession(p, "tasks/get", `{"taskId":"`+id+`"}`), inSession(p, "tasks/result", `{"taskId":"`+id+`"}`), inSession(p, "tasks/cancel", `{"taskId":"`+id+`"}`),
			inModern(p, "tasks/get", `{"taskId":"`+id+`"}`), inModern(p, "tasks/cancel", `{"taskId":"`+id+`"}`), inModern(p, "tasks/update", `{"taskId":"`+id+`","inputResponses":{}}`),
		} {
			i.Principal = "bob"
			_, err := s.serve(t.Context(), i)
			wantError(t, err, jsonrpc.CodeInvalidParams, "not found")
		}
		list := inSession(p, "tasks/list", `{}`)
		list.Principal = "bob"
		if got := s.result(list); strings.Contains(got, id) {
			t.Errorf("got %s", got)
		}
		if got := s.state(id); part(got, "status") != "working" {
			t.Errorf("a client of the other era got %s", got)
		}
	})
}

// restarted closes the server and returns another one with its store.
func (s *server) restarted(b Backend, edit func(o *embed.Options)) *server {
	s.t.Helper()
	if err := s.Close(); err != nil {
		s.t.Error(err)
	}
	next := newServer(s.t, b, func(o *embed.Options) {
		o.Tasks.Store = s.store
		if edit != nil {
			edit(o)
		}
	})
	if err := next.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return next
}

func TestRecovery(t *testing.T) {
	durable := func(version string, accepts ...string) func(*embed.Options) {
		return func(o *embed.Options) {
			o.Default = &embed.Tool{Support: receiver.Support{Restartable: true, Version: version}, Accepts: accepts}
		}
	}
	describe := func(_ context.Context, c *Call) (json.RawMessage, error) {
		client, _ := json.Marshal(c.Client)
		return json.RawMessage(fmt.Sprintf(`{"params":%s,"client":%s,"id":%q,"header":%t}`, c.Params, client, c.ID, c.Header != nil)), nil
	}
	for name, row := range map[string]struct {
		first, second func(*embed.Options)
		modern        bool
		want          string // in the outcome
	}{
		"durable":           {durable("1"), durable("1"), false, `"user":"alice@example.com"`},
		"durable extension": {durable("1"), durable("1"), true, `"user":"alice@example.com"`},
		"accepted version":  {durable("1"), durable("2", "1"), false, `"user":"alice@example.com"`},
		"other version":     {durable("1"), durable("2"), false, `waits for a process that has version \"1\" of the tool \"t\"`},
		"not durable":       {nil, durable(""), false, `shut down`},
		"tool is gone":      {durable("1"), func(o *embed.Options) { o.Default = nil }, false, `waits for a process that has version \"1\" of the tool \"t\"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPeer("p")
				s := newServer(t, tools{"t": hang}, row.first)
				i := inSession(p, "tools/call", `{"name":"t","arguments":{"n":1.0},"task":{},"_meta":{"com.mcpwire/client":{"user":"root"},"x/y":1}}`)
				want := `"params":{"name":"t","arguments":{"n":1.0},"_meta":{"x/y":1}}`
				if row.modern {
					i = inModern(p, "tools/call", `{"name":"t","arguments":{"n":1.0}}`)
					want = `"params":` + string(i.Params)
				}
				i.Client.User, i.Client.Scopes, i.Header = "alice@example.com", []string{"a"}, http.Header{}
				created := s.result(i)
				id := part(created, "taskId") + part(created, "task", "taskId")
				s = s.restarted(tools{"t": describe}, row.second)
				synctest.Wait()
				got := s.state(id)
				if !strings.Contains(got, row.want) {
					t.Errorf("got %s, want %s", got, row.want)
				}
				if !strings.Contains(row.want, "alice") {
					return
				}
				if want += `,"client":{"initialize":` + string(i.Client.Initialize) + `,"user":"alice@example.com","scopes":["a"]},"id":"` + id + `","header":false`; !strings.Contains(got, want) {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}

type secretKey struct{}

// The values of the context that starts the Engine are not those of recovered tasks.
func TestRecoveredTaskHasNoValuesOfStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		durable := func(o *embed.Options) { o.Default = new(embed.Durable()) }
		s := newServer(t, tools{"t": hang}, durable)
		p := newPeer("p")
		id := s.start(p, `{"name":"t","task":{}}`)
		s.Close()
		var seen any = "not run"
		s = newServer(t, tools{"t": func(ctx context.Context, _ *Call) (json.RawMessage, error) {
			seen = ctx.Value(secretKey{})
			return json.RawMessage(`{}`), nil
		}}, func(o *embed.Options) {
			durable(o)
			o.Tasks.Store = s.store
		})
		i := inModern(nil, "tasks/get", `{"taskId":"`+id+`"}`)
		if _, err := s.serve(context.WithValue(t.Context(), secretKey{}, "token of bob"), i); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if seen != nil {
			t.Errorf("the task saw %v", seen)
		}
	})
}

// failingStore fails to list its tasks while it is down.
type failingStore struct {
	task.Store
	down atomic.Bool
}

func (s *failingStore) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
	if !s.down.Load() {
		return s.Store.Scan(ctx)
	}
	return func(yield func(task.Record, error) bool) { yield(task.Record{}, errors.New("the disk is full")) }
}

func TestStartIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failingStore{Store: memory.New()}
		s := newServer(t, tools{"echo": echo}, func(o *embed.Options) {
			o.Tasks.Store, o.Tasks.Logger = store, slog.New(slog.DiscardHandler)
		})
		store.down.Store(true)
		p := newPeer("p")
		_, err := s.serve(t.Context(), inSession(p, "tools/call", `{"name":"echo","task":{}}`))
		wantError(t, err, jsonrpc.CodeInternalError, "tasks are not available")
		if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "the disk is full") || s.Manager() != nil {
			t.Errorf("got %v", err)
		}
		store.down.Store(false)
		s.start(p, `{"name":"echo","task":{}}`)
		if s.Manager() == nil {
			t.Error("there is no Manager after the start")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("gone"))
		if err := newServer(t, tools{}, nil).Start(ctx); err == nil {
			t.Error("started although the context has ended")
		}
	})
}

// stuckStore does not list its tasks before the context ends.
type stuckStore struct{ task.Store }

func (s stuckStore) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
	return func(yield func(task.Record, error) bool) {
		<-ctx.Done()
		yield(task.Record{}, context.Cause(ctx))
	}
}

// Only requests that need the store wait for it.
func TestPlainCallsDoNotWaitForStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, tools{"echo": echo}, func(o *embed.Options) {
			o.Tasks.Store, o.Tasks.Logger = stuckStore{memory.New()}, slog.New(slog.DiscardHandler)
			o.Tools = map[string]embed.Tool{"echo": {Support: receiver.Support{Mode: mcp.TaskSupportForbidden}}}
		})
		p := newPeer("p")
		s.Begin()
		if got := s.result(inModern(p, "tools/call", `{"name":"echo"}`)); got != "plain" {
			t.Errorf("got %s", got)
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		for range 2 {
			if _, err := s.Serve(ctx, inSession(p, "tasks/list", `{}`)); err != gone {
				t.Errorf("got %v", err)
			}
		}
		began := time.Now()
		if err := s.Close(); err != nil || time.Since(began) > 0 {
			t.Errorf("Close returned %v after %v", err, time.Since(began))
		}
	})
}

// lateTools are tools that are added later.
type lateTools struct {
	tools
	added atomic.Bool
}

func (b *lateTools) CallTool(ctx context.Context, c *Call) (json.RawMessage, error) {
	if !b.added.Load() {
		return tools{}.CallTool(ctx, c)
	}
	return b.tools.CallTool(ctx, c)
}

// A stored task waits until the SDK has its tool. A new call of a tool that it does not have fails.
func TestTaskWaitsForTool(t *testing.T) {
	for name, parkAfter := range map[string]time.Duration{"parked": time.Millisecond, "waiting": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				options := func(o *embed.Options) {
					o.Default, o.Tasks.Recovery.ParkAfter, o.Tasks.Logger = new(embed.Durable()), parkAfter, slog.New(slog.DiscardHandler)
				}
				p := newPeer("p")
				s := newServer(t, tools{"t": hang}, options)
				id := s.start(p, `{"name":"t","task":{}}`)
				later := &lateTools{tools: tools{"t": echo}}
				s = s.restarted(later, options)
				for range 3 {
					time.Sleep(time.Minute)
					synctest.Wait()
					if got := s.state(id); part(got, "status") != "working" || !strings.Contains(got, `"waits for a process that has the tool \"t\""`) {
						t.Fatalf("got %s", got)
					}
				}
				missing := s.start(p, `{"name":"missing","task":{}}`)
				synctest.Wait()
				if got := s.state(missing); part(got, "status") != "failed" {
					t.Errorf("a new call of a missing tool got %s", got)
				}
				later.added.Store(true)
				time.Sleep(lackTime)
				synctest.Wait()
				if got := s.state(id); part(got, "status") != "completed" || strings.Contains(got, "waits for") {
					t.Errorf("got %s", got)
				}
			})
		})
	}
}

// startMember starts a server with durable tools as a member of a fleet.
func startMember(t *testing.T, fleet *memory.Fleet, b Backend) *server {
	t.Helper()
	s := newServer(t, b, func(o *embed.Options) {
		o.Tasks.Store, o.Default, o.Tasks.Logger = fleet.Store(), new(embed.Durable()), slog.New(slog.DiscardHandler)
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// A member of a fleet leaves a task whose tool its SDK does not have to another member.
func TestMemberLeavesTaskOfMissingTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := memory.NewFleet()
		member := func(b Backend) *server { return startMember(t, fleet, b) }
		first := member(tools{"t": hang})
		id := first.start(newPeer("p"), `{"name":"t","task":{}}`)
		synctest.Wait()
		without := member(tools{})
		first.Close()
		time.Sleep(5 * time.Minute)
		if got := without.state(id); part(got, "status") != "working" {
			t.Errorf("got %s", got)
		}
		member(tools{"t": echo})
		time.Sleep(5 * time.Minute)
		if got := without.state(id); part(got, "status") != "completed" {
			t.Errorf("got %s", got)
		}
	})
}

// A member whose SDK lacks the tool leaves the undos of a task to a member that has it.
func TestMemberLeavesUndosOfMissingTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := memory.NewFleet()
		member := func(b Backend) *server { return startMember(t, fleet, b) }
		works, undone := new(atomic.Bool), new(atomic.Int64)
		book := func(ctx context.Context, c *Call) (json.RawMessage, error) {
			if err := embed.Compensate(ctx, "room", func(context.Context) error {
				if !works.Load() {
					return errors.New("the hotel does not answer")
				}
				undone.Add(1)
				return nil
			}); err != nil {
				return nil, err
			}
			return hang(ctx, c)
		}
		first := member(tools{"t": book})
		id := first.start(newPeer("p"), `{"name":"t","task":{}}`)
		synctest.Wait()
		if _, err := first.Manager().CancelForOperator(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		member(tools{})
		first.Close()
		time.Sleep(time.Minute)
		works.Store(true)
		member(tools{"t": book})
		time.Sleep(15 * time.Minute)
		if n := undone.Load(); n != 1 {
			t.Errorf("undone %d times", n)
		}
	})
}

func TestStartNamesSharedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		share := func(o *embed.Options) { o.Tasks.Store = store }
		first, second := newServer(t, tools{}, share), newServer(t, tools{}, share)
		if err := first.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := second.Start(t.Context()); !errors.Is(err, task.ErrInUse) || !strings.Contains(err.Error(), "give each server its own store") {
			t.Errorf("got %v", err)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, tools{"hang": hang}, nil)
		if s.Manager() != nil {
			t.Error("there is a Manager before the start")
		}
		p := newPeer("p")
		id := s.start(p, `{"name":"hang","task":{}}`)
		waited := make(chan error)
		go func() {
			_, err := s.serve(t.Context(), inSession(p, "tasks/result", `{"taskId":"`+id+`"}`))
			waited <- err
		}()
		synctest.Wait()
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		wantError(t, <-waited, jsonrpc.CodeInternalError, "shut")
		_, err := s.serve(t.Context(), inSession(p, "tasks/get", `{"taskId":"`+id+`"}`))
		wantError(t, err, jsonrpc.CodeInternalError, "shut")
		unstarted := newServer(t, tools{}, nil)
		unstarted.Close()
		if err := unstarted.Start(t.Context()); !errors.Is(err, task.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// client is a requestor that is a value: two with the same fields are equal.
type client struct {
	*peer
	session string
}

// Sending a report to a client continues when the client makes another request.
func TestRequestorsOfOneClientAreEqual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, tools{"t": func(ctx context.Context, c *Call) (json.RawMessage, error) {
			c.Notify(ctx, "notifications/progress", json.RawMessage(`{"progressToken":1,"progress":1}`))
			return hang(ctx, c)
		}}, nil)
		p := newPeer("p")
		ended := make(chan error, 1)
		p.notified = func(ctx context.Context) {
			select {
			case <-ctx.Done():
				ended <- context.Cause(ctx)
			case <-time.After(time.Second):
				ended <- nil
			}
		}
		request := func(method, params string) *Incoming {
			i := inSession(p, method, params)
			i.Requestor = client{p, "s"}
			return i
		}
		id := part(s.result(request("tools/call", `{"name":"t","task":{},"_meta":{"progressToken":1}}`)), "task", "taskId")
		synctest.Wait()
		s.result(request("tasks/get", `{"taskId":"`+id+`"}`))
		if err := <-ended; err != nil {
			t.Errorf("the report ended with %v", err)
		}
	})
}

// No request makes the Engine panic. Each error of Serve is one for the client.
func FuzzServe(f *testing.F) {
	methods := []string{"tools/call", "tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "tasks/update", "subscriptions/listen"}
	for n, params := range []string{
		`{"name":"t","task":{"ttl":1}}`, `{"taskId":"x"}`, `{"taskId":7}`, `{"taskId":"x","_meta":{}}`, `{"cursor":"x"}`,
		`{"taskId":"x","inputResponses":{"a":{"action":"accept"}},"_meta":{` + metaText + `}}`, `{"notifications":{"taskIds":["x"]},"_meta":{` + metaText + `}}`,
	} {
		f.Add(uint8(n), n > 4, []byte(params))
	}
	f.Add(uint8(0), true, []byte(`{"name":"t","_meta":{`+metaText+`,"com.mcpwire/client":7},"requestState":"x","inputResponses":[]}`))
	f.Add(uint8(0), false, []byte(`{"name":"ask","task":{},"_meta":{"com.mcpwire/client":{"user":7},"progressToken":1.5}}`))
	f.Fuzz(func(t *testing.T, n uint8, withoutSession bool, params []byte) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, tools{"t": echo, "ask": ask}, durable)
			p := newPeer("p")
			method := methods[int(n)%len(methods)]
			i := inSession(p, method, string(params))
			if withoutSession {
				i = listen(p, `{}`)
				i.Method, i.Params = method, params
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, &jsonrpc.Error{Code: 1, Message: "timeout"})
			defer cancel()
			got, err := s.serve(ctx, i)
			e, ok := errors.AsType[*jsonrpc.Error](err)
			if err != nil && (!ok || strings.Contains(e.Message, "panicked")) {
				t.Errorf("%s %s: got %s, %v", method, params, got, err)
			}
		})
	})
}

func TestThousandTasksLeaveNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		s := newServer(t, tools{"echo": echo, "ask": ask}, func(o *embed.Options) { o.Tasks.Limits = task.Limits{Tasks: -1, Rate: -1} })
		p := newPeer("p")
		for n := range 1000 {
			tool := []string{"echo", "ask"}[n%2]
			s.payload(p, s.start(p, `{"name":"`+tool+`","task":{}}`))
			s.result(inModern(p, "tools/call", `{"name":"`+tool+`"}`))
		}
	})
}

// A name in Options.Tools that is in no list is logged, once.
func TestMisspelledToolsAreLogged(t *testing.T) {
	var log strings.Builder
	s := newServer(t, tools{}, func(o *embed.Options) {
		o.Tools = map[string]embed.Tool{"render": {}, "rendr": {}, "print": {}}
		o.Tasks.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	for range 2 {
		for _, page := range []string{`{"tools":[{"name":"render"}],"nextCursor":"2"}`, `{"tools":[{"name":"print"},{"name":"other"}]}`} {
			for _, rev := range []mcp.Revision{mcp.Revision20251125, mcp.Revision20260728} {
				if _, err := s.Edit(mcp.MethodToolsList, rev, json.RawMessage(page)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "tool=rendr") {
		t.Errorf("the log is %q", got)
	}
}
