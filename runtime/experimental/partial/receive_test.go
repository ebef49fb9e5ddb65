package partial_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/experimental/partial"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	store "github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// pages are the arguments of a tool that counts to To, one number per part.
type pages struct {
	To   int    `json:"to"`
	Fail string `json:"fail,omitempty" jsonschema:"how the second part fails"`
}

// count is the tool. Its state is secret.
func count(ctx context.Context, _ *server.Call, in pages) (string, error) {
	part, ok := partial.PartFrom(ctx)
	if !ok {
		return "all at once", nil
	}
	at := 1
	if state, resumed := part.State(); resumed {
		var err error
		if at, err = strconv.Atoi(strings.TrimPrefix(string(state), "secret/path/")); err != nil {
			return "", err
		}
	}
	if at < in.To {
		part.More(fmt.Appendf(nil, "secret/path/%d", at+1))
	}
	switch {
	case at == 2 && in.Fail == "tool":
		return "", errors.New("no luck")
	case at == 2 && in.Fail == "request":
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "no luck"}
	case at == 2 && in.Fail == "busy":
		return "", &jsonrpc.Error{Code: session.CodeOverloaded, Message: "later"}
	}
	return strconv.Itoa(at), nil
}

// counter returns a session with a new server that has the tool.
func counter(t *testing.T, principal string, receiving ...session.Middleware) *session.Session {
	t.Helper()
	s := counting(t, principal, receiving...)
	here, there := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(there); err != nil {
		t.Fatal(err)
	}
	return connected(t, here)
}

// counting returns a server that has the tool.
func counting(t *testing.T, principal string, receiving ...session.Middleware) *server.Server {
	t.Helper()
	s := server.New("counter", "1", &server.Options{
		Session: session.Options{Principal: principal, Hooks: session.Hooks{Receiving: receiving}},
		Tasks:   task.Options{Store: store.New()},
	})
	t.Cleanup(func() { s.Close() })
	support := server.Tasks(receiver.Support{})
	server.AddTool(s, "count", "", count, support)
	return s
}

