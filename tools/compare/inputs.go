package main

import "github.com/mcpwire/mcpwire/internal/hostile"

// Input is one document and the expected result.
type Input struct {
	Name    string
	Rev     string // the revision of the protocol it belongs to
	Method  string // the method of params and results; "" for anything else
	Def     string // the definition; for params without a definition, the request's name followed by Params
	Subject string // JSON pointer to the value that the row is about; "" if it is about the whole document
	Want    Want
	Doc     string
	Rule    hostile.Rule // for hostile inputs, the error of decoding with mcpwire
}

// Want is the expected result for a document.
type Want int

// The wants.
const (
	// Keep means that the document is valid and must come out unchanged.
	Keep Want = iota
	// KeepOrRefuse means that a later revision may allow the document. If it is kept, it can be
	// forwarded; if it is refused, it is at least noticed.
	KeepOrRefuse
	// Refuse means that no revision allows the document, or that it is not valid JSON.
	Refuse
)

// Group is a list of related inputs.
type Group struct {
	Name   string
	Inputs []Input
}

// The revisions of the inputs. Inputs use 2025-06-18, which all libraries support, unless they need
// a newer one.
const (
	june     = "2025-06-18"
	november = "2025-11-25"
	july     = "2026-07-28"
)

// Groups returns all inputs.
func Groups() []Group {
	return []Group{
		ids(), unknown(), newer(), presence(), numbers(), tasks(), progress(), sampling(), elicitation(), content(),
		stateless(), wrong(),
	}
}

func ids() Group {
	request := func(name, doc string) Input { return Input{Name: name, Rev: june, Def: "JSONRPCRequest", Doc: doc} }
	return Group{"Ids and the envelope", []Input{
		request("string id", `{"jsonrpc":"2.0","id":"a-1","method":"ping"}`),
		request("string id that looks like a number", `{"jsonrpc":"2.0","id":"007","method":"ping"}`),
		request("empty string as id", `{"jsonrpc":"2.0","id":"","method":"ping"}`),
		request("integer id", `{"jsonrpc":"2.0","id":7,"method":"ping"}`),
		request("integer id 0", `{"jsonrpc":"2.0","id":0,"method":"ping"}`),
		request("integer id just over 2^53", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`),
		request("integer id of 30 digits", `{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}`),
		request("integer id written 1.0", `{"jsonrpc":"2.0","id":1.0,"method":"ping"}`),
		request("integer id written 1e3", `{"jsonrpc":"2.0","id":1e3,"method":"ping"}`),
		{Name: "result with a string id", Rev: june, Def: "JSONRPCResponse",
			Doc: `{"jsonrpc":"2.0","id":"a-1","result":{"ok":true}}`},
		{Name: "error with a string id and data", Rev: june, Def: "JSONRPCError",
			Doc: `{"jsonrpc":"2.0","id":"a-1","error":{"code":-32602,"message":"no such tool","data":{"name":"x"}}}`},
		{Name: "error whose data is null", Rev: june, Def: "JSONRPCError",
			Doc: `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"broken","data":null}}`},
		{Name: "error without id", Rev: november, Def: "JSONRPCErrorResponse",
			Doc: `{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"}}`},
		{Name: "string id of the request to cancel", Rev: june, Method: "notifications/cancelled", Def: "CancelledNotificationParams",
			Doc: `{"requestId":"a-1","reason":"too slow"}`},
		{Name: "integer id of the request to cancel, over 2^53", Rev: june, Method: "notifications/cancelled", Def: "CancelledNotificationParams",
			Doc: `{"requestId":9007199254740993}`},
		{Name: "params in another order of members", Rev: june, Def: "JSONRPCRequest",
			Doc: `{"params":{"name":"add","arguments":{"b":2,"a":1}},"method":"tools/call","id":1,"jsonrpc":"2.0"}`},
		{Name: "notification without params", Rev: june, Def: "JSONRPCNotification",
			Doc: `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
		{Name: "notification with empty params", Rev: june, Def: "JSONRPCNotification",
			Doc: `{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}`},
	}}
}

func unknown() Group {
	return Group{"Unknown members", []Input{
		{Name: "in a request, beside method and params", Rev: june, Def: "JSONRPCRequest",
			Doc: `{"jsonrpc":"2.0","id":1,"method":"ping","traceparent":"00-4bf9-01"}`},
		{Name: "in an error object", Rev: june, Def: "JSONRPCError",
			Doc: `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"broken","retryable":true}}`},
		{Name: "in params", Rev: june, Method: "tools/call", Def: "CallToolRequestParams",
			Doc: `{"name":"add","arguments":{"a":1},"priority":"low"}`},
		{Name: "in a result", Rev: june, Method: "tools/call", Def: "CallToolResult",
			Doc: `{"content":[],"cost":{"tokens":12}}`},
		{Name: "nested, in clientInfo", Rev: june, Method: "initialize", Def: "InitializeRequestParams",
			Doc: `{"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"c","version":"1","build":{"commit":"abc"}}}`},
		{Name: "nested, a capability", Rev: june, Method: "initialize", Def: "InitializeRequestParams",
			Doc: `{"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true},"streams":{"max":3}},"clientInfo":{"name":"c","version":"1"}}`},
		{Name: "in a content block", Rev: june, Method: "tools/call", Def: "CallToolResult",
			Doc: `{"content":[{"type":"text","text":"hi","lang":"en"}]}`},
		{Name: "in _meta of params", Rev: november, Method: "tools/call", Def: "CallToolRequestParams",
			Doc: `{"name":"add","_meta":{"example.com/trace":{"span":"b7ad","flags":[1,null]}}}`},
		{Name: "in _meta of a result", Rev: june, Method: "tools/call", Def: "CallToolResult",
			Doc: `{"content":[],"_meta":{"example.com/cache":{"hit":true}}}`},
		{Name: "in _meta of a content block", Rev: june, Method: "tools/call", Def: "CallToolResult",
			Doc: `{"content":[{"type":"text","text":"hi","_meta":{"example.com/n":1}}]}`},
		{Name: "in annotations", Rev: june, Method: "tools/call", Def: "CallToolResult",
			Doc: `{"content":[{"type":"text","text":"hi","annotations":{"audience":["user"],"tone":"dry"}}]}`},
		{Name: "keywords of JSON Schema in inputSchema", Rev: june, Def: "Tool",
			Doc: `{"name":"add","inputSchema":{"type":"object","additionalProperties":false,"properties":{"a":{"type":"integer","minimum":0}},"required":["a"],"allOf":[{"minProperties":1}],"$defs":{"n":{"type":"number"}}},` + hints + `}`},
		{Name: "Arguments beside arguments", Rev: june, Method: "tools/call", Def: "CallToolRequestParams",
			Doc: `{"name":"add","arguments":{"a":1},"Arguments":{"a":2}}`},
	}}
}

