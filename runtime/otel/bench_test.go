//go:build unix

package otel_test

import (
	"context"
	"encoding/json"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/otel"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// discard is an exporter that discards spans.
type discard struct{}

func (discard) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                             { return nil }

// processorTime returns the processor time of the process, garbage collection included. It is less
// sensitive to other processes than the time of a clock.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// floor is the use of OpenTelemetry that a call needs, without package otel: a span with the
// attributes that the conventions require, its context, and a duration.
type floor struct {
	tracer     trace.Tracer
	durations  metric.Float64Histogram
	attrs      []attribute.KeyValue
	record     []metric.RecordOption
	propagator propagation.TextMapPropagator
}

func newFloor(b *testing.B, tracers trace.TracerProvider, meters metric.MeterProvider) *floor {
	durations, err := meters.Meter("floor").Float64Histogram("floor")
	if err != nil {
		b.Fatal(err)
	}
	attrs := []attribute.KeyValue{
		attribute.String("mcp.method.name", mcp.MethodToolsCall), attribute.String("gen_ai.tool.name", "add"),
		attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("mcp.protocol.version", string(eras["sessions"][0])),
	}
	return &floor{
		tracers.Tracer("floor"), durations, attrs, []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attrs...))},
		propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
	}
}

// send is the floor of a client. It does not add the context to the message.
func (f *floor) send(next session.Sender) session.Sender {
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		started := time.Now()
		ctx, span := f.tracer.Start(ctx, "tools/call add", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(f.attrs...))
		f.propagator.Inject(ctx, propagation.MapCarrier{})
		result, err := next(ctx, call)
		span.SetAttributes(attribute.String("jsonrpc.request.id", "1"))
		span.End()
		f.durations.Record(ctx, time.Since(started).Seconds(), f.record...)
		return result, err
	}
}

const benchParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// receive is the floor of a server. It does not read the context from the message.
func (f *floor) receive(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		started := time.Now()
		ctx = f.propagator.Extract(ctx, propagation.MapCarrier{"traceparent": benchParent})
		all := append(slices.Clip(f.attrs), attribute.String("jsonrpc.request.id", "1"))
		ctx, span := f.tracer.Start(ctx, "tools/call add", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(all...))
		result, err := next(ctx, req)
		span.End()
		f.durations.Record(ctx, time.Since(started).Seconds(), f.record...)
		return result, err
	}
}

// benchProviders returns providers that work as in production, except that nothing leaves the process.
func benchProviders(b *testing.B, sampler sdktrace.Sampler) (trace.TracerProvider, metric.MeterProvider) {
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(discard{}))
	b.Cleanup(func() { tracers.Shutdown(context.Background()) })
	return tracers, sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
}

// BenchmarkCall measures a call of a tool between two sides in one process: without telemetry, and
// with it at one side and at both, for spans that are recorded and for spans that are not. The cost
// of telemetry is the difference to the row off. The rows floor are for comparison.
func BenchmarkCall(b *testing.B) {
	for _, era := range []string{"sessions", "requests"} {
		for _, bench := range []struct {
			name                  string
			sampler               sdktrace.Sampler
			client, server, floor bool
		}{
			{"off", nil, false, false, false},
			{"unsampled client", sdktrace.NeverSample(), true, false, false},
			{"unsampled server", sdktrace.NeverSample(), false, true, false},
			{"unsampled both", sdktrace.NeverSample(), true, true, false},
			{"recording client", sdktrace.AlwaysSample(), true, false, false},
			{"recording server", sdktrace.AlwaysSample(), false, true, false},
			{"recording both", sdktrace.AlwaysSample(), true, true, false},
			{"floor client", sdktrace.AlwaysSample(), true, false, true},
			{"floor server", sdktrace.AlwaysSample(), false, true, true},
		} {
			b.Run(era+"/"+bench.name, func(b *testing.B) {
				cfg, o := server.Options{}, client.Options{Session: session.Options{Revisions: eras[era]}}
				if bench.sampler != nil {
					tracers, meters := benchProviders(b, bench.sampler)
					f := newFloor(b, tracers, meters)
					t, err := otel.New(otel.Options{TracerProvider: tracers, MeterProvider: meters})
					if err != nil {
						b.Fatal(err)
					}
					switch {
					case bench.floor && bench.server:
						cfg.Session.Hooks.Receiving = []session.Middleware{f.receive}
					case bench.floor:
						o.Session.Hooks.Sending = []session.SendMiddleware{f.send}
					}
					if bench.server && !bench.floor {
						t.Server(&cfg)
					}
					if bench.client && !bench.floor {
						t.Client(&o)
					}
				}
				s := server.New("bench", "1", &cfg)
				defer s.Close()
				server.AddTool(s, "add", "", func(_ context.Context, _ *server.Call, in struct{ A, B int }) (string, error) { return "3", nil })
				near, far := inmemory.Pair(inmemory.Options{})
				if _, err := s.Serve(far); err != nil {
					b.Fatal(err)
				}
				c, err := client.Connect(b.Context(), near, &o)
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				b.ReportAllocs()
				before := processorTime(b)
				for b.Loop() {
					if _, err := c.CallTool(b.Context(), "add", json.RawMessage(`{"A":1,"B":2}`)); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// BenchmarkSide measures the cost of telemetry for a call at one side, without the call itself and
// without the bytes that it adds to the message, and its floor.
func BenchmarkSide(b *testing.B) {
	for _, sampling := range []string{"unsampled", "recorded"} {
		sampler := sdktrace.NeverSample()
		if sampling == "recorded" {
			sampler = sdktrace.AlwaysSample()
		}
		tracers, meters := benchProviders(b, sampler)
		t, err := otel.New(otel.Options{TracerProvider: tracers, MeterProvider: meters})
		if err != nil {
			b.Fatal(err)
		}
		f := newFloor(b, tracers, meters)
		params, result := &mcp.CallToolRequestParams{Name: "add"}, &mcp.CallToolResult{}
		sender := func(_ context.Context, call *session.Call) (json.RawMessage, error) {
			call.ID = codec.IntScalar(1)
			return json.RawMessage(`{"content":[]}`), nil
		}
		handler := func(context.Context, *session.Request) (codec.Encoder, error) { return result, nil }
		var cfg session.Options
		t.Session(&cfg)
		req := new(session.Request).Internals(boundary.Caller{}).Stored(codec.IntScalar(1), mcp.MethodToolsCall, json.RawMessage(`{"_meta":{"traceparent":"`+benchParent+`"},"name":"add","arguments":{"A":1,"B":2}}`), eras["sessions"][0])
		send := func(m session.SendMiddleware) func(context.Context) {
			sends := m(sender)
			return func(ctx context.Context) { sends(ctx, &session.Call{Method: mcp.MethodToolsCall, Params: params}) }
		}
		receive := func(m session.Middleware) func(context.Context) {
			receives := m(handler)
			return func(ctx context.Context) { receives(ctx, req) }
		}
		for _, bench := range []struct {
			name string
			f    func(ctx context.Context)
		}{
			{"client/floor", send(f.send)},
			{"client/telemetry", send(cfg.Hooks.Sending[0])},
			{"server/floor", receive(f.receive)},
			{"server/telemetry", receive(cfg.Hooks.Receiving[0])},
		} {
			b.Run(sampling+"/"+bench.name, func(b *testing.B) {
				ctx := b.Context()
				b.ReportAllocs()
				before := processorTime(b)
				for b.Loop() {
					bench.f(ctx)
				}
				b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}
