// Package messages makes the messages that benchmarks decode and encode.
package messages

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Form is the kind of a message.
type Form int

const (
	Request Form = iota
	Notification
	Response
	BareTask // a Task without an envelope, as in a store
)

// Message is a text that the contestants decode, and whose value they encode.
type Message struct {
	Name   string // in the names of benchmarks
	Title  string // in tables
	Unseen bool   // the codec is not tuned for it
	Form   Form
	Method string // the method of the request, also for a response
	AsTask bool   // the response to a request for a task
	Data   []byte
}

// All returns the messages, always the same: first those of the published table, then the
// unseen ones, which show whether an improvement is general. The content is invented.
func All() []Message {
	list := []Message{
		{Name: "tools-call", Title: "tools/call", Form: Request, Method: "tools/call", Data: toolsCall()},
		{Name: "create-task-result", Title: "CreateTaskResult", Form: Response, Method: "tools/call", AsTask: true, Data: createTaskResult()},
		{Name: "task", Title: "Task", Form: BareTask, Data: task(0)},
		{Name: "tasks-list", Title: "tasks/list of 50", Form: Response, Method: "tasks/list", Data: tasksList(50)},
		{Name: "tool-result", Title: "tool result", Form: Response, Method: "tools/call", Data: toolResult()},
		{Name: "tool-result-text", Title: "tool result, text with escapes", Form: Response, Method: "tools/call", Data: textResult(100_000)},
		{Name: "tool-result-image", Title: "tool result, image", Form: Response, Method: "tools/call", Data: imageResult(1 << 20)},
		{Name: "tools-list", Title: "tools/list of 50", Form: Response, Method: "tools/list", Data: toolsList(50)},
		{Name: "sampling", Title: "sampling request, 20 messages", Form: Request, Method: "sampling/createMessage", Data: sampling(20)},
	}
	unseen := []Message{
		{Name: "resources-list", Title: "resources/list of 30", Form: Response, Method: "resources/list", Data: resourcesList(30)},
		{Name: "prompts-get", Title: "prompts/get, every content block", Form: Response, Method: "prompts/get", Data: promptsGet()},
		{Name: "elicitation", Title: "elicitation, every kind of field", Form: Request, Method: "elicitation/create", Data: elicitation()},
		{Name: "initialize", Title: "initialize request", Form: Request, Method: "initialize", Data: initialize()},
		{Name: "initialize-result", Title: "initialize result", Form: Response, Method: "initialize", Data: initializeResult()},
		{Name: "progress", Title: "progress notification", Form: Notification, Method: "notifications/progress", Data: progress()},
		{Name: "deep", Title: "tools/call, arguments 60 deep", Form: Request, Method: "tools/call", Data: deep(60)},
		{Name: "unknown-members", Title: "tool result, unknown members", Form: Response, Method: "tools/call", Data: unknownMembers()},
		{Name: "non-ascii", Title: "tool result, not ASCII", Form: Response, Method: "tools/call", Data: nonASCII(false)},
		{Name: "non-ascii-escaped", Title: "tool result, not ASCII, escaped", Form: Response, Method: "tools/call", Data: nonASCII(true)},
		{Name: "result-first", Title: "tool result, envelope behind it", Form: Response, Method: "tools/call", Data: resultFirst()},
		{Name: "keys-reversed", Title: "tools/list of 5, names reversed", Form: Response, Method: "tools/list", Data: reversed(toolsList(5))},
		{Name: "indented", Title: "tools/list of 5, indented", Form: Response, Method: "tools/list", Data: indented(toolsList(5))},
	}
	for _, m := range unseen {
		m.Unseen = true
		list = append(list, m)
	}
	return list
}