func newer() Group {
	return Group{"Messages of a newer peer", []Input{
		{Name: "unknown type of content", Rev: june, Method: "tools/call", Def: "CallToolResult", Want: KeepOrRefuse,
			Doc: `{"content":[{"type":"text","text":"hi"},{"type":"video","data":"AAAA","mimeType":"video/webm","frames":3}]}`},
		{Name: "unknown logging level", Rev: june, Method: "notifications/message", Def: "LoggingMessageNotificationParams", Want: KeepOrRefuse,
			Doc: `{"level":"trace","data":"x"}`},
		{Name: "unknown role", Rev: june, Method: "prompts/get", Def: "GetPromptResult", Want: KeepOrRefuse,
			Doc: `{"messages":[{"role":"system","content":{"type":"text","text":"hi"}}]}`},
		{Name: "unknown audience", Rev: june, Method: "tools/call", Def: "CallToolResult", Want: KeepOrRefuse,
			Doc: `{"content":[{"type":"text","text":"hi","annotations":{"audience":["user","auditor"]}}]}`},
		{Name: "unknown action of an elicitation", Rev: june, Method: "elicitation/create", Def: "ElicitResult", Want: KeepOrRefuse,
			Doc: `{"action":"postpone"}`},
		{Name: "unknown status of a task", Rev: november, Method: "tasks/get", Def: "GetTaskResult", Subject: "/status", Want: KeepOrRefuse,
			Doc: `{"taskId":"t1","status":"paused","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:31:00Z","ttl":60000}`},
		{Name: "unknown value of taskSupport", Rev: november, Def: "Tool", Subject: "/execution/taskSupport", Want: KeepOrRefuse,
			Doc: `{` + tool + `,"execution":{"taskSupport":"preferred"}}`},
		{Name: "unknown theme of an icon", Rev: november, Def: "Tool", Subject: "/icons/0/theme", Want: KeepOrRefuse,
			Doc: `{` + tool + `,"icons":[{"src":"https://example.com/i.png","theme":"sepia"}]}`},
	}}
}

