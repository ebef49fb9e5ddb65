package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// Import copies all tasks of store from, such as a bolt file, to store to, and returns the number
// of tasks that it has created. It keeps their ids, owners, contents and journals, and for each
// owner the order of creation; revisions start at 1. Import acquires from, as a Manager does, and
// no other caller may use to meanwhile.
// You can repeat an interrupted import: it skips the tasks that it has copied. It fails with
// [task.ErrExists] if to has a different task with the same id. If both stores have the default key
// of server.Options.Shared.StateKeys, that of to stays: calls that wait for input without a task
// and whose state has the other key then fail.
func Import(ctx context.Context, to, from task.Store) (created int, err error) {
	type entry struct {
		owner, id string
		seq       uint64
	}
	release, err := from.Acquire()
	if err != nil {
		return 0, fmt.Errorf("jetstream: import: %w", err)
	}
	defer release()
	var tasks []entry
	for r, err := range from.Scan(ctx) {
		if err != nil {
			return 0, fmt.Errorf("jetstream: import: %w", err)
		}
		tasks = append(tasks, entry{r.Owner, r.ID, r.Seq})
	}
	slices.SortFunc(tasks, func(a, b entry) int { return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.seq, b.seq)) })
	// The tasks of an owner are copied one after the other, and several owners at once.
	owners := slices.Collect(func(yield func([]entry) bool) {
		for from := 0; from < len(tasks); {
			n := from + 1
			for n < len(tasks) && tasks[n].owner == tasks[from].owner {
				n++
			}
			if !yield(tasks[from:n]) {
				return
			}
			from = n
		}
	})
	counts := make([]int, len(owners))
	err = parallel(len(owners), readers, func(n int) error {
		for _, t := range owners[n] {
			copied, err := importTask(ctx, to, from, t.id)
			if err != nil {
				return fmt.Errorf("jetstream: import task %q: %w", t.id, err)
			}
			if copied {
				counts[n]++
			}
		}
		return nil
	})
	for _, n := range counts {
		created += n
	}
	return created, err
}

// importTask copies a task and reports whether it did not exist.
func importTask(ctx context.Context, to, from task.Store, id string) (created bool, err error) {
	r, err := from.Get(ctx, id)
	if err != nil {
		return false, err
	}
	if r.Durable != nil {
		entries, err := from.Journal(ctx, id)
		if err != nil {
			return false, err
		}
		d := *r.Durable
		d.Recorded, d.Entries = len(entries), entries
		r.Durable = &d
	}
	r.Claim = task.Claim{}
	_, err = to.Create(ctx, r)
	if !errors.Is(err, task.ErrExists) {
		return err == nil, err
	}
	present, failed := to.Get(ctx, id)
	if failed != nil {
		return false, failed
	}
	if present.Owner == r.Owner && (noTask(r.Owner) || present.Created.Equal(r.Created)) {
		return false, nil
	}
	return false, err
}

// noTask reports whether a record with the owner is no task of a principal, but something that
// servers keep in their store: the owner begins with a zero byte.
func noTask(owner string) bool { return strings.HasPrefix(owner, "\x00") }
