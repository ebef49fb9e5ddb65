package proxy_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// A proxy in front of two servers. They run in the same process, so that Connect opens a connection
// in memory; see [proxy.Command] and [proxy.Dial] for others.
func Example() {
	upstream := func(name, greeting string) proxy.Upstream {
		s := server.New(name, "1.0.0", nil)
		server.AddTool(s, "greet", "Greets.", func(context.Context, *server.Call, struct{}) (string, error) { return greeting, nil })
		return proxy.Upstream{Name: name, Prefix: name + "_", Connect: func(context.Context) (transport.Conn, error) {
			near, far := inmemory.Pair(inmemory.Options{})
			_, err := s.Serve(far)
			return near, err
		}}
	}
	p, err := proxy.New("hub", "1.0.0", &proxy.Options{Upstreams: []proxy.Upstream{upstream("english", "Hello"), upstream("french", "Salut")}})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()

	ctx := context.Background()
	near, far := inmemory.Pair(inmemory.Options{})
	if _, err := p.Serve(far); err != nil {
		log.Fatal(err)
	}
	c, err := client.Connect(ctx, near, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for tool, err := range c.Tools(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		result, err := c.CallTool(ctx, tool.Name, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tool.Name, result.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// english_greet Hello
	// french_greet Salut
}