func presence() Group {
	result := func(name, doc string) Input {
		return Input{Name: name, Rev: june, Method: "tools/call", Def: "CallToolResult", Doc: doc}
	}
	call := func(name, doc string) Input {
		return Input{Name: name, Rev: june, Method: "tools/call", Def: "CallToolRequestParams", Doc: doc}
	}
	list := func(name, doc string) Input {
		return Input{Name: name, Rev: june, Method: "tools/list", Def: "ListToolsRequestParams", Doc: doc}
	}
	return Group{"Null, absent, empty and zero", []Input{
		result("isError false", `{"content":[],"isError":false}`),
		result("isError absent, content empty", `{"content":[]}`),
		result("structuredContent an empty object", `{"content":[],"structuredContent":{}}`),
		result("_meta an empty object", `{"content":[],"_meta":{}}`),
		result("empty text", `{"content":[{"type":"text","text":""}]}`),
		result("annotations with priority 0 and no audience", `{"content":[{"type":"text","text":"hi","annotations":{"audience":[],"priority":0}}]}`),
		result("annotations an empty object", `{"content":[{"type":"text","text":"hi","annotations":{}}]}`),
		result("link without description and mimeType", `{"content":[{"type":"resource_link","uri":"file:///a","name":"a"}]}`),
		result("empty blob", `{"content":[{"type":"resource","resource":{"uri":"file:///a","blob":""}}]}`),
		result("resource with empty text", `{"content":[{"type":"resource","resource":{"uri":"file:///a","text":""}}]}`),
		call("arguments absent", `{"name":"now"}`),
		call("arguments an empty object", `{"name":"now","arguments":{}}`),
		call("null, [] and \"\" in arguments", `{"name":"add","arguments":{"a":null,"b":[],"c":"","d":false}}`),
		list("cursor absent", `{}`),
		list("cursor the empty string", `{"cursor":""}`),
		{Name: "nextCursor the empty string", Rev: june, Method: "resources/list", Def: "ListResourcesResult",
			Doc: `{"resources":[],"nextCursor":""}`},
		{Name: "no tools", Rev: june, Method: "tools/list", Def: "ListToolsResult", Doc: `{"tools":[]}`},
		{Name: "tool whose inputSchema has empty members", Rev: june, Def: "Tool",
			Doc: `{"name":"now","inputSchema":{"type":"object","properties":{},"required":[]},` + hints + `}`},
		{Name: "tool with empty annotations", Rev: june, Def: "Tool",
			Doc: `{"name":"now","inputSchema":{"type":"object","properties":{"zone":{"type":"string"}},"required":["zone"]},"annotations":{}}`},
		{Name: "tool with nothing optional", Rev: june, Def: "Tool", Doc: `{"name":"now","inputSchema":{"type":"object"}}`},
		{Name: "tool with empty description and title", Rev: june, Def: "Tool",
			Doc: `{` + tool + `,"title":"","description":""}`},
		{Name: "hints of a tool that are false", Rev: june, Def: "Tool",
			Doc: `{"name":"now","inputSchema":{"type":"object","properties":{"zone":{"type":"string"}},"required":["zone"]},"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}}`},
		{Name: "empty capabilities", Rev: june, Method: "initialize", Def: "InitializeResult",
			Doc: `{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"prompts":{},"tools":{"listChanged":false},"experimental":{}},"serverInfo":{"name":"s","version":"1"}}`},
		{Name: "client without capabilities", Rev: june, Method: "initialize", Def: "InitializeRequestParams",
			Doc: `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`},
		{Name: "client with capabilities that are empty objects", Rev: november, Method: "initialize", Def: "InitializeRequestParams",
			Doc: `{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}}},"clientInfo":{"name":"c","version":"1"}}`},
		{Name: "temperature 0, no stop sequences", Rev: june, Method: "sampling/createMessage", Def: "CreateMessageRequestParams",
			Doc: `{"messages":[],"maxTokens":0,"temperature":0,"stopSequences":[],"systemPrompt":""}`},
		{Name: "model preferences that are 0", Rev: june, Method: "sampling/createMessage", Def: "CreateMessageRequestParams",
			Doc: `{"messages":[],"maxTokens":1,"modelPreferences":{"hints":[{}],"costPriority":0,"speedPriority":0,"intelligencePriority":1}}`},
		{Name: "progress of 0 out of 0", Rev: june, Method: "notifications/progress", Def: "ProgressNotificationParams",
			Doc: `{"progressToken":1,"progress":0,"total":0,"message":""}`},
		{Name: "log entry of null", Rev: june, Method: "notifications/message", Def: "LoggingMessageNotificationParams",
			Doc: `{"level":"info","data":null}`},
		{Name: "completion with total 0 and hasMore false", Rev: june, Method: "completion/complete", Def: "CompleteResult",
			Doc: `{"completion":{"values":[],"total":0,"hasMore":false}}`},
		{Name: "accepted elicitation with an empty form", Rev: june, Method: "elicitation/create", Def: "ElicitResult",
			Doc: `{"action":"accept","content":{}}`},
		{Name: "ttl null", Rev: november, Def: "Task", Subject: "/ttl",
			Doc: `{"taskId":"t1","status":"working","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttl":null}`},
		{Name: "pollInterval 0 and an empty statusMessage", Rev: november, Def: "Task", Subject: "/pollInterval",
			Doc: `{"taskId":"t1","status":"working","statusMessage":"","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttl":0,"pollInterval":0}`},
	}}
}

