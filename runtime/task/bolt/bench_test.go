package bolt_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

// withManager runs restartable work as a task of a Manager on a new file, and waits for its end.
// Recovered is the work of a second Manager; nil if there is none.
func withManager(b *testing.B, params int, work, recovered task.Work) {
	b.Helper()
	ctx := context.Background()
	s, err := bolt.Open(filepath.Join(b.TempDir(), "tasks"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	cfg := task.Options{Store: s, TTL: task.TTL{Unlimited: true}, Limits: task.Limits{Journal: -1, Bytes: -1, Rate: -1}, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return recovered }}}
	m, err := task.New(ctx, cfg)
	if err != nil {
		b.Fatal(err)
	}
	text, _ := json.Marshal(string(make([]byte, params/6)))
	created, err := m.Create(ctx, task.Request{Restartable: true, Work: work, Params: text})
	if err != nil {
		b.Fatal(err)
	}
	if recovered != nil {
		for {
			r, err := s.Get(ctx, created.TaskID)
			if err != nil {
				b.Fatal(err)
			}
			if r.StatusMessage == "recorded" {
				break
			}
			if _, err := s.Wait(ctx, r.ID, r.Revision); err != nil {
				b.Fatal(err)
			}
		}
		m.Close(ctx)
		if m, err = task.New(ctx, cfg); err != nil {
			b.Fatal(err)
		}
	}
	if out, err := m.Result(ctx, "", created.TaskID, nil); err != nil || out.Error != nil {
		b.Fatal(out.Error, err)
	}
	m.Close(ctx)
}

// steps is the number of steps of a task.
const steps = 1000

// record records the steps of a task. It returns the time that the first and the last tenth took.
func record(ctx context.Context, run *task.Run) (first, last time.Duration, err error) {
	var at [steps + 1]time.Time
	at[0] = time.Now()
	for n := range steps {
		err := run.Record(ctx, task.Entry{Kind: 2, Key: fmt.Sprint("step ", n), Occurrence: 1, Result: json.RawMessage(`{"some":"result of a step, with a hundred bytes of text in all, or about as many as that"}`)})
		if err != nil {
			return 0, 0, err
		}
		at[n+1] = time.Now()
	}
	return at[steps/10].Sub(at[0]), at[steps].Sub(at[steps-steps/10]), nil
}

// BenchmarkStep measures a step of a task with 1,000 steps: one durable write. The last steps must
// not take longer than the first, with small and with large params.
func BenchmarkStep(b *testing.B) {
	for _, params := range []int{100, 100_000} {
		b.Run(fmt.Sprint("params ", params), func(b *testing.B) {
			var first, last time.Duration
			for range b.N {
				withManager(b, params, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					f, l, err := record(ctx, run)
					first, last = first+f, last+l
					return result{run.ID()}, err
				}, nil)
			}
			b.ReportMetric(float64(first.Microseconds())/float64(b.N)/(steps/10), "first-µs/step")
			b.ReportMetric(float64(last.Microseconds())/float64(b.N)/(steps/10), "last-µs/step")
		})
	}
}

// BenchmarkConcurrentSteps measures 1,000 steps that a task records at the same time. They share
// writes.
func BenchmarkConcurrentSteps(b *testing.B) {
	var took time.Duration
	for range b.N {
		withManager(b, 100, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			start := time.Now()
			var group sync.WaitGroup
			for n := range steps {
				group.Go(func() {
					if err := run.Record(ctx, task.Entry{Kind: 2, Key: fmt.Sprint("step ", n), Occurrence: 1, Result: json.RawMessage(`1`)}); err != nil {
						b.Error(err)
					}
				})
			}
			group.Wait()
			took += time.Since(start)
			return result{run.ID()}, nil
		}, nil)
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N)/steps, "µs/step")
}

// BenchmarkReplay measures how long work that runs again takes to read a journal of 1,000 steps.
func BenchmarkReplay(b *testing.B) {
	var took time.Duration
	for range b.N {
		withManager(b, 100, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if _, _, err := record(ctx, run); err != nil {
				return nil, err
			}
			if err := run.SetStatusMessage(ctx, "recorded"); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			start := time.Now()
			entries, _, err := run.Journal(ctx)
			took += time.Since(start)
			if len(entries) != steps {
				return nil, fmt.Errorf("%d entries", len(entries))
			}
			return result{run.ID()}, err
		})
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs/replay")
}
