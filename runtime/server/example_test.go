package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	store "github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// connectInMemory connects a client to a server in the same process. A server in a separate process
// uses ServeStdio or ListenAndServe.
func connectInMemory(ctx context.Context, s *server.Server) *client.Client {
	clientConn, serverConn := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(serverConn); err != nil {
		log.Fatal(err)
	}
	c, err := client.Connect(ctx, clientConn, &client.Options{Info: mcp.Implementation{Name: "example", Version: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// A server has features and then serves. Here the client is in the same process; a separate program
// ends with s.ServeStdio(ctx) or s.ListenAndServe(ctx, "localhost:8080", nil).
func Example() {
	ctx := context.Background()
	s := server.New("greeter", "1.0.0", nil)
	defer s.Close()
	type person struct {
		Name string `json:"name" jsonschema:"name of the person"`
	}
	server.AddTool(s, "greet", "Greets a person.", func(ctx context.Context, c *server.Call, in person) (string, error) {
		return "Hello, " + in.Name + "!", nil
	})
	server.AddResource(s, "greeter:///languages", "languages", func(ctx context.Context, c *server.Call, r server.Resource) (string, error) {
		return "English", nil
	})
	server.AddPrompt(s, "letter", "Asks for a letter.", func(ctx context.Context, c *server.Call, in person) (string, error) {
		return "Write a letter to " + in.Name + ".", nil
	})

	c := connectInMemory(ctx, s)
	defer c.Close()
	result, err := c.CallTool(ctx, "greet", person{"Ada"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	contents, err := c.ReadResource(ctx, "greeter:///languages")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(contents.Contents[0].(*mcp.TextResourceContents).Text)
	prompt, err := c.GetPrompt(ctx, "letter", map[string]string{"name": "Ada"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(prompt.Messages[0].Content.(*mcp.TextContent).Text)
	// Output:
	// Hello, Ada!
	// English
	// Write a letter to Ada.
}

func ExampleAddTool() {
	ctx := context.Background()
	s := server.New("calculator", "1", nil)
	defer s.Close()
	type terms struct {
		A int `json:"a" jsonschema:"the first term"`
		B int `json:"b" jsonschema:"the second term"`
	}
	type sum struct {
		Sum int `json:"sum"`
	}
	server.AddTool(s, "add", "Adds two numbers.", func(ctx context.Context, c *server.Call, in terms) (sum, error) {
		return sum{in.A + in.B}, nil
	})

	c := connectInMemory(ctx, s)
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

func ExampleDurable() {
	ctx := context.Background()
	s := server.New("kitchen", "1", &server.Options{Tasks: task.Options{Store: store.New()}}) // or a bolt store, to survive
	defer s.Close()
	type order struct {
		Dish string `json:"dish"`
	}
	server.AddTool(s, "cook", "", func(ctx context.Context, c *server.Call, in order) (string, error) {
		run, isTask := c.Task()
		if isTask {
			if err := run.SetStatusMessage(ctx, "cooking "+in.Dish); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%s, cooked as a task: %v", in.Dish, isTask), nil
	}, server.Durable())

	c := connectInMemory(ctx, s)
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

func ExampleAddTemplate() {
	ctx := context.Background()
	s := server.New("greeter", "1", nil)
	defer s.Close()
	server.AddTemplate(s, "greeting://{name}", "greeting", func(ctx context.Context, c *server.Call, r server.Resource) (string, error) {
		return "Hello, " + r.Vars.Get("name") + "!", nil
	}, server.DefineTemplate(func(t *mcp.ResourceTemplate) { t.MIMEType = new("text/plain") }), server.Complete("name", server.OneOf("Ada", "Alan", "Grace")))

	c := connectInMemory(ctx, s)
	defer c.Close()
	result, err := c.ReadResource(ctx, "greeting://Ada")
	fmt.Println(result.Contents[0].(*mcp.TextResourceContents).Text, err)
	values, err := c.Complete(ctx, &mcp.ResourceTemplateReference{URI: "greeting://{name}"}, "name", "a", nil)
	fmt.Println(values.Values, err)
	// Output:
	// Hello, Ada! <nil>
	// [Ada Alan] <nil>
}

func ExampleAddPrompt() {
	ctx := context.Background()
	s := server.New("reviewer", "1", nil)
	defer s.Close()
	type change struct {
		Code  string `json:"code" jsonschema:"the lines to review"`
		Depth int    `json:"depth,omitempty"`
	}
	server.AddPrompt(s, "review", "Asks for a review.", func(ctx context.Context, c *server.Call, in change) (string, error) {
		return fmt.Sprintf("Please review to depth %d: %s", in.Depth, in.Code), nil
	})

	c := connectInMemory(ctx, s)
	defer c.Close()
	result, err := c.GetPrompt(ctx, "review", map[string]string{"code": "x++", "depth": "2"})
	fmt.Println(result.Messages[0].Content.(*mcp.TextContent).Text, err)
	_, err = c.GetPrompt(ctx, "review", map[string]string{"code": "x++", "depth": "deep"})
	fmt.Println(err)
	// Output:
	// Please review to depth 2: x++ <nil>
	// jsonrpc: argument "depth": want a whole number, got "deep" (code -32602)
}

// Mistakes are found when the server starts.
func ExampleServer_Err() {
	s := server.New("greeter", "1", nil)
	server.AddTool(s, "say hi", "Greets.", func(context.Context, *server.Call, struct{}) (string, error) { return "Hi!", nil })
	fmt.Println(s.Start(context.Background()))
	// Output:
	// example_test.go:184: server: tool name "say hi": want 1 to 128 ASCII letters, digits, underscores, hyphens and dots
}

func ExampleElicit() {
	ctx := context.Background()
	s := server.New("shop", "1", nil)
	defer s.Close()
	type address struct {
		Street string `json:"street"`
		Gift   bool   `json:"gift,omitempty"`
	}
	server.AddTool(s, "buy", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		var to address
		action, err := server.Elicit(ctx, c, "Where to?", &to)
		if err != nil {
			return "", err
		}
		if action != mcp.ElicitActionAccept {
			return "Nothing was bought.", nil
		}
		return "It is on its way to " + to.Street + ".", nil
	})

	clientConn, serverConn := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(serverConn); err != nil {
		log.Fatal(err)
	}
	c, err := client.Connect(ctx, clientConn, &client.Options{Input: client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
		fmt.Println(f.Message)
		return client.Accept(map[string]any{"street": "12 St James's Square"})
	}}})
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

// This tool has a handwritten schema and builds its result itself.
func ExampleServer_AddRawTool() {
	ctx := context.Background()
	s := server.New("archive", "1", nil)
	defer s.Close()
	s.AddRawTool(mcp.Tool{Name: "store", InputSchema: mcp.ToolInputSchema{
		Properties: json.RawMessage(`{"what":{"type":"string","minLength":1}}`), Required: []string{"what"},
	}}, func(ctx context.Context, c *server.Call, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		return server.Content(&mcp.TextContent{Text: "stored " + string(arguments)}, &mcp.ResourceLink{Name: "it", URI: "archive:///1"}), nil
	})

	c := connectInMemory(ctx, s)
	defer c.Close()
	for _, arguments := range []string{`{"what":"x","why":1.0}`, `{"what":""}`} {
		result, err := c.CallTool(ctx, "store", json.RawMessage(arguments))
		fmt.Println(result.Content[0].(*mcp.TextContent).Text, err)
	}
	// Output:
	// stored {"what":"x","why":1.0} <nil>
	// The arguments do not comply with the input schema of this tool.
	// /what: minLength: got 0, want 1 <nil>
}

// This resource is updated, changed and removed.
func ExampleAddResource() {
	ctx := context.Background()
	s := server.New("clock", "1", nil)
	defer s.Close()
	hour := 9
	handle := server.AddResource(s, "clock:///hour", "hour", func(ctx context.Context, c *server.Call, r server.Resource) (string, error) {
		return fmt.Sprint(hour), nil
	})

	c := connectInMemory(ctx, s)
	defer c.Close()
	result, err := c.ReadResource(ctx, "clock:///hour")
	fmt.Println(result.Contents[0].(*mcp.TextResourceContents).Text, err)
	hour++
	s.ResourceUpdated("clock:///hour") // notifies subscribers
	fmt.Println(handle.Change(func(r *mcp.Resource) { r.Title = new("The hour") }), handle.Remove())
	_, err = c.ReadResource(ctx, "clock:///hour")
	fmt.Println(err)
	// Output:
	// 9 <nil>
	// <nil> <nil>
	// jsonrpc: resource not found: "clock:///hour" (code -32002)
}

// This server runs over HTTP, with a session for each client.
func ExampleServer_Handler() {
	ctx := context.Background()
	s := server.New("greeter", "1", &server.Options{Instructions: "Be polite."})
	defer s.Close()
	handler, err := s.Handler(nil)
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(handler)
	defer web.Close()

	c, err := client.Dial(ctx, web.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Println(c.Server().ServerInfo.Name, "says:", *c.Server().Instructions)
	// Output:
	// greeter says: Be polite.
}

// This server serves one client and returns when the client disconnects. In a separate program, the
// connection would be stdio.Server(stdio.Options{}).
func ExampleServer_Run() {
	ctx := context.Background()
	s := server.New("greeter", "1", nil)
	clientConn, serverConn := inmemory.Pair(inmemory.Options{})
	go func() { // ends after Close
		c, err := client.Connect(ctx, clientConn, nil)
		if err != nil {
			log.Fatal(err)
		}
		c.Close()
	}()
	fmt.Println(s.Run(ctx, serverConn))
	// Output:
	// <nil>
}

// This handler reports progress, logs, and has the model of the client write a verse.
func ExampleCall() {
	ctx := context.Background()
	s := server.New("poet", "1", nil)
	defer s.Close()
	server.AddTool(s, "write", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		if err := c.Progress(1, 2, "thinking"); err != nil {
			return "", err
		}
		c.Logger("muse").Debug("not sent: less severe than info")
		verse, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 100, Messages: []mcp.SamplingMessage{
			{Role: mcp.RoleUser, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "A line about the sea."}}}},
		}})
		if err != nil {
			return "", err
		}
		return verse.Content.Items[0].(*mcp.TextContent).Text, c.Progress(2, 2, "done")
	})

	clientConn, serverConn := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(serverConn); err != nil {
		log.Fatal(err)
	}
	c, err := client.Connect(ctx, clientConn, &client.Options{Input: client.Input{Sample: func(_ context.Context, r *client.SampleRequest) (*mcp.CreateMessageResult, error) {
		return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "It sleeps, and dreams of ships."}}}}, nil
	}}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallTool(ctx, "write", nil)
	fmt.Println(result.Content[0].(*mcp.TextContent).Text, err)
	// Output:
	// It sleeps, and dreams of ships. <nil>
}

// This server has a custom method, and middleware that receives every request.
func ExampleConfig() {
	type pair struct{ A, B int }
	type sum struct{ Sum int }
	ctx := context.Background()
	count := func(next session.Handler) session.Handler {
		return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if !req.IsNotification() {
				fmt.Println("got", req.Method)
			}
			return next(ctx, req)
		}
	}
	s := server.New("counter", "1", &server.Options{
		Session: session.Options{Hooks: session.Hooks{Receiving: []session.Middleware{count}}},
		Features: server.Features{Methods: map[string]session.Handler{"example.com/add": server.Method(func(_ context.Context, _ *server.Call, p pair) (sum, error) {
			return sum{p.A + p.B}, nil
		})}},
	})
	defer s.Close()
	c := connectInMemory(ctx, s)
	defer c.Close()
	result, err := client.Call[sum](ctx, c, "example.com/add", pair{1, 2})
	fmt.Println(result.Sum, err)
	// Output:
	// got initialize
	// got example.com/add
	// 3 <nil>
}

// A tool has a title, and returns a text of its own besides structured output.
func ExampleDefineTool() {
	ctx := context.Background()
	s := server.New("memory", "1", nil)
	defer s.Close()
	type graph struct {
		Entities []string `json:"entities"`
	}
	schema, err := server.SchemaFor[graph]()
	if err != nil {
		log.Fatal(err)
	}
	server.AddTool(s, "read_graph", "Reads the entire graph.", func(ctx context.Context, c *server.Call, in struct{}) (*mcp.CallToolResult, error) {
		output, err := codec.Marshal(value.Of(graph{})) // a nil slice becomes [], as the schema says
		return &mcp.CallToolResult{
			Content:           []mcp.ContentBlock{&mcp.TextContent{Text: "The graph is empty."}},
			StructuredContent: output,
		}, err
	}, server.DefineTool(func(t *mcp.Tool) {
		t.Title = new("Read graph")
		t.OutputSchema = new(mcp.ToolOutputSchema)
		s.RecordMistake(json.Unmarshal(schema, t.OutputSchema))
	}))

	c := connectInMemory(ctx, s)
	defer c.Close()
	result, err := c.CallTool(ctx, "read_graph", nil)
	if err != nil {
		log.Fatal(err)
	}
	text, err := client.Text(result)
	fmt.Println(text, string(result.StructuredContent), err)
	// Output:
	// The graph is empty. {"entities":[]} <nil>
}

func ExampleSchemaFor() {
	type order struct {
		Dish  string   `json:"dish" jsonschema:"what to cook" enum:"soup,pie"`
		Extra []string `json:"extra,omitempty" maxItems:"3"`
		Count int      `json:"count" minimum:"1" maximum:"9"`
	}
	schema, err := server.SchemaFor[order]()
	fmt.Println(string(schema), err)
	// Output:
	// {"type":"object","properties":{"dish":{"type":"string","enum":["soup","pie"],"description":"what to cook"},"extra":{"type":"array","items":{"type":"string"},"maxItems":3},"count":{"type":"integer","minimum":1,"maximum":9}},"required":["dish","count"],"additionalProperties":false} <nil>
}

// A tool that reads files checks that they are inside of the client's roots.
func ExampleInside() {
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "readme.md")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		log.Fatal(err)
	}
	roots := []mcp.Root{{URI: "file://" + filepath.ToSlash(dir)}} // what Call.Roots returns
	_, err = server.Inside(roots, file)
	fmt.Println(err)
	_, err = server.Inside(roots, filepath.Join(dir, ".."))
	fmt.Println(errors.Is(err, server.ErrOutside))
	// Output:
	// <nil>
	// true
}

// This handler has the client sample as a task, because the response may take long.
func ExampleCall_SampleTask() {
	ctx := context.Background()
	s := server.New("poet", "1", nil)
	server.AddTool(s, "epic", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		h, err := c.SampleTask(ctx, &mcp.CreateMessageRequestParams{
			MaxTokens: 100000,
			Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "Sing, Muse."}}}}},
		}, requestor.TTL(time.Hour))
		if err != nil {
			return "", err
		}
		result, err := h.Result(ctx)
		if err != nil {
			return "", err
		}
		return result.Content.Items[0].(*mcp.TextContent).Text, nil
	})

	tasks, err := task.New(ctx, task.Options{Store: store.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer tasks.Close(ctx)
	clientConn, serverConn := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(serverConn); err != nil {
		log.Fatal(err)
	}
	c, err := client.Connect(ctx, clientConn, &client.Options{
		Input: client.Input{
			Tasks: tasks,
			Sample: func(context.Context, *client.SampleRequest) (*mcp.CreateMessageResult, error) {
				return &mcp.CreateMessageResult{
					Role: mcp.RoleAssistant, Model: "muse",
					Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "Of the man of many turns."}}},
				}, nil
			},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallTool(ctx, "epic", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// Of the man of many turns.
}
