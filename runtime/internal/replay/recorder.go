package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// Kind is the kind of a recorded result.
type Kind byte

// The kinds of recorded results. The numbers are part of encoded states.
const (
	KindInput Kind = 1 // the response to an input request
	KindStep  Kind = 2 // the outcome of a step
)

// ID identifies a recorded result among those of one call.
type ID struct {
	Kind Kind
	Key  string // see [InputKey] for input requests; the name of a step
	// Occurrence is 1 for the first result with the kind and the key in a run, 2 for the second. It
	// is 0 for all transient input requests.
	Occurrence int
}

// Entry is a recorded result.
type Entry struct {
	ID
	Label  string          // describes an input request in errors; "" for a step
	Result json.RawMessage // the response, the result of the step, or its failure
	Failed bool            // the step failed
}

// transient reports whether the entry belongs to a transient [Request].
func (e *Entry) transient() bool { return e.Kind == KindInput && e.Occurrence == 0 }

// String names the entry in errors.
func (e *Entry) String() string {
	if e.Kind == KindStep {
		return fmt.Sprintf("step %q (occurrence %d)", e.Key, e.Occurrence)
	}
	return fmt.Sprintf("%s (occurrence %d)", e.Label, e.Occurrence)
}

// Request is an input request.
type Request struct {
	Method string
	Params json.RawMessage // nil for none
	Label  string          // describes the request in errors
	// Transient marks a request whose response is for the next run alone. The run after that makes
	// the request again if it still needs to, and may as well not.
	Transient bool
	// Value is for the Backend.
	Value any
}

// Backend obtains what is not recorded. It is safe for concurrent use.
type Backend interface {
	// Input returns the response to an input request, or ErrSuspended if the handler must be run
	// again for it.
	Input(ctx context.Context, id ID, request *Request) (json.RawMessage, error)
	// Record records a result before the handler gets it.
	Record(ctx context.Context, e Entry) error
}

var (
	// ErrSuspended ends a run: the handler returns it, and is run again later.
	ErrSuspended = errors.New("replay: suspended until the input request has a response")
	// ErrEnded is returned after [Recorder.End].
	ErrEnded = errors.New("replay: the handler has returned")
)

// DuplicateError reports that two steps of one name ran at the same time.
type DuplicateError struct{ Step string }

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("step %q is running already: steps that run at the same time need different names", e.Step)
}

// NondeterminismError reports that a run did not ask for a recorded result, and asked for something
// new instead.
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
	recorded  map[ID]*recorded
	order     []*recorded // in the order in which they were recorded
	last      map[ID]int  // the last occurrence in this run; the Occurrence of keys is 0
	fresh     *Entry      // the first one that this run asked for without a recorded result
	running   map[string]struct{}
	suspended bool
	ended     bool
	idle      chan struct{} // closed when ended and no step is running; nil if none was running
	fault     error
}

type recorded struct {
	Entry
	used bool
}

// New returns a Recorder for a run with the results of earlier runs. Without a backend, it records
// nothing.
func New(backend Backend, earlier []Entry) *Recorder {
	r := &Recorder{backend: backend}
	if len(earlier) > 0 {
		r.recorded = make(map[ID]*recorded, len(earlier))
		r.order = make([]*recorded, len(earlier))
		all := make([]recorded, len(earlier))
		for i, e := range earlier {
			all[i].Entry = e
			r.order[i], r.recorded[e.ID] = &all[i], &all[i]
		}
	}
	return r
}

// Input returns the response to an input request: the recorded one or, if there is none, that of
// the Backend.
func (r *Recorder) Input(ctx context.Context, request *Request) (json.RawMessage, error) {
	id := ID{Kind: KindInput, Key: InputKey(request.Method, request.Params)}
	r.mu.Lock()
	if !request.Transient {
		id.Occurrence = r.occurrence(id)
	}
	if found := r.find(id); found != nil {
		if request.Transient {
			delete(r.recorded, id)
		}
		r.mu.Unlock()
		return found.Result, nil
	}
	if r.ended {
		r.mu.Unlock()
		return nil, ErrEnded
	}
	e := Entry{ID: id, Label: request.Label}
	r.asked(&e)
	r.mu.Unlock()
	answer, err := r.backend.Input(ctx, id, request)
	if err == nil {
		e.Result = answer
		err = r.backend.Record(ctx, e)
	}
	if errors.Is(err, ErrSuspended) {
		r.mu.Lock()
		r.suspended = true
		r.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// Outcome is the outcome of a step.
type Outcome struct {
	Result json.RawMessage // or the failure
	Failed bool
}

// Step returns the outcome of a step: the recorded one or, if there is none, that of run, which it
// records. The occurrence of the step is passed to run. An error of run is returned and not
// recorded.
func (r *Recorder) Step(ctx context.Context, name string, run func(occurrence int) (Outcome, error)) (Outcome, error) {
	id := ID{Kind: KindStep, Key: name}
	r.mu.Lock()
	if _, running := r.running[name]; running {
		r.fault = &DuplicateError{name}
		r.mu.Unlock()
		return Outcome{}, &DuplicateError{name}
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
	case r.suspended:
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
		r.running = map[string]struct{}{}
	}
	r.running[name] = struct{}{}
	r.mu.Unlock()
	defer r.finished(name) // even if run panics
	out, err := run(id.Occurrence)
	if err == nil && r.backend != nil {
		e.Result, e.Failed = out.Result, out.Failed
		err = r.backend.Record(ctx, e)
	}
	if err != nil {
		return Outcome{}, err
	}
	return out, nil
}

// occurrence returns the occurrence of the next result with the kind and the key of id. The caller
// must hold mu.
func (r *Recorder) occurrence(id ID) int {
	if r.last == nil {
		r.last = map[ID]int{}
	}
	r.last[id]++
	return r.last[id]
}

// find returns a recorded result, or nil. The caller must hold mu.
func (r *Recorder) find(id ID) *recorded {
	found := r.recorded[id]
	if found != nil {
		found.used = true
	}
	return found
}

// asked notes the first request or step without a recorded result. The caller must hold mu.
func (r *Recorder) asked(e *Entry) {
	if r.fresh == nil {
		first := *e
		r.fresh = &first
	}
}

func (r *Recorder) finished(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, name)
	if r.idle != nil && len(r.running) == 0 {
		close(r.idle)
		r.idle = nil
	}
}

// End ends the run after the handler has returned. If the run was suspended, End waits for steps that
// are still running, until ctx ends.
func (r *Recorder) End(ctx context.Context) error {
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
	for _, e := range r.order {
		if !e.used && !e.transient() {
			return &NondeterminismError{e.String(), r.fresh.String()}
		}
	}
	return nil
}
