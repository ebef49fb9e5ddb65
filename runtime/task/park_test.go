package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// ask makes an input request with a key as its message.
func ask(ctx context.Context, run *task.Run, key string) (json.RawMessage, error) {
	return run.Ask(ctx, task.InputRequest{Method: mcp.MethodElicitationCreate, Key: key, Occurrence: 1}, raw(fmt.Sprintf(`{"message":%q}`, key)))
}

// parking is a Manager whose restartable work is work, from its creation and when it runs again.
type parking struct {
	*task.Manager
	cfg  task.Options
	work task.Work
	runs atomic.Int64
}

// newParking returns a Manager with the given configuration, except for its work.
func newParking(t *testing.T, cfg task.Options, work task.Work) *parking {
	t.Helper()
	p := &parking{cfg: cfg, work: work}
	if p.cfg.Store == nil {
		p.cfg.Store = memory.New()
	}
	p.cfg.Recovery.Recover = func(task.Record) task.Work { return p.run }
	p.Manager = newManager(t, p.cfg)
	return p
}

func (p *parking) run(ctx context.Context, run *task.Run) (codec.Encoder, error) {
	p.runs.Add(1)
	return p.work(ctx, run)
}

// start creates a task of alice and returns its id.
func (p *parking) start(t *testing.T) string {
	t.Helper()
	return create(t, p.Manager, task.Request{Restartable: true, Work: p.run}).TaskID
}

// restart closes the Manager and starts another one.
func (p *parking) restart(t *testing.T) {
	t.Helper()
	if err := p.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.Manager = newManager(t, p.cfg)
}

// parked reports whether the task is stored as parked.
func (p *parking) parked(t *testing.T, id string) bool {
	t.Helper()
	r, err := p.cfg.Store.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r.Durable.Parked
}

func (p *parking) checkRuns(t *testing.T, want int64) {
	t.Helper()
	if got := p.runs.Load(); got != want {
		t.Errorf("the work ran %d times, want %d", got, want)
	}
}

// askTwice is work that makes two input requests, one after the other.
func askTwice(ctx context.Context, run *task.Run) (codec.Encoder, error) {
	first, err := ask(ctx, run, "first")
	if err != nil {
		return nil, fmt.Errorf("no answer: %w", err)
	}
	second, err := ask(ctx, run, "second")
	if err != nil {
		return nil, err
	}
	return raw(fmt.Sprintf(`{"answers":[%s,%s]}`, first, second)), nil
}

// echoMessage answers an input request with its message.
func echoMessage(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
	var p struct{ Message json.RawMessage }
	err := json.Unmarshal(params, &p)
	return p.Message, err
}

func checkAnswers(t *testing.T, out task.Outcome, want string) {
	t.Helper()
	var got struct{ Answers json.RawMessage }
	if err := json.Unmarshal(out.Result, &got); err != nil || string(got.Answers) != want {
		t.Errorf("result %s, error %v, want the answers %s", out.Result, out.Error, want)
	}
}

// Work that waits for an answer is parked: it returns, and runs again when the answer has come, in
// the same process or in a later one. The requestor gets each input request once.
func TestWorkIsParkedUntilAnswer(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint("restarts ", restarts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, askTwice)
				id := p.start(t)
				time.Sleep(time.Second - 1)
				synctest.Wait()
				if p.parked(t, id) || p.Stats().Running != 1 {
					t.Fatal("parked before its time")
				}
				time.Sleep(time.Hour / 2)
				if s := p.Stats(); !p.parked(t, id) || s.Running != 0 || s.Parked != 1 {
					t.Fatalf("not parked: %+v", s)
				}
				if restarts {
					p.restart(t)
					synctest.Wait()
				}
				p.checkRuns(t, 1)
				if got := status(t, p.Manager, id); got != mcp.TaskStatusInputRequired {
					t.Errorf("parked task is %s", got)
				}
				requestor := &peer{answer: echoMessage}
				out, err := p.Result(t.Context(), "alice", id, requestor)
				if err != nil {
					t.Fatal(err)
				}
				checkAnswers(t, out, `["first","second"]`)
				p.checkRuns(t, 2)
				if got := len(requestor.received()); got != 2 {
					t.Errorf("received %q", requestor.received())
				}
				synctest.Wait()
				if s := p.Stats(); s.Running != 0 || s.Parked != 0 {
					t.Errorf("after the end: %+v", s)
				}
			})
		})
	}
}

// A waiter that waits from the beginning delivers the input requests of parked work, and each run
// lasts until the work only waits.
func TestWaiterOutlivesParking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, askTwice)
		requestor := &peer{answer: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			time.Sleep(time.Minute) // a person reads
			return echoMessage(ctx, method, params)
		}}
		out, err := p.Result(t.Context(), "alice", p.start(t), requestor)
		if err != nil {
			t.Fatal(err)
		}
		checkAnswers(t, out, `["first","second"]`)
		p.checkRuns(t, 3)
	})
}