func numbers() Group {
	call := func(name, doc string) Input {
		return Input{Name: name, Rev: june, Method: "tools/call", Def: "CallToolRequestParams", Doc: doc}
	}
	result := func(name, doc string) Input {
		return Input{Name: name, Rev: june, Method: "tools/call", Def: "CallToolResult", Doc: doc}
	}
	return Group{"Numbers", []Input{
		{Name: "integer written 60000.0", Rev: june, Method: "sampling/createMessage", Def: "CreateMessageRequestParams",
			Doc: `{"messages":[],"maxTokens":60000.0}`},
		{Name: "integer written 6e4", Rev: june, Method: "sampling/createMessage", Def: "CreateMessageRequestParams",
			Doc: `{"messages":[],"maxTokens":6e4}`},
		{Name: "size of a resource link written 2048.0", Rev: june, Method: "tools/call", Def: "CallToolResult", Subject: "/content/0/size",
			Doc: `{"content":[` + linkOfSize("2048.0") + `]}`},
		{Name: "error code written -32000.0", Rev: june, Def: "JSONRPCError",
			Doc: `{"jsonrpc":"2.0","id":1,"error":{"code":-32000.0,"message":"broken"}}`},
		{Name: "ttl written 60000.0", Rev: november, Def: "Task", Subject: "/ttl",
			Doc: `{"taskId":"t1","status":"working","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttl":60000.0}`},
		{Name: "ttl and pollInterval written with an exponent", Rev: november, Method: "tasks/get", Def: "GetTaskResult", Subject: "/ttl",
			Doc: `{"taskId":"t1","status":"working","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttl":6e4,"pollInterval":5e3}`},
		call("integer over 2^53 in arguments", `{"name":"get","arguments":{"row":9007199254740993}}`),
		call("number of 30 digits in arguments", `{"name":"get","arguments":{"x":3.14159265358979323846264338327}}`),
		call("number too large for a float64 in arguments", `{"name":"get","arguments":{"x":1e400}}`),
		result("integer over 2^53 in structuredContent", `{"content":[],"structuredContent":{"row":9007199254740993}}`),
		result("number of 30 digits in structuredContent", `{"content":[],"structuredContent":{"x":3.14159265358979323846264338327}}`),
		result("integer over 2^53 in _meta", `{"content":[],"_meta":{"example.com/row":9007199254740993}}`),
		result("number of 30 digits in _meta of content", `{"content":[{"type":"text","text":"hi","_meta":{"example.com/x":3.14159265358979323846264338327}}]}`),
		{Name: "integer over 2^53 in a log entry", Rev: june, Method: "notifications/message", Def: "LoggingMessageNotificationParams",
			Doc: `{"level":"info","data":{"row":9007199254740993}}`},
		{Name: "integer over 2^53 in the data of an error", Rev: june, Def: "JSONRPCError",
			Doc: `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":{"row":9007199254740993}}}`},
		{Name: "integer over 2^53 in a filled form", Rev: june, Method: "elicitation/create", Def: "ElicitResult",
			Doc: `{"action":"accept","content":{"account":9007199254740993}}`},
		{Name: "integer over 2^53 as a default in inputSchema", Rev: june, Def: "Tool",
			Doc: `{"name":"get","inputSchema":{"type":"object","properties":{"row":{"type":"integer","default":9007199254740993}},"required":["row"]},` + hints + `}`},
		{Name: "size of a resource link over 2^53", Rev: june, Method: "tools/call", Def: "CallToolResult", Subject: "/content/0/size",
			Doc: `{"content":[` + linkOfSize("9007199254740993") + `]}`},
		{Name: "progress with 20 digits", Rev: june, Method: "notifications/progress", Def: "ProgressNotificationParams",
			Doc: `{"progressToken":1,"progress":0.12345678901234567891}`},
	}}
}

// Parts of documents that are not the subject of a row. The tool has every member that one of the
// libraries adds, and no empty ones, so that they do not decide the rows with a tool.
const (
	hints = `"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}`
	tool  = `"name":"now","inputSchema":{"type":"object","properties":{"zone":{"type":"string"}},"required":["zone"]},` + hints
	task  = `"taskId":"t1","status":"working","statusMessage":"step 2","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:31:00Z","ttl":60000,"pollInterval":5000`
)

