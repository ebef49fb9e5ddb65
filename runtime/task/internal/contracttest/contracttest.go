// Package contracttest tests whether a store fulfils the contract of [task.Store]. Package
// storetest is the part of it that other modules can use.
package contracttest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Subject is the implementation under test.
type Subject struct {
	// Open returns an empty store and registers its cleanup with t.
	Open func(t *testing.T) task.Store
	// Reopen returns a store with the records that s has persisted. s is closed. Reopen is nil for
	// a store in memory.
	Reopen func(t *testing.T, s task.Store) task.Store
	// Shared is nil for a store that one process uses at a time.
	Shared *Shared
}

// Shared describes a store that several processes use at a time, over a network.
type Shared struct {
	// Attach returns another store with the records of s, as another process would open it. If it
	// is not nil, two stores take turns in all tests.
	Attach func(t *testing.T, s task.Store) task.Store
	// Waiters returns the number of calls of Wait that s has not returned from.
	Waiters func(s task.Store) int
	// Whole makes the tests create and change all tasks, even if that takes minutes. Otherwise, the
	// tests create and change a tenth of the tasks, and fewer in short mode.
	Whole bool
}

// Run tests the stores that subject opens. Unless they are shared, each subtest runs in its own
// [synctest] bubble: channels and timers of a store must be created in Open or later. The subtests
// of shared stores run in real time.
func Run(t *testing.T, subject Subject) {
	open, reopen := subject.Open, subject.Reopen
	run := synctest.Test
	if subject.Shared != nil {
		run = func(t *testing.T, test func(*testing.T)) { test(t) }
		open = func(t *testing.T) task.Store { return share(t, subject, subject.Open(t)) }
		reopen = func(t *testing.T, s task.Store) task.Store {
			return share(t, subject, subject.Reopen(t, s.(*shared).stores[0]))
		}
	}
	for _, tt := range []struct {
		name string
		test func(*testing.T, task.Store)
	}{
		{"records survive a round trip", roundTrip},
		{"ids are unique", uniqueIDs},
		{"an update needs the current revision", updateConflicts},
		{"an update keeps constant fields", constantFields},
		{"an update keeps params or drops them", constantParams},
		{"concurrent updates are serialised", concurrentUpdates},
		{"missing tasks are not found", missingTasks},
		{"tasks of an owner are listed in order and by page", listsInOrder},
		{"owners are isolated", isolatedOwners},
		{"pages are stable under concurrent writes", stablePages},
		{"tasks expire in order", expiryOrder},
		{"tasks without TTL do not expire", unlimitedTTL},
		{"a swept task is dropped from all indexes", sweptTask},
		{"a scan yields every task once", scan},
		{"a wait returns at once for a newer revision", waitPast},
		{"a wait blocks until the next revision", waitNext},
		{"a change wakes all waiters", waitMany},
		{"a waiter misses no change", waitAll},
		{"a wait ends when its task is dropped", waitDropped},
		{"a wait ends with its context", waitContext},
		{"a closed store fails all calls", closedStore},
		{"one Manager reserves a store", reserved},
		{"calls with an ended context fail", endedContext},
		{"an interrupted update is atomic", interruptedUpdate},
		{"an interrupted creation is atomic", interruptedCreate},
		{"an interrupted sweep is completed by the next", interruptedSweep},
		{"journals survive a round trip", journalRoundTrip},
		{"a task with undos is swept once it is terminal", retained},
		{"entries are added without a change of payloads", payloadsStay},
		{"a refused write adds no entries", refusedEntries},
		{"entries are dropped and replaced", droppedEntries},
		{"concurrent updates lose no entries", concurrentEntries},
		{"a swept task has no journal", sweptJournal},
		{"a waiter receives no entries", waitWithEntries},
		{"an interrupted update of a journal is atomic", interruptedEntries},
		{"a journal is read of existing tasks in open stores", journalErrors},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run(t, func(t *testing.T) { tt.test(t, open(t)) })
		})
	}
	if subject.Reopen == nil {
		return
	}
	for _, tt := range []struct {
		name string
		test func(*testing.T, task.Store, func(task.Store) task.Store)
	}{
		{"records survive a reopen", reopenRecords},
		{"indexes survive a reopen", reopenIndexes},
		{"journals survive a reopen", reopenJournals},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			run(t, func(t *testing.T) {
				tt.test(t, open(t), func(s task.Store) task.Store { return reopen(t, s) })
			})
		})
	}
}

