package sse_test

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
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
)

// A server for clients of revision 2024-11-05, and such a client. streamable.Dial falls back to
// this transport.
func ExampleDial() {
	ctx := context.Background()
	handler := sse.NewHandler(func(_ *http.Request, conn transport.Conn) {
		session.Serve(conn, &mcp.InitializeResult{ServerInfo: mcp.Implementation{Name: "veteran", Version: "1"}}, nil)
	}, sse.HandlerOptions{})
	web := httptest.NewServer(handler)
	defer web.Close()
	defer handler.Close()

	conn, err := sse.Dial(ctx, web.URL, httpclient.Options{})
	if err != nil {
		log.Fatal(err)
	}
	s, err := session.Connect(ctx, conn, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	fmt.Println("connected with", s.Server().ServerInfo.Name)
	// Output:
	// connected with veteran
}
