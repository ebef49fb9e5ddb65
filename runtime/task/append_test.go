package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// writeCounter is a store whose writes take a millisecond. It counts them, and the largest number
// of bytes of the input requests and of new entries that one of them contains.
type writeCounter struct {
	task.Store
	writes, largest atomic.Int64
}

func (s *writeCounter) Update(ctx context.Context, r task.Record) (task.Record, error) {
	time.Sleep(time.Millisecond)
	s.writes.Add(1)
	var n int
	for i := range r.InputRequests {
		q := &r.InputRequests[i]
		n += len(q.Params) + len(q.Result) + len(q.Error)
	}
	if r.Durable != nil {
		for i := range r.Durable.Entries {
			n += len(r.Durable.Entries[i].Result)
		}
	}
	s.largest.Store(max(s.largest.Load(), int64(n)))
	return s.Store.Update(ctx, r)
}

// recordAll records n entries at the same time, and returns the errors.
func recordAll(ctx context.Context, run *task.Run, n int) []error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = run.Record(ctx, step(i, 100)) })
	}
	group.Wait()
	return errs
}

// Entries that are recorded while a write is in progress share the next one.
func TestConcurrentRecordsShareWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &writeCounter{Store: memory.New()}
		m := newManager(t, task.Options{Store: store, Updates: task.Updates{Quiet: true}})
		var during int64
		created := create(t, m, task.Request{Restartable: true, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			const n = 200
			if err := errors.Join(recordAll(ctx, run, n)...); err != nil {
				return nil, err
			}
			during = store.writes.Load()
			entries, _, err := run.Journal(ctx)
			found := map[string]bool{}
			for _, e := range entries {
				found[e.Key] = true
			}
			if len(entries) != n || len(found) != n {
				return nil, fmt.Errorf("%d entries with %d keys", len(entries), len(found))
			}
			return raw(`{}`), err
		}})
		if out := result(t, m, created.TaskID); out.Error != nil {
			t.Fatal(out.Error)
		}
		if during != 2 {
			t.Errorf("%d writes", during)
		}
	})
}

// If entries that share a write exceed a limit together, those that fit are recorded.
func TestConcurrentRecordsAreLimitedOneByOne(t *testing.T) {
	for name, cfg := range map[string]task.Options{
		"Limits.Journal": {Limits: task.Limits{Journal: 1100}},
		"Limits.Bytes":   {Limits: task.Limits{Bytes: 1700}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg.Store, cfg.Updates.Quiet = &writeCounter{Store: memory.New()}, true
				m := newManager(t, cfg)
				created := create(t, m, task.Request{Restartable: true, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					recorded := 0
					for _, err := range recordAll(ctx, run, 10) {
						_, journal := errors.AsType[*task.JournalError](err)
						_, limit := errors.AsType[*task.LimitError](err)
						if err == nil {
							recorded++
						} else if !journal && !limit {
							return nil, err
						}
					}
					entries, _, err := run.Journal(ctx)
					if err != nil || recorded != 5 || len(entries) != recorded {
						return nil, fmt.Errorf("%d entries are recorded, %d are in the journal, %w", recorded, len(entries), err)
					}
					return raw(`{}`), nil
				}})
				if out := result(t, m, created.TaskID); out.Error != nil {
					t.Error(out.Error)
				}
			})
		})
	}
}

// Writes do not contain the answers to earlier input requests, which are in the journal. Later runs
// get them from there, whether they read the journal or not.
func TestAnswersAreWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &writeCounter{Store: memory.New()}
		p := newParking(t, task.Options{Store: store, Updates: task.Updates{Quiet: true}, Recovery: task.Recovery{ParkAfter: -1}}, nil)
		const n = 50
		all := func(ctx context.Context, run *task.Run) (failed error) {
			for i := range n {
				answer, err := ask(ctx, run, fmt.Sprintf("%0100d", i))
				if want := fmt.Sprintf(`"%0100d"`, i); err != nil || string(answer) != want {
					return fmt.Errorf("answer %s, want %s, %w", answer, want, err)
				}
			}
			return nil
		}
		p.work = func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if err := all(ctx, run); err != nil {
				return nil, err
			}
			if p.runs.Load() == 1 {
				if err := all(ctx, run); err != nil {
					return nil, fmt.Errorf("once more: %w", err)
				}
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			entries, requests, err := run.Journal(ctx)
			if err != nil || len(entries)+len(requests) != n {
				return nil, fmt.Errorf("%d entries and %d input requests, %w", len(entries), len(requests), err)
			}
			return raw(`{}`), nil
		}
		id := p.start(t)
		asked := &peer{answer: echoMessage}
		ctx, cancel := context.WithCancel(t.Context())
		go p.Result(ctx, "alice", id, asked)
		time.Sleep(time.Minute)
		cancel()
		if store.largest.Load() > 500 {
			t.Errorf("a write contains %d bytes", store.largest.Load())
		}
		p.restart(t)
		if out := result(t, p.Manager, id); out.Error != nil {
			t.Error(out.Error)
		}
		if got := len(asked.received()); got != n {
			t.Errorf("%d input requests were sent", got)
		}
		p.checkRuns(t, 2)
	})
}

// Answers that an earlier version of the package has left in the record are replayed, and leave it
// with the next step.
func TestAnswersOfEarlierVersionsLeaveRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		at := time.Now().UTC().Truncate(time.Microsecond)
		r := task.Record{
			ID: "a", Owner: "alice", Status: mcp.TaskStatusWorking, Created: at, Updated: at, Method: mcp.MethodToolsCall, Restartable: true,
			Durable: &task.Durable{LastInput: 2},
		}
		for n := range uint64(2) {
			key := fmt.Sprint("question ", n+1)
			r.InputRequests = append(r.InputRequests, task.InputRequest{
				Number: n + 1, Method: mcp.MethodElicitationCreate, Key: key, Occurrence: 1, Result: json.RawMessage(fmt.Sprintf("%q", key)),
			})
		}
		r.InputRequests[1].Result, r.InputRequests[1].Error = nil, json.RawMessage(`{"code":1,"message":"no"}`)
		if _, err := store.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if _, _, err := run.Journal(ctx); err != nil {
				return nil, err
			}
			if err := run.Record(ctx, step(0, 100)); err != nil {
				return nil, err
			}
			answer, err := ask(ctx, run, "question 1")
			if string(answer) != `"question 1"` {
				return nil, fmt.Errorf("answer %s, %w", answer, err)
			}
			_, err = ask(ctx, run, "question 2")
			if err == nil || err.Error() != "jsonrpc: no (code 1)" {
				return nil, fmt.Errorf("got %w", err)
			}
			<-release
			return raw(`{}`), nil
		}
		m := newManager(t, task.Options{Store: store, Updates: task.Updates{Quiet: true}, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return work }}})
		synctest.Wait()
		stored, err := store.Get(t.Context(), "a")
		if err != nil || len(stored.InputRequests) != 0 || stored.Durable.Recorded != 3 {
			t.Errorf("the record has %d input requests and %+v, %v", len(stored.InputRequests), stored.Durable, err)
		}
		close(release)
		if out := result(t, m, "a"); out.Error != nil {
			t.Error(out.Error)
		}
	})
}
