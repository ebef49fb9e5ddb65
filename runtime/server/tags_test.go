//lint:file-ignore SA5008 The tags are odd on purpose.

package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// Types with a schema of their own.
type (
	cents   int
	tree    struct{ Kids []tree }
	closed  struct{}
	ruled   string
	embeds  struct{ Ruled }
	Ruled   struct{ X int }
	panicky int
	foreign struct{ a, b int }
)

func (cents) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"integer","minimum":0,"description":"an amount in cents"}`)
}
func (tree) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"Kids":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}`)
}
func (*closed) JSONSchema() json.RawMessage { return json.RawMessage(`{"type":5}`) }
func (ruled) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","enum":["a","b"]}`)
}
func (Ruled) JSONSchema() json.RawMessage      { return json.RawMessage(`{"type":"object"}`) }
func (panicky) JSONSchema() json.RawMessage    { panic("boom") }
func (f foreign) MarshalJSON() ([]byte, error) { return json.Marshal([]int{f.a, f.b}) }
func (f *foreign) UnmarshalJSON(text []byte) error {
	var list []int
	err := json.Unmarshal(text, &list)
	if len(list) == 2 {
		f.a, f.b = list[0], list[1]
	}
	return err
}

const point = `{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2}`

// checkSchema compares the properties and the required members of an inferred schema.
func checkSchema[T any](t *testing.T, want string, types ...server.TypeDefinition) {
	t.Helper()
	schema, err := server.SchemaFor[T](types...)
	if got := strings.TrimSuffix(strings.TrimPrefix(string(schema), `{"type":"object","properties":`), `,"additionalProperties":false}`); err != nil || got != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

func TestStructTagsBecomeKeywords(t *testing.T) {
	checkSchema[struct {
		A string `json:"a,omitempty" enum:"red, green" title:"Color" jsonschema:"of the paint" default:"red" example:"green" deprecated:"true"`
	}](t, `{"a":{"type":"string","enum":["red","green"],"title":"Color","description":"of the paint","deprecated":true,"default":"red","examples":["green"]}}`)
	checkSchema[struct {
		A int     `json:"a,omitempty" minimum:"1" maximum:"10" multipleOf:"3" default:"6"`
		B float64 `json:"b,omitempty" exclusiveMinimum:"0.5" exclusiveMaximum:"1e3"`
		C int     `json:"c,omitempty" enum:"1,2,3"`
		D *int    `json:"d,omitempty" enum:"1"`
		E bool    `json:"e,omitempty" enum:"true"`
		F uint8   `json:"f,omitempty" minimum:"7"`
	}](t, `{"a":{"type":"integer","default":6,"minimum":1,"maximum":10,"multipleOf":3},"b":{"type":"number","exclusiveMinimum":0.5,"exclusiveMaximum":1e3},`+
		`"c":{"type":"integer","enum":[1,2,3]},"d":{"type":["null","integer"],"enum":[1,null]},"e":{"type":"boolean","enum":[true]},"f":{"type":"integer","minimum":7,"maximum":255}}`)
	checkSchema[struct {
		A string `json:"a,omitempty" minLength:"1" maxLength:"9" pattern:"^[a-z,]+$" example:"a,b"`
		B string `json:"b,omitempty" format:"email"`
		C string `json:"c,omitempty" enum:"[\"a,b\",\"\"]"`
		D hue    `json:"d,omitempty" enum:"red,green"`
	}](t, `{"a":{"type":"string","examples":["a,b"],"minLength":1,"maxLength":9,"pattern":"^[a-z,]+$"},"b":{"type":"string","format":"email"},`+
		`"c":{"type":"string","enum":["a,b",""]},"d":{"type":"string","enum":["red","green"]}}`)
	checkSchema[struct {
		A []string       `json:"a,omitempty" minItems:"1" maxItems:"3" uniqueItems:"true" enum:"x,y" default:"x,y"`
		B []*[]int       `json:"b,omitempty" minimum:"1"`
		C map[string]int `json:"c,omitempty" default:"{\"n\":1}"`
		D any            `json:"d,omitempty" default:"null" example:"[1]"`
	}](t, `{"a":{"type":"array","default":["x","y"],"items":{"type":"string","enum":["x","y"]},"minItems":1,"maxItems":3,"uniqueItems":true},`+
		`"b":{"type":"array","items":{"type":["null","array"],"items":{"type":"integer","minimum":1}}},`+
		`"c":{"type":"object","default":{"n":1},"additionalProperties":{"type":"integer"}},"d":{"default":null,"examples":[[1]]}}`)
}

func TestArgumentsComplyWithStructTags(t *testing.T) {
	type in struct {
		Color string `json:"color" enum:"red,green"`
		N     int    `json:"n" minimum:"1" maximum:"9" default:"3"`
		Inner struct {
			M int `json:"m" default:"4"`
		} `json:"inner,omitzero"`
	}
	s := newServer(t, server.Options{})
	server.AddTool(s, "paint", "", func(_ context.Context, _ *server.Call, in in) (string, error) {
		return in.Color + strings.Repeat("!", in.N) + strings.Repeat("?", in.Inner.M), nil
	})
	c := connect(t, s, clientConfig{})
	c.expect("tools/list", "", `{"tools":[{"name":"paint","inputSchema":{"type":"object","properties":{"color":{"type":"string","enum":["red","green"]},`+
		`"n":{"type":"integer","default":3,"minimum":1,"maximum":9},"inner":{"type":"object","properties":{"m":{"type":"integer","default":4}},"additionalProperties":false}},"required":["color"],"additionalProperties":false}}]}`)
	for arguments, want := range map[string]string{
		`{"color":"red"}`:            "red!!!",
		`{"color":"red","inner":{}}`: "red!!!????",
		`{"color":"red","n":1}`:      "red!",
		`{"color":"blue"}`:           "/color: value must be one of 'red', 'green'",
		`{"color":"red","n":10}`:     "/n: maximum: got 10, want 9",
		`{"color":"red","n":"10"}`:   "/n: got string, want integer",
	} {
		if got := echoed(t, c, "paint", arguments); !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %s, want %s", arguments, got, want)
		}
	}
}

