package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/faultstore"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// payment waits for a signal, an answer or an hour, and returns which was the first.
func payment(ctx context.Context, c *server.Call) (string, error) {
	paid := server.OnSignal[int]("paid")
	asked := server.OnAnswer(func(ctx context.Context) (string, error) { return askName(ctx, c, "Who?") })
	late := server.After(time.Hour)
	first, err := server.Select(ctx, c, "payment", paid, asked, late)
	switch {
	case err != nil:
		return "", err
	case first == paid:
		return fmt.Sprint("paid ", paid.Value), nil
	case first == asked:
		return asked.Value, nil
	}
	return "late", nil
}

// happen makes each of the events of payment happen.
var happen = map[string]func(d *durable, id string){
	"paid 7":     func(d *durable, id string) { d.signal(id, "paid", 7) },
	"accept Ada": func(d *durable, id string) { d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`)) },
	"late":       func(*durable, string) { time.Sleep(2 * time.Hour) },
}

// signal sends a signal.
func (d *durable) signal(id, name string, v any) {
	d.t.Helper()
	if err := d.s.Signal(d.t.Context(), id, name, v); err != nil {
		d.t.Error(err)
	}
}

// questions returns the messages of the open input requests of a task.
func (d *durable) questions(id string) (list []string) {
	for _, q := range d.open(id) {
		list = append(list, strings.Trim(part(string(q.Params), "message"), `"`))
	}
	return list
}

// The first event is that of all runs, and the input request of the others is withdrawn.
func TestSelectKeepsFirstEvent(t *testing.T) {
	for want, happens := range happen {
		for _, fate := range []string{"running", "parked", "restarted", "parked and restarted", "restarted meanwhile"} {
			t.Run(want+", "+fate, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var results []string
					d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
						got, err := payment(ctx, c)
						if err != nil {
							return "", err
						}
						results = append(results, got)
						_, err = askName(ctx, c, "More?")
						return got, err
					})
					if !strings.Contains(fate, "parked") {
						d.s.Close()
						d.cfg.Tasks.Recovery.ParkAfter = -1
						d.start()
					}
					id := d.call()
					time.Sleep(time.Minute)
					if strings.HasSuffix(fate, "restarted") {
						d.restart()
						time.Sleep(time.Minute)
					}
					equal(t, "open", []string{"Who?"}, d.questions(id))
					if parked := d.m.Stats().Parked > 0; parked != strings.Contains(fate, "parked") {
						t.Errorf("parked: %v", parked)
					}
					if r := d.record(id); r.Durable.Parked && !slices.Equal(r.Durable.Awaits, []string{"paid"}) {
						t.Errorf("awaits %q", r.Durable.Awaits)
					}
					happens(d, id)
					if fate == "restarted meanwhile" {
						d.restart()
					}
					time.Sleep(time.Minute)
					equal(t, "open", []string{"More?"}, d.questions(id))
					d.signal(id, "paid", 8)
					d.restart()
					time.Sleep(4 * time.Hour)
					d.answer(id, d.open(id)[0].Number, accept(`{"name":"Bob"}`))
					equal(t, "result", want, d.result(id))
					for _, got := range results {
						equal(t, "result of a run", want, got)
					}
				})
			})
		}
	}
}

// Of events that have happened while no process was running, the answer comes before the signal,
// and the signal before the time. The other signal stays.
func TestSelectAfterSeveralEvents(t *testing.T) {
	for _, row := range [][]string{{"accept Ada", "paid 7", "late"}, {"paid 7", "late"}, {"accept Ada", "late"}} {
		synctest.Test(t, func(t *testing.T) {
			d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
				got, err := payment(ctx, c)
				if err != nil || got == "paid 7" {
					return got, err
				}
				again, err := server.Await[int](ctx, c, "paid")
				return fmt.Sprint(got, again), err
			})
			id := d.call()
			time.Sleep(time.Minute)
			d.s.Close()
			r := d.record(id)
			for _, event := range row { // stored by another process, which has died then
				switch event {
				case "accept Ada":
					r.InputRequests = slices.Clone(r.InputRequests)
					r.InputRequests[0].Result = json.RawMessage(accept(`{"name":"Ada"}`))
				case "paid 7":
					v := *r.Durable
					v.Signals = []task.Signal{{ID: "x", Name: "paid", Value: json.RawMessage(`7`)}}
					r.Durable = &v
				case "late":
					time.Sleep(2 * time.Hour)
				}
			}
			v := *r.Durable
			v.Parked, v.Awaits, v.Wake = false, nil, time.Time{}
			r.Durable = &v
			must(d.cfg.Tasks.Store.Update(t.Context(), r))
			d.start()
			want := row[0]
			if want == "accept Ada" {
				if want += "7"; !slices.Contains(row, "paid 7") {
					time.Sleep(time.Minute)
					d.signal(id, "paid", 7)
				}
			}
			equal(t, fmt.Sprint("result after ", row), want, d.result(id))
		})
	}
}

