package contracttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// durable returns a record with all fields of Durable and with the given number of entries.
func durable(id, owner string, entries int) task.Record {
	r := full(id, owner)
	r.Protocol = "2026-07-28"
	q := &r.InputRequests[0]
	q.Key, q.Occurrence, q.Branch, q.Position, q.Deadline = "\x00key\xff", 2, "1.2", 300, start.Add(time.Hour)
	r.Durable = &task.Durable{Version: "v1", LastInput: 3, Parked: true, Wake: start.Add(time.Minute), RecordedBytes: 7, Awaits: []string{"paid", "stopped"}, Signals: []task.Signal{{ID: "id", Name: "other", Value: json.RawMessage(`{"n":1}`)}, {ID: "id 2", Name: "", Value: nil}}}
	return withEntries(r, entryList(0, entries))
}

// entryList returns the entries with the numbers from..to-1.
func entryList(from, to int) (list []task.Entry) {
	for n := from; n < to; n++ {
		e := task.Entry{Kind: byte(n%3 + 1), Key: fmt.Sprint("step ", n), Occurrence: n + 1, Failed: n%2 == 1, Position: n}
		if n%4 > 0 {
			e.Branch = fmt.Sprint("1.", n%4)
		}
		if n%5 > 0 {
			e.Result = json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))
		}
		list = append(list, e)
	}
	return list
}

// withEntries returns r with further entries to record.
func withEntries(r task.Record, entries []task.Entry) task.Record {
	d := *r.Durable
	d.Recorded += len(entries)
	d.Entries = entries
	r.Durable = &d
	return r
}

// withoutEntries returns the record that a store returns after it has stored r.
func withoutEntries(r task.Record) task.Record {
	d := *r.Durable
	d.Entries = nil
	r.Durable = &d
	return r
}

// checkJournal compares the journal of a task with the entries from 0 to n-1.
func checkJournal(t *testing.T, s task.Store, id string, n int) {
	t.Helper()
	got, err := s.Journal(t.Context(), id)
	if err != nil {
		t.Fatalf("journal of %s: %v", id, err)
	}
	equal(t, "journal of "+id, entryList(0, n), got)
}

func journalRoundTrip(t *testing.T, s task.Store) {
	for _, n := range []int{0, 1, 300} {
		id := fmt.Sprint(n)
		r := durable(id, "o", n)
		stored := create(t, s, r)
		r.Seq, r.Revision = stored.Seq, 1
		want := withoutEntries(r)
		equal(t, "created", want, stored)
		equal(t, "read", want, get(t, s, id))
		checkJournal(t, s, id, n)
		stored = update(t, s, withEntries(stored, entryList(n, n+2)))
		stored.StatusMessage, stored.Params, stored.InputRequests = "more", nil, stored.InputRequests[1:]
		stored = update(t, s, stored) // without entries to add
		stored = update(t, s, withEntries(stored, entryList(n+2, n+3)))
		want.StatusMessage, want.Params, want.InputRequests, want.Revision = "more", nil, want.InputRequests[1:], 4
		want.Durable = withEntries(want, make([]task.Entry, 3)).Durable
		want = withoutEntries(want)
		equal(t, "updated", want, stored)
		equal(t, "read after updates", want, get(t, s, id))
		checkJournal(t, s, id, n+3)
		list, err := s.List(t.Context(), "o", stored.Seq-1, 1)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "listed", []task.Record{want.Brief()}, list)
	}
	create(t, s, full("none", "o"))
	checkJournal(t, s, "none", 0)
}

func payloadsStay(t *testing.T, s task.Store) {
	r := create(t, s, durable("a", "o", 0))
	for n := range 20 {
		want := withEntries(r, entryList(n, n+1))
		r = update(t, s, want)
		want = withoutEntries(want)
		want.Revision++
		equal(t, "read", want, get(t, s, "a"))
		if n == 10 {
			r.Result = json.RawMessage(`{"other":1}`)
		}
	}
	checkJournal(t, s, "a", 20)
}