// Sleeping work is parked, and runs again when the time has come, also after a restart.
func TestSleepIsParked(t *testing.T) {
	for _, restartAt := range []time.Duration{0, time.Hour, 48 * time.Hour} {
		t.Run(fmt.Sprint("restart after ", restartAt), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				until := time.Now().Add(24*time.Hour + 1) // not in whole microseconds
				var woken time.Time
				p := newParking(t, task.Options{Updates: task.Updates{Quiet: true}, TTL: task.TTL{Unlimited: true}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					if err := run.Sleep(ctx, until); err != nil {
						return nil, err
					}
					woken = time.Now()
					return raw(`{}`), nil
				})
				id := p.start(t)
				time.Sleep(task.DefaultParkAfter)
				synctest.Wait()
				if !p.parked(t, id) {
					t.Fatal("not parked")
				}
				want := until
				if restartAt > 0 {
					if err := p.Close(context.Background()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(restartAt)
					if time.Now().After(until) {
						want = time.Now()
					}
					p.Manager = newManager(t, p.cfg)
				}
				if out := result(t, p.Manager, id); out.Error != nil {
					t.Fatal(out.Error)
				}
				if late := woken.Sub(want); late < 0 || late > 10*time.Millisecond {
					t.Errorf("woke %v after the time", late)
				}
				p.checkRuns(t, 2)
			})
		})
	}
}

// More than maxWakes tasks are due at the same time. All of them run, except the cancelled tasks.
func TestManyTasksWakeAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tasks = 1000
		until := time.Now().Add(30 * time.Minute)
		p := newParking(t, task.Options{Updates: task.Updates{Quiet: true}, Limits: task.Limits{Tasks: -1, Rate: -1}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			return raw(`{}`), run.Sleep(ctx, until)
		})
		ids := make([]string, tasks)
		for n := range ids {
			ids[n] = p.start(t)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := p.Stats(); s.Parked != tasks || s.Running != 0 {
			t.Fatalf("%+v", s)
		}
		for n, id := range ids {
			if n%10 == 0 {
				p.Cancel(t.Context(), "alice", id, nil)
			}
		}
		time.Sleep(20*time.Minute + 50*time.Millisecond)
		synctest.Wait()
		if s := p.Stats(); s.Parked != 0 || s.Completed != tasks*9/10 || s.Cancelled != tasks/10 {
			t.Errorf("%+v", s)
		}
		p.checkRuns(t, tasks+tasks*9/10)
	})
}

// If the work waits for several things, it is parked until the first of them has come.
func TestFirstOfSeveralWaitsEndsParking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var ended sync.Map
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}, TTL: task.TTL{Unlimited: true}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			var group sync.WaitGroup
			errs := make([]error, 4)
			for i, wait := range []func() error{
				func() error { return run.Sleep(ctx, begin.Add(3*time.Hour)) },
				func() error { return run.Sleep(ctx, begin.Add(2*time.Hour)) },
				func() error { _, err := ask(ctx, run, "a"); return err },
				func() error { _, err := ask(ctx, run, "b"); return err },
			} {
				group.Go(func() {
					if errs[i] = wait(); errs[i] == nil {
						ended.LoadOrStore(i, time.Since(begin).Truncate(time.Minute))
					}
				})
			}
			group.Wait()
			return raw(`{}`), errors.Join(errs...)
		})
		id := p.start(t)
		requestor := &peer{answer: func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
			var q struct{ Message string }
			json.Unmarshal(params, &q)
			time.Sleep(map[string]time.Duration{"a": time.Hour, "b": 4 * time.Hour}[q.Message])
			return raw(`{}`).bytes(), nil
		}}
		if out, err := p.Result(t.Context(), "alice", id, requestor); err != nil || out.Error != nil {
			t.Fatal(out.Error, err)
		}
		got := map[int]time.Duration{}
		ended.Range(func(i, at any) bool { got[i.(int)] = at.(time.Duration); return true })
		checkEqual(t, "ends of the waits", map[int]time.Duration{2: time.Hour, 1: 2 * time.Hour, 0: 3 * time.Hour, 3: 4 * time.Hour}, got)
		p.checkRuns(t, 5)
	})
}

func (r raw) bytes() json.RawMessage { return json.RawMessage(r) }

