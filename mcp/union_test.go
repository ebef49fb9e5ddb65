package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
)

// unwrap decodes text as a definition that is not a struct.
func unwrap(t *testing.T, definition, text string) any {
	t.Helper()
	v := mcp.New(definition)
	if err := codec.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%s: %s: %v", definition, text, err)
	}
	same(t, definition, text, encode(t, v))
	if h, ok := v.(interface{ Unwrap() any }); ok {
		return h.Unwrap()
	}
	return v
}

// Each value of a union is decoded as the variant that the schema intends. A value that matches no
// variant is kept unchanged.
func TestVariants(t *testing.T) {
	for _, tt := range []struct {
		definition, text, want string
	}{
		{"ContentBlock", `{"type":"text","text":"a"}`, "*mcp.TextContent"},
		{"ContentBlock", `{"type":"image","data":"","mimeType":"image/png"}`, "*mcp.ImageContent"},
		{"ContentBlock", `{"type":"audio","data":"","mimeType":"audio/wav"}`, "*mcp.AudioContent"},
		{"ContentBlock", `{"type":"resource","resource":{"uri":"u","text":"a"}}`, "*mcp.EmbeddedResource"},
		{"ContentBlock", `{"type":"resource_link","name":"n","uri":"u"}`, "*mcp.ResourceLink"},
		{"ContentBlock", `{"type":"hologram","data":[1, 2]}`, "*mcp.Unknown"},
		{"ContentBlock", `{"text":"a"}`, "*mcp.Unknown"},
		{"ContentBlock", `{"type":5}`, "*mcp.Unknown"},
		{"ContentBlock", `"text"`, "*mcp.Unknown"},
		{"ContentBlock", `null`, "*mcp.Unknown"},
		{"ContentBlock", `[]`, "*mcp.Unknown"},
		{"SamplingMessageContentBlock", `{"type":"tool_use","id":"1","name":"n","input":{}}`, "*mcp.ToolUseContent"},
		{"SamplingMessageContentBlock", `{"type":"tool_result","toolUseId":"1","content":[]}`, "*mcp.ToolResultContent"},

		{"PrimitiveSchemaDefinition", `{"type":"string"}`, "*mcp.StringSchema"},
		{"PrimitiveSchemaDefinition", `{"type":"string","format":"email"}`, "*mcp.StringSchema"},
		{"PrimitiveSchemaDefinition", `{"type":"number"}`, "*mcp.NumberSchema"},
		{"PrimitiveSchemaDefinition", `{"type":"integer","minimum":1}`, "*mcp.NumberSchema"},
		{"PrimitiveSchemaDefinition", `{"type":"boolean"}`, "*mcp.BooleanSchema"},
		// Two definitions admit an enumeration without names. The untitled one is chosen.
		{"PrimitiveSchemaDefinition", `{"type":"string","enum":["a"]}`, "*mcp.UntitledSingleSelectEnumSchema"},
		{"PrimitiveSchemaDefinition", `{"type":"string","enum":["a"],"default":"a"}`, "*mcp.UntitledSingleSelectEnumSchema"},
		{"PrimitiveSchemaDefinition", `{"type":"string","enum":["a"],"enumNames":["A"]}`, "*mcp.LegacyTitledEnumSchema"},
		{"PrimitiveSchemaDefinition", `{"type":"string","oneOf":[{"const":"a","title":"A"}]}`, "*mcp.TitledSingleSelectEnumSchema"},
		{"PrimitiveSchemaDefinition", `{"type":"array","items":{"type":"string","enum":["a"]}}`, "*mcp.UntitledMultiSelectEnumSchema"},
		{"PrimitiveSchemaDefinition", `{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}`, "*mcp.TitledMultiSelectEnumSchema"},
		{"PrimitiveSchemaDefinition", `{"type":"array","items":{}}`, "*mcp.Unknown"},
		{"PrimitiveSchemaDefinition", `{"type":"object"}`, "*mcp.Unknown"},
		{"EnumSchema", `{"type":"string","enum":["a"],"enumNames":["A"]}`, "*mcp.LegacyTitledEnumSchema"},
		{"EnumSchema", `{"type":"string","enum":["a"]}`, "*mcp.UntitledSingleSelectEnumSchema"},
		{"EnumSchema", `{"type":"string"}`, "*mcp.Unknown"},

		{"ElicitRequestParams", `{"message":"m","requestedSchema":{"type":"object","properties":{}}}`, "*mcp.ElicitRequestFormParams"},
		{"ElicitRequestParams", `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}`, "*mcp.ElicitRequestFormParams"},
		{"ElicitRequestParams", `{"mode":"url","message":"m","url":"u","elicitationId":"e"}`, "*mcp.ElicitRequestURLParams"},
		{"ElicitRequestParams", `{"mode":"smell","message":"m"}`, "*mcp.Unknown"},

		// A member selects a variant only if its value has a type that the variant admits.
		{"ResourceContents", `{"uri":"u"}`, "*mcp.ResourceContents"},
		{"EnumSchema", `{"type":"string","enum":["a"],"enumNames":null}`, "*mcp.UntitledSingleSelectEnumSchema"},
		{"EnumSchema", `{"type":"string","enum":["a"],"oneOf":"x"}`, "*mcp.UntitledSingleSelectEnumSchema"},

		{"RequestId", `"a"`, "codec.Scalar"},
		{"ProgressToken", `5`, "codec.Scalar"},
	} {
		t.Run(tt.definition+" "+tt.text, func(t *testing.T) {
			if got := fmt.Sprintf("%T", unwrap(t, tt.definition, tt.text)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// The members of a result determine its type.
func TestCallToolOutcome(t *testing.T) {
	const task = `{"createdAt":"c","lastUpdatedAt":"l","status":"working","taskId":"t","ttl":null}`
	for _, tt := range []struct{ text, want string }{
		{`{"content":[]}`, "*mcp.CallToolResult"},
		{`{"task":null,"content":[]}`, "*mcp.CallToolResult"},
		{`{"task":5,"content":[]}`, "*mcp.CallToolResult"},
		{`{"content":[],"task":null}`, "*mcp.CallToolResult"},
		{`{"content":[],"resultType":"complete"}`, "*mcp.CallToolResult"},
		{`{"content":[],"isError":true,"x":1}`, "*mcp.CallToolResult"},
		{`{}`, "*mcp.CallToolResult"},
		{`{"task":` + task + `}`, "*mcp.CreateTaskResult"},
		{`{"_meta":{"io.modelcontextprotocol/model-immediate-response":"wait"},"task":` + task + `}`, "*mcp.CreateTaskResult"},
		{`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}`, "*mcp.InputRequiredResult"},
		{`{"resultType":"input_required"}`, "*mcp.InputRequiredResult"},
	} {
		v, err := mcp.DecodeResult("tools/call", []byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if got := fmt.Sprintf("%T", v); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.text, got, tt.want)
		}
		same(t, "outcome", tt.text, encode(t, v))
	}
}

// The type of resource contents follows from the member, text or blob, that has a value of the
// right type. A null or a value of another type in the other member is ignored.
func TestResourceContentsByTheMemberWithAValue(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`{"uri":"u","blob":"AA==","text":null}`, "*mcp.BlobResourceContents"},
		{`{"uri":"u","text":null,"blob":"AA==","mimeType":null}`, "*mcp.BlobResourceContents"},
		{`{"uri":"u","blob":"AA==","text":5}`, "*mcp.BlobResourceContents"},
		{`{"uri":"u","blob":null,"text":"x"}`, "*mcp.TextResourceContents"},
		{`{"uri":"u","blob":[],"text":"x"}`, "*mcp.TextResourceContents"},
		{`{"uri":"u","blob":null,"text":null}`, "*mcp.Unknown"},
	} {
		v := decode[mcp.ReadResourceResult](t, `{"contents":[`+tt.text+`]}`)
		if got := fmt.Sprintf("%T", v.Contents[0]); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.text, got, tt.want)
		}
	}
}