func refusedEntries(t *testing.T, s task.Store) {
	first := create(t, s, durable("a", "o", 2))
	second := update(t, s, withEntries(first, entryList(2, 3)))
	_, err := s.Update(t.Context(), withEntries(first, entryList(20, 22)))
	fails(t, "stale update", task.ErrConflict, err)
	_, err = s.Create(t.Context(), durable("a", "p", 7))
	fails(t, "same id", task.ErrExists, err)
	// More entries must be stored than are not added.
	gap := withEntries(second, entryList(4, 5))
	gap.Durable.Recorded++
	if _, err := s.Update(t.Context(), gap); err == nil || expected(err) {
		t.Errorf("update after a missing entry: %v", err)
	}
	early := durable("b", "o", 2)
	early.Durable.Recorded++
	if _, err := s.Create(t.Context(), early); err == nil || expected(err) {
		t.Errorf("creation with a missing entry: %v", err)
	}
	few := withEntries(second, entryList(3, 5))
	few.Durable.Recorded = 1
	if _, err := s.Update(t.Context(), few); err == nil || expected(err) {
		t.Errorf("update to fewer entries than are added: %v", err)
	}
	_, err = s.Get(t.Context(), "b")
	fails(t, "refused creation", task.ErrNotFound, err)
	equal(t, "after refused writes", second, get(t, s, "a"))
	checkJournal(t, s, "a", 3)
}

// expected reports whether an error is one of the errors that callers distinguish.
func expected(err error) bool {
	return errors.Is(err, task.ErrConflict) || errors.Is(err, task.ErrNotFound) || errors.Is(err, task.ErrExists)
}

