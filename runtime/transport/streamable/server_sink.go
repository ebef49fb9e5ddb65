package streamable

import "net/http"

// eventOverhead is the memory of a pending event in addition to its text, in bytes.
const eventOverhead = 128

// sink is an HTTP connection to which the messages of a stream are written. Other goroutines add
// messages. The goroutine that serves the exchange takes and writes them. The mu of the outflow
// guards all fields but the first three.
type sink struct {
	stallWriter
	out  *outflow
	wake chan struct{} // buffers one; signals a change

	events []Event // pending events
	size   int     // of events, in bytes
	held   int     // bytes being written
	long   int     // of long answers, in bytes, until the exchange ends
	answer []byte  // an answer without a stream; nil if there is none
	over   bool    // no further events
	cut    bool    // the connection is to be closed, and its pending events were dropped
	hangUp bool    // the connection is to be closed, and the client to reconnect

	previous, next *sink // in the list of the outflow
}

// newSink returns a sink that is not yet in the list of its outflow.
func newSink(out *outflow, w http.ResponseWriter) *sink {
	k := new(sink)
	k.init(out, w, newWake())
	return k
}

func newWake() chan struct{} { return make(chan struct{}, 1) }

// init makes k a new sink.
func (k *sink) init(out *outflow, w http.ResponseWriter, wake chan struct{}) {
	k.stallWriter, k.out, k.wake = newStallWriter(w, out.stall, &out.progress), out, wake
}

// signal wakes the goroutine that serves the sink.
func (k *sink) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// close makes the connection close, so that the client reconnects.
func (k *sink) close() {
	k.out.mu.Lock()
	defer k.out.mu.Unlock()
	k.hangUp = true
	k.signal()
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
