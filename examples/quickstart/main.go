// Command quickstart is the server of the TypeScript SDK's quick start: a calculator and a
// greeting, over HTTP and without sessions. It shuts down on Ctrl-C and SIGTERM.
//
//	PORT=3000 go run ./examples/quickstart
//	go run ./tools/mcpwire call http://localhost:3000/mcp add a=1 b=2
package main

import (
	"cmp"
	"context"
	"log"
	"net"
	"os"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

type operands struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

type answer struct {
	Result float64 `json:"result"`
}

func main() {
	s := server.New("demo-server", "1.0.0", nil)
	server.AddTool(s, "add", "Adds two numbers.", add, server.DefineTool(func(t *mcp.Tool) { t.Title = new("Sum") }))
	server.AddTemplate(s, "greeting://{name}", "greeting", greeting, server.DefineTemplate(func(t *mcp.ResourceTemplate) {
		t.Title = new("Greeting")
		t.Description = new("Greets by name.")
		t.MIMEType = new("text/plain")
	}))
	address := net.JoinHostPort("localhost", cmp.Or(os.Getenv("PORT"), "3000"))
	stateless := &server.ListenOptions{HandlerOptions: streamable.HandlerOptions{Stateless: true}}
	if err := s.ListenAndServe(context.Background(), address, stateless); err != nil {
		log.Fatal(err)
	}
}

func add(_ context.Context, _ *server.Call, in operands) (answer, error) {
	return answer{in.A + in.B}, nil
}

func greeting(_ context.Context, _ *server.Call, r server.Resource) (string, error) {
	return "Hello, " + r.Vars.Get("name") + "!", nil
}
