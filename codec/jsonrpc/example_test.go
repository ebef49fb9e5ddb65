package jsonrpc_test

import (
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

func ExampleParse() {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"ping"}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":"7","result":{}}`,
		`{"jsonrpc":"2.0","id":7.5,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":8,"method":`,
	} {
		m, err := jsonrpc.Parse([]byte(text))
		if err != nil {
			fmt.Println(jsonrpc.CodeOf(err), err)
			continue
		}
		fmt.Printf("%v, id %v, method %q\n", m.Kind, m.ID, m.Method)
	}
	// Output:
	// request, id 7, method "ping"
	// notification, id , method "notifications/initialized"
	// response, id "7", method ""
	// -32600 json: /id: id is neither a string nor an integer: number is not an integer (line 1, column 23, offset 22)
	// -32700 json: /method: text ends early (line 1, column 34, offset 33)
}

func ExampleMessage() {
	m := jsonrpc.NewErrorResponse(codec.StringScalar("a"), &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no such method"})
	out, err := m.AppendJSON(nil)
	fmt.Println(string(out), err)
	// Output:
	// {"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"no such method"}} <nil>
}

func ExampleNewRequest() {
	m := jsonrpc.NewRequest(codec.IntScalar(1), "tools/call", []byte(`{"name":"add"}`))
	out, err := m.AppendJSON(nil)
	fmt.Println(string(out), err)
	// Output:
	// {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}} <nil>
}

// Only revision 2025-03-26 has batches.
func ExampleParseBatch() {
	text := []byte(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"1.0","id":2,"method":"ping"}]`)
	if !jsonrpc.IsBatch(text) {
		return
	}
	items, err := jsonrpc.ParseBatch(text)
	if err != nil {
		fmt.Println(err) // the text is not a batch
	}
	var answers []jsonrpc.Message
	for _, item := range items {
		if item.Err != nil {
			answers = append(answers, jsonrpc.NewErrorResponse(item.Message.ID, &jsonrpc.Error{Code: jsonrpc.CodeOf(item.Err), Message: "no request"}))
			continue
		}
		answers = append(answers, jsonrpc.NewResponse(item.Message.ID, []byte(`{}`)))
	}
	out, err := jsonrpc.AppendBatch(nil, answers)
	fmt.Println(string(out), err)
	// Output:
	// [{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"no request"}}] <nil>
}