// Work that does something besides waiting is not parked.
func TestBusyWorkIsNotParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}, TTL: task.TTL{Unlimited: true}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			release := run.Internals(boundary.Caller{}).Hold()
			time.AfterFunc(time.Hour, release)
			return askTwice(ctx, run)
		})
		id := p.start(t)
		time.Sleep(time.Hour + time.Second/2)
		if p.parked(t, id) {
			t.Error("parked during Hold")
		}
		time.Sleep(3 * time.Second)
		if !p.parked(t, id) {
			t.Error("not parked after Hold")
		}
	})
}

// Parked work runs again at the deadline of its input request. Each later run times out at once,
// whatever deadline its own context has, and a late answer changes nothing.
func TestInputRequestTimesOutOnce(t *testing.T) {
	for _, row := range []struct {
		name string
		ends func(ctx context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 10*time.Minute)
		}, context.DeadlineExceeded},
		{"cancelled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second/2, cancel)
			return ctx, cancel
		}, context.Canceled},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var ended []time.Duration
				p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					limited, cancel := row.ends(ctx)
					defer cancel()
					if _, err := ask(limited, run, "a"); err != row.want {
						return nil, err
					}
					ended = append(ended, time.Since(begin))
					if err := run.Sleep(ctx, begin.Add(30*time.Minute)); err != nil {
						return nil, err
					}
					return raw(`{}`), nil
				})
				id := p.start(t)
				time.Sleep(15 * time.Minute)
				r, err := p.cfg.Store.Get(t.Context(), id)
				if err != nil || r.Status != mcp.TaskStatusWorking || len(r.InputRequests) != 1 || r.InputRequests[0].Open() {
					t.Fatalf("got %+v, %v", r, err)
				}
				err = p.Update(t.Context(), "alice", id, mcp.MethodElicitationCreate, func(*task.InputRequest) (json.RawMessage, error) {
					t.Error("the input request can still be answered")
					return nil, nil
				})
				if err != nil {
					t.Error(err)
				}
				p.restart(t)
				if out := result(t, p.Manager, id); out.Error != nil || time.Since(begin) != 30*time.Minute {
					t.Errorf("ended after %v with %v", time.Since(begin), out.Error)
				}
				want := 10 * time.Minute
				if row.want == context.Canceled {
					want = time.Second / 2
				}
				if len(ended) == 0 || ended[0] != want || ended[len(ended)-1] != 30*time.Minute {
					t.Errorf("the runs went on after %v", ended)
				}
			})
		})
	}
}

// An answer that is stored before the deadline counts.
func TestAnswerBeforeDeadlineCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			limited, cancel := context.WithTimeout(ctx, 10*time.Minute)
			defer cancel()
			answer, err := ask(limited, run, "a")
			if err != nil {
				return nil, err
			}
			return raw(answer), run.Sleep(ctx, begin.Add(20*time.Minute))
		})
		id := p.start(t)
		time.Sleep(9 * time.Minute)
		err := p.Update(t.Context(), "alice", id, mcp.MethodElicitationCreate, func(*task.InputRequest) (json.RawMessage, error) {
			return json.RawMessage(`{"action":"accept"}`), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute * 5)
		p.restart(t)
		if out := result(t, p.Manager, id); !strings.Contains(string(out.Result), `"accept"`) {
			t.Errorf("got %s, %v", out.Result, out.Error)
		}
	})
}

// Work that sleeps with a deadline runs again at the deadline.
func TestSleepWithDeadlineIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			limited, cancel := context.WithDeadline(ctx, begin.Add(10*time.Minute))
			defer cancel()
			if err := run.Sleep(limited, begin.Add(time.Hour)); !errors.Is(err, context.DeadlineExceeded) {
				return nil, err
			}
			return raw(`{}`), nil
		})
		id := p.start(t)
		time.Sleep(time.Minute)
		if !p.parked(t, id) {
			t.Error("not parked")
		}
		if out := result(t, p.Manager, id); out.Error != nil || time.Since(begin) != 10*time.Minute {
			t.Errorf("ended after %v with %v", time.Since(begin), out.Error)
		}
		p.checkRuns(t, 2)
	})
}

func TestSleepBeyondExpiryIsLogged(t *testing.T) {
	for _, row := range []struct {
		ttl  time.Duration
		logs bool
	}{{time.Hour, true}, {3 * time.Hour, false}} {
		synctest.Test(t, func(t *testing.T) {
			log := new(strings.Builder)
			p := newParking(t, task.Options{TTL: task.TTL{Default: row.ttl}, Updates: task.Updates{Quiet: true}, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))},
				func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					return raw(`{}`), run.Sleep(ctx, time.Now().Add(2*time.Hour))
				})
			p.start(t)
			synctest.Wait()
			if got := strings.Contains(log.String(), "sleep ends after the task expires"); got != row.logs {
				t.Errorf("ttl %v: log %q", row.ttl, log)
			}
		})
	}
}

