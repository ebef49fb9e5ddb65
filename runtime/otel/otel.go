package otel

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	global "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Options configures [New]. The zero value uses the global providers.
type Options struct {
	// TracerProvider makes the tracer. The default is the global one.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the meter. The default is the global one.
	MeterProvider metric.MeterProvider
	// Propagator reads and writes the fields of the _meta of messages. The default handles the
	// fields of W3C Trace Context and W3C Baggage: traceparent, tracestate and baggage.
	Propagator propagation.TextMapPropagator
	// Logger receives the panics of the providers. If it is nil, they go to [slog.Default].
	Logger *slog.Logger
}

// Telemetry traces and measures the servers, clients and Managers whose configurations were passed
// to its methods. Create a Telemetry with [New]. It has no goroutines and needs no Close. Its
// methods may be called concurrently, but not for the same configuration.
type Telemetry struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	carriers   *sync.Pool // of *incoming
	log        *slog.Logger

	entries copied[kind, *entry]
	recent  [64]atomic.Pointer[entry]        // some of entries, by the hash of their kind
	active  [2]copied[string, *atomic.Int64] // open operations by method; see side

	durations, sessionDurations [2]metric.Float64Histogram // see side
	sessions                    [2]metric.Int64UpDownCounter
	runDuration, storeDuration  metric.Float64Histogram
	rejected, httpRejected      metric.Int64Counter
	created, ended, taskRefused metric.Int64Counter

	opened sync.Map // when a *session.Session was opened, a time.Time

	mu       sync.Mutex
	observed []observed
	closed   task.Stats // sums of the counters of Managers that are closed
	isFleet  bool       // see reading
}

// observed has the functions that callbacks of the meter call to read a Manager or a server.
type observed struct {
	manager func() *task.Manager // returns nil before its server has started
	streams func() int           // nil for none
}

// New returns a Telemetry. It fails if the meter rejects one of the metrics.
func New(o Options) (*Telemetry, error) {
	if o.TracerProvider == nil {
		o.TracerProvider = global.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = global.GetMeterProvider()
	}
	if o.Propagator == nil {
		o.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	t := &Telemetry{
		tracer: o.TracerProvider.Tracer(scope), propagator: o.Propagator, carriers: carriers(o.Propagator.Fields()),
		log: boundary.Logger(o.Logger),
	}
	return t, t.instruments(o.MeterProvider.Meter(scope))
}

// instruments makes the instruments.
func (t *Telemetry) instruments(m metric.Meter) error {
	var faults []error
	histogram := func(name, description string, bounds []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		faults = append(faults, err)
		return h
	}
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return c
	}
	upDown := func(name, unit, description string) metric.Int64UpDownCounter {
		c, err := m.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return c
	}
	total := func(name, unit, description string) metric.Int64ObservableCounter {
		c, err := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return c
	}
	level := func(name, unit, description string) metric.Int64ObservableUpDownCounter {
		c, err := m.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return c
	}
	t.durations = [2]metric.Float64Histogram{
		histogram(clientDuration, "Time from sending a request or notification to its answer.", bounds),
		histogram(serverDuration, "Time that a received request or notification took.", bounds),
	}
	t.sessionDurations = [2]metric.Float64Histogram{
		histogram(clientSessionDuration, "Duration of a session, at the client.", bounds),
		histogram(serverSessionDuration, "Duration of a session, at the server.", bounds),
	}
	t.sessions = [2]metric.Int64UpDownCounter{
		upDown(clientSessions, "{session}", "Open sessions, at the client."),
		upDown(serverSessions, "{session}", "Open sessions, at the server."),
	}
	t.rejected = counter(rejected, "{request}", "Requests that were rejected before they were handled.")
	t.httpRejected = counter(httpRejected, "{request}", "HTTP requests that were answered with an error status.")
	t.created = counter(tasksCreated, "{task}", "Tasks that were created.")
	t.ended = counter(tasksEnded, "{task}", "Tasks that became terminal or expired.")
	t.taskRefused = counter(tasksRefused, "{call}", "Calls about tasks that failed.")
	t.runDuration = histogram(runDuration, "Time that a run of the work of a task took.", bounds)
	t.storeDuration = histogram(storeDuration, "Time that a call of the store of tasks took.", storeBounds)

	active := [2]metric.Int64ObservableUpDownCounter{
		level(clientActive, "{request}", "Requests that wait for their answer."),
		level(serverActive, "{request}", "Requests that are being handled."),
	}
	streams := level(serverStreams, "{stream}", "Streams that clients have opened for notifications.")
	byState := level(tasksActive, "{task}", "Tasks that this process runs or holds, by state.")
	waiting := level(tasksWaiting, "{call}", "Calls that wait for the result of a task.")
	members := level(fleetMembers, "{member}", "Living members of the fleet, as this process sees them.")
	takenOver := total(fleetTakenOver, "{task}", "Tasks that this process has taken over from other members of the fleet.")
	lapsed := total(fleetLapsed, "{lease}", "Leases of this process in the fleet that have ended.")
	_, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for i := range active {
			t.active[i].each(func(method string, n *atomic.Int64) {
				o.ObserveInt64(active[i], n.Load(), metric.WithAttributes(keyMethod.String(method)))
			})
		}
		t.active[side(true)].each(func(method string, n *atomic.Int64) {
			if method == mcp.MethodSubscriptionsListen {
				o.ObserveInt64(streams, n.Load(), metric.WithAttributes(keyStream.String("listen")))
			}
		})
		sum := t.read()
		if sum.hasStreams {
			o.ObserveInt64(streams, int64(sum.streams), metric.WithAttributes(keyStream.String("get")))
		}
		for state, n := range map[string]int{"running": sum.Running, "queued": sum.Queued, "parked": sum.Parked, "unstored": sum.Unstored} {
			o.ObserveInt64(byState, int64(n), metric.WithAttributes(keyState.String(state)))
		}
		o.ObserveInt64(waiting, int64(sum.Waiting))
		if sum.isFleet {
			o.ObserveInt64(members, int64(sum.members))
			o.ObserveInt64(takenOver, int64(sum.TakenOver))
			o.ObserveInt64(lapsed, int64(sum.Lapsed))
		}
		return nil
	}, active[0], active[1], streams, byState, waiting, members, takenOver, lapsed)
	return errors.Join(append(faults, err)...)
}

