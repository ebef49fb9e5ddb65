// Command conformance is a server of mcp-go with tasks. It has the tools that the tasks scenarios
// of the official conformance suite call.
//
//	conformance [-http HOST:PORT] [-alone]
//
// It prints the URL of the server, and serves until it is interrupted. With -alone, the server has
// no tasks, for comparison.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/mcpgo"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

func main() {
	address := flag.String("http", "localhost:0", "serve Streamable HTTP at `HOST:PORT`")
	alone := flag.Bool("alone", false, "serve without tasks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *address, *alone); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, address string, alone bool) error {
	s := newServer()
	streaming := server.NewStreamableHTTPServer(s)
	var handler http.Handler = streaming
	if !alone {
		tasks, err := mcpgo.Attach(s, options())
		if err != nil {
			return err
		}
		defer tasks.Close()
		handler = tasks.Handler(streaming)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("serving at http://%s/mcp\n", listener.Addr())
	web := &http.Server{Handler: handler}
	defer context.AfterFunc(ctx, func() { web.Close() })()
	if err := web.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// options returns the task support of the tools. The tool greet is never a task.
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

// newServer returns a server with the tools of the suite.
func newServer() *server.MCPServer {
	s := server.NewMCPServer("conformance", "1", server.WithToolCapabilities(true), server.WithElicitation())
	s.AddTool(mcp.NewTool("greet", mcp.WithString("name", mcp.Required())), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("Hello, " + r.GetString("name", "") + "!"), nil
	})
	s.AddTool(mcp.NewTool("slow_compute", mcp.WithNumber("seconds", mcp.Required()), mcp.WithString("label")), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := sleep(ctx, time.Duration(r.GetFloat("seconds", 0)*float64(time.Second))); err != nil {
			return nil, err
		}
		return mcp.NewToolResultText("Computed " + r.GetString("label", "") + "."), nil
	})
	s.AddTool(mcp.NewTool("failing_job"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if err := sleep(ctx, time.Second); err != nil {
			return nil, err
		}
		return mcp.NewToolResultError("the job has failed"), nil
	})
	s.AddTool(mcp.NewTool("protocol_error_job"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("the job has ended with an error")
	})
	s.AddTool(mcp.NewTool("confirm_delete", mcp.WithString("filename", mcp.Required())), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		name := r.GetString("filename", "")
		answer, err := s.RequestElicitation(ctx, confirm("Delete "+name+"?"))
		if err != nil {
			return nil, err
		}
		if content, ok := answer.Content.(map[string]any); !ok || content["confirm"] != true {
			return mcp.NewToolResultText("Kept " + name + "."), nil
		}
		return mcp.NewToolResultText("Deleted " + name + "."), nil
	})
	s.AddTool(mcp.NewTool("multi_input"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var group sync.WaitGroup
		var name, confirmed *mcp.ElicitationResult
		var errs [2]error
		group.Go(func() { name, errs[0] = s.RequestElicitation(ctx, askName()) })
		group.Go(func() { confirmed, errs[1] = s.RequestElicitation(ctx, confirm("Is that right?")) })
		group.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(fmt.Sprintf("Hello, %s! (%s)", nameOf(name), confirmed.Action)), nil
	})
	s.AddTool(mcp.NewTool("test_tool_with_task"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer := server.ElicitationResponse(r.Params.InputResponses, "user_name")
		if answer == nil {
			return server.NewInputRequestBuilder("asked").Elicit("user_name", askName().Params).ToolResult(), nil
		}
		if err := sleep(ctx, time.Second/2); err != nil {
			return nil, err
		}
		return mcp.NewToolResultText("Worked for " + nameOf(answer) + "."), nil
	})
	return s
}

// sleep waits until d has passed or ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func askName() mcp.ElicitationRequest {
	return form("What is your name?", "name", "string")
}

func confirm(message string) mcp.ElicitationRequest {
	return form(message, "confirm", "boolean")
}

// form returns a request for a form with one field.
func form(message, name, kind string) mcp.ElicitationRequest {
	return mcp.ElicitationRequest{Params: mcp.ElicitationParams{Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{name: map[string]any{"type": kind}}, "required": []string{name},
	}}}
}

// nameOf returns the field name of a form.
func nameOf(r *mcp.ElicitationResult) string {
	content, _ := r.Content.(map[string]any)
	name, _ := content["name"].(string)
	return name
}
