package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Live reports whether this process runs the work, or will run it again when it is no longer
// parked.
func (run runInternals) Live() bool { return run.m.findRun(run.id) == run.Run }

// Durable reports whether the work has a journal: it is restartable and runs in this process.
func (run *Run) Durable() bool { return run.durable }

// Journal returns what earlier runs of restartable work have recorded, in the order of time, and
// the input requests of the record, answered or not. The answers that an earlier run has got are
// entries of the kind 1, apart from the latest ones. The work returns each recorded
// result instead of obtaining it again, and makes its input requests with [Run.Ask]. The slices
// must not be changed. For other work, Journal returns nothing.
//
// Journal fails with [ErrCancelled] if the task has ended, and with [ErrFenced] if another member
// of the fleet holds it.
func (run *Run) Journal(ctx context.Context) (entries []Entry, requests []InputRequest, err error) {
	if !run.durable {
		return nil, nil, nil
	}
	err = run.m.persist(ctx, run, func() (err error) {
		entries, requests, err = run.readJournal(ctx)
		return err
	})
	if err == nil {
		run.beginUndoing()
		run.keepAnswers(entries, requests)
	}
	return entries, requests, err
}

func (run *Run) readJournal(ctx context.Context) (entries []Entry, requests []InputRequest, err error) {
	var r Record
	if err := run.m.store.get(ctx, run.id, &r); err != nil {
		return nil, nil, run.m.logFault("read task", err)
	}
	switch {
	case run.fenced(&r):
		return nil, nil, ErrFenced
	case r.terminal(): // the entries are gone
		return nil, nil, ErrCancelled
	case r.Durable == nil:
		return nil, nil, nil
	}
	run.setUndo(&r)
	entries, err = run.m.entriesOf(ctx, &r)
	return entries, r.InputRequests, err
}

// entriesOf returns the journal of a record of durable work that was just read. It fails with
// errOutdated if the store returns fewer entries than the record has, and also if the task has
// become terminal since.
func (m *Manager) entriesOf(ctx context.Context, r *Record) ([]Entry, error) {
	if r.Durable.Recorded == 0 {
		return nil, nil
	}
	entries, err := m.store.journal(ctx, r.ID)
	if err == nil && len(entries) < r.Durable.Recorded {
		err = errOutdated
	}
	if err != nil {
		return nil, m.logFault("read journal", err)
	}
	return entries[:r.Durable.Recorded], nil // later ones may be answers that r has, too
}

// errOutdated reports that the store has returned an earlier record than one that this process has
// written or read, or fewer entries. A server that was cut off from the others may do so until it
// notices. Without the latest entries, work would repeat steps. With a record from before the claim
// of the work, it would seem to be fenced.
var errOutdated = errors.New("task: the store has returned outdated data")

// Record adds an entry to the journal of restartable work. When it returns, the entry is stored,
// durably if the store is durable, and the work may use it. If the process dies before that, a
// later run may or may not find the entry. For other work, Record does nothing.
//
// The end of ctx, such as that of the context of the work in [Manager.Close], does not interrupt
// Record: what the work has done must be recorded. Close waits for Record. While the store fails,
// Record tries again until the task ends, or for some seconds after Close.
//
// Record fails with a [*JournalError] if the journal would become too large, with a [*LimitError]
// if the principal has no bytes left for it, with [ErrCancelled], [ErrExpired] or [ErrNotFound] if
// the task has ended, with [ErrFenced] if another member of the fleet holds it, and with
// [ErrClosed] once the Manager is closed and the work has returned.
func (run *Run) Record(ctx context.Context, e Entry) error {
	if !run.durable {
		return nil
	}
	if run.m.enter(run) {
		defer run.m.group.Done()
	} else if run.m.lifetime.Err() != nil {
		return ErrClosed
	}
	ctx = context.WithoutCancel(ctx)
	unclear := false // a write has failed, or the journal has grown: it may contain e
	searched := -1   // number of entries that do not include e, once a write has failed
	err := errJournalGrown
	for err == errJournalGrown {
		err = run.m.persist(ctx, run, func() error {
			if unclear {
				entries, _, err := run.readJournal(ctx)
				if err != nil || slices.ContainsFunc(entries, e.same) {
					return err
				}
				searched = len(entries)
			}
			err := run.addEntry(ctx, e, searched)
			unclear = unavailable(err) || err == errJournalGrown
			return err
		})
	}
	if err == nil {
		run.m.scheduler.endTrial(run)
	}
	return run.endIfOver(err)
}

// errJournalGrown reports that entries were recorded since the journal was read.
var errJournalGrown = errors.New("task: the journal has grown")

// enter makes Close wait until the caller calls group.Done. It returns false if the work of the run
// has returned.
func (m *Manager) enter(run *Run) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs[run.id] != run || run.rest == resting {
		return false
	}
	m.group.Add(1)
	return true
}

// same reports whether two entries are results of the same operation.
func (e Entry) same(other Entry) bool {
	return e.Branch == other.Branch && e.Kind == other.Kind && e.Key == other.Key && e.Occurrence == other.Occurrence
}

// JournalError reports that the journal of a task would exceed [Limits.Journal].
type JournalError struct {
	Bytes int64 // size of the journal with what was to be added
	Limit int64
}

// Error returns a text that says what to do.
func (e *JournalError) Error() string {
	return fmt.Sprintf("task: the journal would take %d bytes, the limit is %d: record smaller results, such as references to them, divide the work among several tasks, or raise Options.Limits.Journal", e.Bytes, e.Limit)
}

// checkJournal fails if the journal of a record is too large.
func (m *Manager) checkJournal(r *Record) error {
	if m.cfg.Limits.Journal == 0 {
		return nil
	}
	if n := r.journalBytes(); n > m.cfg.Limits.Journal {
		return &JournalError{n, m.cfg.Limits.Journal}
	}
	return nil
}

// journalBytes returns the size of the entries, the input requests and the signals that later runs
// get.
func (r *Record) journalBytes() int64 {
	n := r.Durable.RecordedBytes
	for i := range r.InputRequests {
		if r.InputRequests[i].Key != "" {
			n += r.InputRequests[i].size()
		}
	}
	for i := range r.Durable.Signals {
		n += r.Durable.Signals[i].size()
	}
	return n
}
