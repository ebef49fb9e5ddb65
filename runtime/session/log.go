package session

import (
	"log/slog"
	"sync"
	"time"
)

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
