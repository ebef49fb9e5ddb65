package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/internal/oracle"
	"github.com/mcpwire/mcpwire/mcp"
)

// decode decodes text, encodes the result and expects the same JSON value. It ignores the order of
// members.
func decode[T any, P interface {
	*T
	mcp.Value
}](t *testing.T, text string) *T {
	t.Helper()
	v := new(T)
	if err := codec.Unmarshal([]byte(text), P(v)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	out, err := codec.Marshal(P(v))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	same(t, "on the way", text, string(out))
	return v
}

// same expects two texts to be the same JSON value.
func same(t *testing.T, when, want, got string) {
	t.Helper()
	if d := oracle.Diff([]byte(want), []byte(got)); d != "" {
		t.Errorf("%s: %s\nwant %s\ngot  %s", when, d, want, got)
	}
}

func encode(t *testing.T, v codec.Encoder) string {
	t.Helper()
	out, err := codec.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// faults lists the faults in an error of Validate, each as its pointer and keyword.
func faults(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var list jsonschema.Faults
	if !errors.As(err, &list) {
		t.Fatalf("want faults, got a %T: %[1]v", err)
	}
	var out []string
	for _, f := range list {
		out = append(out, f.Pointer+" "+keyword(f.Err))
	}
	return out
}

func keyword(err error) string {
	var broken *jsonschema.Error
	if errors.As(err, &broken) {
		return broken.Keyword
	}
	if errors.Is(err, codec.ErrType) {
		return "type"
	}
	return err.Error()
}

// Absent, null, empty and zero are distinct in every kind of member.
func TestPresence(t *testing.T) {
	tool := func(look func(*mcp.Tool) any) func(*testing.T, string) any {
		return func(t *testing.T, text string) any { return look(decode[mcp.Tool](t, text)) }
	}
	result := func(look func(*mcp.CallToolResult) any) func(*testing.T, string) any {
		return func(t *testing.T, text string) any { return look(decode[mcp.CallToolResult](t, text)) }
	}
	task := func(look func(*mcp.Task) any) func(*testing.T, string) any {
		return func(t *testing.T, text string) any { return look(decode[mcp.Task](t, text)) }
	}
	elicit := func(look func(*mcp.ElicitResult) any) func(*testing.T, string) any {
		return func(t *testing.T, text string) any { return look(decode[mcp.ElicitResult](t, text)) }
	}
	log := func(look func(*mcp.LoggingMessageNotificationParams) any) func(*testing.T, string) any {
		return func(t *testing.T, text string) any {
			return look(decode[mcp.LoggingMessageNotificationParams](t, text))
		}
	}
	progress := func(look func(*mcp.ProgressNotificationParams) any) func(*testing.T, string) any {
		return func(t *testing.T, text string) any { return look(decode[mcp.ProgressNotificationParams](t, text)) }
	}
	const rest = `"inputSchema":{"type":"object"},"name":"n"`
	const times = `{"createdAt":"c","lastUpdatedAt":"l","status":"working","taskId":"t"`
	for _, tt := range []struct {
		name string
		look func(t *testing.T, text string) any
		text string
		want any
	}{
		{"optional string absent", tool(func(x *mcp.Tool) any { return x.Title }), `{` + rest + `}`, (*string)(nil)},
		{"optional string empty", tool(func(x *mcp.Tool) any { return x.Title }), `{` + rest + `,"title":""}`, new("")},
		{"optional string null", tool(func(x *mcp.Tool) any { return x.Title }), `{` + rest + `,"title":null}`, (*string)(nil)},
		{"optional object absent", tool(func(x *mcp.Tool) any { return x.Annotations }), `{` + rest + `}`, (*mcp.ToolAnnotations)(nil)},
		{"optional object empty", tool(func(x *mcp.Tool) any { return x.Annotations }), `{"annotations":{},` + rest + `}`, &mcp.ToolAnnotations{}},
		{"optional list absent", tool(func(x *mcp.Tool) any { return x.Icons }), `{` + rest + `}`, []mcp.Icon(nil)},
		{"optional list empty", tool(func(x *mcp.Tool) any { return x.Icons }), `{"icons":[],` + rest + `}`, []mcp.Icon{}},
		{"optional list null", tool(func(x *mcp.Tool) any { return x.Icons }), `{` + rest + `,"icons":null}`, []mcp.Icon(nil)},
		{"optional boolean false", result(func(x *mcp.CallToolResult) any { return x.IsError }), `{"content":[],"isError":false}`, new(false)},
		{"optional boolean absent", result(func(x *mcp.CallToolResult) any { return x.IsError }), `{"content":[]}`, (*bool)(nil)},
		{"required list absent", result(func(x *mcp.CallToolResult) any { return x.Content }), `{}`, []mcp.ContentBlock(nil)},
		{"required list null", result(func(x *mcp.CallToolResult) any { return x.Content }), `{"content":null}`, []mcp.ContentBlock(nil)},
		{"required list empty", result(func(x *mcp.CallToolResult) any { return x.Content }), `{"content":[]}`, []mcp.ContentBlock{}},
		{"optional free value absent", result(func(x *mcp.CallToolResult) any { return x.StructuredContent }), `{"content":[]}`, json.RawMessage(nil)},
		{"optional free value null", result(func(x *mcp.CallToolResult) any { return string(x.StructuredContent) }), `{"content":[],"structuredContent":null}`, "null"},
		{"optional free value empty", result(func(x *mcp.CallToolResult) any { return string(x.StructuredContent) }), `{"content":[],"structuredContent":{}}`, "{}"},
		{"required free value null", log(func(x *mcp.LoggingMessageNotificationParams) any { return string(x.Data) }), `{"data":null,"level":"info"}`, "null"},
		{"required free value absent", log(func(x *mcp.LoggingMessageNotificationParams) any { return x.Data }), `{"level":"info"}`, json.RawMessage(nil)},
		{"required string absent", log(func(x *mcp.LoggingMessageNotificationParams) any { return x.Level }), `{"data":1}`, mcp.LoggingLevel("")},
		{"required string empty", log(func(x *mcp.LoggingMessageNotificationParams) any { return x.Level }), `{"data":1,"level":""}`, mcp.LoggingLevel("")},
		{"optional map absent", elicit(func(x *mcp.ElicitResult) any { return x.Content }), `{"action":"accept"}`, map[string]mcp.ElicitResultContentValue(nil)},
		{"optional map empty", elicit(func(x *mcp.ElicitResult) any { return x.Content }), `{"action":"accept","content":{}}`, map[string]mcp.ElicitResultContentValue{}},
		{"required integer or null: a number", task(func(x *mcp.Task) any { return x.TTL }), times + `,"ttl":60000}`, new(int64(60000))},
		{"required integer or null: zero", task(func(x *mcp.Task) any { return x.TTL }), times + `,"ttl":0}`, new(int64(0))},
		{"required integer or null: null", task(func(x *mcp.Task) any { return x.TTL }), times + `,"ttl":null}`, (*int64)(nil)},
		{"required integer or null: absent", task(func(x *mcp.Task) any { return x.TTL }), times + `}`, (*int64)(nil)},
		{"optional integer absent", task(func(x *mcp.Task) any { return x.PollInterval }), times + `,"ttl":null}`, (*int64)(nil)},
		{"required number absent", progress(func(x *mcp.ProgressNotificationParams) any { return x.Progress }), `{"progressToken":1}`, 0.0},
		{"required number zero", progress(func(x *mcp.ProgressNotificationParams) any { return x.Progress }), `{"progress":0,"progressToken":1}`, 0.0},
		{"required string or integer absent", progress(func(x *mcp.ProgressNotificationParams) any { return x.ProgressToken }), `{"progress":0}`, mcp.ProgressToken{}},
		{"required string or integer empty", progress(func(x *mcp.ProgressNotificationParams) any { return x.ProgressToken }), `{"progress":0,"progressToken":""}`, codec.StringScalar("")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.look(t, tt.text)); diff != "" {
				t.Errorf("field (-want +got):\n%s", diff)
			}
		})
	}
}

