package hostile

import "strings"

// Payload is the params or the result of a method, or an invalid one.
type Payload struct {
	Name   string
	Rev    string // the revision that Faults are about
	Method string
	Def    string // the definition in that revision
	Text   string
	Refusal
	// Faults are the faults that validation against Rev finds in an accepted payload: each a JSON
	// pointer, a space and the keyword of the schema. Decoding accepts such payloads so that
	// messages can be forwarded unchanged.
	Faults []string
	// MayRefuse marks payloads that other libraries may either keep or refuse, but not change:
	// those that a peer of a newer revision may send, and those that violate only a format.
	MayRefuse bool
}

// IsResult reports whether the payload is a result.
func (p Payload) IsResult() bool { return !strings.HasSuffix(p.Def, "Params") }

// Message returns a message that contains the payload, and the offset of the payload in it. If late
// is set, the member that determines the payload's type follows the payload.
func (p Payload) Message(late bool) (text string, offset int) {
	member, kind := `"params":`, `"id":1,"method":"`+p.Method+`"`
	switch {
	case p.IsResult():
		member, kind = `"result":`, `"id":1`
	case strings.HasPrefix(p.Method, "notifications/"):
		kind = `"method":"` + p.Method + `"`
	}
	const version = `{"jsonrpc":"2.0",`
	if late {
		before := version + member
		return before + p.Text + "," + kind + "}", len(before)
	}
	before := version + kind + "," + member
	return before + p.Text + "}", len(before)
}

// The revisions of the payloads. Payloads use 2025-06-18, which all libraries support, unless they
// need a newer one.
const (
	june     = "2025-06-18"
	november = "2025-11-25"
	july     = "2026-07-28"
)

// Payloads returns the payloads.
func Payloads() []Class[Payload] {
	return []Class[Payload]{
		{"Null, absent, empty", presencePayloads()},
		{"Numbers in typed fields", numberPayloads()},
		{"Unknown members", unknownPayloads()},
		{"Names in the wrong case", casePayloads()},
		{"Unknown variants of unions", variantPayloads()},
		{"Base64", base64Payloads()},
		{"Duplicate names", repeatedPayloads()},
		{"Broken strings", stringPayloads()},
		{"Values of the wrong type", kindPayloads()},
	}
}

func call(name, text string) Payload {
	return Payload{Name: name, Rev: june, Method: "tools/call", Def: "CallToolRequestParams", Text: text}
}

func toolResult(name, text string) Payload {
	return Payload{Name: name, Rev: june, Method: "tools/call", Def: "CallToolResult", Text: text}
}

func sample(name, text string) Payload {
	return Payload{Name: name, Rev: november, Method: "sampling/createMessage", Def: "CreateMessageRequestParams", Text: text}
}

func progress(name, text string) Payload {
	return Payload{Name: name, Rev: june, Method: "notifications/progress", Def: "ProgressNotificationParams", Text: text}
}

func task(name, members string) Payload {
	const rest = `"taskId":"t1","status":"working","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z"`
	return Payload{Name: name, Rev: november, Method: "tasks/get", Def: "GetTaskResult", Text: `{` + rest + members + `}`}
}

func prompt(name, text string) Payload {
	return Payload{Name: name, Rev: june, Method: "prompts/get", Def: "GetPromptResult", Text: text}
}

func resource(name, text string) Payload {
	return Payload{Name: name, Rev: june, Method: "resources/read", Def: "ReadResourceResult", Text: text}
}

func elicited(name, text string) Payload {
	return Payload{Name: name, Rev: june, Method: "elicitation/create", Def: "ElicitResult", Text: text}
}

func elicit(name, text string) Payload {
	return Payload{Name: name, Rev: november, Method: "elicitation/create", Def: "ElicitRequestParams", Text: text}
}

func list(name, text string) Payload {
	return Payload{Name: name, Rev: june, Method: "tools/list", Def: "ListToolsResult", Text: text}
}

func initialize(name, text string) Payload {
	return Payload{Name: name, Rev: june, Method: "initialize", Def: "InitializeRequestParams", Text: text}
}

// refused returns p with the error that decoding it must cause.
func (p Payload) refused(rule Rule, offset int, pointer string) Payload {
	p.Refusal = Refusal{rule, offset, pointer}
	return p
}

