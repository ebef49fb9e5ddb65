package rerun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Sleep waits until the time that f returns. F is called in the first run only: later runs wait for
// the rest. If ctx ends first, the sleep is given up, in later runs as well.
func (l *Log) Sleep(ctx context.Context, name string, f func() time.Time) error {
	switch {
	case name == "":
		return l.faultf("sleep without a name")
	case f == nil:
		return l.faultf("sleep %q: nil function", name)
	}
	if err := InStep(ctx, "sleep"); err != nil {
		return err
	}
	_, err := l.sleepUntil(ctx, name, f)
	return err
}

// sleepUntil is [Log.Sleep] for valid arguments. It returns the recorded end of the sleep.
func (l *Log) sleepUntil(ctx context.Context, name string, f func() time.Time) (time.Time, error) {
	b := l.branchOf(ctx)
	e := &Entry{ID: ID{Kind: KindSleep, Key: name}}
	found, err := b.begin(ctx, e)
	if err != nil {
		return time.Time{}, err
	}
	defer b.end(e, found)
	if found == nil {
		if err := l.store(); err != nil {
			return time.Time{}, err
		}
		if err := l.unbegun(ctx, b, e); err != nil {
			return time.Time{}, err
		}
		e.Result = l.sleepTimes(ctx, f())
		if err := l.record(e); err != nil {
			return time.Time{}, err
		}
		found = e
	} else if reason := l.endOfSleep(b, e.ID); reason != nil {
		return time.Time{}, l.unfinished(e, reason)
	}
	if err := l.unfinished(e, found.Result); err != nil {
		return time.Time{}, err
	}
	until, err := l.sleep(ctx, b, e, found)
	if _, required := err.(*InputRequiredError); required || err != nil && l.undoing != taskrules.UndoNone {
		b.suspend()
	}
	return until, err
}

// sleepTimes returns the outcome of a sleep: the microseconds from 1970 to its end and, if ctx ends
// earlier, to its deadline.
func (l *Log) sleepTimes(ctx context.Context, end time.Time) json.RawMessage {
	end = l.until(end)
	text := strconv.AppendInt(nil, end.UnixMicro(), 10)
	if deadline, ok := ctx.Deadline(); ok {
		if deadline = l.until(deadline); deadline.Before(end) {
			text = strconv.AppendInt(append(append([]byte{'['}, text...), ','), deadline.UnixMicro(), 10)
			text = append(text, ']')
		}
	}
	return text
}

// parseSleep returns the time until which a sleep waits, and whether that is its deadline.
func parseSleep(text json.RawMessage) (until time.Time, limited bool, err error) {
	if rest, ok := bytes.CutPrefix(text, []byte{'['}); ok {
		_, text, _ = bytes.Cut(bytes.TrimSuffix(rest, []byte{']'}), []byte{','})
		limited = true
	}
	micro, err := strconv.ParseInt(string(text), 10, 64)
	return time.UnixMicro(micro), limited, err
}

// endOfSleep returns the recorded reason why a sleep was given up, or nil.
func (l *Log) endOfSleep(b *branch, id ID) json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.legacy {
		b = &l.top
	}
	id.Kind = KindGivenUp
	if e := b.find(id); e != nil {
		return e.Result
	}
	return nil
}

// sleep waits for the end of a sleep of the branch b, which it returns. If an earlier run has
// recorded what follows, the sleep has ended, whatever the present clock says: it may have been set
// back, or be that of another process.
func (l *Log) sleep(ctx context.Context, b *branch, e, found *Entry) (until time.Time, err error) {
	until, limited, err := parseSleep(found.Result)
	switch {
	case err != nil:
		return until, l.faultf("%s: damaged entry: %w", e, err)
	case b.passed(found):
	case l.undoing != taskrules.UndoNone && until.After(l.since): // as if it had not begun
		return until, l.errUndoing()
	default:
		err = l.waitUntil(ctx, until)
	}
	switch {
	case err == nil && !limited:
		return until, nil
	case err == nil:
		return until, l.unfinished(e, timedOut)
	case errors.Is(err, task.ErrParked):
		return until, l.suspend("")
	}
	l.mu.Lock()
	ending := l.ending("")
	l.mu.Unlock()
	switch {
	case ending != nil:
		return until, ending
	case ctx.Err() == nil: // suspended
		return until, err
	}
	if err := b.cutOff(ctx); err != nil {
		return until, err
	}
	reason := outcomeOf(ctx.Err())
	if !limited || !bytes.Equal(reason, timedOut) { // otherwise the times say so
		end := &Entry{ID: e.ID, Position: e.Position, Result: reason, Failed: true}
		end.Kind = KindGivenUp
		if err := l.record(end); err != nil {
			return until, err
		}
	}
	return until, l.unfinished(e, reason)
}

// waitUntil waits until a time. If a plain call becomes a task during the wait, the task waits for
// the rest. If an input request ends the round, the next round does.
func (l *Log) waitUntil(ctx context.Context, until time.Time) error {
	t, became, suspended := l.waiting()
	if t != nil {
		return t.Sleep(ctx, until)
	}
	left := time.Until(until)
	if left <= 0 {
		return nil // although the run may be suspended, because an earlier one has recorded what follows
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-became:
		return l.waitUntil(ctx, until)
	case <-suspended:
		return &InputRequiredError{"", l.pkg}
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

// waiting returns the task, or what ends a wait of a plain call.
func (l *Log) waiting() (t *task.Run, became, suspended <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.task != nil || !l.rounds {
		return l.task, nil, nil
	}
	if l.became == nil {
		l.became = make(chan struct{})
	}
	if l.suspension == nil {
		l.suspension = make(chan struct{})
		if l.suspended {
			close(l.suspension)
		}
	}
	return nil, l.became, l.suspension
}