// The zero value of a struct is written with every required member, a list as [].
func TestZeroValuesAreWrittenInFull(t *testing.T) {
	for _, tt := range []struct {
		v    mcp.Value
		want string
	}{
		{&mcp.CallToolResult{}, `{"content":[]}`},
		{&mcp.Task{}, `{"createdAt":"","lastUpdatedAt":"","status":"","taskId":"","ttl":null}`},
		{&mcp.CreateTaskResult{}, `{"task":{"createdAt":"","lastUpdatedAt":"","status":"","taskId":"","ttl":null}}`},
		{&mcp.TextContent{}, `{"text":"","type":"text"}`},
		{&mcp.ListToolsResult{}, `{"tools":[]}`},
		{&mcp.Annotations{}, `{}`},
	} {
		same(t, fmt.Sprintf("%T", tt.v), tt.want, encode(t, tt.v))
	}
	// A required union without a value is an error.
	for _, v := range []mcp.Value{&mcp.ProgressNotificationParams{}, &mcp.CompleteRequestParams{}} {
		if out, err := codec.Marshal(v); !errors.Is(err, codec.ErrNoValue) {
			t.Errorf("%T: want ErrNoValue, got %s, %v", v, out, err)
		}
	}
}

// A required member that was missing stays missing until it is set.
func TestRequiredMembersMissing(t *testing.T) {
	v := decode[mcp.Task](t, `{"taskId":"t","x":1}`)
	want := []string{" required", " required", " required", " required"}
	if diff := cmp.Diff(want, faults(t, v.Validate(mcp.Revision20251125))); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	v.Status = mcp.TaskStatusWorking
	v.TTL = new(int64(5))
	same(t, "after setting two", `{"status":"working","taskId":"t","ttl":5,"x":1}`, encode(t, v))

	c := decode[mcp.TextContent](t, `{"text":"a"}`) // no type, which is constant
	if diff := cmp.Diff([]string{" required"}, faults(t, c.Validate(mcp.Revision20250618))); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	(*wire.Extra)(&c.Extra).SetAbsent(0)
	same(t, "with everything present", `{"text":"a","type":"text"}`, encode(t, c))
}

