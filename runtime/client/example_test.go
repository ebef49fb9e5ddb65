package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	store "github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// A host calls a tool that elicits input from the user. For a server that is a program or a URL,
// use client.Command or client.Dial instead of client.Connect.
func Example() {
	ctx := context.Background()
	c, err := client.Connect(ctx, bakery(), &client.Options{
		Info: mcp.Implementation{Name: "host", Version: "1"},
		Input: client.Input{Fill: func(ctx context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
			fmt.Printf("%s asks: %s\n", f.Server.Name, f.Message)
			for _, field := range f.Fields {
				fmt.Println("  field:", field.Title)
			}
			return client.Accept(map[string]any{"slices": 8})
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for tool, err := range c.Tools(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("tool:", client.Title(tool))
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

// bakery serves in this process and returns the client's end of the connection.
func bakery() transport.Conn {
	s := server.New("bakery", "1", nil)
	type order struct {
		Cake string `json:"cake"`
	}
	type cut struct {
		Slices int `json:"slices"`
	}
	server.AddTool(s, "bake", "", func(ctx context.Context, c *server.Call, in order) (out cut, err error) {
		if _, err := server.Elicit(ctx, c, "How many slices?", &out); err != nil {
			return out, err
		}
		return out, c.Progress(1, 1, "in the oven")
	}, server.DefineTool(func(t *mcp.Tool) { t.Title = new("Bake a cake") }))
	here, there := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(there); err != nil {
		log.Fatal(err)
	}
	return here
}

// The server is a program: here, the test binary itself.
func ExampleCommand() {
	ctx := context.Background()
	c, err := client.Command(ctx, stdio.Command{Path: os.Args[0], Env: append(os.Environ(), beServer+"=1"), Stderr: os.Stderr}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("connected with", c.Server().ServerInfo.Name)
	fmt.Println(c.Close()) // ends the program
	// Output:
	// connected with echo
	// <nil>
}

// The server has a URL.
func ExampleDial() {
	ctx := context.Background()
	handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) { serveEcho(conn, func() {}) }, streamable.HandlerOptions{})
	web := httptest.NewServer(handler)
	defer web.Close()
	defer handler.Close()

	c, err := client.Dial(ctx, web.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println("connected with", c.Server().ServerInfo.Name)
	// Output:
	// connected with echo
}

// A host runs a tool as a task and attaches to it by its id.
func ExampleClient_StartTool() {
	ctx := context.Background()
	s := server.New("oven", "1", &server.Options{
		Session: session.Options{Principal: "ann"},
		Tasks:   task.Options{Store: store.New()},
	})
	server.AddTool(s, "bake", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		return "a cake", nil
	}, server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired}))
	defer s.Close()
	here, there := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(there); err != nil {
		log.Fatal(err)
	}
	c, err := client.Connect(ctx, here, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	started, err := c.StartTool(ctx, "bake", nil)
	if err != nil {
		log.Fatal(err)
	}
	result, err := c.AttachTool(started.ID()).Result(ctx) // perhaps in another process
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	for t, err := range c.Tasks(ctx) {
		fmt.Println(t.Status, t.TaskID == started.ID(), err)
	}
	result, err = c.CallTool(ctx, "bake", nil) // also runs as a task, because the tool requires it
	fmt.Println(result.Content[0].(*mcp.TextContent).Text, err)
	// Output:
	// a cake
	// completed true <nil>
	// a cake <nil>
}

// Output decodes structured content, or returns the error of the tool.
func ExampleOutput() {
	type weather struct {
		Degrees int `json:"degrees"`
	}
	w, err := client.Output[weather](&mcp.CallToolResult{StructuredContent: []byte(`{"degrees":4}`)})
	fmt.Println(w.Degrees, err)
	_, err = client.Output[weather](&mcp.CallToolResult{IsError: new(true), Content: []mcp.ContentBlock{&mcp.TextContent{Text: "no such city"}}})
	failed, ok := errors.AsType[*client.ToolError](err)
	fmt.Println(ok, failed)
	// Output:
	// 4 <nil>
	// true client: tool failed: no such city
}

func ExamplePickModel() {
	preferences := &mcp.ModelPreferences{Hints: []mcp.ModelHint{{Name: new("opus")}, {Name: new("SMALL")}}}
	fmt.Println(client.PickModel(preferences, []string{"acme-large-2", "acme-small-2"}))
	// Output:
	// acme-small-2 true
}

// The user changes the roots that servers may see.
func ExampleRoots() {
	ctx := context.Background()
	project := mcp.Root{URI: "file:///home/ann/project", Name: new("project")}
	roots := new(client.Roots)
	if err := roots.Set(ctx, project); err != nil {
		log.Fatal(err)
	}
	c, err := client.Connect(ctx, bakery(), &client.Options{Input: client.Input{Roots: roots}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(roots.Set(ctx, project, mcp.Root{URI: "file:///home/ann/notes"})) // notifies all servers
	fmt.Println(roots.Set(ctx, mcp.Root{URI: "home"}))
	// Output:
	// <nil>
	// client: root "home": want a file URI with an absolute path, such as file:///home
}
