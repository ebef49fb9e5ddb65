package server_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/form"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	store "github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/memory"
)

// converse connects a client with a server in this process. A server of its own runs over stdio.Server or under a
// streamable.Handler.
func converse(ctx context.Context, s *server.Server) *client.Client {
	here, there := memory.Pair(memory.Options{})
	if _, err := s.Serve(there); err != nil {
		log.Fatal(err)
	}
	c, err := client.Connect(ctx, here, &client.Options{Info: mcp.Implementation{Name: "example", Version: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

func ExampleAddTool() {
	ctx := context.Background()
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "calculator", Version: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	type terms struct {
		A int `json:"a" jsonschema:"the first term"`
		B int `json:"b" jsonschema:"the second term"`
	}
	type sum struct {
		Sum int `json:"sum"`
	}
	_, err = server.AddTool(s, mcp.Tool{Name: "add", Description: new("Adds two numbers.")},
		func(ctx context.Context, c *server.Call, in terms) (sum, error) {
			return sum{in.A + in.B}, nil
		})
	if err != nil {
		log.Fatal(err)
	}

	c := converse(ctx, s)
	defer c.Close()
	result, err := c.CallTool(ctx, "add", map[string]int{"a": 1, "b": 2})
	fmt.Println(string(result.StructuredContent), err)
	result, err = c.CallTool(ctx, "add", map[string]string{"a": "one"})
	fmt.Println(result.Content[0].(*mcp.TextContent).Text, err)
	// Output:
	// {"sum":3} <nil>
	// The arguments do not comply with the input schema of this tool.
	// missing property 'b'
	// /a: got string, want integer <nil>
}

func ExampleTasks() {
	ctx := context.Background()
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "kitchen", Version: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	type order struct {
		Dish string `json:"dish"`
	}
	_, err = server.AddTool(s, mcp.Tool{Name: "cook"}, func(ctx context.Context, c *server.Call, in order) (string, error) {
		run, isTask := c.Task()
		if isTask {
			if err := run.SetStatusMessage(ctx, "cooking "+in.Dish); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%s, cooked as a task: %v", in.Dish, isTask), nil
	}, server.Tasks(receiver.Support{Mode: mcp.ToolExecutionTaskSupportOptional, Restartable: true}))
	if err != nil {
		log.Fatal(err)
	}
	tasks, err := task.New(ctx, task.Config{Store: store.New(), Resume: s.Resume}) // or a bolt store, to survive
	if err != nil {
		log.Fatal(err)
	}
	defer tasks.Close(ctx)
	defer s.Close()
	s.OfferTasks(tasks, true)

	c := converse(ctx, s)
	defer c.Close()
	handle, err := c.StartTool(ctx, "cook", order{"soup"})
	if err != nil {
		log.Fatal(err)
	}
	result, err := handle.Result(ctx)
	fmt.Println(result.Content[0].(*mcp.TextContent).Text, err)
	// Output:
	// soup, cooked as a task: true <nil>
}

func ExampleServer_AddTemplate() {
	ctx := context.Background()
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "greeter", Version: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	_, err = s.AddTemplate(mcp.ResourceTemplate{Name: "greeting", URITemplate: "greeting://{name}", MIMEType: new("text/plain")},
		func(ctx context.Context, c *server.Call, r server.Resource) ([]mcp.AnyResourceContents, error) {
			return server.TextContents("Hello, " + r.Vars.Get("name") + "!"), nil
		}, server.Complete("name", server.OneOf("Ada", "Alan", "Grace")))
	if err != nil {
		log.Fatal(err)
	}

	c := converse(ctx, s)
	defer c.Close()
	result, err := c.ReadResource(ctx, "greeting://Ada")
	fmt.Println(result.Contents[0].(*mcp.TextResourceContents).Text, err)
	values, err := c.Complete(ctx, &mcp.ResourceTemplateReference{URI: "greeting://{name}"}, "name", "a", nil)
	fmt.Println(values.Values, err)
	// Output:
	// Hello, Ada! <nil>
	// [Ada Alan] <nil>
}

func ExampleServer_AddPrompt() {
	ctx := context.Background()
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "reviewer", Version: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	_, err = s.AddPrompt(mcp.Prompt{Name: "review", Arguments: []mcp.PromptArgument{{Name: "code", Required: new(true)}}},
		func(ctx context.Context, c *server.Call, arguments map[string]string) (*mcp.GetPromptResult, error) {
			return server.Messages(server.UserText("Please review: " + arguments["code"])), nil
		})
	if err != nil {
		log.Fatal(err)
	}

	c := converse(ctx, s)
	defer c.Close()
	result, err := c.GetPrompt(ctx, "review", map[string]string{"code": "x++"})
	fmt.Println(result.Messages[0].Content.(*mcp.TextContent).Text, err)
	// Output:
	// Please review: x++ <nil>
}

func ExampleElicit() {
	ctx := context.Background()
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "shop", Version: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	type address struct {
		Street string `json:"street"`
		Gift   bool   `json:"gift,omitempty"`
	}
	_, err = server.AddTool(s, mcp.Tool{Name: "buy"}, func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		var to address
		action, err := server.Elicit(ctx, c, "Where to?", &to)
		if err != nil {
			return "", err
		}
		if action != mcp.ElicitResultActionAccept {
			return "Nothing was bought.", nil
		}
		return "It is on its way to " + to.Street + ".", nil
	})
	if err != nil {
		log.Fatal(err)
	}

	here, there := memory.Pair(memory.Options{})
	if _, err := s.Serve(there); err != nil {
		log.Fatal(err)
	}
	c, err := client.Connect(ctx, here, &client.Options{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
		fmt.Println(f.Message)
		street := &mcp.ElicitResultContentValueScalar{Value: codec.StringScalar("12 St James's Square")}
		return client.Accept(map[string]form.Value{"street": street}), nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallTool(ctx, "buy", nil)
	fmt.Println(result.Content[0].(*mcp.TextContent).Text, err)
	// Output:
	// Where to?
	// It is on its way to 12 St James's Square. <nil>
}