// An input request that an earlier run has made is withdrawn if the context of the same request has
// ended in this run. Otherwise the task would stay input_required.
func TestInputRequestOfEarlierRunIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, nil)
		p.work = func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			asking, cancel := context.WithCancel(ctx)
			defer cancel()
			if p.runs.Load() > 1 {
				cancel()
			}
			if _, err := ask(asking, run, "a"); !errors.Is(err, context.Canceled) {
				return nil, err
			}
			return raw(`{}`), run.Sleep(ctx, time.Now().Add(time.Hour))
		}
		id := p.start(t)
		synctest.Wait()
		p.restart(t)
		synctest.Wait()
		if got := status(t, p.Manager, id); got != mcp.TaskStatusWorking {
			t.Errorf("the task is %s", got)
		}
		p.checkRuns(t, 2)
	})
}

// An input request without a key would be made anew by the next run, so the work is not parked.
func TestInputRequestWithoutKeyPreventsParking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			go ask(ctx, run, "keyed") // ends with the work
			_, err := run.Call(ctx, mcp.MethodElicitationCreate, nil)
			return raw(`{}`), err
		})
		id := p.start(t)
		time.Sleep(time.Hour / 2)
		if p.parked(t, id) {
			t.Error("parked")
		}
		out, err := p.Result(t.Context(), "alice", id, &peer{answer: echo})
		if err != nil || out.Error != nil {
			t.Error(out.Error, err)
		}
		p.checkRuns(t, 1)
	})
}

// Work is parked only if it can be run again, and only if the configuration allows it.
func TestParkingNeedsRecoverAndParkAfter(t *testing.T) {
	for name, cfg := range map[string]task.Options{
		"without Recover":    {},
		"negative ParkAfter": {Recovery: task.Recovery{ParkAfter: -1, Recover: func(task.Record) task.Work { return askTwice }}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Updates.Quiet = true
			runInBubble(t, cfg, func(t *testing.T, m *task.Manager) {
				created := create(t, m, task.Request{Restartable: true, Work: askTwice})
				time.Sleep(time.Hour / 2)
				if s := m.Stats(); s.Running != 1 || s.Parked != 0 {
					t.Errorf("%+v", s)
				}
				out, err := m.Result(t.Context(), "alice", created.TaskID, &peer{answer: echoMessage})
				if err != nil {
					t.Fatal(err)
				}
				checkAnswers(t, out, `["first","second"]`)
			})
		})
	}
}

// An answer, a cancellation or the expiry that comes while the work returns ErrParked is not lost.
func TestChangeWhileWorkIsUnwinding(t *testing.T) {
	for name, change := range map[string]struct {
		do   func(t *testing.T, p *parking, id string)
		want string
	}{
		"answer": {func(t *testing.T, p *parking, id string) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go p.Result(ctx, "alice", id, &peer{answer: echoMessage}) // ends with ctx
			synctest.Wait()
		}, `{"answers":["first","second"]}`},
		"cancellation": {func(t *testing.T, p *parking, id string) {
			if _, err := p.Cancel(t.Context(), "alice", id, nil); err != nil {
				t.Error(err)
			}
		}, "task was cancelled"},
		"expiry": {func(t *testing.T, p *parking, id string) { time.Sleep(time.Hour) }, "task: expired"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p *parking
				p = newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					out, err := askTwice(ctx, run)
					if errors.Is(err, task.ErrParked) && p.runs.Load() == 1 {
						change.do(t, p, run.ID())
					}
					return out, err
				})
				id := p.start(t)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				got := ""
				out, err := p.Result(t.Context(), "alice", id, &peer{answer: echoMessage})
				switch {
				case err != nil:
					got = errors.Unwrap(err).Error()
				case out.Error != nil:
					got = out.Error.Message
				default:
					var result struct{ Answers json.RawMessage }
					json.Unmarshal(out.Result, &result)
					got = `{"answers":` + string(result.Answers) + `}`
				}
				if got != change.want {
					t.Errorf("ended with %s, want %s", got, change.want)
				}
				time.Sleep(time.Minute) // the work returns
				if s := p.Stats(); s.Running != 0 || s.Parked != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// An answer that is stored between the write that parks the task and the end of its goroutine is
