package otel_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// The span of the server is a child of that of the client, which is a child of the caller's, and
// the handler gets the caller's baggage and trace state: over every transport, in both eras.
func TestContextPropagates(t *testing.T) {
	for era, revisions := range eras {
		for name, dial := range transports {
			t.Run(era+" over "+name, func(t *testing.T) {
				here, there := newProcess(t), newProcess(t)
				var user, state string
				s := there.newServer(server.Options{}, func(s *server.Server) {
					server.AddTool(s, "greet", "", func(ctx context.Context, c *server.Call, in struct{ Name string }) (string, error) {
						user = baggage.FromContext(ctx).Member("user").Value()
						state = trace.SpanContextFromContext(ctx).TraceState().String()
						return "Hello, " + in.Name, nil
					})
				})
				c := here.connect(dial(t, s), client.Options{Session: session.Options{Revisions: revisions}})
				here.in("caller", func(ctx context.Context) {
					member, _ := baggage.NewMember("user", "ada")
					bag, _ := baggage.New(member)
					ctx = baggage.ContextWithBaggage(ctx, bag)
					ts, _ := trace.ParseTraceState("vendor=x")
					ctx = trace.ContextWithSpanContext(ctx, trace.SpanContextFromContext(ctx).WithTraceState(ts))
					if _, err := c.CallTool(ctx, "greet", map[string]any{"Name": "Ada"}); err != nil {
						t.Error(err)
					}
				})
				caller, sent, received := here.span("caller"), here.span("tools/call greet"), there.span("tools/call greet")
				if sent.Parent.SpanID() != caller.SpanContext.SpanID() {
					t.Errorf("the parent of the client's span is %v, want the caller's", sent.Parent.SpanID())
				}
				if received.Parent.SpanID() != sent.SpanContext.SpanID() || !received.Parent.IsRemote() {
					t.Errorf("the parent of the server's span is %v, want the client's", received.Parent.SpanID())
				}
				if received.SpanContext.TraceID() != caller.SpanContext.TraceID() {
					t.Error("the server's span belongs to another trace")
				}
				if user != "ada" || state != "vendor=x" {
					t.Errorf("the handler got the user %q and the state %q", user, state)
				}
				if sent.SpanKind != trace.SpanKindClient || received.SpanKind != trace.SpanKindServer {
					t.Errorf("kinds %v and %v", sent.SpanKind, received.SpanKind)
				}
				if id := value(sent.Attributes, "jsonrpc.request.id"); id == "" || id != value(received.Attributes, "jsonrpc.request.id") {
					t.Errorf("the request ids are %q and %q", id, value(received.Attributes, "jsonrpc.request.id"))
				}
			})
		}
	}
}
