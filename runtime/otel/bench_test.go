//go:build unix

package otel_test

import (
	"context"
	"encoding/json"
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

// BenchmarkCall measures a call of a tool between two sides in one process: without telemetry, and
// with it at one side and at both, for spans that are recorded and for others.
func BenchmarkCall(b *testing.B) {
	for _, era := range []string{"sessions", "requests"} {
		for _, bench := range []struct {
			name           string
			sampler        sdktrace.Sampler
			client, server bool
		}{
			{"off", nil, false, false},
			{"unsampled client", sdktrace.NeverSample(), true, false},
			{"unsampled server", sdktrace.NeverSample(), false, true},
			{"unsampled both", sdktrace.NeverSample(), true, true},
			{"recording client", sdktrace.AlwaysSample(), true, false},
			{"recording server", sdktrace.AlwaysSample(), false, true},
			{"recording both", sdktrace.AlwaysSample(), true, true},
		} {
			b.Run(era+"/"+bench.name, func(b *testing.B) {
				cfg, o := server.Config{}, client.Options{Session: session.Config{Revisions: eras[era]}}
				if bench.sampler != nil {
					tracers := sdktrace.NewTracerProvider(sdktrace.WithSampler(bench.sampler), sdktrace.WithBatcher(discard{}))
					defer tracers.Shutdown(context.Background())
					t, err := otel.New(otel.Options{
						TracerProvider: tracers, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
					})
					if err != nil {
						b.Fatal(err)
					}
					if bench.server {
						t.Server(&cfg)
					}
					if bench.client {
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

// BenchmarkSide measures what telemetry adds to a call at one side, without the call itself and the
// bytes that it adds to the message. Its floor is the same use of OpenTelemetry without this package:
// a span with the attributes that the conventions require, its context in the message, and a
// duration.
func BenchmarkSide(b *testing.B) {
	for _, sampling := range []string{"unsampled", "recorded"} {
		sampler := sdktrace.NeverSample()
		if sampling == "recorded" {
			sampler = sdktrace.AlwaysSample()
		}
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(discard{}))
		defer tracers.Shutdown(context.Background())
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
		t, err := otel.New(otel.Options{TracerProvider: tracers, MeterProvider: meters})
		if err != nil {
			b.Fatal(err)
		}
		tracer := tracers.Tracer("floor")
		durations, err := meters.Meter("floor").Float64Histogram("floor")
		if err != nil {
			b.Fatal(err)
		}
		attrs := []attribute.KeyValue{
			attribute.String("mcp.method.name", mcp.MethodToolsCall), attribute.String("gen_ai.tool.name", "add"),
			attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("mcp.protocol.version", string(eras["sessions"][0])),
		}
		record := []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attrs...))}
		propagator := propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
		const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		params := &mcp.CallToolRequestParams{Name: "add"}
		result := &mcp.CallToolResult{}
		var cfg session.Config
		t.Session(&cfg)
		send := cfg.Sending[0](func(_ context.Context, call *session.Call) (json.RawMessage, error) {
			call.ID = codec.IntScalar(1)
			return json.RawMessage(`{"content":[]}`), nil
		})
		receive := cfg.Receiving[0](func(context.Context, *session.Request) (codec.Encoder, error) { return result, nil })
		req := session.NewRequest(codec.IntScalar(1), mcp.MethodToolsCall, json.RawMessage(`{"_meta":{"traceparent":"`+parent+`"},"name":"add","arguments":{"A":1,"B":2}}`), eras["sessions"][0])
		for _, bench := range []struct {
			name string
			f    func(ctx context.Context)
		}{
			{"client/floor", func(ctx context.Context) {
				started := time.Now()
				ctx, span := tracer.Start(ctx, "tools/call add", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
				propagator.Inject(ctx, propagation.MapCarrier{})
				span.SetAttributes(attribute.String("jsonrpc.request.id", "1"))
				span.End()
				durations.Record(ctx, time.Since(started).Seconds(), record...)
			}},
			{"client/telemetry", func(ctx context.Context) {
				send(ctx, &session.Call{Method: mcp.MethodToolsCall, Params: params})
			}},
			{"server/floor", func(ctx context.Context) {
				started := time.Now()
				ctx = propagator.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
				all := append(attrs[:len(attrs):len(attrs)], attribute.String("jsonrpc.request.id", "1"))
				ctx, span := tracer.Start(ctx, "tools/call add", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(all...))
				span.End()
				durations.Record(ctx, time.Since(started).Seconds(), record...)
			}},
			{"server/telemetry", func(ctx context.Context) { receive(ctx, req) }},
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