// not lost.
func TestAnswerAfterParkingWrite(t *testing.T) {
	for _, moment := range []string{"after the write", "after the next read"} {
		t.Run(moment, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p *parking
				answered := false
				answer := func(r task.Record) {
					if r.Durable.Parked && !answered {
						answered = true
						ctx, cancel := context.WithCancel(t.Context())
						go p.Result(ctx, "alice", r.ID, &peer{answer: echoMessage}) // ends with ctx
						synctest.Wait()
						cancel()
					}
				}
				store := &hookedStore{Store: memory.New(), afterUpdate: answer}
				if moment == "after the next read" {
					store.afterUpdate, store.afterGet = nil, answer
				}
				p = newParking(t, task.Options{Store: store, Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, askTwice)
				id := p.start(t)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if !answered {
					t.Fatal("not parked")
				}
				p.checkRuns(t, 2)
				out, err := p.Result(t.Context(), "alice", id, &peer{answer: echoMessage})
				if err != nil {
					t.Fatal(err)
				}
				checkAnswers(t, out, `["first","second"]`)
			})
		})
	}
}

// An answer comes while work is about to be parked, and the Manager closes before the work could run
// again. That is no death of its process.
func TestCloseBetweenAnswerAndPark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, nil)
		p.work = func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			answer, err := ask(ctx, run, "first")
			if err != nil {
				time.Sleep(time.Second) // the handler cleans up
				return nil, err
			}
			return raw(fmt.Sprintf(`{"answers":[%s]}`, answer)), nil
		}
		id := p.start(t)
		time.Sleep(1500 * time.Millisecond) // the work returns soon
		ctx, cancel := context.WithCancel(t.Context())
		go p.Result(ctx, "alice", id, &peer{answer: echoMessage}) // ends with ctx
		synctest.Wait()
		cancel()
		p.restart(t)
		if r, err := p.cfg.Store.Get(t.Context(), id); err != nil || r.Reruns != 0 {
			t.Errorf("%d deaths, %v", r.Reruns, err)
		}
		out, err := p.Result(t.Context(), "alice", id, &peer{answer: echoMessage})
		if err != nil {
			t.Fatal(err)
		}
		checkAnswers(t, out, `["first"]`)
	})
}

// A process that has no work for a task whose signal has come does not run it: the end of that
// process is no death of the task.
func TestProcessWithoutWorkEnds(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash ", crash), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, takes(1))
				id := p.start(t)
				time.Sleep(time.Minute)
				if err := p.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				without := p.cfg
				without.Recovery.Recover = func(task.Record) task.Work { return nil }
				m := newManager(t, without)
				if err := m.Signal(t.Context(), id, "go", json.RawMessage(`1`)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if !crash {
					if err := m.Close(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				r, err := p.cfg.Store.Get(t.Context(), id)
				if err != nil || r.Durable.Parked || r.Phase != taskrules.PhaseSuspended {
					t.Errorf("phase %d, parked %t, %v", r.Phase, r.Durable.Parked, err)
				}
				if crash {
					return
				}
				p.restart(t)
				synctest.Wait()
				if got := get(t, p.Manager, id); got.Status != mcp.TaskStatusCompleted {
					t.Errorf("%s: the work waits for a trial", got.Status)
				}
			})
		})
	}
}

// Parked work whose time or signal has come, and for which there is no room, does not run: the death
// of the process is none of its task.
func TestWokenWorkThatWaitsForRoomIsNoSuspect(t *testing.T) {
	for _, wakes := range []string{"time", "signal"} {
		t.Run(wakes, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Limits: task.Limits{Running: 1}, Updates: task.Updates{Quiet: true}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					var err error
					if r, _, _ := run.Journal(ctx); len(r) == 0 {
						err = run.Record(ctx, task.Entry{Kind: 2, Key: "end of night", Occurrence: 1, Result: json.RawMessage(fmt.Sprint(time.Now().Add(time.Minute).Unix()))})
					}
					entries, _, _ := run.Journal(ctx)
					end, _ := strconv.ParseInt(string(entries[0].Result), 10, 64)
					switch {
					case err != nil:
					case wakes == "time":
						err = run.Sleep(ctx, time.Unix(end, 0))
					default:
						_, err = run.Internals(boundary.Caller{}).AwaitSignal(ctx, []string{"go"}, time.Time{})
					}
					if err != nil {
						return nil, err
					}
					return untilDone(ctx, run)
				})
				var ids []string
				for range 4 {
					ids = append(ids, p.start(t))
					time.Sleep(5 * time.Second)
				}
				time.Sleep(30 * time.Second)
				checkEqual(t, "parked", 4, p.Stats().Parked)
				for _, id := range ids {
					if wakes == "signal" {
						if err := p.Signal(t.Context(), id, "go", json.RawMessage(`1`)); err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
					}
				}
				time.Sleep(time.Minute)
				checkEqual(t, "queued", 3, p.Stats().Queued)
				for i, id := range ids {
					want := uint8(taskrules.PhaseSuspended)
					if i == 0 {
						want = taskrules.PhaseRunning
					}
					r, err := p.cfg.Store.Get(t.Context(), id)
					if err != nil || r.Durable.Parked || r.Phase != want {
						t.Errorf("task %d: phase %d, want %d, parked %t, %v", i, r.Phase, want, r.Durable.Parked, err)
					}
				}
			})
		})
	}
}

