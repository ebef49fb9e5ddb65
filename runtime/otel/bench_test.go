//go:build unix

package otel_test

import (
	"context"
	"encoding/json"
	"syscall"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

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
// bytes that it adds to the message.
func BenchmarkSide(b *testing.B) {
	for name, sampler := range map[string]sdktrace.Sampler{"unsampled": sdktrace.NeverSample(), "recording": sdktrace.AlwaysSample()} {
		tracers := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(discard{}))
		defer tracers.Shutdown(context.Background())
		t, err := otel.New(otel.Options{
			TracerProvider: tracers, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
		})
		if err != nil {
			b.Fatal(err)
		}
		var cfg session.Config
		t.Session(&cfg)
		ctx := b.Context()
		b.Run(name+" client", func(b *testing.B) {
			send := cfg.Sending[0](func(context.Context, *session.Call) (json.RawMessage, error) {
				return json.RawMessage(`{"content":[]}`), nil
			})
			params := &mcp.CallToolRequestParams{Name: "add"}
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				send(ctx, &session.Call{Method: mcp.MethodToolsCall, Params: params})
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
		b.Run(name+" server", func(b *testing.B) {
			result := &mcp.CallToolResult{}
			receive := cfg.Receiving[0](func(context.Context, *session.Request) (codec.Encoder, error) { return result, nil })
			req := session.NewRequest(codec.IntScalar(1), mcp.MethodToolsCall, json.RawMessage(`{"_meta":{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},"name":"add","arguments":{"A":1,"B":2}}`), eras["sessions"][0])
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				receive(ctx, req)
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
