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
)

type operands struct {
	A float64 `json:"a" jsonschema:"the first operand"`
	B float64 `json:"b" jsonschema:"the second operand"`
}

type answer struct {
	Result float64 `json:"result"`
}

func main() {
	s := server.New("calculator", "1", nil)
	add(s, "add", "Adds b to a.", func(a, b float64) (float64, error) { return a + b, nil })
	add(s, "subtract", "Subtracts b from a.", func(a, b float64) (float64, error) { return a - b, nil })
	add(s, "multiply", "Multiplies a by b.", func(a, b float64) (float64, error) { return a * b, nil })
	add(s, "divide", "Divides a by b.", func(a, b float64) (float64, error) {
		if b == 0 {
			return 0, errors.New("b must not be 0")
		}
		return a / b, nil
	})
	if err := s.ServeStdio(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// add adds a tool for an operation.
func add(s *server.Server, name, description string, operate func(a, b float64) (float64, error)) {
	tool := func(_ context.Context, _ *server.Call, in operands) (answer, error) {
		result, err := operate(in.A, in.B)
		return answer{result}, err
	}
	server.AddTool(s, name, description, tool, server.DefineTool(func(t *mcp.Tool) {
		t.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: new(true)}
	}))
}