// Work that runs again after it was parked reports its progress from the beginning. The requestor
// receives each value once.
func TestProgressOfParkedWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true, Progress: -1}}, nil)
		p.work = func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			for value := range 4 {
				if value == 2 {
					if _, err := ask(ctx, run, "k"); err != nil {
						return nil, err
					}
				}
				if err := run.Report(task.Progress{Value: float64(value)}); err != nil {
					t.Errorf("run %d, value %d: %v", p.runs.Load(), value, err)
				}
			}
			return raw(`{}`), nil
		}
		creator := new(peer)
		created := create(t, p.Manager, task.Request{Restartable: true, Work: p.run, Via: creator, Token: progressToken})
		time.Sleep(2 * time.Second)
		requestor := &peer{answer: echoMessage}
		if out, err := p.Result(t.Context(), "alice", created.TaskID, requestor); err != nil || out.Error != nil {
			t.Fatal(out.Error, err)
		}
		p.checkRuns(t, 2)
		checkEqual(t, "progress", []float64{0, 1, 2, 3}, append(creator.progress(), requestor.progress()...))
	})
}

// The request of work that runs again after a restart counts until the work returns, even if its
// task is cancelled.
func TestRequestOfParkedWorkCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}, Limits: task.Limits{Bytes: 6000}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			_, err := ask(ctx, run, "k")
			if err == nil {
				<-finish
			}
			return nil, err
		})
		params := json.RawMessage(`"` + strings.Repeat("x", 3000) + `"`)
		id := create(t, p.Manager, task.Request{Restartable: true, Work: p.run, Params: params}).TaskID
		time.Sleep(2 * time.Second)
		p.restart(t)
		ctx, cancel := context.WithCancel(t.Context())
		go p.Result(ctx, "alice", id, &peer{answer: echoMessage}) // ends with ctx
		synctest.Wait()
		cancel()
		if _, err := p.Cancel(t.Context(), "alice", id, nil); err != nil {
			t.Fatal(err)
		}
		q := task.Request{Principal: "alice", Params: params, Work: returns(`{}`)}
		_, err := p.Create(t.Context(), q)
		if limit, ok := errors.AsType[*task.LimitError](err); !ok || limit.Code != task.CodeTooManyBytes {
			t.Errorf("while the cancelled work runs: %v", err)
		}
		close(finish)
		synctest.Wait()
		if _, err := p.Create(t.Context(), q); err != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}

// A parked task whose record is damaged when it is due fails.
func TestDamagedRecordOfParkedWorkFailsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &damagedStore{Store: memory.New()}
		until := time.Now().Add(time.Minute)
		p := newParking(t, task.Options{Store: store, Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			return raw(`{}`), run.Sleep(ctx, until)
		})
		id := p.start(t)
		time.Sleep(2 * time.Second)
		store.damage(id)
		time.Sleep(2 * time.Minute)
		if out := result(t, p.Manager, id); out.Error == nil || out.Error.Message != "the stored record of the task is damaged" {
			t.Errorf("%s, %v", out.Result, out.Error)
		}
	})
}

// A parked task counts against the limit of tasks, until it is cancelled or has expired.
func TestParkedTaskCountsAgainstLimit(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, p *parking, id string){
		"cancelled": func(t *testing.T, p *parking, id string) {
			if _, err := p.Cancel(t.Context(), "alice", id, nil); err != nil {
				t.Error(err)
			}
		},
		"expired": func(t *testing.T, p *parking, id string) { time.Sleep(time.Hour) },
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarts %t", name, restarts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}, Limits: task.Limits{Tasks: 1, Bytes: 2000}}, askTwice)
					for range 10 { // the bytes of a task would add up otherwise
						id := p.start(t)
						time.Sleep(2 * time.Second)
						if restarts {
							p.restart(t)
						}
						if s := p.Stats(); s.Parked != 1 {
							t.Fatalf("%+v", s)
						}
						_, err := p.Create(t.Context(), task.Request{Principal: "alice", Work: untilDone})
						if limit, ok := errors.AsType[*task.LimitError](err); !ok || limit.Code != task.CodeTooManyTasks {
							t.Fatalf("created a second task: %v", err)
						}
						end(t, p, id)
						synctest.Wait()
						if s := p.Stats(); s.Parked != 0 || s.Running != 0 {
							t.Fatalf("%+v", s)
						}
						if name == "cancelled" {
							time.Sleep(time.Hour) // the record expires
						}
					}
				})
			})
		}
	}
}

