package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// roundClient sends requests of revision 2026-07-28 in memory, one at a time.
type roundClient struct {
	t            testing.TB
	conn         transport.Conn
	capabilities string
	sent         int
}

// everyInput declares all capabilities for input requests.
const everyInput = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{"listChanged":true}}`

func connectRounds(t testing.TB, s *server.Server) *roundClient {
	t.Helper()
	return connectRoundsAs(t, s, "")
}

// connectRoundsAs is connectRounds for a principal.
func connectRoundsAs(t testing.TB, s *server.Server, principal string) *roundClient {
	t.Helper()
	here, there := inmemory.Pair(inmemory.Options{})
	if _, err := server.Open(s, func(result *mcp.InitializeResult, cfg *session.Options) *session.Session {
		cfg.Principal = principal
		return session.Serve(there, result, cfg)
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close() })
	return &roundClient{t: t, conn: here, capabilities: everyInput}
}

// send sends a request with params and the members of more, and returns its result or its error.
func (c *roundClient) send(method, params string, more map[string]json.RawMessage) (json.RawMessage, *jsonrpc.Error) {
	c.t.Helper()
	c.sent++
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(params), &all); err != nil {
		c.t.Fatal(err)
	}
	maps.Copy(all, more)
	all["_meta"] = json.RawMessage(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + c.capabilities + `}`)
	encoded, _ := json.Marshal(all)
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.sent, method, encoded)
	if err := c.conn.Write(c.t.Context(), transport.Message{Text: []byte(text)}); err != nil {
		c.t.Fatal(err)
	}
	m, err := c.conn.Read()
	if err != nil {
		c.t.Fatal(err)
	}
	answer, err := jsonrpc.Parse(m.Text)
	if err != nil || answer.ID.String() != fmt.Sprint(c.sent) {
		c.t.Fatalf("got %s, %v", m.Text, err)
	}
	return answer.Result, answer.Error
}

// round is the outcome of one request of a call with input.
type round struct {
	text      string            // of the result, or of the error with its code; "" if input is required
	methods   map[string]string // of the input requests, by name
	requests  map[string]string // their params
	state     string
	completed json.RawMessage
}

// names returns the names of the input requests, which must have one method.
func (r *round) name(t testing.TB) string {
	t.Helper()
	for name := range r.methods {
		if len(r.methods) == 1 {
			return name
		}
	}
	t.Fatalf("got %q, %v, want one input request", r.text, r.methods)
	return ""
}

// round sends a request, with the state of the last round and with responses.
func (c *roundClient) round(method, params string, last *round, responses map[string]string) *round {
	c.t.Helper()
	more := map[string]json.RawMessage{}
	if last != nil {
		more["requestState"], _ = json.Marshal(last.state)
	}
	if responses != nil {
		raw := map[string]json.RawMessage{}
		for name, response := range responses {
			raw[name] = json.RawMessage(response)
		}
		more["inputResponses"], _ = json.Marshal(raw)
	}
	result, failed := c.send(method, params, more)
	if failed != nil {
		return &round{text: fmt.Sprint(failed.Code, " ", failed.Message)}
	}
	out := &round{methods: map[string]string{}, requests: map[string]string{}, completed: result}
	var required mcp.InputRequiredResult
	if err := codec.Unmarshal(result, &required); err == nil && required.ResultType == "input_required" {
		var raw struct {
			InputRequests map[string]struct {
				Method string
				Params json.RawMessage
			}
			RequestState string
		}
		if err := json.Unmarshal(result, &raw); err != nil {
			c.t.Fatal(err)
		}
		if err := required.Validate(mcp.Revision20260728); err != nil {
			c.t.Errorf("%v: %s", err, result)
		}
		for name, q := range raw.InputRequests {
			out.methods[name], out.requests[name] = q.Method, string(q.Params)
		}
		out.state = raw.RequestState
		return out
	}
	if method == "tools/call" {
		out.text = text(c.t, string(result))
	}
	return out
}

// finish sends a request and responds to all input requests until the call is complete.
func (c *roundClient) finish(method, params string, respond func(method, params string) string) (last *round, rounds int) {
	c.t.Helper()
	return c.finishFrom(nil, method, params, respond)
}

// finishFrom is finish for a call whose last round is known.
func (c *roundClient) finishFrom(last *round, method, params string, respond func(method, params string) string) (_ *round, rounds int) {
	c.t.Helper()
	for rounds = 1; rounds < 50; rounds++ {
		var responses map[string]string
		if last != nil {
			responses = map[string]string{}
			for name, method := range last.methods {
				responses[name] = respond(method, last.requests[name])
			}
		}
		last = c.round(method, params, last, responses)
		if last.state == "" {
			return last, rounds
		}
	}
	c.t.Fatal("the call does not end")
	return nil, 0
}

func accept(content string) string { return `{"action":"accept","content":` + content + `}` }

const (
	sampled = `{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m","stopReason":"endTurn"}`
	rooted  = `{"roots":[{"uri":"file:///work"}]}`
)

// respondToAll responds to input requests of each method.
func respondToAll(method, params string) string {
	switch method {
	case "sampling/createMessage":
		return sampled
	case "roots/list":
		return rooted
	}
	if strings.Contains(params, `"url"`) {
		return `{"action":"accept"}`
	}
	return accept(`{"name":"Ada"}`)
}

type nameForm struct {
	Name string `json:"name"`
}

// askName asks for a name with a message.
func askName(ctx context.Context, c *server.Call, message string) (string, error) {
	var f nameForm
	action, err := server.Elicit(ctx, c, message, &f)
	if err != nil {
		return "", err
	}
	return string(action) + " " + f.Name, nil
}

func sampling() *mcp.CreateMessageRequestParams {
	return &mcp.CreateMessageRequestParams{MaxTokens: 10, Messages: []mcp.SamplingMessage{
		{Role: mcp.RoleUser, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "Capital of France?"}}}},
	}}
}

