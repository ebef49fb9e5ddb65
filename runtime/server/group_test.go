package server_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// inGroup calls f in n branches. The first error cancels the context of all, as that of an errgroup
// does.
func inGroup(ctx context.Context, c *server.Call, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			if err := server.Branch(ctx, c, fmt.Sprint(i), func(ctx context.Context) error { return f(ctx, i) }); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// groupOperations are operations of the branches of a group. All of them succeed.
var groupOperations = map[string]func(ctx context.Context, c *server.Call, i int) error{
	"input requests": func(ctx context.Context, c *server.Call, i int) error {
		_, err := askName(ctx, c, fmt.Sprint("Who is ", i, "?"))
		return err
	},
	"sleeps": func(ctx context.Context, c *server.Call, i int) error {
		return server.Sleep(ctx, c, "nap", func() time.Time { return time.Now().Add(time.Duration(i+1) * time.Hour) })
	},
	"waits": func(ctx context.Context, c *server.Call, i int) error {
		asked := server.OnAnswer(func(ctx context.Context) (string, error) {
			return askName(ctx, c, fmt.Sprint("Who is ", i, "?"))
		})
		first, err := server.Select(ctx, c, "first", asked, server.After(1000*time.Hour))
		if err == nil && first != asked {
			err = errors.New("not answered")
		}
		return err
	},
	"steps": func(ctx context.Context, c *server.Call, i int) error {
		if i == 0 {
			_, err := askName(ctx, c, "Who?")
			return err
		}
		_, err := server.Step(ctx, c, "fetch", func(ctx context.Context) (int, error) {
			select {
			case <-time.After(time.Millisecond):
				return i, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		return err
	},
}

// groupHandler runs operations of all the kinds, or of one kind, in a group.
func groupHandler(kinds ...string) func(ctx context.Context, c *server.Call) (string, error) {
	return func(ctx context.Context, c *server.Call) (string, error) {
		return "done", inGroup(ctx, c, 6, func(ctx context.Context, i int) error {
			return groupOperations[kinds[i%len(kinds)]](ctx, c, i)
		})
	}
}

var groups = [][]string{{"input requests"}, {"sleeps"}, {"waits"}, {"steps"}, {"sleeps", "input requests", "waits"}}

// An operation that ends because the handler cancels all branches when one of them waits for its
// user in the next round has no outcome yet.
func TestRoundDoesNotFailGroup(t *testing.T) {
	for _, kinds := range groups {
		t.Run(fmt.Sprint(kinds), func(t *testing.T) {
			for range 10 { // the order of the branches is random
				synctest.Test(t, func(t *testing.T) {
					f := groupHandler(kinds...)
					s := newServer(t, server.Options{})
					server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ map[string]any) (string, error) { return f(ctx, c) })
					last, _ := connectRounds(t, s).finish("tools/call", do, respondToAll)
					equal(t, "result", "done", last.text)
				})
			}
		})
	}
}

// The same when a task is parked. Its handler does not run again before something has happened.
func TestParkingDoesNotFailGroup(t *testing.T) {
	for _, kinds := range groups {
		t.Run(fmt.Sprint(kinds), func(t *testing.T) {
			for range 10 {
				synctest.Test(t, func(t *testing.T) {
					var runs atomic.Int32
					f := groupHandler(kinds...)
					d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
						runs.Add(1)
						return f(ctx, c)
					})
					id := d.call()
					answers := int32(0)
					for range 50 {
						time.Sleep(30 * time.Minute)
						if open := d.open(id); len(open) > 0 {
							d.answer(id, open[0].Number, accept(`{"name":"Ada"}`))
							answers++
						}
					}
					const first, sleeps = 1, 6
					if got := runs.Load(); got > first+sleeps+answers {
						t.Errorf("%d runs, %d answers", got, answers)
					}
					equal(t, "result", "done", d.result(id))
				})
			}
		})
	}
}

// Operations end with their call, although their context does not.
func TestOperationsEndWithCall(t *testing.T) {
	bad := func(context.Context) (int, error) { return 0, errors.New("not now") }
	for name, operation := range map[string]func(ctx context.Context, c *server.Call) error{
		"sleep":  func(ctx context.Context, c *server.Call) error { return groupOperations["sleeps"](ctx, c, 100) },
		"input":  func(ctx context.Context, c *server.Call) error { return groupOperations["input requests"](ctx, c, 1) },
		"select": func(ctx context.Context, c *server.Call) error { return groupOperations["waits"](ctx, c, 1) },
		"await": func(ctx context.Context, c *server.Call) error {
			_, err := server.Await[string](ctx, c, "paid")
			return err
		},
		"retry": func(ctx context.Context, c *server.Call) error {
			_, err := server.Step(ctx, c, "try", bad, server.Retry{Backoff: time.Hour})
			return err
		},
	} {
		for _, end := range []string{"close", "cancel"} {
			t.Run(name+", "+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
						err := server.Compensate(ctx, c, "undo", func(context.Context) error { return nil })
						if err == nil {
							err = operation(context.WithoutCancel(ctx), c)
						}
						return "", err
					})
					d.s.Close()
					d.cfg.Tasks.Recovery.ParkAfter = -1
					d.start()
					id := d.call()
					time.Sleep(time.Minute)
					begin := time.Now()
					if end == "close" {
						d.s.Close()
						if took := time.Since(begin); took > time.Second {
							t.Errorf("the server closes after %v", took)
						}
						return
					}
					if _, err := d.m.Cancel(t.Context(), "ada", id, nil); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Second)
					if got := d.record(id).Status; !task.Terminal(got) {
						t.Errorf("a second after the cancellation, the task is not undone, its status is %s", got)
					}
				})
			})
		}
	}
}

// A branch that works outside of a step while another one waits for the user comes to its step,
// although the handler is parked meanwhile: it gets more time in each run.
func TestParkingLetsOtherBranchesGetOn(t *testing.T) {
	const work = 10 * time.Minute // ten times as long as it takes to be parked
	for _, begin := range []string{"RunAll", "Branch"} {
		t.Run(begin, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var steps atomic.Int64
				d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
					ask := func(ctx context.Context) error {
						_, err := askName(ctx, c, "Who?")
						return err
					}
					compute := func(ctx context.Context) error {
						time.Sleep(work)
						_, err := server.Step(ctx, c, "save", func(context.Context) (int64, error) { return steps.Add(1), nil })
						return err
					}
					if begin == "RunAll" {
						return "done", c.RunAll(ctx, ask, compute)
					}
					computed := make(chan error)
					go func() { computed <- server.Branch(ctx, c, "compute", compute) }()
					err := server.Branch(ctx, c, "ask", ask)
					return "done", errors.Join(err, <-computed)
				})
				d.cfg.Tasks.Recovery.ParkAfter = work / 10
				d.restart()
				id := d.call()
				time.Sleep(6 * work)
				equal(t, "steps while the user thinks", int64(1), steps.Load())
				time.Sleep(100 * work)
				equal(t, "parked", true, d.record(id).Durable.Parked)
				d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
				equal(t, "result", "done", d.result(id))
				equal(t, "steps", int64(1), steps.Load())
			})
		})
	}
}