// Work that waits for a signal is parked even if its principal has no bytes left.
func TestWorkIsParkedAtLimitOfBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}, Limits: task.Limits{Bytes: 4000}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			runs.Add(1)
			_, err := run.Internals(boundary.Caller{}).AwaitSignal(ctx, []string{"go"}, time.Time{})
			return raw(`{}`), err
		})
		id := p.start(t)
		for size := 4000; size >= 0; size-- { // until nothing more fits
			p.Create(t.Context(), task.Request{Principal: "alice", Params: fmt.Appendf(nil, `"%*s"`, size, ""), Work: untilDone})
		}
		time.Sleep(10 * time.Minute)
		if s := p.Stats(); s.Parked != 1 || runs.Load() != 1 {
			t.Errorf("%d runs, %+v", runs.Load(), s)
		}
		err := p.Signal(t.Context(), id, "go", json.RawMessage(`1`))
		if limit, ok := errors.AsType[*task.LimitError](err); !ok || limit.Code != task.CodeTooManyBytes {
			t.Errorf("signal above the limit: %v", err)
		}
	})
}

// brokenError wraps another error. Its methods panic if it is nil.
type brokenError struct{ cause error }

func (e *brokenError) Error() string { return e.cause.Error() }
func (e *brokenError) Unwrap() error { return e.cause }

// Work that returns an error that cannot be examined, after it was parked, has failed.
func TestParkedWorkFailsWithErrorWhoseMethodsPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			var none *brokenError
			if _, err := ask(ctx, run, "first"); err != nil {
				return nil, none
			}
			return raw(`{}`), nil
		})
		id := p.start(t)
		time.Sleep(time.Minute)
		out, err := p.Result(t.Context(), "alice", id, nil)
		if err != nil || out.Error == nil || out.Error.Message != "internal error: methods of the error panic (*task_test.brokenError)" {
			t.Errorf("outcome %+v, %v", out, err)
		}
	})
}

// The requestor that was last seen receives the status of the task after it was parked.
func TestStatusIsSentAfterParking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}}, askTwice)
		creator := new(peer)
		id := create(t, p.Manager, task.Request{Restartable: true, Work: p.run, Via: creator}).TaskID
		time.Sleep(2 * time.Second)
		if _, err := p.Result(t.Context(), "alice", id, &peer{answer: echoMessage}); err != nil {
			t.Fatal(err)
		}
		p.restart(t)
		created := create(t, p.Manager, task.Request{Restartable: true, Work: p.run, Via: creator})
		time.Sleep(2 * time.Second)
		p.Cancel(t.Context(), "alice", created.TaskID, nil)
		synctest.Wait()
		last := creator.received()
		if len(last) == 0 || !slices.ContainsFunc(last, func(s string) bool { return containsAll(s, "tasks/status", `"cancelled"`, created.TaskID) }) {
			t.Errorf("received %q", last)
		}
	})
}

// If the store fails when parked work is due, the work runs once the store works again.
func TestParkedWorkSurvivesFailureOfStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failingStore{Store: memory.New()}
		until := time.Now().Add(10 * time.Minute)
		p := newParking(t, task.Options{Store: store, Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			return raw(`{}`), run.Sleep(ctx, until)
		})
		id := p.start(t)
		store.setError(errors.New("disk full")) // already when it is to be parked
		time.Sleep(time.Minute)
		store.setError(nil)
		time.Sleep(time.Minute)
		if !p.parked(t, id) {
			t.Fatal("not parked")
		}
		store.setError(errors.New("disk full"))
		time.Sleep(20 * time.Minute)
		store.setError(nil)
		if out := result(t, p.Manager, id); out.Error != nil {
			t.Error(out.Error)
		}
		p.checkRuns(t, 2)
	})
}

// A parked task whose work panics when it is looked up fails when it is due.
func TestParkedWorkThatCannotRunFails(t *testing.T) {
	recovered := func(task.Record) task.Work { panic("no") }
	runInBubble(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second, Recover: recovered}, Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		created := create(t, m, task.Request{Restartable: true, Work: askTwice})
		time.Sleep(2 * time.Second)
		out, err := m.Result(t.Context(), "alice", created.TaskID, &peer{answer: echoMessage})
		if err != nil || out.Error == nil || out.Error.Message != "the receiver can no longer run the task" {
			t.Errorf("%s, %v, %v", out.Result, out.Error, err)
		}
		synctest.Wait()
		if s := m.Stats(); s.Running != 0 || s.Parked != 0 || s.Failed != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// ErrParked of work that does not wait for anything is an error like any other.
func TestErrParkedWithoutWaitFailsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParking(t, task.Options{Updates: task.Updates{Quiet: true}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			return nil, task.ErrParked
		})
		if out := result(t, p.Manager, p.start(t)); out.Error == nil {
			t.Errorf("result %s", out.Result)
		}
	})
}