// A field that is set replaces the null or the wrong value that was kept.
func TestSettingFieldReplacesKeptValue(t *testing.T) {
	v := decode[mcp.CallToolResult](t, `{"content":null,"x":[1, 2]}`)
	v.Content = []mcp.ContentBlock{&mcp.TextContent{Text: "a"}}
	same(t, "after setting it", `{"content":[{"text":"a","type":"text"}],"x":[1, 2]}`, encode(t, v))
}

// A constant member with another value keeps that value, and Validate reports it.
func TestDecodeKeepsDifferentConstant(t *testing.T) {
	for _, text := range []string{
		`{"text":"a","type":"image"}`, `{"text":"a","type":5}`, `{"text":"a","type":null}`, `{"text":"a","type":{"x":1}}`,
	} {
		v := decode[mcp.TextContent](t, text)
		if got := faults(t, v.Validate(mcp.Revision20251125)); len(got) != 1 || got[0] != "/type const" && got[0] != "/type type" {
			t.Errorf("%s: faults %q, want one at /type", text, got)
		}
	}
	decode[mcp.TextContent](t, `{"text":"a","type":"text"}`)
	if v := decode[mcp.TextContent](t, `{"text":"a","type":"text"}`); !v.Extra.IsZero() {
		t.Error("a constant with its value is kept beside the fields")
	}
}

// Unknown members keep their order and their text at every level.
func TestUnknownMembersSurvive(t *testing.T) {
	const text = `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t","a":1},"example.com/x":{"y": [1.50]}},` +
		`"content":[{"annotations":{"priority":0.5,"b":null},"text":"a","type":"text","c":"\u00e9"},` +
		`{"resource":{"text":"r","uri":"u","d":{}},"type":"resource","e":[]}],"z":1,"y":2,"x":12345678901234567890.123}`
	v := decode[mcp.CallToolResult](t, text)
	var names []string
	for name := range v.Extra.All() {
		names = append(names, name)
	}
	if diff := cmp.Diff([]string{"z", "y", "x"}, names); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if raw, _ := v.Extra.Get("x"); string(raw) != "12345678901234567890.123" {
		t.Errorf("x is %s", raw)
	}
	for _, as := range []string{`"example.com/x":{"y": [1.50]}`, `"c":"\u00e9"`, `"z":1,"y":2,"x":12345678901234567890.123}`} {
		if out := encode(t, v); !strings.Contains(out, as) {
			t.Errorf("%s is not in %s as it was", as, out)
		}
	}
	v.Extra.Set("w", json.RawMessage(`true`))
	v.Extra.Delete("y")
	want := text[:len(text)-len(`"y":2,"x":12345678901234567890.123}`)] + `"x":12345678901234567890.123,"w":true}`
	same(t, "after changing some", want, encode(t, v))
}

