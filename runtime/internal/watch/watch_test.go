package watch_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/watch"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// revisionStore stores the revisions of a few tasks and publishes their changes to a Hub.
type revisionStore struct {
	hub watch.Hub

	mu        sync.Mutex
	revisions map[string]uint64
}

func (s *revisionStore) get(_ context.Context, id string) (task.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision, ok := s.revisions[id]
	if !ok {
		return task.Record{}, task.ErrNotFound
	}
	return task.Record{ID: id, Revision: revision}, nil
}

// write increments the revision of a task and publishes the record.
func (s *revisionStore) write(id string) {
	s.mu.Lock()
	s.revisions[id]++
	r := task.Record{ID: id, Revision: s.revisions[id]}
	s.mu.Unlock()
	s.hub.Publish(&r)
}

// drop removes a task and wakes its waiters.
func (s *revisionStore) drop(id string) {
	s.mu.Lock()
	delete(s.revisions, id)
	s.mu.Unlock()
	s.hub.Remove(id)
}

// A waiter misses no change and receives no record of another task and no earlier revision, while
// other waiters join and leave. Each task is written until all waiters have received its last
// revision.
func TestWaitersMissNoChange(t *testing.T) {
	const last, waiters = 300, 8
	s := &revisionStore{revisions: map[string]uint64{}}
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		s.revisions[id] = 1
	}
	var group sync.WaitGroup
	for _, id := range ids {
		for range waiters {
			group.Go(func() {
				for seen := uint64(1); seen < last; {
					var r task.Record
					err := s.hub.Wait(t.Context(), id, seen, s.get, &r)
					if err != nil || r.ID != id || r.Revision <= seen {
						t.Errorf("%s after revision %d: %+v, %v", id, seen, r, err)
						return
					}
					seen = r.Revision
				}
			})
			group.Go(func() { // waiters that are cancelled
				for range last {
					ctx, cancel := context.WithCancel(context.Background())
					both := lazyctx.WithBoth(ctx, t.Context())
					if rand.IntN(2) == 0 {
						cancel()
					} else {
						go cancel()
					}
					var r task.Record
					err := s.hub.Wait(both, id, last, s.get, &r)
					if err != context.Canceled {
						t.Errorf("cancelled waiter: %+v, %v", r, err)
					}
					both.Release()
				}
			})
		}
		group.Go(func() {
			for range last - 1 {
				s.write(id)
			}
		})
	}
	group.Wait()
}

func TestAllWaitersAreWoken(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*revisionStore)
		want error
	}{
		"when the task is dropped": {func(s *revisionStore) { s.drop("a") }, task.ErrNotFound},
		"when the store closes":    {func(s *revisionStore) { s.hub.Close() }, task.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &revisionStore{revisions: map[string]uint64{"a": 1, "b": 1}}
				const s1, s2, hour = time.Second, 2 * time.Second, time.Hour
				woken := make(chan error, 10)
				// Each waiter leaves after this time unless it was woken.
				for _, after := range []time.Duration{hour, s1, s2, hour, s2, s1, hour, s2} {
					ctx, leave := context.WithCancel(t.Context())
					go func() {
						if err := s.hub.Wait(ctx, "a", 1, s.get, new(task.Record)); ctx.Err() == nil {
							woken <- err
						}
					}()
					synctest.Wait()
					time.AfterFunc(after, leave)
				}
				time.Sleep(time.Minute)
				test.end(s)
				synctest.Wait()
				if len(woken) != 3 {
					t.Fatalf("%d of 3 waiters were woken", len(woken))
				}
				for range 3 {
					if err := <-woken; !errors.Is(err, test.want) {
						t.Errorf("got %v, want %v", err, test.want)
					}
				}
			})
		})
	}
}