func toolsCall() []byte {
	return []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"search_documents",` +
		`"arguments":{"query":"durable tasks","limit":10,"all":true}}}`)
}

// task returns the i-th task of a list; task 0 is the one measured alone.
func task(i int) []byte {
	status, text := "working", "Rendering frame 118 of 240 now, two more minutes to go"
	switch {
	case i%5 == 1:
		status, text = "completed", "All 240 frames are rendered"
	case i%5 == 3:
		status, text = "input_required", "Waiting for the user to pick one of three palettes"
	case i == 48:
		status, text = "failed", "The texture \"granite\" is missing"
	}
	return fmt.Appendf(nil, `{"taskId":"786512e2-9e0d-44bd-8f29-789f320f%04x","status":"%s","statusMessage":%s,`+
		`"createdAt":"2025-11-25T10:%02d:00Z","lastUpdatedAt":"2025-11-25T10:%02d:40Z","ttl":3600000,"pollInterval":5000}`,
		0xe840+i, status, Quote(text), i%60, i%60)
}

func createTaskResult() []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"call-00417","result":{"_meta":{"io.modelcontextprotocol/model-immediate-response":`+
		`"Rendering has begun. I shall be back once all of it is done."},"task":%s}}`, task(0))
}

func tasksList(n int) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":23,"result":{"tasks":[%s],"nextCursor":"eyJhZnRlciI6IjUwIn0="}}`, List(n, task))
}

func toolResult() []byte {
	return []byte(`{"jsonrpc":"2.0","id":18,"result":{"content":[{"type":"text","text":"3 matches."},` +
		`{"type":"text","text":"The best is \"Tasks that survive\".","annotations":{"audience":["user"],"priority":0.8}}],` +
		`"structuredContent":{"total":3,"ids":["d-17","d-4","d-230"]},"isError":false}}`)
}

// textResult returns a tool result whose text takes about size bytes on the wire.
func textResult(size int) []byte {
	var text strings.Builder
	for i := 0; text.Len() < size*9/10; i++ {
		fmt.Fprintf(&text, "\tif err := store.Put(ctx, \"key-%04d\", value); err != nil {\n\t\treturn fmt.Errorf(\"put %%q: %%w\", key, err)\n\t}\n", i)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":19,"result":{"content":[{"type":"text","text":%s}],"isError":false}}`, Quote(text.String()))
}

// imageResult returns a tool result with an image of size bytes on the wire.
func imageResult(size int) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":20,"result":{"content":[{"type":"text","text":"The chart you asked for"},`+
		`{"type":"image","data":"%s","mimeType":"image/png"}],"isError":false}}`, blob(size/4*3))
}

// blob returns n bytes in base64.
func blob(n int) string {
	random := rand.New(rand.NewPCG(1, 2))
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(random.Uint32())
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func toolsList(n int) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":2,"result":{"tools":[%s],"nextCursor":"cGFnZS0y"}}`, List(n, tool))
}