// addTool adds the tool "do" that runs f.
func addTool(s *server.Server, f func(ctx context.Context, c *server.Call) (string, error)) {
	server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ map[string]any) (string, error) { return f(ctx, c) })
}

const do = `{"name":"do"}`

// Proves M-MRTR-01, M-MRTR-02, M-MRTR-04, M-MRTR-06, M-MRTR-08.
func TestInputRequestsEndRounds(t *testing.T) {
	s := newServer(t, server.Options{})
	runs := 0
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		runs++
		name, err := askName(ctx, c, "Who?")
		if err != nil {
			return "", err
		}
		message, err := c.Sample(ctx, sampling())
		if err != nil {
			return "", err
		}
		roots, err := c.Roots(ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(name, " ", message.Model, " ", roots[0].URI), nil
	})
	c := connectRounds(t, s)
	one := c.round("tools/call", do, nil, nil)
	equalJSON(t, "form", `{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`, one.requests[one.name(t)])
	two := c.round("tools/call", do, one, map[string]string{one.name(t): accept(`{"name":"Ada"}`)})
	equalJSON(t, "sampling", `{"maxTokens":10,"messages":[{"role":"user","content":{"type":"text","text":"Capital of France?"}}]}`, two.requests[two.name(t)])
	three := c.round("tools/call", do, two, map[string]string{two.name(t): sampled})
	if method := three.methods[three.name(t)]; method != "roots/list" {
		t.Errorf("method %s", method)
	}
	equalJSON(t, "roots", `{}`, three.requests[three.name(t)]) // some clients fail without params
	four := c.round("tools/call", do, three, map[string]string{three.name(t): rooted})
	equal(t, "result", "accept Ada m file:///work", four.text)
	if one.state == two.state || two.state == three.state || runs != 4 {
		t.Errorf("the state does not change, or %d runs", runs)
	}
}

func TestRunAllAsksInOneRound(t *testing.T) {
	s := newServer(t, server.Options{})
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		var name string
		var message *mcp.CreateMessageResult
		var roots []mcp.Root
		err := c.RunAll(ctx,
			func(ctx context.Context) (err error) { name, err = askName(ctx, c, "Who?"); return err },
			func(ctx context.Context) (err error) { message, err = c.Sample(ctx, sampling()); return err },
			func(ctx context.Context) (err error) {
				roots, err = c.Roots(server.InputName(ctx, "where"))
				return err
			},
		)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(name, " ", message.Model, " ", roots[0].URI), nil
	})
	c := connectRounds(t, s)
	one := c.round("tools/call", do, nil, nil)
	if len(one.methods) != 3 || one.methods["where"] != "roots/list" {
		t.Fatalf("input requests %v", one.methods)
	}
	last, rounds := c.finish("tools/call", do, respondToAll)
	if rounds != 2 || last.text != "accept Ada m file:///work" {
		t.Errorf("%d rounds, result %q", rounds, last.text)
	}
}

// The server goes by the input requests of the call, whatever the handler does with the error.
//
// Proves M-MRTR-01.
func TestOpenInputRequestDecidesOutcome(t *testing.T) {
	type handler = func(ctx context.Context, c *server.Call) (string, error)
	asks := func(ctx context.Context, c *server.Call) (string, error) { return askName(ctx, c, "Who?") }
	for _, tt := range []struct {
		name string
		f    handler
		m    func(server.ToolHandler) server.ToolHandler
	}{
		{"returned", asks, nil},
		{"wrapped", func(ctx context.Context, c *server.Call) (string, error) {
			name, err := asks(ctx, c)
			if err != nil {
				err = fmt.Errorf("no name: %w", err)
			}
			return name, err
		}, nil},
		{"replaced", func(ctx context.Context, c *server.Call) (string, error) {
			name, err := asks(ctx, c)
			if err != nil {
				err = &jsonrpc.Error{Code: 7, Message: "no name"}
			}
			return name, err
		}, nil},
		{"swallowed", func(ctx context.Context, c *server.Call) (string, error) {
			name, _ := asks(ctx, c)
			return name, nil
		}, nil},
		{"panic with the error", func(ctx context.Context, c *server.Call) (string, error) {
			return must(asks(ctx, c)), nil
		}, nil},
		{"middleware returns a result", asks, func(next server.ToolHandler) server.ToolHandler {
			return func(ctx context.Context, c *server.Call, r *server.ToolRequest) (*mcp.CallToolResult, error) {
				result, err := next(ctx, c, r)
				if _, required := errors.AsType[*server.InputRequiredError](err); required {
					return server.Text("replaced"), nil
				}
				return result, err
			}
		}},
		{"middleware recovers", func(ctx context.Context, c *server.Call) (string, error) { return must(asks(ctx, c)), nil },
			func(next server.ToolHandler) server.ToolHandler {
				return func(ctx context.Context, c *server.Call, r *server.ToolRequest) (result *mcp.CallToolResult, err error) {
					defer func() {
						if v := recover(); v != nil {
							result = server.Text("recovered")
						}
					}()
					return next(ctx, c, r)
				}
			}},
		{"middleware asks", func(context.Context, *server.Call) (string, error) { return "accept Ada", nil },
			func(next server.ToolHandler) server.ToolHandler {
				return func(ctx context.Context, c *server.Call, r *server.ToolRequest) (*mcp.CallToolResult, error) {
					if _, err := asks(ctx, c); err != nil {
						return nil, err
					}
					return next(ctx, c, r)
				}
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var cfg server.Options
			if tt.m != nil {
				cfg.Middleware.Tools = []func(server.ToolHandler) server.ToolHandler{tt.m}
			}
			s := newServer(t, cfg)
			addTool(s, tt.f)
			c := connectRounds(t, s)
			one := c.round("tools/call", do, nil, nil)
			two := c.round("tools/call", do, one, map[string]string{one.name(t): accept(`{"name":"Ada"}`)})
			equal(t, "result", "accept Ada", two.text)
		})
	}
}

