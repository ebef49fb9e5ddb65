package rerun

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Times of undos that fail outside of a durable task; see also [taskrules.MaxUndoTime].
const (
	plainUndoTime = 30 * time.Second // of all undos of a call, which waits for them
	lastUndoTime  = 5 * time.Second  // of the only attempt of one whose turn comes later
)

// undo is a registered undo.
type undo struct {
	Entry       // of the registration
	number int  // from 1, in the order of registration in all branches
	done   bool // an earlier run has recorded how it has ended
	f      func(ctx context.Context) error
}

// Compensate registers an undo. See the function of package server.
func (l *Log) Compensate(ctx context.Context, name string, f func(ctx context.Context) error) error {
	switch {
	case name == "":
		return l.faultf("compensation without a name")
	case f == nil:
		return l.faultf("compensation %q: nil function", name)
	}
	if err := InStep(ctx, "compensation"); err != nil {
		return err
	}
	b := l.branchOf(ctx)
	e := &Entry{ID: ID{Kind: KindUndo, Key: name}}
	found, err := b.begin(ctx, e)
	if err != nil {
		return err
	}
	defer b.end(e, found)
	if found == nil {
		if err := l.store(); err != nil {
			return err
		}
		e.Result = l.nextUndo()
		if err := l.record(e); err != nil {
			return err
		}
		found = e
	}
	number, err := strconv.Atoi(string(found.Result))
	if err != nil {
		return l.faultf("%s: damaged entry: %w", e, err)
	}
	return l.addUndo(b, &undo{Entry: *e, number: number, f: f})
}

// nextUndo returns the outcome of a new registration: its number.
func (l *Log) nextUndo() json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastUndo++
	return strconv.AppendInt(nil, int64(l.lastUndo), 10)
}

// addUndo adds an undo that the branch b has registered, unless it is too late for [Log.Undo] to find
// it.
func (l *Log) addUndo(b *branch, u *undo) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.errEnded()
	}
	if l.legacy {
		b = &l.top
	}
	id := u.ID
	id.Kind = KindUndone
	u.done = b.find(id) != nil
	l.undos = append(l.undos, u)
	return nil
}

// undoGrace is how long the handler of a run that only registers undos may go on after it has asked
// for all that is recorded. Then it has no more undos to register, as long as it registers each of
// them before the step that it undoes.
const undoGrace = 10 * time.Second

// HandlerContext returns the context for the handler of the run, derived from ctx. If the run only
// registers undos, the context ends when the handler has had time to do so: the undos would wait
// for ever for a handler that waits for something other than its operations. The caller must call
// release when the handler has returned.
func (l *Log) HandlerContext(ctx context.Context) (in context.Context, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.undoing == taskrules.UndoNone {
		return ctx, func() {}
	}
	in, cancel := context.WithCancelCause(ctx)
	l.endHandler = func() { cancel(l.errUndoing()) }
	return in, func() { cancel(nil) }
}

// errUndoing returns the error of new operations while the run only registers the undos that are to
// run.
func (l *Log) errUndoing() error {
	switch l.undoing {
	case taskrules.UndoCancelled:
		return task.ErrCancelled
	case taskrules.UndoExpired:
		return task.ErrExpired
	}
	return l.faultf("an earlier run of the handler has failed, and its compensations run")
}

// Undo runs the undos that the handler has registered, the latest first, if the call has failed,
// and in a durable task that was cancelled or has expired. It must be called after [Log.End].
// Failed says that the handler has failed: with failure or, if that is nil, with result. A result
// that cannot be encoded is a failure, too: the client gets an error instead.
//
// If Undo fails, its error is the outcome of the call, such as [task.ErrParked] or [task.ErrClosed]
// if the handler runs again to go on with the undos. Otherwise, the outcome is first if that is not
// nil: how an earlier run has failed. Else it is that of the handler.
func (l *Log) Undo(failed bool, result codec.Encoder, failure error) (first *task.Outcome, err error) {
	l.mu.Lock()
	undos, t, why := slices.Clone(l.undos), l.task, l.undoing
	l.mu.Unlock()
	slices.SortFunc(undos, func(a, b *undo) int { return b.number - a.number })
	durable := t != nil && t.Durable()
	if !durable && l.ctx.Err() != nil && !errors.Is(context.Cause(l.ctx), task.ErrClosed) {
		failed = true // no client gets the result
	}
	if !failed && len(undos) > 0 && result != nil {
		_, unencodable := boundary.Marshal(result)
		failed = unencodable != nil
	}
	switch {
	case l.err != nil, why == taskrules.UndoNone && (!failed || len(undos) == 0):
		return nil, nil
	case durable && l.missed() != nil && t.Internals(boundary.Caller{}).UndoTime(0) < taskrules.MaxUndoTime:
		return nil, nil // the handler runs again, because Run.EndUndo was not called
	case errors.Is(failure, task.ErrParked), errors.Is(failure, task.ErrClosed):
		return nil, nil
	case !durable:
		l.undoPlain(undos)
		return nil, nil
	case l.ctx.Err() != nil: // the handler runs again, after a cancellation or in the next process
		return nil, context.Cause(l.ctx)
	}
	if why == taskrules.UndoNone {
		if err := t.Internals(boundary.Caller{}).BeginUndo(outcomeFor(result, failure)); err != nil {
			return nil, err
		}
	}
	l.reportMissed()
	if err := l.undoInTask(t, undos); err != nil {
		return nil, err
	}
	t.Internals(boundary.Caller{}).EndUndo()
	if why == taskrules.UndoFailed && l.failure == nil && !failed {
		return nil, l.faultf("handler is not deterministic: an earlier run has failed, this run has not; a handler whose outcome has changed needs another Version")
	}
	return l.failure, nil
}

