// Command calculator is a server on standard input and output with arithmetic tools. They return
// structured output and errors that help the model correct a call.
//
//	npx @modelcontextprotocol/inspector --cli go run ./examples/calculator --method tools/call --tool-name divide --tool-arg a=6 --tool-arg b=4
package main

import (
	"context"
	"errors"
	"log"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

func main() {
	s, err := newServer()
	if err == nil {
		err = s.Run(context.Background(), stdio.Server(stdio.Options{}))
	}
	if err != nil {
		log.Fatal(err)
	}
}

type operands struct {
	A float64 `json:"a" jsonschema:"the first operand"`
	B float64 `json:"b" jsonschema:"the second operand"`
}

type answer struct {
	Result float64 `json:"result"`
}

// operations returns the tools by name.
func operations() map[string]func(a, b float64) (float64, error) {
	return map[string]func(a, b float64) (float64, error){
		"add":      func(a, b float64) (float64, error) { return a + b, nil },
		"subtract": func(a, b float64) (float64, error) { return a - b, nil },
		"multiply": func(a, b float64) (float64, error) { return a * b, nil },
		"divide": func(a, b float64) (float64, error) {
			if b == 0 {
				return 0, errors.New("b must not be 0")
			}
			return a / b, nil
		},
	}
}

func newServer() (*server.Server, error) {
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "calculator", Version: "1"}})
	if err != nil {
		return nil, err
	}
	for name, operate := range operations() {
		_, err := server.AddTool(s, mcp.Tool{Name: name, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}},
			func(_ context.Context, _ *server.Call, in operands) (answer, error) {
				result, err := operate(in.A, in.B)
				return answer{result}, err
			})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}
