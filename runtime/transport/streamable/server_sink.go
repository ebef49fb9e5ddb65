package streamable

import (
	"net/http"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// eventOverhead is the memory of a pending event in addition to its text, in bytes.
const eventOverhead = 128

// sink is an HTTP connection to which the messages of a stream are written. Other goroutines add
// messages. The goroutine that serves the exchange takes and writes them. The mu of the outflow
// guards all fields but the first four.
type sink struct {
	out  *outflow
	wake chan struct{} // buffers one; signals a change
	w    http.ResponseWriter
	conn *http.ResponseController // of w

	events []Event // pending events
	size   int     // of events, in bytes
	held   int     // bytes being written
	answer []byte  // an answer without a stream; nil if there is none
	over   bool    // no further events
	cut    bool    // the connection is to be closed, and its pending events were dropped
	hangUp bool    // the connection is to be closed, and the client to reconnect

	previous, next *sink // in the list of the outflow
}

// newSink returns a sink that is not yet in the list of its outflow.
func newSink(out *outflow, w http.ResponseWriter) *sink {
	return &sink{out: out, wake: make(chan struct{}, 1), w: w, conn: http.NewResponseController(w)}
}

// signal wakes the goroutine that serves the sink.
func (k *sink) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// sinkState says whether a connection stays open when no events are pending.
type sinkState uint8

const (
	sinkOpen sinkState = iota
	sinkOver
	sinkHangUp
)

// take returns the pending events. The sink holds them until they are written.
func (k *sink) take() ([]Event, sinkState) {
	k.out.mu.Lock()
	defer k.out.mu.Unlock()
	events := k.events
	k.events = nil
	k.held += k.size
	k.size = 0
	switch {
	case k.over || k.cut:
		return events, sinkOver
	case k.hangUp:
		return events, sinkHangUp
	}
	return events, sinkOpen
}

// reply returns the kind of response that the pending messages need, and the answer if that is
// JSON. It returns replyNothing if nothing is pending.
func (k *sink) reply() (answer []byte, how reply) {
	k.out.mu.Lock()
	defer k.out.mu.Unlock()
	switch {
	case k.answer != nil:
		return k.answer, replyJSON
	case k.over || k.cut || len(k.events) > 0 || k.hangUp:
		return nil, replyStream
	}
	return nil, replyNothing
}

// writeJSON answers with a message. It flushes the answer: otherwise a client that does not read
// could block the goroutine after the deadline is removed.
func (k *sink) writeJSON(text []byte) {
	guard.BeginJSON(k.w, http.StatusOK, text)
	k.write(text) // fails if the client has disconnected or does not read
}

// write writes texts and flushes them. It fails if the client accepts no data for the stall timeout.
// There is no limit for the total time, because a large message may be sent over a slow connection.
// After interrupt it fails at once.
func (k *sink) write(texts ...[]byte) (err error) {
	// The deadline must not end an idle stream or a later exchange.
	defer k.conn.SetWriteDeadline(time.Time{})
	k.limitWrite()
	for _, text := range texts {
		for len(text) > maxBuffer {
			if _, err := k.w.Write(text[:maxBuffer]); err != nil {
				return err
			}
			text = text[maxBuffer:]
			k.out.moved.Add(1)
			k.limitWrite()
		}
		if _, err := k.w.Write(text); err != nil {
			return err
		}
	}
	if err := k.conn.Flush(); err != nil {
		return err
	}
	k.out.moved.Add(1)
	return nil
}

// limitWrite sets the deadline of the next write.
func (k *sink) limitWrite() {
	k.conn.SetWriteDeadline(time.Now().Add(k.out.stall))
	// Checked after the deadline is set, because that may have replaced the deadline of interrupt.
	if k.out.interrupted.Load() {
		k.conn.SetWriteDeadline(time.Now())
	}
}
