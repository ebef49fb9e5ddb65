package partial_test

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/experimental/partial"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

func Example() {
	ctx := context.Background()
	c := library(ctx)
	defer c.Close()
	o, err := partial.Start(c.Session(), "tools/call", &mcp.CallToolRequestParams{Name: "read"})
	if err != nil {
		log.Fatal(err)
	}
	for part, err := range o.Parts(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		var result mcp.CallToolResult
		if err := codec.Unmarshal(part, &result); err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// Down the Rabbit-Hole
	// The Pool of Tears
	// A Caucus-Race
}

// library is connected with a server that reads a book aloud, one chapter per part.
func library(ctx context.Context) *client.Client {
	inParts, err := partial.Receive(partial.Options{})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New("library", "1", &server.Options{
		Session: session.Options{Hooks: session.Hooks{Receiving: []session.Middleware{inParts}}},
	})
	chapters := []string{"Down the Rabbit-Hole", "The Pool of Tears", "A Caucus-Race"}
	server.AddTool(s, "read", "", func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
		part, ok := partial.PartFrom(ctx)
		if !ok {
			return fmt.Sprint(chapters), nil
		}
		at := 0
		if state, resumed := part.State(); resumed {
			at, _ = strconv.Atoi(string(state)) // authenticated, so it is valid
		}
		if at+1 < len(chapters) {
			part.More([]byte(strconv.Itoa(at + 1)))
		}
		return chapters[at], nil
	}, server.DefineTool(partial.Announce))

	here, there := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(there); err != nil {
		log.Fatal(err)
	}
	c, err := client.Connect(ctx, here, &client.Options{Info: mcp.Implementation{Name: "reader", Version: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// A client continues with a stored token after a reconnect.
func ExampleContinue() {
	ctx := context.Background()
	c, params := library(ctx), &mcp.CallToolRequestParams{Name: "read"}
	defer c.Close()
	o, err := partial.Start(c.Session(), "tools/call", params)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := o.Next(ctx); err != nil {
		log.Fatal(err)
	}
	token, more := o.Token()
	fmt.Println(more)

	o, err = partial.Continue(c.Session(), "tools/call", params, token)
	if err != nil {
		log.Fatal(err)
	}
	part, err := o.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(string(part), "The Pool of Tears"))
	// Output:
	// true
	// true
}
