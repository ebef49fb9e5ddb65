package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/mcp"
)

// A message is decoded with typed params, checked against a revision, changed and encoded again.
func Example() {
	m, err := mcp.DecodeRequest([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	call, ok := m.Payload.(*mcp.CallToolRequestParams)
	if !ok {
		fmt.Println("not a call of a tool:", m.Method)
		return
	}
	if err := call.Validate(mcp.Revision20251125); err != nil {
		fmt.Println(err)
		return
	}
	call.Name = "welcome"
	out, err := codec.Marshal(call)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(out))
	// Output:
	// {"arguments":{"name":"Ada"},"name":"welcome"}
}

// DecodeRequest decodes a request and its params. Unknown members are kept when the params are
// encoded again.
func ExampleDecodeRequest() {
	const line = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"render","arguments":{"scene":3},"task":{"ttl":6e4},"trace":"on"}}`

	m, err := mcp.DecodeRequest([]byte(line))
	if err != nil {
		fmt.Println(err)
		return
	}
	call := m.Payload.(*mcp.CallToolRequestParams)
	fmt.Println(m.Method, call.Name, string(call.Arguments))
	fmt.Println("as a task for", *call.Task.TTL, "ms")

	out, err := codec.Marshal(call)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(out))
	// Output:
	// tools/call render {"scene":3}
	// as a task for 60000 ms
	// {"arguments":{"scene":3},"name":"render","task":{"ttl":60000},"trace":"on"}
}

// A server returns a task. Optional members are pointers; new returns a pointer to its argument.
func ExampleTask() {
	result := mcp.CreateTaskResult{
		Meta: &mcp.ResultMetaObject{ModelImmediateResponse: new("Rendering, about a minute.")},
		Task: mcp.Task{
			TaskID:        "786512e2",
			Status:        mcp.TaskStatusWorking,
			CreatedAt:     "2025-11-25T10:30:00Z",
			LastUpdatedAt: "2025-11-25T10:30:00Z",
			TTL:           new(int64(60000)), // nil is null: it is kept without limit
			PollInterval:  new(int64(5000)),
		},
	}
	if err := result.Validate(mcp.Revision20251125); err != nil {
		fmt.Println(err)
		return
	}
	out, err := codec.Marshal(&result)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(out))
	// Output:
	// {"_meta":{"io.modelcontextprotocol/model-immediate-response":"Rendering, about a minute."},"task":{"createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","pollInterval":5000,"status":"working","taskId":"786512e2","ttl":60000}}
}

// A client switches on the type of each content block. A block of an unknown type is an Unknown.
func ExampleContentBlock() {
	var result mcp.CallToolResult
	err := codec.Unmarshal([]byte(`{"content":[
		{"type":"text","text":"Done."},
		{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="},
		{"type":"hologram","depth":3}
	]}`), &result)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range result.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			fmt.Println("text:", c.Text)
		case *mcp.ImageContent:
			fmt.Println("image:", c.MIMEType, len(c.Data))
		case *mcp.Unknown:
			fmt.Println("unknown:", string(c.Raw))
		}
	}
	// Output:
	// text: Done.
	// image: image/png 12
	// unknown: {"type":"hologram","depth":3}
}

// The result of a tool call has one of several types. DecodeResult returns the right one.
func ExampleDecodeResult() {
	for _, text := range []string{
		`{"content":[{"type":"text","text":"Done."}]}`,
		`{"task":{"taskId":"786512e2","status":"working","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttl":null}}`,
	} {
		v, err := mcp.DecodeResult("tools/call", []byte(text))
		if err != nil {
			fmt.Println(err)
			return
		}
		switch result := v.(type) {
		case *mcp.CallToolResult:
			fmt.Println("result with", len(result.Content), "block")
		case *mcp.CreateTaskResult:
			fmt.Println("task", result.Task.TaskID, "is", result.Task.Status)
		}
	}
	// Output:
	// result with 1 block
	// task 786512e2 is working
}

// Validate reports every fault, with its JSON pointer, under the schema of one revision.
func ExampleValidate() {
	err := mcp.Validate(mcp.Revision20251125, "Task", []byte(`{"taskId":7,"status":"asleep","createdAt":"","lastUpdatedAt":""}`))
	var faults jsonschema.Faults
	if errors.As(err, &faults) {
		for _, f := range faults {
			fmt.Printf("%q: %v\n", f.Pointer, f.Err)
		}
	}
	// Output:
	// "": required member "ttl" is missing
	// "/taskId": want string, got number
	// "/status": "asleep" is not one of "cancelled", "completed", "failed", "input_required", "working"
}

// adder implements one method. The embedded struct rejects all others.
type adder struct{ mcp.UnimplementedServerHandler }

func (adder) CallTool(ctx context.Context, params *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	var numbers []int
	if err := json.Unmarshal(params.Arguments, &struct{ Numbers *[]int }{&numbers}); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	sum := 0
	for _, n := range numbers {
		sum += n
	}
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: fmt.Sprint(sum)}}}, nil
}

// DispatchServer checks the params against a revision, decodes them and calls the handler for the
// method.
func ExampleDispatchServer() {
	ctx := context.Background()
	for _, params := range []string{`{"name":"add","arguments":{"numbers":[1,2,39]}}`, `{"arguments":[]}`} {
		result, err := mcp.DispatchServer(ctx, adder{}, mcp.Revision20251125, "tools/call", []byte(params))
		if err != nil {
			fmt.Println(jsonrpc.CodeOf(err))
			continue
		}
		out, err := codec.Marshal(result)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(out))
	}
	// Output:
	// {"content":[{"type":"text","text":"42"}]}
	// -32602
}

// LookupMethod returns the properties of a method and the revisions that have it.
func ExampleLookupMethod() {
	m, ok := mcp.LookupMethod("tools/call")
	fmt.Println(ok, m.Params, m.Result, m.Task, m.From == mcp.FromClient)
	m, _ = mcp.LookupMethod("tasks/get")
	fmt.Println(m.In(mcp.Revision20250618), m.In(mcp.Revision20251125))
	// Output:
	// true CallToolRequestParams CallToolOutcome true true
	// false true
}

// A response does not name its method, so the caller of DecodeResponse must know it.
func ExampleDecodeResponse() {
	m, err := mcp.DecodeResponse("resources/read", []byte(`{"jsonrpc":"2.0","id":7,"result":{"contents":[{"uri":"note://1","text":"milk"}]}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	result := m.Payload.(*mcp.ReadResourceResult)
	fmt.Println(m.ID, result.Contents[0].(*mcp.TextResourceContents).Text)
	// Output:
	// 7 milk
}

// A recorder sees both directions of a connection. A Conversation gives each result the type that
// belongs to its request.
func ExampleConversation() {
	var conversation mcp.Conversation
	for _, m := range []struct {
		from mcp.Direction
		text string
	}{
		{mcp.FromClient, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
		{mcp.FromServer, `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`},
		{mcp.FromServer, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`},
		{mcp.FromClient, `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`},
	} {
		typed, err := conversation.DecodeFrom(m.from, []byte(m.text))
		fmt.Printf("%T %v\n", typed.Payload, err)
	}
	// Output:
	// <nil> <nil>
	// <nil> <nil>
	// *mcp.ListToolsResult <nil>
	// *mcp.ListRootsResult <nil>
}

// local is a [jsonrpc.Caller] that calls a handler in the same process.
type local struct{}

func (local) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	text, err := codec.Marshal(params)
	if err != nil {
		return nil, err
	}
	result, err := mcp.DispatchServer(ctx, adder{}, mcp.Revision20251125, method, text)
	if err != nil {
		return nil, err
	}
	return codec.Marshal(result)
}

// ToServer makes typed calls through any Caller. Package runtime/session has a Caller for
// connections.
func ExampleToServer() {
	server := mcp.ToServer{Caller: local{}}
	outcome, err := server.CallTool(context.Background(), &mcp.CallToolRequestParams{Name: "add", Arguments: json.RawMessage(`{"numbers":[1,2]}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	switch result := outcome.(type) {
	case *mcp.CallToolResult:
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	case *mcp.CreateTaskResult:
		fmt.Println("task", result.Task.TaskID)
	}
	// Output:
	// 3
}

// New returns a value of the type of a definition.
func ExampleNew() {
	v := mcp.New("Tool")
	err := codec.Unmarshal([]byte(`{"name":"add","inputSchema":{"type":"object"}}`), v)
	fmt.Printf("%T %s %v\n", v, v.(*mcp.Tool).Name, err)
	fmt.Println(mcp.New("Hammer"))
	// Output:
	// *mcp.Tool add <nil>
	// <nil>
}
