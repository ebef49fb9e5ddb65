package otel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/otel"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// A task is created in one process and ends in another one: both of its runs link to the request
// that created it.
func TestRunsLinkToTheirRequestAcrossProcesses(t *testing.T) {
	for era, revisions := range eras {
		t.Run(era, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tasks.db")
			running := make(chan bool, 2)
			first, second, here := newProcess(t), newProcess(t), newProcess(t)
			start := func(p *process, block bool) (*server.Server, task.Store) {
				store, err := bolt.Open(file)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { store.Close() })
				s := p.newServer(server.Options{Tasks: task.Options{Store: store}, Session: session.Options{Principal: "ada"}}, func(s *server.Server) {
					server.AddTool(s, "render", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
						running <- true
						if block {
							<-ctx.Done()
							return "", context.Cause(ctx)
						}
						return "done", nil
					}, server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired, Restartable: true}))
				})
				if err := s.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				return s, store
			}
			s, store := start(first, true)
			c := here.connect(transports["in-memory"](t, s), client.Options{Session: session.Options{Revisions: revisions}})
			h, err := c.StartTool(t.Context(), "render", nil)
			if err != nil {
				t.Fatal(err)
			}
			<-running
			c.Close()
			s.Close()
			store.Close()

			s, _ = start(second, false)
			c = here.connect(transports["in-memory"](t, s), client.Options{Session: session.Options{Revisions: revisions}})
			if _, err := c.AttachTool(h.ID()).Result(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Close()
			created := first.span("tools/call render")
			for outcome, run := range map[string]sdktrace.ReadOnlySpan{
				"interrupted": first.span("mcpwire.task.run render").Snapshot(), "completed": second.span("mcpwire.task.run render").Snapshot(),
			} {
				if got := value(run.Attributes(), "mcpwire.task.outcome"); got != outcome {
					t.Errorf("outcome %q, want %q", got, outcome)
				}
				if got := value(run.Attributes(), "mcpwire.task.hash"); got != hash(h.ID()) {
					t.Errorf("task %q, want %q", got, hash(h.ID()))
				}
				if run.Parent().IsValid() || run.SpanContext().TraceID() == created.SpanContext.TraceID() {
					t.Errorf("%s: the run is not in a trace of its own", outcome)
				}
				if links := run.Links(); len(links) != 1 || links[0].SpanContext.SpanID() != created.SpanContext.SpanID() || links[0].SpanContext.TraceID() != created.SpanContext.TraceID() {
					t.Errorf("%s: links %v, want the span of the request %v", outcome, links, created.SpanContext.SpanID())
				}
			}
			points := second.metrics()["mcpwire.tasks.ended"]
			if n := points[attribute.NewSet(attribute.String("mcpwire.task.status", "completed"))]; n != 1 {
				t.Errorf("%d completed tasks, want 1: %v", n, points)
			}
		})
	}
}