// A member that some revision does not define may have any value there. A value that does not fit
// the field is kept, and only the revisions that define the member report it.
func TestDecodeKeepsValuesOfOpenMembers(t *testing.T) {
	v := decode[mcp.Tool](t, `{"inputSchema":{"type":"object"},"name":"n","outputSchema":{"type":["string","null"]}}`)
	if v.OutputSchema.Type != nil {
		t.Errorf("type is %q", *v.OutputSchema.Type)
	}
	if err := v.Validate(mcp.Revision20260728); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"/outputSchema/type type"}, faults(t, v.Validate(mcp.Revision20251125))); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	v.OutputSchema.Type = new("object")
	same(t, "after setting it", `{"inputSchema":{"type":"object"},"name":"n","outputSchema":{"type":"object"}}`, encode(t, v))
	// Malformed text is rejected there, too.
	for _, text := range []string{`{"name":"n","title":"\ud800"}`, `{"name":"n","execution":{"taskSupport":"a","taskSupport":"b"}}`, `{"name":"n","title":nul}`} {
		if err := codec.Unmarshal([]byte(text), new(mcp.Tool)); codec.Code(err) != -32700 {
			t.Errorf("%s: want malformed text, got %v", text, err)
		}
	}
}

// Numbers keep their exact text, and fields have their value.
func TestNumbersAreExact(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int64 // PollInterval
		same bool  // the text itself comes back, not just the number
	}{
		{"60000", 60000, true},
		{"6e4", 60000, false},
		{"60000.0", 60000, false},
		{"-0", 0, false},
		{"9223372036854775807", 1<<63 - 1, true},
		{"-9223372036854775808", -1 << 63, true},
		{"9223372036854775808", 1<<63 - 1, true},
		{"-9223372036854775809", -1 << 63, true},
		{"1e30", 1<<63 - 1, true},
		{"123456789012345678901234567890", 1<<63 - 1, true},
	} {
		text := `{"createdAt":"","lastUpdatedAt":"","pollInterval":` + tt.text + `,"status":"","taskId":"","ttl":` + tt.text + `}`
		var v mcp.Task
		if err := codec.Unmarshal([]byte(text), &v); err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if *v.PollInterval != tt.want || *v.TTL != tt.want {
			t.Errorf("%s: got %d and %d, want %d", tt.text, *v.PollInterval, *v.TTL, tt.want)
		}
		out := encode(t, &v)
		same(t, tt.text, text, out)
		if tt.same && !strings.Contains(out, `"pollInterval":`+tt.text+`,`) {
			t.Errorf("%s: became %s", tt.text, out)
		}
		v.PollInterval, v.TTL = new(int64(7)), new(int64(7))
		same(t, "after setting another value", `{"createdAt":"","lastUpdatedAt":"","pollInterval":7,"status":"","taskId":"","ttl":7}`, encode(t, &v))
	}
	for _, text := range []string{"0.5", "0.1", "3.141592653589793238462643383279", "1e400", "0.50", "1E-2", "12345678.90123456789", "5e-324", "1.7976931348623157e308"} {
		in := `{"progress":` + text + `,"progressToken":1}`
		var v mcp.ProgressNotificationParams
		if err := codec.Unmarshal([]byte(in), &v); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if text != "1e400" {
			var want float64
			if err := json.Unmarshal([]byte(text), &want); err != nil || v.Progress != want {
				t.Errorf("%s: got %v, want %v", text, v.Progress, want)
			}
		}
		same(t, text, in, encode(t, &v))
	}
	for _, text := range []string{"1.5", `"5"`, "true", "1e-1"} {
		err := codec.Unmarshal([]byte(`{"pollInterval":`+text+`}`), new(mcp.Task))
		var e *codec.Error
		if !errors.As(err, &e) || e.Pointer != "/pollInterval" || e.Offset != 16 {
			t.Errorf("%s: want an error at /pollInterval, offset 16, got %v", text, err)
		}
	}
}

// Tokens and ids keep their JSON type and their text.
func TestTokensKeepTheirText(t *testing.T) {
	for _, text := range []string{`"5"`, `5`, `5.0`, `5e0`, `""`, `99999999999999999999`, `"é\u0000"`} {
		var v mcp.ProgressNotificationParams
		in := `{"progress":1,"progressToken":` + text + `}`
		if err := codec.Unmarshal([]byte(in), &v); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := encode(t, &v); !strings.Contains(got, `"progressToken":`+text) {
			t.Errorf("%s became %s", in, got)
		}
	}
	if codec.StringScalar("5") == codec.IntScalar(5) {
		t.Error(`"5" equals 5`)
	}
}

