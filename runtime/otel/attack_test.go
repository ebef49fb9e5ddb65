package otel_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/otel"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

var rounds = flag.Int("rounds", 4, "rounds of TestSpansEndOnce for each era")

// ledger is a provider of tracers that counts how often each span is ended.
type ledger struct {
	trace.TracerProvider
	mu    sync.Mutex
	spans []*countedSpan
}

type countedTracer struct {
	trace.Tracer
	l *ledger
}

type countedSpan struct {
	trace.Span
	l    *ledger
	name string
	ends int // guarded by the mu of the ledger
}

func (l *ledger) Tracer(name string, o ...trace.TracerOption) trace.Tracer {
	return countedTracer{l.TracerProvider.Tracer(name, o...), l}
}

func (t countedTracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx, inner := t.Tracer.Start(ctx, name, o...)
	span := &countedSpan{Span: inner, l: t.l, name: name}
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	t.l.spans = append(t.l.spans, span)
	return trace.ContextWithSpan(ctx, span), span
}

func (s *countedSpan) End(o ...trace.SpanEndOption) {
	s.l.mu.Lock()
	s.ends++
	s.l.mu.Unlock()
	s.Span.End(o...)
}

// newLedger returns a process that reports to a ledger.
func newLedger(t *testing.T) (*process, *ledger) {
	p := newProcess(t)
	l := &ledger{TracerProvider: p.provider}
	p.reader = metric.NewManualReader()
	var err error
	p.Telemetry, err = otel.New(otel.Options{
		TracerProvider: l, MeterProvider: metric.NewMeterProvider(metric.WithReader(p.reader)), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, l
}

// secret is part of all arguments and results. No span may have it.
const secret = "s3cr3t"

// addRandomFeatures adds tools that end in all ways.
func addRandomFeatures(s *server.Server) {
	type in struct{ Text string }
	server.AddTool(s, "quick", "", func(context.Context, *server.Call, in) (string, error) { return secret, nil })
	server.AddTool(s, "fail", "", func(context.Context, *server.Call, in) (string, error) { return "", errors.New("failed") })
	server.AddTool(s, "panic", "", func(context.Context, *server.Call, in) (string, error) { panic("tool") })
	server.AddTool(s, "slow", "", func(ctx context.Context, _ *server.Call, _ in) (string, error) {
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
		}
		return "", context.Cause(ctx)
	})
	server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ in) (string, error) {
		var form struct{ Agree bool }
		_, err := server.Elicit(ctx, c, "Agree?", &form)
		return "", err
	}, server.Durable())
	server.AddTool(s, "park", "", func(ctx context.Context, c *server.Call, _ in) (string, error) {
		if _, err := server.Step(ctx, c, "one", func(context.Context) (string, error) { return secret, nil }); err != nil {
			return "", err
		}
		err := server.Sleep(ctx, c, "nap", func() time.Time { return time.Now().Add(10 * time.Minute) })
		return "", err
	}, server.Durable())
}

// Each span ends exactly once, and nothing counts as active afterwards, however calls, tasks, sessions
// and processes end. No span has an argument or a result.
func TestSpansEndOnce(t *testing.T) {
	for era, revisions := range eras {
		for round := range *rounds {
			t.Run(fmt.Sprint(era, " ", round), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					random := rand.New(rand.NewPCG(uint64(round), 1))
					fleet := memory.NewFleet()
					here, sent := newLedger(t)
					there, received := newLedger(t)
					var servers []*server.Server
					var stores []*memory.FleetStore
					for range 2 {
						store := fleet.Store()
						servers = append(servers, there.newServer(server.Options{
							Session: session.Options{Principal: "ada"}, Tasks: task.Options{Store: store, Recovery: task.Recovery{ParkAfter: time.Second}},
						}, addRandomFeatures))
						stores = append(stores, store)
					}
					var group sync.WaitGroup
					for range 6 {
						near, far := inmemory.Pair(inmemory.Options{})
						serve(t, servers[random.IntN(2)], far)
						fills := func(ctx context.Context, r *client.FormRequest) (*mcp.ElicitResult, error) {
							time.Sleep(time.Second)
							return fill(ctx, r)
						}
						c := here.connect(near, client.Options{Input: client.Input{Fill: fills}, Session: session.Options{Revisions: revisions, Logger: slog.New(slog.DiscardHandler)}})
						for range 10 {
							tool := []string{"quick", "fail", "panic", "slow", "ask", "park", "missing"}[random.IntN(7)]
							asTask, cancels, wait := random.IntN(2) == 0, random.IntN(3) == 0, time.Duration(random.IntN(2000))*time.Millisecond
							group.Go(func() {
								ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
								if cancels {
									ctx, cancel = context.WithTimeout(t.Context(), wait)
								}
								defer cancel()
								in := map[string]any{"Text": secret}
								if !asTask {
									c.CallTool(ctx, tool, in)
								} else if h, err := c.StartTool(ctx, tool, in); err == nil {
									if cancels {
										h.Cancel(t.Context())
									}
									h.Result(ctx)
								}
							})
						}
						if random.IntN(3) == 0 {
							time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
							c.Close() // with calls in flight
						}
					}
					if random.IntN(2) == 0 { // a member is cut off, and the other one takes its tasks over
						stores[0].Cut()
						time.Sleep(time.Minute)
						stores[0].Heal()
					}
					if random.IntN(2) == 0 {
						time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
						servers[0].Close()
					}
					group.Wait()
					for _, s := range servers {
						s.Close()
					}
					time.Sleep(time.Hour)
					synctest.Wait()
					for side, l := range map[string]*ledger{"client": sent, "server": received} {
						l.mu.Lock()
						for _, span := range l.spans {
							if span.ends != 1 {
								t.Errorf("%s: the span %q ended %d times", side, span.name, span.ends)
							}
						}
						if len(l.spans) < 20 {
							t.Errorf("%s: only %d spans", side, len(l.spans))
						}
						l.mu.Unlock()
					}
					for side, p := range map[string]*process{"client": here, "server": there} {
						for set, n := range p.metrics()["mcpwire."+side+".active_requests"] {
							if n != 0 {
								t.Errorf("%s: %d active requests %v", side, n, set.ToSlice())
							}
						}
						checkSecrets(t, p.exporter.GetSpans())
					}
					checkParents(t, here, there)
				})
			})
		}
	}
}