// faulty returns p with the faults that validation must find. Decoding accepts it.
func (p Payload) faulty(faults ...string) Payload {
	p.Faults = faults
	return p
}

// newer returns p marked as a payload that only a newer revision may allow. Decoding accepts it.
func (p Payload) newer(faults ...string) Payload {
	p.MayRefuse = true
	return p.faulty(faults...)
}

func presencePayloads() []Payload {
	const tool = `"name":"now","inputSchema":{"type":"object"}`
	return []Payload{
		toolResult("isError absent", `{"content":[]}`),
		toolResult("isError false", `{"content":[],"isError":false}`),
		toolResult("isError true", `{"content":[],"isError":true}`),
		toolResult("isError null", `{"content":[],"isError":null}`).faulty("/isError type"),
		toolResult("content empty", `{"content":[]}`),
		toolResult("content absent", `{}`).faulty(" required"),
		toolResult("content null", `{"content":null}`).faulty("/content type"),
		toolResult("structuredContent an empty object", `{"content":[],"structuredContent":{}}`),
		toolResult("structuredContent null", `{"content":[],"structuredContent":null}`).faulty("/structuredContent type"),
		toolResult("_meta an empty object", `{"content":[],"_meta":{}}`),
		toolResult("_meta null", `{"content":[],"_meta":null}`).faulty("/_meta type"),
		toolResult("a null among the content", `{"content":[null]}`).faulty("/content/0 type"),
		toolResult("audience empty, priority 0", `{"content":[{"type":"text","text":"","annotations":{"audience":[],"priority":0}}]}`),
		toolResult("annotations an empty object", `{"content":[{"type":"text","text":"","annotations":{}}]}`),
		call("arguments absent", `{"name":"now"}`),
		call("arguments an empty object", `{"name":"now","arguments":{}}`),
		call("arguments null", `{"name":"now","arguments":null}`).faulty("/arguments type"),
		call("nulls, empty lists and empty strings in arguments", `{"name":"","arguments":{"a":null,"b":[],"c":"","d":{},"e":false,"f":0}}`),
		call("name absent", `{}`).faulty(" required"),
		call("name null", `{"name":null}`).faulty("/name type"),
		list("tools empty", `{"tools":[]}`),
		list("tools absent", `{}`).faulty(" required"),
		list("tools null", `{"tools":null}`).faulty("/tools type"),
		list("a null among the tools", `{"tools":[null]}`).refused(Mistyped, 10, "/tools/0"),
		list("nextCursor an empty string", `{"tools":[],"nextCursor":""}`),
		list("nextCursor null", `{"tools":[],"nextCursor":null}`).faulty("/nextCursor type"),
		list("properties and required empty", `{"tools":[{"name":"now","inputSchema":{"type":"object","properties":{},"required":[]}}]}`),
		list("properties and required null", `{"tools":[{"name":"now","inputSchema":{"type":"object","properties":null,"required":null}}]}`).faulty("/tools/0/inputSchema/properties type", "/tools/0/inputSchema/required type"),
		list("empty annotations, title and description", `{"tools":[{`+tool+`,"annotations":{},"title":"","description":""}]}`),
		initialize("empty capabilities", `{"protocolVersion":"","capabilities":{"roots":{},"sampling":{},"experimental":{}},"clientInfo":{"name":"","version":""}}`),
		initialize("null capabilities", `{"protocolVersion":"","capabilities":{"roots":null,"sampling":null},"clientInfo":{"name":"","version":""}}`).faulty("/capabilities/roots type", "/capabilities/sampling type"),
		elicited("form empty", `{"action":"accept","content":{}}`),
		elicited("form null", `{"action":"decline","content":null}`).faulty("/content type"),
		sample("zero and empty", `{"messages":[],"maxTokens":0,"temperature":0,"stopSequences":[],"systemPrompt":""}`),
		sample("content an empty list", `{"messages":[{"role":"user","content":[]}],"maxTokens":0}`),
		sample("content of one block", `{"messages":[{"role":"user","content":{"type":"text","text":""}}],"maxTokens":0}`),
		sample("content a list of one block", `{"messages":[{"role":"user","content":[{"type":"text","text":""}]}],"maxTokens":0}`),
		task("ttl null", `,"ttl":null`),
		task("ttl 0, empty statusMessage", `,"ttl":0,"statusMessage":""`),
		task("ttl absent", ``).faulty(" required"),
	}
}

