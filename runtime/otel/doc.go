// Package otel traces and measures servers, clients and tasks of mcpwire with OpenTelemetry. It
// follows the semantic conventions for MCP. Names that the conventions do not define have the
// prefix "mcpwire.". See docs/howto/observability.md for all spans, metrics and attributes.
//
//	t, err := otel.New(otel.Options{})
//	…
//	cfg := &server.Options{Tasks: task.Options{Store: store}}
//	t.Server(cfg)
//	s := server.New("shop", "1.0", cfg)
//
// Each request and each notification has a span at both ends, except for pings, progress and log
// messages. The _meta of the message carries the trace context, so the span of the receiver is a
// child of the span of the sender, over every transport and in every revision. Each run of a task
// starts a new trace; its span has a link to the request that created the task. Steps, and the
// waits of a task for input, are children of the span of the run.
//
// Telemetry cannot make a call fail: panics of its providers are logged, and the call continues.
package otel
