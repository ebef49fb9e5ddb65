// Command conformance is a server of the official Go SDK with tasks. It has the tools that the
// tasks scenarios of the official conformance suite call.
//
//	conformance [-http HOST:PORT] [-alone]
//
// It prints the URL of the server. With -alone, the server has no tasks, for comparison.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

func main() {
	address := flag.String("http", "localhost:0", "serve HTTP at `HOST:PORT`")
	alone := flag.Bool("alone", false, "serve without tasks")
	flag.Parse()
	if err := run(*address, *alone); err != nil {
		log.Fatal(err)
	}
}

func run(address string, alone bool) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "conformance", Version: "1"}, nil)
	addTools(s)
	var handler http.Handler
	if alone {
		handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
	} else {
		tasks, err := gosdk.Attach(s, options())
		if err != nil {
			return err
		}
		defer tasks.Close()
		handler = tasks.Handler(nil)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("serving at http://%s/mcp\n", l.Addr())
	return http.Serve(l, handler)
}

// options returns the options of the tasks. The suite defines which tools are tasks, and when.
func options() embed.Options {
	atOnce := embed.Tool{Support: receiver.Support{After: -1}}
	return embed.Options{
		Tasks: task.Options{Store: memory.New()},
		Tools: map[string]embed.Tool{
			"slow_compute":        {Support: receiver.Support{After: 100 * time.Millisecond}},
			"failing_job":         {Support: receiver.Support{Mode: wire.TaskSupportRequired}},
			"protocol_error_job":  atOnce,
			"confirm_delete":      atOnce,
			"multi_input":         atOnce,
			"test_tool_with_task": {Support: receiver.Support{After: 100 * time.Millisecond}, Rounds: true},
		},
	}
}

type none struct{}

func addTools(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: "greet", Description: "Greets by name. Never a task."}, func(_ context.Context, _ *mcp.CallToolRequest, in struct {
		Name string `json:"name"`
	}) (*mcp.CallToolResult, any, error) {
		return text("Hello, " + in.Name + "!"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "slow_compute", Description: "Computes for some seconds."}, func(ctx context.Context, _ *mcp.CallToolRequest, in struct {
		Seconds float64 `json:"seconds"`
		Label   string  `json:"label,omitempty"`
	}) (*mcp.CallToolResult, any, error) {
		return text("Computed " + in.Label + "."), nil, sleep(ctx, time.Duration(in.Seconds*float64(time.Second)))
	})
	mcp.AddTool(s, &mcp.Tool{Name: "failing_job", Description: "Fails after a second. Always a task."}, func(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		if err := sleep(ctx, time.Second); err != nil {
			return nil, nil, err
		}
		return nil, nil, errors.New("the job has failed")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "protocol_error_job", Description: "Ends with an error of the protocol."}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the job has ended with an error"}
	})
	mcp.AddTool(s, &mcp.Tool{Name: "confirm_delete", Description: "Asks the user to confirm, as if to delete a file."}, func(ctx context.Context, req *mcp.CallToolRequest, in struct {
		Filename string `json:"filename"`
	}) (*mcp.CallToolResult, any, error) {
		answer, err := req.Session.Elicit(ctx, confirm("Delete "+in.Filename+"?"))
		if err != nil {
			return nil, nil, err
		}
		if answer.Content["confirm"] != true {
			return text("Kept " + in.Filename + "."), nil, nil
		}
		return text("Deleted " + in.Filename + "."), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "multi_input", Description: "Asks the user for a name and for a confirmation at the same time."}, func(ctx context.Context, req *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		confirmed := make(chan error, 1)
		go func() {
			_, err := req.Session.Elicit(ctx, confirm("Is that right?"))
			confirmed <- err
		}()
		answer, err := req.Session.Elicit(ctx, askName)
		if err = errors.Join(err, <-confirmed); err != nil {
			return nil, nil, err
		}
		return text(fmt.Sprintf("Hello, %v!", answer.Content["name"])), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "test_tool_with_task", Description: "Asks the user for a name, and works on it for half a second."}, func(ctx context.Context, req *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		answer, ok := req.Params.InputResponses["user_name"].(*mcp.ElicitResult)
		if !ok {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"user_name": askName}, RequestState: "asked"}, nil, nil
		}
		return text(fmt.Sprintf("Worked for %v.", answer.Content["name"])), nil, sleep(ctx, time.Second/2)
	})
}

var askName = &mcp.ElicitParams{
	Message: "What is your name?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
}

func confirm(message string) *mcp.ElicitParams {
	return &mcp.ElicitParams{
		Message: message, RequestedSchema: json.RawMessage(`{"type":"object","properties":{"confirm":{"type":"boolean"}},"required":["confirm"]}`),
	}
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