// A case that has happened keeps the input requests of the others from being sent.
func TestSelectSendsNothingInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			if err := server.Sleep(ctx, c, "nap", func() time.Time { return time.Now().Add(time.Second / 2) }); err != nil {
				return "", err
			}
			return payment(ctx, c)
		})
		id := d.call()
		d.signal(id, "paid", 7)
		equal(t, "result", "paid 7", d.result(id))
		if last := d.record(id).Durable.LastInput; last != 0 {
			t.Errorf("%d input requests", last)
		}
	})
}

// A function that takes long before its first input request delays no other event, and is not parked
// meanwhile, because its next run would take as long.
func TestSelectWithFunctionThatIsSlowToAsk(t *testing.T) {
	for want, row := range map[string]struct {
		slow   time.Duration
		happen func(d *durable, id string)
	}{
		"late":   {slow: 24 * time.Hour},
		"paid 7": {24 * time.Hour, func(d *durable, id string) { d.signal(id, "paid", 7) }},
		"accept Ada": {time.Minute, func(d *durable, id string) {
			time.Sleep(time.Minute)
			d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
		}},
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
					paid := server.OnSignal[int]("paid")
					asked := server.OnAnswer(func(ctx context.Context) (string, error) {
						select {
						case <-time.After(row.slow):
							return askName(ctx, c, "Who?")
						case <-ctx.Done():
							return "", ctx.Err()
						}
					})
					first, err := server.Select(ctx, c, "payment", paid, asked, server.After(time.Hour))
					switch {
					case err != nil:
						return "", err
					case first == paid:
						return fmt.Sprint("paid ", paid.Value), nil
					case first == asked:
						return asked.Value, nil
					}
					return "late", nil
				})
				begun := time.Now()
				id := d.call()
				time.Sleep(time.Second)
				if row.happen != nil {
					row.happen(d, id)
				}
				equal(t, "result", want, d.result(id))
				if took := time.Since(begun); took > 2*time.Hour {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// Signals with one name are received in their order, each one once, whether the handler waits for
// them, is parked or does not run. A signal with another name does not run it.
func TestAwaitReceivesSignalsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			runs++
			var got []string
			for range 4 {
				s, err := server.Await[string](ctx, c, "word")
				if err != nil {
					return "", err
				}
				got = append(got, s)
			}
			n, err := server.Await[map[string]int](ctx, c, "number")
			return fmt.Sprint(got, n), err
		})
		id := d.call()
		d.signal(id, "word", "at")
		d.signal(id, "word", "once")
		time.Sleep(time.Minute) // parked
		d.signal(id, "number", map[string]int{"n": 5})
		time.Sleep(time.Minute)
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
		d.signal(id, "word", "parked")
		d.s.Close()
		d.start()
		time.Sleep(time.Minute)
		d.signal(id, "word", "again")
		equal(t, "result", "[at once parked again] map[n:5]", d.result(id))
		equal(t, "signals left", 0, len(d.record(id).Durable.Signals))
	})
}

// Branches that wait for the same signal do not get the same one.
func TestAwaitInBranches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			var mu sync.Mutex
			sum := 0
			wait := func(ctx context.Context) error {
				n, err := server.Await[int](ctx, c, "n")
				mu.Lock()
				defer mu.Unlock()
				sum += n
				return err
			}
			err := c.RunAll(ctx, wait, wait, wait)
			return fmt.Sprint(sum), err
		})
		id := d.call()
		d.signal(id, "n", 1)
		time.Sleep(time.Minute)
		d.signal(id, "n", 10)
		d.restart()
		d.signal(id, "n", 100)
		equal(t, "result", "111", d.result(id))
	})
}

// A deadline ends a wait for all runs, and withdraws its input requests.
func TestSelectWithDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures []error
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			limited, cancel := context.WithTimeout(ctx, 30*time.Minute)
			defer cancel()
			got, err := payment(limited, c)
			if _, again := errors.AsType[*server.InputRequiredError](err); again {
				return "", err
			}
			failures = append(failures, err)
			short, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			_, awaited := server.Await[int](short, c, "paid")
			if _, again := errors.AsType[*server.InputRequiredError](awaited); again {
				return "", awaited
			}
			failures = append(failures, awaited)
			gone, cancel := context.WithCancel(ctx)
			cancel()
			_, ended := server.Await[int](gone, c, "paid")
			return fmt.Sprint(got, errors.Is(err, context.DeadlineExceeded), errors.Is(awaited, context.DeadlineExceeded), errors.Is(ended, context.Canceled)), nil
		})
		id := d.call()
		began := time.Now()
		time.Sleep(20 * time.Minute)
		d.restart()
		time.Sleep(time.Until(began.Add(30 * time.Minute)))
		synctest.Wait()
		equal(t, "open", []string(nil), d.questions(id))
		d.restart()
		equal(t, "result", "true true true", d.result(id))
		if d := time.Since(began).Truncate(time.Second); d != 90*time.Minute {
			t.Errorf("took %v", d)
		}
		for _, err := range failures {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
	})
}