func reserved(t *testing.T, s task.Store) {
	release, err := s.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Acquire()
	if again != nil || !errors.Is(err, task.ErrInUse) {
		t.Errorf("reserved twice: %v", err)
	}
	release()
	if again, err = s.Acquire(); err != nil {
		t.Fatal(err)
	}
	release() // a second time
	if _, err := s.Acquire(); !errors.Is(err, task.ErrInUse) {
		t.Errorf("reserved by two callers: %v", err)
	}
	again()
	if _, ok := s.(*shared); ok {
		return
	}
	if m, err := s.Join(t.Context(), task.Member{}, fleets.Events{}); m != nil || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("joined a store that is not shared: %v, %v", m, err)
	}
	if ahead := time.Until(s.Now()); ahead.Abs() > time.Minute {
		t.Errorf("the clock is ahead by %v", ahead)
	}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

// full returns a record with all fields set.
func full(id, owner string) task.Record {
	return task.Record{
		ID: id, Owner: owner,
		Status: mcp.TaskStatusInputRequired, StatusMessage: "asking \"you\" \u2713",
		Created: start, Updated: start.Add(time.Second), TTL: time.Hour, PollInterval: 5 * time.Second,
		Method: mcp.MethodToolsCall, Params: json.RawMessage(`{"name":"n"}`), Token: codec.IntScalar(0), Name: "n",
		Restartable: true, Reruns: 2, Phase: taskrules.PhaseTrial, Lost: []string{"member-1", "member-2"}, Progress: new(0.5), Labels: []string{"gpu", "region=eu"}, Runner: "batch", Job: "job-7", Claim: task.Claim{Member: "member-1", Epoch: 3}, Trace: "00-trace-01", Bytes: 1 << 40,
		InputRequests: []task.InputRequest{
			{Number: 1, Method: mcp.MethodElicitationCreate, Params: json.RawMessage(`{}`), Result: json.RawMessage(`{"action":"accept"}`)},
			{Number: 2, Method: mcp.MethodRootsList, Params: json.RawMessage(`{}`), Error: json.RawMessage(`{"code":1,"message":"m"}`)},
			{Number: 3, Method: mcp.MethodSamplingCreateMessage, Params: json.RawMessage(`{}`)},
		},
		Result: json.RawMessage(`{"content":[]}`), Error: json.RawMessage(`{"code":-32603,"message":"x","data":null}`),
	}
}

// plain returns a record with only the required fields set.
func plain(id, owner string) task.Record {
	return task.Record{ID: id, Owner: owner, Status: mcp.TaskStatusWorking, Created: start, Updated: start, Method: mcp.MethodToolsCall}
}

func create(t *testing.T, s task.Store, r task.Record) task.Record {
	t.Helper()
	r, err := s.Create(t.Context(), r)
	if err != nil {
		t.Fatalf("create %s: %v", r.ID, err)
	}
	return r
}

func update(t *testing.T, s task.Store, r task.Record) task.Record {
	t.Helper()
	r, err := s.Update(t.Context(), r)
	if err != nil {
		t.Fatalf("update %s: %v", r.ID, err)
	}
	return r
}