func checkSecrets(t *testing.T, spans tracetest.SpanStubs) {
	t.Helper()
	for _, span := range spans {
		for _, a := range span.Attributes {
			if strings.Contains(a.Value.Emit(), secret) {
				t.Errorf("the span %q has %s", span.Name, a.Value.Emit())
			}
		}
		if strings.Contains(span.Status.Description+span.Name, secret) {
			t.Errorf("the span %q: %s", span.Name, span.Status.Description)
		}
	}
}

// checkParents checks that spans of tools/call at the server are children of those of the client, runs
// are roots with a link to a request, and steps and waits are children of runs or calls.
func checkParents(t *testing.T, here, there *process) {
	t.Helper()
	names := map[trace.SpanID]string{}
	for _, p := range []*process{here, there} {
		for _, span := range p.exporter.GetSpans() {
			names[span.SpanContext.SpanID()] = span.SpanKind.String() + " " + span.Name
		}
	}
	for _, span := range there.exporter.GetSpans() {
		parent := names[span.Parent.SpanID()]
		switch {
		case span.SpanKind == trace.SpanKindServer && parent != "client "+strings.ReplaceAll(span.Name, "_OTHER", "missing"):
			t.Errorf("the parent of the span %q is %q", span.Name, parent)
		case strings.HasPrefix(span.Name, "mcpwire.task.run"):
			if span.Parent.IsValid() || len(span.Links) != 1 || !strings.HasPrefix(names[span.Links[0].SpanContext.SpanID()], "server tools/call") {
				t.Errorf("the span %q has the parent %q and the links %v", span.Name, parent, span.Links)
			}
		case strings.HasPrefix(span.Name, "mcpwire.task.input") && !strings.HasPrefix(parent, "internal mcpwire.task.run"):
			t.Errorf("the parent of the span %q is %q", span.Name, parent)
		}
	}
}

// A client can put anything into its _meta: the call works, and the server uses what is valid.
func TestHostileMeta(t *testing.T) {
	const parent = `"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"`
	long := strings.Repeat("a", 9000)
	many := strings.TrimSuffix(strings.Repeat("k=v,", 500), ",")
	for name, test := range map[string]struct {
		meta          string
		parent        bool
		state, member string
	}{
		"valid":                {`"traceparent":` + parent + `,"tracestate":"a=b","baggage":"k=v"`, true, "a=b", "v"},
		"escaped":              {`"traceparent":"\u00300-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","baggage":"k=\u0076"`, true, "", "v"},
		"no strings":           {`"traceparent":1,"tracestate":{"a":"b"},"baggage":["k=v"]`, false, "", ""},
		"empty":                {`"traceparent":"","tracestate":"","baggage":""`, false, "", ""},
		"invalid parent":       {`"traceparent":"00-00000000000000000000000000000000-0000000000000000-01","baggage":"k=v"`, false, "", "v"},
		"long parent":          {`"traceparent":"` + long + `","baggage":"k=v"`, false, "", "v"},
		"long baggage":         {`"traceparent":` + parent + `,"baggage":"k=` + long + `"`, true, "", ""},
		"long state":           {`"traceparent":` + parent + `,"tracestate":"a=` + long + `"`, true, "", ""},
		"many states":          {`"traceparent":` + parent + `,"tracestate":"` + strings.ReplaceAll(many, "k", "x") + `"`, true, "", ""},
		"state without parent": {`"tracestate":"a=b"`, false, "", ""},
		"control characters":   {`"traceparent":` + parent + `,"baggage":"k=\u0000\u000a"`, true, "", ""},
	} {
		for era, revisions := range eras {
			t.Run(era+" "+name, func(t *testing.T) {
				p := newProcess(t)
				var state, member string
				s := p.newServer(server.Options{}, func(s *server.Server) {
					server.AddTool(s, "greet", "", func(ctx context.Context, _ *server.Call, _ map[string]any) (string, error) {
						state, member = trace.SpanContextFromContext(ctx).TraceState().String(), baggage.FromContext(ctx).Member("k").Value()
						return "", nil
					})
				})
				c, err := client.Connect(t.Context(), transports["in-memory"](t, s), &client.Options{Session: session.Options{Revisions: revisions}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := c.Session().Call(t.Context(), mcp.MethodToolsCall, session.Raw(`{"":"x:y","name":"greet","_meta":{`+test.meta+`}}`)); err != nil {
					t.Fatal(err)
				}
				span := p.span("tools/call greet")
				if span.Parent.IsValid() != test.parent || state != test.state || member != test.member {
					t.Errorf("parent %v, state %q, member %q", span.Parent, state, member)
				}
				if _, err := c.Session().Call(t.Context(), mcp.MethodToolsList, session.Raw(`{"":"x:y"}`)); err != nil {
					t.Fatal(err)
				}
				if got := value(p.span("tools/list").Attributes, "mcp.resource.uri"); got != "" {
					t.Errorf("the URI is %q", got)
				}
			})
		}
	}
}
