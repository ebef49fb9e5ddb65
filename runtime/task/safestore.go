package task

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// safeStore calls a Store and returns its panics as errors. It notes failures in an outage. Its
// methods take Records by pointer and change them only if the Store returns one. Copies of Records
// would make the stack of each goroutine grow. That would cost more than the rest of the call.
type safeStore struct {
	store  Store
	outage *outage
}

// noSet stands for a call that may take any time.
const noSet = -1

// ended notes the outcome of a call with ctx. Set is what [outage.begin] has returned, or noSet. The
// errors of other contexts, such as those of the requests of a store to its servers, become failures
// like any other. To call it after [boundary.Catch], defer it before.
func (g safeStore) ended(ctx context.Context, set int32, write bool, err *error) {
	if set != noSet {
		g.outage.end(set)
	}
	if *err != nil && ctx.Err() == nil && (errors.Is(*err, context.Canceled) || errors.Is(*err, context.DeadlineExceeded)) {
		*err = errors.New(boundary.ErrorText(*err))
	}
	g.outage.note(write, *err)
}

func (g safeStore) acquire() (release func(), err error) {
	defer boundary.Catch(&err)
	return g.store.Acquire()
}

func (g safeStore) create(r *Record) (err error) {
	defer g.ended(context.Background(), g.outage.begin(), true, &err)
	defer boundary.Catch(&err)
	stored, failed := g.store.Create(context.Background(), *r)
	if failed == nil {
		*r = stored
	}
	return failed
}

// get sets r to the record of a task. In a fleet, it may fail with errOutdated; see latestStore.
func (g safeStore) get(ctx context.Context, id string, r *Record) (err error) {
	defer g.ended(ctx, g.outage.begin(), false, &err)
	defer boundary.Catch(&err)
	stored, failed := g.store.Get(ctx, id)
	if failed == nil {
		*r = stored
	}
	return failed
}

func (g safeStore) journal(ctx context.Context, id string) (entries []Entry, err error) {
	defer g.ended(ctx, g.outage.begin(), false, &err)
	defer boundary.Catch(&err)
	return g.store.Journal(ctx, id)
}

func (g safeStore) update(r *Record) (err error) {
	defer g.ended(context.Background(), g.outage.begin(), true, &err)
	defer boundary.Catch(&err)
	stored, failed := g.store.Update(context.Background(), *r)
	if failed == nil {
		*r = stored
	}
	return failed
}

// wait sets r to a later revision of it.
func (g safeStore) wait(ctx context.Context, r *Record) (err error) {
	defer g.ended(ctx, noSet, false, &err)
	defer boundary.Catch(&err)
	later, failed := g.store.Wait(ctx, r.ID, r.Revision)
	if failed == nil {
		*r = later
	}
	return failed
}

func (g safeStore) list(ctx context.Context, owner string, after uint64, limit int) (briefs []Record, err error) {
	defer g.ended(ctx, g.outage.begin(), false, &err)
	defer boundary.Catch(&err)
	return g.store.List(ctx, owner, after, limit)
}

func (g safeStore) sweep(now time.Time, limit int) (dropped []Record, next time.Time, err error) {
	defer g.ended(context.Background(), g.outage.begin(), false, &err)
	defer boundary.Catch(&err)
	return g.store.Sweep(context.Background(), now, limit)
}

func (g safeStore) scan(ctx context.Context) iter.Seq2[Record, error] {
	return safely(func() iter.Seq2[Record, error] { return g.store.Scan(ctx) })
}

// safely iterates over what f returns, and yields a panic as an error.
func safely(f func() iter.Seq2[Record, error]) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		more := true
		err := boundary.Run(func() error {
			for r, err := range f() {
				if more = yield(r, err); !more {
					break
				}
			}
			return nil
		})
		if err != nil && more {
			yield(Record{}, err)
		}
	}
}
