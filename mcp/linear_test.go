package mcp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/doubling"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/mcp"
)

func many(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f(i))
	}
	return b.String()
}

// member returns a member that no type knows.
func member(i int) string { return fmt.Sprintf(`"n%06d":%d`, i, i) }

func constant(text string) func(int) string { return func(int) string { return text } }

// growing are payloads that cause quadratic work in a careless decoder, encoder or validator.
var growing = []struct {
	name        string
	method, def string
	text        func(n int) string
}{
	{"unknown members of params", "tools/call", "CallToolRequestParams", func(n int) string { return `{"name":"n",` + many(n, member) + `}` }},
	{"unknown members and a null", "tools/call", "CallToolRequestParams", func(n int) string { return `{"name":null,` + many(n, member) + `,"_meta":{"progressToken":null}}` }},
	{"unknown members of arguments", "tools/call", "CallToolRequestParams", func(n int) string { return `{"name":"n","arguments":{` + many(n, member) + `}}` }},
	{"unknown members of _meta", "tools/call", "CallToolRequestParams", func(n int) string { return `{"name":"n","_meta":{` + many(n, member) + `,"progressToken":1}}` }},
	{"unknown member twice", "tools/call", "CallToolRequestParams", func(n int) string { return `{"name":"n",` + many(n, member) + `,` + member(0) + `}` }},
	{"known member n times", "tools/call", "CallToolRequestParams", func(n int) string { return `{` + many(n, constant(`"name":"n"`)) + `}` }},
	{"deep arguments", "tools/call", "CallToolRequestParams", func(n int) string { return `{"name":"n","arguments":{"a":` + hostile.Nested(n) + `}}` }},
	{"deep unknown members", "tools/call", "CallToolResult", func(n int) string { return `{"content":[{"type":"text","text":"","x":` + hostile.Nested(n) + `}]}` }},
	{"deep blocks of unknown type", "tools/call", "CallToolResult", func(n int) string {
		return `{"content":[` + strings.Repeat(`{"content":[`, n) + `{}` + strings.Repeat(`],"type":"x-future"}`, n) + `]}`
	}},
	{"name of a long token", "tools/call", "CallToolRequestParams", func(n int) string {
		return `{"name":"n","_meta":{"progressToken":` + strings.Repeat("7", 16*n) + `}}`
	}},
	{"long fraction for a token", "tools/call", "CallToolRequestParams", func(n int) string {
		return `{"name":"n","_meta":{"progressToken":1.` + strings.Repeat("0", 16*n) + `}}`
	}},
	{"progress of many digits", "notifications/progress", "ProgressNotificationParams", func(n int) string {
		return `{"progressToken":1,"progress":0.` + strings.Repeat("7", 16*n) + `}`
	}},
	{"progress with an exponent of many digits", "notifications/progress", "ProgressNotificationParams", func(n int) string {
		return `{"progressToken":1,"progress":1e` + strings.Repeat("7", 16*n) + `}`
	}},
	{"maxTokens of many digits", "sampling/createMessage", "CreateMessageRequestParams", func(n int) string {
		return `{"messages":[],"maxTokens":` + strings.Repeat("7", 16*n) + `}`
	}},
	{"text of many escapes", "tools/call", "CallToolResult", func(n int) string {
		return `{"content":[{"type":"text","text":"` + strings.Repeat(`\u00e9\n\ud83d\ude00`, n) + `"}]}`
	}},
	{"type of many escapes", "tools/call", "CallToolResult", func(n int) string {
		return `{"content":[{"text":"","type":"` + strings.Repeat(`\u00e9`, 2*n) + `"}]}`
	}},
	{"content whose type comes last", "tools/call", "CallToolResult", func(n int) string {
		return `{"content":[` + many(n, constant(`{"text":"a","annotations":{"audience":["user"]},"x":[1,{}],"type":"text"}`)) + `]}`
	}},
	{"block whose type comes behind many members", "tools/call", "CallToolResult", func(n int) string {
		return `{"content":[{` + many(n, member) + `,"text":"a","type":"text"}]}`
	}},
	{"blocks inside blocks whose types come last", "sampling/createMessage", "CreateMessageRequestParams", func(n int) string {
		resource := `{"resource":{"x":{"y":[1,2,{"z":"a long enough text that is looked at again and again"}]},"text":"a","uri":"u"},"type":"resource"}`
		result := `{"content":[` + many(n/10, constant(resource)) + `],"toolUseId":"1","type":"tool_result"}`
		return `{"messages":[{"content":[` + result + `,` + result + `],"role":"user"}],"maxTokens":1}`
	}},
	{"one tool_result with much content", "sampling/createMessage", "CreateMessageRequestParams", func(n int) string {
		return `{"messages":[{"content":{"content":[` + many(n, constant(`{"text":"a","type":"text"}`)) + `],"toolUseId":"1","type":"tool_result"},"role":"user"}],"maxTokens":1}`
	}},
	{"blocks of unknown type", "tools/call", "CallToolResult", func(n int) string {
		return `{"content":[` + many(n, constant(`{"type":"video","x":{"y":[]}}`)) + `]}`
	}},
	{"blocks with a null in each", "tools/call", "CallToolResult", func(n int) string {
		return `{"content":[` + many(n, constant(`{"type":"text","text":null,"annotations":{"priority":null,"x":1}}`)) + `]}`
	}},
	{"numbers that do not fit", "tools/call", "CallToolResult", func(n int) string {
		return `{"content":[` + many(n, constant(`{"type":"text","text":"","annotations":{"priority":0.10000000000000000001}}`)) + `]}`
	}},
	{"tools", "tools/list", "ListToolsResult", func(n int) string {
		return `{"tools":[` + many(n, constant(`{"name":"n","inputSchema":{"type":"object"},"annotations":{},"x":1}`)) + `]}`
	}},
	{"tools of the wrong shape where a revision leaves it open", "tools/list", "ListToolsResult", func(n int) string {
		return `{"tools":[` + many(n, constant(`{"name":"n","inputSchema":{"type":"object"},"title":{"a":[]},"outputSchema":{"type":["object"]},"execution":{"taskSupport":7}}`)) + `]}`
	}},
	{"properties of a tool", "tools/list", "ListToolsResult", func(n int) string {
		return `{"tools":[{"name":"n","inputSchema":{"type":"object","properties":{` + many(n, func(i int) string { return fmt.Sprintf(`"n%d":{"type":"string"}`, i) }) + `}}}]}`
	}},
	{"fields of a form", "elicitation/create", "ElicitRequestParams", func(n int) string {
		return `{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{` +
			many(n, func(i int) string {
				return fmt.Sprintf(`"n%d":{"title":"t","default":"a","enum":["a"],"enumNames":["A"],"type":"string"}`, i)
			}) + `}}}`
	}},
	{"answers in a form", "elicitation/create", "ElicitResult", func(n int) string { return `{"action":"accept","content":{` + many(n, member) + `}}` }},
	{"repeated field of a form", "elicitation/create", "ElicitResult", func(n int) string {
		return `{"action":"accept","content":{` + many(n, member) + `,` + member(0) + `}}`
	}},
	{"unknown capabilities", "initialize", "InitializeRequestParams", func(n int) string {
		return `{"protocolVersion":"v","capabilities":{"experimental":{` + many(n, func(i int) string { return fmt.Sprintf(`"n%d":{}`, i) }) + `}},"clientInfo":{"name":"c","version":"1"}}`
	}},
	{"requests for input", "tools/call", "CallToolResult", func(n int) string {
		return `{"inputRequests":{` + many(n, func(i int) string { return fmt.Sprintf(`"n%d":{"params":{"x":[1]},"method":"roots/list"}`, i) }) + `},"resultType":"input_required"}`
	}},
	{"answers to requests for input", "tools/call", "CallToolRequestParams", func(n int) string {
		return `{"name":"n","inputResponses":{` + many(n, func(i int) string { return fmt.Sprintf(`"n%d":{"content":{"a":1},"action":"accept"}`, i) }) + `}}`
	}},
	{"tasks", "tasks/list", "ListTasksResult", func(n int) string {
		return `{"tasks":[` + many(n, constant(`{"taskId":"t","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":1e99,"pollInterval":null}`)) + `]}`
	}},
	{"faults under a long name", "elicitation/create", "ElicitResult", func(n int) string {
		return `{"action":"accept","content":{"` + strings.Repeat("x", 8*n) + `":[` + many(n, constant(`"a"`)) + `],"b":{}}}`
	}},
	{"a wrong kind after a long list", "tools/call", "CallToolResult", func(n int) string {
		return `{"content":[` + many(n, constant("{\"type\":\"text\",\n\"text\":\"a\"}")) + `,{"type":"text","text":7}]}`
	}},
	{"malformed text after a long list", "tools/call", "CallToolResult", func(n int) string {
		return `{"content":[` + many(n, constant("{\"type\":\"text\",\n\"text\":\"a\"}")) + `,{"type":"text","text":"\x"}]}`
	}},
}