// An answer to an input request that later runs know resets the count of re-runs.
func TestAnswerResetsReruns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		lost, first := newCrashableManager(t, store)
		id := create(t, first, task.Request{Restartable: true, Work: askTwice}).TaskID
		synctest.Wait()
		lost.setError(errors.New("killed"))
		m := newManager(t, task.Options{Store: store, Updates: task.Updates{Quiet: true}, Recovery: task.Recovery{Recover: func(task.Record) task.Work {
			return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				if _, err := ask(ctx, run, "first"); err != nil {
					return nil, err
				}
				return untilDone(ctx, run)
			}
		}}})
		check := func(want int) {
			t.Helper()
			if r, err := store.Get(t.Context(), id); err != nil || r.Reruns != want {
				t.Errorf("%d re-runs, want %d, %v", r.Reruns, want, err)
			}
		}
		check(1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go m.Result(ctx, "alice", id, &peer{answer: echoMessage}) // ends with ctx
		synctest.Wait()
		check(0)
	})
}

// Recovery.MaxReruns counts the re-runs since the journal has grown. Runs of parked work do not
// count.
func TestProgressResetsReruns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		var steps atomic.Int64
		work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			entries, _, err := run.Journal(ctx)
			if err != nil {
				return nil, err
			}
			if n := int(steps.Load()); len(entries) < n {
				if err := run.Record(ctx, task.Entry{Kind: 1, Key: "step", Occurrence: n}); err != nil {
					return nil, err
				}
			}
			return untilDone(ctx, run)
		}
		var lost *failingStore
		var current *task.Manager
		begin := func() {
			lost = &failingStore{Store: store}
			m, err := task.New(t.Context(), task.Options{Store: lost, Recovery: task.Recovery{MaxReruns: 2, Recover: func(task.Record) task.Work { return work }}, Updates: task.Updates{Quiet: true}, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Close(context.Background()) }) // cannot store the outcome
			current = m
			synctest.Wait()
		}
		begin()
		id := create(t, current, task.Request{Restartable: true, Work: work}).TaskID
		for n := range 10 { // every second run records a step
			steps.Add(int64(n % 2))
			lost.setError(errors.New("killed"))
			begin()
			if got := status(t, current, id); got != mcp.TaskStatusWorking {
				t.Fatalf("%s after %d steps", got, steps.Load())
			}
		}
		for range 3 {
			lost.setError(errors.New("killed"))
			begin()
		}
		if got := status(t, current, id); got != mcp.TaskStatusFailed {
			t.Errorf("%s after three crashes without progress", got)
		}
	})
}

// losingStore is a store that makes the change of an Update and then fails, until recover is
// called.
type losingStore struct {
	failingStore
	losing atomic.Bool
}

func (s *losingStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	out, err := s.failingStore.Update(ctx, r)
	if s.losing.Load() {
		s.setError(errors.New("broken"))
		return task.Record{}, s.currentError()
	}
	return out, err
}

func (s *losingStore) recover() {
	s.losing.Store(false)
	s.setError(nil)
}

// If the store has made a change of a parked task although it reported a failure, the work runs, or
// the task ends, as soon as its requestor looks at it.
func TestParkedTaskContinuesAfterLostChange(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(p *parking, id string) error
		runs   int64
	}{
		"answer": {func(p *parking, id string) error {
			return p.Update(context.Background(), "alice", id, "tasks/update", func(*task.InputRequest) (json.RawMessage, error) { return raw(`1`).bytes(), nil })
		}, 2},
		"cancellation": {func(p *parking, id string) error {
			_, err := p.Cancel(context.Background(), "alice", id, nil)
			return err
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &losingStore{failingStore: failingStore{Store: memory.New()}}
				p := newParking(t, task.Options{Store: store, Recovery: task.Recovery{ParkAfter: time.Second}, Updates: task.Updates{Quiet: true}, Limits: task.Limits{Tasks: 1}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					_, err := ask(ctx, run, "a")
					return raw(`{}`), err
				})
				id := p.start(t)
				time.Sleep(time.Minute)
				store.losing.Store(true)
				if err := tt.change(p, id); err == nil {
					t.Error("no error")
				}
				store.recover()
				get(t, p.Manager, id)
				synctest.Wait()
				if got := status(t, p.Manager, id); !task.Terminal(got) {
					t.Errorf("the task is %s", got)
				}
				p.checkRuns(t, tt.runs)
				p.start(t) // the limit allows another one
			})
		})
	}
}