// A wait whose deadline has passed while no process was running ends with what came before the
// deadline. The deadline is the same time in all runs.
func TestSelectEndsWithEventBeforeDeadline(t *testing.T) {
	for _, want := range []string{"paid 7", "late"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
				until, err := server.Step(ctx, c, "until", func(context.Context) (time.Time, error) { return time.Now().Add(90 * time.Minute), nil })
				if err != nil {
					return "", err
				}
				limited, cancel := context.WithDeadline(ctx, until)
				defer cancel()
				return payment(limited, c)
			})
			id := d.call()
			time.Sleep(time.Minute)
			d.s.Close()
			if want == "paid 7" {
				r := d.record(id)
				v := *r.Durable
				v.Parked, v.Awaits, v.Wake = false, nil, time.Time{}
				v.Signals = []task.Signal{{ID: "x", Name: "paid", Value: json.RawMessage(`7`)}}
				r.Durable = &v
				must(d.cfg.Tasks.Store.Update(t.Context(), r)) // by another process, which has died then
			}
			time.Sleep(2 * time.Hour)
			d.start()
			equal(t, "result", want, d.result(id))
		})
	}
}

// heldStore holds one of the reads that wait for a change, once it has the changed record.
type heldStore struct {
	task.Store
	holds atomic.Int64 // the number of the read, from now on; below 1 for none
	held  atomic.Bool
}

func (s *heldStore) Wait(ctx context.Context, id string, revision uint64) (task.Record, error) {
	r, err := s.Store.Wait(ctx, id, revision)
	if err == nil && s.holds.Add(-1) == 0 {
		s.held.Store(true)
		time.Sleep(time.Minute)
	}
	return r, err
}

// A task that is parked at the moment at which the function of a case gets its response goes on at
// once, whether the function or the wait for a signal reads the response later.
func TestSelectAnsweredWhileParking(t *testing.T) {
	for read := range int64(2) {
		held := false
		for attempt := 0; !held; attempt++ { // Select may end before the later read begins
			if attempt == 100 {
				t.Fatalf("read %d has not happened in %d attempts", read, attempt)
			}
			synctest.Test(t, func(t *testing.T) { held = answeredWhileParking(t, read) })
		}
	}
}

// answeredWhileParking holds a read of the response until the task is parked. It returns false if
// there was no such read.
func answeredWhileParking(t *testing.T, read int64) (held bool) {
	runs := 0
	d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
		runs++
		paid := server.OnSignal[int]("paid")
		asked := server.OnAnswer(func(ctx context.Context) (string, error) { return askName(ctx, c, "Who?") })
		_, err := server.Select(ctx, c, "payment", paid, asked)
		return asked.Value, err
	})
	d.s.Close()
	store := &heldStore{Store: d.cfg.Tasks.Store}
	d.cfg.Tasks.Store = store
	d.start()
	id := d.call()
	time.Sleep(time.Second / 2)
	store.holds.Store(read + 1)
	d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
	time.Sleep(5 * time.Minute)
	if r := d.record(id); !task.Terminal(r.Status) {
		t.Fatalf("read %d: the task is %s after %d runs", read, r.Status, runs)
	}
	equal(t, "result", "accept Ada", d.result(id))
	want := 1
	if held = store.held.Load(); held {
		want = 2
	}
	equal(t, fmt.Sprintf("runs with read %d held: %t", read, held), want, runs)
	return held
}

// stuckStore has a read that fails when its context ends, and not before.
type stuckStore struct {
	task.Store
	reads atomic.Int64 // until that read; below 1 for none
}

func (s *stuckStore) Get(ctx context.Context, id string) (task.Record, error) {
	if s.reads.Add(-1) == 0 && ctx.Done() != nil {
		<-ctx.Done()
		return task.Record{}, ctx.Err()
	}
	return s.Store.Get(ctx, id)
}

// A server that closes while Select reads the store interrupts the handler: what the handler does
// instead is not the outcome of the task.
func TestSelectReadsWhileClosing(t *testing.T) {
	for read := range int64(10) {
		for range 10 { // the read and the wait end at the same time
			synctest.Test(t, func(t *testing.T) {
				d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
					got, err := payment(ctx, c)
					if _, again := errors.AsType[*server.InputRequiredError](err); err != nil && !again {
						return "instead", nil
					}
					return got, err
				})
				d.s.Close()
				store := &stuckStore{Store: d.cfg.Tasks.Store}
				d.cfg.Tasks.Store = store
				d.start()
				c := connect(t, d.s, clientConfig{capabilities: clientCapabilities(t, everyInput)})
				store.reads.Store(read + 1)
				created, _ := c.call("tools/call", `{"name":"do","task":{}}`)
				synctest.Wait()
				d.s.Close()
				store.reads.Store(0)
				d.start()
				id := taskID(t, created)
				if !task.Terminal(d.record(id).Status) {
					d.signal(id, "paid", 7)
				}
				equal(t, fmt.Sprint("result after read ", read), "paid 7", d.result(id))
			})
		}
	}
}

