package task_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// recorder is an Observer that records its calls. If panics is set, its methods and functions panic
// after that.
type recorder struct {
	panics bool
	mu     sync.Mutex
	got    []string
}

func (o *recorder) record(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, fmt.Sprintf(format, args...))
	if o.panics {
		panic("observer")
	}
}

type observedKey struct{}

func (o *recorder) Trace(context.Context) string {
	o.record("trace")
	return strings.Repeat("t", 2000)
}

func (o *recorder) Run(ctx context.Context, r task.Record) (context.Context, func(codec.Encoder, error)) {
	o.record("run of %s with trace of %d bytes, reruns %d", r.Method, len(r.Trace), r.Reruns)
	return context.WithValue(ctx, observedKey{}, "observed"), func(result codec.Encoder, err error) {
		o.record("ran: result %t, %v", result != nil, err)
	}
}

func (o *recorder) Wait(ctx context.Context, run *task.Run, method string) func(error) {
	o.record("wait for %s %v", method, ctx.Value(observedKey{}))
	return func(err error) { o.record("waited: %v", err) }
}

func TestObserverSeesRunsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(recorder)
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}, Hooks: task.Hooks{Observer: o}}, askTwice)
		id := p.start(t)
		time.Sleep(time.Hour / 2)
		p.restart(t)
		synctest.Wait()
		if _, err := p.Result(t.Context(), "alice", id, &peer{answer: echoMessage}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		const run = "run of tools/call with trace of 1027 bytes, reruns 0" // 1024 and an ellipsis
		checkEqual(t, "calls", []string{
			"trace", run,
			"wait for elicitation/create observed", "waited: " + task.ErrParked.Error(),
			"ran: result false, no answer: " + task.ErrParked.Error(),
			run, // the first answer is stored, so the work does not wait for it
			"wait for elicitation/create observed", "waited: <nil>",
			"ran: result true, <nil>",
		}, o.got)
	})
}

// A re-run after a restart is observed, with the trace of the request that created the task.
func TestObserverSeesReruns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(recorder)
		p := newParking(t, task.Options{Updates: task.Updates{Quiet: true}, Hooks: task.Hooks{Observer: o}}, untilDone)
		p.start(t)
		synctest.Wait()
		p.restart(t)
		synctest.Wait()
		checkEqual(t, "calls", []string{
			"trace", "run of tools/call with trace of 1027 bytes, reruns 0", "ran: result false, " + task.ErrClosed.Error(),
			"run of tools/call with trace of 1027 bytes, reruns 0",
		}, o.got)
	})
}

// A panic of an Observer is logged, and the task succeeds. The Observer sees a panic of the work.
func TestPanicsAndObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &recorder{panics: true}
		var log bytes.Buffer
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: -1}, Updates: task.Updates{Quiet: true}, Hooks: task.Hooks{Observer: o}, Logger: slog.New(slog.NewTextHandler(&log, nil))}, askTwice)
		id := p.start(t)
		out, err := p.Result(t.Context(), "alice", id, &peer{answer: echoMessage})
		if err != nil || out.Error != nil {
			t.Fatal(err, out.Error)
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "Options.Hooks.Observer panicked"); n != 4 { // Trace, Run and two waits
			t.Errorf("%d panics logged, want 4:\n%s", n, log.String())
		}
		o.panics, o.got = false, nil
		p.work = func(context.Context, *task.Run) (codec.Encoder, error) { panic(errors.New("work")) }
		p.start(t)
		synctest.Wait()
		checkEqual(t, "the end of work that panics", "ran: result false, panic: work", o.got[len(o.got)-1])
	})
}
