package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// newAsking returns a server whose tool "ask" asks for a name and a color, one after the other, and
// whose tool "add" adds a tool.
func newAsking(cfg *server.Options) *server.Server {
	s := server.New("asking", "1", cfg)
	server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		var name struct {
			Name string `json:"name"`
		}
		if _, err := server.Elicit(ctx, c, "Name?", &name); err != nil {
			return "", err
		}
		var color struct {
			Color string `json:"color"`
		}
		_, err := server.Elicit(ctx, c, "Color?", &color)
		return name.Name + " likes " + color.Color, err
	})
	server.AddTool(s, "add", "", func(_ context.Context, _ *server.Call, in struct {
		Tool string `json:"tool"`
	}) (string, error) {
		err := server.AddTool(s, in.Tool, "", func(context.Context, *server.Call, struct{}) (string, error) { return "", nil }).Err()
		return "", err
	})
	return s
}

// fill fills in a form with one text.
func fill(f *client.FormRequest, text string) (*mcp.ElicitResult, error) {
	return client.Accept(map[string]any{f.Fields[0].Name: text})
}

// traffic is middleware that counts requests by whether they belong to a session, and the media
// types of the answers to tools/call.
type traffic struct {
	http.Handler
	mu   sync.Mutex
	seen map[string]int
}

func (x *traffic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	method, _ := codec.Member(body, "method")
	x.Handler.ServeHTTP(w, r)
	kind := "modern"
	if r.Header.Get("Mcp-Session-Id") != "" || w.Header().Get("Mcp-Session-Id") != "" {
		kind = "session"
	}
	if string(method) == `"tools/call"` {
		kind += " " + w.Header().Get("Content-Type")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.seen == nil {
		x.seen = map[string]int{}
	}
	x.seen[kind]++
}

// rawEvents sends a modern request over HTTP and returns the messages of the answer.
func rawEvents(t *testing.T, at *http.Client, header map[string]string, params string) (messages chan string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, header["Mcp-Method"], strings.Replace(params, "{", `{"_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}},`, 1))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := at.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	messages = make(chan string, 10)
	go func() { // ends with the answer
		defer close(messages)
		defer answer.Body.Close()
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			if text := strings.TrimPrefix(lines.Text(), "data: "); strings.HasPrefix(text, "{") {
				messages <- text
			}
		}
	}()
	return messages, cancel
}

// One server serves a session that is asked over its event stream, a modern client that is asked in
// rounds, and a modern client that listens, at one endpoint and at the same time. While the users
// of the first two are thinking, each of the clients changes the list of tools, and all of them see
// it.
func TestSessionsAndModernClientsAtOneEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := new(network)
		seen := new(traffic)
		stop := listen(at, func(s *server.Server) (http.Handler, func()) {
			h := must.Get(s.Handler(nil))
			seen.Handler = h
			return seen, func() { h.Close() }
		}, newAsking(nil))
		defer stop()

		type user struct {
			name    string
			client  *client.Client
			changes changeLog
			asked   chan string // messages of forms
			answer  chan string
		}
		var users []*user
		for _, x := range []struct {
			name      string
			revisions []mcp.Revision
		}{{"session", session.Revisions()}, {"rounds", session.ModernRevisions()}, {"listener", session.ModernRevisions()}} {
			u := &user{name: x.name, asked: make(chan string), answer: make(chan string)}
			o := at.options()
			o.Session.Revisions = x.revisions
			o.Notifications = &u.changes
			o.Input.Fill = func(ctx context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
				u.asked <- f.Message
				return fill(f, <-u.answer)
			}
			var err error
			if u.client, err = client.Dial(t.Context(), "http://localhost/", &o); err != nil {
				t.Fatal(err)
			}
			defer u.client.Close()
			if modern := u.client.Session().Traits().Sessionless; modern != (x.name != "session") {
				t.Errorf("%s: modern %v", x.name, modern)
			}
			users = append(users, u)
		}
		raw := at.options().HTTP.HTTP
		defer raw.CloseIdleConnections()
		heard, hangUp := rawEvents(t, raw, map[string]string{"Mcp-Method": "subscriptions/listen"}, `{"notifications":{"toolsListChanged":true}}`)
		defer hangUp()
		if first := <-heard; !strings.Contains(first, "notifications/subscriptions/acknowledged") {
			t.Errorf("first message %s", first)
		}
		synctest.Wait() // the subscriptions and the event stream of the session are open

		added := 0
		change := func(by *user) {
			t.Helper()
			added++
			name := fmt.Sprint("tool", added)
			if _, err := by.client.CallTool(t.Context(), "add", map[string]string{"tool": name}); err != nil {
				t.Fatal(err)
			}
			for _, u := range users {
				if got := u.changes.take(); !slices.Equal(got, []string{"tools"}) {
					t.Errorf("%s is notified of %q after a change by %s", u.name, got, by.name)
				}
				if list := names(t, u.client.Tools(t.Context()), toolName); !slices.Contains(list, name) {
					t.Errorf("%s sees %q after a change by %s", u.name, list, by.name)
				}
			}
			if text := <-heard; !strings.Contains(text, "notifications/tools/list_changed") {
				t.Errorf("a client over plain HTTP hears %s", text)
			}
		}
		results := make(chan string)
		asking := users[:2]
		for _, u := range asking {
			go func() { // ends with the call
				result, err := u.client.CallTool(t.Context(), "ask", nil)
				if err != nil {
					t.Error(err)
				}
				text, _ := client.Text(result)
				results <- u.name + ": " + text
			}()
		}
		for _, question := range []string{"Name?", "Color?"} {
			for _, u := range asking {
				if got := <-u.asked; got != question {
					t.Errorf("%s is asked %q", u.name, got)
				}
			}
			for _, u := range users {
				change(u)
			}
			for _, u := range asking {
				u.answer <- u.name + " " + question
			}
		}
		got := []string{<-results, <-results}
		slices.Sort(got)
		if want := []string{"rounds: rounds Name? likes rounds Color?", "session: session Name? likes session Color?"}; !slices.Equal(got, want) {
			t.Errorf("results %q", got)
		}

		header := map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "ask"}
		params := `{"name":"ask"}`
		for _, answer := range []string{`{"name":"Ada"}`, `{"color":"blue"}`} {
			messages, end := rawEvents(t, raw, header, params)
			result, _ := codec.Member([]byte(<-messages), "result")
			end()
			var round struct {
				InputRequests map[string]json.RawMessage
				RequestState  json.RawMessage
			}
			if err := json.Unmarshal(result, &round); err != nil || len(round.InputRequests) != 1 {
				t.Fatalf("result %s", result)
			}
			for name := range round.InputRequests {
				params = fmt.Sprintf(`{"name":"ask","requestState":%s,"inputResponses":{%q:{"action":"accept","content":%s}}}`, round.RequestState, name, answer)
			}
		}
		messages, end := rawEvents(t, raw, header, params)
		defer end()
		if last := <-messages; !strings.Contains(last, "Ada likes blue") {
			t.Errorf("a client over plain HTTP gets %s", last)
		}
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if seen.seen["session text/event-stream"] != 1 || seen.seen["modern text/event-stream"] != 0 {
			t.Errorf("answers by kind: %v", seen.seen)
		}
	})
}
