package task

import (
	"context"
	"iter"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// guarded is a Store whose panics are errors.
type guarded struct{ Store }

func (g guarded) Create(ctx context.Context, r Record) (stored Record, err error) {
	defer boundary.Catch(&err)
	return g.Store.Create(ctx, r)
}

func (g guarded) Get(ctx context.Context, id string) (r Record, err error) {
	defer boundary.Catch(&err)
	return g.Store.Get(ctx, id)
}

func (g guarded) Update(ctx context.Context, r Record) (stored Record, err error) {
	defer boundary.Catch(&err)
	return g.Store.Update(ctx, r)
}

func (g guarded) Wait(ctx context.Context, id string, revision uint64) (r Record, err error) {
	defer boundary.Catch(&err)
	return g.Store.Wait(ctx, id, revision)
}

func (g guarded) List(ctx context.Context, owner string, after uint64, limit int) (list []Record, err error) {
	defer boundary.Catch(&err)
	return g.Store.List(ctx, owner, after, limit)
}

func (g guarded) Sweep(ctx context.Context, now time.Time, limit int) (gone []Record, next time.Time, err error) {
	defer boundary.Catch(&err)
	return g.Store.Sweep(ctx, now, limit)
}

func (g guarded) Scan(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		more := true
		err := boundary.Run(func() error {
			for r, err := range g.Store.Scan(ctx) {
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
