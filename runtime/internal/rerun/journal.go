package rerun

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// readJournal reads what earlier runs of the task have recorded, their input requests without a
// response, the id of the call, and how an earlier run has failed. It returns the outcomes.
func (l *Log) readJournal() (entries []Entry, err error) {
	stored, requests, err := l.task.Journal(l.ctx)
	if err != nil {
		return nil, err
	}
	l.id = l.task.ID()
	entries = make([]Entry, 0, len(stored)+len(requests))
	for i := range stored {
		e := &stored[i]
		switch e.Kind {
		case kindCall:
			l.id = e.Key
			continue
		case taskrules.KindFailure:
			if l.failure, err = outcomeOfFailure(e); err != nil {
				return nil, l.faultf("damaged entry: %w", err)
			}
			continue
		}
		id := recordedID(ID{e.Branch, Kind(e.Kind), e.Key, e.Occurrence})
		entries = append(entries, Entry{ID: id, Position: e.Position, Label: "an input request", Result: e.Result, Failed: e.Failed})
	}
	for i := range requests {
		q := &requests[i]
		if q.Key == "" {
			continue
		}
		id := recordedID(ID{q.Branch, KindInput, q.Key, q.Occurrence})
		if q.Open() {
			l.pending = append(l.pending, Asked{ID: id, Position: q.Position, Label: q.Method, Method: q.Method, Deadline: q.Deadline})
			continue
		}
		e := Entry{ID: id, Position: q.Position, Label: q.Method, Result: q.Result}
		if q.Error != nil {
			e.Result, e.Failed = q.Error, true
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Continues reports whether a version of a tool, which accepts others, can run a task: the task has
// not begun, or it was begun by one of these versions.
func Continues(r *task.Record, version string, accepted []string) bool {
	return r.Durable == nil || !r.Begun() || r.Durable.Version == version || slices.Contains(accepted, r.Durable.Version)
}

// kindCall is the kind of the entry that holds the id of a call that began as a plain one. The
// idempotency keys of its steps are derived from that id.
const kindCall = 255

func callEntry(id string) task.Entry {
	return task.Entry{Kind: kindCall, Key: id, Occurrence: 1, Result: json.RawMessage(`null`)}
}

// journalEntry returns the form of an entry in the journal of a task.
func journalEntry(e *Entry) task.Entry {
	return task.Entry{Kind: byte(e.Kind), Key: journalKey(e.ID), Occurrence: e.Occurrence, Result: e.Result, Failed: e.Failed, Branch: e.Branch, Position: e.Position}
}

// journalKey returns the form of a key in the journal of a task, which is text.
func journalKey(id ID) string {
	if id.Kind == KindInput {
		return base64.RawURLEncoding.EncodeToString([]byte(id.Key))
	}
	return id.Key
}

// recordedID undoes journalKey.
func recordedID(id ID) ID {
	if id.Kind == KindInput {
		if key, err := base64.RawURLEncoding.DecodeString(id.Key); err == nil {
			id.Key = string(key)
		}
	}
	return id
}
