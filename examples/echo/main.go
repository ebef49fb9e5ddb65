// Command echo is the echo server of the TypeScript SDK's documentation, on standard input and
// output. It returns a message as the result of a tool, as a resource, and as a prompt.
//
//	npx @modelcontextprotocol/inspector --cli go run ./examples/echo --method resources/read --uri echo://hello
package main

import (
	"context"
	"log"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

type message struct {
	Message string `json:"message" jsonschema:"what to say"`
}

type reply struct {
	Echo string `json:"echo"`
}

func main() {
	s := server.New("echo-server", "1.0.0", nil)
	server.AddTool(s, "echo", "Returns the message.", tool, server.DefineTool(func(t *mcp.Tool) { t.Title = new("Echo") }))
	server.AddTemplate(s, "echo://{message}", "echo", resource, server.DefineTemplate(func(t *mcp.ResourceTemplate) {
		t.Title = new("Echo as a resource")
		t.Description = new("A text with the message in its URI.")
		t.MIMEType = new("text/plain")
	}))
	server.AddPrompt(s, "echo", "Sends the message to the model.", prompt, server.DefinePrompt(func(p *mcp.Prompt) { p.Title = new("Echo as a prompt") }))
	if err := s.ServeStdio(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func tool(_ context.Context, _ *server.Call, in message) (reply, error) {
	return reply{"The tool says: " + in.Message}, nil
}

func resource(_ context.Context, _ *server.Call, r server.Resource) (string, error) {
	return "The resource says: " + r.Vars.Get("message"), nil
}

func prompt(_ context.Context, _ *server.Call, in message) (string, error) {
	return "Think about this: " + in.Message, nil
}