func get(t *testing.T, s task.Store, id string) task.Record {
	t.Helper()
	r, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("get %s: %v", id, err)
	}
	return r
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func fails(t *testing.T, what string, want, got error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func roundTrip(t *testing.T, s task.Store) {
	for _, r := range []task.Record{
		full("full", "o"), plain("plain", ""),
		{ID: "string token", Token: codec.StringScalar(""), Status: mcp.TaskStatusCompleted, Created: start, Updated: start, Result: json.RawMessage(`{}`)},
	} {
		stored := create(t, s, r)
		if stored.Seq == 0 || stored.Revision != 1 {
			t.Errorf("%s: created with seq %d, revision %d", r.ID, stored.Seq, stored.Revision)
		}
		r.Seq, r.Revision = stored.Seq, 1
		equal(t, "created", r, stored)
		equal(t, "read", r, get(t, s, r.ID))
		r.StatusMessage, r.Result = "", json.RawMessage(`{"more":1}`)
		r = update(t, s, r)
		if r.Revision != 2 {
			t.Errorf("%s: updated to revision %d", r.ID, r.Revision)
		}
		equal(t, "read after update", r, get(t, s, r.ID))
	}
	large := plain("large", "o")
	large.Params = json.RawMessage(`"` + string(slices.Repeat([]byte("x"), 1<<20)) + `"`)
	create(t, s, large)
	if got := get(t, s, "large"); string(got.Params) != string(large.Params) {
		t.Errorf("large params returned with %d bytes", len(got.Params))
	}
}

func uniqueIDs(t *testing.T, s task.Store) {
	create(t, s, plain("a", "o"))
	_, err := s.Create(t.Context(), plain("a", "p"))
	fails(t, "same id", task.ErrExists, err)
	if got := get(t, s, "a"); got.Owner != "o" {
		t.Errorf("the owner changed to %q", got.Owner)
	}
	// Of concurrent calls with the same id, one succeeds.
	var created sync.Map
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			if _, err := s.Create(t.Context(), plain("b", fmt.Sprint(i))); err == nil {
				created.Store(i, true)
			} else {
				fails(t, "racing create", task.ErrExists, err)
			}
		})
	}
	group.Wait()
	n := 0
	created.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d of 16 calls created the same task", n)
	}
}

func updateConflicts(t *testing.T, s task.Store) {
	first := create(t, s, plain("a", "o"))
	second := first
	second.StatusMessage = "second"
	second = update(t, s, second)
	stale := first
	stale.StatusMessage = "stale"
	_, err := s.Update(t.Context(), stale)
	fails(t, "stale update", task.ErrConflict, err)
	early := second
	early.Revision = 7
	_, err = s.Update(t.Context(), early)
	fails(t, "update of a future revision", task.ErrConflict, err)
	equal(t, "after refused updates", second, get(t, s, "a"))
}

func constantFields(t *testing.T, s task.Store) {
	r := create(t, s, full("a", "o"))
	other := r
	other.Owner, other.Seq, other.Created, other.TTL, other.Token = "p", 99, start.Add(time.Hour), 0, codec.StringScalar("other")
	r.Revision = 2
	equal(t, "updated", r, update(t, s, other))
	equal(t, "read", r, get(t, s, "a"))
	if list, err := s.List(t.Context(), "p", 0, 10); err != nil || len(list) != 0 {
		t.Errorf("tasks of another owner: %v, %v", list, err)
	}
}

func constantParams(t *testing.T, s task.Store) {
	params := func(size int) json.RawMessage {
		if size == 0 {
			return nil
		}
		return json.RawMessage(fmt.Sprintf(`"%0*d"`, max(size-2, 0), size))
	}
	sizes := []int{0, 3, 6 << 10, 20 << 10, 300 << 10}
	for _, size := range sizes {
		for _, other := range sizes[1:] {
			for _, large := range []int{0, 1, 15 << 10, 300 << 10} { // of another payload
				id := fmt.Sprintf("%d %d %d", size, other, large)
				r := durable(id, "o", 0)
				r.Params, r.InputRequests[0].Params = params(size), params(large)
				r = create(t, s, r)
				check := func(what string, stored task.Record) {
					t.Helper()
					r.Revision++
					want := abridged(r)
					equal(t, id+": "+what, want, abridged(stored))
					equal(t, id+": "+what+", read", want, abridged(get(t, s, id)))
				}
				same := r
				r.StatusMessage = "same params"
				same.StatusMessage, same.Params = r.StatusMessage, slices.Clone(r.Params)
				check("same params", update(t, s, same))
				replaced := r
				r.StatusMessage = "other params"
				replaced.StatusMessage, replaced.Params = r.StatusMessage, params(other-1)
				check("other params", update(t, s, replaced))
				recorded := withEntries(r, entryList(0, 2))
				r = withoutEntries(recorded)
				recorded.Params = params(other - 1)
				check("an entry and other params", update(t, s, recorded))
				r.Params = nil
				check("no params", update(t, s, r))
				restored := r
				restored.Params = params(other)
				check("params again", update(t, s, restored))
			}
		}
	}
	if dropped, _, err := s.Sweep(t.Context(), start.Add(time.Hour), 100); err != nil || len(dropped) != 80 {
		t.Errorf("dropped %d tasks, %v", len(dropped), err)
	}
}

