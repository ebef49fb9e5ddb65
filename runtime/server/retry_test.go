package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// attempts is the function of a step that fails until its last attempt.
type attempts struct {
	fails int
	err   error
	keys  []string
	times []time.Duration // since the beginning
	begin time.Time
}

func newAttempts(fails int) *attempts {
	return &attempts{fails: fails, err: errors.New("bank is closed"), begin: time.Now()}
}

func (a *attempts) run(ctx context.Context) (int, error) {
	a.keys = append(a.keys, server.IdempotencyKey(ctx))
	a.times = append(a.times, time.Since(a.begin))
	if len(a.keys) <= a.fails {
		return 0, a.err
	}
	return len(a.keys), nil
}

// checkPauses checks that the pauses double, up to the longest one, less half at most.
func (a *attempts) checkPauses(t *testing.T, backoff, longest time.Duration) {
	t.Helper()
	for i := 1; i < len(a.times); i++ {
		pause, most := a.times[i]-a.times[i-1], min(backoff<<(i-1), longest)
		if pause < most/2 || pause > most {
			t.Errorf("pause %d takes %v, want %v to %v", i, pause, most/2, most)
		}
	}
}

// The attempts of a step are counted over parks and restarts, and share the idempotency key.
func TestRetryGoesOnAfterParkAndRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts(4)
		var other []string
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			for range 2 {
				if _, err := server.Step(ctx, c, "charge", func(ctx context.Context) (bool, error) {
					other = append(other, server.IdempotencyKey(ctx))
					return true, nil
				}); err != nil {
					return "", err
				}
			}
			n, err := server.Step(ctx, c, "charge", a.run, server.Retry{Attempts: 5, Backoff: time.Hour, MaxBackoff: 3 * time.Hour})
			return fmt.Sprint(n, " attempts"), err
		})
		id := d.call()
		synctest.Wait()
		for range 6 {
			time.Sleep(25 * time.Minute)
			d.restart()
			synctest.Wait()
		}
		time.Sleep(5 * time.Minute)
		if got := d.m.Stats(); got.Running != 0 || got.Parked != 1 {
			t.Errorf("between two attempts: %+v", got)
		}
		equal(t, "result", "5 attempts", d.result(id))
		if len(slices.Compact(slices.Clone(a.keys))) != 1 || len(a.keys) != 5 || slices.Contains(other, a.keys[0]) || len(other) != 2 || other[0] == other[1] {
			t.Errorf("keys of the attempts %q, of other steps %q", a.keys, other)
		}
		a.checkPauses(t, time.Hour, 3*time.Hour)
	})
}

func TestRetryEnds(t *testing.T) {
	for name, test := range map[string]struct {
		policy   server.Retry
		attempts int
	}{
		"after the default number of attempts": {server.Retry{}, 10},
		"after Attempts":                       {server.Retry{Attempts: 3}, 3},
		"at an error that is final":            {server.Retry{Final: func(err *server.StepError) bool { return err.Text == "bank is closed" }}, 1},
		"before Total":                         {server.Retry{Backoff: time.Minute, MaxBackoff: time.Minute, Total: 90 * time.Second}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a *attempts
				runs := 0
				d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
					runs++
					if a == nil {
						a = newAttempts(100)
					}
					_, failed := server.Step(ctx, c, "charge", a.run, test.policy)
					if required(failed) {
						return "", failed
					}
					if err := server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(time.Hour) }); err != nil {
						return "", err
					}
					var e *server.StepError
					return fmt.Sprint(errors.As(failed, &e), " ", failed), nil
				})
				id := d.call()
				synctest.Wait()
				time.Sleep(30 * time.Minute)
				d.restart()
				equal(t, "result", "true bank is closed", d.result(id))
				if test.attempts == 2 { // the pauses are random
					if n := len(a.keys); n < 2 || n > 4 || a.times[n-1] > 90*time.Second {
						t.Errorf("attempts at %v", a.times)
					}
				} else if len(a.keys) != test.attempts {
					t.Errorf("%d attempts, want %d", len(a.keys), test.attempts)
				}
				if runs < 2 {
					t.Errorf("the handler ran %d times", runs)
				}
			})
		})
	}
}

// required reports whether an error ends the run of a handler.
func required(err error) bool {
	_, ok := errors.AsType[*server.InputRequiredError](err)
	return ok
}

