package task_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// reportingWork returns work that reports each of the values and returns when the channel is
// closed. It checks the error of each report against want.
func reportingWork(t *testing.T, values <-chan float64, want func(v float64) error) task.Work {
	return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		for v := range values {
			if err := run.Report(task.Progress{Value: v}); err != want(v) {
				t.Errorf("Report(%v): %v", v, err)
			}
		}
		return raw(`{}`), nil
	}
}

// accepted is a want function for values that Report accepts.
func accepted(float64) error { return nil }

// Progress increases, follows the requestor, and ends with the task. Reports that exceed the rate
// are dropped, except for the latest.
//
// Proves PROG-04, PROG-07, PROG-11, PROG-12, PROG-14, TASK-46.
func TestProgress(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		first, second := new(peer), new(peer)
		values := make(chan float64)
		greatest := math.Inf(-1)
		created := create(t, m, task.Request{Via: first, Token: codec.IntScalar(0), Work: reportingWork(t, values, func(v float64) error {
			switch {
			case v > 10:
				return task.ErrProgressOver
			case v > greatest:
				greatest = v
				return nil
			}
			return task.ErrNotIncreasing
		})})
		report := func(list ...float64) {
			for _, v := range list {
				values <- v
			}
			synctest.Wait()
		}
		report(-1, -1, 2.5, 2, math.NaN(), 3, 3)
		checkEqual(t, "first report", []float64{-1}, first.progress())
		time.Sleep(task.DefaultProgressInterval)
		synctest.Wait()
		checkEqual(t, "after the interval", []float64{-1, 3}, first.progress())
		report(4)
		m.Get(t.Context(), "alice", created.TaskID, second) // the rate applies to the task
		report(5)
		checkEqual(t, "second requestor, within the interval", []float64(nil), second.progress())
		time.Sleep(task.DefaultProgressInterval)
		synctest.Wait()
		checkEqual(t, "second requestor, after the interval", []float64{5}, second.progress())
		report(6)
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Fatal(err)
		}
		report(11)
		close(values)
		time.Sleep(time.Minute)
		checkEqual(t, "reported to the first", []float64{-1, 3}, first.progress())
		checkEqual(t, "reported to the second", []float64{5}, second.progress())
		want := fmt.Sprintf(`notifications/progress {"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}},"progress":-1,"progressToken":0}`, created.TaskID)
		checkEqual(t, "message", want, first.received()[0])
	})
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		create(t, m, task.Request{Via: p, Token: progressToken, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			for v := range 5 {
				if err := run.Report(task.Progress{Value: float64(v), Total: new(math.Inf(1)), Message: "caf\xe9"}); err != nil {
					t.Error(err)
				}
			}
			return raw(`{}`), nil
		}})
		synctest.Wait()
		checkEqual(t, "last report before the outcome", []float64{0, 4}, p.progress())
		if text := p.received()[0]; !strings.Contains(text, "caf\uFFFD") || strings.Contains(text, "total") {
			t.Errorf("reported %s", text)
		}
	})
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true, Progress: -1}}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		values := make(chan float64)
		create(t, m, task.Request{Via: p, Token: progressToken, Work: reportingWork(t, values, accepted)})
		for v := range 5 {
			values <- float64(v)
		}
		close(values)
		synctest.Wait()
		checkEqual(t, "without an interval", []float64{0, 1, 2, 3, 4}, p.progress())
	})
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		create(t, m, task.Request{Via: p, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			return raw(`{}`), run.Report(task.Progress{Value: 1})
		}})
		synctest.Wait()
		checkEqual(t, "reported without a token", []float64(nil), p.progress())
	})
}

// Progress goes to the latest requestor that waits for the result. A requestor that only reads the
// state does not change the destination.
//
// Proves PROG-04.
func TestProgressGoesToLatestWaiter(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true, Progress: -1}}, func(t *testing.T, m *task.Manager) {
		creator, first, second, looker := new(peer), new(peer), new(peer), new(peer)
		values := make(chan float64)
		created := create(t, m, task.Request{Via: creator, Token: progressToken, Work: reportingWork(t, values, accepted)})
		report := func(v float64) {
			values <- v
			synctest.Wait()
		}
		report(1)
		var group sync.WaitGroup
		ctx, giveUp := context.WithCancel(t.Context())
		group.Go(func() { m.Result(t.Context(), "alice", created.TaskID, first) })
		synctest.Wait()
		report(2)
		group.Go(func() { m.Result(ctx, "alice", created.TaskID, second) })
		synctest.Wait()
		m.Get(t.Context(), "alice", created.TaskID, looker)
		report(3)
		giveUp()
		synctest.Wait()
		report(4)
		close(values)
		group.Wait()
		for p, want := range map[*peer][]float64{creator: {1}, first: {2, 4}, second: {3}, looker: nil} {
			checkEqual(t, "progress", want, p.progress())
		}
	})
}

// unresponsivePeer is a requestor whose Notify blocks until its context ends.
type unresponsivePeer struct{ peer }

func (p *unresponsivePeer) Notify(ctx context.Context, method string, params codec.Encoder) error {
	<-ctx.Done()
	p.peer.Notify(ctx, method, params)
	return ctx.Err()
}

