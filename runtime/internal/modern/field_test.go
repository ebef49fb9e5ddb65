package modern_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// Proves M-HDR-19 and M-HDR-20.
func TestFieldsOfASchema(t *testing.T) {
	annotated := func(kind string) string { return `{"type":"` + kind + `","x-mcp-header":"A"}` }
	for schema, want := range map[string]string{
		`{"type":"object"}`: "[]",
		`{"properties":{"b":` + annotated("string") + `,"a":{"type":"integer","x-mcp-header":"x-Y_z~1"}}}`:                                          "[{Mcp-Param-X-Y_z~1 [a]} {Mcp-Param-A [b]}]",
		`{"properties":{"a":{"properties":{"b":{"properties":{"c":` + annotated("boolean") + `}}}}}}`:                                               "[{Mcp-Param-A [a b c]}]",
		`{"properties":{"a":{"type":"string","x-m\u0063p-header":"A"}}}`:                                                                            "[{Mcp-Param-A [a]}]",
		`{"properties":{"a":{"type":"integer","x-mcp-header":"A","minimum":-9007199254740991,"maximum":9007199254740991}}}`:                         "[{Mcp-Param-A [a]}]",
		`{"properties":{"x-mcp-header":{"type":"string"}},"default":{"x-mcp-header":1},"enum":[{"x-mcp-header":1}],"const":{"x-mcp-header":"a b"}}`: "[]",
		`{"x-mcp-header":"A","type":"string"}`:                                                                                      "properties alone",
		`{"items":` + annotated("string") + `}`:                                                                                     "properties alone",
		`{"properties":{"a":{"items":{"properties":{"b":` + annotated("string") + `}}}}}`:                                           "properties alone",
		`{"properties":{"a":{"oneOf":[` + annotated("string") + `]}}}`:                                                              "properties alone",
		`{"properties":{"a":{"anyOf":[{"properties":{"b":` + annotated("string") + `}}]}}}`:                                         "properties alone",
		`{"allOf":[{"properties":{"b":` + annotated("string") + `}}]}`:                                                              "properties alone",
		`{"if":{"properties":{"b":` + annotated("string") + `}}}`:                                                                   "properties alone",
		`{"not":` + annotated("string") + `}`:                                                                                       "properties alone",
		`{"properties":{"a":{"$ref":"#/$defs/d"}},"$defs":{"d":` + annotated("string") + `}}`:                                       "properties alone",
		`{"definitions":{"d":` + annotated("string") + `}}`:                                                                         "properties alone",
		`{"patternProperties":{"^a":` + annotated("string") + `}}`:                                                                  "properties alone",
		`{"additionalProperties":` + annotated("string") + `}`:                                                                      "properties alone",
		`{"properties":{"a":` + annotated("number") + `}}`:                                                                          "of type number",
		`{"properties":{"a":` + annotated("array") + `}}`:                                                                           "of type array",
		`{"properties":{"a":` + annotated("object") + `}}`:                                                                          "of type object",
		`{"properties":{"a":{"type":["string","null"],"x-mcp-header":"A"}}}`:                                                        "of type",
		`{"properties":{"a":{"x-mcp-header":"A"}}}`:                                                                                 "of type <nil>",
		`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`:                                                                  "not a token",
		`{"properties":{"a":{"type":"string","x-mcp-header":1}}}`:                                                                   "not a token",
		`{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`:                                                               "not a token",
		`{"properties":{"a":{"type":"string","x-mcp-header":"a\r\nb"}}}`:                                                            "not a token",
		`{"properties":{"a":{"type":"string","x-mcp-header":"é"}}}`:                                                                 "not a token",
		`{"properties":{"a":{"type":"string","x-mcp-header":"a:"}}}`:                                                                "not a token",
		`{"properties":{"a":{"type":"string","x-mcp-header":"Aa"},"b":{"properties":{"c":{"type":"string","x-mcp-header":"aA"}}}}}`: "not unique",
		`{"properties":{"a":{"type":"integer","x-mcp-header":"A","maximum":9007199254740992}}}`:                                     "maximum 9007199254740992",
		`{"properties":{"a":{"type":"integer","x-mcp-header":"A","minimum":-1e400}}}`:                                               "minimum -1e400",
	} {
		fields, err := modern.Fields(json.RawMessage(schema))
		got := fmt.Sprint(fields)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: got %s, want %s", schema, got, want)
		}
	}
}

// Proves M-HDR-07, M-HDR-08, M-HDR-09, M-HDR-15, M-HDR-16, M-HDR-17 and M-HDR-18.
func TestFieldsAreComparedWithArguments(t *testing.T) {
	f := modern.Field{Header: "Mcp-Param-A", Path: []string{"x", "a"}}
	const missing, none, differs = "the field is missing", "the request has no such argument", "the field differs from the argument"
	for _, test := range []struct{ argument, header, want string }{
		{`"us west"`, "us west", ""}, {`"us"`, "  us\t", ""}, {`"us"`, "US", differs}, {`"us"`, "<none>", missing}, {`""`, "", ""}, {`""`, "<none>", missing},
		{`"\u0041"`, "A", ""}, {`"Hello"`, "=?base64?SGVsbG8=?=", ""}, {`"Hello"`, "=?base64?SGVsbG8?=", "invalid Base64"},
		{`"Hello"`, "=?base64?SGVs!!!bG8=?=", "invalid Base64"}, {`"SGVsbG8="`, "SGVsbG8=", ""}, {`"=?base64?SGVsbG8="`, "=?base64?SGVsbG8=", ""},
		{`"=?BASE64?SGVsbG8=?="`, "=?BASE64?SGVsbG8=?=", ""}, {`"é"`, "é", "a character is not visible ASCII, space or tab"}, {`"é"`, "=?base64?w6k=?=", ""},
		{`42`, "42", ""}, {`42`, "42.0", ""}, {`42.0`, "42", ""}, {`4.2e1`, "42", ""}, {`-7`, "-7", ""}, {`42`, "43", differs}, {`42`, "", differs}, {`42`, "x", differs},
		{`42`, "0x2a", differs}, {`9007199254740993`, "9007199254740992", differs}, {`1e400`, "1e400", ""}, {`1e400`, "1e401", differs}, {`1.5`, "1.5", ""},
		{`true`, "true", ""}, {`false`, "true", differs}, {`true`, "True", differs}, {`true`, "1", differs},
		{`null`, "<none>", ""}, {`null`, "null", none}, {`{}`, "<none>", ""}, {`[]`, "x", none}, {``, "<none>", ""}, {``, "x", none},
	} {
		arguments := `{"a":"other","x":{"b":1}}`
		if test.argument != "" {
			arguments = `{"a":"other","x":{"b":1,"a":` + test.argument + `}}`
		}
		header := map[string][]string{"Mcp-Param-B": {"other"}}
		if test.header != "<none>" {
			header["Mcp-Param-A"] = []string{test.header}
		}
		got := ""
		if err := f.Check(json.RawMessage(arguments), header); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s and %q (-want +got):\n%s", test.argument, test.header, diff)
		}
	}
	if err := f.Check(json.RawMessage(`{"x":{"a":"b"}}`), map[string][]string{"Mcp-Param-A": {"b", "b"}}); err == nil {
		t.Error("a field twice was accepted")
	}
	if err := f.Check(json.RawMessage(`{"x":1}`), nil); err != nil {
		t.Errorf("without the object: %v", err)
	}
}