// Every value that Signal accepts can be received, in each run.
func TestAwaitReceivesDeepestValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			v, err := server.Await[json.RawMessage](ctx, c, "deep")
			if err != nil {
				return "", err
			}
			n, err := server.Await[int](ctx, c, "number")
			return fmt.Sprint(len(v), n), err
		})
		id := d.call()
		deep := json.RawMessage(strings.Repeat("[", wire.DefaultDepth) + strings.Repeat("]", wire.DefaultDepth))
		d.signal(id, "deep", deep)
		time.Sleep(time.Minute)
		d.restart()
		d.signal(id, "number", 1)
		equal(t, "result", fmt.Sprint(len(deep), 1), d.result(id))
		if err := d.s.Signal(t.Context(), d.call(), "deep", json.RawMessage("["+string(deep)+"]")); !errors.Is(err, jsonfault.Depth) {
			t.Errorf("a deeper value: %v", err)
		}
	})
}

// The error of the function of the first case is that of Select, in each run.
func TestSelectReturnsErrorOfFirstCase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			runs++
			asked := server.OnAnswer(func(ctx context.Context) (string, error) { return askName(ctx, c, "Who?") })
			first, failed := server.Select(ctx, c, "s", server.OnSignal[int]("n"), asked)
			if first == nil {
				return "", failed
			}
			text := server.OnSignal[string]("n")
			second, wrong := server.Select(ctx, c, "s", text, server.After(time.Hour))
			if second == nil {
				return "", wrong
			}
			if _, err := askName(ctx, c, "More?"); err != nil {
				return "", err
			}
			return fmt.Sprint(first == asked, errors.Is(failed, server.ErrAnswer), second == text, wrong), nil
		})
		id := d.call()
		time.Sleep(time.Minute)
		d.answer(id, d.open(id)[0].Number, `{"action":"accept","content":{"name":7}}`)
		time.Sleep(time.Minute)
		d.signal(id, "n", 7)
		time.Sleep(time.Minute)
		d.restart()
		d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
		if got := d.result(id); !strings.HasPrefix(got, `true true true server: select "s": value of signal "n"`) {
			t.Error(got)
		}
		if runs < 4 {
			t.Errorf("%d runs", runs)
		}
	})
}

// A task that is cancelled while it selects ends, and its undos run.
func TestCancelledSelectIsUndone(t *testing.T) {
	for _, parkAfter := range []time.Duration{-1, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			x := newEffects(t)
			d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
				if err := x.book(ctx, c, "train"); err != nil {
					return "", err
				}
				if _, err := server.Await[int](ctx, c, "go"); err != nil {
					return "", err
				}
				return payment(ctx, c)
			})
			d.s.Close()
			d.cfg.Tasks.Recovery.ParkAfter = parkAfter
			d.start()
			id := d.call()
			time.Sleep(time.Minute)
			d.signal(id, "go", 1)
			d.signal(id, "other", 1)
			time.Sleep(time.Minute)
			must(d.m.Cancel(t.Context(), "ada", id, nil))
			time.Sleep(time.Minute)
			equal(t, "effects", []string{"train", "undo train"}, x.all())
			err := d.s.Signal(t.Context(), id, "paid", 1)
			if _, ended := errors.AsType[*task.MoveError](err); !ended {
				t.Errorf("signal after the end: %v", err)
			}
		})
	}
}

// What no task can take is refused.
func TestSignalErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := newServer(t, server.Options{})
		if err := none.Signal(t.Context(), "x", "n", 1); err == nil {
			t.Error("a server without tasks has accepted a signal")
		}
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			return "", server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(8 * time.Hour) })
		})
		server.AddTool(d.s, "lasts", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			_, err := server.Await[int](ctx, c, "n")
			<-ctx.Done()
			return "", err
		}, server.DefineTool(func(t *mcp.Tool) { t.Execution = &mcp.ToolExecution{TaskSupport: new(mcp.TaskSupportRequired)} }))
		c := connect(t, d.s, clientConfig{})
		created, _ := c.call("tools/call", `{"name":"lasts","task":{}}`)
		synctest.Wait()
		id := d.call()
		for _, row := range []struct {
			id, name string
			value    any
			want     error
		}{
			{"unknown", "n", 1, task.ErrNotFound},
			{id, "", 1, nil},
			{id, strings.Repeat("n", taskrules.MaxSignalName+1), 1, nil},
			{id, "n", func() {}, nil},
			{id, "n", strings.Repeat("x", taskrules.MaxSignalBytes), task.ErrTooManySignals},
			{taskID(t, created), "n", 1, task.ErrNoSignals},
		} {
			if err := d.s.Signal(t.Context(), row.id, row.name, row.value); err == nil || row.want != nil && !errors.Is(err, row.want) {
				t.Errorf("%+v: %v", row, err)
			}
		}
		for range taskrules.MaxSignals {
			d.signal(id, "n", 1)
		}
		if err := d.s.Signal(t.Context(), id, "n", 1); !errors.Is(err, task.ErrTooManySignals) {
			t.Error(err)
		}
		time.Sleep(9 * time.Hour)
		err := d.s.Signal(t.Context(), id, "n", 1)
		if _, ended := errors.AsType[*task.MoveError](err); !ended {
			t.Errorf("signal after the end: %v", err)
		}
		d.s.Close()
		if err := d.m.Signal(t.Context(), id, "n", json.RawMessage(`1`)); !errors.Is(err, task.ErrClosed) {
			t.Error(err)
		}
	})
}