// Proves M-MRTR-03, M-CACHE-03.
func TestInputOnlyInCallsThatHaveRounds(t *testing.T) {
	asked := make(chan error, 10)
	ask := func(ctx context.Context, c *server.Call) error {
		_, err := askName(ctx, c, "Who?")
		asked <- err
		return err
	}
	s := newServer(t, server.Options{Features: server.Features{Methods: map[string]session.Handler{
		"example.com/own": server.Method(func(ctx context.Context, c *server.Call, _ struct{}) (struct{}, error) {
			return struct{}{}, ask(ctx, c)
		}),
	}}})
	server.AddPrompt(s, "greet", "", func(ctx context.Context, c *server.Call, in nameForm) (string, error) {
		return "Hello.", ask(ctx, c)
	}, server.Complete("name", func(ctx context.Context, c *server.Call, _ string, _ map[string]string) ([]string, error) {
		return nil, ask(ctx, c)
	}))
	server.AddResource(s, "test://a", "a", func(ctx context.Context, c *server.Call, _ server.Resource) (string, error) {
		return "text", ask(ctx, c)
	})
	server.AddTemplate(s, "test://all/{x}", "all", func(ctx context.Context, c *server.Call, _ server.Resource) (string, error) {
		return "text", nil
	}, server.ListFunc(func(ctx context.Context, c *server.Call, _ string) ([]mcp.Resource, string, error) {
		return nil, "", ask(ctx, c)
	}))
	addTool(s, func(context.Context, *server.Call) (string, error) { return "", nil })
	c := connectRounds(t, s)
	for _, tt := range []struct{ method, params string }{
		{"example.com/own", `{}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":""}}`},
		{"resources/list", `{}`},
	} {
		got := c.round(tt.method, tt.params, nil, nil)
		if err := <-asked; got.state != "" || err == nil || !strings.Contains(err.Error(), tt.method+" cannot ask the client for input") {
			t.Errorf("%s: %+v, %v", tt.method, got, err)
		}
	}
	for _, tt := range []struct{ method, params, want string }{
		{"prompts/get", `{"name":"greet","arguments":{"name":"x"}}`, `"Hello."`},
		{"resources/read", `{"uri":"test://a"}`, `"text"`},
	} {
		one := c.round(tt.method, tt.params, nil, nil)
		if hint := part(string(one.completed), "ttlMs") + part(string(one.completed), "cacheScope"); hint != "" {
			t.Errorf("%s: %s has a caching hint", tt.method, one.completed)
		}
		two := c.round(tt.method, tt.params, one, map[string]string{one.name(t): accept(`{"name":"Ada"}`)})
		if two.state != "" || !strings.Contains(string(two.completed), tt.want) {
			t.Errorf("%s: %s", tt.method, two.completed)
		}
	}
}

// Proves M-MRTR-05.
func TestInputRequestsHaveDistinctNames(t *testing.T) {
	s := newServer(t, server.Options{})
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		names := make([]string, 4)
		err := c.RunAll(ctx,
			func(ctx context.Context) (err error) { names[0], err = askName(ctx, c, "Who?"); return err },
			func(ctx context.Context) (err error) { names[1], err = askName(ctx, c, "Who?"); return err },
			func(ctx context.Context) (err error) {
				names[2], err = askName(server.InputName(ctx, "who"), c, "Who else?")
				return err
			},
			func(ctx context.Context) (err error) {
				names[3], err = askName(server.InputName(ctx, "who"), c, "Who then?")
				return err
			})
		return strings.Join(names, ", "), err
	})
	c := connectRounds(t, s)
	one := c.round("tools/call", do, nil, nil)
	if len(one.methods) != 4 || one.methods["who"] == "" || one.methods["who-2"] == "" {
		t.Fatalf("names %v", one.methods)
	}
	last, rounds := c.finish("tools/call", do, respondToAll)
	if rounds != 2 || last.text != "accept Ada, accept Ada, accept Ada, accept Ada" {
		t.Errorf("%d rounds, %s", rounds, last.text)
	}
}

// The capabilities of the request decide, not those of an earlier one.
//
// Proves M-MRTR-07, M-META-05, M-STATE-01, M-SAMP-02.
func TestInputNeedsCapabilityOfRequest(t *testing.T) {
	s := newServer(t, server.Options{})
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		var arguments struct{ Kind string }
		req, _ := session.FromContext(ctx)
		var params struct{ Arguments struct{ Kind string } }
		if err := json.Unmarshal(req.Params, &params); err != nil {
			return "", err
		}
		arguments = params.Arguments
		switch arguments.Kind {
		case "form":
			_, err := askName(ctx, c, "Who?")
			return "", err
		case "url":
			_, err := c.ElicitURL(ctx, "Log in.", "https://example.com/", "")
			return "", err
		case "page":
			return "", c.RequireURL(ctx, "Log in.", "https://example.com/", "")
		case "sampling":
			_, err := c.Sample(ctx, sampling())
			return "", err
		case "tools":
			params := sampling()
			params.ToolChoice = &mcp.ToolChoice{}
			_, err := c.Sample(ctx, params)
			return "", err
		case "task":
			_, err := c.SampleTask(ctx, sampling())
			return "", err
		}
		_, err := c.Roots(ctx)
		return "", err
	})
	c := connectRounds(t, s)
	for _, tt := range []struct{ kind, capabilities, missing string }{
		{"form", `{}`, `{"elicitation":{"form":{}}}`},
		{"form", `{"elicitation":{"url":{}},"sampling":{}}`, `{"elicitation":{"form":{}}}`},
		{"form", `{"elicitation":{}}`, ``},
		{"url", `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`},
		{"url", `{"elicitation":{"url":{}}}`, ``},
		{"page", `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`},
		{"page", `{"elicitation":{"url":{}}}`, ``},
		{"sampling", `{"elicitation":{}}`, `{"sampling":{}}`},
		{"sampling", `{"sampling":{}}`, ``},
		{"tools", `{"sampling":{}}`, `{"sampling":{"tools":{}}}`},
		{"tools", `{"sampling":{"tools":{}}}`, ``},
		{"roots", `{"sampling":{}}`, `{"roots":{}}`},
		{"roots", `{"roots":{}}`, ``},
	} {
		c.capabilities = tt.capabilities
		result, failed := c.send("tools/call", `{"name":"do","arguments":{"Kind":"`+tt.kind+`"}}`, nil)
		if tt.missing == "" {
			if failed != nil || !strings.Contains(string(result), `"input_required"`) {
				t.Errorf("%s with %s: got %s, %v", tt.kind, tt.capabilities, result, failed)
			}
			continue
		}
		if failed == nil || failed.Code != -32021 {
			t.Errorf("%s with %s: got %s, %v, want code -32021", tt.kind, tt.capabilities, result, failed)
			continue
		}
		equalJSON(t, tt.kind, `{"requiredCapabilities":`+tt.missing+`}`, string(failed.Data))
	}
	c.capabilities = everyInput
	got := c.round("tools/call", `{"name":"do","arguments":{"Kind":"task"}}`, nil, nil)
	equal(t, "task of the client", "session: revision 2026-07-28 has no sampling/createMessage in this direction", got.text)
}

