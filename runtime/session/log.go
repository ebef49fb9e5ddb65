package session

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
)

// LogReceived returns middleware that logs each received message after it was handled: method, id,
// duration, and the error if there was one. Params and results are not logged.
func LogReceived(log *slog.Logger, level slog.Level) Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, req *Request) (codec.Encoder, error) {
			if !log.Enabled(ctx, level) {
				return next(ctx, req)
			}
			start := time.Now()
			result, err := next(ctx, req)
			record(ctx, log, level, "received", req.Method, req.ID.String(), start, err)
			return result, err
		}
	}
}

// LogSent returns middleware that logs each sent message after it was answered or, if it is a
// notification, accepted by the transport. The attributes are those of [LogReceived], except the
// id.
func LogSent(log *slog.Logger, level slog.Level) SendMiddleware {
	return func(next Sender) Sender {
		return func(ctx context.Context, call *Call) (json.RawMessage, error) {
			if !log.Enabled(ctx, level) {
				return next(ctx, call)
			}
			start := time.Now()
			result, err := next(ctx, call)
			record(ctx, log, level, "sent", call.Method, "", start, err)
			return result, err
		}
	}
}

// maxWarnings is how many events caused by messages of the peer are logged per second.
const maxWarnings = 10

// warnings logs events caused by messages of the peer, up to maxWarnings per second. It is safe for
// concurrent use.
type warnings struct {
	log *slog.Logger

	mu      sync.Mutex
	begun   time.Time // start of the current second
	used    int
	skipped int // events not logged since the last logged one
}

// warn logs an event, or counts it if maxWarnings is reached.
func (w *warnings) warn(event string, attrs ...any) {
	w.mu.Lock()
	if now := time.Now(); now.Sub(w.begun) >= time.Second {
		w.begun, w.used = now, 0
	}
	if w.used++; w.used > maxWarnings {
		w.skipped++
		w.mu.Unlock()
		return
	}
	skipped := w.skipped
	w.skipped = 0
	w.mu.Unlock()
	if skipped > 0 {
		attrs = append(attrs, "skipped", skipped)
	}
	w.log.Warn(event, attrs...)
}

func record(ctx context.Context, log *slog.Logger, level slog.Level, what, method, id string, start time.Time, err error) {
	attrs := []slog.Attr{slog.String("method", method), slog.Duration("took", time.Since(start))}
	if id != "" {
		attrs = append(attrs, slog.String("id", id))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	log.LogAttrs(ctx, level, what, attrs...)
}