func numberPayloads() []Payload {
	tokens := func(text string) Payload {
		return sample("maxTokens "+text, `{"messages":[],"maxTokens":`+text+`}`)
	}
	ttl := func(text string) Payload { return task("ttl "+text, `,"ttl":`+text) }
	amount := func(text string) Payload {
		return progress("progress "+text, `{"progressToken":1,"progress":`+text+`}`)
	}
	token := func(text string) Payload {
		return progress("token "+text, `{"progressToken":`+text+`,"progress":1}`)
	}
	return []Payload{
		tokens("6e4"), tokens("60000.0"), tokens("6E+4"), tokens("600000e-1"), tokens("-0"),
		tokens("9007199254740993"), tokens("9223372036854775808"), tokens("1e400"), tokens(strings.Repeat("7", 400)),
		tokens("2.5").refused(Integer, 27, "/maxTokens"), tokens("1e-1").refused(Integer, 27, "/maxTokens"), tokens("1e-400").refused(Integer, 27, "/maxTokens"),
		ttl("6e4"), ttl("60000.0"), ttl("9223372036854775807"), ttl("1e19"), ttl("1.5").refused(Integer, 114, "/ttl"), ttl(`"60000"`).refused(Mistyped, 114, "/ttl"),
		amount("0.5"), amount("5e-1"), amount("-0.0"), amount("0.1000000000000000055511151231257827"), amount("12345678901234567890.123"),
		amount("1.7976931348623157e308"), amount("1e400"), amount("-1e400"), amount("1e-400"), amount("5e-324"),
		amount("01").refused(Number, 30, "/progress"), amount("+1").refused(Syntax, 30, "/progress"), amount(".5").refused(Syntax, 30, "/progress"), amount("1.").refused(Number, 30, "/progress"),
		amount("0x10").refused(Syntax, 31, "/progress"), amount("NaN").refused(Syntax, 30, "/progress"), amount("Infinity").refused(Syntax, 30, "/progress"), amount("-").refused(Number, 30, "/progress"),
		amount("1e").refused(Number, 30, "/progress"), amount("1_000").refused(Syntax, 31, "/progress"),
		token("7"), token("7.0"), token("1e3"), token("9007199254740993"), token("18446744073709551616"), token(`""`), token(`"7"`),
		token("1.5").refused(Integer, 17, "/progressToken"), token("null").faulty("/progressToken type"), token("true").refused(Mistyped, 17, "/progressToken"),
		toolResult("size of a link 2048.0", `{"content":[{"type":"resource_link","uri":"file:///a","name":"a","size":2048.0}]}`),
		toolResult("size of a link over 2^53", `{"content":[{"type":"resource_link","uri":"file:///a","name":"a","size":9007199254740993}]}`),
		call("integer over 2^53 in arguments", `{"name":"get","arguments":{"row":9007199254740993}}`),
		call("number of 30 digits in arguments", `{"name":"get","arguments":{"x":3.14159265358979323846264338327}}`),
		call("number beyond float64 in arguments", `{"name":"get","arguments":{"x":[1e400,-1e400,1e-400]}}`),
		toolResult("numbers of every form in structuredContent", `{"content":[],"structuredContent":{"a":1.0,"b":1e3,"c":-0,"d":0.10,"e":1E-2,"f":9007199254740993}}`),
		elicited("integer over 2^53 in a form", `{"action":"accept","content":{"account":9007199254740993}}`),
	}
}