func TestAddToolRejectsWrongStructTags(t *testing.T) {
	check := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	type line struct {
		Count int `minimum:"one"`
	}
	check(addToolError[struct{ Lines []line }](t), `field Lines.Count: tag minimum:"one": want a number such as 1, got "one"`)
	check(addToolError[struct {
		X int `maximum:"1.5"`
	}](t), `field X: tag maximum:"1.5": want a whole number such as 1, got "1.5"`)
	check(addToolError[struct {
		X string `minimum:"1"`
	}](t), `field X: tag minimum:"1": applies to integer, number, and the JSON of string is a string`)
	check(addToolError[struct {
		X map[string]string `minLength:"1"`
	}](t), `tag minLength:"1": applies to string, and the JSON of map[string]string is an object`)
	check(addToolError[struct {
		X []byte `minLength:"1"`
	}](t), `does not apply to []uint8, whose JSON is base64`)
	check(addToolError[struct {
		X any `enum:"a"`
	}](t), `the JSON of interface {} may be of any type; put the keyword in a schema of its own, see DefineType`)
	check(addToolError[struct {
		X struct{} `enum:"a"`
	}](t), `tag enum:"a": applies to string, integer, number, boolean, and the JSON of struct {} is an object`)
	check(addToolError[struct {
		X int `enum:"1,two"`
	}](t), `tag enum:"1,two": want a number such as 1, got "two"`)
	check(addToolError[struct {
		X netip.Addr `enum:"::1,x"`
	}](t), `tag enum: value "x" does not fit type netip.Addr: ParseAddr("x"): unable to parse IP`)
	check(addToolError[struct {
		X string `enum:"a,,b"`
	}](t), `tag enum:"a,,b": empty value; to have one, write a JSON array such as ["a",""]`)
	check(addToolError[struct {
		X string `enum:"a,a"`
	}](t), `value "a" is listed twice`)
	check(addToolError[struct {
		X string `enum:"[\"a\",5]"`
	}](t), `field X: tag enum: value 5 does not comply with the schema of the field: got number, want string`)
	check(addToolError[struct {
		X string `pattern:"["`
	}](t), "want a regular expression in the syntax of package regexp: error parsing regexp: missing closing ]: `[`")
	check(addToolError[struct {
		X string `format:"datetime"`
	}](t), `for another one, see DefineType`)
	check(addToolError[struct {
		X time.Time `format:"date"`
	}](t), `the type of the field has the format date-time`)
	check(addToolError[struct {
		X int `default:"11" maximum:"10"`
	}](t), `field X: tag default: value 11 does not comply with the schema of the field: maximum: got 11, want 10`)
	check(addToolError[struct {
		X time.Time `example:"tomorrow"`
	}](t), `tag example: value "tomorrow" does not fit type time.Time: want a date and time such as 2025-01-31T12:00:00Z, got "tomorrow"`)
	check(addToolError[struct {
		X int `minimum:"5" maximum:"4"`
	}](t), `field X: minimum 5 is above maximum 4`)
	check(addToolError[struct {
		X uint8 `maximum:"256"`
	}](t), `the type of the field admits no value above 255`)
	check(addToolError[struct {
		X string `minLength:"-1"`
	}](t), `tag minLength:"-1": want a number of characters or elements such as 10, got "-1"`)
	check(addToolError[struct {
		X [2]int `maxItems:"3"`
	}](t), `the type of the field has 2 elements`)
	check(addToolError[struct {
		X string `minlength:"1"`
	}](t), `tag minlength:"1" is not a keyword; write minLength:"1"`)
	check(addToolError[struct {
		X int `minlength:"1"`
	}](t), `tag minlength:"1" is not a keyword, and minLength applies to string, and the JSON of int is an integer`)
	check(addToolError[struct {
		X int `min:"1"`
	}](t), `tag min:"1" is not a keyword; write minimum:"1"`)
	check(addToolError[struct {
		X int `deprecated:"yes"`
	}](t), `tag deprecated:"yes": want true or false, got "yes"`)
	check(addToolError[struct {
		X int `multipleOf:"0"`
	}](t), `tag multipleOf:"0": want a number above 0`)
}