// connected returns a session of a client.
func connected(t *testing.T, conn transport.Conn) *session.Session {
	t.Helper()
	c, err := session.Connect(t.Context(), conn, &mcp.InitializeRequestParams{ClientInfo: mcp.Implementation{Name: "c", Version: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func receive(t *testing.T, cfg partial.Options) session.Middleware {
	t.Helper()
	m, err := partial.Receive(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// reply is the part of a result that the tests check.
type reply struct {
	Text  string
	Token string
	TTL   string
	Error bool
	Code  int64 // of an error response
}

// call calls a tool. arguments is a JSON object, and more is JSON text of further members of the
// params.
func call(t *testing.T, c *session.Session, arguments, more string) (r reply) {
	t.Helper()
	text, err := c.Call(t.Context(), "tools/call", session.Raw(`{"name":"count","arguments":`+arguments+more+`}`))
	if err != nil {
		return reply{Code: jsonrpc.CodeOf(err)}
	}
	var result struct {
		Content []struct{ Text string }
		Meta    map[string]json.RawMessage `json:"_meta"`
		Token   string                     `json:"nextResumeToken"`
		IsError bool
	}
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatal(err)
	}
	return reply{Text: result.Content[0].Text, Token: result.Token, TTL: string(result.Meta[partial.TTLMeta]), Error: result.IsError}
}

func with(token string) string { return `,"resumeToken":"` + token + `"` }

// Proves RESUME-01, RESUME-02, RESUME-08.
func TestToolReturnsResultInParts(t *testing.T) {
	c := counter(t, "", receive(t, partial.Options{TTL: time.Hour}))
	o, err := partial.Start(c, "tools/call", &mcp.CallToolRequestParams{Name: "count", Arguments: json.RawMessage(`{"to":3}`)})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for part, err := range o.Parts(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		var result mcp.CallToolResult
		if err := codec.Unmarshal(part, &result); err != nil {
			t.Fatal(err)
		}
		got = append(got, result.Content[0].(*mcp.TextContent).Text)
	}
	if diff := cmp.Diff([]string{"1", "2", "3"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	first := call(t, c, `{"to":2}`, ``)
	if first.Token == "" || first.TTL != "3600000" {
		t.Errorf("first part: %+v", first)
	}
	off := counter(t, "")
	for _, more := range []string{``, with("any")} {
		if diff := cmp.Diff(reply{Text: "all at once"}, call(t, off, `{"to":2}`, more)); diff != "" {
			t.Errorf("not opted in (-want +got):\n%s", diff)
		}
	}
}

// ended is a partial.Ended that instances share, as they would share a database.
type ended struct {
	mu   sync.Mutex
	over map[string]bool
	err  error
}

func (e *ended) Add(_ context.Context, operation string, _ time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over[operation] = true
	return e.err
}

func (e *ended) Has(_ context.Context, operation string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.over[operation], e.err
}

// Proves RESUME-04, RESUME-12.
func TestTokenIsValidInInstancesWithSameKeys(t *testing.T) {
	older, newer := bytes.Repeat([]byte{1}, partial.KeySize), bytes.Repeat([]byte{2}, partial.KeySize)
	shared := &ended{over: map[string]bool{}}
	a := counter(t, "ann", receive(t, partial.Options{Keys: [][]byte{older}, Ended: shared}))
	token := call(t, a, `{"to":2}`, ``).Token
	a.Close()
	b := counter(t, "ann", receive(t, partial.Options{Keys: [][]byte{newer, older}, Ended: shared}))
	c := counter(t, "ann", receive(t, partial.Options{Keys: [][]byte{newer}, Ended: shared}))
	if got := call(t, c, `{"to":2}`, with(token)); got.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("without the key: %+v", got)
	}
	if diff := cmp.Diff(reply{Text: "2"}, call(t, b, `{"to":2}`, with(token))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d := counter(t, "ann", receive(t, partial.Options{Keys: [][]byte{older}, Ended: shared}))
	if got := call(t, d, `{"to":2}`, with(token)); got.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("after the end elsewhere: %+v", got)
	}
	shared.err = errors.New("no database")
	if got := call(t, d, `{"to":2}`, with(token)); got.Code != jsonrpc.CodeInternalError {
		t.Errorf("when the end is not known: %+v", got)
	}
}

// Proves RESUME-05.
func TestTokenRevealsNothing(t *testing.T) {
	c := counter(t, "annabel", receive(t, partial.Options{}))
	one, two := call(t, c, `{"to":2}`, ``).Token, call(t, c, `{"to":2}`, ``).Token
	if one == two {
		t.Error("two operations have the same token")
	}
	raw, err := base64.RawURLEncoding.DecodeString(one)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"secret", "path", "annabel", "count"} {
		if bytes.Contains(raw, []byte(secret)) {
			t.Errorf("the token says %q", secret)
		}
	}
	for i := range raw {
		raw[i] ^= 1
		if got := call(t, c, `{"to":2}`, with(base64.RawURLEncoding.EncodeToString(raw))); got.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("changed in byte %d: %+v", i, got)
		}
		raw[i] ^= 1
	}
}

// Proves RESUME-06.
func TestErrorHasNoToken(t *testing.T) {
	for _, row := range []struct {
		fail string
		want reply
		then int64 // code for the same token in a second request, or 0
	}{
		{"tool", reply{Text: "no luck", Error: true}, jsonrpc.CodeInvalidParams},
		{"request", reply{Code: jsonrpc.CodeInternalError}, jsonrpc.CodeInvalidParams},
		{"busy", reply{Code: session.CodeOverloaded}, session.CodeOverloaded},
	} {
		t.Run(row.fail, func(t *testing.T) {
			c := counter(t, "", receive(t, partial.Options{}))
			arguments := `{"to":3,"fail":"` + row.fail + `"}`
			token := call(t, c, arguments, ``).Token
			if diff := cmp.Diff(row.want, call(t, c, arguments, with(token))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := call(t, c, arguments, with(token)); got.Code != row.then {
				t.Errorf("again: %+v", got)
			}
		})
	}
}

// Proves RESUME-07, RESUME-12.
func TestTokenIsBoundToItsRequest(t *testing.T) {
	m := receive(t, partial.Options{})
	c, other := counter(t, "ann", m), counter(t, "bob", m)
	token := call(t, c, `{"to":3,"fail":""}`, ``).Token
	refused := reply{Code: jsonrpc.CodeInvalidParams}
	for _, row := range []struct {
		name            string
		c               *session.Session
		arguments, more string
	}{
		{"another value", c, `{"to":4,"fail":""}`, with(token)},
		{"a missing argument", c, `{"to":3}`, with(token)},
		{"a further argument", c, `{"to":3,"fail":"","x":1}`, with(token)},
		{"an argument of the wrong type", c, `{"to":"3","fail":""}`, with(token)},
		{"another principal", other, `{"to":3,"fail":""}`, with(token)},
		{"nothing", c, `{"to":3,"fail":""}`, with("")},
		{"something made up", c, `{"to":3,"fail":""}`, with("adef50")},
		{"something longer", c, `{"to":3,"fail":""}`, with(token + "AA")},
		{"a number", c, `{"to":3,"fail":""}`, `,"resumeToken":1`},
	} {
		if diff := cmp.Diff(refused, call(t, row.c, row.arguments, row.more)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
	for range 2 { // it may be sent repeatedly until the end
		got := call(t, c, `{"fail":"", "to":3}`, with(token)+`,"_meta":{"progressToken":"p"}`)
		if got.Text != "2" || got.Token == "" {
			t.Errorf("the same request in other words: %+v", got)
		}
	}
}

// Proves RESUME-12, RESUME-14.
func TestTokenExpiresAndEndsWithOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := counter(t, "", receive(t, partial.Options{TTL: time.Minute}))
		left := call(t, c, `{"to":3}`, ``).Token
		time.Sleep(time.Minute - time.Millisecond)
		next := call(t, c, `{"to":3}`, with(left))
		if next.Text != "2" {
			t.Errorf("in time: %+v", next)
		}
		time.Sleep(time.Millisecond)
		if got := call(t, c, `{"to":3}`, with(left)); got.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("too late: %+v", got)
		}
		if diff := cmp.Diff(reply{Text: "3"}, call(t, c, `{"to":3}`, with(next.Token))); diff != "" {
			t.Errorf("the last part (-want +got):\n%s", diff)
		}
		if got := call(t, c, `{"to":3}`, with(next.Token)); got.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("after the last part: %+v", got)
		}
	})
}

// long returns a session with a server whose every method returns two parts: the first one is
// empty, and the second one has the params. It calls second before the second part.
func long(t *testing.T, second func(context.Context)) *session.Session {
	c, _ := sessiontest.Pair(t, sessiontest.Side{}, sessiontest.Side{Config: session.Options{
		Hooks: session.Hooks{Receiving: []session.Middleware{receive(t, partial.Options{})}},
		Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			part, ok := partial.PartFrom(ctx)
			if !ok { // a notification
				return nil, nil
			}
			if _, resumed := part.State(); resumed {
				second(ctx)
				return session.Raw(req.Params), ctx.Err()
			}
			part.More(nil)
			return nil, nil
		},
	}})
	return c
}

// Proves RESUME-07.
func TestPartsOfAnyMethod(t *testing.T) {
	c := long(t, func(context.Context) {})
	params := session.Raw(`{"n":1.0}`)
	o, err := partial.Start(c, "x/long", params)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	token, _ := o.Token()
	other, err := partial.Continue(c, "x/other", params, token)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"-32602"}, parts(t, other)); diff != "" {
		t.Errorf("the token with another method (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`{"n":1.0}`}, parts(t, o)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCancelledPartCanBeRequestedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		c := long(t, func(ctx context.Context) {
			if first {
				first = false
				<-ctx.Done()
			}
		})
		o, err := partial.Start(c, "x/long", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := o.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{`{}`}, parts(t, o)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Proves RESUME-04, RESUME-14.
func TestPartsFromSeveralInstancesWithoutSessions(t *testing.T) {
	key := bytes.Repeat([]byte{1}, partial.KeySize)
	var instances []*streamable.Handler
	for range 2 {
		s := counting(t, "", receive(t, partial.Options{Keys: [][]byte{key}}))
		h := must.Get(s.Handler(&streamable.HandlerOptions{Stateless: true}))
		t.Cleanup(func() { h.Close() })
		instances = append(instances, h)
	}
	var turn atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		instances[turn.Add(1)%2].ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	conn, err := streamable.Dial(web.URL, streamable.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o, err := partial.Start(connected(t, conn), "tools/call", session.Raw(`{"name":"count","arguments":{"to":4}}`))
	if err != nil {
		t.Fatal(err)
	}
	list := parts(t, o)
	for i, part := range list {
		if !strings.Contains(part, fmt.Sprintf(`"text":"%d"`, i+1)) {
			t.Errorf("part %d is %s", i+1, part)
		}
	}
	if len(list) != 4 {
		t.Errorf("%d parts", len(list))
	}
}

func TestTaskHasNoParts(t *testing.T) {
	s := counting(t, "", receive(t, partial.Options{}))
	here, there := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(there); err != nil {
		t.Fatal(err)
	}
	c := connected(t, here)
	text, err := c.Call(t.Context(), "tools/call", session.Raw(`{"name":"count","arguments":{"to":2},"task":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	var created mcp.CreateTaskResult
	if err := codec.Unmarshal(text, &created); err != nil {
		t.Fatal(err)
	}
	text, err = c.Call(t.Context(), "tasks/result", &mcp.GetTaskPayloadRequestParams{TaskID: created.Task.TaskID})
	if err != nil || !strings.Contains(string(text), "all at once") {
		t.Errorf("the task gave %s, %v", text, err)
	}
	token := call(t, c, `{"to":2}`, ``).Token
	if got := call(t, c, `{"to":2}`, with(token)+`,"task":{}`); got.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("a token for a task: %+v", got)
	}
}

func TestReceiveRejectsInvalidConfig(t *testing.T) {
	for _, cfg := range []partial.Options{{TTL: -1}, {Keys: [][]byte{make([]byte, partial.KeySize), []byte("short")}}} {
		if _, err := partial.Receive(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}
