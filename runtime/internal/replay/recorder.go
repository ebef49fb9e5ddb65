package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// Kind is the kind of a recorded result.
type Kind byte

// The kinds of recorded results. The numbers are part of encoded states.
const (
	KindInput Kind = 1 // the response to an input request
	KindStep  Kind = 2 // the outcome of a step
	KindSleep Kind = 3 // the time at which a sleep ends
)

// ID identifies a recorded result among those of one call.
type ID struct {
	Kind Kind
	Key  string // see [InputKey] for input requests; the name of a step or of a sleep
	// Occurrence is 1 for the first result with the kind and the key in a run, 2 for the second. It
	// is 0 for all transient input requests.
	Occurrence int
}

// Entry is a recorded result.
type Entry struct {
	ID
	Label  string          // describes an input request in errors; "" for a step
	Result json.RawMessage // the response, the result of the step, or its failure
	Failed bool            // the step failed, or the response is a [jsonrpc.Error]
}

// transient reports whether the entry belongs to a transient [Request].
func (e *Entry) transient() bool { return e.Kind == KindInput && e.Occurrence == 0 }

// String names the entry in errors.
func (e *Entry) String() string {
	switch e.Kind {
	case KindStep:
		return fmt.Sprintf("step %q (occurrence %d)", e.Key, e.Occurrence)
	case KindSleep:
		return fmt.Sprintf("sleep %q (occurrence %d)", e.Key, e.Occurrence)
	}
	return fmt.Sprintf("%s (occurrence %d)", e.Label, e.Occurrence)
}

// Request is an input request.
type Request struct {
	Method string
	Params json.RawMessage // nil for none
	// Transient marks a request whose response is for the next run alone. Later runs may make the
	// request again, or not.
	Transient bool
	// Prepare is called if the request has no recorded response. It returns a value for the Backend
	// and a label that describes the request in errors. Its error is that of [Recorder.Input]. It
	// may be nil.
	Prepare func() (value any, label string, err error)
}

// Backend obtains responses to input requests, and records new results. It is safe for concurrent
// use.
type Backend interface {
	// Input returns the response to an input request, or ErrSuspended if the handler must be run
	// again for it. The name of the request is not set.
	Input(ctx context.Context, asked *Asked, value any) (json.RawMessage, error)
	// Record records a result before the handler gets it.
	Record(ctx context.Context, e Entry) error
}

var (
	// ErrSuspended ends a run: the handler returns it, and is run again later.
	ErrSuspended = errors.New("replay: suspended until the input request has a response")
	// ErrEnded is returned after [Recorder.End].
	ErrEnded = errors.New("replay: the handler has returned")
)

// DuplicateError reports that two steps, or two sleeps, of one name ran at the same time.
type DuplicateError struct {
	Kind Kind
	Name string
}

func (e *DuplicateError) Error() string {
	what := "step"
	if e.Kind == KindSleep {
		what = "sleep"
	}
	return fmt.Sprintf("%s %q is running already: %ss that run at the same time need different names", what, e.Name, what)
}

// NondeterminismError reports that a run did not ask for a recorded result, and asked for something
// that no earlier run asked for instead.
type NondeterminismError struct {
	Recorded string // the recorded result that was not asked for
	New      string // what was asked for instead
}

func (e *NondeterminismError) Error() string {
	return fmt.Sprintf("handler is not deterministic: an earlier run asked for %s, this run asked for %s instead", e.Recorded, e.New)
}

// Recorder serves one run of a handler. Its methods are safe for concurrent use.
type Recorder struct {
	backend Backend

	mu        sync.Mutex
	recorded  []recorded // in the order in which they were recorded
	index     map[ID]int // in recorded; nil for few
	last      []ID       // the last occurrence of each kind and key in this run
	lastIndex map[ID]int // in last, of IDs with Occurrence 0; nil for few
	pending   []Asked    // without a response in the last round
	// firstUnused is the index in recorded below which all are used or transient.
	firstUnused  int
	fresh        *Entry              // the first one that this run asked for without a recorded result
	running      map[ID]struct{}     // without occurrences
	sleeping     map[string]struct{} // names of the sleeps that wait
	keepStepping bool                // see KeepStepping
	suspended    bool
	ended        bool
	closed       bool          // End waits no longer for steps
	recording    int32         // number of results that are being recorded
	suspension   chan struct{} // closed when suspended is set; nil until it is used
	idle         chan struct{} // closed when ended and no step is running; nil if none was running
	flushed      chan struct{} // closed when closed and recording is 0; nil if it was 0
	fault        error
}

type recorded struct {
	Entry
	used bool
}

// few is how many IDs are searched one by one.
const few = 16

