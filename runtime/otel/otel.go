package otel

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

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
	"github.com/mcpwire/mcpwire/runtime/transport"
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

	tools                   copied[string, *toolRuns] // by name; see runsOf
	otherRuns, namelessRuns toolRuns
	passed                  copied[feature, struct{}] // features of upstreams; see learn

	opened      sync.Map // when a *session.Session was opened, a time.Time
	sessionEnds copied[sessionEnd, metric.MeasurementOption]

	mu       sync.Mutex // not held while a server or a Manager is read
	observed []*observed

	reading sync.Mutex // held while callbacks of the meter read; guards the fields below
	closed  task.Stats // sums of the counters of Managers that are closed
	isFleet bool       // see reading
}

// observed is a Manager or a server that callbacks of the meter read. A server that the application
// has dropped is not kept in memory, unless it has a Manager that is not closed.
type observed struct {
	server  weak.Pointer[server.Server] // zero for a Manager without a server
	manager *task.Manager               // nil before it is first read; guarded by Telemetry.reading
}

// read returns the Manager and the server. Each is nil if there is none.
func (o *observed) read() (*task.Manager, *server.Server) {
	s := o.server.Value()
	if s != nil && o.manager == nil {
		o.manager = s.Tasks()
	}
	return o.manager, s
}