// clockStore is a task store with its own clock.
type clockStore struct {
	*memory.Store
	now time.Time
}

func (s clockStore) Now() time.Time { return s.now }

// A state expires by the clock of the task store, which all processes share.
func TestStateExpiresByClockOfStore(t *testing.T) {
	now := time.Now()
	clients := func(ahead time.Duration) *roundClient {
		s := newServer(t, server.Options{Shared: server.Shared{StateKeys: [][]byte{bytes.Repeat([]byte("k"), 32)}}, Tasks: task.Options{Store: clockStore{memory.New(), now.Add(ahead)}}})
		addTool(s, func(ctx context.Context, c *server.Call) (string, error) { return askName(ctx, c, "Who?") })
		return connectRoundsAs(t, s, "ann")
	}
	const hour = time.Hour // more than a state is valid
	one := clients(-hour).round("tools/call", do, nil, nil)
	responses := map[string]string{one.name(t): accept(`{"name":"Ada"}`)}
	equal(t, "same time", "accept Ada", clients(-hour).round("tools/call", do, one, responses).text)
	equal(t, "later", "-32602 requestState: expired", clients(0).round("tools/call", do, one, responses).text)
}

// The id of an elicitation expires by the clock of the task store, too.
func TestElicitationExpiresByClockOfStore(t *testing.T) {
	now := time.Now()
	open := func(ahead time.Duration) *server.Server {
		s := newServer(t, server.Options{Shared: server.Shared{StateKeys: [][]byte{bytes.Repeat([]byte("k"), 32)}}, Tasks: task.Options{Store: clockStore{memory.New(), now.Add(ahead)}}})
		addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
			action, err := c.ElicitURL(ctx, "Log in.", "https://example.com/login?id={id}", "")
			return string(action), err
		})
		return s
	}
	const hour = time.Hour // more than an id is valid
	for _, ahead := range []time.Duration{-hour, hour} {
		one := connectRoundsAs(t, open(ahead), "ann").round("tools/call", do, nil, nil)
		var params struct{ URL string }
		if err := json.Unmarshal([]byte(one.requests[one.name(t)]), &params); err != nil {
			t.Fatal(err)
		}
		_, id, _ := strings.Cut(params.URL, "?id=")
		if got, ok := open(ahead).ElicitationPrincipal(id); !ok || got != "ann" {
			t.Errorf("%v ahead: principal %q at the same time", ahead, got)
		}
		if _, ok := open(ahead + hour).ElicitationPrincipal(id); ok {
			t.Errorf("%v ahead: the id does not expire", ahead)
		}
	}
}

// Proves M-MRTR-09, M-MRTR-10, M-STATE-02, M-STATE-03.
func TestStateOfOtherRequestIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := server.Options{Shared: server.Shared{StateKeys: [][]byte{bytes.Repeat([]byte("k"), 32)}}}
		add := func(s *server.Server) *server.Server {
			ask := func(ctx context.Context, c *server.Call) (string, error) { return askName(ctx, c, "Who?") }
			addTool(s, ask)
			server.AddTool(s, "other", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) { return ask(ctx, c) })
			server.AddPrompt(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) { return ask(ctx, c) })
			return s
		}
		s := add(newServer(t, cfg))
		const params = `{"name":"do","arguments":{"amount":5,"to":"bob"}}`
		ann := connectRoundsAs(t, s, "ann")
		one := ann.round("tools/call", params, nil, nil)
		responses := map[string]string{one.name(t): accept(`{"name":"Ada"}`)}
		const foreign = "-32602 requestState: not issued for this request"
		for _, tt := range []struct {
			name           string
			c              *roundClient
			method, params string
			state          string
			want           string
		}{
			{"tampered", ann, "tools/call", params, one.state + "-TAMPERED", foreign},
			{"cut", ann, "tools/call", params, one.state[:len(one.state)-1], foreign},
			{"empty", ann, "tools/call", params, "", foreign},
			{"too long", ann, "tools/call", params, strings.Repeat("A", server.DefaultMaxState+1), "-32602 requestState: longer than 65536 bytes"},
			{"principal", connectRoundsAs(t, s, "eve"), "tools/call", params, one.state, foreign},
			{"method", ann, "prompts/get", `{"name":"do"}`, one.state, foreign},
			{"name", ann, "tools/call", `{"name":"other","arguments":{"amount":5,"to":"bob"}}`, one.state, foreign},
			{"arguments", ann, "tools/call", `{"name":"do","arguments":{"amount":6,"to":"bob"}}`, one.state, foreign},
			{"no arguments", ann, "tools/call", do, one.state, foreign},
			{"keys of another process", connectRoundsAs(t, add(newServer(t, server.Options{})), "ann"), "tools/call", params, one.state, "-32602 requestState: sealed with a key that this server does not have"},
			{"another process", connectRoundsAs(t, add(newServer(t, cfg)), "ann"), "tools/call", params, one.state, "accept Ada"},
			{"written in another way", ann, "tools/call", `{"arguments":{"to":"\u0062ob", "amount":5},"name":"do"}`, one.state, "accept Ada"},
			{"unknown tool", ann, "tools/call", `{"name":"none"}`, one.state, `-32602 unknown tool: "none"`},
		} {
			got := tt.c.round(tt.method, tt.params, &round{state: tt.state}, responses)
			equal(t, tt.name, tt.want, got.text)
		}
		time.Sleep(boundary.DefaultInputTimeout)
		equal(t, "later", "-32602 requestState: expired", ann.round("tools/call", params, one, responses).text)
	})
}