// reading holds the values that callbacks of the meter report.
type reading struct {
	task.Stats
	members    int  // of the largest fleet
	isFleet    bool // a Manager is or was a member of a fleet
	streams    int
	hasStreams bool // there is a server
}

// read returns the sums over all observed Managers and servers, and removes closed Managers.
func (t *Telemetry) read() (sum reading) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := t.observed[:0]
	for _, each := range t.observed {
		m := each.manager()
		if m != nil && m.Health() == task.ErrClosed {
			stats := m.Stats()
			t.closed.TakenOver += stats.TakenOver
			t.closed.Lapsed += stats.Lapsed
			continue
		}
		rest = append(rest, each)
		if each.streams != nil {
			sum.hasStreams = true
			sum.streams += each.streams()
		}
		if m == nil {
			continue
		}
		stats := m.Stats()
		sum.Running += stats.Running
		sum.Queued += stats.Queued
		sum.Parked += stats.Parked
		sum.Unstored += stats.Unstored
		sum.Waiting += stats.Waiting
		sum.TakenOver += stats.TakenOver
		sum.Lapsed += stats.Lapsed
		sum.members = max(sum.members, len(m.Members()))
	}
	clear(t.observed[len(rest):])
	t.observed = rest
	sum.TakenOver += t.closed.TakenOver
	sum.Lapsed += t.closed.Lapsed
	t.isFleet = t.isFleet || sum.members+int(sum.TakenOver+sum.Lapsed) > 0
	sum.isFleet = t.isFleet
	return sum
}

// Server makes the server of a configuration report its requests, its sessions, its steps and its
// tasks. Call it once, after all other fields are set, and before [server.New].
func (t *Telemetry) Server(cfg *server.Config) {
	t.Session(&cfg.Session)
	cfg.Session.Receiving = cfg.Session.Receiving[1:] // replaced by Middleware, which knows the features
	inner, methods := cfg.Middleware, cfg.Methods
	cfg.Middleware = func(s *server.Server) session.Middleware {
		receive := t.receiving(s.Has, func(method string) bool { return methods[method] != nil })
		t.observe(observed{s.Tasks, s.Streams})
		if inner == nil {
			return receive
		}
		own := inner(s)
		if own == nil {
			return receive
		}
		return func(next session.Handler) session.Handler { return receive(own(next)) }
	}
	cfg.StepMiddleware = append([]server.StepMiddleware{t.step}, cfg.StepMiddleware...)
	opened, closed := cfg.SessionOpened, cfg.SessionClosed
	cfg.SessionOpened = func(s *session.Session) {
		t.sessionOpened(s)
		if opened != nil {
			opened(s)
		}
	}
	cfg.SessionClosed = func(s *session.Session, cause error) {
		t.sessionClosed(s, cause)
		if closed != nil {
			closed(s, cause)
		}
	}
	rejected := cfg.HTTPRejected
	cfg.HTTPRejected = func(r *http.Request, status int) {
		t.httpRequestRejected(r, status)
		if rejected != nil {
			rejected(r, status)
		}
	}
	if cfg.TaskStore != nil {
		cfg.TaskStore = t.Store(cfg.TaskStore)
		t.observeTasks(&cfg.Tasks)
	}
}

