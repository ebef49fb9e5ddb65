package mcp_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/internal/hostile/refusal"
	"github.com/mcpwire/mcpwire/internal/oracle"
	"github.com/mcpwire/mcpwire/mcp"
)

// decodePayload decodes a payload alone.
func decodePayload(p hostile.Payload, text string, opts ...codec.Option) (mcp.Value, error) {
	if p.IsResult() {
		return mcp.DecodeResult(p.Method, []byte(text), opts...)
	}
	return mcp.DecodeParams(p.Method, []byte(text), opts...)
}

// validatePayload checks the text of a payload against its revision.
func validatePayload(p hostile.Payload) error {
	if p.IsResult() {
		return mcp.Validate(mcp.Revision(p.Rev), p.Def, []byte(p.Text))
	}
	return mcp.ValidateParams(mcp.Revision(p.Rev), p.Method, []byte(p.Text))
}

// decoders are the ways to decode a whole message with its payload.
var decoders = map[string]func(p hostile.Payload, text string, opts ...codec.Option) (jsonrpc.Message, error){
	"by its kind": func(p hostile.Payload, text string, opts ...codec.Option) (jsonrpc.Message, error) {
		if p.IsResult() {
			return mcp.DecodeResponse(p.Method, []byte(text), opts...)
		}
		return mcp.DecodeRequest([]byte(text), opts...)
	},
	"in a conversation": func(p hostile.Payload, text string, opts ...codec.Option) (jsonrpc.Message, error) {
		var talk mcp.Conversation
		talk.Expect(codec.IntScalar(1), p.Method)
		m, err := talk.Decode([]byte(text), opts...)
		return m.Message, err
	},
}

func TestDecodeHostilePayloads(t *testing.T) {
	for _, class := range hostile.Payloads() {
		for _, p := range class.Inputs {
			t.Run(class.Name+"/"+p.Name, func(t *testing.T) {
				v, err := decodePayload(p, p.Text)
				if err := refusal.Check(p.Refusal, p.Text, err); err != nil {
					t.Fatalf("%s: %v", p.Text, err)
				}
				for name, decode := range decoders {
					for _, late := range []bool{false, true} {
						text, before := p.Message(late)
						m, err := decode(p, text)
						want := p.Refusal
						if want.Rule != hostile.Taken {
							want.Offset += before
							want.Pointer = map[bool]string{false: "/params", true: "/result"}[p.IsResult()] + want.Pointer
						}
						if err := refusal.Check(want, text, err); err != nil {
							t.Errorf("%s, %s: %v", name, text, err)
						} else if p.Rule == hostile.Taken {
							same(t, name, text, encode(t, &m))
							if diff := cmp.Diff(codec.Value(v), m.Payload); diff != "" {
								t.Errorf("%s, not as alone (-alone +message):\n%s", text, diff)
							}
						}
					}
				}
				if p.Rule != hostile.Taken {
					return
				}
				same(t, "alone", p.Text, encode(t, v))
				checkFaults(t, p, validatePayload(p))
				if _, ok := v.(*mcp.Unknown); ok {
					return // of no revision
				}
				if diff := cmp.Diff(faults(t, validatePayload(p)), faults(t, v.Validate(mcp.Revision(p.Rev)))); diff != "" {
					t.Errorf("%s: the value has other faults than the text (-text +value):\n%s", p.Text, diff)
				}
			})
		}
	}
}

// checkFaults compares the faults that validation finds in the text of a payload, and their places,
// with the expected ones.
func checkFaults(t *testing.T, p hostile.Payload, err error) {
	t.Helper()
	if diff := cmp.Diff(p.Faults, faults(t, err)); diff != "" {
		t.Errorf("%s: faults (-want +got):\n%s", p.Text, diff)
	}
	var list jsonschema.Faults
	errors.As(err, &list)
	for _, f := range list {
		line, column := codec.Position([]byte(p.Text), int(f.Offset))
		if at, ok := codec.Locate([]byte(p.Text), f.Pointer); !ok || at != int(f.Offset) || f.Line != line || f.Column != column {
			t.Errorf("%s: %v is at %d", p.Text, f, at)
		}
	}
}

// open are payloads with a place for any JSON value, marked VALUE.
var open = []struct{ method, def, text, pointer string }{
	{"tools/call", "CallToolRequestParams", `{"name":"n","arguments":{"a":VALUE}}`, "/arguments/a"},
	{"tools/call", "CallToolRequestParams", `{"name":"n","_meta":{"a/b":VALUE,"progressToken":1}}`, "/_meta/a~1b"},
	{"tools/call", "CallToolRequestParams", `{"unknown":VALUE,"name":"n"}`, "/unknown"},
	{"tools/call", "CallToolResult", `{"content":[],"structuredContent":VALUE}`, "/structuredContent"},
	{"tools/call", "CallToolResult", `{"content":[{"type":"text","text":"","x":VALUE}]}`, "/content/0/x"},
	{"tools/call", "CallToolResult", `{"content":[{"type":"x-future","x":[0,VALUE]}]}`, "/content/0/x/1"},
	{"notifications/message", "LoggingMessageNotificationParams", `{"level":"info","data":VALUE}`, "/data"},
	{"tools/list", "ListToolsResult", `{"tools":[{"name":"n","inputSchema":{"type":"object","default":VALUE}}]}`, "/tools/0/inputSchema/default"},
	{"sampling/createMessage", "CreateMessageRequestParams", `{"messages":[],"maxTokens":1,"metadata":{"a":VALUE}}`, "/metadata/a"},
	{"future/method", "FutureParams", `{"a":VALUE}`, "/a"},
}