// Mistakes in the use of Select fail at once, in the first run.
func TestSelectRefusesMistakes(t *testing.T) {
	for want, f := range map[string]func(ctx context.Context, c *server.Call) error{
		"without a name": func(ctx context.Context, c *server.Call) error {
			_, err := server.Select(ctx, c, "", server.After(0))
			return err
		},
		"no cases": func(ctx context.Context, c *server.Call) error {
			_, err := server.Select(ctx, c, "s")
			return err
		},
		"case 2 is nil, or an earlier one": func(ctx context.Context, c *server.Call) error {
			late := server.After(0)
			_, err := server.Select(ctx, c, "s", late, late)
			return err
		},
		"cannot be recorded": func(ctx context.Context, c *server.Call) error {
			_, err := server.Await[chan int](ctx, c, "s")
			return err
		},
		"signal without a name": func(ctx context.Context, c *server.Call) error {
			_, err := server.Await[int](ctx, c, "")
			return err
		},
		`step "s" of branch 1.1 in a case of wait "s"`: func(ctx context.Context, c *server.Call) error {
			_, err := server.Select(ctx, c, "s", server.OnAnswer(func(ctx context.Context) (int, error) {
				return server.Step(ctx, c, "s", func(context.Context) (int, error) { return 1, nil })
			}))
			return err
		},
		"RunAll in a case": func(ctx context.Context, c *server.Call) error {
			_, err := server.Select(ctx, c, "s", server.OnAnswer(func(ctx context.Context) (int, error) {
				return 0, c.RunAll(ctx, func(context.Context) error { return nil })
			}))
			return err
		},
		"case 2 has made no input request": func(ctx context.Context, c *server.Call) error {
			_, err := server.Select(ctx, c, "s", server.After(time.Hour), server.OnAnswer(func(ctx context.Context) (int, error) { return 1, nil }))
			return err
		},
		`wait "t" begins while wait "s" is running`: func(ctx context.Context, c *server.Call) error {
			_, err := server.Select(ctx, c, "s", server.OnAnswer(func(context.Context) (string, error) {
				server.Await[int](ctx, c, "t") // with the context of the handler
				return "", nil
			}))
			return err
		},
		`wait in step "s"`: func(ctx context.Context, c *server.Call) error {
			_, err := server.Step(ctx, c, "s", func(ctx context.Context) (int, error) { return server.Await[int](ctx, c, "t") })
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) { return "", f(ctx, c) })
			if got := d.result(d.call()); !strings.Contains(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A function that looks at its context makes no input request in the runs after another event was
// the first. That one is withdrawn nevertheless, and is no difference between the runs.
func TestFunctionOfOtherCaseLooksAtItsContext(t *testing.T) {
	for _, fate := range []string{"running", "parked", "parked, and answered meanwhile"} {
		t.Run(fate, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				steps := 0
				d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
					late := server.After(time.Minute)
					asked := server.OnAnswer(func(ctx context.Context) (string, error) {
						if err := ctx.Err(); err != nil { // as of a lookup
							return "", err
						}
						return askName(ctx, c, "Who?")
					})
					first, err := server.Select(ctx, c, "wait", asked, late)
					if err != nil {
						return "", err
					}
					if err := server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(time.Hour) }); err != nil {
						return "", err
					}
					_, err = server.Step(ctx, c, "charge", func(context.Context) (int, error) { steps++; return steps, nil })
					return fmt.Sprint(first == late), err
				})
				if fate == "running" {
					d.s.Close()
					d.cfg.Tasks.Recovery.ParkAfter = -1
					d.start()
				}
				id := d.call()
				time.Sleep(30 * time.Second)
				equal(t, "open", []string{"Who?"}, d.questions(id))
				number := d.open(id)[0].Number
				time.Sleep(time.Minute)
				equal(t, "open", 0, len(d.open(id)))
				if fate == "parked, and answered meanwhile" {
					d.answer(id, number, accept(`{"name":"Ada"}`))
				}
				d.restart()
				equal(t, "result", "true", d.result(id))
				equal(t, "steps", 1, steps)
			})
		})
	}
}

