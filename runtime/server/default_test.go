package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

func inputSchema(t *testing.T, text string) (s mcp.ToolInputSchema) {
	t.Helper()
	if err := codec.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// addEcho adds a tool that returns its decoded arguments as text.
func addEcho[In any](t *testing.T, s *server.Server, name, schema string) *server.Handle[mcp.Tool] {
	t.Helper()
	return server.AddTool(s, name, "", func(_ context.Context, _ *server.Call, in In) (string, error) {
		out, err := codec.Marshal(value.Of(in))
		return string(out), err
	}, server.DefineTool(func(def *mcp.Tool) { def.InputSchema = inputSchema(t, schema) }))
}

// echoed calls a tool and returns the text of its result.
func echoed(t *testing.T, c *testClient, name, arguments string) string {
	t.Helper()
	result, code := c.call("tools/call", `{"name":"`+name+`","arguments":`+arguments+`}`)
	if code != 0 {
		t.Fatalf("%s: %d %s", arguments, code, result)
	}
	return text(t, result)
}

// A default replaces an absent member. It does not replace null or an empty value.
func TestDefaultsReplaceAbsentMembers(t *testing.T) {
	type options struct {
		A int `json:"a,omitempty"`
		B int `json:"b,omitempty"`
	}
	type arguments struct {
		O options        `json:"o,omitzero"`
		M map[string]int `json:"m,omitempty"`
		L []options      `json:"l,omitempty"`
		P *options       `json:"p,omitempty"`
		N *int           `json:"é,omitempty"`
	}
	s := newServer(t, server.Options{})
	addEcho[arguments](t, s, "x", `{"type":"object","properties":{
		"o":{"type":"object","default":{"a":1,"b":2}},
		"m":{"type":"object","default":{"x":1}},
		"l":{"type":"array","default":[{"a":1,"b":2}]},
		"p":{"type":["object","null"],"default":{"a":1,"b":2}},
		"é":{"type":["integer","null"],"default":7},
		"other":{}}}`)
	c := connect(t, s, clientConfig{})
	for _, tt := range []struct{ sent, got string }{
		{`{"o":{"a":5},"m":{"y":2},"l":[{"a":7}],"p":{"a":9},"\u00e9":1}`, `{"o":{"a":5},"m":{"y":2},"l":[{"a":7}],"p":{"a":9},"é":1}`},
		{`{"o":{},"m":{},"l":[],"p":null,"é":null}`, `{}`},
		{`{}`, `{"o":{"a":1,"b":2},"m":{"x":1},"l":[{"a":1,"b":2}],"p":{"a":1,"b":2},"é":7}`},
		{` { "o" : { "a" : 5 } } `, `{"o":{"a":5},"m":{"x":1},"l":[{"a":1,"b":2}],"p":{"a":1,"b":2},"é":7}`},
	} {
		if got := echoed(t, c, "x", tt.sent); got != tt.got {
			t.Errorf("%s: got %s, want %s", tt.sent, got, tt.got)
		}
	}
}

func TestDefaultsOfNestedMembers(t *testing.T) {
	type point struct {
		X int `json:"x" default:"1"`
		Y int `json:"y,omitempty"`
	}
	type shape struct {
		Center *point            `json:"center,omitempty"`
		Points []point           `json:"points,omitempty"`
		Named  map[int]point     `json:"named,omitempty"`
		Grid   [][]point         `json:"grid,omitempty"`
		Marks  map[string]*[]int `json:"marks,omitempty"`
		Color  string            `json:"color" default:"red"`
	}
	type drawing struct {
		Shape shape `json:"shape,omitzero"`
		Whole shape `json:"whole" default:"{\"center\":{},\"color\":\"blue\"}"`
	}
	s := newServer(t, server.Options{})
	server.AddTool(s, "x", "", func(_ context.Context, _ *server.Call, in drawing) (string, error) {
		out, err := codec.Marshal(value.Of(in))
		return string(out), err
	})
	c := connect(t, s, clientConfig{})
	const whole = `"whole":{"center":{"x":1},"color":"blue"}`
	for _, tt := range []struct{ sent, got string }{
		{`{}`, `{` + whole + `}`},
		{`{"shape":{}}`, `{"shape":{"color":"red"},` + whole + `}`},
		{`{"shape": { } , "whole":{"color":"green"} }`, `{"shape":{"color":"red"},"whole":{"color":"green"}}`},
		{`{"shape":{"center":{"y":2},"color":"black"}}`, `{"shape":{"center":{"x":1,"y":2},"color":"black"},` + whole + `}`},
		{`{"shape":{"center":null,"points":[{},{"x":5}, {"y":6}]}}`, `{"shape":{"points":[{"x":1},{"x":5},{"x":1,"y":6}],"color":"red"},` + whole + `}`},
		{`{"shape":{"named":{"7":{},"8":{"y":3}},"grid":[[],[{}]],"marks":{"a":[1]}}}`,
			`{"shape":{"named":{"7":{"x":1},"8":{"x":1,"y":3}},"grid":[[],[{"x":1}]],"marks":{"a":[1]},"color":"red"},` + whole + `}`},
	} {
		if got := echoed(t, c, "x", tt.sent); got != tt.got {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.sent, got, tt.got)
		}
	}
}

