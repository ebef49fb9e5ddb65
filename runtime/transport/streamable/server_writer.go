package streamable

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// progress is the progress of writes to one or more connections.
type progress struct {
	moved       atomic.Uint64 // number of partial writes
	interrupted atomic.Bool   // writes fail
}

// stallWriter writes to an HTTP connection that may accept no data.
type stallWriter struct {
	w        http.ResponseWriter
	conn     http.ResponseController // of w
	stall    time.Duration           // the stall timeout
	progress *progress
	length   [1]string // Content-Length of an answer; part of this object to save an allocation
}

func newStallWriter(w http.ResponseWriter, stall time.Duration, p *progress) stallWriter {
	return stallWriter{w: w, conn: *http.NewResponseController(w), stall: stall, progress: p}
}

// writeJSON answers with a message. It flushes the answer: otherwise a client that does not read
// could block the goroutine after the deadline is removed.
func (k *stallWriter) writeJSON(status int, text []byte) error {
	guard.BeginJSON(k.w, status, text, &k.length)
	return k.write(text)
}

// beginStream writes the header of an event stream.
func (k *stallWriter) beginStream() {
	header := k.w.Header()
	header["Content-Type"] = []string{"text/event-stream"}
	header["Cache-Control"] = []string{"no-cache, no-transform"}
	header["X-Accel-Buffering"] = []string{"no"} // some proxies would buffer events
	k.w.WriteHeader(http.StatusOK)
}

// write writes texts and flushes them. It fails if the client accepts no data for the stall
// timeout. There is no limit for the total time, because a large message may be sent over a slow
// connection. After interrupt it fails at once.
func (k *stallWriter) write(texts ...[]byte) (err error) {
	// The deadline must not end an idle stream or a later exchange.
	defer k.conn.SetWriteDeadline(time.Time{})
	k.limitWrite()
	for _, text := range texts {
		for len(text) > maxBuffer {
			if _, err := k.w.Write(text[:maxBuffer]); err != nil {
				return err
			}
			text = text[maxBuffer:]
			k.progress.moved.Add(1)
			k.limitWrite()
		}
		if _, err := k.w.Write(text); err != nil {
			return err
		}
	}
	if err := k.conn.Flush(); err != nil {
		return err
	}
	k.progress.moved.Add(1)
	return nil
}

// limitWrite sets the deadline of the next write.
func (k *stallWriter) limitWrite() {
	k.conn.SetWriteDeadline(time.Now().Add(k.stall))
	// Checked after the deadline is set, because that may have replaced the deadline of interrupt.
	if k.progress.interrupted.Load() {
		k.conn.SetWriteDeadline(time.Now())
	}
}
