package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/form"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/memory"
)

// A host calls a tool of a server, which asks back. Where the server is a program or a URL,
// client.Command and client.Dial take the place of client.Connect.
func Example() {
	ctx := context.Background()
	c, err := client.Connect(ctx, bakery(), &client.Options{
		Info: mcp.Implementation{Name: "host", Version: "1"},
		Fill: func(ctx context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
			fmt.Printf("%s asks: %s\n", f.Server.Name, f.Message)
			for _, field := range f.Fields() {
				fmt.Println("  field:", field.Title)
			}
			slices, err := form.Of(8)
			return client.Accept(map[string]form.Value{"slices": slices}), err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for tool, err := range c.Tools(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("tool:", client.ToolTitle(tool))
	}
	result, err := c.CallTool(ctx, "bake", map[string]any{"cake": "plum"}, client.OnProgress(func(p session.Progress) {
		fmt.Println("progress:", p.Message)
	}))
	if err != nil {
		log.Fatal(err)
	}
	cake, err := client.Output[struct {
		Slices int `json:"slices"`
	}](result)
	fmt.Println("slices:", cake.Slices, err)
	// Output:
	// tool: Bake a cake
	// bakery asks: How many slices?
	//   field: slices
	// progress: in the oven
	// slices: 8 <nil>
}

// bakery is a server in this process.
func bakery() transport.Conn {
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "bakery", Version: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	type order struct {
		Cake string `json:"cake"`
	}
	type cut struct {
		Slices int `json:"slices"`
	}
	_, err = server.AddTool(s, mcp.Tool{Name: "bake", Title: new("Bake a cake")},
		func(ctx context.Context, c *server.Call, in order) (out cut, err error) {
			if _, err := server.Elicit(ctx, c, "How many slices?", &out); err != nil {
				return out, err
			}
			return out, c.Progress(1, 1, "in the oven")
		})
	if err != nil {
		log.Fatal(err)
	}
	here, there := memory.Pair(memory.Options{})
	if _, err := s.Serve(there); err != nil {
		log.Fatal(err)
	}
	return here
}