// In plain calls of both eras, the handler waits between the attempts, and later rounds do not
// repeat them.
func TestRetryInPlainCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*attempts
		one, two := inBothEras(t, func(ctx context.Context, c *server.Call) (string, error) {
			a := newAttempts(2)
			all = append(all, a)
			a.err = &jsonrpc.Error{Code: 7, Message: "busy"}
			n, err := server.Step(ctx, c, "charge", a.run, server.Retry{}, nil)
			if err != nil {
				return "", err
			}
			if _, err := askName(ctx, c, "Who?"); err != nil {
				return "", err
			}
			return fmt.Sprint(n), nil
		})
		equal(t, "in a session", "3", one)
		equal(t, "in rounds", one, two)
		total := 0
		for _, a := range all {
			total += len(a.keys)
			a.checkPauses(t, time.Second, time.Minute)
		}
		if total != 6 || len(all) != 3 {
			t.Errorf("%d attempts in %d runs, want 6 in 3", total, len(all))
		}
	})
}

func TestMisuseOfRetry(t *testing.T) {
	for want, policy := range map[string]server.Retry{
		"negative Attempts (-1)":    {Attempts: -1},
		"negative Backoff (-1s)":    {Backoff: -time.Second},
		"negative MaxBackoff (-1s)": {MaxBackoff: -time.Second},
		"negative Total (-1s)":      {Total: -time.Second},
	} {
		one, two := inBothEras(t, func(ctx context.Context, c *server.Call) (string, error) {
			_, err := server.Step(ctx, c, "s", func(context.Context) (int, error) { return 0, errors.New("the function runs") }, policy)
			return fmt.Sprint(err), nil
		})
		if want = `server: step "s": retry: ` + want; one != want || two != want {
			t.Errorf("got %s and %s, want %s", one, two, want)
		}
	}
	one, _ := inBothEras(t, func(ctx context.Context, c *server.Call) (string, error) {
		_, err := server.Step(ctx, c, "s", func(ctx context.Context) (int, error) {
			return server.Step(ctx, c, "inner", func(context.Context) (int, error) { return 1, nil }, server.Retry{})
		})
		return fmt.Sprint(err), nil
	})
	if !strings.Contains(one, `step in step "s"`) {
		t.Errorf("got %s", one)
	}
}

// Steps with a policy have keys of their own, also in a task that an earlier version of this module
// has begun, which knew no branches.
func TestKeysOfRetryInTaskOfFirstFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := map[string]int{}
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			charge := func(ctx context.Context) (int, error) {
				key := server.IdempotencyKey(ctx)
				if keys[key]++; keys[key] == 1 {
					return 0, errors.New("not yet")
				}
				return 1, nil
			}
			if _, err := server.Step(ctx, c, "begin", func(context.Context) (int, error) { return 1, nil }); err != nil {
				return "", err
			}
			for range 2 {
				if _, err := server.Step(ctx, c, "charge", charge, server.Retry{}); err != nil {
					return "", err
				}
			}
			server.Step(ctx, c, "charge", charge)
			return "charged", nil
		})
		d.s.Close()
		entry := task.Entry{Kind: 2, Key: "begin", Occurrence: 1, Result: json.RawMessage(`1`)}
		_, err := d.cfg.Tasks.Store.Create(t.Context(), task.Record{
			ID: "old", Owner: "ada", Status: mcp.TaskStatusWorking, Created: time.Now(), Updated: time.Now(), TTL: time.Hour, Method: "tools/call",
			Name: "do", Params: json.RawMessage(`{"name":"do"}`), Restartable: true, Durable: &task.Durable{Recorded: 1, Entries: []task.Entry{entry}},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.start()
		equal(t, "result", "charged", d.result("old"))
		counts := slices.Sorted(maps.Values(keys))
		equal(t, "attempts by key", []int{1, 2, 2}, counts)
	})
}

// The time of all attempts begins with the first one, whichever write is the last of a process.
func TestTotalOfRetrySurvivesDeathOfProcess(t *testing.T) {
	for _, after := range []bool{false, true} {
		for dies := int64(2); dies <= 5; dies++ {
			synctest.Test(t, func(t *testing.T) {
				a := newAttempts(100)
				d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
					_, err := server.Step(ctx, c, "charge", a.run, server.Retry{Attempts: 100, Backoff: time.Minute, MaxBackoff: time.Minute, Total: time.Hour})
					return "", err
				})
				store, writes := d.cfg.Tasks.Store, new(atomic.Int64)
				d.s.Close()
				d.cfg.Tasks.Store = &mortal{Store: store, writes: writes, dies: dies, after: after}
				d.start()
				id := d.call()
				time.Sleep(50 * time.Minute)
				d.cfg.Tasks.Store = &mortal{Store: store, writes: writes}
				d.start()
				equal(t, "result", "bank is closed", d.result(id))
				first := a.times[0]
				if !after && dies == 2 { // the failure of the first attempt is not recorded
					first = 50 * time.Minute
				}
				if last := a.times[len(a.times)-1]; last > first+time.Hour || last < first+58*time.Minute {
					t.Errorf("the process dies at write %d, after it %t: attempts from %v to %v", dies, after, first, last)
				}
			})
		}
	}
}