// The keys of _meta that the protocol defines are fields. All other keys are in Extra.
func TestMetadataKeys(t *testing.T) {
	req := decode[mcp.CallToolRequestParams](t, `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"},"progressToken":"p","example.com/k":[1]},"name":"n"}`)
	want := &mcp.RequestMetaObject{
		RelatedTask:   &mcp.RelatedTaskMetadata{TaskID: "a"},
		ProgressToken: codec.StringScalar("p"),
	}
	want.Extra.Set("example.com/k", json.RawMessage(`[1]`))
	if diff := cmp.Diff(want, req.Meta); diff != "" {
		t.Errorf("of a request (-want +got):\n%s", diff)
	}
	res := decode[mcp.CreateTaskResult](t, `{"_meta":{"io.modelcontextprotocol/model-immediate-response":"wait"},"task":{"createdAt":"c","lastUpdatedAt":"l","status":"working","taskId":"t","ttl":null}}`)
	if diff := cmp.Diff(&mcp.ResultMetaObject{ModelImmediateResponse: new("wait")}, res.Meta); diff != "" {
		t.Errorf("of a result (-want +got):\n%s", diff)
	}
	note := decode[mcp.TaskStatusNotificationParams](t, `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}},"createdAt":"c","lastUpdatedAt":"l","status":"working","taskId":"t","ttl":1}`)
	if note.Meta.RelatedTask.TaskID != "a" {
		t.Errorf("of a notification: %+v", note.Meta)
	}
	if err := req.Validate(mcp.Revision20251125); err != nil {
		t.Error(err)
	}
}

// An unknown value of an enumeration is kept, and Validate reports it.
func TestUnknownEnumerationValues(t *testing.T) {
	v := decode[mcp.Task](t, `{"createdAt":"c","lastUpdatedAt":"l","status":"paused","taskId":"t","ttl":null}`)
	if v.Status != "paused" {
		t.Errorf("status is %q", v.Status)
	}
	if diff := cmp.Diff([]string{"/status enum"}, faults(t, v.Validate(mcp.Revision20251125))); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	m := decode[mcp.SamplingMessage](t, `{"content":{"text":"a","type":"text"},"role":"system"}`)
	if diff := cmp.Diff([]string{"/role enum"}, faults(t, m.Validate(mcp.Revision20251125))); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// IsZero returns false if a field or a kept member is set.
func TestIsZero(t *testing.T) {
	if v := new(mcp.ClientCapabilities); !v.IsZero() {
		t.Error("an empty struct is not zero")
	}
	kept := decode[mcp.ClientCapabilities](t, `{"x":1}`)
	for _, v := range []*mcp.ClientCapabilities{{Experimental: json.RawMessage(`{}`)}, {Roots: new(mcp.ClientCapabilitiesRoots)}, kept} {
		if v.IsZero() {
			t.Errorf("%s is zero", encode(t, v))
		}
	}
	if v := decode[mcp.Task](t, `{}`); v.IsZero() {
		t.Error("a task that lacks its required members is zero: it would not come back as it was")
	}
}

// Values can be compared with go-cmp without options.
func TestValuesCompare(t *testing.T) {
	const text = `{"_meta":{"a":1},"content":[{"text":"a","type":"text"},{"type":"new","x":1}],"structuredContent":{"n":1e30}}`
	a, b := decode[mcp.CallToolResult](t, text), decode[mcp.CallToolResult](t, text)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("the same text twice (-first +second):\n%s", diff)
	}
	for _, change := range []func(*mcp.CallToolResult){
		func(v *mcp.CallToolResult) { v.Content[0].(*mcp.TextContent).Text = "b" },
		func(v *mcp.CallToolResult) { v.Meta.Extra.Set("a", json.RawMessage(`2`)) },
		func(v *mcp.CallToolResult) { v.IsError = new(false) },
		func(v *mcp.CallToolResult) { v.Content = v.Content[:1] },
	} {
		c := decode[mcp.CallToolResult](t, text)
		if change(c); cmp.Equal(a, c) {
			t.Errorf("no difference to %s", encode(t, c))
		}
	}
}