// A requestor that does not read delays neither the expiry of other tasks, nor a cancellation, nor
// the outcome of its own task.
func TestUnresponsiveRequestorBlocksNothingElse(t *testing.T) {
	runInBubble(t, task.Options{}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		reporting := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			go run.Report(task.Progress{Value: 1}) // ends with the task
			time.Sleep(time.Millisecond)
			run.Report(task.Progress{Value: 2})
			<-end
			return raw(`{}`), nil
		}
		oneSecond := &mcp.TaskMetadata{TTL: new(int64(1000))}
		request := task.Request{Via: new(unresponsivePeer), Token: progressToken, Work: reporting}
		outcome, cancelled := create(t, m, request), create(t, m, request)
		request.Task = oneSecond
		create(t, m, request) // expires while a report is blocked
		stopped := make(chan time.Duration, 1)
		create(t, m, task.Request{Task: oneSecond, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			stopped <- time.Since(bubbleStart())
			return nil, context.Cause(ctx)
		}})
		if passed := <-stopped; passed != time.Second {
			t.Errorf("the work of the other task ended after %v", passed)
		}
		before := time.Now()
		if _, err := m.Cancel(t.Context(), "alice", cancelled.TaskID, nil); err != nil {
			t.Error(err)
		}
		if d := time.Since(before); d > 100*time.Millisecond {
			t.Errorf("the cancellation took %v", d)
		}
		before = time.Now()
		close(end)
		if out := result(t, m, outcome.TaskID); out.Error != nil {
			t.Error(out.Error)
		}
		if d := time.Since(before); d > 100*time.Millisecond {
			t.Errorf("the outcome took %v", d)
		}
	})
}

// A report that is blocked at the previous destination does not delay later reports.
func TestProgressLeavesUnresponsiveRequestor(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true, Progress: -1}}, func(t *testing.T, m *task.Manager) {
		values := make(chan float64)
		created := create(t, m, task.Request{Via: new(unresponsivePeer), Token: progressToken, Work: reportingWork(t, values, accepted)})
		values <- 1
		synctest.Wait()
		p := new(peer)
		m.Get(t.Context(), "alice", created.TaskID, p)
		synctest.Wait()
		values <- 2
		close(values)
		synctest.Wait()
		checkEqual(t, "progress", []float64{1, 2}, p.progress())
	})
}

// A pending report is not sent while the task is being cancelled.
//
// Proves PROG-12.
func TestNoProgressDuringCancellation(t *testing.T) {
	runInBubble(t, task.Options{Store: &slowStore{memory.New(), nil}, Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		values := make(chan float64)
		created := create(t, m, task.Request{Via: p, Token: progressToken, Work: reportingWork(t, values, accepted)})
		values <- 1
		values <- 2
		synctest.Wait()
		// Takes longer than the progress interval.
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Error(err)
		}
		close(values)
		synctest.Wait()
		checkEqual(t, "progress", []float64{1}, p.progress())
	})
}

// A failed second cancellation does not restart the progress of a cancelled task.
func TestFailedCancellationDoesNotRestartProgress(t *testing.T) {
	store := &failingStore{Store: memory.New()}
	runInBubble(t, task.Options{Store: store, Updates: task.Updates{Quiet: true, Progress: -1}}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		values := make(chan float64)
		created := create(t, m, task.Request{Via: p, Token: progressToken, Work: reportingWork(t, values, func(v float64) error {
			return map[bool]error{v >= 2: task.ErrProgressOver}[true]
		})})
		store.setError(errors.New("temporary failure"))
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err == nil {
			t.Error("Cancel succeeded although the store failed")
		}
		store.setError(nil)
		values <- 1
		synctest.Wait() // until the work has reported it
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Error(err)
		}
		for range 2 {
			m.Cancel(t.Context(), "alice", created.TaskID, nil)
			values <- 2
			store.setError(errors.New("temporary failure"))
		}
		store.setError(nil)
		close(values)
		synctest.Wait()
		checkEqual(t, "progress", []float64{1}, p.progress())
	})
}

// Work that is re-run does not repeat progress values that were sent before. After a crash, the
// values since the last write of the record are unknown.
func TestProgressOfRerunContinues(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(first *task.Manager, lost *failingStore)
		want []float64
	}{
		"orderly": {func(first *task.Manager, _ *failingStore) { first.Close(context.Background()) }, []float64{5, 6}},
		"crash":   {func(_ *task.Manager, lost *failingStore) { lost.setError(errors.New("killed")) }, []float64{3, 4, 5, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				report := func(run *task.Run, values ...float64) {
					for _, v := range values {
						if err := run.Report(task.Progress{Value: v}); err != nil {
							t.Errorf("Report(%v): %v", v, err)
						}
						time.Sleep(time.Second)
					}
				}
				store := memory.New()
				lost, first := newCrashableManager(t, store)
				created := create(t, first, task.Request{Restartable: true, Via: new(peer), Token: progressToken, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					report(run, 1, 2)
					run.SetStatusMessage(ctx, "half")
					report(run, 3, 4)
					return untilDone(ctx, run)
				}})
				time.Sleep(10 * time.Second)
				c.end(first, lost)
				again := newManager(t, task.Options{Store: store, Updates: task.Updates{Quiet: true}, Recovery: task.Recovery{Recover: func(task.Record) task.Work {
					return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
						time.Sleep(time.Second)
						report(run, 1, 2, 3, 4, 5, 6)
						return raw(`{}`), nil
					}
				}}})
				p := new(peer)
				if _, err := again.Result(t.Context(), "alice", created.TaskID, p); err != nil {
					t.Error(err)
				}
				checkEqual(t, "values", c.want, p.reports)
			})
		})
	}
}
