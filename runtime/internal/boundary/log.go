package boundary

import (
	"context"
	"log/slog"
)

// Logger returns log with a handler that cannot panic. If log is nil, it returns a Logger that
// passes warnings and errors to [slog.Default] and discards the rest.
func Logger(log *slog.Logger) *slog.Logger {
	if log == nil {
		return fallback
	}
	if _, ok := log.Handler().(*handler); ok {
		return log
	}
	return slog.New(&handler{handler: log.Handler()})
}

// fallback is the Logger that is used if none is set.
var fallback = slog.New(&handler{warnings: true})

// handler is a slog.Handler that recovers the panics of another one.
type handler struct {
	handler  slog.Handler // nil for the handler of slog.Default at the time of the record
	warnings bool         // discard records below slog.LevelWarn
}

func (h *handler) target() slog.Handler {
	if h.handler == nil {
		return slog.Default().Handler()
	}
	return h.handler
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() { _ = recover() }()
	return (!h.warnings || level >= slog.LevelWarn) && h.target().Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) (err error) {
	defer Catch(&err)
	return h.target().Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(target slog.Handler) slog.Handler { return target.WithAttrs(attrs) })
}

func (h *handler) WithGroup(name string) slog.Handler {
	return h.with(func(target slog.Handler) slog.Handler { return target.WithGroup(name) })
}

func (h *handler) with(change func(slog.Handler) slog.Handler) (changed slog.Handler) {
	defer func() {
		if recover() != nil {
			changed = h
		}
	}()
	return &handler{change(h.target()), h.warnings}
}