func TestTypesDefineTheirSchema(t *testing.T) {
	checkSchema[struct {
		A cents   `json:"a" jsonschema:"the price" maximum:"100"`
		B *cents  `json:"b"`
		C []cents `json:"c"`
		D *ruled  `json:"d"`
	}](t, `{"a":{"type":"integer","minimum":0,"description":"the price","maximum":100},"b":{"type":["null","integer"],"minimum":0,"description":"an amount in cents"},`+
		`"c":{"type":"array","items":{"type":"integer","minimum":0,"description":"an amount in cents"}},`+
		`"d":{"anyOf":[{"type":"string","enum":["a","b"]},{"type":"null"}]}},"required":["a","b","c","d"]`)
	checkSchema[struct {
		A foreign `json:"a"`
	}](t, `{"a":`+point+`},"required":["a"]`, server.DefineType[foreign](point))
	// The references of a schema that refers to itself lead to its place.
	type in struct {
		Root   tree             `json:"a/b c"`
		Others map[string]*tree `json:"o"`
	}
	s := newServer(t, server.Options{})
	server.AddTool(s, "count", "", func(_ context.Context, _ *server.Call, in in) ([]int, error) {
		return []int{len(in.Root.Kids), len(in.Others)}, nil
	})
	c := connect(t, s, clientConfig{})
	if got := echoed(t, c, "count", `{"a/b c":{"Kids":[{"Kids":[]}]},"o":{"x":null,"y":{"Kids":[{"Kids":[]}]}}}`); got != "[1,2]" {
		t.Error(got)
	}
	if got := echoed(t, c, "count", `{"a/b c":{"Kids":[{"Kids":[5]}]},"o":{}}`); !strings.Contains(got, "/a~1b c/Kids/0/Kids/0: got number, want object") {
		t.Error(got)
	}
	if got := echoed(t, c, "count", `{"a/b c":{"Kids":[]},"o":{"y":{"Kids":[5]}}}`); !strings.Contains(got, "/o/y") {
		t.Error(got)
	}
}

func TestDefineType(t *testing.T) {
	s := newServer(t, server.Options{Features: server.Features{Types: []server.TypeDefinition{server.DefineType[foreign](point), server.DefineType[cents](`{"type":"number"}`)}}})
	f := func(_ context.Context, _ *server.Call, in member[foreign]) (foreign, error) { return in.V, nil }
	server.AddTool(s, "a", "", f)
	server.AddTool(s, "b", "", f, server.DefineType[foreign](`{"type":"array"}`))
	server.AddTool(s, "c", "", func(_ context.Context, _ *server.Call, in member[cents]) (string, error) { return "", nil })
	c := connect(t, s, clientConfig{})
	list, _ := c.call("tools/list", "")
	for _, want := range []string{
		`"properties":{"v":` + point + `}`, `"properties":{"result":` + point + `}`,
		`"properties":{"v":{"type":"array"}}`, `"properties":{"result":{"type":"array"}}`, `"properties":{"v":{"type":"number"}}`,
	} {
		if !strings.Contains(list, want) {
			t.Errorf("%s is not in %s", want, list)
		}
	}
	c.expect("tools/call", `{"name":"a","arguments":{"v":[1,2]}}`, `{"content":[{"type":"text","text":"[1,2]"}],"structuredContent":{"result":[1,2]}}`)
}

