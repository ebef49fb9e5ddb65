package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
)

func toolWith(t *testing.T, schema string) *mcp.Tool {
	t.Helper()
	tool := mcp.Tool{Name: "x"}
	if err := codec.Unmarshal([]byte(schema), &tool.InputSchema); err != nil {
		t.Fatal(err)
	}
	return &tool
}

// A value is read as JSON or as a string, depending on which of them the schema admits.
func TestArgumentsFollowSchema(t *testing.T) {
	tool := toolWith(t, `{"type":"object","$defs":{"text":{"type":"string"}},"properties":{
		"any":true, "odd":{"description":7}, "text":{"type":"string"}, "number":{"type":"integer"}, "list":{"type":["string","null"]},
		"either":{"anyOf":[{"type":"string"},{"type":"null"}]}, "one":{"oneOf":[{"type":"integer"},{"type":"string","minLength":3}]},
		"ref":{"$ref":"#/$defs/text"}, "enum":{"enum":["1","on"]}, "size":{"type":"integer","maximum":5}, "never":false,
		"long":{"type":["string","null"],"minLength":9}, "object":{"type":"object"}}}`)
	for _, tt := range []struct{ pair, want string }{
		{"any=1", `1`}, {"any=one", `"one"`}, {"odd=[1]", `[1]`}, {"other=5", `5`}, {"other=x=y", `"x=y"`},
		{"text=5", `"5"`}, {"text=null", `"null"`}, {"text=", `""`}, {`text="a"`, `"\"a\""`},
		{"number=5", `5`}, {"list=12345", `"12345"`}, {"list=null", `null`}, {"list=true", `"true"`},
		{"either=12345", `"12345"`}, {"either=null", `null`}, {"one=12", `12`}, {"one=abc", `"abc"`},
		{"ref=77", `"77"`}, {"enum=1", `"1"`}, {"enum=on", `"on"`}, {"size=9", `9`}, {"never=1", `1`}, {`object={"a":1}`, `{"a":1}`},
	} {
		args, err := arguments(tool, []string{tt.pair})
		key, _, _ := strings.Cut(tt.pair, "=")
		if err != nil || string(args[key]) != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.pair, args[key], err, tt.want)
		}
	}
	for _, tt := range []struct{ pairs, want string }{
		{"number=x", `argument "number": "x" is not of type integer`},
		{"object=x", `argument "object": "x" is not of type object`},
		{"number", `argument "number" is not of the form KEY=VALUE`},
		{"number=1 text=a number=2", `argument "number" is given twice`},
	} {
		if _, err := arguments(tool, strings.Fields(tt.pairs)); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", tt.pairs, err, tt.want)
		}
	}
}

// A schema that cannot be compiled does not prevent a call: its arguments are not checked.
func TestArgumentsAreUncheckedIfSchemaIsInvalid(t *testing.T) {
	tool := toolWith(t, `{"type":"object","properties":{"a":{"$ref":"https://example.com/x"},"n":{"type":"integer"}}}`)
	args, err := arguments(tool, []string{"a=5", "n=1"})
	if out, _ := json.Marshal(args); err != nil || string(out) != `{"a":5,"n":1}` {
		t.Errorf("%s, %v", out, err)
	}
}

func TestArgumentKinds(t *testing.T) {
	for schema, want := range map[string]string{
		`true`: "anything", `{}`: "anything", `{"type":"string"}`: "string", `{"type":["string", "null"]}`: "string or null",
		`{"anyOf":[{"type":"string"},{"type":"null"}]}`: "string or null", `{"oneOf":[{"type":"string"},{}]}`: "anything",
		`{"type":5,"description":7}`: "anything",
	} {
		if p := newProperty(json.RawMessage(schema)); p.kind() != want || p.description() != "" {
			t.Errorf("%s: %q %q, want %q", schema, p.kind(), p.description(), want)
		}
	}
}

func TestConstraintsOfArgumentsAreListed(t *testing.T) {
	for schema, want := range map[string]string{
		`true`:                                  "",
		`{"type":"string"}`:                     "",
		`{"enum":["red",5,""],"default":"red"}`: `one of red, 5, ""; default red`,
		`{"minimum":1,"exclusiveMaximum":9,"multipleOf":2}`:                                  "at least 1; less than 9; a multiple of 2",
		`{"exclusiveMinimum":0,"maximum":5,"default":null,"deprecated":true}`:                "more than 0; at most 5; default null; deprecated",
		`{"minLength":1,"maxLength":3,"pattern":"^a","format":"email","examples":["a","b"]}`: "at least 1 characters; at most 3 characters; matches ^a; format email; such as a, b",
		`{"items":{"enum":["a"]},"minItems":1,"maxItems":2,"uniqueItems":true,"default":[]}`: "at least 1 elements; at most 2 elements; all different; each one of a; default []",
	} {
		if got := newProperty(json.RawMessage(schema)).constraints(); got != want {
			t.Errorf("%s: got %q, want %q", schema, got, want)
		}
	}
}