func unknownPayloads() []Payload {
	const client = `"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true}`
	return []Payload{
		call("in params", `{"name":"add","arguments":{"a":1},"priority":"low"}`),
		call("in _meta of params", `{"name":"add","_meta":{"progressToken":1,"example.com/trace":{"span":"b7ad","flags":[1,null]}}}`),
		toolResult("in a result", `{"content":[],"cost":{"tokens":12.0}}`),
		toolResult("in _meta of a result", `{"content":[],"_meta":{"example.com/cache":{"hit":true}}}`),
		toolResult("in a content block", `{"content":[{"type":"text","text":"hi","lang":"en"}]}`),
		toolResult("in _meta of a content block", `{"content":[{"type":"text","text":"hi","_meta":{"example.com/n":1}}]}`),
		toolResult("in annotations", `{"content":[{"type":"text","text":"hi","annotations":{"audience":["user"],"tone":"dry"}}]}`),
		toolResult("in an embedded resource", `{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"a","etag":"7"},"cached":true}]}`),
		toolResult("with the name of a member of another type", `{"content":[{"type":"text","text":"hi","mimeType":"text/plain","name":"n"}]}`),
		toolResult("that are all null", `{"content":[{"type":"text","text":"hi","a":null}],"b":null}`),
		toolResult("with odd names", `{"content":[],"":1,"a/b~c":2,"\u0000":3,"é":4,"__proto__":{},"constructor":5}`),
		initialize("in clientInfo", `{`+client+`},"clientInfo":{"name":"c","version":"1","build":{"commit":"abc"}}}`),
		initialize("a capability", `{`+client+`,"streams":{"max":3}},"clientInfo":{"name":"c","version":"1"}}`),
		initialize("in a capability", `{"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true,"depth":2}},"clientInfo":{"name":"c","version":"1"}}`),
		list("in a tool", `{"tools":[{"name":"add","inputSchema":{"type":"object"},"cost":1}]}`),
		list("in inputSchema", `{"tools":[{"name":"add","inputSchema":{"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer","minimum":0}},"required":["a"],"allOf":[{"minProperties":1}],"$defs":{"n":{"type":"number"}}}}]}`),
		prompt("in a message of a prompt", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"},"at":1}]}`),
		sample("in a message to sample", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"},"at":1}],"maxTokens":5,"modelPreferences":{"hints":[{"name":"m","x":1}],"y":2}}`),
		resource("in the contents of a resource", `{"contents":[{"uri":"file:///a","text":"a","etag":"7"}]}`),
		elicit("in a form", `{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{"p":{"type":"string","x":1}},"y":2},"z":3}`),
		task("in a task", `,"ttl":1,"owner":{"a":[]}`),
	}
}

func casePayloads() []Payload {
	return []Payload{
		call("Name for name", `{"Name":"delete"}`).faulty(" required"),
		call("Name beside name", `{"name":"read","Name":"delete"}`),
		call("NAME before name", `{"NAME":"delete","name":"read"}`),
		call("Arguments beside arguments", `{"name":"add","arguments":{"a":1},"Arguments":{"a":2}}`),
		call("a letter that folds to a plain one", `{"name":"add","argument`+"\u017f"+`":{"a":2}}`),
		toolResult("ISERROR for isError", `{"content":[],"ISERROR":true}`),
		toolResult("iserror beside isError", `{"content":[],"isError":false,"iserror":true}`),
		toolResult("Content beside content", `{"content":[],"Content":[{"type":"text","text":"x"}]}`),
		toolResult("Text beside text", `{"content":[{"type":"text","text":"a","Text":"b"}]}`),
		toolResult("Type for type", `{"content":[{"Type":"text","text":"a"}]}`).newer("/content/0 required"),
		toolResult("TEXT as a type", `{"content":[{"type":"TEXT","text":"a"}]}`).newer("/content/0/type enum"),
		task("TTL beside ttl", `,"ttl":1,"TTL":2`),
		prompt("ROLE beside role", `{"messages":[{"role":"user","ROLE":"assistant","content":{"type":"text","text":"a"}}]}`),
	}
}

func variantPayloads() []Payload {
	const video = `{"type":"video","data":"AAAA","frames":[3,4.50],"text":null}`
	return []Payload{
		toolResult("content of a result", `{"content":[{"type":"text","text":"hi"},`+video+`]}`).newer("/content/1/type enum"),
		toolResult("content without type", `{"content":[{"text":"hi"}]}`).newer("/content/0 required"),
		toolResult("content whose type is a number", `{"content":[{"type":7}]}`).newer("/content/0/type enum"),
		toolResult("content that is a string", `{"content":["hi"]}`).newer("/content/0 type"),
		toolResult("content that is a list", `{"content":[[]]}`).newer("/content/0 type"),
		toolResult("embedded resource with neither text nor blob", `{"content":[{"type":"resource","resource":{"uri":"file:///a","stream":"s"}}]}`).newer("/content/0/resource required"),
		prompt("content of a prompt", `{"messages":[{"role":"user","content":`+video+`}]}`).newer("/messages/0/content/type enum"),
		sample("content to sample", `{"messages":[{"role":"user","content":`+video+`}],"maxTokens":1}`).newer("/messages/0/content/type enum"),
		sample("content to sample, in a list", `{"messages":[{"role":"user","content":[`+video+`]}],"maxTokens":1}`).newer("/messages/0/content/0/type enum"),
		sample("content of a tool_result", `{"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"1","content":[`+video+`]}}],"maxTokens":1}`).newer("/messages/0/content/content/0/type enum"),
		resource("contents with neither text nor blob", `{"contents":[{"uri":"file:///a","stream":"s"}]}`).newer("/contents/0 required"),
		elicit("field of a form", `{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{"p":{"type":"colour","palette":["r"]}}}}`).newer("/requestedSchema/properties/p/type enum"),
		elicit("mode of an elicitation", `{"mode":"voice","message":"?","phone":"112"}`).newer("/mode enum"),
		elicited("value in a form", `{"action":"accept","content":{"a":{"b":1},"c":null}}`).newer("/content/a type", "/content/c type"),
		{Name: "reference to complete", Rev: june, Method: "completion/complete", Def: "CompleteRequestParams", Text: `{"ref":{"type":"ref/tool","name":"n"},"argument":{"name":"a","value":""}}`, MayRefuse: true, Faults: []string{"/ref/type enum"}},
		{Name: "request for input", Rev: july, Method: "tools/call", Def: "InputRequiredResult", Text: `{"resultType":"input_required","inputRequests":{"a":{"method":"future/ask","params":{"x":1}}}}`, MayRefuse: true, Faults: []string{"/inputRequests/a/method enum"}},
		{Name: "answer to a request for input", Rev: july, Method: "tools/call", Def: "CallToolRequestParams", Text: `{"name":"n","inputResponses":{"a":{"voice":"yes"}},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`, MayRefuse: true, Faults: []string{"/inputResponses/a required"}},
		{Name: "logging level", Rev: june, Method: "notifications/message", Def: "LoggingMessageNotificationParams", Text: `{"level":"trace","data":"x"}`, MayRefuse: true, Faults: []string{"/level enum"}},
		prompt("role", `{"messages":[{"role":"system","content":{"type":"text","text":"hi"}}]}`).newer("/messages/0/role enum"),
		elicited("action", `{"action":"postpone"}`).newer("/action enum"),
	}
}

// The schemas declare base64 by a format, which is not an assertion. So decoding keeps the data
// unchanged.
func base64Payloads() []Payload {
	image := func(name, data string) Payload {
		return toolResult(name, `{"content":[{"type":"image","data":"`+data+`","mimeType":"image/png"}]}`)
	}
	odd := []Payload{
		image("without padding", `+/+/AA`),
		image("of the alphabet for URLs", `-_-_AA==`),
		image("with line breaks", `+/+/\r\nAA==`),
		image("with a space", `+/+/ AA==`),
		image("with bits set after the end", `+/+/AB==`),
		image("with too much padding", `+/+/AA====`),
		image("with text after the padding", `AA==AA==`),
		image("of an impossible length", `AAAAA`),
		image("that is not base64", `not base64!`),
		resource("blob without padding", `{"contents":[{"uri":"file:///a","blob":"YQ"}]}`),
		resource("blob of the alphabet for URLs", `{"contents":[{"uri":"file:///a","blob":"_-8="}]}`),
	}
	for i := range odd {
		odd[i].MayRefuse = true
	}
	return append(odd,
		image("empty", ``),
		image("standard", `+/+/AA==`),
		image("with the slash escaped", `+\/+\/AA==`),
	)
}

func repeatedPayloads() []Payload {
	return []Payload{
		call("name", `{"name":"read","name":"delete"}`).refused(Duplicate, 15, "/name"),
		call("arguments", `{"name":"read","arguments":{"a":1},"arguments":{"a":2}}`).refused(Duplicate, 35, "/arguments"),
		call("in arguments", `{"name":"read","arguments":{"path":"/a","path":"/b"}}`).refused(Duplicate, 40, "/arguments/path"),
		call("in arguments, once escaped", `{"name":"read","arguments":{"path":"/a","p\u0061th":"/b"}}`).refused(Duplicate, 40, "/arguments/path"),
		call("deep in arguments", `{"name":"read","arguments":{"a":[{"b":{"c":1,"c":1}}]}}`).refused(Duplicate, 45, "/arguments/a/0/b/c"),
		call("in _meta", `{"name":"read","_meta":{"a":1,"a":1}}`).refused(Duplicate, 30, "/_meta/a"),
		call("progressToken", `{"name":"read","_meta":{"progressToken":1,"progressToken":2}}`).refused(Duplicate, 42, "/_meta/progressToken"),
		call("an unknown member", `{"name":"read","x":1,"x":1}`).refused(Duplicate, 21, "/x"),
		call("null twice", `{"name":"read","arguments":null,"arguments":null}`).refused(Duplicate, 32, "/arguments"),
		call("among many", `{"name":"read","arguments":`+ManyNames(40, 7)+`}`).refused(Duplicate, 418, "/arguments/n0007"),
		toolResult("isError", `{"content":[],"isError":true,"isError":false}`).refused(Duplicate, 29, "/isError"),
		toolResult("isError, once escaped", `{"content":[],"isError":true,"is\u0045rror":true}`).refused(Duplicate, 29, "/isError"),
		toolResult("isError null", `{"content":[],"isError":null,"isError":null}`).refused(Duplicate, 29, "/isError"),
		toolResult("_meta of a result", `{"content":[],"_meta":{"a":1,"a":2}}`).refused(Duplicate, 29, "/_meta/a"),
		toolResult("type of a block", `{"content":[{"type":"text","text":"a","type":"image"}]}`).refused(Duplicate, 38, "/content/0/type"),
		toolResult("in a block of unknown type", `{"content":[{"type":"video","a":1,"a":2}]}`).refused(Duplicate, 34, "/content/0/a"),
		toolResult("in structuredContent", `{"content":[],"structuredContent":{"a":1,"a":1}}`).refused(Duplicate, 41, "/structuredContent/a"),
		elicited("in a form", `{"action":"accept","content":{"a":1,"a":2}}`).refused(Duplicate, 36, "/content/a"),
		list("in inputSchema", `{"tools":[{"name":"n","inputSchema":{"type":"object","type":"object"}}]}`).refused(Duplicate, 53, "/tools/0/inputSchema/type"),
		list("in properties", `{"tools":[{"name":"n","inputSchema":{"type":"object","properties":{"a":{},"a":{}}}}]}`).refused(Duplicate, 74, "/tools/0/inputSchema/properties/a"),
	}
}

func stringPayloads() []Payload {
	return []Payload{
		call("raw tab", "{\"name\":\"a\tb\"}").refused(ControlChar, 10, "/name"),
		call("raw line feed in arguments", "{\"name\":\"a\",\"arguments\":{\"a\":\"\n\"}}").refused(ControlChar, 30, "/arguments/a"),
		call("raw NUL", "{\"name\":\"a\x00\"}").refused(ControlChar, 10, "/name"),
		call("raw unit separator in a name", "{\"name\":\"a\",\"\x1f\":1}").refused(ControlChar, 13, ""),
		call("raw DEL", "{\"name\":\"a\x7f\"}"),
		call("every escape", `{"name":"\"\\\/\b\f\n\r\t\u0000\u001F"}`),
		call("unknown escape", `{"name":"\x41"}`).refused(Escape, 9, "/name"),
		call("invalid UTF-8", "{\"name\":\"caf\xe9\"}").refused(UTF8, 12, "/name"),
		call("invalid UTF-8 in arguments", "{\"name\":\"read\",\"arguments\":{\"path\":\"caf\xe9\"}}").refused(UTF8, 39, "/arguments/path"),
		call("invalid UTF-8 in the name of an argument", "{\"name\":\"read\",\"arguments\":{\"\xff\":1}}").refused(UTF8, 29, "/arguments"),
		call("overlong slash", "{\"name\":\"read\",\"arguments\":{\"path\":\"..\xc0\xaf\"}}").refused(UTF8, 38, "/arguments/path"),
		call("overlong NUL", "{\"name\":\"\xc0\x80\"}").refused(UTF8, 9, "/name"),
		call("surrogate in UTF-8", "{\"name\":\"\xed\xa0\xbd\xed\xb8\x80\"}").refused(UTF8, 9, "/name"),
		call("beyond U+10FFFF", "{\"name\":\"\xf4\x90\x80\x80\"}").refused(UTF8, 9, "/name"),
		call("half a surrogate pair", `{"name":"a\ud800b"}`).refused(Surrogate, 10, "/name"),
		call("half a surrogate pair in arguments", `{"name":"read","arguments":{"path":"a\ud800b"}}`).refused(Surrogate, 37, "/arguments/path"),
		call("other half of a surrogate pair", `{"name":"\ude00"}`).refused(Surrogate, 9, "/name"),
		call("reversed surrogate pair", `{"name":"\ude00\ud83d"}`).refused(Surrogate, 9, "/name"),
		call("half a surrogate pair in the name of an argument", `{"name":"read","arguments":{"\ud83d":1}}`).refused(Surrogate, 29, "/arguments"),
		call("surrogate pair", `{"name":"\ud83d\ude00"}`),
		call("noncharacters", `{"name":"\ufffe\uffff\ufdd0"}`),
		call("replacement character", `{"name":"\ufffd"}`),
		call("line separators and markup", "{\"name\":\"\u2028\u2029 <b>&amp;</b>\"}"),
		call("text not in normal form", `{"name":"e\u0301 \u00e9 \ufb01"}`),
		toolResult("half a surrogate pair in a block of unknown type", `{"content":[{"type":"video","a":"\udfff"}]}`).refused(Surrogate, 33, "/content/0/a"),
		toolResult("NUL, escaped", `{"content":[{"type":"text","text":"a\u0000b"}]}`),
	}
}

func kindPayloads() []Payload {
	return []Payload{
		call("name a number", `{"name":7}`).refused(Mistyped, 8, "/name"),
		call("name a list", `{"name":["a"]}`).refused(Mistyped, 8, "/name"),
		call("arguments a list", `{"name":"add","arguments":[1,2]}`).refused(Mistyped, 26, "/arguments"),
		call("arguments a string of JSON", `{"name":"add","arguments":"{\"a\":1}"}`).refused(Mistyped, 26, "/arguments"),
		{Name: "_meta a list", Rev: november, Method: "tools/call", Def: "CallToolRequestParams", Text: `{"name":"add","_meta":[]}`, Faults: []string{"/_meta type"}},
		toolResult("content a single block", `{"content":{"type":"text","text":"hi"}}`).refused(Mistyped, 11, "/content"),
		toolResult("content a string", `{"content":"hi"}`).refused(Mistyped, 11, "/content"),
		toolResult("isError a string", `{"content":[],"isError":"false"}`).refused(Mistyped, 24, "/isError"),
		toolResult("isError 0", `{"content":[],"isError":0}`).refused(Mistyped, 24, "/isError"),
		toolResult("text a number", `{"content":[{"type":"text","text":1}]}`).refused(Mistyped, 34, "/content/0/text"),
		toolResult("priority a string", `{"content":[{"type":"text","text":"","annotations":{"priority":"1"}}]}`).refused(Mistyped, 63, "/content/0/annotations/priority"),
		toolResult("audience a string", `{"content":[{"type":"text","text":"","annotations":{"audience":"user"}}]}`).refused(Mistyped, 63, "/content/0/annotations/audience"),
		list("tools an object", `{"tools":{}}`).refused(Mistyped, 9, "/tools"),
		sample("maxTokens a string", `{"messages":[],"maxTokens":"5"}`).refused(Mistyped, 27, "/maxTokens"),
		elicited("form a list", `{"action":"accept","content":[]}`).refused(Mistyped, 29, "/content"),
	}
}