// abridged returns a record with digests in place of long payloads, which cmp compares slowly.
func abridged(r task.Record) task.Record {
	short := func(text json.RawMessage) json.RawMessage {
		if len(text) < 1000 {
			return text
		}
		return fmt.Appendf(nil, "%d bytes, %x", len(text), sha256.Sum256(text))
	}
	r.Params, r.InputRequests = short(r.Params), slices.Clone(r.InputRequests)
	for i := range r.InputRequests {
		r.InputRequests[i].Params = short(r.InputRequests[i].Params)
	}
	return r
}

func concurrentUpdates(t *testing.T, s task.Store) {
	create(t, s, plain("a", "o"))
	const writers = 8
	writes := repeat(s, 20)
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for done := 0; done < writes; {
				r, err := s.Get(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				r.PollInterval += time.Millisecond
				switch _, err = s.Update(t.Context(), r); {
				case err == nil:
					done++
				case !errors.Is(err, task.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	r := get(t, s, "a")
	if want := writers * writes; r.Revision != uint64(1+want) || r.PollInterval != time.Duration(want)*time.Millisecond {
		t.Errorf("%d writes resulted in revision %d and %v", writers*writes, r.Revision, r.PollInterval)
	}
}

func missingTasks(t *testing.T, s task.Store) {
	for _, id := range []string{"a", "", "\x00", string(make([]byte, 1<<10))} {
		_, err := s.Get(t.Context(), id)
		fails(t, "get", task.ErrNotFound, err)
		r := plain(id, "o")
		r.Revision = 1
		_, err = s.Update(t.Context(), r)
		fails(t, "update", task.ErrNotFound, err)
		_, err = s.Wait(t.Context(), id, 0)
		fails(t, "wait", task.ErrNotFound, err)
	}
	list, err := s.List(t.Context(), "o", 0, 10)
	if err != nil || len(list) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
	dropped, next, err := s.Sweep(t.Context(), start, 10)
	if err != nil || len(dropped) != 0 || !next.IsZero() {
		t.Errorf("sweep: %v, %v, %v", dropped, next, err)
	}
}

// page lists at most limit tasks of an owner whose Seq is greater than after. It returns their ids
// and the last Seq.
func page(t *testing.T, s task.Store, owner string, after uint64, limit int) (ids []string, last uint64) {
	t.Helper()
	list, err := s.List(t.Context(), owner, after, limit)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) > limit {
		t.Errorf("a page of %d has %d tasks", limit, len(list))
	}
	last = after
	for _, r := range list {
		if r.Seq <= last {
			t.Errorf("%s: seq %d does not follow %d", r.ID, r.Seq, last)
		}
		last = r.Seq
		ids = append(ids, r.ID)
	}
	return ids, last
}

func listsInOrder(t *testing.T, s task.Store) {
	var want []string
	n := repeat(s, 700)
	for i := range n {
		id := fmt.Sprintf("task %d", i*7919%n) // creation order differs from id order
		want = append(want, id)
		create(t, s, full(id, "o"))
	}
	r := get(t, s, want[0])
	list, err := s.List(t.Context(), "o", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "listed", []task.Record{r.Brief()}, list)
	for _, limit := range []int{1, 50, n - 1, n, 5000} {
		var got []string
		for after := uint64(0); ; {
			ids, last := page(t, s, "o", after, limit)
			if len(ids) == 0 {
				break
			}
			got, after = append(got, ids...), last
			if limit == 1 && len(got) == 3 {
				got = append(got, want[3:]...)
				break
			}
		}
		equal(t, fmt.Sprintf("pages of %d", limit), want, got)
	}
	if ids, _ := page(t, s, "o", 1<<64-1, 10); ids != nil {
		t.Errorf("tasks after the last Seq: %q", ids)
	}
}

func isolatedOwners(t *testing.T, s task.Store) {
	names := []string{"", "o", "o\x00", "oo", "\x00", "\xff", "o\xff"}
	for i, owner := range names {
		create(t, s, plain(fmt.Sprint(i), owner))
		create(t, s, plain(fmt.Sprint(i, "b"), owner))
	}
	for i, owner := range names {
		ids, _ := page(t, s, owner, 0, 100)
		equal(t, fmt.Sprintf("tasks of %q", owner), []string{fmt.Sprint(i), fmt.Sprint(i, "b")}, ids)
	}
}

func stablePages(t *testing.T, s task.Store) {
	// While the tasks are listed page by page, half of them are dropped and others are created.
	stay := map[string]bool{}
	n := repeat(s, 200)
	for i := range n {
		r := plain(fmt.Sprint("old ", i), "o")
		if i%2 == 0 {
			r.TTL = time.Second
		} else {
			stay[r.ID] = true
		}
		create(t, s, r)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for i := range n / 2 {
			create(t, s, plain(fmt.Sprint("new ", i), "o"))
			if _, _, err := s.Sweep(t.Context(), start.Add(time.Minute), 1); err != nil {
				t.Error(err)
			}
		}
	})
	seen := map[string]int{}
	for after := uint64(0); ; {
		ids, last := page(t, s, "o", after, 7)
		if len(ids) == 0 {
			break
		}
		for _, id := range ids {
			seen[id]++
		}
		after = last
	}
	group.Wait()
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was listed %d times", id, n)
		}
		delete(stay, id)
	}
	if len(stay) > 0 {
		t.Errorf("never listed: %q", slices.Sorted(maps.Keys(stay)))
	}
}

