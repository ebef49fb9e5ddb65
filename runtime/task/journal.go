package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Live reports whether this process runs the work, or will run it again when it is no longer
// parked.
func (run *Run) Live() bool { return run.m.findRun(run.id) == run }

// Durable reports whether the work has a journal: it is restartable and runs in this process.
func (run *Run) Durable() bool { return run.durable }

// Journal returns what earlier runs of restartable work have recorded, in the order of time, and
// the input requests that they have made, answered or not. The work returns each recorded result
// instead of obtaining it again, and makes its input requests with [Run.Ask]. The slices must not
// be changed. For other work, Journal returns nothing.
//
// Journal fails with [ErrCancelled] if the task has ended, and with [ErrFenced] if another member of
// the fleet holds it.
func (run *Run) Journal(ctx context.Context) (entries []Entry, requests []InputRequest, err error) {
	if !run.durable {
		return nil, nil, nil
	}
	for again := true; again; again = run.outlasts(ctx, err) {
		entries, requests, err = run.readJournal(ctx)
	}
	return entries, requests, err
}

func (run *Run) readJournal(ctx context.Context) (entries []Entry, requests []InputRequest, err error) {
	var r Record
	if err := run.m.store.get(ctx, run.id, &r); err != nil {
		return nil, nil, run.m.logFault("read task", err)
	}
	if run.m.fleet != nil && r.Revision < run.m.fleet.revision(run.id) {
		return nil, nil, run.m.logFault("read task", errOutdated)
	}
	switch {
	case run.fenced(&r):
		return nil, nil, ErrFenced
	case r.terminal(): // the entries are gone
		return nil, nil, ErrCancelled
	case r.Durable == nil:
		return nil, nil, nil
	}
	if r.Durable.Recorded > 0 {
		if entries, err = run.m.store.journal(ctx, run.id); err != nil {
			return nil, nil, run.m.logFault("read journal", err)
		}
		if len(entries) < r.Durable.Recorded {
			return nil, nil, run.m.logFault("read journal", errOutdated)
		}
	}
	return entries, r.InputRequests, nil
}

// errOutdated reports that the store has returned an earlier record than the one that this process
// has written, or fewer entries. A server that was cut off from the others may do so until it
// notices. Without the latest entries, work would repeat steps.
var errOutdated = errors.New("task: the store has returned outdated data")

// Record adds an entry to the journal of restartable work. When it returns, the entry is stored,
// durably if the store is durable, and the work may use it. If the process dies before that, a
// later run may or may not find the entry. For other work, Record does nothing.
//
// Record fails with a [*JournalError] if the journal would become too large, with a [*LimitError]
// if the principal has no bytes left for it, with [ErrCancelled] or [ErrNotFound] if the task has
// ended, and with [ErrFenced] if another member of the fleet holds it.
func (run *Run) Record(ctx context.Context, e Entry) error {
	if !run.durable {
		return nil
	}
	searched := -1 // number of entries that do not include e, once a write has failed
	for {
		add := func(r *Record) error {
			if r.terminal() {
				return ErrCancelled
			}
			if r.Durable == nil {
				return errUnchanged
			}
			if searched >= 0 && r.Durable.Recorded != searched {
				return errJournalGrown // possibly by the write that has failed
			}
			r.Durable, r.Reruns = r.Durable.with([]Entry{e}), 0
			return run.m.checkJournal(r)
		}
		_, done, err := run.replaceLatest(ctx, add)
		if !done {
			_, err = run.change(ctx, add)
		}
		if err != errJournalGrown && !run.outlasts(ctx, err) {
			return err
		}
		entries, _, err := run.Journal(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(entries, e.same) {
			return nil
		}
		searched = len(entries)
	}
}

// errJournalGrown reports that entries were recorded since the journal was read.
var errJournalGrown = errors.New("task: the journal has grown")

// same reports whether two entries are results of the same operation.
func (e Entry) same(other Entry) bool {
	return e.Kind == other.Kind && e.Key == other.Key && e.Occurrence == other.Occurrence
}

// JournalError reports that the journal of a task would exceed [Config.MaxJournal].
type JournalError struct {
	Bytes int64 // size of the journal with what was to be added
	Limit int64
}

// Error returns a text that says what to do.
func (e *JournalError) Error() string {
	return fmt.Sprintf("task: the journal would take %d bytes, the limit is %d: record smaller results, such as references to them, divide the work among several tasks, or raise Config.MaxJournal", e.Bytes, e.Limit)
}

// checkJournal fails if the journal of a record is too large.
func (m *Manager) checkJournal(r *Record) error {
	if m.cfg.MaxJournal == 0 {
		return nil
	}
	if n := r.journalBytes(); n > m.cfg.MaxJournal {
		return &JournalError{n, m.cfg.MaxJournal}
	}
	return nil
}

// journalBytes returns the size of the entries and of the input requests that later runs get.
func (r *Record) journalBytes() int64 {
	n := r.Durable.RecordedBytes
	for i := range r.InputRequests {
		if r.InputRequests[i].Key != "" {
			n += r.InputRequests[i].size()
		}
	}
	return n
}