// The state is from a version of this module that sealed the version of the server, "1+build7".
func TestStateOfFirstFormatContinues(t *testing.T) {
	const state = "AYeI6wx6qHjvxMrwovNG2S4XIW9dIkoDLEvmnJmHHFkel5MtAr3YIMNtSfnD6cNZJkh8IN2TY8UFEnxJ67t95VVy27TOmPU3keNM-pOrrZbLynLMthf_jP-ayIIB-KAxFIGtzUPoyJ6HIAaN9IY0SF8gbUvoUdlEr5LddIY0v5la4XEaXp75UIIUcB5DycaKvp-UH9R7K65D-PQaGnEXjMf7ag94GygJGzPNoCQdjRIR_OEWtiiS"
	synctest.Test(t, func(t *testing.T) { // whose time is that of the state
		s := newServer(t, server.Options{Shared: server.Shared{StateKeys: [][]byte{bytes.Repeat([]byte("k"), 32)}}})
		server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) { return askName(ctx, c, "Who?") }, server.Version("2"))
		got := connectRounds(t, s).round("tools/call", do, &round{state: state}, map[string]string{"elicitation-2f71d6acc306": accept(`{"name":"Ada"}`)})
		equal(t, "result", "accept Ada", got.text)
	})
}

// A server is upgraded while its client collects the responses.
func TestStateIsBoundToVersionOfTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := [][]byte{bytes.Repeat([]byte("k"), 32)}
		build := func(version string, options ...server.ToolOption) *roundClient {
			s := server.New("test", version, &server.Options{Shared: server.Shared{StateKeys: keys}})
			t.Cleanup(func() { s.Close() })
			ask := func(ctx context.Context, c *server.Call) (string, error) { return askName(ctx, c, "Who?") }
			server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) { return ask(ctx, c) }, options...)
			server.AddPrompt(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) { return ask(ctx, c) })
			server.AddResource(s, "test:do", "do", func(ctx context.Context, c *server.Call, _ server.Resource) (string, error) { return ask(ctx, c) })
			return connectRounds(t, s)
		}
		v1, v2, both := server.Version("1"), server.Version("2"), server.Version("2", "0", "1")
		for _, tt := range []struct {
			name           string
			older, newer   *roundClient
			method, params string
			refused        bool
		}{
			{"tool", build("1+build7"), build("1+build8"), "tools/call", do, false},
			{"prompt", build("1+build7"), build("1+build8"), "prompts/get", `{"name":"do"}`, false},
			{"resource", build("1+build7"), build("1+build8"), "resources/read", `{"uri":"test:do"}`, false},
			{"equal versions of the tool", build("1", v1), build("2", v1), "tools/call", do, false},
			{"other version of the tool", build("1", v1), build("1", v2), "tools/call", do, true},
			{"accepted version of the tool", build("1", v1), build("1", both), "tools/call", do, false},
			{"roll-back", build("1", both), build("1", v1), "tools/call", do, true},
			{"prompt beside a tool with a version", build("1", v1), build("1", v2), "prompts/get", `{"name":"do"}`, false},
		} {
			one := tt.older.round(tt.method, tt.params, nil, nil)
			got := tt.newer.round(tt.method, tt.params, one, map[string]string{one.name(t): accept(`{"name":"Ada"}`)})
			refused := strings.HasPrefix(got.text, "-32602 requestState: version ") && strings.HasSuffix(got.text, " does not continue it")
			if refused != tt.refused || !refused && !strings.Contains(string(got.completed), "accept Ada") {
				t.Errorf("%s: got %s", tt.name, got.text)
			}
		}
		one := build("1", v1).round("tools/call", do, nil, nil)
		got := build("1", v2).round("tools/call", do, one, nil)
		equal(t, "error", `-32602 requestState: version "1" of the tool has begun this call, and version "2" does not continue it`, got.text)
	})
}

