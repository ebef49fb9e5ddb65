package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
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
	if _, err := s.Open(func(result *mcp.InitializeResult, cfg *session.Config) *session.Session {
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
	var responses map[string]string
	for rounds = 1; rounds < 50; rounds++ {
		last = c.round(method, params, last, responses)
		if last.state == "" {
			return last, rounds
		}
		responses = map[string]string{}
		for name, method := range last.methods {
			responses[name] = respond(method, last.requests[name])
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
	must(server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ map[string]any) (string, error) { return f(ctx, c) }))
}

const do = `{"name":"do"}`

// Proves M-MRTR-01, M-MRTR-02, M-MRTR-04, M-MRTR-06, M-MRTR-08.
func TestInputRequestsEndRounds(t *testing.T) {
	s := newServer(t, server.Config{})
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
	four := c.round("tools/call", do, three, map[string]string{three.name(t): rooted})
	equal(t, "result", "accept Ada m file:///work", four.text)
	if one.state == two.state || two.state == three.state || runs != 4 {
		t.Errorf("the state does not change, or %d runs", runs)
	}
}

func TestRunAllAsksInOneRound(t *testing.T) {
	s := newServer(t, server.Config{})
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
