package otel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// observeTasks makes the Manager of a configuration report its tasks. Known says that all tasks are
// calls of tools that exist.
func (t *Telemetry) observeTasks(cfg *task.Options, known bool) {
	cfg.Hooks.Observer = &observer{t, cfg.Hooks.Observer, known}
	next := cfg.Hooks.Audit
	cfg.Hooks.Audit = func(e task.Event) {
		t.guard(func() { t.audit(&e) })
		if next != nil {
			next(e)
		}
	}
}

// audit counts an event.
func (t *Telemetry) audit(e *task.Event) {
	ctx := context.Background()
	switch {
	case e.Kind == task.EventCreated:
		t.created.Add(ctx, 1)
	case e.Kind == task.EventMoved && task.Terminal(e.To):
		t.ended.Add(ctx, 1, metric.WithAttributes(keyStatus.String(string(e.To))))
	case e.Kind == task.EventExpired && !task.Terminal(e.To):
		t.ended.Add(ctx, 1, metric.WithAttributes(keyStatus.String("expired")))
	case e.Kind == task.EventRefused:
		class, _ := classify(ctx, task.WireError(e.Err))
		t.taskRefused.Add(ctx, 1, metric.WithAttributes(keyMethod.String(e.Method), keyErrorType.String(class)))
	}
}

// observer is the task.Observer of a Manager.
type observer struct {
	t     *Telemetry
	next  task.Observer // of the configuration; nil for none
	known bool          // see observeTasks
}

// traceparent is the name of the field whose value a record stores.
const traceparent = "traceparent"

// Trace implements [task.Observer]. It returns the traceparent of the span of ctx.
func (o *observer) Trace(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	text := carrier[traceparent]
	if text == "" && o.next != nil {
		return o.next.Trace(ctx)
	}
	return text
}

// Run implements [task.Observer].
func (o *observer) Run(ctx context.Context, r task.Record) (context.Context, func(codec.Encoder, error)) {
	end := func(codec.Encoder, error) {}
	if o.next != nil {
		derived, inner := o.next.Run(ctx, r)
		if derived != nil {
			ctx = derived
		}
		if inner != nil {
			end = inner
		}
	}
	t, begun := o.t, time.Now()
	method := r.Method
	if !protocolMethod(method) {
		method = other
	}
	name, attrs := spanRun, []attribute.KeyValue{keyMethod.String(method), keyTask.String(taskHash(r.ID)), keyReruns.Int(r.Reruns)}
	runs := t.runsOf(r.Name)
	if o.known && runs == &t.otherRuns {
		runs = t.addRuns(r.Name)
	}
	if runs.isNamed() {
		name += " " + runs.name
		attrs = append(attrs, keyTool.String(runs.name))
	}
	options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithAttributes(attrs...)}
	creator := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: r.Trace}))
	if creator.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: creator}))
	}
	derived, span := t.tracer.Start(ctx, name, options...)
	return derived, func(result codec.Encoder, err error) {
		defer end(result, err)
		out, word := ran(ctx, result, err)
		if runs == &t.otherRuns {
			if out.shows(word) && !o.known {
				runs = t.addRuns(r.Name)
			}
			if runs.isNamed() {
				span.SetName(spanRun + " " + runs.name)
			}
			span.SetAttributes(keyTool.String(runs.name))
		}
		if out.errorType != "" {
			fail(span, &out)
		}
		span.SetAttributes(keyOutcome.String(word))
		span.End()
		t.runDuration.Record(trace.ContextWithSpan(context.Background(), span), time.Since(begun).Seconds(), runs.options(runKind{method, word, out.errorType}))
	}
}

// toolRuns has the attributes of the runs of a tool.
type toolRuns struct {
	name  string // "" for none
	kinds copied[runKind, metric.MeasurementOption]
}

// isNamed reports whether spans have the name.
func (r *toolRuns) isNamed() bool { return r.name != "" && r.name != other }

// runKind identifies runs of a tool that have the same attributes.
type runKind struct{ method, outcome, errorType string }

// maxTools is the number of tools whose runs have a name in metrics, and maxToolName is the length
// of such a name in bytes.
const (
	maxTools    = 1000
	maxToolName = 256
)

