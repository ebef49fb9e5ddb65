package task

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Errors of a [Store], perhaps wrapped.
var (
	// ErrNotFound reports that the store has no such task.
	ErrNotFound = errors.New("task: not found")
	// ErrExists reports that a task with that id exists.
	ErrExists = errors.New("task: id is taken")
	// ErrConflict reports that the record was written since it was read.
	ErrConflict = errors.New("task: record was changed by another writer")
	// ErrCorrupt reports that stored data is damaged. Damaged data is never returned.
	ErrCorrupt = errors.New("task: store is corrupt")
	// ErrClosed reports that the store or the Manager was closed.
	ErrClosed = errors.New("task: closed")
	// ErrInUse reports that another Manager uses the store.
	ErrInUse = errors.New("task: store is in use by another Manager")
)

// Store keeps the records of tasks. The [Manager] enforces legal moves, ownership and the end of
// tasks. A store orders writes by compare-and-swap and loses no acknowledged write.
//
// All methods may be called by many goroutines. They return the context's error if it ends first; a
// write may have happened nevertheless. Package storetest tests this contract.
type Store interface {
	// Create stores a new record with the next Seq and Revision 1, and returns it with both.
	// It fails with ErrExists if the id is taken.
	Create(ctx context.Context, r Record) (Record, error)

	// Get returns the record of a task, or fails with ErrNotFound.
	Get(ctx context.Context, id string) (Record, error)

	// Update stores the record in place of the one with the same id if that still has the
	// revision r.Revision, and returns it with the next one. It fails with ErrConflict if it
	// has another revision, and with ErrNotFound if it is gone. ID, Owner, Seq, Created and
	// TTL stay as they were created, whatever r says.
	Update(ctx context.Context, r Record) (Record, error)

	// Wait returns the record of a task as soon as its revision is greater than the given one,
	// which may be at once; it fails with ErrNotFound when the task is gone. Several writes may
	// be seen as one, but the latest is always seen, by everybody who waits.
	Wait(ctx context.Context, id string, revision uint64) (Record, error)

	// List returns the tasks of an owner whose Seq is greater than after, in the order of
	// their Seq and at most limit of them, as briefs (see [Record.Brief]). What it costs does
	// not depend on how many tasks there are.
	List(ctx context.Context, owner string, after uint64, limit int) ([]Record, error)

	// Sweep drops tasks that have expired by now, those that have been so for longest first and at
	// most limit of them, and returns their briefs. Next is when the earliest of those left
	// expires, or the zero time if none ever does. Whoever waits for one that was dropped is woken.
	Sweep(ctx context.Context, now time.Time, limit int) (gone []Record, next time.Time, err error)

	// Scan goes over the briefs of all tasks in no particular order. One that is there all the
	// while comes once. An error ends it.
	Scan(ctx context.Context) iter.Seq2[Record, error]

	// Close ends all use of the store; Waits under way, and later calls, fail with ErrClosed.
	// What was acknowledged is kept if the store is durable. It may be called again.
	Close() error
}

// Exclusive is a [Store] that says whether a Manager uses it already. [New] calls Acquire, and the
// Manager calls release when it has closed and all of its work has returned. The stores of this
// module are Exclusive.
type Exclusive interface {
	// Acquire fails with [ErrInUse] while another caller has the store.
	Acquire() (release func(), err error)
}

// HealthChecker is a [Store] that knows whether it works; see [Manager.Health].
type HealthChecker interface {
	// Health returns why the store takes no writes at the moment, or nil if it does.
	Health() error
}