// New returns a Recorder for a run with the results of earlier runs, and the input requests of the
// last run that have no response yet. Without a backend, it records nothing.
func New(backend Backend, earlier []Entry, pending []Asked) *Recorder {
	r := &Recorder{backend: backend, pending: pending}
	if len(earlier) == 0 {
		return r
	}
	r.recorded = make([]recorded, len(earlier))
	for i, e := range earlier {
		r.recorded[i].Entry = e
	}
	if len(earlier) > few {
		r.index = make(map[ID]int, len(earlier))
		for i, e := range earlier {
			r.index[e.ID] = i
		}
	}
	return r
}

// Input returns the response to an input request: the recorded one or, without one, that of
// the Backend.
func (r *Recorder) Input(ctx context.Context, request *Request) (json.RawMessage, error) {
	id := ID{Kind: KindInput, Key: InputKey(request.Method, request.Params)}
	r.mu.Lock()
	if !request.Transient {
		id.Occurrence = r.occurrence(id)
	}
	if found := r.find(id); found != nil {
		if request.Transient {
			found.Key = "" // consumed
		}
		r.mu.Unlock()
		if found.Failed {
			return nil, decodeError(found.Result)
		}
		return found.Result, nil
	}
	ended := r.ended
	r.mu.Unlock()
	if ended {
		return nil, ErrEnded
	}
	asked := &Asked{ID: id, Label: request.Method, Method: request.Method, Params: request.Params}
	var value any
	if request.Prepare != nil {
		var err error
		if value, asked.Label, err = request.Prepare(); err != nil {
			return nil, err
		}
	}
	e := asked.Entry(nil)
	if !slices.ContainsFunc(r.pending, func(a Asked) bool { return a.ID == id }) {
		r.mu.Lock()
		r.asked(&e)
		r.mu.Unlock()
	}
	answer, err := r.backend.Input(ctx, asked, value)
	if err == nil {
		e.Result = answer
		err = r.backend.Record(ctx, e)
	}
	if errors.Is(err, ErrSuspended) {
		r.Suspend()
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// decodeError decodes the error response to an input request.
func decodeError(text json.RawMessage) error {
	e := new(jsonrpc.Error)
	if err := codec.Unmarshal(text, e, codec.AllowSize(text)...); err != nil {
		return fmt.Errorf("replay: damaged response: %w", err)
	}
	return e
}

// Suspend makes steps that have not begun fail with [ErrSuspended].
func (r *Recorder) Suspend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.suspension != nil && !r.suspended {
		close(r.suspension)
	}
	r.suspended = true
}

// Suspension returns a channel that is closed when the run is suspended.
func (r *Recorder) Suspension() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.suspension == nil {
		r.suspension = make(chan struct{})
		if r.suspended {
			close(r.suspension)
		}
	}
	return r.suspension
}

// KeepStepping lets steps begin after the run was suspended, because their results are not lost.
func (r *Recorder) KeepStepping() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keepStepping = true
}

// Suspended reports whether the run was suspended: it ends, and the handler is run again.
func (r *Recorder) Suspended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.suspended
}

// Replaying reports whether the run has asked for recorded results only, and some of them remain.
// An earlier run then did the same.
func (r *Recorder) Replaying() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fresh == nil && r.unused() != nil
}

// unused returns the first recorded result that the run has not asked for, or nil. The caller must
// hold mu.
func (r *Recorder) unused() *recorded {
	for ; r.firstUnused < len(r.recorded); r.firstUnused++ {
		if e := &r.recorded[r.firstUnused]; !e.used && !e.transient() {
			return e
		}
	}
	return nil
}

// Outcome is the outcome of a step.
type Outcome struct {
	Result json.RawMessage // or the failure
	Failed bool
}

// Step returns the outcome of a step: the recorded one or, without one, that of run, which it
// records. The occurrence of the step is passed to run. An error of run is returned and not
// recorded.
func (r *Recorder) Step(ctx context.Context, name string, run func(occurrence int) (Outcome, error)) (Outcome, error) {
	return r.once(ctx, ID{Kind: KindStep, Key: name}, run)
}

// Sleep calls wait with the time at which a sleep ends: the recorded one or, without one, that of
// begin, which it records. It returns the error of wait.
func (r *Recorder) Sleep(ctx context.Context, name string, begin func() time.Time, wait func(until time.Time) error) error {
	if err := r.beginSleep(name); err != nil {
		return err
	}
	defer r.endSleep(name)
	out, err := r.once(ctx, ID{Kind: KindSleep, Key: name}, func(int) (Outcome, error) {
		return Outcome{Result: strconv.AppendInt(nil, begin().UnixMicro(), 10)}, nil
	})
	if err != nil {
		return err
	}
	micro, err := strconv.ParseInt(string(out.Result), 10, 64)
	if err != nil {
		return err
	}
	return wait(time.UnixMicro(micro))
}

