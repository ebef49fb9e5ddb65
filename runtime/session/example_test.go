package session_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// counter is a server with a tool that counts to three.
type counter struct{ mcp.UnimplementedServerHandler }

func (counter) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	requestor, _ := session.PeerFrom(ctx)
	for i := range 3 {
		if err := requestor.Report(session.Progress{Value: float64(i + 1), Total: new(3.0)}); err != nil {
			return nil, err
		}
	}
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: "done"}}}, nil
}

// count is the handler of the server.
func count(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	return mcp.DispatchServer(ctx, counter{}, req.Revision(), req.Method, req.Params)
}

// A server and a client in one process, and a call with progress.
func Example() {
	ctx := context.Background()
	a, b := inmemory.Pair(inmemory.Options{})
	server := session.Serve(b, &mcp.InitializeResult{
		ServerInfo:   mcp.Implementation{Name: "counter", Version: "1"},
		Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}},
	}, &session.Options{Handler: count, Limits: session.Limits{ProgressInterval: -1}})
	client, err := session.Connect(ctx, a, &mcp.InitializeRequestParams{
		ClientInfo: mcp.Implementation{Name: "example", Version: "1"},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}

	peer := mcp.ToServer{Caller: client.With(session.Timeout(time.Minute), session.OnProgress(func(p session.Progress) {
		fmt.Println(p.Value, "of", *p.Total)
	}))}
	outcome, err := peer.CallTool(ctx, &mcp.CallToolRequestParams{Name: "count"})
	if result, ok := outcome.(*mcp.CallToolResult); ok && err == nil {
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	}
	_, err = peer.ListPrompts(ctx, nil)
	fmt.Println(err)

	client.Shutdown(ctx)
	fmt.Println(server.Wait())
	// Output:
	// 1 of 3
	// 2 of 3
	// 3 of 3
	// done
	// session: prompts/list needs the capability prompts, which the peer has not declared
	// <nil>
}

// Custom methods, and middleware that prints the received messages.
func ExampleHandler() {
	ctx := context.Background()
	a, b := inmemory.Pair(inmemory.Options{})
	handled := make(chan string, 3)
	server := session.Serve(b, nil, &session.Options{
		Hooks: session.Hooks{Receiving: []session.Middleware{reportHandled(handled)}},
		Handler: sessiontest.Methods(map[string]session.Handler{
			"example.com/echo": func(_ context.Context, req *session.Request) (codec.Encoder, error) {
				return session.Raw(req.Params), nil
			},
		}, nil),
	})
	defer server.Close()
	client, err := session.Connect(ctx, a, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := server.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	result, err := client.Call(ctx, "example.com/echo", session.Raw(`{"a":1.0}`))
	fmt.Println(string(result), err)
	for range cap(handled) { // the notification is handled concurrently with the request
		fmt.Println(<-handled)
	}
	// Unordered output:
	// initialize
	// notifications/initialized
	// example.com/echo
	// {"a":1.0} <nil>
}

// reportHandled returns middleware that sends the name of each handled method to handled.
func reportHandled(handled chan<- string) session.Middleware {
	return func(next session.Handler) session.Handler {
		return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			defer func() { handled <- req.Method }()
			return next(ctx, req)
		}
	}
}

// A server over standard input and output.
func ExampleServe() {
	s := session.Serve(stdio.Server(stdio.Options{}), &mcp.InitializeResult{
		ServerInfo:   mcp.Implementation{Name: "counter", Version: "1"},
		Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}},
	}, &session.Options{Handler: count})
	if err := s.Wait(); err != nil { // returns when the client has disconnected
		log.Fatal(err)
	}
}

// A client that starts a server.
func ExampleConnect() {
	ctx := context.Background()
	process, err := stdio.Start(stdio.Command{Path: "my-server", Stderr: os.Stderr})
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.Connect(ctx, process, &mcp.InitializeRequestParams{
		ClientInfo: mcp.Implementation{Name: "example", Version: "1"},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	list, err := mcp.ToServer{Caller: s}.ListTools(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, tool := range list.Tools {
		fmt.Println(tool.Name)
	}
}
