package contracttest

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// shared is a store whose calls are distributed over several stores with the same records.
type shared struct {
	stores  []task.Store
	waiters func(task.Store) int
	whole   bool
	calls   atomic.Uint32
}

// share returns a store that takes turns between first and a store that is attached to it.
func share(t *testing.T, subject Subject, first task.Store) *shared {
	s := &shared{stores: []task.Store{first}, waiters: subject.Shared.Waiters, whole: subject.Shared.Whole}
	if subject.Shared.Attach != nil {
		s.stores = append(s.stores, subject.Shared.Attach(t, first))
	}
	return s
}

// repeat returns how often a test repeats what it does n times with stores that are not shared.
func repeat(s task.Store, n int) int {
	several, ok := s.(*shared)
	switch {
	case !ok || several.whole:
		return n
	case testing.Short():
		return max(n/50, 3)
	}
	return max(n/10, 3)
}

// blocked returns once n calls of Wait are blocked and other goroutines that the test has started
// have made no call since.
func blocked(t *testing.T, s task.Store, n int) {
	t.Helper()
	several, ok := s.(*shared)
	if !ok {
		synctest.Wait()
		return
	}
	eventually(t, fmt.Sprint(n, " calls of Wait were blocked"), func() bool {
		if t.Failed() {
			t.FailNow()
		}
		waiting := 0
		for _, s := range several.stores {
			waiting += several.waiters(s)
		}
		return waiting == n
	})
}

// next returns the store for the next call.
func (s *shared) next() task.Store { return s.stores[int(s.calls.Add(1))%len(s.stores)] }

func (s *shared) Create(ctx context.Context, r task.Record) (task.Record, error) {
	return s.next().Create(ctx, r)
}

func (s *shared) Get(ctx context.Context, id string) (task.Record, error) {
	return s.next().Get(ctx, id)
}

func (s *shared) Journal(ctx context.Context, id string) ([]task.Entry, error) {
	return s.next().Journal(ctx, id)
}

func (s *shared) Update(ctx context.Context, r task.Record) (task.Record, error) {
	return s.next().Update(ctx, r)
}

func (s *shared) Wait(ctx context.Context, id string, revision uint64) (task.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.next().Wait(ctx, id, revision)
}

func (s *shared) List(ctx context.Context, owner string, after uint64, limit int) ([]task.Record, error) {
	return s.next().List(ctx, owner, after, limit)
}

func (s *shared) Sweep(ctx context.Context, now time.Time, limit int) ([]task.Record, time.Time, error) {
	return s.next().Sweep(ctx, now, limit)
}

func (s *shared) Scan(ctx context.Context) iter.Seq2[task.Record, error] { return s.next().Scan(ctx) }

func (s *shared) Acquire() (release func(), err error) { return s.stores[0].Acquire() }

func (s *shared) Join(ctx context.Context, m task.Member, e fleets.Events) (fleets.Membership[task.Member, task.Record], error) {
	return s.stores[0].Join(ctx, m, e)
}

func (s *shared) Now() time.Time { return s.next().Now() }

func (s *shared) Health() error { return s.stores[0].Health() }

func (s *shared) Close() error {
	for _, store := range s.stores {
		if err := store.Close(); err != nil {
			return err
		}
	}
	return nil
}
