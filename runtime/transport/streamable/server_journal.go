package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// journal persists one session: its events, its streams, how it was opened, and the state of its
// owner. It logs the errors of the store. Nothing is persisted after the connection has ended,
// because that would store a deleted session again: mu ensures it for the opening, the state and
// beginStanding, and the caller ensures it for events and the beginnings of other streams.
type journal struct {
	h       *Handler
	o       *HandlerOptions
	id      string
	account string          // for which the session counts
	done    <-chan struct{} // closed when the connection has ended

	mu       sync.Mutex // see lock
	restored []byte     // the state that was persisted earlier; nil after takeState
	opened   bool       // the opening is persisted
	first    []byte     // the state of a session before its opening; nil without one
}

// sessions returns the store, if it stores sessions.
func (j *journal) sessions() (store SessionStore, ok bool) {
	store, ok = j.o.Sessions.Store.(SessionStore)
	return store, ok && j.id != ""
}

// append persists an event. answers is the id of the request that it answers, or zero. The caller
// appends the events of a stream one after another.
func (j *journal) append(ctx context.Context, stream string, e Event, answers jsonrpc.ID) error {
	if j.o.Sessions.Store == nil {
		return nil
	}
	ctx = j.h.storing(ctx, j.account)
	err := j.o.Sessions.Store.Append(ctx, j.id, stream, e)
	if err == nil {
		return nil
	}
	j.o.Logger.Error("event not persisted", logged(j.id), "stream", stream, "bytes", len(e.Text), "error", err)
	if !answers.IsZero() && !errors.Is(err, ErrNotHeld) { // for a client that resumes the stream to receive the answer
		lost := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the answer is lost: the server could not store it"}
		if text, err := errorResponse(answers, lost); err == nil {
			e.Text = text
			// If that fails, too, resuming the stream fails with status 400.
			j.o.Sessions.Store.Append(ctx, j.id, stream, e)
		}
	}
	return err
}

// begin persists that a stream was opened for requests.
func (j *journal) begin(ctx context.Context, stream string, requests []incoming) {
	if store, ok := j.sessions(); ok {
		if err := store.Begin(j.h.storing(ctx, j.account), j.id, stream, encodeIDs(requests)); err != nil {
			j.o.Logger.Error("stream not persisted", logged(j.id), "stream", stream, "error", err)
		}
	}
}

// beginStanding persists that a connection has taken an event of the standing stream.
func (j *journal) beginStanding() {
	if j.lock() {
		defer j.mu.Unlock()
		j.begin(context.Background(), standing, nil)
	}
}

// interrupt answers the requests of a stream of an earlier process with errors, because their
// handlers ended with the process. It ignores the standing stream and streams that have ended.
func (j *journal) interrupt(ctx context.Context, stream PersistedStream) {
	if stream.Stream == standing || stream.Last.Last || stream.Requests == nil {
		return
	}
	ids, err := decodeIDs(stream.Requests)
	if err != nil {
		j.o.Logger.Error("stream not restored", logged(j.id), "stream", stream.Stream, "error", err)
		return
	}
	for i, id := range ids {
		text, err := errorResponse(id, &jsonrpc.Error{Code: engine.CodeClosing, Message: "the server was restarted while it served the request"})
		if err != nil {
			return // not reached: the id was decoded
		}
		e := Event{Number: stream.Last.Number + uint64(i) + 1, Text: text, Last: i == len(ids)-1}
		j.append(ctx, stream.Stream, e, jsonrpc.ID{})
	}
}

// open persists how the session was opened, and its state.
func (j *journal) open(ctx context.Context, o Opening) {
	store, ok := j.sessions()
	if !ok || !j.lock() {
		return
	}
	defer j.mu.Unlock()
	o.State = j.first
	j.opened, j.first = true, nil
	if err := store.PersistOpening(j.h.storing(ctx, j.account), j.id, o); err != nil {
		j.o.Logger.Error("session not persisted", logged(j.id), "error", err)
	}
}

// persistState is [transport.Persister.PersistState]. A state before the opening is persisted
// with it, in one write.
func (j *journal) persistState(ctx context.Context, state []byte) error {
	store, ok := j.sessions()
	switch {
	case !ok:
		return fmt.Errorf("streamable: session is not stored: %w", errors.ErrUnsupported)
	case len(state) > j.o.Limits.State:
		return fmt.Errorf("streamable: %d bytes of state: %w", len(state), transport.ErrTooLong)
	}
	if !j.lock() {
		return transport.ErrClosed
	}
	defer j.mu.Unlock()
	if !j.opened {
		j.first = state
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(j.h.stores, cancel)()
	return store.PersistState(ctx, j.id, state)
}

// takeState is [transport.Persister.PersistedState].
func (j *journal) takeState() (state []byte, ok bool) {
	_, ok = j.sessions()
	j.mu.Lock()
	defer j.mu.Unlock()
	state, j.restored = j.restored, nil
	return state, ok
}

// lock acquires mu. It returns false, without mu, if the connection has ended.
func (j *journal) lock() (ok bool) {
	j.mu.Lock()
	select {
	case <-j.done:
		j.mu.Unlock()
		return false
	default:
		return true
	}
}

// settle waits until nothing is being persisted under mu. After done is closed, nothing will be.
func (j *journal) settle() {
	j.mu.Lock()
	defer j.mu.Unlock()
}

// hasRest reports whether the store has the rest of a stream that has ended: events after the given
// one, or that event itself if it is the last one. Without its end, the client would resume the
// stream again and again.
func (j *journal) hasRest(ctx context.Context, stream string, after uint64) (bool, error) {
	events, err := j.o.Sessions.Store.Events(ctx, j.id, stream, after)
	if err != nil || len(events) > 0 || after == 0 {
		return len(events) > 0, err
	}
	events, err = j.o.Sessions.Store.Events(ctx, j.id, stream, after-1)
	return len(events) > 0 && events[0].Last, err
}

// forget deletes the session from the store.
func (j *journal) forget(ctx context.Context) error {
	return j.o.Sessions.Store.Forget(j.h.storing(ctx, j.account), j.id)
}

// errorResponse returns the text of an error response.
func errorResponse(id jsonrpc.ID, e *jsonrpc.Error) ([]byte, error) {
	m := jsonrpc.NewErrorResponse(id, e)
	return codec.Marshal(&m)
}

// encodeIDs encodes the ids of requests as a JSON array.
func encodeIDs(requests []incoming) []byte {
	text := []byte{'['}
	for i := range requests {
		if i > 0 {
			text = append(text, ',')
		}
		if one, err := codec.Marshal(requests[i].id); err == nil { // always: the id was decoded
			text = append(text, one...)
		}
	}
	return append(text, ']')
}

// decodeIDs is the inverse of encodeIDs.
func decodeIDs(text []byte) (ids []jsonrpc.ID, err error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	for _, one := range raw {
		var id jsonrpc.ID
		if err := codec.Unmarshal(one, &id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}