// runsOf returns the runs of a tool. Runs of tools that are not known are counted together. In a
// server that embeds tasks, clients choose the names, so a tool becomes known when a run of it shows
// that it exists; see addRuns.
func (t *Telemetry) runsOf(name string) *toolRuns {
	if name == "" {
		return &t.namelessRuns
	}
	if all := t.tools.current.Load(); all != nil {
		if runs, ok := (*all)[name]; ok {
			return runs
		}
	}
	return &t.otherRuns
}

// addRuns makes a tool known, unless too many are known or the name is too long, and returns its
// runs.
func (t *Telemetry) addRuns(name string) *toolRuns {
	if len(name) <= maxToolName {
		if runs, ok := t.tools.get(name, maxTools, func() *toolRuns { return &toolRuns{name: name} }); ok {
			return runs
		}
	}
	return &t.otherRuns
}

// shows reports whether a run with the given outcome shows that its tool exists.
func (out *outcome) shows(word string) bool {
	switch word {
	case "completed", "parked":
		return true
	case "failed":
		return out.errorType != codeText(jsonrpc.CodeInvalidParams) && out.errorType != codeText(jsonrpc.CodeMethodNotFound)
	}
	return false
}

// options returns the attributes of runs.
func (t *toolRuns) options(k runKind) metric.MeasurementOption {
	add := func(k runKind) metric.MeasurementOption {
		attrs := []attribute.KeyValue{keyMethod.String(k.method), keyOutcome.String(k.outcome)}
		if t.name != "" {
			attrs = append(attrs, keyTool.String(t.name))
		}
		if k.errorType != "" {
			attrs = append(attrs, keyErrorType.String(k.errorType))
		}
		return metric.WithAttributeSet(attribute.NewSet(attrs...))
	}
	options, ok := t.kinds.get(k, maxFaults, func() metric.MeasurementOption { return add(k) })
	if !ok {
		k.errorType = other
		options = add(k)
	}
	return options
}

// taskHash returns what spans have in place of the id of a task. Without principals, the id is
// sufficient to read the result of the task.
func taskHash(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}

// ran returns the outcome of a run, and the value of mcpwire.task.outcome.
func ran(ctx context.Context, result codec.Encoder, err error) (out outcome, word string) {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		if out = received(result); out.errorType != "" {
			return out, "failed"
		}
		return out, "completed"
	case errors.Is(err, task.ErrParked):
		return out, "parked"
	case errors.Is(cause, task.ErrCancelled):
		return out, "cancelled"
	case errors.Is(cause, task.ErrExpired):
		return out, "expired"
	case errors.Is(cause, task.ErrClosed), errors.Is(cause, task.ErrFenced):
		return out, "interrupted" // it may run again elsewhere
	}
	failure := boundary.WireError(err)
	return outcome{fault: fault{errorType: codeText(failure.Code)}, message: failure.Message}, "failed"
}

// Wait implements [task.Observer].
func (o *observer) Wait(ctx context.Context, run *task.Run, method string) func(error) {
	end := func(error) {}
	if o.next != nil {
		if inner := o.next.Wait(ctx, run, method); inner != nil {
			end = inner
		}
	}
	_, span := o.t.tracer.Start(ctx, spanWait+" "+method, trace.WithAttributes(keyMethod.String(method), keyTask.String(taskHash(run.ID()))))
	return func(err error) {
		defer end(err)
		endSpan(ctx, span, err)
	}
}

// step is the middleware of steps.
func (t *Telemetry) step(ctx context.Context, c *server.Call, name string, next func(context.Context) error) (err error) {
	derived, span := ctx, trace.Span(nil)
	t.guard(func() {
		attrs := []attribute.KeyValue{keyStep.String(name)}
		if run, ok := c.Task(); ok {
			attrs = append(attrs, keyTask.String(taskHash(run.ID())))
		}
		derived, span = t.tracer.Start(ctx, spanStep, trace.WithAttributes(attrs...))
	})
	if span == nil {
		return next(ctx)
	}
	err = errPanicked // unless next returns
	defer func() { t.guard(func() { endSpan(ctx, span, err) }) }()
	err = next(derived)
	return err
}

// endSpan ends a span with an error, which may be nil. Parked work has not failed.
func endSpan(ctx context.Context, span trace.Span, err error) {
	if err != nil && !errors.Is(err, task.ErrParked) {
		out := outcome{message: boundary.ErrorText(err)}
		out.errorType, _ = classify(ctx, err)
		fail(span, &out)
	}
	span.End()
}