func linkOfSize(size string) string {
	return `{"type":"resource_link","uri":"file:///a","name":"a","description":"d","mimeType":"text/plain","size":` + size + `}`
}

func tasks() Group {
	return Group{"Tasks of 2025-11-25", []Input{
		{Name: "Task", Rev: november, Def: "Task", Subject: "/taskId", Doc: `{` + task + `}`},
		{Name: "task as the response to tools/call", Rev: november, Method: "tools/call", Def: "CreateTaskResult", Subject: "/task",
			Doc: `{"task":{` + task + `},"_meta":{"io.modelcontextprotocol/model-immediate-response":"On it."}}`},
		{Name: "tasks/get result", Rev: november, Method: "tasks/get", Def: "GetTaskResult", Subject: "/taskId", Doc: `{` + task + `,"_meta":{"n":1}}`},
		{Name: "tasks/cancel result", Rev: november, Method: "tasks/cancel", Def: "CancelTaskResult", Subject: "/taskId",
			Doc: `{"taskId":"t1","status":"cancelled","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:31:00Z","ttl":60000}`},
		{Name: "tasks/list result", Rev: november, Method: "tasks/list", Def: "ListTasksResult", Subject: "/tasks/0", Doc: `{"tasks":[{` + task + `}],"nextCursor":"c2"}`},
		{Name: "tasks/result of a tool", Rev: november, Method: "tasks/result", Def: "GetTaskPayloadResult",
			Doc: `{"content":[{"type":"text","text":"done"}],"structuredContent":{"rows":2},"isError":false,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`},
		{Name: "tasks/result of a sampling request", Rev: november, Method: "tasks/result", Def: "GetTaskPayloadResult",
			Doc: `{"role":"assistant","content":{"type":"text","text":"done"},"model":"m","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`},
		{Name: "status notification", Rev: november, Method: "notifications/tasks/status", Def: "TaskStatusNotificationParams", Subject: "/status",
			Doc: `{` + task + `,"_meta":{"n":1}}`},
		{Name: "related-task in _meta of a result", Rev: november, Method: "tools/call", Def: "CallToolResult",
			Doc: `{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1","attempt":2}}}`},
		{Name: "task in the params of tools/call", Rev: november, Method: "tools/call", Def: "CallToolRequestParams", Subject: "/task",
			Doc: `{"name":"slow","task":{"ttl":60000}}`},
		{Name: "empty task in the params of tools/call", Rev: november, Method: "tools/call", Def: "CallToolRequestParams", Subject: "/task",
			Doc: `{"name":"slow","task":{}}`},
		{Name: "task in the params of a sampling request", Rev: november, Method: "sampling/createMessage", Def: "CreateMessageRequestParams", Subject: "/task",
			Doc: `{"messages":[],"maxTokens":5,"task":{"ttl":60000}}`},
		{Name: "task in the params of an elicitation", Rev: november, Method: "elicitation/create", Def: "ElicitRequestParams", Subject: "/task",
			Doc: `{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}},"task":{}}`},
		{Name: "execution.taskSupport of a tool", Rev: november, Def: "Tool", Subject: "/execution/taskSupport",
			Doc: `{` + tool + `,"execution":{"taskSupport":"required"}}`},
		{Name: "capability to run tools as tasks", Rev: november, Method: "initialize", Def: "InitializeResult", Subject: "/capabilities/tasks",
			Doc: `{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"1"}}`},
	}}
}

func progress() Group {
	call := func(name, doc string) Input {
		return Input{Name: name, Rev: november, Method: "tools/call", Def: "CallToolRequestParams", Doc: doc}
	}
	notification := func(name, doc string) Input {
		return Input{Name: name, Rev: november, Method: "notifications/progress", Def: "ProgressNotificationParams", Doc: doc}
	}
	return Group{"Progress tokens", []Input{
		call("string, in a request", `{"name":"slow","_meta":{"progressToken":"p-1"}}`),
		call("integer, in a request", `{"name":"slow","_meta":{"progressToken":7}}`),
		call("integer over 2^53, in a request", `{"name":"slow","_meta":{"progressToken":9007199254740993}}`),
		notification("string, in a notification", `{"progressToken":"p-1","progress":1,"total":4}`),
		notification("integer, in a notification", `{"progressToken":7,"progress":1,"total":4}`),
		notification("integer over 2^53, in a notification", `{"progressToken":9007199254740993,"progress":1,"total":4}`),
		notification("with _meta beside it", `{"progressToken":7,"progress":1,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}`),
	}}
}

