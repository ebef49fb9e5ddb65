package otel_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/otel"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// process holds the spans and the metrics of one process.
type process struct {
	t        *testing.T
	exporter *tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
	reader   *metric.ManualReader
	*otel.Telemetry
}

func newProcess(t *testing.T) *process {
	t.Helper()
	p := &process{t: t, exporter: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	p.provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(p.exporter))
	var err error
	p.Telemetry, err = otel.New(otel.Options{
		TracerProvider: p.provider, MeterProvider: metric.NewMeterProvider(metric.WithReader(p.reader)),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// span returns the only span with a name.
func (p *process) span(name string) tracetest.SpanStub {
	p.t.Helper()
	found := p.spans(name)
	if len(found) != 1 {
		p.t.Fatalf("%d spans named %q among %q, want 1", len(found), name, p.names())
	}
	return found[0]
}

func (p *process) spans(name string) (found []tracetest.SpanStub) {
	for _, s := range p.exporter.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

func (p *process) names() (names []string) {
	for _, s := range p.exporter.GetSpans() {
		names = append(names, s.Name)
	}
	return names
}

// metrics returns the data points of all metrics by name: their attributes and their values or counts.
func (p *process) metrics() map[string]map[attribute.Set]int64 {
	p.t.Helper()
	var all metricdata.ResourceMetrics
	if err := p.reader.Collect(context.Background(), &all); err != nil {
		p.t.Fatal(err)
	}
	points := map[string]map[attribute.Set]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			set := map[attribute.Set]int64{}
			points[m.Name] = set
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, d := range data.DataPoints {
					set[d.Attributes] = int64(d.Count)
				}
			case metricdata.Sum[int64]:
				for _, d := range data.DataPoints {
					set[d.Attributes] = d.Value
				}
			default:
				p.t.Errorf("metric %s has data of type %T", m.Name, data)
			}
		}
	}
	return points
}

// keys returns the sorted names of attributes.
func keys(attrs []attribute.KeyValue) []string {
	names := make([]string, len(attrs))
	for i, a := range attrs {
		names[i] = string(a.Key)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// value returns the value of an attribute, or "".
func value(attrs []attribute.KeyValue, key string) string {
	for _, a := range attrs {
		if string(a.Key) == key {
			return a.Value.Emit()
		}
	}
	return ""
}

// eras are the revisions of the two kinds of protocol.
var eras = map[string][]mcp.Revision{"sessions": session.Revisions(), "requests": session.ModernRevisions()}

// transports connect a client to a server.
var transports = map[string]func(t *testing.T, s *server.Server) transport.Conn{
	"in-memory": func(t *testing.T, s *server.Server) transport.Conn {
		a, b := inmemory.Pair(inmemory.Options{})
		serve(t, s, b)
		return a
	},
	"stdio": func(t *testing.T, s *server.Server) transport.Conn {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		serve(t, s, stdio.New(in, out, stdio.Options{}))
		return stdio.New(fromServer, toServer, stdio.Options{})
	},
	"HTTP": func(t *testing.T, s *server.Server) transport.Conn {
		h := must.Get(s.Handler(nil))
		web := httptest.NewServer(h)
		t.Cleanup(web.Close)
		t.Cleanup(func() { h.Close() })
		c, err := streamable.Dial(web.URL, streamable.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	},
}

func serve(t *testing.T, s *server.Server, conn transport.Conn) {
	t.Helper()
	if _, err := s.Serve(conn); err != nil {
		t.Fatal(err)
	}
}

// newServer returns a server that p observes.
func (p *process) newServer(cfg server.Options, add func(s *server.Server)) *server.Server {
	p.t.Helper()
	cfg.Logger, cfg.Session.Logger = slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler)
	if cfg.Tasks.Store == nil {
		cfg.Tasks.Store = memory.New()
	}
	p.Server(&cfg)
	s := server.New("test", "1", &cfg)
	add(s)
	if err := s.Err(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { s.Close() })
	return s
}

// connect returns a client that p observes.
func (p *process) connect(conn transport.Conn, o client.Options) *client.Client {
	p.t.Helper()
	p.Client(&o)
	c, err := client.Connect(p.t.Context(), conn, &o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c
}

// end closes a client and waits until its session was reported.
func end(c *client.Client) {
	ended := make(chan bool)
	c.Session().Internals(boundary.Caller{}).AfterDone(func() { close(ended) }) // runs after the function of the Telemetry
	c.Close()
	<-ended
}

// in calls f in a span of the caller.
func (p *process) in(name string, f func(ctx context.Context)) {
	ctx, span := p.provider.Tracer("test").Start(p.t.Context(), name)
	defer span.End()
	f(ctx)
}

// hash returns the hash of the id of a task as spans have it.
func hash(id string) string {
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf("%x", sum[:8])
}