// withoutNames is a store whose journals are those of versions that did not record the name of the
// signal that a wait has received.
type withoutNames struct{ task.Store }

func (s withoutNames) Journal(ctx context.Context, id string) ([]task.Entry, error) {
	entries, err := s.Store.Journal(ctx, id)
	entries = slices.Clone(entries)
	for i, e := range entries {
		var outcome []json.RawMessage
		if json.Unmarshal(e.Result, &outcome) == nil && len(outcome) == 4 {
			entries[i].Result, _ = json.Marshal(outcome[:3])
		}
	}
	return entries, err
}

// The winner of a Select is known by the name of its signal, wherever its case is. Cases that have
// changed places otherwise are noticed.
func TestWinnerOfSelectHasName(t *testing.T) {
	for name, row := range map[string]struct {
		answers, stores, swaps bool
		want                   string
	}{
		"signals":                        {want: "a 1 accept Ada"},
		"signals in other places":        {swaps: true, want: "a 1 accept Ada"},
		"recorded by an earlier version": {stores: true, want: "a 1 accept Ada"},
		"answer and time":                {answers: true, want: "answer accept Ada"},
		"answer in the place of time":    {answers: true, swaps: true, want: "not deterministic"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var swap atomic.Bool
				d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
					a, b := server.OnSignal[int]("a"), server.OnSignal[int]("b")
					answer := server.OnAnswer(func(ctx context.Context) (string, error) { return askName(ctx, c, "First?") })
					cases := []server.Case{a, b}
					if row.answers {
						cases = []server.Case{answer, server.After(time.Hour)}
					}
					if swap.Load() {
						slices.Reverse(cases)
					}
					first, err := server.Select(ctx, c, "s", cases...)
					if err != nil {
						return "", err
					}
					name, err := askName(ctx, c, "More?")
					switch first {
					case a:
						return fmt.Sprint("a ", a.Value, " ", name), err
					case answer:
						return "answer " + name, err
					}
					return "another case", err
				})
				if row.stores {
					d.s.Close()
					d.cfg.Tasks.Store = withoutNames{d.cfg.Tasks.Store}
					d.start()
				}
				id := d.call()
				time.Sleep(time.Minute)
				if row.answers {
					d.answer(id, d.open(id)[0].Number, accept(`{"name":"Bob"}`))
				} else {
					d.signal(id, "a", 1)
				}
				time.Sleep(time.Minute)
				swap.Store(row.swaps)
				d.restart()
				d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
				if got := d.result(id); !strings.Contains(got, row.want) {
					t.Errorf("got %s, want %s", got, row.want)
				}
			})
		})
	}
}

// The cases of a later run must be those of the first one.
func TestSelectWithOtherCases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changed atomic.Bool
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			cases := []server.Case{server.OnSignal[int]("a"), server.After(time.Hour)}
			if changed.Load() {
				slices.Reverse(cases)
			}
			if _, err := server.Select(ctx, c, "s", cases...); err != nil {
				return "", err
			}
			return askName(ctx, c, "More?")
		})
		id, waits := d.call(), d.call()
		d.signal(id, "a", 1)
		time.Sleep(time.Minute)
		changed.Store(true)
		d.restart()
		d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
		for _, id := range []string{id, waits} {
			if got := d.result(id); !strings.Contains(got, "handler is not deterministic") {
				t.Error(got)
			}
		}
	})
}

// In a plain call of a session, the first event counts, and the client is told that the input
// request of the others is cancelled. There are no signals.
func TestSelectInSession(t *testing.T) {
	for _, revision := range []mcp.Revision{"2025-06-18", "2025-11-25"} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, server.Options{})
			addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
				asked := server.OnAnswer(func(ctx context.Context) (string, error) { return askName(ctx, c, "Who?") })
				first, err := server.Select(ctx, c, "s", asked, server.After(10*time.Second))
				if err != nil {
					return "", err
				}
				_, noSignal := server.Await[int](ctx, c, "n")
				if noSignal == nil || !strings.Contains(noSignal.Error(), "the call is not a task") {
					t.Error(noSignal)
				}
				return fmt.Sprint(first == asked, asked.Value), nil
			})
			var takes time.Duration
			var cancelled atomic.Int32
			c := connect(t, s, clientConfig{revision: revision, capabilities: clientCapabilities(t, `{"elicitation":{}}`), handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				select {
				case <-time.After(takes):
					return session.Raw(accept(`{"name":"Ada"}`)), nil
				case <-ctx.Done():
					cancelled.Add(1)
					return nil, ctx.Err()
				}
			}})
			for want, took := range map[string]time.Duration{"trueaccept Ada": time.Second, "false": time.Hour} {
				takes = took
				result, _ := c.call("tools/call", do)
				equal(t, "result", want, text(t, result))
			}
			synctest.Wait()
			if cancelled.Load() != 1 {
				t.Errorf("%d requests were cancelled", cancelled.Load())
			}
		})
	}
}