// Exit ends the run of a handler that has called [runtime.Goexit], and undoes what it has done. A
// deferred function calls it, because such a handler does not return.
func (l *Log) Exit() {
	_, _, err := l.End()
	if err == nil {
		err = boundary.ErrGoexit
	}
	l.Undo(true, nil, err) // if that fails, the task runs again
}

// outcomeFor returns the outcome of a task whose work returns result and failure.
func outcomeFor(result codec.Encoder, failure error) task.Outcome {
	if failure == nil {
		text, err := boundary.Marshal(result)
		if err == nil {
			return task.Outcome{Result: text}
		}
		failure = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the result cannot be encoded"}
	}
	return task.Outcome{Error: boundary.WireError(failure)}
}

// outcomeOfFailure returns the outcome in an entry of [taskrules.KindFailure].
func outcomeOfFailure(e *task.Entry) (*task.Outcome, error) {
	if !e.Failed {
		return &task.Outcome{Result: e.Result}, nil
	}
	failed := new(jsonrpc.Error)
	err := codec.Unmarshal(e.Result, failed, codec.MaxDepth(max(len(e.Result), wire.DefaultDepth))) // or no undo would run
	return &task.Outcome{Error: failed}, err
}

// missed returns the undos that an earlier run has registered, this one has not, and none has ended.
func (l *Log) missed() (list []*Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.recorded {
		e := &l.recorded[i]
		if e.Kind != KindUndo || e.used {
			continue
		}
		end := e.ID
		end.Kind = KindUndone
		if !slices.ContainsFunc(l.recorded, func(other recorded) bool { return other.ID == end }) {
			list = append(list, &e.Entry)
		}
	}
	return list
}

// reportMissed logs the undos of [Log.missed].
func (l *Log) reportMissed() {
	for _, e := range l.missed() {
		l.log.Error("compensation not run: the handler has not registered it again", "task", l.id, "compensation", e.Key)
	}
}

// undoPlain runs undos in a call of which nothing is recorded. The end of its context does not
// interrupt them. Each is tried at least once, however long the others take.
func (l *Log) undoPlain(undos []*undo) {
	begun := time.Now()
	try := func(u *undo) error {
		left := max(plainUndoTime-time.Since(begun), lastUndoTime)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), left)
		defer cancel()
		return l.tryUndo(ctx, u)
	}
	for _, u := range undos {
		tried := time.Now()
		for err := try(u); err != nil; err = try(u) {
			pause := taskrules.UndoPause(time.Since(tried))
			if time.Since(begun)+pause >= plainUndoTime {
				l.giveUpUndo(u, err)
				break
			}
			time.Sleep(pause)
		}
	}
}

// undoInTask runs undos in a durable task, and records how they have ended. It returns an error if
// the task goes on with them later, or cannot.
func (l *Log) undoInTask(t *task.Run, undos []*undo) error {
	for _, u := range undos {
		for !u.done {
			e := u.Entry
			e.Kind, e.Result = KindUndone, json.RawMessage(`null`)
			ctx, cancel := context.WithTimeout(l.ctx, max(taskrules.MaxUndoTime-t.Internals(boundary.Caller{}).UndoTime(u.number), lastUndoTime))
			err := l.tryUndo(ctx, u)
			cancel()
			switch elapsed := t.Internals(boundary.Caller{}).UndoTime(u.number); {
			case err == nil:
			case l.ctx.Err() != nil:
				return context.Cause(l.ctx)
			case elapsed < taskrules.MaxUndoTime:
				if err := t.Sleep(l.ctx, t.Internals(boundary.Caller{}).SharedTime(time.Now().Add(taskrules.UndoPause(elapsed)))); err != nil {
					return err
				}
				continue
			default:
				l.giveUpUndo(u, err)
				e.Failed = true
				if e.Result, err = failureOf(err, 0); err != nil {
					return err
				}
			}
			if err := l.recordUndone(t, &e); err != nil {
				return err
			}
			u.done = true
		}
	}
	return nil
}

// recordUndone records how an undo has ended. If the journal is full, the undo may run again after
// the end of the process.
func (l *Log) recordUndone(t *task.Run, e *Entry) error {
	err := t.Record(l.ctx, journalEntry(e))
	_, journal := errors.AsType[*task.JournalError](err)
	_, limit := errors.AsType[*task.LimitError](err)
	if journal || limit {
		l.log.Warn("end of compensation not recorded", "task", l.id, "compensation", e.Key, "error", err)
		return nil
	}
	return err
}

// tryUndo calls the function of an undo once, as a step.
func (l *Log) tryUndo(ctx context.Context, u *undo) error {
	in := &scope{ctx, &l.top, runningStep{l, undoBranch + u.Branch, u.Key, u.Occurrence}}
	err := boundary.Run(func() error { // in a goroutine of its own, which runtime.Goexit ends
		return runAll([]context.Context{in}, []func(context.Context) error{u.f})
	})
	if err != nil && !boundary.Report(l.log, "compensation panicked", err, "task", l.id, "compensation", u.Key) {
		l.log.Warn("compensation failed", "task", l.id, "compensation", u.Key, "error", boundary.ErrorText(err))
	}
	return err
}

// undoBranch begins the branches by which the idempotency keys of undos differ from those of steps.
// No other branch begins with it.
const undoBranch = "undo "

// giveUpUndo logs that an undo is not tried again.
func (l *Log) giveUpUndo(u *undo, err error) {
	l.log.Error("compensation given up", "task", l.id, "compensation", u.Key, "error", boundary.ErrorText(err))
}