// The content of a sampled message is one block or a list of blocks, and keeps its form.
func TestOneOrMany(t *testing.T) {
	text := mcp.SamplingMessageContentBlock(&mcp.TextContent{Text: "a"})
	for _, tt := range []struct {
		json string
		want mcp.SamplingContent
	}{
		{`{"type":"text","text":"a"}`, mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{text}}},
		{`[{"type":"text","text":"a"}]`, mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{text}, List: true}},
		{`[]`, mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{}, List: true}},
		{`[{"type":"text","text":"a"},{"type":"text","text":"a"}]`, mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{text, text}, List: true}},
	} {
		v := decode[mcp.SamplingMessage](t, `{"role":"user","content":`+tt.json+`}`)
		if diff := cmp.Diff(tt.want, v.Content); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.json, diff)
		}
	}
	built := mcp.SamplingMessage{Role: mcp.RoleUser}
	same(t, "nothing", `{"role":"user","content":[]}`, encode(t, &built))
	built.Content.Items = []mcp.SamplingMessageContentBlock{text, text}
	same(t, "two items", `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"a"}]}`, encode(t, &built))
}

// The values of a submitted form are strings, numbers, booleans and lists of strings. Other values
// are kept.
func TestElicitResultContent(t *testing.T) {
	v := decode[mcp.ElicitResult](t, `{"action":"accept","content":{"s":"a","n":-7,"i":6e4,"b":true,"l":["x"],"o":{"y":1},"z":null}}`)
	got := map[string]string{}
	for name, value := range v.Content {
		got[name] = fmt.Sprintf("%T", value)
	}
	const scalar, list, unknown = "*mcp.ElicitResultContentValueScalar", "*mcp.ElicitResultContentValueList", "*mcp.Unknown"
	want := map[string]string{"s": scalar, "n": scalar, "i": scalar, "b": scalar, "l": list, "o": unknown, "z": unknown}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n, ok := v.Content["i"].(*mcp.ElicitResultContentValueScalar).Value.Int(); !ok || n != 60000 {
		t.Errorf("i is %v, %v", n, ok)
	}
	if diff := cmp.Diff([]string{"/content/o type", "/content/z type"}, faults(t, v.Validate(mcp.Revision20251125))); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/content/l type", "/content/o type", "/content/z type"}, faults(t, v.Validate(mcp.Revision20250618))); diff != "" {
		t.Errorf("faults in 2025-06-18 (-want +got):\n%s", diff)
	}
}

