package streamable_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// A client that sends a token with every request, and a server that requires it.
func ExampleDial() {
	users := func(r *http.Request) (string, error) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			return "", fmt.Errorf("no valid token")
		}
		return "ann", nil
	}
	server := httptest.NewServer(streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
		session.Serve(conn, &mcp.InitializeResult{ServerInfo: mcp.Implementation{Name: "weather", Version: "1"}}, nil)
	}, streamable.HandlerOptions{Access: streamable.Access{Principal: users}}))
	defer server.Close()

	for _, token := range []string{"secret", "guess"} {
		conn, err := streamable.Dial(server.URL, streamable.ClientOptions{
			Options: httpclient.Options{Header: http.Header{"Authorization": {"Bearer " + token}}},
		})
		if err != nil {
			log.Fatal(err)
		}
		s, err := session.Connect(context.Background(), conn, &mcp.InitializeRequestParams{
			ClientInfo: mcp.Implementation{Name: "reader", Version: "1"},
		}, nil)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("connected with", s.Server().ServerInfo.Name)
		s.Close()
	}
	// Output:
	// connected with weather
	// transport: message not delivered: HTTP POST: status 401 Unauthorized: jsonrpc: not authorized: no valid token (code -32600)
}
