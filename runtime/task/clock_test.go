package task_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// clockStore is a store of a fleet whose clock is ahead of that of the process.
type clockStore struct {
	*memory.FleetStore
	ahead atomic.Int64 // in nanoseconds
}

func (s *clockStore) Now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// withClock returns a Manager whose store has a clock that is ahead.
func withClock(t *testing.T, ahead time.Duration, cfg task.Options) (*task.Manager, *clockStore) {
	t.Helper()
	s := &clockStore{FleetStore: memory.NewFleet().Store()}
	s.ahead.Store(int64(ahead))
	cfg.Store = s
	return newManager(t, cfg), s
}

// A task lives for its TTL by the clock that is behind, and from its creation by the clock that is
// ahead. So a wrong clock never drops it early.
func TestTaskOutlivesWrongClock(t *testing.T) {
	const ttl = 10 * time.Minute
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			m, s := withClock(t, ahead, task.Options{TTL: task.TTL{Default: ttl}})
			// Processes whose clock is right create one task with each of both clocks.
			for id, created := range map[string]time.Time{"local": time.Now(), "store": s.Now()} {
				_, err := s.Create(t.Context(), task.Record{ID: id, Owner: "alice", Status: mcp.TaskStatusWorking, Created: created, Updated: created, TTL: ttl})
				if err != nil {
					t.Fatal(err)
				}
			}
			own := start(t, m, untilDone).TaskID
			if r, err := s.Get(t.Context(), own); err != nil || r.Created.Before(time.Now()) || r.Created.Before(s.Now()) {
				t.Errorf("store ahead by %v: the task was created at %v, %v", ahead, r.Created, err)
			}
			time.Sleep(ttl - time.Second)
			for _, id := range []string{"local", "store", own} {
				if _, err := m.Get(t.Context(), "alice", id, nil); err != nil {
					t.Errorf("store ahead by %v: task %s before the end of its TTL: %v", ahead, id, err)
				}
			}
			time.Sleep(2*time.Hour + time.Minute)
			for _, id := range []string{"local", "store", own} {
				if _, err := m.Get(t.Context(), "alice", id, nil); !errors.Is(err, task.ErrExpired) {
					t.Errorf("store ahead by %v: task %s long after the end of its TTL: %v", ahead, id, err)
				}
				if _, err := s.Get(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
					t.Errorf("store ahead by %v: task %s was not dropped: %v", ahead, id, err)
				}
			}
		})
	}
}

// Work sleeps by the clock of the store, whether it is parked or not.
func TestSleepEndsByClockOfStore(t *testing.T) {
	for _, park := range []time.Duration{-1, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var until time.Time
			work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				if until.IsZero() {
					until = run.Internals(boundary.Caller{}).SharedTime(time.Now().Add(time.Hour))
				}
				return raw(`{}`), run.Sleep(ctx, until)
			}
			m, s := withClock(t, -3*time.Hour, task.Options{TTL: task.TTL{Unlimited: true}, Recovery: task.Recovery{ParkAfter: park, Recover: func(task.Record) task.Work { return work }}})
			begun := time.Now()
			id := create(t, m, task.Request{Restartable: true, Work: work}).TaskID
			time.Sleep(59 * time.Minute)
			if r, err := s.Get(t.Context(), id); err != nil || r.Status != mcp.TaskStatusWorking {
				t.Errorf("the task has ended before the sleep: %v, %v", r.Status, err)
			}
			result(t, m, id)
			if took := time.Since(begun).Round(time.Second); took != time.Hour {
				t.Errorf("a sleep of an hour took %v", took)
			}
		})
	}
}

// The end of a sleep follows a correction of the clock of the store within a minute.
func TestSleepFollowsClockOfStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			return raw(`{}`), run.Sleep(ctx, begun.Add(2*time.Hour))
		}
		m, s := withClock(t, 0, task.Options{TTL: task.TTL{Unlimited: true}, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return work }}})
		id := create(t, m, task.Request{Restartable: true, Work: work}).TaskID
		time.Sleep(time.Hour)
		s.ahead.Store(int64(time.Hour))
		result(t, m, id)
		if took := time.Since(begun); took > time.Hour+time.Minute {
			t.Errorf("the sleep took %v", took)
		}
	})
}

func TestClockSkewIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		_, s := withClock(t, 0, task.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		var counts []int
		for _, ahead := range []time.Duration{0, -time.Hour, -time.Hour, 0} {
			s.ahead.Store(int64(ahead))
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			counts = append(counts, strings.Count(log.String(), "clock"))
		}
		checkEqual(t, "logged lines", []int{0, 1, 1, 2}, counts)
		if !strings.Contains(log.String(), "ahead=1h0m0s") {
			t.Errorf("logged %s", log.String())
		}
	})
}

// jumpingStore is a store of one process whose wall clock is ahead.
type jumpingStore struct {
	*memory.Store
	ahead atomic.Int64 // in nanoseconds
}

func (s *jumpingStore) Now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// If the wall clock of the only process jumps forward, tasks keep their TTL. They do not if the
// clock stays there for an hour.
func TestTaskOutlivesJumpOfWallClock(t *testing.T) {
	for _, row := range []struct {
		name              string
		ttl, ahead, after time.Duration // after which the clock is set back
		want              time.Duration // lifetime
	}{
		{"no jump", time.Minute, 0, 0, time.Minute},
		{"a jump over the end", time.Minute, 24 * time.Hour, 2 * time.Hour, time.Minute},
		{"a jump that is corrected", 3 * time.Hour, 24 * time.Hour, 59 * time.Minute, 3 * time.Hour},
		{"a jump that stays", 3 * time.Hour, 24 * time.Hour, 5 * time.Hour, time.Hour},
		{"a jump back", 3 * time.Hour, -time.Hour, 10 * time.Hour, 4 * time.Hour},
	} {
		t.Run(row.name, func(t *testing.T) {
			store := &jumpingStore{Store: memory.New()}
			runInBubble(t, task.Options{Store: store, TTL: task.TTL{Default: row.ttl}}, func(t *testing.T, m *task.Manager) {
				created := start(t, m, untilDone)
				store.ahead.Store(int64(row.ahead))
				time.AfterFunc(row.after, func() { store.ahead.Store(0) })
				begin := time.Now()
				for {
					if _, err := m.Get(t.Context(), "alice", created.TaskID, nil); err != nil {
						break
					}
					time.Sleep(10 * time.Second)
				}
				if got := time.Since(begin); (got - row.want).Abs() > 2*time.Minute {
					t.Errorf("the task lived for %v, want %v", got, row.want)
				}
			})
		})
	}
}

// If the wall clock is wrong when a process starts, the tasks of the last process are recovered,
// and keep what remained of their TTL. A clock that is corrected does no harm.
func TestTaskOutlivesWrongClockAtStart(t *testing.T) {
	for _, parked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := &jumpingStore{Store: memory.New()}
			runs := 0
			work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				runs++
				_, err := run.Ask(ctx, task.InputRequest{Key: "key", Occurrence: 1, Method: "elicitation/create"}, nil)
				return raw(`{}`), err
			}
			parkAfter := time.Duration(-1)
			if parked {
				parkAfter = time.Second
			}
			cfg := task.Options{Store: store, Recovery: task.Recovery{ParkAfter: parkAfter, Recover: func(task.Record) task.Work { return work }}}
			first := newManager(t, cfg)
			created := create(t, first, task.Request{Restartable: true, Work: work})
			time.Sleep(10 * time.Minute)
			if err := first.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			store.ahead.Store(int64(1000 * time.Hour))
			second := newManager(t, cfg)
			time.Sleep(10 * time.Minute)
			store.ahead.Store(0)
			time.Sleep(10 * time.Minute)
			p := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`{}`), nil
			}}
			if out, err := second.Result(t.Context(), "alice", created.TaskID, p); err != nil || out.Error != nil || runs != 2 {
				t.Errorf("parked %v: %v, %v after %d runs", parked, out.Error, err, runs)
			}
		})
	}
}
