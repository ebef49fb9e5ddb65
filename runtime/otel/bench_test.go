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