// Raw values are checked as strictly as typed ones.
func TestDecodeHostileTextsInOpenMembers(t *testing.T) {
	for _, c := range hostile.All(hostile.Texts()) {
		switch c.Rule {
		case hostile.EOF, hostile.Trailing, hostile.BOM:
			continue // something stands around it here
		}
		for _, place := range open {
			before, _, _ := strings.Cut(place.text, "VALUE")
			p := hostile.Payload{Method: place.method, Def: place.def, Text: strings.Replace(place.text, "VALUE", c.Text, 1)}
			text, offset := p.Message(false)
			want := c.Refusal
			if want.Rule != hostile.Taken {
				want.Offset += offset + len(before)
				want.Pointer = map[bool]string{false: "/params", true: "/result"}[p.IsResult()] + place.pointer + want.Pointer
			}
			for way, decode := range decoders {
				m, err := decode(p, text)
				if err := refusal.Check(want, text, err); err != nil {
					t.Errorf("%s, %s: %q: %v", c.Name, way, text, err)
				} else if want.Rule == hostile.Taken {
					same(t, c.Name, text, encode(t, &m))
				}
			}
		}
	}
}

// Messages of unknown methods, and responses to unknown requests, keep their payload unchanged.
func TestConversationKeepsPayloadOfUnknownType(t *testing.T) {
	for _, c := range hostile.All(hostile.Messages()) {
		want, wantErr := jsonrpc.Parse([]byte(c.Text))
		for name, decode := range map[string]func() (jsonrpc.Message, error){
			"request":  func() (jsonrpc.Message, error) { return mcp.DecodeRequest([]byte(c.Text)) },
			"response": func() (jsonrpc.Message, error) { return mcp.DecodeResponse("future/call", []byte(c.Text)) },
			"conversation": func() (jsonrpc.Message, error) {
				var talk mcp.Conversation
				m, err := talk.Decode([]byte(c.Text))
				return m.Message, err
			},
		} {
			got, err := decode()
			if err := refusal.Check(c.Refusal, c.Text, err); err != nil {
				t.Errorf("%s, as a %s: %v", c.Text, name, err)
			}
			if got.Kind != want.Kind || got.ID != want.ID || got.Method != want.Method {
				t.Errorf("%s, as a %s: read %v %v %q, want %v %v %q", c.Text, name, got.Kind, got.ID, got.Method, want.Kind, want.ID, want.Method)
			}
			if wantErr == nil {
				if d := oracle.Diff([]byte(encode(t, &want)), []byte(encode(t, &got))); d != "" {
					t.Errorf("%s, as a %s: %s", c.Text, name, d)
				}
			}
		}
	}
}

// Limits apply to a whole message, in any order of its members.
func TestLimitsHoldForMessagesWithPayload(t *testing.T) {
	call := func(depth int) hostile.Payload {
		return hostile.Payload{Method: "tools/call", Def: "CallToolRequestParams", Text: `{"name":"n","arguments":{"a":` + hostile.Nested(depth) + `}}`}
	}
	result := func(depth int) hostile.Payload {
		return hostile.Payload{Method: "tools/call", Def: "CallToolResult", Text: `{"content":[{"type":"text","text":"0123456789","x":` + hostile.Nested(depth) + `}]}`}
	}
	for _, c := range []struct {
		name string
		p    hostile.Payload
		opts []codec.Option
		rule hostile.Rule
	}{
		{"arguments at the depth limit", call(hostile.DefaultMaxDepth - 3), nil, hostile.Taken},
		{"arguments too deep", call(hostile.DefaultMaxDepth - 2), nil, hostile.Depth},
		{"arguments at a raised limit", call(10000), []codec.Option{codec.MaxDepth(10003)}, hostile.Taken},
		{"arguments beyond a raised limit", call(10000), []codec.Option{codec.MaxDepth(10002)}, hostile.Depth},
		{"content at the depth limit", result(hostile.DefaultMaxDepth - 4), nil, hostile.Taken},
		{"content too deep", result(hostile.DefaultMaxDepth - 3), nil, hostile.Depth},
		{"content at a raised limit", result(10000), []codec.Option{codec.MaxDepth(10004)}, hostile.Taken},
		{"text at the length limit", result(1), []codec.Option{codec.MaxString(10)}, hostile.Taken},
		{"text too long", result(1), []codec.Option{codec.MaxString(9)}, hostile.StringSize},
		{"size", result(1), []codec.Option{codec.MaxSize(90)}, hostile.Taken},
		{"too large", result(1), []codec.Option{codec.MaxSize(89)}, hostile.Size},
	} {
		for way, decode := range decoders {
			for _, late := range []bool{false, true} {
				text, _ := c.p.Message(late)
				m, err := decode(c.p, text, c.opts...)
				switch {
				case c.rule != hostile.Taken:
					if !refusal.Is(err, c.rule) || jsonrpc.CodeOf(err) != c.rule.Code() {
						t.Errorf("%s, %s, %.40s: %v, want %s", c.name, way, text, err, c.rule)
					}
				case err != nil || m.Payload == nil:
					t.Errorf("%s, %s, %.40s: %v", c.name, way, text, err)
				}
			}
		}
	}
}
