// Command quickstart is the server of the TypeScript SDK's quick start: a calculator and a
// greeting, over HTTP and without sessions. It shuts down on Ctrl-C and SIGTERM.
//
//	PORT=3000 go run ./examples/quickstart
//	go run ./tools/mcpwire call http://localhost:3000/mcp add a=1 b=2
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, net.JoinHostPort("localhost", cmp.Or(os.Getenv("PORT"), "3000"))); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, address string) error {
	s, err := newServer()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	serve := func(_ *http.Request, conn transport.Conn) { s.Serve(conn) } // Serve closes conn if it fails
	handler := streamable.NewHandler(serve, streamable.HandlerOptions{Stateless: true})
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }() // ends with Shutdown
	fmt.Printf("Demo MCP Server running on http://%s/mcp\n", listener.Addr())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(s.Shutdown(grace), handler.Shutdown(grace), web.Shutdown(grace))
}

type operands struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

type answer struct {
	Result float64 `json:"result"`
}

func newServer() (*server.Server, error) {
	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "demo-server", Version: "1.0.0"}})
	if err != nil {
		return nil, err
	}
	_, err = server.AddTool(s, mcp.Tool{Name: "add", Title: new("Sum"), Description: new("Adds two numbers.")},
		func(_ context.Context, _ *server.Call, in operands) (answer, error) {
			return answer{in.A + in.B}, nil
		})
	_, err2 := s.AddTemplate(mcp.ResourceTemplate{Name: "greeting", URITemplate: "greeting://{name}",
		Title: new("Greeting"), Description: new("Greets by name."), MIMEType: new("text/plain")},
		func(_ context.Context, _ *server.Call, r server.Resource) ([]mcp.AnyResourceContents, error) {
			return server.TextContents("Hello, " + r.Vars.Get("name") + "!"), nil
		})
	return s, errors.Join(err, err2)
}
