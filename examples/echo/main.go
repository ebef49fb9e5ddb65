// Command echo is a server on standard input and output that says what it hears: as a tool, as a resource, and as a
// prompt.
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

func newServer() (*server.Server, error) {
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "echo", Version: "1"}})
	if err != nil {
		return nil, err
	}
	_, err = server.AddTool(s, mcp.Tool{Name: "echo", Description: new("Says what it hears.")},
		func(_ context.Context, _ *server.Call, in message) (string, error) { return in.Message, nil })
	_, err2 := s.AddTemplate(mcp.ResourceTemplate{Name: "echo", URITemplate: "echo://{message}", MIMEType: new("text/plain")},
		func(_ context.Context, _ *server.Call, r server.Resource) ([]mcp.AnyResourceContents, error) {
			return server.TextContents(r.Vars.Get("message")), nil
		})
	_, err3 := s.AddPrompt(mcp.Prompt{Name: "echo", Arguments: []mcp.PromptArgument{{Name: "message", Required: new(true)}}},
		func(_ context.Context, _ *server.Call, arguments map[string]string) (*mcp.GetPromptResult, error) {
			return server.Messages(server.UserText("Please say: " + arguments["message"])), nil
		})
	return s, errors.Join(err, err2, err3)
}
