package otel_test

import (
	"context"
	"fmt"
	"log"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/otel"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// A server with a span for each request.
func Example() {
	spans := tracetest.NewInMemoryExporter()
	t, err := otel.New(otel.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))})
	if err != nil {
		log.Fatal(err)
	}
	cfg := &server.Options{}
	t.Server(cfg)
	s := server.New("clock", "1.0.0", cfg)
	server.AddTool(s, "now", "Tells the time.", func(context.Context, *server.Call, struct{}) (string, error) { return "noon", nil })

	here, there := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(there); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	c, err := client.Connect(ctx, here, &client.Options{Info: mcp.Implementation{Name: "reader", Version: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.CallTool(ctx, "now", nil); err != nil {
		log.Fatal(err)
	}
	c.Close()
	s.Close()
	for _, span := range spans.GetSpans() {
		if span.Name == "tools/call now" {
			fmt.Println(span.Name, "as", span.SpanKind)
		}
	}
	// Output:
	// tools/call now as server
}