// Steps and waits are children of their run.
func TestStepsAndInputBelongToTheirRun(t *testing.T) {
	p := newProcess(t)
	s := p.newServer(server.Options{Tasks: task.Options{Store: memory.New()}, Session: session.Options{Principal: "ada"}}, addFeatures)
	c := p.connect(transports["in-memory"](t, s), client.Options{Input: client.Input{Fill: fill}, Session: session.Options{Revisions: session.Revisions()}})
	h, err := c.StartTool(t.Context(), "order", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Close()
	run := p.span("mcpwire.task.run order").SpanContext.SpanID()
	steps := p.spans("mcpwire.step")
	if len(steps) != 2 {
		t.Fatalf("%d steps, want 2", len(steps))
	}
	for _, child := range append(steps, p.span("mcpwire.task.input elicitation/create")) {
		if child.Parent.SpanID() != run {
			t.Errorf("%s: the parent is not the run", child.Name)
		}
	}
	if got := steps[1].Status; got.Code != codes.Error || got.Description != "broken" {
		t.Errorf("the status of a failed step is %v", got)
	}
}

func TestErrors(t *testing.T) {
	for era, revisions := range eras {
		t.Run(era, func(t *testing.T) {
			here, there := newProcess(t), newProcess(t)
			s := there.newServer(server.Options{}, func(s *server.Server) {
				addFeatures(s)
				server.AddTool(s, "panic", "", func(context.Context, *server.Call, struct{}) (string, error) { panic("tool") })
			})
			c := here.connect(transports["in-memory"](t, s), client.Options{Session: session.Options{Revisions: revisions}})
			missing := "-32002"
			if era == "requests" {
				missing = "-32602"
			}
			c.CallTool(t.Context(), "fail", nil)
			c.CallTool(t.Context(), "panic", nil)
			c.ReadResource(t.Context(), "x:z")
			// A faulty request is not an error of the server.
			for _, want := range []struct {
				side, span      string
				status          codes.Code
				errorType, code string
			}{
				{"client", "tools/call fail", codes.Error, "tool_error", ""},
				{"server", "tools/call fail", codes.Error, "tool_error", ""},
				{"client", "tools/call panic", codes.Error, "-32603", "-32603"},
				{"server", "tools/call panic", codes.Error, "-32603", "-32603"},
				{"client", "resources/read", codes.Error, missing, missing},
				{"server", "resources/read", codes.Unset, "", missing},
			} {
				p := map[string]*process{"client": here, "server": there}[want.side]
				got := p.span(want.span)
				if got.Status.Code != want.status || value(got.Attributes, "error.type") != want.errorType || value(got.Attributes, "rpc.response.status_code") != want.code {
					t.Errorf("%s at the %s: status %v, attributes %v", want.span, want.side, got.Status, got.Attributes)
				}
				found := false
				for set := range p.metrics()["mcp."+want.side+".operation.duration"] {
					attrs := set.ToSlice()
					name := strings.TrimSpace(value(attrs, "mcp.method.name") + " " + value(attrs, "gen_ai.tool.name"))
					found = found || name == want.span && value(attrs, "error.type") == want.errorType && value(attrs, "rpc.response.status_code") == want.code
				}
				if !found {
					t.Errorf("%s at the %s: no such metric", want.span, want.side)
				}
			}
		})
	}
}

// A client cannot make the number of attribute sets grow: unknown tools, methods and codes count
// together.
func TestCardinalityIsBounded(t *testing.T) {
	for era, revisions := range eras {
		p := newProcess(t)
		s := p.newServer(server.Options{}, addFeatures)
		o := client.Options{Session: session.Options{Revisions: revisions}}
		c, err := client.Connect(t.Context(), transports["in-memory"](t, s), &o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for i := range 300 {
			c.With().CallTool(t.Context(), &mcp.CallToolRequestParams{Name: fmt.Sprint("unknown", i)})
			c.With().GetPrompt(t.Context(), &mcp.GetPromptRequestParams{Name: fmt.Sprint("unknown", i)})
			c.Session().Call(t.Context(), fmt.Sprint("unknown/", i), nil)
		}
		for name, points := range p.metrics() {
			if len(points) > 10 {
				t.Errorf("%s: %s has %d sets of attributes", era, name, len(points))
			}
		}
		if n := len(p.spans("tools/call _OTHER")); n != 300 {
			t.Errorf("%s: %d spans of unknown tools, want 300", era, n)
		}
	}
}

// HTTP requests that are rejected before a session sees them count by their status. Unknown methods
// count together.
func TestRejectedHTTPRequestsCount(t *testing.T) {
	p, own := newProcess(t), 0
	s := p.newServer(server.Options{Hooks: server.Hooks{HTTPRejected: func(*http.Request, int) { own++ }}}, addFeatures)
	h := must.Get(s.Handler(&streamable.HandlerOptions{
		Limits: streamable.Limits{Message: 1000}, Rejected: func(*http.Request, int) { own++ },
		Access: streamable.Access{Principal: func(r *http.Request) (string, error) {
			if r.Header.Get("User") == "" {
				return "", errors.New("no user")
			}
			return r.Header.Get("User"), nil
		}},
	}))
	defer h.Close()
	for _, x := range []struct {
		method, body string
		header       []string
		status       int
	}{
		{"POST", "{}", nil, 401},
		{"POST", "{}", []string{"User", "ada", "Origin", "https://evil.example"}, 403},
		{"GET", "", []string{"User", "ada", "Accept", "text/event-stream", "Mcp-Session-Id", "unknown"}, 404},
		{"POST", strings.Repeat(" ", 2000), []string{"User", "ada", "Content-Type", "application/json"}, 413},
		{"POST", strings.Repeat(" ", 2000), []string{"User", "ada", "Content-Type", "application/json"}, 413},
		{"BREW", "", []string{"User", "ada"}, 405},
		{"STEEP", "", []string{"User", "ada"}, 405},
	} {
		r := httptest.NewRequest(x.method, "/", strings.NewReader(x.body))
		for i := 0; i < len(x.header); i += 2 {
			r.Header.Set(x.header[i], x.header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != x.status {
			t.Errorf("%s %v: status %d, want %d: %s", x.method, x.header, w.Code, x.status, w.Body)
		}
	}
	want := map[attribute.Set]int64{}
	for _, x := range []struct {
		method string
		status int
		n      int64
	}{{"POST", 401, 1}, {"POST", 403, 1}, {"GET", 404, 1}, {"POST", 413, 2}, {"_OTHER", 405, 2}} {
		want[attribute.NewSet(attribute.String("http.request.method", x.method), attribute.Int("http.response.status_code", x.status))] = x.n
	}
	if got := p.metrics()["mcpwire.server.rejected_http_requests"]; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if own != 14 {
		t.Errorf("the application's functions were called %d times, want 14", own)
	}
}

// HTTP middleware may have a span of its own, to which the span of the request has a link.
func TestAmbientSpanIsLinked(t *testing.T) {
	p := newProcess(t)
	s := p.newServer(server.Options{}, addFeatures)
	h := must.Get(s.Handler(nil))
	defer h.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := p.provider.Tracer("web").Start(r.Context(), "POST")
		defer span.End()
		h.ServeHTTP(w, r.WithContext(ctx))
	}))
	defer web.Close()
	conn, err := streamable.Dial(web.URL, streamable.ClientOptions{NoListen: true})
	if err != nil {
		t.Fatal(err)
	}
	here := newProcess(t)
	c := here.connect(conn, client.Options{Session: session.Options{Revisions: session.ModernRevisions()}})
	c.CallTool(t.Context(), "fail", nil)
	received, sent := p.span("tools/call fail"), here.span("tools/call fail")
	if received.Parent.SpanID() != sent.SpanContext.SpanID() {
		t.Error("the parent is not the span of the client")
	}
	if len(received.Links) != 1 || !received.Links[0].SpanContext.IsValid() || received.Links[0].SpanContext.TraceID() == sent.SpanContext.TraceID() {
		t.Errorf("links %v, want the span of the HTTP request", received.Links)
	}
}

// faulty is a provider whose tracer, spans and instruments panic.
type (
	faultyTracers   struct{ nooptrace.TracerProvider }
	faultyTracer    struct{ nooptrace.Tracer }
	faultyMeters    struct{ noopmetric.MeterProvider }
	faultyMeter     struct{ noopmetric.Meter }
	faultyHistogram struct{ noopmetric.Float64Histogram }
	faultyEnd       struct{ sdktrace.SpanProcessor }
)

func (faultyTracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return faultyTracer{} }
func (faultyTracer) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	panic("Start")
}
func (faultyMeters) Meter(string, ...metric.MeterOption) metric.Meter { return faultyMeter{} }
func (faultyMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return faultyHistogram{}, nil
}
func (faultyHistogram) Record(context.Context, float64, ...metric.RecordOption) { panic("Record") }
func (faultyEnd) OnStart(context.Context, sdktrace.ReadWriteSpan)               {}
func (faultyEnd) OnEnd(sdktrace.ReadOnlySpan)                                   { panic("OnEnd") }
func (faultyEnd) Shutdown(context.Context) error                                { return nil }
func (faultyEnd) ForceFlush(context.Context) error                              { return nil }