// In rounds, the time of a timer is looked at with each round. A response in that round comes
// first. Without the Tasks extension, there are no signals.
func TestSelectInRounds(t *testing.T) {
	for _, responds := range []bool{false, true} {
		for _, deadline := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, server.Options{})
				steps := 0
				addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
					asked := server.OnAnswer(func(ctx context.Context) (string, error) { return askName(ctx, c, "Who?") })
					also := server.OnAnswer(func(ctx context.Context) (string, error) { return askName(ctx, c, "What?") })
					cases, limited := []server.Case{asked, also, server.After(time.Minute)}, ctx
					if deadline {
						var cancel context.CancelFunc
						limited, cancel = context.WithTimeout(ctx, time.Minute)
						defer cancel()
						cases = cases[:2]
					}
					first, err := server.Select(limited, c, "s", cases...)
					if first == nil && !errors.Is(err, context.DeadlineExceeded) {
						return "", err
					}
					if _, err := server.Step(ctx, c, "step", func(context.Context) (int, error) { steps++; return 1, nil }); err != nil {
						return "", err
					}
					_, noSignal := server.Await[int](ctx, c, "n")
					if noSignal == nil || !strings.Contains(noSignal.Error(), "Tasks extension") {
						t.Error(noSignal)
					}
					more, err := askName(ctx, c, "More?")
					return fmt.Sprint(first == asked, asked.Value, more), err
				})
				c := connectRounds(t, s)
				last := c.round("tools/call", do, nil, nil)
				equal(t, "requests", 2, len(last.requests))
				last = c.round("tools/call", do, last, nil) // too early
				equal(t, "requests", 2, len(last.requests))
				time.Sleep(2 * time.Minute)
				responses, want := map[string]string{}, "falseaccept Bob"
				for name, params := range last.requests {
					if responds && strings.Contains(params, "Who?") {
						responses[name], want = accept(`{"name":"Ada"}`), "trueaccept Adaaccept Bob"
					}
				}
				last = c.round("tools/call", do, last, responses)
				equal(t, "requests", 1, len(last.requests))
				last = c.round("tools/call", do, last, nil)
				last = c.round("tools/call", do, last, map[string]string{last.name(t): accept(`{"name":"Bob"}`)})
				equal(t, "result", want, last.text)
				equal(t, "steps", 1, steps)
			})
		}
	}
}

// With the Tasks extension, a call becomes a task before it waits for a signal, and its client sees
// nothing of signals.
func TestSignalOfPromotedCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, m := withTasksOf(t, server.Options{Tasks: task.Options{Recovery: task.Recovery{ParkAfter: time.Second}}, Session: session.Options{Principal: "ada"}}, memory.New(), func(s *server.Server) {
			server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) { return payment(ctx, c) }, server.Durable())
		})
		c := connectModern(t, s)
		id := c.startTask("do", `{}`)
		before := c.task(id)
		time.Sleep(time.Minute)
		if m.Stats().Parked != 1 {
			t.Error("not parked")
		}
		if err := s.Signal(t.Context(), id, "other", "secret"); err != nil {
			t.Fatal(err)
		}
		if got := c.task(id); outline(got) != outline(before) || strings.Contains(got, "secret") || strings.Contains(got, "paid") {
			t.Errorf("before %s, after %s", before, got)
		}
		if err := s.Signal(t.Context(), id, "paid", 7); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := c.task(id); text(t, part(got, "result")) != "paid 7" {
			t.Error(got)
		}
	})
}

// A process of a fleet that does not hold a task can signal it, whether the task runs, is parked or
// has no holder.
func TestSignalFromOtherMember(t *testing.T) {
	for _, fate := range []string{"running", "parked", "without a holder"} {
		t.Run(fate, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				cfg := server.Options{Tasks: task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Member: task.Member{Tools: []string{"do"}}}, Session: session.Options{Principal: "ada"}}
				if fate == "running" {
					cfg.Tasks.Recovery.ParkAfter = -1
				}
				add := func(s *server.Server) {
					server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) { return payment(ctx, c) }, server.Durable())
				}
				worker, _ := withTasksOf(t, cfg, f.Store(), add)
				cfg.Tasks.Member.Tools = []string{}
				front, m := withTasksOf(t, cfg, f.Store(), add)
				c := connect(t, front, clientConfig{capabilities: clientCapabilities(t, everyInput)})
				created, _ := c.call("tools/call", `{"name":"do","task":{}}`)
				id := taskID(t, created)
				time.Sleep(time.Minute)
				if parked := worker.Tasks().Stats().Parked; (parked == 1) != (fate != "running") {
					t.Errorf("%d parked", parked)
				}
				if fate == "without a holder" {
					worker.Close()
					time.Sleep(time.Minute)
				}
				if err := front.Signal(t.Context(), id, "paid", 7); err != nil {
					t.Fatal(err)
				}
				if fate == "without a holder" {
					cfg.Tasks.Member.Tools = []string{"do"}
					withTasksOf(t, cfg, f.Store(), add)
				}
				out, err := m.Result(t.Context(), "ada", id, nil)
				if err != nil || text(t, string(out.Result)) != "paid 7" {
					t.Errorf("got %s, %v", out.Result, err)
				}
			})
		})
	}
}

