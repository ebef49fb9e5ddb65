package task

import (
	"context"
	"errors"

	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// addition is an entry that waits to be added to the journal.
type addition struct {
	entry    Entry
	searched int           // number of recorded entries that do not include it; -1 if unknown
	err      error         // the outcome
	turn     chan struct{} // receives when another call has set err, or has left the next write to this one
	added    bool          // err is the outcome
	alone    [1]*addition  // a batch of this one
}

// addEntry adds an entry to the journal in one attempt. Entries that are added while another write
// of the journal is in progress share the next one, so that n concurrent calls need about two
// writes. Otherwise each write would make all others fail with ErrConflict and try again. addEntry
// fails with errJournalGrown if the number of recorded entries is not searched, unless that is -1.
// The end of ctx would fail the entries of other calls, so ctx must not end.
func (run *Run) addEntry(ctx context.Context, e Entry, searched int) error {
	a := &addition{entry: e, searched: searched}
	run.mu.Lock()
	if run.additions == nil {
		run.additions = a.alone[:0]
	}
	run.additions = append(run.additions, a)
	if run.adding {
		a.turn = make(chan struct{}, 1)
	}
	run.adding = true
	run.mu.Unlock()
	if a.turn != nil {
		if <-a.turn; a.added {
			return a.err
		}
	}
	run.mu.Lock()
	batch := run.additions
	run.additions = nil
	run.mu.Unlock()
	defer run.endAdditions(a, batch)
	run.addEntries(ctx, batch)
	return a.err
}

// endAdditions wakes the calls whose entries were in the batch that the call of own has written,
// and leaves the next write to a waiting call.
func (run *Run) endAdditions(own *addition, batch []*addition) {
	run.mu.Lock()
	defer run.mu.Unlock()
	for _, a := range batch {
		if a.added = true; a != own {
			a.turn <- struct{}{}
		}
	}
	if run.adding = len(run.additions) > 0; run.adding {
		run.additions[0].turn <- struct{}{}
	}
}

// addEntries adds a batch of entries in one write. If they exceed a limit together, it adds them
// one by one.
func (run *Run) addEntries(ctx context.Context, batch []*addition) {
	err := run.tryEntries(ctx, batch)
	_, journal := errors.AsType[*JournalError](err)
	_, limit := errors.AsType[*LimitError](err)
	if len(batch) > 1 && (journal || limit) {
		for i := range batch {
			run.addEntries(ctx, batch[i:i+1])
		}
		return
	}
	for _, a := range batch {
		if a.err == nil {
			a.err = err
		}
	}
}

// tryEntries is addEntries without the limits. It sets err of the entries that it leaves out
// because the journal has grown.
func (run *Run) tryEntries(ctx context.Context, batch []*addition) error {
	add := func(r *Record) error {
		if r.terminal() {
			return ErrCancelled
		}
		if r.Durable == nil {
			return errUnchanged
		}
		entries := run.takeAnswers(r)
		answers := len(entries)
		for _, a := range batch {
			if a.err = nil; a.searched >= 0 && r.Durable.Recorded != a.searched {
				a.err = errJournalGrown // possibly by the write that has failed
				continue
			}
			entries = append(entries, a.entry)
		}
		if len(entries) == answers {
			return errJournalGrown
		}
		r.Durable = r.Durable.with(entries)
		r.grown()
		if r.undo() != taskrules.UndoNone {
			return nil // there are no more of these entries than undos
		}
		return run.m.checkJournal(r)
	}
	r, done, err := run.replaceLatest(add)
	if !done {
		r, err = run.tryChange(ctx, add)
	}
	if err == nil && r.undoes() {
		run.m.mu.Lock()
		run.m.noteUndos(run, &r)
		run.m.mu.Unlock()
	}
	if err == nil && r.withdrawn() {
		run.m.withdrawn(run, &r) // so that the work begins nothing else
	}
	return err
}

// takeAnswers removes the answers that the work has got from the input requests of a record, and
// returns them as entries of its journal. Otherwise, each later change would write them again.
func (run *Run) takeAnswers(r *Record) (entries []Entry) {
	run.mu.Lock()
	defer run.mu.Unlock()
	var rest []InputRequest
	for i := range r.InputRequests {
		q := r.InputRequests[i]
		if q.Key == "" || !run.consumed[q.Number] {
			rest = append(rest, q)
			continue
		}
		entries = append(entries, q.entry())
		run.keepAnswer(q)
	}
	if entries != nil {
		r.InputRequests = rest
	}
	return entries
}

// entry returns the entry of an answered input request.
func (q *InputRequest) entry() Entry {
	e := Entry{Kind: taskrules.KindAnswer, Key: q.Key, Occurrence: q.Occurrence, Result: q.Result, Branch: q.Branch, Position: q.Position}
	if q.Error != nil {
		e.Result, e.Failed = q.Error, true
	}
	return e
}

// answered undoes entry. The result has no number and no method.
func (e *Entry) answered() InputRequest {
	q := InputRequest{Key: e.Key, Occurrence: e.Occurrence, Branch: e.Branch, Position: e.Position, Result: e.Result}
	if e.Failed {
		q.Result, q.Error = nil, e.Result
	}
	return q
}

// inputKey identifies an input request of restartable work.
type inputKey struct {
	branch, key string
	occurrence  int
}

// keepAnswer keeps an answer that is in the journal, for later calls of Ask in this run. The caller
// holds mu.
func (run *Run) keepAnswer(q InputRequest) {
	if run.answers == nil {
		run.answers = map[inputKey]InputRequest{}
	}
	q.Params = nil
	run.answers[inputKey{q.Branch, q.Key, q.Occurrence}] = q
}

// keepAnswers keeps the answers in a journal, and marks those in a record as got by the work.
func (run *Run) keepAnswers(entries []Entry, requests []InputRequest) {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.answersRead = true
	for i := range entries {
		if entries[i].Kind == taskrules.KindAnswer {
			run.keepAnswer(entries[i].answered())
		}
	}
	for i := range requests {
		if q := &requests[i]; q.Key != "" && !q.Open() {
			run.setConsumed(q.Number)
		}
	}
}

// readAnswers reads the answers in the journal, unless this run has read them.
func (run *Run) readAnswers(ctx context.Context) error {
	run.mu.Lock()
	read := run.answersRead
	run.mu.Unlock()
	if read {
		return nil
	}
	_, _, err := run.Journal(ctx)
	return err
}

// recordedAnswer returns the input request with the branch, the key and the occurrence of q if its
// answer is in the journal, or nil.
func (run *Run) recordedAnswer(q *InputRequest) *InputRequest {
	run.mu.Lock()
	defer run.mu.Unlock()
	answered, ok := run.answers[inputKey{q.Branch, q.Key, q.Occurrence}]
	if q.Key == "" || !ok {
		return nil
	}
	return &answered
}