func droppedEntries(t *testing.T, s task.Store) {
	r := create(t, s, durable("a", "o", 50))
	before, err := s.Journal(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other := create(t, s, durable("b", "o", 5))
	r.Durable = &task.Durable{Version: "v1"}
	r = update(t, s, r)
	checkJournal(t, s, "a", 0)
	r = update(t, s, withEntries(r, entryList(0, 4)))
	four, err := s.Journal(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	// The last two of four entries are replaced by two others.
	r.Durable = &task.Durable{Version: "v1", Recorded: 2}
	r = update(t, s, withEntries(r, entryList(12, 14)))
	got, err := s.Journal(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "replaced", append(entryList(0, 2), entryList(12, 14)...), got)
	r.Durable = nil
	r = update(t, s, r)
	equal(t, "without Durable", r, get(t, s, "a"))
	checkJournal(t, s, "a", 0)
	checkJournal(t, s, "b", 5)
	equal(t, "the other task", other, get(t, s, "b"))
	equal(t, "journal that was read before the entries were dropped", entryList(0, 50), before)
	equal(t, "journal that was read before entries were replaced", entryList(0, 4), four)
}

func sweptJournal(t *testing.T, s task.Store) {
	create(t, s, durable("a", "o", 10))
	later := durable("b", "o", 5)
	later.TTL = 2 * time.Hour
	create(t, s, later)
	if dropped, _, err := s.Sweep(t.Context(), start.Add(time.Hour), 10); err != nil || len(dropped) != 1 {
		t.Fatalf("dropped %v, %v", dropped, err)
	}
	_, err := s.Journal(t.Context(), "a")
	fails(t, "journal of a dropped task", task.ErrNotFound, err)
	create(t, s, full("a", "o"))
	checkJournal(t, s, "a", 0)
	checkJournal(t, s, "b", 5)
}

func journalErrors(t *testing.T, s task.Store) {
	create(t, s, durable("a", "o", 1))
	for _, id := range []string{"b", "", "\x00", string(make([]byte, 1<<10))} {
		_, err := s.Journal(t.Context(), id)
		fails(t, "journal of a missing task", task.ErrNotFound, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Journal(ctx, "a")
	fails(t, "journal with an ended context", context.Canceled, err)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Journal(t.Context(), "a")
	fails(t, "journal after Close", task.ErrClosed, err)
}

func concurrentEntries(t *testing.T, s task.Store) {
	create(t, s, durable("a", "o", 0))
	const writers = 8
	writes := repeat(s, 20)
	var group sync.WaitGroup
	done := make(chan struct{})
	group.Go(func() { // reads meanwhile
		for seen := 0; ; {
			entries, err := s.Journal(t.Context(), "a")
			if err != nil || len(entries) < seen {
				t.Errorf("%d entries after %d, %v", len(entries), seen, err)
				return
			}
			seen = len(entries)
			for n, e := range entries {
				if e.Occurrence != n+1 {
					t.Errorf("entry %d has number %d", n, e.Occurrence)
					return
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for left := writes; left > 0; {
				r, err := s.Get(t.Context(), "a")
				if err == nil {
					n := r.Durable.Recorded
					_, err = s.Update(t.Context(), withEntries(r, entryList(n, n+1)))
				}
				if err == nil {
					left--
				} else if !errors.Is(err, task.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	close(done)
	group.Wait()
	checkJournal(t, s, "a", writers*writes)
}

func waitWithEntries(t *testing.T, s task.Store) {
	r := create(t, s, durable("a", "o", 1))
	done := make(chan task.Record, 1)
	go func() {
		got, err := s.Wait(t.Context(), "a", 1)
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	blocked(t, s, 1)
	r = update(t, s, withEntries(r, entryList(1, 2)))
	equal(t, "woken with", r, <-done)
}

func interruptedEntries(t *testing.T, s task.Store) {
	for n := range repeat(s, 200) {
		id := fmt.Sprint(n)
		old := create(t, s, durable(id, id, 3))
		changed := withEntries(old, entryList(3, 5))
		if n%3 == 0 {
			changed.Result = json.RawMessage(`{"new":1}`)
		}
		err := interrupt(t, n, func(ctx context.Context) error { _, err := s.Update(ctx, changed); return err })
		got := afterPendingWrites(t, s, id)
		want, entries := withoutEntries(changed), 5
		want.Revision = 3 // afterPendingWrites updates once more
		if err != nil && got.Revision == 2 {
			want, entries = old, 3
			want.Revision = 2
		}
		equal(t, "after pending writes", want, got)
		checkJournal(t, s, id, entries)
	}
}

func reopenJournals(t *testing.T, s task.Store, reopened func(task.Store) task.Store) {
	want := map[string]task.Record{}
	for n := range 30 {
		short := durable(fmt.Sprint("short ", n), "o", n)
		short.TTL = time.Second
		create(t, s, short)
		r := create(t, s, durable(fmt.Sprint(n), "o", n))
		switch n % 3 {
		case 1:
			r.Result = json.RawMessage(`{"other":1}`)
			r = update(t, s, withEntries(r, entryList(n, n+1)))
		case 2:
			r.Status, r.Durable = mcp.TaskStatusCompleted, &task.Durable{Version: "v1"}
			r = update(t, s, r)
		}
		want[r.ID] = r
		create(t, s, plain(fmt.Sprint("plain ", n), "o"))
	}
	if swept, _, err := s.Sweep(t.Context(), start.Add(time.Minute), 100); err != nil || len(swept) != 30 {
		t.Fatalf("swept %d, %v", len(swept), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopened(s)
	for id, r := range want {
		equal(t, id, r, get(t, s, id))
		checkJournal(t, s, id, r.Durable.Recorded)
	}
	r := get(t, s, "4")
	update(t, s, withEntries(r, entryList(5, 7)))
	checkJournal(t, s, "4", 7)
	scanned := slices.Collect(func(yield func(string) bool) {
		for r, err := range s.Scan(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Durable != nil && r.ID != "4" {
				equal(t, "scanned", want[r.ID].Brief(), r)
			}
			if !yield(r.ID) {
				return
			}
		}
	})
	if len(scanned) != 60 {
		t.Errorf("scanned %d tasks, want 60", len(scanned))
	}
}

// retained tests the fields for undos, and that Sweep leaves out the tasks for which Retained
// reports true.
func retained(t *testing.T, s task.Store) {
	expired := func(id string) task.Record {
		r := durable(id, "o", 1)
		r.TTL = time.Minute
		return r
	}
	create(t, s, expired("before"))
	r := expired("undone")
	d := *r.Durable
	d.Undos, d.Undo, d.UndoSince = 1, taskrules.UndoExpired, start.Add(time.Second)
	r.Durable = &d
	r = create(t, s, r)
	equal(t, "record", r, get(t, s, "undone"))
	create(t, s, expired("after"))
	later := expired("later")
	later.TTL = time.Hour
	create(t, s, later)
	sweep := func(at time.Duration, want ...string) (next time.Time) {
		t.Helper()
		dropped, next, err := s.Sweep(t.Context(), start.Add(at), 10)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range dropped {
			got = append(got, r.ID)
		}
		slices.Sort(got)
		equal(t, fmt.Sprintf("swept at %v", at), want, got)
		return next
	}
	for range 2 {
		if next := sweep(2*time.Minute, "after", "before"); !next.Equal(start.Add(time.Hour)) {
			t.Errorf("next is %v", next)
		}
		create(t, s, expired("before"))
		create(t, s, expired("after"))
	}
	checkJournal(t, s, "undone", 1)
	r.Status, r.InputRequests, r.Durable = mcp.TaskStatusCancelled, nil, &task.Durable{Version: "v1"}
	update(t, s, r)
	sweep(2*time.Minute, "after", "before", "undone")
	sweep(2*time.Hour, "later")
}
