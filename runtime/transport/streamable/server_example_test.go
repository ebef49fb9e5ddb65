package streamable_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

// A server whose sessions and streams survive a restart, and that shuts down in order.
func ExampleNewHandler() {
	dir, err := os.MkdirTemp("", "events")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	events, err := boltstore.Open(filepath.Join(dir, "events.db"), boltstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close() // closed after the handler
	handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
		session.Serve(conn, &mcp.InitializeResult{ServerInfo: mcp.Implementation{Name: "weather", Version: "1"}}, nil)
	}, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: events}})
	defer handler.Shutdown(context.Background())

	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	server := httptest.NewServer(mux) // a loopback address: pages of other sites are rejected
	defer server.Close()

	post := func(origin string) {
		r, err := http.NewRequest("POST", server.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+
			`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
		if err != nil {
			log.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Origin", origin)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		fmt.Println(origin, response.StatusCode, response.Header.Get("MCP-Session-Id") != "")
	}
	post("http://localhost:3000")
	post("https://elsewhere.example.com")
	// Output:
	// http://localhost:3000 200 true
	// https://elsewhere.example.com 403 false
}