func tool(i int) []byte {
	things := []string{"document", "invoice", "branch", "sensor", "ticket"}
	verbs := []string{"search", "update", "archive", "compare", "export", "summarize", "label"}
	thing, verb := things[i%len(things)], verbs[i%len(verbs)]
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"name":"%s_%s_%d","title":"%s %ss","description":%s,`, verb, thing, i, strings.ToUpper(verb[:1])+verb[1:], thing,
		Quote(fmt.Sprintf("Goes through every %[1]s that the filter lets pass and %[2]ss it. Results come in pages; pass the cursor of "+
			"one call to the next. A %[1]s that another user holds open is left out and listed under \"skipped\".\nCosts one unit per %[1]s.", thing, verb)))
	schema, more := "", ""
	if i%2 == 0 {
		schema, more = `"$schema":"https://json-schema.org/draft/2020-12/schema",`, `,"additionalProperties":false`
	}
	fmt.Fprintf(&b, `"inputSchema":{%s"type":"object","properties":{`+
		`"filter":{"type":"string","description":"Which ones: words to look for in each %s, in any order","minLength":1,"maxLength":400},`+
		`"limit":{"type":"integer","description":"How many at most, from 1 to 500","minimum":1,"maximum":500,"default":%d},`+
		`"since":{"type":"string","format":"date-time","description":"Leave out what has not changed since then; without it, each and every one counts"},`+
		`"order":{"type":"string","enum":["relevance","newest","oldest","title"],"default":"relevance"},`+
		`"tags":{"type":"array","items":{"type":"string"},"description":"All of these must be set","uniqueItems":true},`+
		`"owner":{"anyOf":[{"type":"string","description":"The name of a user"},{"type":"integer","description":"The number of one"}]},`+
		`"fields":{"type":"object","description":"What else must be equal, by name","additionalProperties":{"type":["string","number","null"]},"maxProperties":16},`+
		`"dryRun":{"type":"boolean","description":"Say what would be done but do nothing"}`+
		`},"required":["filter","limit"]%s},`, schema, thing, 10+i, more)
	if i%3 == 0 {
		fmt.Fprintf(&b, `"outputSchema":{"type":"object","properties":{"total":{"type":"integer"},"%ss":{"type":"array","items":{"type":"object",`+
			`"properties":{"id":{"type":"string"},"score":{"type":"number"}}}}},"required":["total"]},`, thing)
	}
	fmt.Fprintf(&b, `"annotations":{"title":"%s","readOnlyHint":%t,"destructiveHint":%t,"idempotentHint":true,"openWorldHint":false},`,
		verb, i%7 == 0, i%7 == 2)
	fmt.Fprintf(&b, `"icons":[{"src":"https://tools.example.com/icons/%s-light.svg","mimeType":"image/svg+xml","sizes":["any"],"theme":"light"},`+
		`{"src":"https://tools.example.com/icons/%s-48.png","mimeType":"image/png","sizes":["48x48","96x96"]}],`, verb, verb)
	fmt.Fprintf(&b, `"execution":{"taskSupport":"%s"}`, []string{"optional", "forbidden", "required"}[i%3])
	if i%4 == 0 {
		fmt.Fprintf(&b, `,"_meta":{"example.com/team":"search","example.com/cost":%d}`, i)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func sampling(n int) []byte {
	say := func(i int) []byte {
		switch i % 10 {
		case 3:
			return fmt.Appendf(nil, `{"role":"assistant","content":[{"type":"text","text":"Let me look at both of them."},`+
				`{"type":"tool_use","id":"use-%d","name":"search_documents","input":{"query":"lighthouse","limit":5}},`+
				`{"type":"tool_use","id":"use-%da","name":"search_documents","input":{"query":"harbour","limit":5}}]}`, i, i)
		case 4:
			return fmt.Appendf(nil, `{"role":"user","content":[{"type":"tool_result","toolUseId":"use-%d","content":[{"type":"text","text":`+
				`"Two hits: d-17, d-4"}]},{"type":"tool_result","toolUseId":"use-%da","content":[{"type":"text","text":"No hit"}],`+
				`"structuredContent":{"total":0}}]}`, i-1, i-1)
		case 7:
			return []byte(`{"role":"assistant","content":{"type":"image","data":"` + blob(96) + `","mimeType":"image/png"}}`)
		}
		role := []string{"user", "assistant"}[i%2]
		return fmt.Appendf(nil, `{"role":"%s","content":{"type":"text","text":%s}}`, role, Quote(fmt.Sprintf(
			"Paragraph %d of the report says the light was moved twice, in 1871 and again after the storm of 1904.\nIs that \"%s\" backed by the log?",
			i, []string{"claim", "date", "figure"}[i%3])))
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":41,"method":"sampling/createMessage","params":{"messages":[%s],`+
		`"modelPreferences":{"hints":[{"name":"large"},{"name":"careful"}],"costPriority":0.2,"speedPriority":0.3,"intelligencePriority":0.9},`+
		`"systemPrompt":"You check reports against the sources they cite. Answer in one paragraph.","includeContext":"none",`+
		`"temperature":0.4,"maxTokens":2000,"stopSequences":["END","\n\n\n"],"metadata":{"trace":"a1b2c3","attempt":2},`+
		`"toolChoice":{"mode":"auto"}}}`, List(n, say))
}

