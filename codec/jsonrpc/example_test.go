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