func TestPanicsOfProvidersBreakNoCall(t *testing.T) {
	for name, providers := range map[string]otel.Options{
		"start":  {TracerProvider: faultyTracers{}, MeterProvider: noopmetric.NewMeterProvider()},
		"end":    {TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(faultyEnd{})), MeterProvider: noopmetric.NewMeterProvider()},
		"record": {TracerProvider: nooptrace.NewTracerProvider(), MeterProvider: faultyMeters{}},
	} {
		t.Run(name, func(t *testing.T) {
			providers.Logger = slog.New(slog.DiscardHandler)
			telemetry, err := otel.New(providers)
			if err != nil {
				t.Fatal(err)
			}
			p := newProcess(t)
			p.Telemetry = telemetry
			s := p.newServer(server.Options{Tasks: task.Options{Store: memory.New()}, Session: session.Options{Principal: "ada"}}, addFeatures)
			c := p.connect(transports["in-memory"](t, s), client.Options{Input: client.Input{Fill: fill}, Session: session.Options{Revisions: session.Revisions()}})
			if _, err := c.GetPrompt(t.Context(), "ask", nil); err != nil {
				t.Error(err)
			}
			h, err := c.StartTool(t.Context(), "order", nil)
			if err != nil {
				t.Fatal(err)
			}
			if r, err := h.Result(t.Context()); err != nil || r.IsError != nil {
				t.Error(r, err)
			}
		})
	}
}