func expiryOrder(t *testing.T, s task.Store) {
	order := []int{5, 3, 9, 1, 7, 2, 8, 4, 6}
	for _, n := range order {
		r := full(fmt.Sprint(n), fmt.Sprint("owner ", n%2))
		r.TTL = time.Duration(n) * time.Minute
		create(t, s, r)
	}
	sweep := func(now time.Duration, limit int, want []string, next time.Duration) {
		t.Helper()
		dropped, at, err := s.Sweep(t.Context(), start.Add(now), limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range dropped {
			got = append(got, r.ID)
			equal(t, "swept", r.Brief(), r)
		}
		equal(t, fmt.Sprintf("swept at %v", now), want, got)
		if want := start.Add(next); !at.Equal(want) && (next != 0 || !at.IsZero()) {
			t.Errorf("at %v: next is %v, want %v", now, at, want)
		}
	}
	sweep(0, 10, nil, time.Minute)
	sweep(time.Minute-1, 10, nil, time.Minute)
	sweep(time.Minute, 10, []string{"1"}, 2*time.Minute) // a task expires exactly at Expires
	sweep(4*time.Minute, 2, []string{"2", "3"}, 4*time.Minute)
	sweep(4*time.Minute, 2, []string{"4"}, 5*time.Minute)
	r := get(t, s, "6")
	r.StatusMessage = "updated" // an update must not change the expiry index
	update(t, s, r)
	sweep(6*time.Minute, 10, []string{"5", "6"}, 7*time.Minute)
	sweep(time.Hour, 10, []string{"7", "8", "9"}, 0)
}

func unlimitedTTL(t *testing.T, s task.Store) {
	create(t, s, plain("a", "o"))
	dropped, next, err := s.Sweep(t.Context(), start.AddDate(1000, 0, 0), 10)
	if err != nil || len(dropped) != 0 || !next.IsZero() {
		t.Errorf("swept %v, next %v, %v", dropped, next, err)
	}
	get(t, s, "a")
}

func sweptTask(t *testing.T, s task.Store) {
	r := create(t, s, full("a", "o"))
	if _, _, err := s.Sweep(t.Context(), start.Add(time.Hour), 10); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(t.Context(), "a")
	fails(t, "get", task.ErrNotFound, err)
	_, err = s.Update(t.Context(), r)
	fails(t, "update", task.ErrNotFound, err)
	if ids, _ := page(t, s, "o", 0, 10); ids != nil {
		t.Errorf("listed: %q", ids)
	}
	for r, err := range s.Scan(t.Context()) {
		t.Errorf("scanned: %v, %v", r, err)
	}
	// The id can be used again, and the expiry of the dropped task does not apply to the new one.
	again := create(t, s, plain("a", "o"))
	if again.Seq <= r.Seq {
		t.Errorf("seq went from %d to %d", r.Seq, again.Seq)
	}
	if dropped, _, err := s.Sweep(t.Context(), start.Add(2*time.Hour), 10); err != nil || len(dropped) != 0 {
		t.Errorf("swept again: %v, %v", dropped, err)
	}
}

func scan(t *testing.T, s task.Store) {
	want := map[string]task.Record{}
	n := repeat(s, 300)
	for i := range n {
		r := create(t, s, full(fmt.Sprint(i), fmt.Sprint(i%3)))
		want[r.ID] = r.Brief()
	}
	got := map[string]task.Record{}
	for r, err := range s.Scan(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := got[r.ID]; twice {
			t.Errorf("%s was yielded twice", r.ID)
		}
		got[r.ID] = r
		if len(got) == n/3 {
			create(t, s, plain("new", "o")) // a scan must not block writers
		}
	}
	delete(got, "new")
	equal(t, "scanned", want, got)
	for range s.Scan(t.Context()) {
		break
	}
}

func waitPast(t *testing.T, s task.Store) {
	r := create(t, s, full("a", "o"))
	got, err := s.Wait(t.Context(), "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "waited for the first", r, got)
	r = update(t, s, r)
	got, err = s.Wait(t.Context(), "a", 1)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "waited for the second", r, got)
}

func waitNext(t *testing.T, s task.Store) {
	r := create(t, s, full("a", "o"))
	done := make(chan task.Record, 1)
	go func() {
		got, err := s.Wait(t.Context(), "a", 1)
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	blocked(t, s, 1)
	select {
	case got := <-done:
		t.Fatalf("returned revision %d before any change", got.Revision)
	default:
	}
	create(t, s, full("b", "o"))
	blocked(t, s, 1)
	if len(done) > 0 {
		t.Error("woken by a change of another task")
	}
	r.StatusMessage = "changed"
	r = update(t, s, r)
	equal(t, "woken with", r, <-done)
}

func waitMany(t *testing.T, s task.Store) {
	r := create(t, s, full("a", "o"))
	waiters := repeat(s, 1000)
	var group sync.WaitGroup
	for range waiters {
		group.Go(func() {
			if got, err := s.Wait(t.Context(), "a", 1); err != nil || got.Revision != 2 {
				t.Errorf("woken with revision %d, %v", got.Revision, err)
			}
		})
	}
	blocked(t, s, waiters)
	update(t, s, r)
	group.Wait()
}

func waitAll(t *testing.T, s task.Store) {
	// Waiters loop during concurrent writes. They must receive increasing revisions, up to the
	// last.
	const waiters = 8
	writes := repeat(s, 100)
	create(t, s, plain("a", "o"))
	var group sync.WaitGroup
	for range waiters {
		group.Go(func() {
			for seen := uint64(0); seen < uint64(1+2*writes); {
				r, err := s.Wait(t.Context(), "a", seen)
				if err != nil {
					t.Error(err)
					return
				}
				if r.Revision <= seen {
					t.Errorf("revision %d was returned after %d", r.Revision, seen)
					return
				}
				seen = r.Revision
			}
		})
	}
	for range 2 {
		group.Go(func() {
			for done := 0; done < writes; {
				r, err := s.Get(t.Context(), "a")
				if err == nil {
					_, err = s.Update(t.Context(), r)
				}
				if err == nil {
					done++
				} else if !errors.Is(err, task.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

func waitDropped(t *testing.T, s task.Store) {
	create(t, s, full("a", "o"))
	done := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), "a", 1)
		done <- err
	}()
	blocked(t, s, 1)
	if _, _, err := s.Sweep(t.Context(), start.Add(time.Hour), 10); err != nil {
		t.Fatal(err)
	}
	fails(t, "wait", task.ErrNotFound, <-done)
}

func waitContext(t *testing.T, s task.Store) {
	create(t, s, plain("a", "o"))
	timeout := time.Minute // of the bubble
	if _, ok := s.(*shared); ok {
		timeout = 10 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	_, err := s.Wait(ctx, "a", 1)
	fails(t, "wait", context.DeadlineExceeded, err)
}

func closedStore(t *testing.T, s task.Store) {
	r := create(t, s, plain("a", "o"))
	done := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), "a", 1)
		done <- err
	}()
	blocked(t, s, 1)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	fails(t, "blocked wait", task.ErrClosed, <-done)
	_, err := s.Create(t.Context(), plain("b", "o"))
	fails(t, "create", task.ErrClosed, err)
	_, err = s.Get(t.Context(), "a")
	fails(t, "get", task.ErrClosed, err)
	_, err = s.Update(t.Context(), r)
	fails(t, "update", task.ErrClosed, err)
	_, err = s.Wait(t.Context(), "a", 0)
	fails(t, "wait", task.ErrClosed, err)
	_, err = s.List(t.Context(), "o", 0, 1)
	fails(t, "list", task.ErrClosed, err)
	_, _, err = s.Sweep(t.Context(), start, 1)
	fails(t, "sweep", task.ErrClosed, err)
	n := 0
	for _, err := range s.Scan(t.Context()) {
		n++
		fails(t, "scan", task.ErrClosed, err)
	}
	if n != 1 {
		t.Errorf("a scan of a closed store yielded %d times, want once", n)
	}
}

func endedContext(t *testing.T, s task.Store) {
	r := create(t, s, plain("a", "o"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Create(ctx, plain("b", "o"))
	fails(t, "create", context.Canceled, err)
	_, err = s.Get(ctx, "a")
	fails(t, "get", context.Canceled, err)
	_, err = s.Update(ctx, r)
	fails(t, "update", context.Canceled, err)
	_, err = s.Wait(ctx, "a", 1)
	fails(t, "wait", context.Canceled, err)
	_, err = s.List(ctx, "o", 0, 1)
	fails(t, "list", context.Canceled, err)
	_, _, err = s.Sweep(ctx, start, 1)
	fails(t, "sweep", context.Canceled, err)
}

// interrupt calls write with a context that ends during the call, at a different moment for each n.
// It returns the error of write, which must be that of the context. The store may still make the
// change, but only before the next write that is not interrupted.
func interrupt(t *testing.T, n int, write func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // ends with the loop
		for range n % 50 {
			runtime.Gosched()
		}
		cancel()
	}()
	defer cancel()
	err := write(ctx)
	if err != nil {
		fails(t, "interrupted write", context.Canceled, err)
	}
	return err
}

// afterPendingWrites updates the record of a task and returns it. No interrupted write is pending
// after that.
func afterPendingWrites(t *testing.T, s task.Store, id string) task.Record {
	t.Helper()
	for {
		r, err := s.Update(t.Context(), get(t, s, id))
		if errors.Is(err, task.ErrConflict) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		equal(t, "read", r, get(t, s, id))
		return r
	}
}

func interruptedUpdate(t *testing.T, s task.Store) {
	for n := range repeat(s, 200) {
		id := fmt.Sprint(n)
		old := create(t, s, full(id, id))
		changed := old
		changed.StatusMessage, changed.InputRequests, changed.Result = "changed", nil, json.RawMessage(`{"new":1}`)
		err := interrupt(t, n, func(ctx context.Context) error { _, err := s.Update(ctx, changed); return err })
		got := afterPendingWrites(t, s, id)
		want := changed
		want.Revision = 3 // afterPendingWrites updates once more
		if err != nil && got.Revision == 2 {
			want, want.Revision = old, 2
		}
		equal(t, "after pending writes", want, got)
		list, err := s.List(t.Context(), id, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "listed", []task.Record{got.Brief()}, list)
	}
}

func interruptedCreate(t *testing.T, s task.Store) {
	for n := range repeat(s, 200) {
		id := fmt.Sprint(n)
		want := full(id, id)
		err := interrupt(t, n, func(ctx context.Context) error { _, err := s.Create(ctx, want); return err })
		_, again := s.Create(t.Context(), want)
		if again != nil {
			fails(t, "created again", task.ErrExists, again)
		} else if err == nil {
			t.Errorf("%s was created twice", id)
		}
		got := afterPendingWrites(t, s, id)
		want.Seq, want.Revision = got.Seq, 2
		equal(t, "after pending writes", want, got)
		list, err := s.List(t.Context(), id, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "listed", []task.Record{got.Brief()}, list)
	}
}

func interruptedSweep(t *testing.T, s task.Store) {
	const batch = 50
	for n := range repeat(s, 20) {
		var ids []string
		var waiting sync.WaitGroup
		for i := range batch {
			id := fmt.Sprint(n, "-", i)
			ids = append(ids, id)
			waiting.Go(func() {
				if _, err := s.Create(t.Context(), full(id, "o")); err != nil {
					t.Error(err)
				}
				_, err := s.Wait(t.Context(), id, 1)
				fails(t, "wait for a task that is swept", task.ErrNotFound, err)
			})
		}
		blocked(t, s, batch)
		interrupt(t, n, func(ctx context.Context) error {
			swept, _, err := s.Sweep(ctx, start.Add(time.Hour), batch)
			for _, r := range swept {
				if r.ID == "" {
					t.Error("a swept task has no id")
				}
			}
			return err
		})
		if _, _, err := s.Sweep(t.Context(), start.Add(time.Hour), batch); err != nil {
			t.Fatal(err)
		}
		// The interrupted sweep may be pending until now.
		create(t, s, plain(fmt.Sprint("later ", n), "p"))
		waiting.Wait()
		for _, id := range ids {
			_, err := s.Get(t.Context(), id)
			fails(t, "get", task.ErrNotFound, err)
		}
		if ids, _ := page(t, s, "o", 0, 10); ids != nil {
			t.Errorf("listed: %q", ids)
		}
	}
}

func reopenRecords(t *testing.T, s task.Store, reopened func(task.Store) task.Store) {
	want := map[string]task.Record{}
	for i := range repeat(s, 300) {
		r := create(t, s, full(fmt.Sprint(i), "o"))
		if i%3 == 0 {
			r.StatusMessage = "updated"
			r = update(t, s, r)
		}
		want[r.ID] = r
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopened(s)
	for id, r := range want {
		equal(t, id, r, get(t, s, id))
	}
}

func reopenIndexes(t *testing.T, s task.Store, reopened func(task.Store) task.Store) {
	for i := range 10 {
		r := plain(fmt.Sprint(i), "o")
		r.TTL = time.Duration(10-i) * time.Minute
		create(t, s, r)
	}
	// Drops 9 and 8.
	if _, _, err := s.Sweep(t.Context(), start.Add(2*time.Minute), 10); err != nil {
		t.Fatal(err)
	}
	_, last := page(t, s, "o", 0, 4)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopened(s)
	create(t, s, plain("later", "o"))
	ids, _ := page(t, s, "o", last, 10) // last is from before the reopen
	equal(t, "second page", []string{"4", "5", "6", "7", "later"}, ids)
	dropped, next, err := s.Sweep(t.Context(), start.Add(3*time.Minute), 10)
	if err != nil || len(dropped) != 1 || dropped[0].ID != "7" || !next.Equal(start.Add(4*time.Minute)) {
		t.Errorf("swept %v, next %v, %v", dropped, next, err)
	}
	r := get(t, s, "6")
	r = update(t, s, r)
	if got, err := s.Wait(t.Context(), "6", r.Revision-1); err != nil || got.Revision != r.Revision {
		t.Errorf("waited: revision %d, %v", got.Revision, err)
	}
}
