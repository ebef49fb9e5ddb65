// Command echo is the echo server of the TypeScript SDK's documentation, on standard input and
// output. It returns a message as the result of a tool, as a resource, and as a prompt.
//
//	npx @modelcontextprotocol/inspector --cli go run ./examples/echo --method resources/read --uri echo://hello
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

type message struct {
	Message string `json:"message" jsonschema:"what to say"`
}

type reply struct {
	Echo string `json:"echo"`
}

func newServer() (*server.Server, error) {
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "echo-server", Version: "1.0.0"}})
	if err != nil {
		return nil, err
	}
	_, err = server.AddTool(s, mcp.Tool{Name: "echo", Title: new("Echo"), Description: new("Returns the message.")},
		func(_ context.Context, _ *server.Call, in message) (reply, error) {
			return reply{"The tool says: " + in.Message}, nil
		})
	_, err2 := s.AddTemplate(mcp.ResourceTemplate{Name: "echo", URITemplate: "echo://{message}",
		Title: new("Echo as a resource"), Description: new("A text with the message in its URI."), MIMEType: new("text/plain")},
		func(_ context.Context, _ *server.Call, r server.Resource) ([]mcp.AnyResourceContents, error) {
			return server.TextContents("The resource says: " + r.Vars.Get("message")), nil
		})
	_, err3 := s.AddPrompt(mcp.Prompt{Name: "echo", Title: new("Echo as a prompt"), Description: new("Sends the message to the model."),
		Arguments: []mcp.PromptArgument{{Name: "message", Required: new(true)}}},
		func(_ context.Context, _ *server.Call, arguments map[string]string) (*mcp.GetPromptResult, error) {
			return server.Messages(server.UserText("Think about this: " + arguments["message"])), nil
		})
	return s, errors.Join(err, err2, err3)
}