func sampling() Group {
	params := func(name, subject, doc string) Input {
		return Input{Name: name, Rev: november, Method: "sampling/createMessage", Def: "CreateMessageRequestParams", Subject: subject, Doc: doc}
	}
	result := func(name, subject, doc string) Input {
		return Input{Name: name, Rev: november, Method: "sampling/createMessage", Def: "CreateMessageResult", Subject: subject, Doc: doc}
	}
	return Group{"Sampling", []Input{
		params("content a single block", "/messages/0/content", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}`),
		params("content a list of one block", "/messages/0/content", `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"maxTokens":5}`),
		params("content an empty list", "/messages/0/content", `{"messages":[{"role":"user","content":[]}],"maxTokens":5}`),
		params("tool_use and tool_result", "/messages/0/content", `{"messages":[{"role":"assistant","content":[{"type":"text","text":"let me see"},{"type":"tool_use","id":"u1","name":"add","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","toolUseId":"u1","content":[{"type":"text","text":"2"}]},{"type":"text","text":"?"}]}],"maxTokens":5}`),
		params("tool_result with isError false and structuredContent", "/messages/0/content", `{"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"u1","content":[{"type":"text","text":"2"}],"structuredContent":{"rows":2},"isError":false}}],"maxTokens":5}`),
		params("tool_result with empty content", "/messages/0/content", `{"messages":[{"role":"user","content":{"type":"tool_result","toolUseId":"u1","content":[]}}],"maxTokens":5}`),
		params("tool_use with empty input and _meta", "/messages/0/content", `{"messages":[{"role":"assistant","content":{"type":"tool_use","id":"u1","name":"now","input":{},"_meta":{"n":1}}}],"maxTokens":5}`),
		params("tools and toolChoice", "/toolChoice", `{"messages":[],"maxTokens":5,"tools":[{`+tool+`}],"toolChoice":{"mode":"required"}}`),
		params("_meta of a message", "", `{"messages":[{"role":"user","content":{"type":"text","text":"hi"},"_meta":{"n":1}}],"maxTokens":5}`),
		params("_meta of the request", "", `{"messages":[],"maxTokens":5,"_meta":{"progressToken":"p"}}`),
		result("result with a single block", "/content", `{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m","stopReason":"endTurn"}`),
		result("result with a list of one tool_use", "/content", `{"role":"assistant","content":[{"type":"tool_use","id":"u1","name":"now","input":{"zone":"UTC"}}],"model":"m","stopReason":"toolUse"}`),
	}}
}

func elicitation() Group {
	form := func(name, property string) Input {
		return Input{Name: name, Rev: november, Method: "elicitation/create", Def: "ElicitRequestParams", Subject: "/requestedSchema/properties/p",
			Doc: `{"mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{"p":` + property + `}}}`}
	}
	return Group{"Elicitation", []Input{
		form("choice without titles", `{"type":"string","enum":["red","green"],"default":"red"}`),
		form("choice with titles", `{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}]}`),
		form("several choices without titles", `{"type":"array","items":{"type":"string","enum":["red","green"]},"minItems":0,"maxItems":2}`),
		form("several choices with titles", `{"type":"array","items":{"anyOf":[{"const":"r","title":"Red"}]},"default":["r"]}`),
		form("choice with enumNames, the old form", `{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]}`),
		form("number with bounds", `{"type":"integer","minimum":0,"maximum":9007199254740993,"default":0}`),
		form("boolean with default false", `{"type":"boolean","default":false,"title":"Sure?"}`),
		form("string with format and minLength 0", `{"type":"string","format":"email","minLength":0}`),
		{Name: "form without mode", Rev: november, Method: "elicitation/create", Def: "ElicitRequestParams", Subject: "/requestedSchema",
			Doc: `{"message":"Who?","requestedSchema":{"type":"object","properties":{}}}`},
		{Name: "url mode", Rev: november, Method: "elicitation/create", Def: "ElicitRequestParams", Subject: "/url",
			Doc: `{"mode":"url","message":"Sign in","url":"https://example.com/in?a=1&b=<2>","elicitationId":"e1"}`},
		{Name: "error -32042 with its elicitations", Rev: november, Def: "URLElicitationRequiredError", Subject: "/error/data/elicitations/0/url",
			Doc: `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"Sign in first","data":{"elicitations":[{"mode":"url","message":"Sign in","url":"https://example.com/in","elicitationId":"e1"}]}}}`},
		{Name: "error -32042 with unknown members", Rev: november, Def: "URLElicitationRequiredError", Subject: "/error/data/elicitations/0/url",
			Doc: `{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"Sign in first","data":{"retryAfter":3,"elicitations":[{"mode":"url","message":"Sign in","url":"https://example.com/in","elicitationId":"e1","icon":"x"}]}}}`},
		{Name: "filled form", Rev: november, Method: "elicitation/create", Def: "ElicitResult",
			Doc: `{"action":"accept","content":{"name":"Ann","age":7,"sure":true,"colours":["r","g"],"none":[]}}`},
		{Name: "elicitation complete notification", Rev: november, Method: "notifications/elicitation/complete", Def: "ElicitationCompleteNotificationParams", Subject: "/elicitationId",
			Doc: `{"elicitationId":"e1"}`},
	}}
}

