package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Proves TOOL-08, TOOL-14, SCHEMA-01, SCHEMA-02.
func TestCallToolValidatesOutput(t *testing.T) {
	tools := `{"tools":[
		{"name":"sum","inputSchema":{"type":"object"},"outputSchema":{"type":"object","$defs":{"n":{"type":"integer"}},"properties":{"sum":{"$ref":"#/$defs/n"},"pair":{"prefixItems":[{"type":"string"}]}},"required":["sum"],"dependentRequired":{"unit":["scale"]}}},
		{"name":"odd","inputSchema":{"type":"object"},"outputSchema":{"$schema":"https://x.example/none","type":"object"}},
		{"name":"free","inputSchema":{"type":"object"}}]}`
	for _, test := range []struct{ name, tool, result, faults string }{
		{"valid", "sum", `{"content":[],"structuredContent":{"sum":1,"more":2}}`, ""},
		{"a wrong type", "sum", `{"content":[],"structuredContent":{"sum":"1"}}`, "/sum"},
		{"a wrong element", "sum", `{"content":[],"structuredContent":{"sum":1,"pair":[7]}}`, "/pair/0"},
		{"a missing dependent member", "sum", `{"content":[],"structuredContent":{"sum":1,"unit":"m"}}`, "scale"},
		{"no structured content", "sum", `{"content":[]}`, "no structured content"},
		{"an error of the tool", "sum", `{"content":[],"isError":true}`, ""},
		{"a tool without schema", "free", `{"content":[]}`, ""},
		{"an unlisted tool", "other", `{"content":[]}`, ""},
		{"an unknown dialect", "odd", `{"content":[]}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			c, _ := connect(t, &client.Options{Session: session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}, map[string]func(string) (string, error){
				"tools/list": always(tools), "tools/call": always(test.result),
			})
			if _, err := c.CallTool(t.Context(), test.tool, nil); err != nil {
				t.Errorf("before the list is cached: %v", err)
			}
			names(t, c.Tools(t.Context()), toolName)
			for range 2 {
				result, err := c.CallTool(t.Context(), test.tool, nil)
				wrong, _ := errors.AsType[*client.OutputError](err)
				switch {
				case test.faults == "" && (err != nil || result == nil):
					t.Errorf("got %v, %v", result, err)
				case test.faults != "" && (wrong == nil || !strings.Contains(wrong.Faults, test.faults) || wrong.Result == nil || wrong.Tool != test.tool):
					t.Errorf("got %v, %v", result, err)
				}
			}
			if got, want := strings.Count(log.String(), "not supported"), map[bool]int{true: 1}[test.tool == "odd"]; got != want {
				t.Errorf("the log has %d lines about dialects, want %d:\n%s", got, want, &log)
			}
		})
	}
}

// A server cannot keep a client busy with a schema that compares each element with a long list, nor
// with one that doubles its work at each level.
func TestCallToolLimitsValidation(t *testing.T) {
	list := func(n int, format string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(parts, ",")
	}
	double := list(40, `"d%d":{"allOf":[{"$ref":"#/$defs/e%[1]d"},{"$ref":"#/$defs/e%[1]d"}]}`)
	for i := range 40 {
		double = strings.ReplaceAll(double, fmt.Sprintf(`/e%d"`, i), fmt.Sprintf(`/d%d"`, i+1))
	}
	for name, test := range map[string]struct{ schema, content, want string }{
		"values in an enum": {`{"type":"object","properties":{"a":{"items":{"enum":[` + list(1000, "[%d]") + `]}}}}`, `{"a":[` + list(50_000, "[%d]") + `]}`, "'enum' failed"},
		"references":        {`{"type":"object","$ref":"#/$defs/d0","$defs":{` + double + `,"d40":{}}}`, `{}`, "takes too many steps (limit: 1000016)"},
		"a large schema":    {`{"type":"object","properties":{"a":{"enum":[` + list(100_000, "%d") + `]}}}`, `{"a":"x"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			c, _ := connect(t, &client.Options{Session: session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}, map[string]func(string) (string, error){
				"tools/list": always(`{"tools":[{"name":"x","inputSchema":{"type":"object"},"outputSchema":` + test.schema + `}]}`),
				"tools/call": always(`{"content":[],"structuredContent":` + test.content + `}`),
			})
			names(t, c.Tools(t.Context()), toolName)
			_, err := c.CallTool(t.Context(), "x", nil)
			if got := fmt.Sprint(err); (err == nil) != (test.want == "") || err != nil && !strings.Contains(got, test.want) {
				t.Errorf("got %.300s, want %s", got, test.want)
			}
			if ignored := strings.Contains(log.String(), "more than"); ignored != (test.want == "") {
				t.Errorf("log: %s", &log)
			}
		})
	}
}

func TestTextJoinsTextBlocks(t *testing.T) {
	content := []mcp.ContentBlock{&mcp.TextContent{Text: "a"}, &mcp.ImageContent{}, &mcp.TextContent{Text: "b"}}
	if got, err := client.Text(&mcp.CallToolResult{Content: content}); got != "a\nb" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	_, err := client.Text(&mcp.CallToolResult{Content: content, IsError: new(true)})
	if _, failed := errors.AsType[*client.ToolError](err); !failed {
		t.Errorf("a failed call: %v", err)
	}
	if _, err := client.Text(nil); err == nil {
		t.Error("no error without a result")
	}
}

func TestSayIsMessageOfModel(t *testing.T) {
	got, err := codec.Marshal(client.Say("m", "hello"))
	if want := `{"content":{"type":"text","text":"hello"},"model":"m","role":"assistant","stopReason":"endTurn"}`; string(got) != want || err != nil {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