// The span of a handler that panics has an error, and the panic of the handler is not changed.
func TestPanicOfHandlerEndsItsSpan(t *testing.T) {
	p := newProcess(t)
	s := p.newServer(server.Options{Session: session.Options{Handler: nil}}, func(s *server.Server) {
		server.AddTool(s, "panic", "", func(context.Context, *server.Call, struct{}) (string, error) { panic("tool") })
	})
	c := p.connect(transports["in-memory"](t, s), client.Options{Session: session.Options{Revisions: session.Revisions()}})
	if _, err := c.CallTool(t.Context(), "panic", nil); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("the call fails with %v", err)
	}
	for _, span := range p.spans("tools/call panic") {
		if value(span.Attributes, "error.type") != "-32603" {
			t.Errorf("attributes %v", span.Attributes)
		}
	}
}

// abilities is a store whose methods for its Manager are not those of another one.
type abilities struct {
	task.Store
	joined bool
}

func (*abilities) Health() error  { return errors.New("disk full") }
func (*abilities) Now() time.Time { return time.Unix(1, 0) }
func (a *abilities) Join(context.Context, task.Member, fleets.Events) (fleets.Membership[task.Member, task.Record], error) {
	a.joined = true
	return nil, errors.New("no servers")
}

// A measured store has all abilities of the store that it measures.
func TestMeasuredStoreKeepsAbilities(t *testing.T) {
	p := newProcess(t)
	memory := memory.New()
	defer memory.Close()
	inner := &abilities{Store: memory}
	outer := p.Store(inner)
	release, err := outer.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := memory.Acquire(); !errors.Is(err, task.ErrInUse) {
		t.Errorf("the inner store is not acquired: %v", err)
	}
	if err := outer.Health(); err == nil || err.Error() != "disk full" {
		t.Errorf("the health is %v", err)
	}
	if now := outer.Now(); !now.Equal(time.Unix(1, 0)) {
		t.Errorf("the time is %v", now)
	}
	if _, err := outer.Join(t.Context(), task.Member{}, fleets.Events{}); err == nil || !inner.joined {
		t.Errorf("the inner store was not joined: %v", err)
	}
	if _, err := outer.Get(t.Context(), "missing"); !errors.Is(err, task.ErrNotFound) {
		t.Error(err)
	}
	set := attribute.NewSet(attribute.String("mcpwire.store.operation", "get"), attribute.String("error.type", "not_found"))
	if n := p.metrics()["mcpwire.task.store.duration"][set]; n != 1 {
		t.Errorf("%d calls measured, want 1", n)
	}
}

func TestSessionsAndRequestsInFlight(t *testing.T) {
	here, there := newProcess(t), newProcess(t)
	entered, leave := make(chan bool), make(chan bool)
	s := there.newServer(server.Options{}, func(s *server.Server) {
		server.AddTool(s, "wait", "", func(context.Context, *server.Call, struct{}) (string, error) {
			entered <- true
			<-leave
			return "", nil
		})
	})
	c := here.connect(transports["in-memory"](t, s), client.Options{Session: session.Options{Revisions: session.Revisions()}})
	done := make(chan error)
	go func() { _, err := c.CallTool(t.Context(), "wait", nil); done <- err }()
	<-entered
	calls := attribute.NewSet(attribute.String("mcp.method.name", "tools/call"))
	check := func(p *process, end string, sessions, requests int64) {
		t.Helper()
		points := p.metrics()
		if n := points["mcpwire."+end+".active_sessions"][*attribute.EmptySet()]; n != sessions {
			t.Errorf("%s: %d sessions, want %d", end, n, sessions)
		}
		if n := points["mcpwire."+end+".active_requests"][calls]; n != requests {
			t.Errorf("%s: %d requests, want %d", end, n, requests)
		}
	}
	check(here, "client", 1, 1)
	check(there, "server", 1, 1)
	leave <- true
	if err := <-done; err != nil {
		t.Error(err)
	}
	end(c)
	s.Close()
	check(here, "client", 0, 0)
	check(there, "server", 0, 0)
}

