package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// CallTool fetches all parts if the tool announces partial results. Otherwise it returns the first
// part with its token.
//
// Proves RESUME-10.
func TestCallToolFetchesAllParts(t *testing.T) {
	const tools = `{"tools":[{"name":"read","inputSchema":{"type":"object"},"_meta":{"io.github.mcpwire/partialResults":true},` +
		`"outputSchema":{"type":"object","required":["end"]}},{"name":"plain","inputSchema":{"type":"object"}}]}`
	part := func(text, rest string) string {
		return `{"content":[{"type":"text","text":"` + text + `"}]` + rest + `}`
	}
	results := []string{part("one", `,"nextResumeToken":"t1"`), part("two", `,"nextResumeToken":"t2"`), part("three", `,"structuredContent":{"end":true}`)}
	n := 0
	c, s := connect(t, nil, map[string]func(string) (string, error){
		"tools/list": always(tools),
		"tools/call": func(string) (string, error) { n++; return results[(n-1)%len(results)], nil },
	})
	texts := func(r *mcp.CallToolResult) (list []string) {
		for _, block := range r.Content {
			list = append(list, block.(*mcp.TextContent).Text)
		}
		return list
	}
	names(t, c.Tools(t.Context()), toolName)
	s.took(`tools/list {}`)
	r, err := c.CallTool(t.Context(), "read", map[string]int{"page": 1})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, texts(r)); diff != "" || string(r.StructuredContent) != `{"end":true}` {
		t.Errorf("got %s (-want +got):\n%s", r.StructuredContent, diff)
	}
	s.took(`tools/call {"arguments":{"page":1},"name":"read"}`, `tools/call {"arguments":{"page":1},"name":"read","resumeToken":"t1"}`,
		`tools/call {"arguments":{"page":1},"name":"read","resumeToken":"t2"}`)
	r, err = c.CallTool(t.Context(), "plain", nil)
	if err != nil || !cmp.Equal([]string{"one"}, texts(r)) {
		t.Errorf("got %v, %v", r, err)
	}
	s.took(`tools/call {"name":"plain"}`)

	n, results = 0, []string{part("one", `,"nextResumeToken":"t1"`), part("again", `,"nextResumeToken":"t1"`)}
	if _, err := c.CallTool(t.Context(), "read", nil); err == nil || !strings.Contains(err.Error(), "more than") || n > 10_001 {
		t.Errorf("an endless result: %v after %d parts", err, n)
	}
}

// A list with endless cursors is an error, also for calls that look up a tool.
func TestEndlessListFails(t *testing.T) {
	for name, next := range map[string]func(n int) string{
		"the first page": func(int) string { return "" },
		"the same page":  func(int) string { return "a" },
		"a cycle":        func(n int) string { return fmt.Sprint(n % 7) },
		"ever new pages": func(n int) string { return fmt.Sprint(n) },
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			page := func(string) (string, error) {
				n++
				return `{"tools":[],"prompts":[],"nextCursor":"` + next(n) + `"}`, nil
			}
			c, _ := connect(t, nil, map[string]func(string) (string, error){"tools/list": page, "prompts/list": page})
			if _, err := c.Tool(t.Context(), "x"); err == nil || errors.Is(err, client.ErrUnknown) || n > 10_000 {
				t.Errorf("%v after %d pages", err, n)
			}
			n = 0
			var failed error
			for _, err := range c.Prompts(t.Context()) {
				failed = err
			}
			if failed == nil || n > 10_000 {
				t.Errorf("%v after %d pages", failed, n)
			}
		})
	}
}

// The output of a changed tool is validated with its new schema, even if the server did not
// announce the change.
func TestOutputIsValidatedWithCurrentSchema(t *testing.T) {
	schema := func(member string) string {
		return `{"tools":[{"name":"x","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["` + member + `"]}}]}`
	}
	list := schema("a")
	c, s := connect(t, nil, map[string]func(string) (string, error){
		"tools/list": func(string) (string, error) { return list, nil },
		"tools/call": always(`{"content":[],"structuredContent":{"b":1}}`),
	})
	names(t, c.Tools(t.Context()), toolName)
	list = schema("b")
	if _, err := c.CallTool(t.Context(), "x", nil); err != nil {
		t.Error(err)
	}
	s.took(`tools/list {}`, `tools/call {"name":"x"}`, `tools/list {}`)
	list = schema("c")
	if _, err := c.CallTool(t.Context(), "x", nil); err != nil {
		t.Errorf("output that complies with the cached schema: %v", err)
	}
	s.took(`tools/call {"name":"x"}`)
	s.answers["tools/call"] = always(`{"content":[],"structuredContent":{"d":1}}`)
	if _, err := c.CallTool(t.Context(), "x", nil); !errors.As(err, new(*client.OutputError)) {
		t.Errorf("got %v", err)
	}
	s.took(`tools/call {"name":"x"}`, `tools/list {}`)
}

// Proves COMPL-05.
func TestCompleteLimitsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := connect(t, nil, map[string]func(string) (string, error){"completion/complete": always(`{"completion":{"values":[]}}`)})
		start := time.Now()
		for range 110 {
			if _, err := c.Complete(t.Context(), &mcp.PromptReference{Name: "greet"}, "city", "O", nil); err != nil {
				t.Fatal(err)
			}
		}
		if elapsed := time.Since(start); elapsed != 10*time.Second {
			t.Errorf("110 requests took %v", elapsed)
		}
	})
}

func TestCallSurvivesPanicOfProgressCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := withTasks(t)
		for _, tool := range []string{"optional", "required"} {
			_, err := c.CallTool(t.Context(), tool, nil, client.OnProgress(func(session.Progress) { panic("broken") }))
			if err != nil {
				t.Errorf("%s: %v", tool, err)
			}
		}
	})
}

func TestNilAndZeroValuesDoNotPanic(t *testing.T) {
	if _, err := client.Output[int](nil); err == nil {
		t.Error("Output(nil) succeeded")
	}
	if new(client.ToolError).Error() == "" || client.Title[mcp.Tool](nil) != "" {
		t.Error("wrong result for a zero value")
	}
}

// Servers send output that is not an object in the member result of one.
func TestOutputDecodesWrappedValues(t *testing.T) {
	result := func(structured string) *mcp.CallToolResult {
		return &mcp.CallToolResult{StructuredContent: json.RawMessage(structured)}
	}
	if list, err := client.Output[[]int](result(`{"result":[1,2]}`)); err != nil || len(list) != 2 {
		t.Errorf("a list: got %v, %v", list, err)
	}
	if at, err := client.Output[time.Time](result(`{"result":"2026-01-02T03:04:05Z"}`)); err != nil || at.Year() != 2026 {
		t.Errorf("a time: got %v, %v", at, err)
	}
	if out, err := client.Output[map[string][]int](result(`{"result":[1]}`)); err != nil || len(out["result"]) != 1 {
		t.Errorf("an object with the member result: got %v, %v", out, err)
	}
	for _, structured := range []string{`{"other":[1]}`, `{"result":"x"}`} {
		if list, err := client.Output[[]int](result(structured)); err == nil {
			t.Errorf("%s as []int: got %v", structured, list)
		}
	}
}
