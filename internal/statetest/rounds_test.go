package statetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// roundServer returns the handler of a server without sessions. It counts the steps that run.
func roundServer(t *testing.T, ran map[string]int) (*server.Server, http.Handler) {
	t.Helper()
	key := []byte(strings.Repeat("k", 32))
	s := newServer(t, server.Options{Shared: server.Shared{StateKeys: [][]byte{key}, CursorKey: key}, Features: server.Features{PageSize: 1}})
	server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, in map[string]any) (string, error) {
		number, err := server.Step(ctx, c, odd, func(context.Context) (any, error) {
			ran["number"]++
			return map[string]any{odd: json.Number("123456789012345678901234567890")}, nil
		})
		if err != nil {
			return "", err
		}
		_, failed := server.Step(ctx, c, "fails", func(context.Context) (int, error) {
			ran["fails"]++
			return 0, fmt.Errorf("%s: %w", odd, &jsonrpc.Error{Code: 7, Message: odd, Data: json.RawMessage(`{"n":1e999,"s":"\u2028"}`)})
		})
		if _, recorded := errors.AsType[*server.StepError](failed); !recorded {
			return "", failed
		}
		first := form{Name: odd}
		if _, err := server.Elicit(ctx, c, "First "+odd, &first); err != nil {
			return "", err
		}
		second, err := c.ElicitForm(ctx, rawForm())
		if err != nil {
			return "", err
		}
		visited, err := c.ElicitURL(ctx, "Third", "https://example.com/{id}", "")
		if err != nil {
			return "", err
		}
		_, err = server.Step(ctx, c, "after", func(context.Context) (int, error) { ran["after"]++; return 1, nil })
		return fmt.Sprintf("%v|%v|%v|%+q|%s|%s", in, number, failed, first.Name, second.Action, visited), err
	})
	server.AddTool(s, "other", "", func(context.Context, *server.Call, struct{}) (string, error) { return "", nil })
	server.AddTemplate(s, "x://{n}", "x", func(context.Context, *server.Call, server.Resource) (string, error) { return "", nil },
		server.ListFunc(func(_ context.Context, _ *server.Call, cursor string) ([]mcp.Resource, string, error) {
			if cursor == "" {
				return []mcp.Resource{{Name: "1", URI: "x://1"}}, odd, nil
			}
			return []mcp.Resource{{Name: cursor, URI: "x://2"}}, "", nil
		}))
	return s, must(s.Handler(&streamable.HandlerOptions{Access: streamable.Access{Principal: principal}}))
}

// callModern returns the result of a request without a session. params lacks the closing brace.
func callModern(t *testing.T, h http.Handler, method, name, params string) map[string]json.RawMessage {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{},"url":{}}}}}}`, method, params)
	fields := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		fields = append(fields, "Mcp-Name", name)
	}
	var result map[string]json.RawMessage
	noError(t, json.Unmarshal(resultOf(t, serve(h, request(t, "POST", body, fields...))), &result))
	return result
}

// callParams are the params of the call, written in two ways.
var callParams = [2]string{
	`{"name":"ask","arguments":{"b":"<&>\u2028\ufffd","a":12345678901234567890.5e0}`,
	`{"arguments":{"a":12345678901234567890.5e0,"\u0062":"\u003c\u0026\u003e` + "\u2028\ufffd" + `"},"name":"ask"`,
}

// nextRound sends the call with the answers to the input requests of a result, and its state.
func nextRound(t *testing.T, h http.Handler, params string, last map[string]json.RawMessage) map[string]json.RawMessage {
	t.Helper()
	var open map[string]struct {
		Params struct{ Mode, Message string }
	}
	if err := json.Unmarshal(last["inputRequests"], &open); err != nil {
		t.Fatalf("%v: no input requests in %s", err, last)
	}
	answers := map[string]json.RawMessage{}
	for name, q := range open {
		answers[name] = json.RawMessage(`{"action":"accept"}`)
		if q.Params.Mode != "url" {
			answers[name] = json.RawMessage(`{"action":"accept","content":{"name":"<&>\u2028\ufffd","a":"\u2029","b":true}}`)
		}
	}
	params += `,"requestState":` + string(last["requestState"]) + `,"inputResponses":` + string(must(json.Marshal(answers)))
	return callModern(t, h, "tools/call", "ask", params)
}

// roundFacts are the results of the rounds of a call, and the next cursors of two lists.
type roundFacts struct {
	Rounds           []map[string]json.RawMessage
	Elicitation      string // id in the third round
	Tools, Resources json.RawMessage
}

func writeRounds(t *testing.T, dir string) {
	_, h := roundServer(t, map[string]int{})
	facts := roundFacts{Rounds: []map[string]json.RawMessage{callModern(t, h, "tools/call", "ask", callParams[0])}}
	for range 3 {
		facts.Rounds = append(facts.Rounds, nextRound(t, h, callParams[0], facts.Rounds[len(facts.Rounds)-1]))
	}
	_, after, _ := strings.Cut(string(facts.Rounds[2]["inputRequests"]), `"https://example.com/`)
	facts.Elicitation, _, _ = strings.Cut(after, `"`)
	facts.Tools = callModern(t, h, "tools/list", "", `{"_":0`)["nextCursor"]
	facts.Resources = callModern(t, h, "resources/list", "", `{"_":0`)["nextCursor"]
	saveFacts(t, dir, "rounds.json", facts)
}

func readRounds(t *testing.T, dir string) {
	facts := loadFacts[roundFacts](t, dir, "rounds.json")
	ran := map[string]int{}
	s, h := roundServer(t, ran)
	want := string(facts.Rounds[3]["content"])
	for i := range 3 {
		for _, params := range callParams {
			got := facts.Rounds[i]
			for range 3 - i {
				got = nextRound(t, h, params, got)
			}
			var x, y any
			noError(t, json.Unmarshal([]byte(want), &x))
			noError(t, json.Unmarshal(got["content"], &y))
			equal(t, fmt.Sprintf("content after round %d", i+1), x, y)
		}
	}
	equal(t, "steps that run", map[string]int{"after": 6}, ran)
	owner, ok := s.ElicitationPrincipal(facts.Elicitation)
	if owner != "ann" || !ok {
		t.Errorf("principal of the elicitation: %q, %t", owner, ok)
	}
	for _, list := range []struct{ method, member, want string }{{"tools/list", "tools", `"name":"other"`}, {"resources/list", "resources", `"uri":"x://2"`}} {
		cursor := facts.Tools
		if list.member == "resources" {
			cursor = facts.Resources
		}
		page := callModern(t, h, list.method, "", `{"cursor":`+string(cursor))
		if !strings.Contains(string(page[list.member]), list.want) {
			t.Errorf("second page of %s: %s, want %s", list.method, page, list.want)
		}
	}
}
