package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/form"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	taskmemory "github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// exchange is a request of a server and the expected response: a result, or the code of an error.
type exchange struct{ method, params, want string }

// send sends requests with raw params, which the sender does not validate.
func send(t *testing.T, s *scripted, requests []exchange) {
	t.Helper()
	for _, q := range requests {
		result, err := s.Call(t.Context(), q.method, session.Raw(q.params))
		got := string(result)
		if err != nil {
			got = fmt.Sprint(jsonrpc.CodeOf(err))
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Message == "" {
				t.Errorf("%s %s: %v is not an error response with a message", q.method, q.params, err)
			}
		}
		if got != q.want {
			t.Errorf("%s %s\n got %s\nwant %s", q.method, q.params, got, q.want)
		}
	}
}

// Proves ELIC-01, SAMP-01, ROOT-01, TASK-01.
func TestCapabilitiesFollowFromTheHandlers(t *testing.T) {
	fill := func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) { return client.Decline(), nil }
	open := func(context.Context, *client.URLRequest) (mcp.ElicitAction, error) { return "accept", nil }
	sample := func(context.Context, *client.SampleRequest) (*mcp.CreateMessageResult, error) { return nil, nil }
	tasks, err := task.New(t.Context(), task.Options{Store: taskmemory.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer tasks.Close(context.Background())
	for _, test := range []struct {
		name string
		o    *client.Options
		want string
	}{
		{"nothing", nil, `{}`},
		{"forms", &client.Options{Input: client.Input{Fill: fill}}, `{"elicitation":{"form":{}}}`},
		{"URLs", &client.Options{Input: client.Input{OpenURL: open}}, `{"elicitation":{"url":{}}}`},
		{"both", &client.Options{Input: client.Input{Fill: fill, OpenURL: open}}, `{"elicitation":{"form":{},"url":{}}}`},
		{"sampling", &client.Options{Input: client.Input{Sample: sample}}, `{"sampling":{}}`},
		{"tools", &client.Options{Input: client.Input{Sample: sample, SampleTools: true}}, `{"sampling":{"tools":{}}}`},
		{"roots", &client.Options{Input: client.Input{Roots: new(client.Roots)}}, `{"roots":{"listChanged":true}}`},
		{"tasks", &client.Options{Input: client.Input{Sample: sample, Fill: fill, Tasks: tasks}}, `{"elicitation":{"form":{}},"sampling":{},` +
			`"tasks":{"cancel":{},"requests":{"elicitation":{"create":{}},"sampling":{"createMessage":{}}}}}`},
		{"tasks of sampling", &client.Options{Input: client.Input{Sample: sample, Tasks: tasks}, Session: session.Options{Principal: "ada"}},
			`{"sampling":{},"tasks":{"cancel":{},"list":{},"requests":{"sampling":{"createMessage":{}}}}}`},
		{"additional", &client.Options{Input: client.Input{Sample: sample}, Features: client.Features{Capabilities: mcp.ClientCapabilities{
			Experimental: []byte(`{"x":{}}`), Sampling: &mcp.ClientCapabilitiesSampling{Context: []byte(`{}`)},
		}}}, `{"experimental":{"x":{}},"sampling":{"context":{}}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, s := connect(t, test.o, nil)
			text, err := codec.Marshal(&s.Client().Capabilities)
			if err != nil || string(text) != test.want {
				t.Errorf("got %s, %v", text, err)
			}
		})
	}
}

const colours = `{"message":"Which?","requestedSchema":{"type":"object","required":["colour"],"properties":{` +
	`"colour":{"type":"string","enum":["red","blue"]},"size":{"type":"integer","default":3},"tags":{"type":"array","items":{"type":"string","enum":["x","y"]},"default":["x"]},` +
	`"note":{"type":"string","default":"none"},"fast":{"type":"boolean","default":true},"shade":{"type":"string","oneOf":[{"const":"d","title":"Dark"}],"default":"d"}}}}`

// The official Go SDK sends forms without fields in this way.
func TestFormWithoutSchemaHasNoFields(t *testing.T) {
	_, s := connect(t, &client.Options{Input: client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
		if f.Message != "Sure?" || len(f.Fields) > 0 {
			t.Errorf("Fill received %v", f)
		}
		return client.Accept(nil)
	}}}, nil)
	send(t, s, []exchange{
		{"elicitation/create", `{"message":"Sure?"}`, `{"action":"accept","content":{}}`},
		{"elicitation/create", `{"message":"Sure?","mode":"form"}`, `{"action":"accept","content":{}}`},
		{"elicitation/create", `{"message":"Sure?","requestedSchema":{}}`, "-32602"},
		{"elicitation/create", `{"message":"Sure?","requestedSchema":null}`, "-32602"},
		{"elicitation/create", `{"mode":"form"}`, "-32602"},
		{"elicitation/create", `{"message":"Sure?","mode":"url"}`, "-32602"},
	})
}

// Proves ELIC-04, ELIC-06, ELIC-08, ELIC-12, ELIC-14, ELIC-17.
func TestFillResultsAreCompletedAndChecked(t *testing.T) {
	var answer func(f *client.FormRequest) (*mcp.ElicitResult, error)
	_, s := connect(t, &client.Options{Input: client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
		if f.Server.Name != "scripted" || f.Message != "Which?" || f.Fields[0].Name != "colour" {
			t.Errorf("Fill received %v", f)
		}
		return answer(f)
	}}}, nil)
	accept := func(v any) func(*client.FormRequest) (*mcp.ElicitResult, error) {
		return func(*client.FormRequest) (*mcp.ElicitResult, error) {
			return client.Accept(map[string]any{"colour": v})
		}
	}
	answer = accept("red")
	filled := `{"action":"accept","content":{"colour":"red","fast":true,"note":"none","shade":"d","size":3,"tags":["x"]}}`
	send(t, s, []exchange{
		{"elicitation/create", colours, filled},
		{"elicitation/create", `{"mode":"form",` + colours[1:], filled},
		{"elicitation/create", `{"mode":"url","message":"m","url":"https://x.example","elicitationId":"1"}`, "-32602"},
		{"elicitation/create", `{"mode":"foo","message":"m"}`, "-32602"},
	})
	answer = accept("green")
	send(t, s, []exchange{{"elicitation/create", colours, "-32603"}})
	answer = accept(1)
	send(t, s, []exchange{{"elicitation/create", colours, "-32603"}})
	answer = func(*client.FormRequest) (*mcp.ElicitResult, error) { return client.Accept(nil) }
	send(t, s, []exchange{{"elicitation/create", colours, "-32603"}})
	answer = func(*client.FormRequest) (*mcp.ElicitResult, error) { return client.Decline(), nil }
	send(t, s, []exchange{{"elicitation/create", colours, `{"action":"decline"}`}})
	answer = func(f *client.FormRequest) (*mcp.ElicitResult, error) {
		c := client.Cancel()
		c.Content = map[string]form.Value{"colour": f.Fields[1].Default}
		return c, nil
	}
	send(t, s, []exchange{{"elicitation/create", colours, `{"action":"cancel"}`}})
	answer = func(*client.FormRequest) (*mcp.ElicitResult, error) { return nil, nil }
	send(t, s, []exchange{{"elicitation/create", colours, "-32603"}})
}

// Proves ELIC-08, ELIC-10, ELIC-12, ELIC-14, ELIC-15.
func TestURLCompletionIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := recorder{events: make(chan string, 10)}
		requests := make(chan *client.URLRequest, 1)
		c, s := connect(t, &client.Options{Notifications: n, Input: client.Input{OpenURL: func(_ context.Context, u *client.URLRequest) (mcp.ElicitAction, error) {
			requests <- u
			return mcp.ElicitActionAccept, nil
		}}}, nil)
		complete := func(id string) {
			t.Helper()
			params := &mcp.ElicitationCompleteNotificationParams{ElicitationID: id}
			if err := s.Notify(t.Context(), "notifications/elicitation/complete", params); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		complete("e1") // ignored: the id is not known yet
		send(t, s, []exchange{
			{"elicitation/create", `{"mode":"url","message":"Sign in","url":"https://x.example:8/in?a=b","elicitationId":"e1"}`, `{"action":"accept"}`},
			{"elicitation/create", `{"mode":"url","message":"Sign in","url":"in","elicitationId":"e2"}`, "-32602"},
			{"elicitation/create", colours, "-32602"},
		})
		u := <-requests
		if u.Server.Name != "scripted" || u.Host != "x.example:8" || u.URL != "https://x.example:8/in?a=b" || u.Message != "Sign in" {
			t.Errorf("OpenURL received %+v", u)
		}
		select {
		case <-u.Done:
			t.Error("Done was closed too early")
		default:
		}
		complete("e1")
		complete("e1")
		complete("other")
		<-u.Done
		for _, test := range []struct {
			id   string
			done <-chan struct{}
		}{{"e1", u.Done}, {"other", nil}} { // the latter was never sent
			list, ok := c.URLsRequired(&jsonrpc.Error{Code: -32042, Data: []byte(`{"elicitations":[{"mode":"url","message":"m","url":"https://x.example/","elicitationId":"` + test.id + `"}]}`)})
			if !ok || list[0].Done != test.done {
				t.Errorf("%s: got %v, %v", test.id, list, ok)
			}
		}
		if got := <-n.events; got != "complete e1" || len(n.events) > 0 {
			t.Errorf("the host received %q and %d more", got, len(n.events))
		}
	})
}

// Proves ELIC-10.
func TestURLsRequiredByRequest(t *testing.T) {
	c, s := connect(t, &client.Options{Input: client.Input{OpenURL: func(context.Context, *client.URLRequest) (mcp.ElicitAction, error) {
		return mcp.ElicitActionAccept, nil
	}}}, nil)
	refuse := &jsonrpc.Error{Code: -32042, Message: "sign in first",
		Data: []byte(`{"elicitations":[{"mode":"url","message":"Sign in","url":"https://x.example/","elicitationId":"e7"}]}`)}
	s.answers = map[string]func(string) (string, error){"tools/call": func(string) (string, error) { return "", refuse }}
	_, err := c.CallTool(t.Context(), "x", nil)
	list, ok := c.URLsRequired(err)
	if !ok || len(list) != 1 || list[0].URL != "https://x.example/" || list[0].Host != "x.example" || list[0].Server.Name != "scripted" || list[0].Done == nil {
		t.Fatalf("got %v, %v", list, err)
	}
	if err := s.Notify(t.Context(), "notifications/elicitation/complete", &mcp.ElicitationCompleteNotificationParams{ElicitationID: "e7"}); err != nil {
		t.Fatal(err)
	}
	<-list[0].Done
	if _, ok := c.URLsRequired(errors.New("other")); ok {
		t.Error("URLsRequired accepted an unrelated error")
	}
}

const hi = `{"role":"user","content":{"type":"text","text":"hi"}}`

// use returns a message with tool uses.
func use(ids ...string) string {
	var list []string
	for _, id := range ids {
		list = append(list, `{"type":"tool_use","id":"`+id+`","name":"t","input":{}}`)
	}
	return `{"role":"assistant","content":[` + strings.Join(list, ",") + `]}`
}

func results(role string, ids ...string) string {
	var list []string
	for _, id := range ids {
		if id == "text" {
			list = append(list, `{"type":"text","text":"x"}`)
			continue
		}
		list = append(list, `{"type":"tool_result","toolUseId":"`+id+`","content":[]}`)
	}
	return `{"role":"` + role + `","content":[` + strings.Join(list, ",") + `]}`
}

func sampling(rest string, messages ...string) string {
	return `{"maxTokens":9,"messages":[` + strings.Join(messages, ",") + `]` + rest + `}`
}

// Proves SAMP-02, SAMP-07, SAMP-08, SAMP-10.
func TestSamplingIsValidated(t *testing.T) {
	text := `{"content":{"type":"text","text":"yes"},"model":"m","role":"assistant"}`
	list := `{"content":[{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"audio","data":"AA==","mimeType":"audio/wav"}],"model":"m","role":"assistant","stopReason":"endTurn"}`
	uses := `{"content":{"type":"tool_use","id":"u","input":{},"name":"t"},"model":"m","role":"assistant","stopReason":"toolUse"}`
	var answer string
	var failed error
	var choice mcp.ToolChoiceMode
	_, s := connect(t, &client.Options{Input: client.Input{
		SampleTools: true,
		Sample: func(_ context.Context, r *client.SampleRequest) (*mcp.CreateMessageResult, error) {
			if r.Server.Name != "scripted" || r.MaxTokens != 9 {
				t.Errorf("Sample received %v", r)
			}
			choice = r.Choice
			result := new(mcp.CreateMessageResult)
			if err := codec.Unmarshal([]byte(answer), result); err != nil {
				t.Error(err)
			}
			return result, failed
		},
	}}, nil)
	const method = "sampling/createMessage"
	for _, answer = range []string{text, list} {
		send(t, s, []exchange{{method, sampling("", hi), answer}})
		if choice != mcp.ToolChoiceModeAuto {
			t.Errorf("the choice is %s", choice)
		}
	}
	answer = text
	send(t, s, []exchange{
		{method, sampling("", hi, use("a", "b"), results("user", "b", "a"), hi), text},
		{method, sampling("", hi, use("a", "b"), results("user", "a")), "-32602"},
		{method, sampling("", hi, use("a"), hi), "-32602"},
		{method, sampling("", hi, use("a")), "-32602"},
		{method, sampling("", hi, use("a"), results("user", "a", "text")), "-32602"},
		{method, sampling("", hi, use("a"), results("assistant", "a")), "-32602"},
		{method, sampling("", hi, results("user", "a")), "-32602"},
		{method, sampling("", hi, use("a"), results("user", "a", "a")), "-32602"},
		{method, sampling(`,"toolChoice":{"mode":"none"}`, hi), text},
		{method, sampling(`,"toolChoice":{"mode":"required"}`, hi), "-32603"},
	})
	if choice != mcp.ToolChoiceModeRequired {
		t.Errorf("the choice is %s", choice)
	}
	answer = uses
	send(t, s, []exchange{
		{method, sampling(`,"toolChoice":{"mode":"none"}`, hi), "-32603"},
		{method, sampling(`,"toolChoice":{"mode":"required"}`, hi), uses},
		{method, sampling(`,"toolChoice":{}`, hi), uses},
	})
	answer = `{"content":{"type":"text","text":"yes"},"model":"m","role":"robot"}`
	send(t, s, []exchange{
		{method, sampling("", hi), "-32603"},
		{method, `{"messages":[]}`, "-32602"},
		{method, `{"maxTokens":9}`, "-32602"},
	})
	failed = fmt.Errorf("in the office: %w", client.ErrRefused)
	send(t, s, []exchange{{method, sampling("", hi), "-1"}})
}

// Proves SAMP-03, ROOT-03.
func TestUndeclaredRequestsAreRejected(t *testing.T) {
	_, s := connect(t, &client.Options{Input: client.Input{Sample: func(context.Context, *client.SampleRequest) (*mcp.CreateMessageResult, error) {
		t.Error("Sample was called")
		return nil, nil
	}}}, nil)
	send(t, s, []exchange{
		{"sampling/createMessage", sampling(`,"tools":[]`, hi), "-32602"},
		{"sampling/createMessage", sampling(`,"toolChoice":{"mode":"auto"}`, hi), "-32602"},
	})
	if _, err := s.Call(t.Context(), "roots/list", nil); err == nil {
		t.Error("roots were listed")
	}
	// Capabilities that the host declares without a handler: the method does not exist.
	pretend := &client.Options{Features: client.Features{Capabilities: mcp.ClientCapabilities{
		Roots: new(mcp.ClientCapabilitiesRoots), Sampling: new(mcp.ClientCapabilitiesSampling),
	}}}
	_, s = connect(t, pretend, nil)
	send(t, s, []exchange{{"roots/list", `{}`, "-32601"}, {"sampling/createMessage", sampling("", hi), "-32601"}})
}

// Proves SAMP-10, ELIC-14.
func TestInputRequestsAreRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count atomic.Int32
		_, s := connect(t, &client.Options{Limits: client.Limits{InputRequests: 3}, Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
			count.Add(1)
			return client.Decline(), nil
		}}}, nil)
		refused := fmt.Sprint(session.CodeOverloaded)
		no := `{"action":"decline"}`
		q := func(want string) exchange { return exchange{"elicitation/create", colours, want} }
		send(t, s, []exchange{q(no), q(no), q(no), q(refused), q(refused)})
		time.Sleep(20 * time.Second)
		send(t, s, []exchange{q(no), q(refused)})
		if count.Load() != 4 {
			t.Errorf("Fill was called %d times, want 4", count.Load())
		}
	})
	_, s := connect(t, &client.Options{Limits: client.Limits{InputRequests: -1}, Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
		return client.Decline(), nil
	}}}, nil)
	for range 2 * client.DefaultInputRequests {
		send(t, s, []exchange{{"elicitation/create", colours, `{"action":"decline"}`}})
	}
}

// Proves SAMP-09.
func TestPickModelByHints(t *testing.T) {
	models := []string{"large-3", "small-3", "Large-2", "tiny"}
	for _, test := range []struct {
		hints string
		want  string
	}{
		{"large", "large-3"}, {"LARGE-2", "Large-2"}, {"none,small", "small-3"}, {"tiny,large", "tiny"}, {"none", ""}, {"", ""},
	} {
		p := new(mcp.ModelPreferences)
		for name := range strings.SplitSeq(test.hints, ",") {
			p.Hints = append(p.Hints, mcp.ModelHint{Name: &name}, mcp.ModelHint{})
		}
		got, ok := client.PickModel(p, models)
		if got != test.want || ok != (got != "") {
			t.Errorf("%q: got %q, %v", test.hints, got, ok)
		}
	}
	if _, ok := client.PickModel(nil, models); ok {
		t.Error("a model is picked without preferences")
	}
}

// Proves ROOT-01, ROOT-02, ROOT-05.
func TestRootsAreListedAndChangesAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		home, srv := mcp.Root{URI: "file:///home/ann", Name: new("home")}, mcp.Root{URI: "file:///srv", Name: new("s")}
		roots := rootsOf(t, home)
		all := func(context.Context, mcp.Root) error { return nil } // the folders do not exist
		c, one := connect(t, &client.Options{Input: client.Input{Roots: roots, CheckRoot: all}}, nil)
		_, two := connect(t, &client.Options{Input: client.Input{Roots: roots, CheckRoot: all}}, nil)
		send(t, two, []exchange{{"roots/list", `{}`, `{"roots":[{"name":"home","uri":"file:///home/ann"}]}`}})
		step := func(err error, want string) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
			synctest.Wait()
			two.took("notifications/roots/list_changed ")
			send(t, two, []exchange{{"roots/list", `{}`, want}})
		}
		step(roots.Set(t.Context(), home, mcp.Root{URI: "file:///srv"}), `{"roots":[{"name":"home","uri":"file:///home/ann"},{"uri":"file:///srv"}]}`)
		one.took("notifications/roots/list_changed ")
		c.Close()
		step(roots.Set(t.Context(), home, srv), `{"roots":[{"name":"home","uri":"file:///home/ann"},{"name":"s","uri":"file:///srv"}]}`)
		step(roots.Set(t.Context(), srv), `{"roots":[{"name":"s","uri":"file:///srv"}]}`)
		step(roots.Set(t.Context()), `{"roots":[]}`)
	})
}

// rootsOf returns a set of roots.
func rootsOf(t *testing.T, list ...mcp.Root) *client.Roots {
	t.Helper()
	roots := new(client.Roots)
	if err := roots.Set(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	return roots
}

// Only roots that exist and that CheckRoot admits are listed.
//
// Proves ROOT-05, ROOT-06.
func TestRootsAreCheckedForEachRequest(t *testing.T) {
	folder := t.TempDir()
	at := func(name string) string {
		path := filepath.ToSlash(filepath.Join(folder, name))
		return (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(path, "/")}).String()
	}
	if err := os.Mkdir(filepath.Join(folder, "in use"), 0o700); err != nil {
		t.Fatal(err)
	}
	roots := rootsOf(t, mcp.Root{URI: at("in use")}, mcp.Root{URI: at("missing")}, mcp.Root{URI: at("secret")})
	_, s := connect(t, &client.Options{Input: client.Input{Roots: roots}}, nil)
	send(t, s, []exchange{{"roots/list", `{}`, `{"roots":[{"uri":"` + at("in use") + `"}]}`}})
	if err := os.Remove(filepath.Join(folder, "in use")); err != nil {
		t.Fatal(err)
	}
	send(t, s, []exchange{{"roots/list", `{}`, `{"roots":[]}`}})
	_, s = connect(t, &client.Options{Input: client.Input{
		Roots: roots,
		CheckRoot: func(_ context.Context, r mcp.Root) error {
			if r.URI == at("secret") {
				return errors.New("not for servers")
			}
			return nil
		},
	}}, nil)
	send(t, s, []exchange{{"roots/list", `{}`, `{"roots":[{"uri":"` + at("in use") + `"},{"uri":"` + at("missing") + `"}]}`}})
}

// The server may list the roots during the handshake, so changes since then are announced.
//
// Proves ROOT-02.
func TestRootsChangedDuringHandshakeAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roots := new(client.Roots)
		announced := make(chan string, 1)
		a, b := inmemory.Pair(inmemory.Options{})
		server := session.Serve(b, &mcp.InitializeResult{ServerInfo: mcp.Implementation{Name: "s", Version: "1"}}, &session.Options{
			Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
				if req.Method == "notifications/roots/list_changed" {
					announced <- req.Method
				}
				return nil, nil
			},
		})
		defer server.Close()
		late := &delayed{Conn: a, release: func() {
			if err := roots.Set(t.Context(), mcp.Root{URI: "file:///new"}); err != nil {
				t.Error(err)
			}
		}}
		c, err := client.Connect(t.Context(), late, &client.Options{Input: client.Input{Roots: roots}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		<-announced
	})
}

// stuck writes no notifications about roots before the context of Write ends.
type stuck struct{ transport.Conn }

func (c stuck) Write(ctx context.Context, m transport.Message) error {
	if strings.Contains(string(m.Text), "notifications/roots/list_changed") {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return c.Conn.Write(ctx, m)
}

// Servers are notified while one of them does not respond.
func TestRootsChangePassesStuckServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roots := new(client.Roots)
		announced := make(chan int, 2)
		for i := range 2 {
			near, far := inmemory.Pair(inmemory.Options{})
			server := session.Serve(far, &mcp.InitializeResult{ServerInfo: mcp.Implementation{Name: "s", Version: "1"}}, &session.Options{
				Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
					if req.Method == mcp.MethodNotificationsRootsListChanged {
						announced <- i
					}
					return nil, nil
				},
			})
			defer server.Close()
			var conn transport.Conn = near
			if i == 0 {
				conn = stuck{near}
			}
			c, err := client.Connect(t.Context(), conn, &client.Options{Input: client.Input{Roots: roots}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		set := make(chan error, 1)
		go func() { set <- roots.Set(ctx, mcp.Root{URI: "file:///new"}) }()
		if i := <-announced; i != 1 || time.Since(began) > 0 {
			t.Errorf("server %d was notified after %v", i, time.Since(began))
		}
		if err := <-set; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Set: %v", err)
		}
	})
}

// delayed calls release before it writes the second message, notifications/initialized.
type delayed struct {
	transport.Conn
	release func()
	n       atomic.Int32
}

func (d *delayed) Write(ctx context.Context, m transport.Message) error {
	if d.n.Add(1) == 2 {
		d.release()
	}
	return d.Conn.Write(ctx, m)
}

// Proves ELIC-15, ELIC-21.
func TestUnsafeURLsAreRejected(t *testing.T) {
	var shown []*client.URLRequest
	c, s := connect(t, &client.Options{Input: client.Input{OpenURL: func(_ context.Context, u *client.URLRequest) (mcp.ElicitAction, error) {
		shown = append(shown, u)
		return mcp.ElicitActionDecline, nil
	}}}, nil)
	for _, test := range []struct {
		url               string
		ok, international bool
	}{
		{"https://x.example/a?b#c", true, false},
		{"HTTPS://X.EXAMPLE:8443/", true, false},
		{"http://localhost:8080/in", true, false},
		{"http://LOCALHOST/", true, false},
		{"http://127.0.0.1/", true, false},
		{"http://127.8.9.1/", true, false},
		{"http://[::1]:80/", true, false},
		{"https://xn--pple-43d.com/", true, true},
		{"https://login.XN--pple-43d.com/", true, true},
		{"https://аpple.com/", true, true},
		{"http://x.example/", false, false},
		{"http://127.0.0.1.evil.example/", false, false},
		{"http://localhost.evil.example/", false, false},
		{"http://0x7f.1/", false, false},
		{"https://good.example@evil.example/", false, false},
		{"https://user:secret@x.example/", false, false},
		{"https://@x.example/", false, false},
		{"https:///path", false, false},
		{"https:x.example", false, false},
		{"javascript:alert(1)", false, false},
		{"file:///etc/passwd", false, false},
		{"data:text/html,x", false, false},
		{"vscode://x/y", false, false},
		{"//x.example/", false, false},
		{"https://x.example\\n/", false, false},
	} {
		want := "-32602"
		if test.ok {
			want = `{"action":"decline"}`
		}
		shown = nil
		send(t, s, []exchange{{"elicitation/create", `{"mode":"url","message":"m","elicitationId":"1","url":"` + test.url + `"}`, want}})
		if len(shown) > 0 != test.ok || test.ok && shown[0].International != test.international {
			t.Errorf("%s: OpenURL received %+v", test.url, shown)
		}
		_, required := c.URLsRequired(&jsonrpc.Error{Code: -32042, Message: "first",
			Data: []byte(`{"elicitations":[{"mode":"url","message":"m","url":"` + test.url + `","elicitationId":"1"}]}`)})
		if required != test.ok {
			t.Errorf("%s: URLsRequired returned %v", test.url, required)
		}
	}
}

// Proves ELIC-15, M-ELIC-04.
func TestClientDoesNotFetchURLs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var visits atomic.Int32
	done := make(chan struct{})
	go func() { // ends when the listener is closed
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			visits.Add(1)
			conn.Close()
		}
	}()
	for _, action := range []mcp.ElicitAction{"accept", "decline", "cancel"} {
		c, s := connect(t, &client.Options{Input: client.Input{OpenURL: func(context.Context, *client.URLRequest) (mcp.ElicitAction, error) {
			if visits.Load() != 0 {
				t.Error("the URL was fetched before the user was asked")
			}
			return action, nil
		}}}, nil)
		for _, scheme := range []string{"http", "https"} {
			send(t, s, []exchange{{"elicitation/create", `{"mode":"url","message":"m","elicitationId":"1","url":"` + scheme + `://` + listener.Addr().String() + `/"}`,
				`{"action":"` + string(action) + `"}`}})
		}
		c.Close() // waits for all handlers
	}
	listener.Close()
	<-done
	if n := visits.Load(); n != 0 {
		t.Errorf("the URL was fetched %d times", n)
	}
}

// The user can continue by hand: the client does not wait for the server to report completion.
//
// Proves ELIC-14.
func TestOpenURLMayReturnBeforeCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signedIn := false
		_, s := connect(t, &client.Options{Input: client.Input{OpenURL: func(_ context.Context, u *client.URLRequest) (mcp.ElicitAction, error) {
			select {
			case <-u.Done:
				t.Error("Done was closed without a report of the server")
			case <-time.After(time.Minute): // the user stops waiting
			}
			signedIn = true
			return mcp.ElicitActionAccept, nil
		}}}, nil)
		s.answers = map[string]func(string) (string, error){}
		send(t, s, []exchange{
			{"elicitation/create", `{"mode":"url","message":"m","elicitationId":"1","url":"https://x.example/"}`, `{"action":"accept"}`},
			{"elicitation/create", `{"mode":"url","message":"m","elicitationId":"1","url":"https://x.example/"}`, `{"action":"accept"}`},
		})
		if !signedIn {
			t.Error("OpenURL was not called")
		}
	})
}

// Invalid results of the host's handlers are reported as internal errors and not sent.
func TestHandlerResultsAreChecked(t *testing.T) {
	const visit = `{"mode":"url","message":"m","elicitationId":"1","url":"https://x.example/"}`
	for _, action := range []mcp.ElicitAction{"", "ok", "Accept"} {
		_, s := connect(t, &client.Options{
			Input: client.Input{
				Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: action}, nil
				},
				OpenURL: func(context.Context, *client.URLRequest) (mcp.ElicitAction, error) { return action, nil },
			},
		}, nil)
		send(t, s, []exchange{{"elicitation/create", colours, "-32603"}, {"elicitation/create", visit, "-32603"}})
	}
	_, s := connect(t, &client.Options{Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitActionAccept, Content: map[string]form.Value{"note": (*mcp.ElicitResultContentValueScalar)(nil)}}, nil
	}}}, nil)
	send(t, s, []exchange{{"elicitation/create", colours, "-32603"}})
	_, s = connect(t, &client.Options{Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
		return client.Accept(map[string]any{"colour": "red", "note": nil, "tags": nil})
	}}}, nil)
	send(t, s, []exchange{{"elicitation/create", colours, `{"action":"accept","content":{"colour":"red","fast":true,"shade":"d","size":3}}`}})
}

// Proves SAMP-10.
func TestToolRoundsAreLimited(t *testing.T) {
	conversation := func(rounds int) string {
		messages := []string{hi}
		for range rounds {
			messages = append(messages, use("a"), results("user", "a"))
		}
		return sampling("", messages...)
	}
	const yes = `{"content":{"type":"text","text":"yes"},"model":"m","role":"assistant"}`
	sample := func(context.Context, *client.SampleRequest) (*mcp.CreateMessageResult, error) {
		result := new(mcp.CreateMessageResult)
		return result, codec.Unmarshal([]byte(yes), result)
	}
	refused := fmt.Sprint(session.CodeOverloaded)
	for limit, last := range map[int]int{0: client.DefaultToolRounds, 2: 2} {
		_, s := connect(t, &client.Options{Input: client.Input{SampleTools: true, Sample: sample}, Limits: client.Limits{ToolRounds: limit}}, nil)
		send(t, s, []exchange{{"sampling/createMessage", conversation(last - 1), yes}, {"sampling/createMessage", conversation(last), refused}})
	}
	_, s := connect(t, &client.Options{Input: client.Input{SampleTools: true, Sample: sample}, Limits: client.Limits{ToolRounds: -1}}, nil)
	send(t, s, []exchange{{"sampling/createMessage", conversation(2 * client.DefaultToolRounds), yes}})
}

// Proves ROOT-01, ROOT-05, M-ROOT-01.
func TestInvalidRootsAreRejected(t *testing.T) {
	for _, uri := range []string{
		"https://x.example/", "/home", "file://relative", "file:relative", "file:///a/../b", "file:///a/%2e%2e/b", "file:///a%2f..%2fb", `file:///a\..\b`, "%",
	} {
		if err := new(client.Roots).Set(t.Context(), mcp.Root{URI: uri}); err == nil {
			t.Errorf("Set accepted %s", uri)
		}
	}
	if err := new(client.Roots).Set(t.Context(), mcp.Root{URI: "file:///a/..b/c%20d"}, mcp.Root{URI: "file://host/x"}); err != nil {
		t.Error(err)
	}
}