// Proves M-MRTR-13, M-MRTR-14, M-MRTR-15, M-STATE-02.
func TestResponsesThatAreNotAsAsked(t *testing.T) {
	s := newServer(t, server.Options{})
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		var name string
		var message *mcp.CreateMessageResult
		err := c.RunAll(ctx,
			func(ctx context.Context) (err error) {
				name, err = askName(server.InputName(ctx, "who"), c, "Who?")
				return err
			},
			func(ctx context.Context) (err error) {
				message, err = c.Sample(server.InputName(ctx, "what"), sampling())
				return err
			})
		if err != nil {
			return "", err
		}
		return name + " " + message.Model, nil
	})
	c := connectRounds(t, s)
	one := c.round("tools/call", do, nil, nil)
	who, what := accept(`{"name":"Ada"}`), sampled
	for _, tt := range []struct {
		name      string
		responses map[string]string
		want      string            // the result
		asked     map[string]string // or the input requests of the next round
	}{
		{"all", map[string]string{"who": who, "what": what}, "accept Ada m", nil},
		{"more", map[string]string{"who": who, "what": what, "why": who, "": rooted}, "accept Ada m", nil},
		{"none", nil, "", one.methods},
		{"empty", map[string]string{}, "", one.methods},
		{"another key", map[string]string{"why": who}, "", one.methods},
		{"one of two", map[string]string{"who": who}, "", map[string]string{"what": "sampling/createMessage"}},
		{"another one of two", map[string]string{"what": what}, "", map[string]string{"who": "elicitation/create"}},
		{"exchanged", map[string]string{"who": what, "what": who}, "-32602", nil},
		{"roots", map[string]string{"who": rooted, "what": what}, "-32602", nil},
		{"number", map[string]string{"who": `7`, "what": what}, "-32602", nil},
		{"null", map[string]string{"who": `null`, "what": what}, "-32602", nil},
		{"no action", map[string]string{"who": `{}`, "what": what}, "-32602", nil},
		{"unknown action", map[string]string{"who": `{"action":"perhaps"}`, "what": what}, "-32602", nil},
		{"nested content", map[string]string{"who": accept(`{"name":{}}`), "what": what}, "-32602", nil},
		{"content not as in the form", map[string]string{"who": accept(`{"name":7}`), "what": what}, server.ErrAnswer.Error() + ": name: must be a string", nil},
		{"content is missing", map[string]string{"who": `{"action":"accept"}`, "what": what}, server.ErrAnswer.Error() + ": name: is required", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := c.round("tools/call", do, one, tt.responses)
			if tt.asked != nil {
				equal(t, "input requests", tt.asked, got.methods)
				last, _ := c.finishFrom(got, "tools/call", do, respondToAll)
				got = last
				tt.want = "accept Ada m"
			}
			if !strings.HasPrefix(got.text, tt.want) {
				t.Errorf("got %q, want %q", got.text, tt.want)
			}
		})
	}
	// Responses without a state are those of no round.
	if got := c.round("tools/call", do, nil, map[string]string{"who": who, "what": what}); len(got.methods) != 2 {
		t.Errorf("got %q, want input requests", got.text)
	}
	for _, raw := range []string{`null`, `7`, `[]`} {
		if _, failed := c.send("tools/call", do, map[string]json.RawMessage{"inputResponses": json.RawMessage(raw)}); failed == nil || failed.Code != -32602 {
			t.Errorf("inputResponses %s: got %v", raw, failed)
		}
	}
	if _, failed := c.send("tools/call", do, map[string]json.RawMessage{"requestState": json.RawMessage(`7`)}); failed == nil || failed.Code != -32602 {
		t.Errorf("requestState 7: got %v", failed)
	}
}

// An input request whose response is left out keeps its deadline, also if the next run does not come
// to it: another branch ends the round first.
func TestDeadlineLastsWithoutResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{Shared: server.Shared{StateKeys: [][]byte{bytes.Repeat([]byte("k"), 32)}}})
		var runs atomic.Int64
		addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
			run, early := runs.Add(1), make(chan string)
			go func() {
				if run == 2 {
					time.Sleep(time.Millisecond) // the handler ends the round before
				}
				server.Branch(ctx, c, "early", func(ctx context.Context) error {
					limited, cancel := context.WithTimeout(ctx, time.Minute)
					defer cancel()
					name, err := askName(server.InputName(limited, "early"), c, "Soon?")
					if errors.Is(err, context.DeadlineExceeded) {
						name = "too late"
					}
					early <- name
					return err
				})
			}()
			if run == 1 {
				time.Sleep(time.Millisecond) // the branch makes its request before
			}
			_, err := askName(server.InputName(ctx, "first"), c, "First?")
			late := ""
			if err == nil {
				late, err = askName(server.InputName(ctx, "second"), c, "Second?")
			}
			return <-early + ", " + late, err
		})
		c := connectRounds(t, s)
		one := c.round("tools/call", do, nil, nil)
		time.Sleep(2 * time.Minute)
		two := c.round("tools/call", do, one, map[string]string{"first": accept(`{"name":"Ada"}`)})
		equal(t, "input requests", map[string]string{"second": "elicitation/create"}, two.methods)
		eve := accept(`{"name":"Eve"}`)
		three := c.round("tools/call", do, two, map[string]string{"second": accept(`{"name":"Bob"}`), "": eve, "early": eve})
		equal(t, "result", "too late, accept Bob", three.text)
	})
}

// Responses to earlier rounds are in the state: later ones under the same name do not replace them.
func TestResponsesOfEarlierRoundsStay(t *testing.T) {
	s := newServer(t, server.Options{})
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		first, err := askName(server.InputName(ctx, "who"), c, "Who?")
		if err != nil {
			return "", err
		}
		second, err := askName(ctx, c, "Who else?")
		return first + ", " + second, err
	})
	c := connectRounds(t, s)
	one := c.round("tools/call", do, nil, nil)
	two := c.round("tools/call", do, one, map[string]string{"who": accept(`{"name":"Ada"}`)})
	three := c.round("tools/call", do, two, map[string]string{"who": accept(`{"name":"Eve"}`), two.name(t): accept(`{"name":"Bob"}`)})
	equal(t, "result", "accept Ada, accept Bob", three.text)
}

// Proves M-ELIC-03.
func TestUserDeclinesInRound(t *testing.T) {
	s := newServer(t, server.Options{})
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) { return askName(ctx, c, "Who?") })
	c := connectRounds(t, s)
	for _, action := range []string{"decline", "cancel"} {
		one := c.round("tools/call", do, nil, nil)
		equal(t, action, action+" ", c.round("tools/call", do, one, map[string]string{one.name(t): `{"action":"` + action + `"}`}).text)
	}
}

