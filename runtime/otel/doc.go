// Package otel traces and measures servers, clients and tasks of mcpwire with OpenTelemetry. It
// follows the semantic conventions for MCP, and names what they do not cover with the prefix
// mcpwire. See docs/observability.md for all spans, metrics and attributes.
//
//	t, err := otel.New(otel.Options{})
//	…
//	cfg := &server.Config{TaskStore: store}
//	t.Server(cfg)
//	s := server.New("shop", "1.0", cfg)
//
// Each request and each notification has a span at both ends, except for pings, progress and log
// messages. The context of the sender travels in the _meta of the message, so that the span of the
// receiver is a child of that of the sender, over every transport and in every revision. Each run of
// a task has a span of its own trace, with a link to the request that created the task. Steps, and
// the waits of a task for input, are children of that.
//
// Telemetry cannot make a call fail: panics of its providers are logged, and the call goes on.
package otel
