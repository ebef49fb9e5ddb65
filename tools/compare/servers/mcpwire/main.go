package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

type terms struct {
	A float64 `json:"a" jsonschema:"the first term"`
	B float64 `json:"b" jsonschema:"the second term"`
}

type sum struct {
	Sum float64 `json:"sum"`
}

func add(ctx context.Context, c *server.Call, in terms) (sum, error) {
	return sum{in.A + in.B}, nil
}

type order struct {
	Dish string `json:"dish" jsonschema:"what to cook"`
}

type party struct {
	People int `json:"people"`
}

func cook(ctx context.Context, c *server.Call, in order) (string, error) {
	if err := c.Progress(1, 2, "asking"); err != nil {
		return "", err
	}
	var p party
	action, err := server.Elicit(ctx, c, "For how many?", &p)
	if err != nil || action != mcp.ElicitActionAccept {
		return "Nothing was cooked.", err
	}
	return fmt.Sprintf("%s for %d", in.Dish, p.People), c.Progress(2, 2, "done")
}

func greet(ctx context.Context, c *server.Call, r server.Resource) ([]mcp.AnyResourceContents, error) {
	return server.TextContents("Hello, " + r.Vars.Get("name") + "!"), nil
}

func review(ctx context.Context, c *server.Call, arguments map[string]string) (*mcp.GetPromptResult, error) {
	return server.Messages(server.UserText("Please review: " + arguments["code"])), nil
}

func main() {
	addr := flag.String("http", "", "where to serve HTTP; standard input and output without it")
	flag.Parse()
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "example", Version: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	_, err1 := server.AddTool(s, mcp.Tool{Name: "add", Description: new("Adds two numbers.")}, add)
	_, err2 := server.AddTool(s, mcp.Tool{Name: "cook", Description: new("Cooks a dish, and asks for how many.")}, cook)
	_, err3 := s.AddTemplate(mcp.ResourceTemplate{Name: "greeting", URITemplate: "greeting://{name}", MIMEType: new("text/plain")}, greet)
	_, err4 := s.AddPrompt(mcp.Prompt{Name: "review", Arguments: []mcp.PromptArgument{{Name: "code", Required: new(true)}}}, review)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		log.Fatal(err)
	}
	if *addr != "" {
		serve := func(_ *http.Request, conn transport.Conn) { s.Serve(conn) }
		log.Fatal(http.ListenAndServe(*addr, streamable.NewHandler(serve, streamable.HandlerOptions{})))
	}
	if err := s.Run(context.Background(), stdio.Server(stdio.Options{})); err != nil {
		log.Fatal(err)
	}
}
