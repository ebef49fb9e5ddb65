package server_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

func outputSchema(t *testing.T, text string) *mcp.ToolOutputSchema {
	t.Helper()
	s := new(mcp.ToolOutputSchema)
	if err := codec.Unmarshal([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Output that is not an object is sent as it is in modern revisions, and in an object in sessions.
//
// Proves M-TOOL-01, M-TOOL-03, M-TOOL-04, M-SCHEMA-01.
func TestOutputThatIsNoObject(t *testing.T) {
	type test struct {
		add                       func(s *server.Server)
		modern, session           string // structured output
		modernSchema, wrapsSchema string // output schemas; "" for the same in sessions
		err                       bool   // modern calls fail
		sessionErr                bool
	}
	wrapped := func(schema string) string {
		return `{"type":"object","properties":{"result":` + schema + `},"required":["result"],"additionalProperties":false}`
	}
	raw := func(schema, output string) func(s *server.Server) {
		shared := server.Text(output)
		shared.StructuredContent = json.RawMessage(output)
		return func(s *server.Server) {
			def := mcp.Tool{Name: "x", InputSchema: inputSchema(t, `{"type":"object"}`)}
			if schema != "" {
				def.OutputSchema = outputSchema(t, schema)
			}
			s.AddRawTool(def, func(context.Context, *server.Call, json.RawMessage) (*mcp.CallToolResult, error) { return shared, nil })
		}
	}
	const list, number, union = `{"type":"array","items":{"type":"integer"}}`, `{"type":"number"}`, `{"oneOf":[{"type":"object"},{"type":"string"}]}`
	for name, test := range map[string]test{
		"list":   {add: func(s *server.Server) { addOutput(t, s, "x", []int{1, 2}) }, modern: `[1,2]`, session: `{"result":[1,2]}`, modernSchema: list, wrapsSchema: wrapped(list)},
		"number": {add: func(s *server.Server) { addOutput(t, s, "x", 1.5) }, modern: `1.5`, session: `{"result":1.5}`, modernSchema: number, wrapsSchema: wrapped(number)},
		"time":   {add: func(s *server.Server) { addOutput(t, s, "x", time.Unix(0, 0).UTC()) }, modern: `"1970-01-01T00:00:00Z"`, session: `{"result":"1970-01-01T00:00:00Z"}`, modernSchema: `{"type":"string","format":"date-time"}`, wrapsSchema: wrapped(`{"type":"string","format":"date-time"}`)},
		"nil":    {add: func(s *server.Server) { addOutput[*[]int](t, s, "x", nil) }, modern: `null`, session: `{"result":null}`, modernSchema: `{"type":["null","array"],"items":{"type":"integer"}}`, wrapsSchema: wrapped(`{"type":["null","array"],"items":{"type":"integer"}}`)},
		"struct": {add: func(s *server.Server) { addOutput(t, s, "x", struct{ A int }{1}) }, modern: `{"A":1}`, session: `{"A":1}`, modernSchema: `{"type":"object","properties":{"A":{"type":"integer"}},"required":["A"],"additionalProperties":false}`},
		"own object for a list": {add: func(s *server.Server) {
			server.AddTool(s, "x", "", func(context.Context, *server.Call, struct{}) ([]int, error) { return []int{1}, nil },
				server.DefineTool(func(def *mcp.Tool) { def.OutputSchema = outputSchema(t, wrapped(list)) }))
		}, modern: `{"result":[1]}`, session: `{"result":[1]}`, modernSchema: wrapped(list)},
		"raw list":           {add: raw(list, `[3]`), modern: `[3]`, session: `{"result":[3]}`, modernSchema: list, wrapsSchema: wrapped(list)},
		"raw union":          {add: raw(union, `"a"`), modern: `"a"`, session: `{"result":"a"}`, modernSchema: union, wrapsSchema: wrapped(union)},
		"raw union object":   {add: raw(union, `{"a":1}`), modern: `{"a":1}`, session: `{"result":{"a":1}}`, modernSchema: union, wrapsSchema: wrapped(union)},
		"raw without schema": {add: raw("", `[3]`), modern: `[3]`, sessionErr: true},
		"raw null":           {add: raw("", `null`), modern: `null`, sessionErr: true},
		"raw invalid":        {add: raw(list, `["a"]`), err: true, sessionErr: true, modernSchema: list, wrapsSchema: wrapped(list)},
		"references": {add: raw(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"array","items":{"$ref":"#/$defs/n"},"$defs":{"n":{"type":"integer"}}}`, `[4]`),
			modern: `[4]`, session: `{"result":[4]}`,
			modernSchema: `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"array","items":{"$ref":"#/$defs/n"},"$defs":{"n":{"type":"integer"}}}`,
			wrapsSchema:  `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"result":{"type":"array","items":{"$ref":"#/properties/result/$defs/n"},"$defs":{"n":{"type":"integer"}}}},"required":["result"],"additionalProperties":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newServer(t, server.Options{Middleware: server.Middleware{Tools: []func(server.ToolHandler) server.ToolHandler{func(next server.ToolHandler) server.ToolHandler { return next }}}})
				test.add(s)
				if err := s.Err(); err != nil {
					t.Fatal(err)
				}
				c, old := connectModern(t, s), connect(t, s, clientConfig{})
				if test.wrapsSchema == "" {
					test.wrapsSchema = test.modernSchema
				}
				for range 2 { // handlers may return the same result again
					if test.err {
						c.fails("tools/call", `{"name":"x"}`, "", jsonrpc.CodeInternalError, "output schema")
					} else {
						result := c.result("tools/call", `{"name":"x"}`, "")
						equalJSON(t, "modern output", test.modern, part(result, "structuredContent"))
						if got := text(t, result); decoded(got) == nil && test.modern != "null" {
							t.Errorf("text %s", got)
						}
					}
					if test.sessionErr {
						old.expectError("tools/call", `{"name":"x"}`, jsonrpc.CodeInternalError)
					} else {
						result, _ := old.call("tools/call", `{"name":"x"}`)
						equalJSON(t, "output in a session", test.session, part(result, "structuredContent"))
					}
				}
				schemaIn := func(list string) string {
					var r mcp.ListToolsResult
					if err := codec.Unmarshal([]byte(list), &r); err != nil || len(r.Tools) != 1 {
						t.Fatalf("%v: %s", err, list)
					}
					if r.Tools[0].OutputSchema == nil {
						return ""
					}
					return string(must(codec.Marshal(r.Tools[0].OutputSchema)))
				}
				equalJSON(t, "modern schema", test.modernSchema, schemaIn(c.result("tools/list", "", "")))
				list, _ := old.call("tools/list", "")
				equalJSON(t, "schema in a session", test.wrapsSchema, schemaIn(list))
				equalJSON(t, "the list again", c.result("tools/list", "", ""), c.result("tools/list", "", ""))
			})
		})
	}
}

