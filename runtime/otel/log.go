package otel

import (
	"context"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/trace"
)

// LogHandler returns a handler that adds the attributes trace_id and span_id of the context's span
// to each record, outside of the groups of the logger, and passes it to h. Records without a span
// stay as they are. Log with a context, as [slog.InfoContext] does, to find the log lines of a
// call.
func LogHandler(h slog.Handler) slog.Handler { return &logHandler{Handler: h} }

// logHandler applies the groups of its logger itself, in Handle, so that the ids are members of the
// record and not of the innermost group.
type logHandler struct {
	slog.Handler         // without the open groups
	groups       []group // open, the outermost first
}

// group is an open group of a logger.
type group struct {
	name  string
	attrs []slog.Attr
}

// Handle implements [slog.Handler].
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	if len(h.groups) > 0 {
		inner := make([]slog.Attr, 0, r.NumAttrs())
		r.Attrs(func(a slog.Attr) bool { inner = append(inner, a); return true })
		for _, g := range slices.Backward(h.groups) {
			inner = []slog.Attr{{Key: g.name, Value: slog.GroupValue(append(slices.Clip(g.attrs), inner...)...)}}
		}
		r = slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
		r.AddAttrs(inner...)
	}
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", c.TraceID().String()), slog.String("span_id", c.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(h.groups) == 0 {
		return &logHandler{Handler: h.Handler.WithAttrs(attrs)}
	}
	groups := slices.Clone(h.groups)
	last := &groups[len(groups)-1]
	last.attrs = append(slices.Clip(last.attrs), attrs...)
	return &logHandler{h.Handler, groups}
}

// WithGroup implements [slog.Handler].
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &logHandler{h.Handler, append(slices.Clip(h.groups), group{name: name})}
}