func content() Group {
	result := func(name, rev, subject, block string) Input {
		return Input{Name: name, Rev: rev, Method: "tools/call", Def: "CallToolResult", Subject: subject, Doc: `{"content":[` + block + `]}`}
	}
	return Group{"Content, resources and icons", []Input{
		result("text with its type last", june, "/content/0/text", `{"text":"A\n\u00e9\ud83d\ude00 <&>","type":"text"}`),
		result("annotations", june, "/content/0/annotations", `{"type":"text","text":"hi","annotations":{"audience":["user","assistant"],"priority":0.5,"lastModified":"2025-01-12T15:00:58Z"}}`),
		result("image", june, "/content/0/mimeType", `{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}`),
		result("audio", june, "/content/0/mimeType", `{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}`),
		{Name: "image in base64 without padding", Rev: june, Method: "tools/call", Def: "CallToolResult", Want: KeepOrRefuse,
			Doc: `{"content":[{"type":"image","data":"iVBORw0KGgo","mimeType":"image/png"}]}`},
		result("resource link", november, "/content/0/icons/0", `{"type":"resource_link","uri":"file:///a","name":"a","title":"A","description":"the letter","mimeType":"text/plain","size":0,"annotations":{"priority":1},"icons":[{"src":"data:image/png;base64,AA==","mimeType":"image/png","sizes":["48x48","any"],"theme":"dark"}],"_meta":{"n":1}}`),
		result("embedded text", june, "/content/0/resource/text", `{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"a"},"annotations":{"audience":["user"]}}`),
		result("embedded blob", june, "/content/0/resource/blob", `{"type":"resource","resource":{"uri":"file:///a","blob":"YQ==","_meta":{"n":1}}}`),
		result("embedded resource with text and blob", june, "", `{"type":"resource","resource":{"uri":"file:///a","text":"a","blob":"YQ=="}}`),
		{Name: "prompt with an image and a link", Rev: june, Method: "prompts/get", Def: "GetPromptResult", Subject: "/messages/1/content",
			Doc: `{"description":"d","messages":[{"role":"user","content":{"type":"image","data":"AAAA","mimeType":"image/png"}},{"role":"assistant","content":{"type":"resource_link","uri":"file:///a","name":"a","description":"d","mimeType":"text/plain"}}]}`},
		{Name: "icons of a tool", Rev: november, Def: "Tool", Subject: "/icons/0",
			Doc: `{` + tool + `,"icons":[{"src":"https://example.com/i.svg","mimeType":"image/svg+xml","sizes":["any"],"theme":"light"},{"src":"https://example.com/i.png"}]}`},
		{Name: "icons, title and website of a client", Rev: november, Method: "initialize", Def: "InitializeRequestParams", Subject: "/clientInfo/icons/0",
			Doc: `{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"c","title":"C","version":"1","description":"d","websiteUrl":"https://example.com","icons":[{"src":"https://example.com/i.png"}]}}`},
		{Name: "outputSchema of a tool", Rev: november, Def: "Tool",
			Doc: `{` + tool + `,"outputSchema":{"type":"object","properties":{"t":{"type":"string"}},"required":["t"]}}`},
	}}
}

func stateless() Group {
	return Group{"The 2026-07-28 revision", []Input{
		{Name: "tool result with resultType", Rev: july, Method: "tools/call", Def: "CallToolResult",
			Doc: `{"resultType":"complete","content":[{"type":"text","text":"hi"}],"structuredContent":[1,2]}`},
		{Name: "structuredContent null", Rev: july, Method: "tools/call", Def: "CallToolResult",
			Doc: `{"resultType":"complete","content":[],"structuredContent":null}`},
		{Name: "list of tools with cache hints", Rev: july, Method: "tools/list", Def: "ListToolsResult", Subject: "/cacheScope",
			Doc: `{"resultType":"complete","ttlMs":60000,"cacheScope":"private","tools":[{` + tool + `}]}`},
		{Name: "resources/read with text and blob", Rev: july, Method: "resources/read", Def: "ReadResourceResult", Subject: "/contents/0/text",
			Doc: `{"resultType":"complete","ttlMs":60000,"cacheScope":"private","contents":[{"uri":"file:///a","text":"a","_meta":{"n":1}},{"uri":"file:///b","blob":"YQ==","mimeType":"image/png"}]}`},
		{Name: "discovered server", Rev: july, Method: "server/discover", Def: "DiscoverResult", Subject: "/supportedVersions",
			Doc: `{"resultType":"complete","ttlMs":0,"cacheScope":"public","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`},
		{Name: "responses to the input requests of a tool", Rev: july, Method: "tools/call", Def: "CallToolRequestParams", Subject: "/inputResponses",
			Doc: `{"name":"pay","requestState":"s","inputResponses":{"who":{"action":"accept","content":{"name":"Ann"}}},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}`},
	}}
}