func resourcesList(n int) []byte {
	resource := func(i int) []byte {
		var b bytes.Buffer
		fmt.Fprintf(&b, `{"uri":"file:///srv/reports/2025/%02d/summary.md","name":"summary-%02d","title":"Summary %d",`, i, i, i)
		fmt.Fprintf(&b, `"description":"What happened in week %d, in one page","mimeType":"text/markdown","size":%d`, i, 1800+i*37)
		if i%2 == 0 {
			fmt.Fprintf(&b, `,"annotations":{"audience":["user","assistant"],"priority":0.%d,"lastModified":"2025-11-%02dT08:00:00Z"}`, 1+i%9, 1+i%28)
		}
		if i%5 == 0 {
			b.WriteString(`,"icons":[{"src":"https://example.com/md.png","sizes":["16x16"]}],"_meta":{"example.com/etag":"9f86d081"}`)
		}
		b.WriteByte('}')
		return b.Bytes()
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"result":{"resources":[%s],"nextCursor":"week-31"}}`, List(n, resource))
}

func promptsGet() []byte {
	return []byte(`{"jsonrpc":"2.0","id":"p-1","result":{"description":"Reviews a change","messages":[` +
		`{"role":"user","content":{"type":"text","text":"Review this change. Say what is wrong first."}},` +
		`{"role":"user","content":{"type":"resource","resource":{"uri":"file:///src/main.go","mimeType":"text/x-go",` +
		`"text":"package main\n\nfunc main() {\n\tprintln(\"hi\")\n}\n"}}},` +
		`{"role":"user","content":{"type":"resource","resource":{"uri":"file:///src/logo.bin","blob":"` + blob(48) + `"}}},` +
		`{"role":"user","content":{"type":"resource_link","uri":"file:///src/go.mod","name":"go.mod","description":"The module file",` +
		`"mimeType":"text/plain","size":312,"annotations":{"priority":0.3}}},` +
		`{"role":"assistant","content":{"type":"image","data":"` + blob(96) + `","mimeType":"image/webp"}},` +
		`{"role":"assistant","content":{"type":"audio","data":"` + blob(72) + `","mimeType":"audio/ogg"}}]}}`)
}

func elicitation() []byte {
	return []byte(`{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"mode":"form","message":"Where should the report go?",` +
		`"requestedSchema":{"type":"object","properties":{` +
		`"address":{"type":"string","title":"Address","description":"Who gets it","format":"email","minLength":3,"maxLength":120},` +
		`"copies":{"type":"integer","title":"Copies","minimum":1,"maximum":20,"default":1},` +
		`"margin":{"type":"number","description":"In centimetres","minimum":0.5,"maximum":4.5},` +
		`"colour":{"type":"boolean","title":"In colour","default":false},` +
		`"paper":{"type":"string","enum":["a4","a5","letter"],"default":"a4"},` +
		`"tray":{"type":"string","title":"Tray","oneOf":[{"const":"t1","title":"Upper"},{"const":"t2","title":"Lower"}]},` +
		`"sections":{"type":"array","minItems":1,"items":{"type":"string","enum":["summary","figures","sources"]},"default":["summary"]},` +
		`"notify":{"type":"array","maxItems":2,"items":{"anyOf":[{"const":"mail","title":"By mail"},{"const":"chat","title":"In the chat"}]}},` +
		`"language":{"type":"string","enum":["en","nb"],"enumNames":["English","Norwegian"],"default":"en"}` +
		`},"required":["address","paper"]}}}`)
}

func initialize() []byte {
	return []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{` +
		`"roots":{"listChanged":true},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}},` +
		`"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}},` +
		`"experimental":{"example.com/streaming":{"window":16}}},` +
		`"clientInfo":{"name":"example-client","title":"Example Client","version":"3.1.4","websiteUrl":"https://example.com",` +
		`"icons":[{"src":"https://example.com/icon.png","mimeType":"image/png","sizes":["64x64"]}]}}}`)
}