func TestDefaultsFollowSchemaChange(t *testing.T) {
	type in struct {
		N int `json:"n,omitempty"`
	}
	s := newServer(t, server.Options{})
	h := addEcho[in](t, s, "x", `{"type":"object","properties":{"n":{"type":"integer","default":1}}}`)
	c := connect(t, s, clientConfig{})
	for _, tt := range []struct{ schema, want string }{
		{`{"type":"object","properties":{"n":{"type":"integer","default":2}}}`, `{"n":2}`},
		{`{"type":"object","properties":{"n":{"type":"integer"}}}`, `{}`},
	} {
		if err := h.Change(func(d *mcp.Tool) { d.InputSchema = inputSchema(t, tt.schema) }); err != nil {
			t.Fatal(err)
		}
		if got := echoed(t, c, "x", `{}`); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.schema, got, tt.want)
		}
	}
	if err := h.Change(func(d *mcp.Tool) {
		d.InputSchema = inputSchema(t, `{"type":"object","properties":{"n":{"type":"integer","default":"x"}}}`)
	}); err == nil {
		t.Error("a change to an invalid default: no error")
	}
	if got := echoed(t, c, "x", `{}`); got != `{}` {
		t.Errorf("after a change that failed: %s", got)
	}
}

func TestDefaultsMustComplyWithSchema(t *testing.T) {
	type element struct {
		N int `json:"n,omitempty"`
	}
	type in struct {
		N int             `json:"n,omitempty"`
		A string          `json:"a,omitempty"`
		L []element       `json:"l,omitempty"`
		M map[int]element `json:"m,omitempty"`
	}
	rejecting := newServer(t, server.Options{}) // does not start, because it records the mistakes
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"n":{"type":"integer","default":"abc"}}}`:                                `default of "n" does not comply with its schema: got string, want integer`,
		`{"type":"object","properties":{"n":{"type":"integer","maximum":5,"default":99}}}`:                       `default of "n" does not comply with its schema: `,
		`{"type":"object","properties":{"n":{"$ref":"#/$defs/a","default":9}},"$defs":{"a":{"maximum":5}}}`:      `default of "n" does not comply with its schema: `,
		`{"type":"object","properties":{"n":{"default":"abc"}}}`:                                                 `default of "n" does not fit the type of the arguments: want integer, got string`,
		`{"type":"object","properties":{"n":{"type":"number","default":1.5}}}`:                                   `default of "n" does not fit the type of the arguments: `,
		`{"type":"object","properties":{"l":{"items":{"properties":{"n":{"type":"integer","default":"abc"}}}}}}`: `default of "l.n" does not comply with its schema: got string, want integer`,
		`{"type":"object","properties":{"l":{"items":{"properties":{"n":{"default":"abc"}}}}}}`:                  `default of "l.n" does not fit the type of the arguments: want integer, got string`,
		`{"type":"object","properties":{"m":{"additionalProperties":{"properties":{"n":{"default":[]}}}}}}`:      `default of "m.n" does not fit the type of the arguments: want integer, got array`,
	} {
		if err := addEcho[in](t, rejecting, "x", schema).Err(); err == nil || !strings.Contains(err.Error(), `server: tool "x": `+want) {
			t.Errorf("%s: got %v, want %s", schema, err, want)
		}
	}
	// Valid defaults may not comply together with the arguments of the client.
	s := newServer(t, server.Options{})
	addEcho[in](t, s, "y", `{"type":"object","properties":{"n":{"type":"integer","default":1},"a":{"type":"string"}},"maxProperties":1}`)
	c := connect(t, s, clientConfig{})
	if got := echoed(t, c, "y", `{"a":"x"}`); !strings.HasPrefix(got, "With the defaults of absent members, the arguments do not comply") {
		t.Error(got)
	}
	if got := echoed(t, c, "y", `{}`); got != `{"n":1}` {
		t.Error(got)
	}
}

// A raw tool receives the arguments as the client has sent them.
func TestRawToolsHaveNoDefaults(t *testing.T) {
	s := newServer(t, server.Options{})
	s.AddRawTool(mcp.Tool{Name: "x", InputSchema: inputSchema(t, `{"type":"object","properties":{"n":{"default":1}}}`)},
		func(_ context.Context, _ *server.Call, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			return server.Text(string(arguments)), nil
		})
	if got := echoed(t, connect(t, s, clientConfig{}), "x", `{}`); got != `{}` {
		t.Error(got)
	}
}

func TestStructuredRejectsNonObjects(t *testing.T) {
	for _, v := range []any{5, nil, "x", []int{1}, json.RawMessage("true")} {
		if r, err := server.Structured(v); err == nil {
			t.Errorf("%v: got %s, want an error", v, r.StructuredContent)
		}
	}
	if r, err := server.Structured(map[string]int(nil)); err != nil || string(r.StructuredContent) != `{}` {
		t.Errorf("%+v, %v", r, err)
	}
}