func wrong() Group {
	call := func(name, doc string) Input {
		return Input{Name: name, Rev: june, Method: "tools/call", Def: "CallToolRequestParams", Want: Refuse, Doc: doc}
	}
	result := func(name, doc string) Input {
		return Input{Name: name, Rev: june, Method: "tools/call", Def: "CallToolResult", Want: Refuse, Doc: doc}
	}
	message := func(name, def, doc string) Input {
		return Input{Name: name, Rev: june, Def: def, Want: Refuse, Doc: doc}
	}
	return Group{"Well-formed text that violates the schema", []Input{
		message("id null", "JSONRPCRequest", `{"jsonrpc":"2.0","id":null,"method":"ping"}`),
		message("id 1.5", "JSONRPCRequest", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`),
		message("id true", "JSONRPCRequest", `{"jsonrpc":"2.0","id":true,"method":"ping"}`),
		message("version 1.0", "JSONRPCRequest", `{"jsonrpc":"1.0","id":1,"method":"ping"}`),
		message("version missing", "JSONRPCRequest", `{"id":1,"method":"ping"}`),
		message("params an array", "JSONRPCRequest", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`),
		message("ID and METHOD in capitals", "JSONRPCRequest", `{"jsonrpc":"2.0","ID":1,"METHOD":"ping"}`),
		message("result without id", "JSONRPCResponse", `{"jsonrpc":"2.0","result":{}}`),
		message("result null", "JSONRPCResponse", `{"jsonrpc":"2.0","id":1,"result":null}`),
		message("error without code", "JSONRPCError", `{"jsonrpc":"2.0","id":1,"error":{"message":"broken"}}`),
		call("name missing", `{"arguments":{"a":1}}`),
		call("name null", `{"name":null}`),
		call("Name for name", `{"Name":"add"}`),
		call("name a number", `{"name":7}`),
		call("arguments an array", `{"name":"add","arguments":[1,2]}`),
		result("content missing", `{"structuredContent":{"a":1}}`),
		result("content null", `{"content":null}`),
		result("content a single block", `{"content":{"type":"text","text":"hi"}}`),
		result("isError a string", `{"content":[],"isError":"yes"}`),
		result("text missing", `{"content":[{"type":"text"}]}`),
		result("priority 1.5", `{"content":[{"type":"text","text":"hi","annotations":{"priority":1.5}}]}`),
		result("embedded resource without uri", `{"content":[{"type":"resource","resource":{"text":"a"}}]}`),
		{Name: "maxTokens 2.5", Rev: june, Method: "sampling/createMessage", Def: "CreateMessageRequestParams", Want: Refuse,
			Doc: `{"messages":[],"maxTokens":2.5}`},
		{Name: "progress a string", Rev: june, Method: "notifications/progress", Def: "ProgressNotificationParams", Want: Refuse,
			Doc: `{"progressToken":1,"progress":"half"}`},
		{Name: "progress token missing", Rev: june, Method: "notifications/progress", Def: "ProgressNotificationParams", Want: Refuse,
			Doc: `{"progress":1}`},
		{Name: "form without requestedSchema", Rev: november, Method: "elicitation/create", Def: "ElicitRequestParams", Want: Refuse,
			Doc: `{"mode":"form","message":"Who?"}`},
		{Name: "url mode without url", Rev: november, Method: "elicitation/create", Def: "ElicitRequestParams", Want: Refuse,
			Doc: `{"mode":"url","message":"Sign in","elicitationId":"e1"}`},
		{Name: "task without status", Rev: november, Def: "Task", Want: Refuse, Subject: "/status",
			Doc: `{"taskId":"t1","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttl":null}`},
		{Name: "task without ttl", Rev: november, Def: "Task", Want: Refuse, Subject: "/ttl",
			Doc: `{"taskId":"t1","status":"working","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z"}`},
		{Name: "ttl 1.5", Rev: november, Def: "Task", Want: Refuse, Subject: "/ttl",
			Doc: `{"taskId":"t1","status":"working","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttl":1.5}`},
		{Name: "ttl a string", Rev: november, Def: "Task", Want: Refuse, Subject: "/ttl",
			Doc: `{"taskId":"t1","status":"working","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttl":"60000"}`},
	}}
}