func TestPayloadWorkIsLinear(t *testing.T) {
	limits := codec.MaxDepth(1 << 30)
	for _, g := range growing {
		t.Run(g.name, func(t *testing.T) {
			doubling.CheckQuick(t, func(n int) func() {
				p := hostile.Payload{Method: g.method, Def: g.def, Text: g.text(n / 2)}
				text, _ := p.Message(false)
				late, _ := p.Message(true)
				return func() {
					for _, text := range []string{text, late} {
						for _, decode := range decoders {
							if m, err := decode(p, text, limits); err == nil {
								encode(t, &m)
							}
						}
					}
				}
			})
			doubling.CheckQuick(t, func(n int) func() {
				p := hostile.Payload{Method: g.method, Def: g.def, Text: g.text(n / 2)}
				v, err := decodePayload(p, p.Text, limits)
				return func() {
					for _, p.Rev = range []string{"2025-06-18", "2025-11-25"} {
						validatePayload(p)
					}
					if err == nil {
						v.Validate(mcp.Revision20260728)
					}
				}
			})
		})
	}
}

func TestConversationWorkIsLinear(t *testing.T) {
	call := func(id int, method string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"name":"n","x":[1]}}`, id, method)
	}
	answer := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"a"}]}}`, id)
	}
	for name, message := range map[string]func(n, i int) string{
		"requests and answers in turn": func(n, i int) string {
			if i%2 == 0 {
				return call(i, "tools/call")
			}
			return answer(i - 1)
		},
		"requests first, answers in the other order": func(n, i int) string {
			if i < n/2 {
				return call(i, "tools/call")
			}
			return answer(n - 1 - i)
		},
		"requests without answers": func(n, i int) string { return call(i, "tools/call") },
		"answers without requests": func(n, i int) string { return answer(i) },
		"requests with one id": func(n, i int) string {
			if i < n/2 {
				return call(1, "tools/call")
			}
			return answer(1)
		},
		"requests of two methods with one id": func(n, i int) string {
			if i < n/2 {
				return call(1, []string{"tools/call", "sampling/createMessage"}[i%2])
			}
			return answer(1)
		},
		"requests of many methods with one id": func(n, i int) string {
			if i < n/2 {
				return call(1, fmt.Sprintf("future/%d", i))
			}
			return answer(1)
		},
	} {
		for side, from := range map[string]mcp.Direction{"both sides": mcp.FromClient | mcp.FromServer, "one side": mcp.FromClient} {
			t.Run(name+" from "+side, func(t *testing.T) {
				doubling.Check(t, func(n int) func() {
					n /= 8
					var messages [][]byte
					for i := range n {
						messages = append(messages, []byte(message(n, i)))
					}
					return func() {
						var talk mcp.Conversation
						for _, m := range messages {
							if _, err := talk.DecodeFrom(from, m); err != nil {
								t.Fatal(err)
							}
						}
					}
				})
			})
		}
	}
}