// The metrics of a fleet say how many members live, and count the tasks that they take over and the
// leases that end. They do not decrease when a Manager is closed.
func TestMetricsOfFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := memory.NewFleet()
		type member struct {
			*process
			*task.Manager
			store *memory.FleetStore
		}
		work := func(ctx context.Context, _ *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		join := func() member {
			p, store := newProcess(t), fleet.Store()
			cfg := task.Options{Store: store, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return work }}, Logger: slog.New(slog.DiscardHandler)}
			p.Tasks(&cfg)
			m, err := task.New(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			p.Observe(m)
			return member{p, m, store}
		}
		check := func(m member, name string, members, takenOver, lapsed int64) {
			t.Helper()
			for metric, want := range map[string]int64{"members": members, "taken_over": takenOver, "lapsed_leases": lapsed} {
				points := m.metrics()["mcpwire.fleet."+metric]
				if got := points[*attribute.EmptySet()]; got != want {
					t.Errorf("%s: %s is %d, want %d", name, metric, got, want)
				}
			}
		}
		a, b := join(), join()
		if _, err := a.Create(t.Context(), task.Request{Principal: "ada", Method: "tools/call", Restartable: true, Work: work}); err != nil {
			t.Fatal(err)
		}
		check(a, "at first", 2, 0, 0)
		a.store.Cut()
		time.Sleep(task.DefaultLease + time.Second)
		synctest.Wait()
		check(b, "the survivor", 1, 1, 0)
		a.store.Heal()
		time.Sleep(time.Minute)
		synctest.Wait()
		check(a, "the member that has joined again", 2, 0, 1)
		check(b, "the survivor", 2, 1, 0)
		for _, m := range []member{a, b} {
			if err := m.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
		check(b, "after the end", 0, 1, 0)
	})
}

// updates receives a value for each update of a resource.
type updates struct {
	mcp.UnimplementedClientNotificationHandler
	c chan bool
}

func (u updates) ResourceUpdated(context.Context, *mcp.ResourceUpdatedNotificationParams) error {
	u.c <- true
	return nil
}

// Open streams for notifications are counted in both eras.
func TestOpenStreams(t *testing.T) {
	for era, kind := range map[string]string{"sessions": "get", "requests": "listen"} {
		t.Run(era, func(t *testing.T) {
			p := newProcess(t)
			s := p.newServer(server.Options{}, addFeatures)
			updated := updates{c: make(chan bool, 1)}
			c, err := client.Connect(t.Context(), transports["HTTP"](t, s), &client.Options{
				Session: session.Options{Revisions: eras[era]}, Notifications: updated,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Subscribe(t.Context(), "x:y"); err != nil {
				t.Fatal(err)
			}
			s.ResourceUpdated("x:y")
			<-updated.c // over the stream
			set := attribute.NewSet(attribute.String("mcpwire.stream.type", kind))
			if n := p.metrics()["mcpwire.server.active_streams"][set]; n != 1 {
				t.Errorf("%d open streams, want 1", n)
			}
			end(c)
			s.Close()
			if n := p.metrics()["mcpwire.server.active_streams"][set]; n != 0 {
				t.Errorf("%d open streams after the end", n)
			}
		})
	}
}

func TestLogHandlerAddsSpan(t *testing.T) {
	p := newProcess(t)
	var out bytes.Buffer
	log := slog.New(otel.LogHandler(slog.NewTextHandler(&out, nil))).With("a", 1)
	p.in("span", func(ctx context.Context) { log.InfoContext(ctx, "inside") })
	log.Info("outside")
	span := p.span("span").SpanContext
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if want := "trace_id=" + span.TraceID().String() + " span_id=" + span.SpanID().String(); !strings.HasSuffix(lines[0], want) || !strings.Contains(lines[0], "a=1") {
		t.Errorf("logged %q, want %q", lines[0], want)
	}
	if strings.Contains(lines[1], "trace_id") {
		t.Errorf("logged %q without a span", lines[1])
	}
}