func initializeResult() []byte {
	return []byte(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"logging":{},"completions":{},` +
		`"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"tools":{"listChanged":true},` +
		`"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},` +
		`"serverInfo":{"name":"example-server","title":"Example Server","version":"1.0.0"},` +
		`"instructions":"Search before you write. Long calls run as tasks; poll them no more often than they ask for."}}`)
}

func progress() []byte {
	return []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"render-7","progress":118.5,"total":240,` +
		`"message":"Rendering frame 118"}}`)
}

// deep returns a call with arguments of n nested objects and lists.
func deep(n int) []byte {
	open, end := "", ""
	for i := range n / 2 {
		open += fmt.Sprintf(`{"level":%d,"label":"step %d","next":[true,null,`, i, i)
		end = `]}` + end
	}
	return []byte(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"walk","arguments":` + open + `{}` + end + `}}`)
}

// unknownMembers returns a result that a newer peer, or one with many extensions, may send.
func unknownMembers() []byte {
	more := func(prefix string) string {
		return fmt.Sprintf(`"x-%[1]s-trace":"00-4bf92f3577b34da6-01","x-%[1]s-timing":{"queued":3,"ran":182.5,"steps":["load","match"]},`+
			`"x-%[1]s-cached":false,"x-%[1]s-notes":["a","b",null],"x-%[1]s-cost":17`, prefix)
	}
	return []byte(`{"jsonrpc":"2.0","id":8,"result":{"content":[{"type":"text","text":"Done.",` + more("block") + `},` +
		`{"type":"text","text":"And done again.","annotations":{"priority":0.5,` + more("annotations") + `},` + more("other") + `}],` +
		`"isError":false,` + more("result") + `,"_meta":{"example.com/run":"r-91","example.com/parts":[1,2,3]}},` + more("message") + `}`)
}

func nonASCII(escaped bool) []byte {
	text := strings.Repeat("Маяк был перенесён дважды. 灯台は二度移された。Der Leuchtturm wurde zweimal versetzt – größer als zuvor. 🌊🚢\n", 16)
	quoted := Quote(text)
	if escaped { // like the output of Python's json
		var b bytes.Buffer
		for _, r := range quoted {
			switch {
			case r < 0x80:
				b.WriteRune(r)
			case r < 0x10000:
				fmt.Fprintf(&b, `\u%04x`, r)
			default:
				r -= 0x10000
				fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			}
		}
		quoted = b.String()
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":%s}]}}`, quoted)
}

// resultFirst returns a response with its members in the order of the official TypeScript SDK.
func resultFirst() []byte {
	return []byte(`{"result":{"content":[{"type":"text","text":"Moved 14 files into \"archive\"."}],"structuredContent":{"moved":14}},` +
		`"jsonrpc":"2.0","id":3}`)
}

// List joins what item returns for 0 to n-1 with commas.
func List(n int, item func(i int) []byte) []byte {
	items := make([][]byte, n)
	for i := range items {
		items[i] = item(i)
	}
	return bytes.Join(items, []byte{','})
}

// Quote returns s as a JSON string with only the required escapes.
func Quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // encoding a string does not fail
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// indented returns the text with indentation.
func indented(text []byte) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		panic(err) // the texts above are well formed; a test decodes them all
	}
	return b.Bytes()
}

// reversed returns the text with the members of every object in reverse order.
func reversed(text []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value func() []byte
	value = func() []byte {
		token, err := d.Token()
		if err != nil {
			panic(err)
		}
		delim, nested := token.(json.Delim)
		if !nested {
			if s, ok := token.(string); ok {
				return []byte(Quote(s))
			}
			if token == nil {
				return []byte("null")
			}
			return fmt.Append(nil, token) // a number or a boolean
		}
		var parts [][]byte
		for d.More() {
			if delim == '[' {
				parts = append(parts, value())
				continue
			}
			name := append(value(), ':')
			parts = append([][]byte{append(name, value()...)}, parts...)
		}
		end, err := d.Token()
		if err != nil {
			panic(err)
		}
		return fmt.Appendf(nil, "%s%s%s", delim, bytes.Join(parts, []byte{','}), end)
	}
	return value()
}