// A client that does not come back leaves nothing behind: no goroutine, and no elicitation that a
// limit counts.
//
// Proves M-MRTR-12.
func TestAbandonedRoundsHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		s := newServer(t, server.Options{})
		addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
			return "", c.RunAll(ctx,
				func(ctx context.Context) error { _, err := askName(ctx, c, "Who?"); return err },
				func(ctx context.Context) error {
					_, err := c.ElicitURL(ctx, "Log in.", "https://example.com/?id={id}", "")
					return err
				})
		})
		c := connectRounds(t, s)
		for range 1100 { // more than the elicitations that a session may have
			if got := c.round("tools/call", do, nil, nil); len(got.methods) != 2 {
				t.Fatalf("got %q", got.text)
			}
		}
	})
}

// Proves M-MRTR-16.
func TestNothingFollowsInputRequiredResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		released := make(chan struct{})
		addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
			go func() {
				<-released
				c.Progress(2, 0, "late")
				c.Notify(context.Background(), "notifications/example", nil)
			}()
			c.Progress(1, 0, "early")
			return askName(ctx, c, "Who?")
		})
		here, there := inmemory.Pair(inmemory.Options{})
		must(s.Serve(there))
		defer here.Close()
		var got []string
		go func() { // ends with the connection
			for {
				m, err := here.Read()
				if err != nil {
					return
				}
				got = append(got, string(m.Text))
			}
		}()
		text := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"do","_meta":{"progressToken":"p","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + everyInput + `}}}`
		if err := here.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		close(released)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(got) != 2 || !strings.Contains(got[0], "early") || !strings.Contains(got[1], "input_required") {
			t.Errorf("got %q", got)
		}
	})
}

// Proves M-ELIC-03, M-ELIC-05.
func TestElicitURLInRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := server.Options{Shared: server.Shared{StateKeys: [][]byte{bytes.Repeat([]byte("k"), 32)}}}
		s := newServer(t, cfg)
		addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
			action, err := c.ElicitURL(ctx, "Log in.", "https://example.com/login?id={id}", "")
			return string(action), err
		})
		c := connectRoundsAs(t, s, "ann")
		one := c.round("tools/call", do, nil, nil)
		var params map[string]any
		if err := json.Unmarshal([]byte(one.requests[one.name(t)]), &params); err != nil {
			t.Fatal(err)
		}
		page, id, _ := strings.Cut(params["url"].(string), "?id=")
		delete(params, "url")
		equal(t, "params", map[string]any{"mode": "url", "message": "Log in."}, params)
		equal(t, "page", "https://example.com/login", page)
		other := newServer(t, cfg)
		for name, tt := range map[string]struct {
			s    *server.Server
			id   string
			want string
		}{
			"the server": {s, id, "ann"}, "another process": {other, id, "ann"}, "other keys": {newServer(t, server.Options{}), id, ""},
			"another id": {s, id + "A", ""}, "a state": {s, one.state, ""},
		} {
			if got, ok := tt.s.ElicitationPrincipal(tt.id); got != tt.want || ok != (tt.want != "") {
				t.Errorf("%s: principal %q, %v, want %q", name, got, ok, tt.want)
			}
		}
		if err := s.ElicitationComplete(t.Context(), id); err != nil {
			t.Error(err)
		}
		equal(t, "result", "accept", c.round("tools/call", do, one, map[string]string{one.name(t): `{"action":"accept"}`}).text)
		time.Sleep(boundary.DefaultInputTimeout)
		if _, ok := s.ElicitationPrincipal(id); ok {
			t.Error("the id does not expire")
		}
	})
}

func TestElicitURLPutsIDInPage(t *testing.T) {
	var id, page string
	with := clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{"url":{}}}`), handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
		var params struct{ URL, ElicitationID string }
		if err := json.Unmarshal(req.Params, &params); err != nil {
			return nil, err
		}
		page, id = params.URL, params.ElicitationID
		return session.Raw(`{"action":"accept"}`), nil
	}}
	for given, want := range map[string]string{"": "", "a/b c": "a%2Fb+c"} {
		got := callTool(t, with, func(ctx context.Context, c *server.Call) (string, error) {
			action, err := c.ElicitURL(ctx, "Log in.", "https://example.com/login?id={id}", given)
			return string(action), err
		})
		if want == "" {
			want = id
		}
		if got != "accept" || id == "" || page != "https://example.com/login?id="+want || given != "" && id != given {
			t.Errorf("%s, page %s, id %s", got, page, id)
		}
	}
}

// Proves M-ELIC-03, M-ELIC-05, M-ERR-05.
func TestRequireURLInRounds(t *testing.T) {
	s := newServer(t, server.Options{})
	visited := false
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		if !visited {
			return "", c.RequireURL(ctx, "Log in.", "https://example.com/login?id={id}", "")
		}
		return askName(ctx, c, "Who?")
	})
	c := connectRounds(t, s)
	one := c.round("tools/call", do, nil, nil)
	if !strings.Contains(one.requests[one.name(t)], `"url":"https://example.com/login?id=`) {
		t.Errorf("params %v", one.requests)
	}
	equal(t, "declined", "server: the user has not agreed to visit the page: decline", c.round("tools/call", do, one, map[string]string{one.name(t): `{"action":"decline"}`}).text)
	two := c.round("tools/call", do, one, map[string]string{one.name(t): `{"action":"accept"}`})
	three := c.round("tools/call", do, two, map[string]string{two.name(t): `{"action":"accept"}`}) // not there yet
	visited = true
	four := c.round("tools/call", do, three, map[string]string{three.name(t): `{"action":"accept"}`})
	five := c.round("tools/call", do, four, map[string]string{four.name(t): accept(`{"name":"Ada"}`)})
	equal(t, "result", "accept Ada", five.text)
}

