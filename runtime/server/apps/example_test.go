package apps_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/server/apps"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// A clock that clients with MCP Apps show as a page. The page has a button that calls wind.
func Example() {
	s := server.New("clock", "1", nil)
	defer s.Close()
	view := apps.AddView(s, "ui://clock/view.html", "clock", page, nil)
	server.AddTool(s, "time", "Tells the time.", func(context.Context, *server.Call, struct{}) (string, error) {
		return "It is noon.", nil
	}, view.Tool())
	server.AddTool(s, "wind", "Winds the clock up.", func(context.Context, *server.Call, struct{}) (string, error) {
		return "The clock is wound up.", nil
	}, view.AppTool())

	for _, extensions := range []string{`{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}`, `{}`} {
		ctx := context.Background()
		clientConn, serverConn := inmemory.Pair(inmemory.Options{})
		if _, err := s.Serve(serverConn); err != nil {
			log.Fatal(err)
		}
		o := new(client.Options)
		o.Features.Capabilities.Extensions = json.RawMessage(extensions)
		c, err := client.Connect(ctx, clientConn, o)
		if err != nil {
			log.Fatal(err)
		}
		for tool, err := range c.Tools(ctx) {
			if err != nil {
				log.Fatal(err)
			}
			meta := []byte("no _meta")
			if tool.Meta != nil {
				meta, _ = codec.Marshal(tool.Meta)
			}
			fmt.Printf("%s: %s\n", tool.Name, meta)
		}
		c.Close()
	}
	// Output:
	// time: {"ui":{"resourceUri":"ui://clock/view.html"}}
	// wind: {"ui":{"resourceUri":"ui://clock/view.html","visibility":["app"]}}
	// time: no _meta
}