// Client makes the client of these options report its requests, its session and the requests of the
// server. Call it once, after all other fields are set, and before the client connects.
func (t *Telemetry) Client(o *client.Options) {
	t.Session(&o.Session)
	o.Session.Sending[0] = t.sending(true)
}

// Session makes the sessions of a configuration report the requests of both sides. It is for sessions
// that neither package server nor package client opens: Server and Client call it. The names of tools
// and prompts in requests of the peer are not reported.
func (t *Telemetry) Session(cfg *session.Config) {
	cfg.Receiving = append([]session.Middleware{t.receiving(nil, nil)}, cfg.Receiving...)
	cfg.Sending = append([]session.SendMiddleware{t.sending(false)}, cfg.Sending...)
	next := cfg.Rejected
	cfg.Rejected = func(method string, err *jsonrpc.Error) {
		t.requestRejected(method, err)
		if next != nil {
			next(method, err)
		}
	}
}

// Tasks makes the Manager of a configuration report its tasks, and its Store the duration of its
// calls. It is for a Manager that no server makes. To report the numbers of its tasks, pass the
// Manager to [Telemetry.Observe].
func (t *Telemetry) Tasks(cfg *task.Config) {
	if cfg.Store != nil {
		cfg.Store = t.Store(cfg.Store)
	}
	t.observeTasks(cfg)
}

// Observe reports the numbers of tasks of a Manager until it is closed.
func (t *Telemetry) Observe(m *task.Manager) {
	t.observe(observed{manager: func() *task.Manager { return m }})
}

func (t *Telemetry) observe(o observed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.observed = append(t.observed, o)
}

// guard calls f and logs its panic.
func (t *Telemetry) guard(f func()) {
	boundary.Report(t.log, "telemetry panicked", boundary.Run(func() error { f(); return nil }))
}

// requestRejected counts a request that was rejected before it was handled.
func (t *Telemetry) requestRejected(method string, err *jsonrpc.Error) {
	t.guard(func() {
		if !protocolMethod(method) {
			method = other
		}
		t.rejected.Add(context.Background(), 1, metric.WithAttributes(keyMethod.String(method), keyErrorType.String(codeText(err.Code))))
	})
}

// httpRequestRejected counts an HTTP request that is answered with an error status.
func (t *Telemetry) httpRequestRejected(r *http.Request, status int) {
	t.guard(func() {
		method := other
		switch r.Method { // others are unlimited
		case http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodHead, http.MethodOptions, http.MethodPut:
			method = r.Method
		}
		t.httpRejected.Add(r.Context(), 1, metric.WithAttributes(keyHTTPMethod.String(method), keyHTTPStatus.Int(status)))
	})
}

// sessionOpened counts a session that has opened.
func (t *Telemetry) sessionOpened(s *session.Session) {
	if _, known := t.opened.LoadOrStore(s, time.Now()); !known {
		t.guard(func() { t.sessions[side(s.Role() == session.RoleServer)].Add(context.Background(), 1) })
	}
}

// sessionClosed records a session that has ended, with the cause of its end.
func (t *Telemetry) sessionClosed(s *session.Session, cause error) {
	opened, ok := t.opened.LoadAndDelete(s)
	if !ok {
		return
	}
	t.guard(func() {
		end, ctx := side(s.Role() == session.RoleServer), context.Background()
		t.sessions[end].Add(ctx, -1)
		attrs := connection(s.Revision(), s.Info())
		if cause != nil {
			class, _ := classify(ctx, cause)
			attrs = append(attrs, keyErrorType.String(class))
		}
		t.sessionDurations[end].Record(ctx, time.Since(opened.(time.Time)).Seconds(), metric.WithAttributeSet(attribute.NewSet(attrs...)))
	})
}