// An unknown variant is forwarded unchanged, except for line breaks, and no revision accepts it.
func TestUnknownVariants(t *testing.T) {
	const text = `{"type":"hologram","data": [1.50, "é"],"x":{"b":null}}`
	v := decode[mcp.PromptMessage](t, `{"role":"user","content":`+text+`}`)
	u, ok := v.Content.(*mcp.Unknown)
	if !ok || string(u.Raw) != text {
		t.Fatalf("got %T %s", v.Content, u.Raw)
	}
	if u.Validate(mcp.Revision20251125) == nil {
		t.Error("an unknown variant validates")
	}
	if got := faults(t, v.Validate(mcp.Revision20251125)); len(got) == 0 {
		t.Error("a message with an unknown variant validates")
	}
	built := mcp.PromptMessage{Role: mcp.RoleUser, Content: &mcp.Unknown{Raw: json.RawMessage(text)}}
	if diff := cmp.Diff(v, &built); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := codec.Marshal(&mcp.PromptMessage{Content: &mcp.Unknown{Raw: json.RawMessage(`{"a":}`)}}); err == nil {
		t.Error("malformed raw text is written")
	}
}

// A value with the member of a narrow variant is of that variant, even if the member is wrong and a
// wide variant would admit it as an unknown one.
func TestWrongMemberOfNarrowVariantIsRefused(t *testing.T) {
	for text, pointer := range map[string]string{
		`{"type":"string","enum":[1]}`:                          "/enum/0",
		`{"type":"string","enum":"","enumNames":["a"]}`:         "/enum",
		`{"type":"string","enum":["a"],"enumNames":[{}]}`:       "/enumNames/0",
		`{"type":"string","oneOf":[{"const":1,"title":"One"}]}`: "/oneOf/0/const",
	} {
		_, err := codec.UnmarshalFunc([]byte(text), mcp.DecodePrimitiveSchemaDefinition)
		if e, ok := errors.AsType[*codec.Error](err); !ok || e.Pointer != pointer || codec.Code(err) != -32602 {
			t.Errorf("%s: got %v, want an error at %s", text, err, pointer)
		}
	}
}
