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
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/internal/watch"
)

// shelf is a store of the revisions of a few tasks, as far as a Hub needs one.
type shelf struct {
	hub watch.Hub

	mu        sync.Mutex
	revisions map[string]uint64
}

func (s *shelf) get(_ context.Context, id string) (task.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	revision, ok := s.revisions[id]
	if !ok {
		return task.Record{}, task.ErrNotFound
	}
	return task.Record{ID: id, Revision: revision}, nil
}

// write writes a task again, and tells of it.
func (s *shelf) write(id string) {
	s.mu.Lock()
	s.revisions[id]++
	r := task.Record{ID: id, Revision: s.revisions[id]}
	s.mu.Unlock()
	s.hub.Tell(&r)
}

// drop takes a task away, and tells of it.
func (s *shelf) drop(id string) {
	s.mu.Lock()
	delete(s.revisions, id)
	s.mu.Unlock()
	s.hub.Gone(id)
}

// Nobody who waits misses a change, is told of another task's, or is told of one that was before, however many others
// come and go meanwhile: a task is written until all have seen its last revision.
func TestNobodyMissesAChange(t *testing.T) {
	const last, waiters = 300, 8
	s := &shelf{revisions: map[string]uint64{}}
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		s.revisions[id] = 1
	}
	var group sync.WaitGroup
	for _, id := range ids {
		for range waiters {
			group.Go(func() {
				for seen := uint64(1); seen < last; {
					r, err := s.hub.Wait(t.Context(), id, seen, s.get)
					if err != nil || r.ID != id || r.Revision <= seen {
						t.Errorf("%s behind revision %d: %+v, %v", id, seen, r, err)
						return
					}
					seen = r.Revision
				}
			})
			group.Go(func() { // gives up again and again
				for range last {
					ctx, cancel := context.WithCancel(context.Background())
					both := lazyctx.WithBoth(ctx, t.Context())
					if rand.IntN(2) == 0 {
						cancel()
					} else {
						go cancel() // ends at once
					}
					r, err := s.hub.Wait(both, id, last, s.get)
					if err != context.Canceled {
						t.Errorf("who gives up gets %+v, %v", r, err)
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

func TestAllWhoWaitAreTold(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*shelf)
		want error
	}{
		"that the task is gone": {func(s *shelf) { s.drop("a") }, task.ErrNotFound},
		"that the store closes": {func(s *shelf) { s.hub.Close() }, task.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &shelf{revisions: map[string]uint64{"a": 1, "b": 1}}
				const s1, s2, hour = time.Second, 2 * time.Second, time.Hour
				told := make(chan error, 10)
				for _, after := range []time.Duration{hour, s1, s2, hour, s2, s1, hour, s2} { // that each leaves, unless it was told
					ctx, leave := context.WithCancel(t.Context())
					go func() {
						if _, err := s.hub.Wait(ctx, "a", 1, s.get); ctx.Err() == nil {
							told <- err
						}
					}()
					synctest.Wait()
					time.AfterFunc(after, leave)
				}
				time.Sleep(time.Minute)
				test.end(s)
				synctest.Wait()
				if len(told) != 3 {
					t.Fatalf("%d of 3 were told", len(told))
				}
				for range 3 {
					if err := <-told; !errors.Is(err, test.want) {
						t.Errorf("got %v, want %v", err, test.want)
					}
				}
			})
		})
	}
}
