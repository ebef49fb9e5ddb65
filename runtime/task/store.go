package task

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
)

// Errors of a [Store], possibly wrapped.
var (
	// ErrNotFound reports that the store has no such task.
	ErrNotFound = errors.New("task: not found")
	// ErrExists reports that a task with that id exists.
	ErrExists = errors.New("task: id already exists")
	// ErrConflict reports that the record was written since it was read.
	ErrConflict = errors.New("task: record was changed by another writer")
	// ErrCorrupt reports that stored data is damaged. Damaged data is never returned.
	ErrCorrupt = errors.New("task: store is corrupt")
	// ErrClosed reports that the store or the Manager was closed.
	ErrClosed = errors.New("task: closed")
	// ErrLocked reports that another process uses the store, which is for one process at a time.
	// The store may be free later.
	ErrLocked = errors.New("task: store is in use by another process")
	// ErrInUse reports that another Manager uses the store.
	ErrInUse = errors.New("task: store is in use by another Manager")
)

// Store stores the records of tasks. The [Manager] checks legal moves, ownership and expiry. A
// store provides compare-and-swap, and never loses an acknowledged write.
//
// A task with [Record].Durable has a journal. A write that adds entries to it should cost no more
// for a long journal than for a short one: the record and the entries change together, but the
// earlier entries, and payloads that stay as they are, need not be written again. The same holds
// for the Params of any task, which may be large and never change.
//
// All methods may be called concurrently. They return the error of their context if it ends first;
// a write may have happened nevertheless. A store that cannot hold a record because of its size
// writes nothing and returns a [*LimitError] with [CodeTooManyBytes]: after other errors, the
// Manager repeats the write. Package storetest tests this contract.
//
// There are two kinds of stores. A shared store is used by the Managers of several processes at
// once; they form a fleet, see [Store].Join. Each Manager opens it for itself. Its reads are never
// out of date: Get, Journal, Scan and Orphans of a membership return what was written, by any
// process, before they were called. Any other store is used by one Manager at a time, and embeds
// [Local]. Everything that a store can do is a method of this interface, so a type that embeds a
// Store and replaces some of its methods loses none of the others.
type Store interface {
	// Create stores a new record with the next Seq and with Revision 1, and returns it. It fails
	// with ErrExists if the id exists. The entries of the record are its journal. If Create has
	// failed and the record may still appear later, the error wraps ErrDoubtful.
	Create(ctx context.Context, r Record) (Record, error)

	// Get returns the record of a task. It fails with ErrNotFound if there is none.
	Get(ctx context.Context, id string) (Record, error)

	// Journal returns all entries of the journal of a task, in the order in which they were added.
	// It fails with ErrNotFound if there is no such task.
	Journal(ctx context.Context, id string) ([]Entry, error)

	// Update replaces the record that has the id r.ID, if its revision is r.Revision, and returns
	// the new record with the next revision. It fails with ErrConflict if the revision differs, and
	// with ErrNotFound if there is no such record. It never changes ID, Owner, Seq, Created, TTL,
	// Token and Params, except that it drops the Params if r has none. The Manager does so once the
	// task is terminal.
	//
	// The last entries of the journal are then those of r, and as many of the stored entries
	// precede them as make up r.Durable.Recorded. So entries are added if Recorded counts the
	// stored and the new ones, and all are dropped if it is 0. Update fails if fewer entries are
	// stored.
	Update(ctx context.Context, r Record) (Record, error)

	// Wait returns the record of a task once its revision is greater than the given one. It fails
	// with ErrNotFound once the task is dropped. Wait may miss intermediate revisions, but every
	// waiter receives the latest one.
	Wait(ctx context.Context, id string, revision uint64) (Record, error)

	// List returns at most limit tasks of an owner whose Seq is greater than after, in ascending
	// order of Seq, as briefs (see [Record.Brief]). Its cost does not depend on the number of tasks
	// in the store.
	List(ctx context.Context, owner string, after uint64, limit int) ([]Record, error)

	// Sweep drops at most limit tasks that have expired at now, in the order of their expiry, and
	// returns their briefs. It wakes their waiters. It leaves out tasks for which [Record.Retained]
	// reports true; a later Sweep drops them. Next is the time at which the first of the remaining
	// tasks expires, apart from those, or the zero time if none ever does.
	Sweep(ctx context.Context, now time.Time, limit int) (dropped []Record, next time.Time, err error)

	// Scan iterates over the briefs of all tasks in no particular order. It yields each task that
	// exists during the whole scan exactly once. It stops after the first error.
	Scan(ctx context.Context) iter.Seq2[Record, error]

	// Close ends all use of the store: pending Waits and later calls fail with ErrClosed. A durable
	// store keeps all acknowledged writes. Close may be called again.
	Close() error

	// Acquire reserves the store for one Manager. It fails with [ErrInUse] while the store is
	// reserved, and with [ErrLocked] while another process uses a store that is not shared. [New]
	// calls it. The Manager calls release once it has closed and all of its work has returned. If
	// the store is shared, other Managers open it again.
	Acquire() (release func(), err error)

	// Join makes the caller a member of the fleet of a shared store until its Leave is called, or
	// until its lease ends because the store cannot be reached. Then the caller may join
	// again. Events are reported from then on. Each unfinished task is held by one member; see
	// [Claim]. If that member ends, another one takes the task over and runs its work again. If the
	// store is not shared, Join fails with [errors.ErrUnsupported]. Its types are internal, so only a
	// store of this module can be shared; others embed [Local], or a Store.
	Join(ctx context.Context, m Member, e fleets.Events) (fleets.Membership[Member, Record], error)

	// Now returns the present time by a clock that all processes of a shared store have in common,
	// such as that of its servers: the wall clocks of processes may be wrong, and may be set while
	// they run. It returns at once, and may be wrong by some seconds. Without such a clock it
	// returns [time.Now].
	Now() time.Time

	// Health returns nil if the store accepts writes, and otherwise the reason why it does not. It
	// returns at once. A store that does not know fails with [errors.ErrUnsupported]; see
	// [Manager.Health].
	Health() error
}

// Local is embedded in a [Store] that is not shared. Its methods are those of a store for one
// Manager at a time, in one process. A store may replace Health. The zero value is ready to use. A
// Local must not be copied after its first use.
type Local struct{ acquired atomic.Bool }

// Acquire implements [Store]. Of several callers, one reserves the store until it calls release.
func (l *Local) Acquire() (release func(), err error) {
	if !l.acquired.CompareAndSwap(false, true) {
		return nil, ErrInUse
	}
	return sync.OnceFunc(func() { l.acquired.Store(false) }), nil
}

// Join implements [Store]. It fails with [errors.ErrUnsupported].
func (*Local) Join(context.Context, Member, fleets.Events) (fleets.Membership[Member, Record], error) {
	return nil, fmt.Errorf("task: join: the store is not shared: %w", errors.ErrUnsupported)
}

// Now implements [Store]. It returns [time.Now].
func (*Local) Now() time.Time { return time.Now() }

// Health implements [Store]. It fails with [errors.ErrUnsupported].
func (*Local) Health() error {
	return fmt.Errorf("task: the store does not report its health: %w", errors.ErrUnsupported)
}