// beginSleep fails if a sleep of the same name waits. Sleeps are not in running, because
// [Recorder.End] does not wait for them.
func (r *Recorder) beginSleep(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, sleeping := r.sleeping[name]; sleeping {
		fault := &DuplicateError{KindSleep, name}
		r.fault = fault
		return fault
	}
	if r.sleeping == nil {
		r.sleeping = map[string]struct{}{}
	}
	r.sleeping[name] = struct{}{}
	return nil
}

func (r *Recorder) endSleep(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sleeping, name)
}

// once is [Recorder.Step] for a result of any kind but KindInput.
func (r *Recorder) once(ctx context.Context, id ID, run func(occurrence int) (Outcome, error)) (Outcome, error) {
	kind := id // without the occurrence
	r.mu.Lock()
	if _, running := r.running[kind]; running {
		fault := &DuplicateError{id.Kind, id.Key}
		r.fault = fault
		r.mu.Unlock()
		return Outcome{}, fault
	}
	id.Occurrence = r.occurrence(id)
	if found := r.find(id); found != nil {
		r.mu.Unlock()
		return Outcome{found.Result, found.Failed}, nil
	}
	var err error
	switch {
	case r.ended:
		err = ErrEnded
	case r.suspended && !r.keepStepping:
		err = ErrSuspended
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	if err != nil {
		r.mu.Unlock()
		return Outcome{}, err
	}
	e := Entry{ID: id}
	r.asked(&e)
	if r.running == nil {
		r.running = map[ID]struct{}{}
	}
	r.running[kind] = struct{}{}
	r.mu.Unlock()
	defer r.finished(kind) // even if run panics
	out, err := run(id.Occurrence)
	if err == nil && r.backend != nil {
		e.Result, e.Failed = out.Result, out.Failed
		err = r.record(ctx, e)
	}
	if err != nil {
		return Outcome{}, err
	}
	return out, nil
}

// record records a result, unless the run has ended: the next run may have recorded the same result
// with another value by now.
func (r *Recorder) record(ctx context.Context, e Entry) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrEnded
	}
	r.recording++
	r.mu.Unlock()
	defer r.endRecord() // even if Record panics
	return r.backend.Record(ctx, e)
}

func (r *Recorder) endRecord() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recording--; r.recording == 0 && r.flushed != nil {
		close(r.flushed)
	}
}

// occurrence returns the occurrence of the next result with the kind and the key of id. The caller
// must hold mu.
func (r *Recorder) occurrence(id ID) int {
	i, known := r.lastIndex[id]
	if r.lastIndex == nil {
		i = slices.IndexFunc(r.last, func(other ID) bool { return other.Kind == id.Kind && other.Key == id.Key })
		known = i >= 0
	}
	if !known {
		i = len(r.last)
		r.last = append(r.last, id)
		if len(r.last) > few {
			if r.lastIndex == nil {
				r.lastIndex = map[ID]int{}
				for i, other := range r.last {
					r.lastIndex[ID{Kind: other.Kind, Key: other.Key}] = i
				}
			}
			r.lastIndex[id] = i
		}
	}
	r.last[i].Occurrence++
	return r.last[i].Occurrence
}

// find returns a recorded result, or nil. The caller must hold mu.
func (r *Recorder) find(id ID) *recorded {
	i, known := r.index[id]
	if r.index == nil {
		i = slices.IndexFunc(r.recorded, func(e recorded) bool { return e.ID == id })
		known = i >= 0
	}
	if !known || r.recorded[i].ID != id {
		return nil
	}
	r.recorded[i].used = true
	return &r.recorded[i]
}

// asked sets fresh to the first request or step without a recorded result. The caller must hold mu.
func (r *Recorder) asked(e *Entry) {
	if r.fresh == nil {
		first := *e
		r.fresh = &first
	}
}

func (r *Recorder) finished(kind ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, kind)
	if r.idle != nil && len(r.running) == 0 {
		close(r.idle)
		r.idle = nil
	}
}

// close refuses to record more results, and waits until those that are being recorded are stored.
func (r *Recorder) close() {
	r.mu.Lock()
	r.closed = true
	if r.recording > 0 {
		r.flushed = make(chan struct{})
	}
	flushed := r.flushed
	r.mu.Unlock()
	if flushed != nil {
		<-flushed
	}
}

// End ends the run after the handler has returned. If the run was suspended, End waits for steps
// that are still running, until ctx ends. When End has returned, no result is recorded any more.
func (r *Recorder) End(ctx context.Context) error {
	defer r.close()
	r.mu.Lock()
	r.ended = true
	idle := r.idle
	if idle == nil && r.suspended && len(r.running) > 0 {
		idle = make(chan struct{})
		r.idle = idle
	}
	r.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault != nil || r.fresh == nil {
		return r.fault
	}
	if e := r.unused(); e != nil {
		return &NondeterminismError{e.String(), r.fresh.String()}
	}
	return nil
}