func TestInvalidSchemasOfTypesAreRejected(t *testing.T) {
	check := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	check(addToolError[member[closed]](t), "field V: schema of type server_test.closed: invalid schema: /type:")
	check(addToolError[member[panicky]](t), "field V: method JSONSchema of type server_test.panicky: panic: boom")
	check(addToolError[embeds](t), "server_test.embeds has the method JSONSchema of the embedded type server_test.Ruled; give it one of its own, or name the field")
	_, err := server.SchemaFor[int](server.DefineType[int](`true`))
	check(err, "server: no schema for type int: schema of type int: want a JSON object")
	err = server.New("x", "1", &server.Options{Features: server.Features{Types: []server.TypeDefinition{{}, server.DefineType[int](`{"type":"x"}`), server.DefineType[int](`{}`)}}}).Err()
	check(err, "server: Options.Features.Types: zero TypeDefinition; use DefineType")
	check(err, "server: Options.Features.Types: schema of type int: invalid schema")
	check(err, "server: Options.Features.Types: type int is defined twice")
}

// addOutput adds a tool with the given output.
func addOutput[Out any](t *testing.T, s *server.Server, name string, out Out) {
	t.Helper()
	server.AddTool(s, name, "", func(context.Context, *server.Call, struct{}) (Out, error) { return out, nil })
}

// Output that is not an object is sent in the member result of one.
func TestOutputOfOtherTypesIsWrapped(t *testing.T) {
	for want, add := range map[string]func(*server.Server){
		`{"type":"array","items":{"type":"integer"}} [1,2]`:                         func(s *server.Server) { addOutput(t, s, "x", []int{1, 2}) },
		`{"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":1} [3]`: func(s *server.Server) { addOutput(t, s, "x", [1]int{3}) },
		`{"type":"array","items":{"type":"string"}} []`:                             func(s *server.Server) { addOutput(t, s, "x", []string(nil)) },
		`{"type":"number"} 1.5`:                                                     func(s *server.Server) { addOutput(t, s, "x", 1.5) },
		`{"type":["null","integer"]} null`:                                          func(s *server.Server) { addOutput(t, s, "x", (*int)(nil)) },
		`{"type":"boolean"} true`:                                                   func(s *server.Server) { addOutput(t, s, "x", true) },
		`{"type":"string"} "red"`:                                                   func(s *server.Server) { addOutput(t, s, "x", nick("red")) },
		`{"type":"string","format":"date-time"} "2026-01-02T03:04:05Z"`: func(s *server.Server) {
			addOutput(t, s, "x", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		},
		`{"type":"string","enum":["a","b"]} "b"`: func(s *server.Server) { addOutput(t, s, "x", ruled("b")) },
	} {
		schema, out, _ := strings.Cut(want, " ")
		s := newServer(t, server.Options{})
		add(s)
		c := connect(t, s, clientConfig{})
		c.expect("tools/list", "", `{"tools":[{"name":"x","inputSchema":{"type":"object","additionalProperties":false},"outputSchema":{"type":"object","properties":{"result":`+schema+`},"required":["result"],"additionalProperties":false}}]}`)
		text, _ := json.Marshal(out)
		c.expect("tools/call", `{"name":"x"}`, `{"content":[{"type":"text","text":`+string(text)+`}],"structuredContent":{"result":`+out+`}}`)
	}
	// A pointer to a struct is the struct.
	s := newServer(t, server.Options{})
	addOutput(t, s, "x", &ident{5})
	connect(t, s, clientConfig{}).expect("tools/call", `{"name":"x"}`, `{"content":[{"type":"text","text":"{\"id\":5}"}],"structuredContent":{"id":5}}`)
}

func TestAddToolRejectsAmbiguousOutput(t *testing.T) {
	check := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	check(outputError[any](t), "got interface {}, whose JSON may be of any type; give the tool a schema, or the type the method JSONSchema")
	check(outputError[json.RawMessage](t), fmt.Sprintf("got %v, whose JSON may be of any type", reflect.TypeFor[json.RawMessage]()))
	check(outputError[mcp.CallToolResult](t), "*mcp.CallToolResult, got mcp.CallToolResult")
	check(outputError[*mcp.TextContent](t), "got *mcp.TextContent")
	check(outputError[[]*mcp.TextContent](t), "want []mcp.ContentBlock, got []*mcp.TextContent")
	check(outputError[[]byte](t), "want string for text, or a content block for binary data, got []byte")
}

func outputError[Out any](t *testing.T) error {
	err := server.AddTool(newServer(t, server.Options{}), "x", "", func(context.Context, *server.Call, struct{}) (out Out, err error) { return }).Err()
	return err
}