// A sleep does not delay the question of another goroutine: the round ends at once, and the sleep
// goes on in the next one.
func TestInputRequestInterruptsSleep(t *testing.T) {
	for _, first := range []string{"sleep", "input request"} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, server.Options{})
			addTool(s, func(ctx context.Context, c *server.Call) (name string, err error) {
				err = c.RunAll(ctx, func(ctx context.Context) error {
					if first != "sleep" {
						time.Sleep(time.Second)
					}
					return server.Sleep(ctx, c, "hour", func() time.Time { return time.Now().Add(time.Hour) })
				}, func(ctx context.Context) (err error) {
					if first == "sleep" {
						time.Sleep(time.Second)
					}
					name, err = askName(ctx, c, "Who?")
					return err
				})
				return name, err
			})
			begin := time.Now()
			c := connectRounds(t, s)
			one := c.round("tools/call", do, nil, nil)
			if got := time.Since(begin); one.state == "" || got != time.Second {
				t.Fatalf("%s first: %+v after %v", first, one, got)
			}
			two := c.round("tools/call", do, one, map[string]string{one.name(t): accept(`{"name":"Ada"}`)})
			equal(t, "result", "accept Ada", two.text)
			if got := time.Since(begin); got < time.Hour || got > time.Hour+2*time.Second {
				t.Errorf("%s first: done after %v", first, got)
			}
		})
	}
}

// Proves M-ELIC-05, M-ERR-05.
func TestURLsOfModernTasks(t *testing.T) {
	meta := declares(`{"elicitation":{"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	for _, restartable := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			s, _ := withTasks(t, memory.New(), func(s *server.Server) {
				support := server.Tasks(receiver.Support{After: -1, Restartable: restartable})
				const page = "https://example.com/login?id={id}"
				server.AddTool(s, "elicit", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
					action, err := c.ElicitURL(ctx, "Log in.", page, "")
					return string(action), err
				}, support)
				server.AddTool(s, "require", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
					return "", c.RequireURL(ctx, "Log in.", page, "")
				}, support)
				server.AddTool(s, "require-in-branch", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
					return "", c.RunAll(ctx, func(ctx context.Context) error { return c.RequireURL(ctx, "Log in.", page, "") })
				}, support)
			})
			c := connectModern(t, s)
			c.ctx = transport.WithPrincipal(t.Context(), "ann")
			for _, row := range []struct{ tool, action, want string }{
				{"elicit", "accept", "accept"},
				{"require", "accept", "server: page must be visited first: Log in.: call the tool again afterwards"},
				{"require-in-branch", "accept", "server: page must be visited first: Log in.: call the tool again afterwards"},
				{"require", "decline", "server: the user has not agreed to visit the page: decline"},
			} {
				created := c.result("tools/call", `{"name":"`+row.tool+`","arguments":{}}`, meta)
				id := strings.Trim(part(created, "taskId"), `"`)
				synctest.Wait()
				state := c.task(id)
				params := part(state, "inputRequests", "input-1", "params")
				_, elicitation, _ := strings.Cut(strings.Trim(part(params, "url"), `"`), "?id=")
				if part(params, "elicitationId") != "" || elicitation == "" {
					t.Fatalf("restartable %v, %s: %s", restartable, row.tool, state)
				}
				time.Sleep(boundary.DefaultInputTimeout)
				c.result("tasks/update", `{"taskId":"`+id+`","inputResponses":{"input-1":{"action":"`+row.action+`"}}}`, meta)
				synctest.Wait()
				if got, ok := s.ElicitationPrincipal(elicitation); !ok || got != "ann" {
					t.Errorf("restartable %v, %s: principal %q, %v", restartable, row.tool, got, ok)
				}
				if state := c.task(id); part(state, "status") != `"completed"` {
					t.Errorf("restartable %v, %s: %s", restartable, row.tool, state)
				} else {
					equal(t, row.tool, row.want, text(t, part(state, "result")))
				}
			}
		})
	}
}

// The roots of one client must not reach another one.
func TestRootsOfModernCallAreNotCached(t *testing.T) {
	s := newServer(t, server.Options{})
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		roots, err := c.Roots(ctx)
		if err != nil {
			return "", err
		}
		return roots[0].URI, nil
	})
	for _, uri := range []string{"file:///one", "file:///two"} {
		last, _ := connectRounds(t, s).finish("tools/call", do, func(string, string) string { return `{"roots":[{"uri":"` + uri + `"}]}` })
		equal(t, "roots", uri, last.text)
	}
}

// Proves M-ELIC-02.
func TestFormInRoundHasNoSecrets(t *testing.T) {
	s := newServer(t, server.Options{})
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		_, err := server.Elicit(ctx, c, "Log in.", &struct {
			Password string `json:"password"`
		}{})
		return "", err
	})
	got := connectRounds(t, s).round("tools/call", do, nil, nil)
	if !strings.Contains(got.text, "use ElicitURL") {
		t.Errorf("got %q", got.text)
	}
}

func TestRoundsAreLimited(t *testing.T) {
	for limit, want := range map[int]int{0: boundary.DefaultMaxRounds, 3: 3} {
		log := new(bytes.Buffer)
		s := newServer(t, server.Options{Limits: server.Limits{Rounds: limit}, Session: session.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}})
		addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
			for i := 0; ; i++ {
				if _, err := askName(ctx, c, fmt.Sprint("Who is number ", i, "?")); err != nil {
					return "", err
				}
			}
		})
		c := connectRounds(t, s)
		last, rounds := new(round), 0
		for last = c.round("tools/call", do, nil, nil); last.state != ""; rounds++ {
			last = c.round("tools/call", do, last, map[string]string{last.name(t): accept(`{"name":"x"}`)})
		}
		if rounds != want || !strings.HasPrefix(last.text, "-32603") || !strings.Contains(log.String(), "which is the limit") {
			t.Errorf("limit %d: %d rounds, %s, log %s", limit, rounds, last.text, log)
		}
	}
}

func TestStateKeysAreChecked(t *testing.T) {
	s := server.New("test", "1", &server.Options{Shared: server.Shared{StateKeys: [][]byte{make([]byte, 32), make([]byte, 31)}}, Limits: server.Limits{State: -1}})
	defer s.Close()
	for _, want := range []string{"StateKeys: key 1 has 31 bytes, want at least 32", "negative Limits.State (-1)"} {
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