// A fault of the store at any operation neither loses nor repeats a signal or an answer, and only
// delays the task.
func TestSelectWithStoreFaults(t *testing.T) {
	for _, kind := range faultKinds {
		if kind.fault.Delay > 0 {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			for n, reached := 1, true; reached && !t.Failed(); n++ {
				synctest.Test(t, func(t *testing.T) {
					var armed atomic.Bool
					var end time.Time
					var calls atomic.Int64
					store := faultstore.New(memory.New(), func(int, string) faultstore.Fault {
						if !armed.Load() {
							return faultstore.Fault{}
						}
						call := int(calls.Add(1))
						if call == n {
							end = time.Now().Add(kind.time)
						}
						if call >= n && call < n+kind.calls || time.Now().Before(end) {
							return kind.fault
						}
						return faultstore.Fault{}
					})
					d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
						first, err := payment(ctx, c)
						if err != nil {
							return "", err
						}
						second, err := payment(ctx, c)
						if err != nil {
							return "", err
						}
						n, err := server.Await[int](ctx, c, "paid")
						if err != nil {
							return "", err
						}
						// The end of the task would hide whether the last signal was stored.
						err = server.Sleep(ctx, c, "rest", func() time.Time { return time.Now().Add(time.Minute) })
						return fmt.Sprint(first, ", ", second, ", ", n), err
					})
					d.s.Close()
					d.cfg.Tasks.Store = store
					d.start()
					id := d.call()
					synctest.Wait()
					armed.Store(true)
					time.Sleep(10 * time.Second)
					d.signal(id, "paid", 1)
					time.Sleep(10 * time.Second)
					d.signal(id, "paid", 2)
					d.signal(id, "paid", 3)
					equal(t, fmt.Sprint("result with a fault at call ", n), "paid 1, paid 2, 3", d.result(id))
					armed.Store(false)
					reached = int(calls.Load()) >= n
				})
			}
		})
	}
}

// Whichever write of a task is the last of its process, a signal that was sent is received once.
func TestSignalsSurviveDeathOfProcess(t *testing.T) {
	for _, parkAfter := range []time.Duration{-1, time.Second} {
		for dies, left := int64(2), int64(0); left <= 0 && !t.Failed(); dies++ {
			signalsOfDeadProcess(t, parkAfter, dies, true)
			left = signalsOfDeadProcess(t, parkAfter, dies, false)
		}
	}
}

// signalsOfDeadProcess sends signals to a task in a process that dies before or after one of its
// writes, and then in another process. It returns how many writes were left.
func signalsOfDeadProcess(t *testing.T, parkAfter time.Duration, dies int64, after bool) (left int64) {
	synctest.Test(t, func(t *testing.T) {
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			first, err := payment(ctx, c)
			if err != nil {
				return "", err
			}
			second, err := payment(ctx, c)
			if err != nil {
				return "", err
			}
			n, err := server.Await[int](ctx, c, "paid")
			return fmt.Sprint(first, ", ", second, ", ", n), err
		})
		store, writes := d.cfg.Tasks.Store, new(atomic.Int64)
		d.s.Close()
		d.cfg.Tasks.Recovery.ParkAfter, d.cfg.Tasks.Store = parkAfter, &mortal{Store: store, writes: writes, dies: dies, after: after}
		d.start()
		id := d.call()
		time.Sleep(10 * time.Second)
		sent := 0
		for sent < 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := d.s.Signal(ctx, id, "paid", sent+1)
			cancel()
			if err != nil {
				break
			}
			sent++
			time.Sleep(10 * time.Second)
		}
		left = dies - writes.Load()
		d.s.Close()
		d.cfg.Tasks.Store = store
		// The signal whose sender has got an error may have been stored.
		has := func(n int) bool {
			number := fmt.Sprint(n)
			entries := must(store.Journal(t.Context(), id))
			return slices.ContainsFunc(entries, func(e task.Entry) bool { return strings.HasPrefix(string(e.Result), "[0,"+number+",") }) ||
				slices.ContainsFunc(d.record(id).Durable.Signals, func(s task.Signal) bool { return string(s.Value) == number })
		}
		if sent < 3 && has(sent+1) {
			sent++
		}
		d.start()
		for ; sent < 3; sent++ {
			d.signal(id, "paid", sent+1)
		}
		equal(t, fmt.Sprintf("result after the death at write %d (after it: %t)", dies, after), "paid 1, paid 2, 3", d.result(id))
	})
	return left
}