// Changing the description of a tool changes the form of its output with it.
func TestChangedOutputSchema(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		h := server.AddTool(s, "x", "", func(context.Context, *server.Call, struct{}) ([]int, error) { return []int{1}, nil })
		c := connectModern(t, s)
		equalJSON(t, "before", `[1]`, part(c.result("tools/call", `{"name":"x"}`, ""), "structuredContent"))
		if err := h.Change(func(def *mcp.Tool) { def.OutputSchema = outputSchema(t, `{"type":"object"}`) }); err != nil {
			t.Fatal(err)
		}
		equalJSON(t, "an object", `{"result":[1]}`, part(c.result("tools/call", `{"name":"x"}`, ""), "structuredContent"))
		if err := h.Change(func(def *mcp.Tool) { def.OutputSchema = nil }); err != nil {
			t.Fatal(err)
		}
		equalJSON(t, "without a schema", `[1]`, part(c.result("tools/call", `{"name":"x"}`, ""), "structuredContent"))
		if err := h.Change(func(def *mcp.Tool) { def.OutputSchema = outputSchema(t, `{"type":"array"}`) }); err != nil {
			t.Fatal(err)
		}
		equalJSON(t, "a list again", `[1]`, part(c.result("tools/call", `{"name":"x"}`, ""), "structuredContent"))
		if err := h.Change(func(def *mcp.Tool) { def.OutputSchema = outputSchema(t, `{"type":"array","items":5}`) }); err == nil {
			t.Error("an invalid schema was accepted")
		}
	})
}