// over reports whether a Manager is closed and its work has ended.
func over(m *task.Manager) bool {
	select {
	case <-m.Done():
		stats := m.Stats()
		return stats.Running+stats.Queued == 0
	default:
		return false
	}
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
	t.otherRuns.name = other
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

// read returns the sums over all observed Managers and servers, and removes those that are gone. It
// calls no store.
func (t *Telemetry) read() (sum reading) {
	t.reading.Lock()
	defer t.reading.Unlock()
	for _, each := range t.prune() {
		m, s := each.read()
		if s != nil {
			sum.hasStreams = true
			sum.streams += s.Streams()
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
	sum.TakenOver += t.closed.TakenOver
	sum.Lapsed += t.closed.Lapsed
	t.isFleet = t.isFleet || sum.members+int(sum.TakenOver+sum.Lapsed) > 0
	sum.isFleet = t.isFleet
	return sum
}

// prune removes the servers and Managers that are gone, and returns the others. The caller holds
// reading.
func (t *Telemetry) prune() (left []*observed) {
	t.mu.Lock()
	all := slices.Clone(t.observed)
	t.mu.Unlock()
	gone := map[*observed]bool{}
	for _, each := range all {
		m, s := each.read()
		if m != nil && !over(m) || m == nil && s != nil {
			left = append(left, each)
			continue
		}
		gone[each] = true
		if m != nil {
			stats := m.Stats()
			t.closed.TakenOver += stats.TakenOver
			t.closed.Lapsed += stats.Lapsed
		}
	}
	if len(gone) > 0 {
		t.mu.Lock()
		t.observed = slices.DeleteFunc(t.observed, func(each *observed) bool { return gone[each] })
		t.mu.Unlock()
	}
	return left
}

// Server makes the server of a configuration report its requests, its sessions, its steps and its
// tasks. Call it once, after all other fields are set, and before [server.New].
func (t *Telemetry) Server(cfg *server.Options) {
	t.Session(&cfg.Session)
	cfg.Session.Hooks.Receiving = cfg.Session.Hooks.Receiving[1:] // replaced by Middleware, which knows the features
	inner := cfg.Middleware.All
	cfg.Middleware.All = func(s *server.Server) session.Middleware {
		receive := t.receiving(s.Has)
		t.observe(&observed{server: weak.Make(s)})
		if inner == nil {
			return receive
		}
		own := inner(s)
		if own == nil {
			return receive
		}
		return func(next session.Handler) session.Handler { return receive(own(next)) }
	}
	cfg.Middleware.Steps = append([]server.StepMiddleware{t.step}, cfg.Middleware.Steps...)
	opened, closed := cfg.Hooks.SessionOpened, cfg.Hooks.SessionClosed
	cfg.Hooks.SessionOpened = func(s *session.Session) {
		t.sessionOpened(s)
		if opened != nil {
			opened(s)
		}
	}
	cfg.Hooks.SessionClosed = func(s *session.Session, cause error) {
		t.sessionClosed(s, cause)
		if closed != nil {
			closed(s, cause)
		}
	}
	rejected := cfg.Hooks.HTTPRejected
	cfg.Hooks.HTTPRejected = func(r *http.Request, status int) {
		t.httpRequestRejected(r, status)
		if rejected != nil {
			rejected(r, status)
		}
	}
	if cfg.Tasks.Store != nil {
		cfg.Tasks.Store = t.Store(cfg.Tasks.Store)
		t.observeTasks(&cfg.Tasks, true)
	}
}

// Client makes the client of these options report its requests, its session and the requests of the
// server. Call it once, after all other fields are set, and before the client connects.
func (t *Telemetry) Client(o *client.Options) {
	t.Session(&o.Session)
	o.Session.Hooks.Sending[0] = t.sending(true)
}

// Session makes the sessions of a configuration report the requests of both sides. It is for sessions
// that neither package server nor package client opens: Server and Client call it. The names of tools
// and prompts in requests of the peer are not reported.
func (t *Telemetry) Session(cfg *session.Options) {
	cfg.Hooks.Receiving = append([]session.Middleware{t.receiving(nil)}, cfg.Hooks.Receiving...)
	cfg.Hooks.Sending = append([]session.SendMiddleware{t.sending(false)}, cfg.Hooks.Sending...)
	next := cfg.Hooks.Rejected
	cfg.Hooks.Rejected = func(method string, err *jsonrpc.Error) {
		t.requestRejected(method, err)
		if next != nil {
			next(method, err)
		}
	}
}

// Tasks makes the Manager of a configuration report its tasks, and its Store the duration of its
// calls. It is for a Manager that no server makes. To report the numbers of its tasks, pass the
// Manager to [Telemetry.Observe].
func (t *Telemetry) Tasks(cfg *task.Options) {
	if cfg.Store != nil {
		cfg.Store = t.Store(cfg.Store)
	}
	t.observeTasks(cfg, false)
}

// Observe reports the numbers of tasks of a Manager until it is closed.
func (t *Telemetry) Observe(m *task.Manager) { t.observe(&observed{manager: m}) }

func (t *Telemetry) observe(o *observed) {
	t.mu.Lock()
	t.observed = append(t.observed, o)
	n := len(t.observed)
	t.mu.Unlock()
	// Without a reader, no callback removes what is gone.
	if n >= 64 && n&(n-1) == 0 && t.reading.TryLock() {
		t.prune()
		t.reading.Unlock()
	}
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
		t.guard(func() { t.sessions[side(s.Internals(boundary.Caller{}).IsServer())].Add(context.Background(), 1) })
	}
}

// sessionClosed records a session that has ended, with the cause of its end.
func (t *Telemetry) sessionClosed(s *session.Session, cause error) {
	opened, ok := t.opened.LoadAndDelete(s)
	if !ok {
		return
	}
	t.guard(func() {
		end, ctx := side(s.Internals(boundary.Caller{}).IsServer()), context.Background()
		t.sessions[end].Add(ctx, -1)
		kind := sessionEnd{revision: s.Revision(), info: s.Info()}
		if cause != nil {
			kind.errorType, _ = classify(ctx, cause)
		}
		t.sessionDurations[end].Record(ctx, time.Since(opened.(time.Time)).Seconds(), t.sessionOptions(kind))
	})
}

// sessionEnd identifies sessions whose durations have the same attributes.
type sessionEnd struct {
	revision  mcp.Revision
	info      transport.Info
	errorType string
}

// sessionOptions returns the attributes of the duration of a session.
func (t *Telemetry) sessionOptions(kind sessionEnd) metric.MeasurementOption {
	add := func(kind sessionEnd) metric.MeasurementOption {
		attrs := connection(kind.revision, kind.info)
		if kind.errorType != "" {
			attrs = append(attrs, keyErrorType.String(kind.errorType))
		}
		return metric.WithAttributeSet(attribute.NewSet(attrs...))
	}
	options, ok := t.sessionEnds.get(kind, maxKinds, func() metric.MeasurementOption { return add(kind) })
	if !ok {
		options = add(sessionEnd{errorType: other})
	}
	return options
}
