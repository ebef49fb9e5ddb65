package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// effects are the effects of steps and undos, in the order of time, with their idempotency keys.
type effects struct {
	mu   sync.Mutex
	list []string
	keys map[string]string // by name
	t    *testing.T
}

func newEffects(t *testing.T) *effects { return &effects{t: t, keys: map[string]string{}} }

// do adds an effect. All attempts with one name must have the same key, which no other name has.
func (x *effects) do(ctx context.Context, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = append(x.list, name)
	key := server.IdempotencyKey(ctx)
	if known := x.keys[name]; known != "" && known != key || key == "" {
		x.t.Errorf("%s has the key %q, and before %q", name, key, known)
	}
	x.keys[name] = key
	for other, used := range x.keys {
		if other != name && used == key {
			x.t.Errorf("%s and %s have the same key", name, other)
		}
	}
}

// forget makes the next call use the same names.
func (x *effects) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.keys)
}

func (x *effects) all() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.list)
}

// book registers the undo "undo NAME" and runs the step NAME.
func (x *effects) book(ctx context.Context, c *server.Call, name string) error {
	err := server.Compensate(ctx, c, "undo "+name, func(ctx context.Context) error {
		x.do(ctx, "undo "+name)
		return nil
	})
	if err != nil {
		return err
	}
	_, err = server.Step(ctx, c, name, func(ctx context.Context) (int, error) {
		x.do(ctx, name)
		return 1, nil
	})
	return err
}

// In whatever way a handler fails, its undos run once, the latest first, before the outcome is
// there.
func TestFailedCallIsUndone(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, c *server.Call) (string, error){
		"error": func(context.Context, *server.Call) (string, error) { return "", errors.New("no room") },
		"panic": func(context.Context, *server.Call) (string, error) { panic("no room") },
		"Goexit": func(context.Context, *server.Call) (string, error) {
			runtime.Goexit()
			return "", nil
		},
		"Goexit in a step": func(ctx context.Context, c *server.Call) (string, error) {
			_, err := server.Step(ctx, c, "s", func(context.Context) (int, error) {
				runtime.Goexit()
				return 0, nil
			})
			return "", err
		},
		"step": func(ctx context.Context, c *server.Call) (string, error) {
			_, err := server.Step(ctx, c, "s", func(context.Context) (int, error) { return 0, errors.New("no room") })
			return "", err
		},
		"overlap": func(ctx context.Context, c *server.Call) (string, error) {
			return "", server.Sleep(ctx, c, "s", func() time.Time {
				server.Sleep(ctx, c, "t", time.Now)
				return time.Now()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x *effects
				handler := func(ctx context.Context, c *server.Call) (string, error) {
					for _, name := range []string{"train", "hotel"} {
						if err := x.book(ctx, c, name); err != nil {
							return "", err
						}
					}
					err := c.RunAll(ctx, func(ctx context.Context) error { return x.book(ctx, c, "bike") })
					if err != nil {
						return "", err
					}
					if _, err := askName(ctx, c, "Who?"); err != nil {
						return "", err
					}
					return end(ctx, c)
				}
				booked := []string{"train", "hotel", "bike", "undo bike", "undo hotel", "undo train"}
				x = newEffects(t)
				s := newServer(t, server.Options{})
				addTool(s, handler)
				c := connect(t, s, clientConfig{capabilities: clientCapabilities(t, everyInput), handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
					return session.Raw(respondToAll(req.Method, string(req.Params))), nil
				}})
				result, code := c.call("tools/call", do)
				if code == 0 && !strings.Contains(result, `"isError":true`) {
					t.Errorf("result %s", result)
				}
				equal(t, "effects in a session", booked, x.all())
				x = newEffects(t)
				connectRounds(t, s).finish("tools/call", do, respondToAll)
				equal(t, "effects in rounds", booked, x.all())

				x = newEffects(t)
				d := newDurable(t, handler)
				id := d.call()
				time.Sleep(time.Minute) // parked
				equal(t, "effects before the failure", booked[:3], x.all())
				d.restart()
				d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
				d.result(id)
				equal(t, "effects in a task", booked, x.all())
				if r := d.record(id); r.Status != "failed" || r.Durable.Undos != 0 {
					t.Errorf("status %s, %d undos", r.Status, r.Durable.Undos)
				}
			})
		})
	}
}

// A handler that calls runtime.Goexit, as tests do that fail, is one that panics: if it was parked,
// it goes on, and if it has failed or was cancelled, it is undone, by later runs, too. So is an undo.
func TestGoexitIsFailure(t *testing.T) {
	for _, fate := range []string{"fails", "cancelled", "recovered"} {
		t.Run(fate, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newEffects(t)
				var tries atomic.Int64
				must := func(err error) {
					if err != nil {
						runtime.Goexit()
					}
				}
				d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
					must(x.book(ctx, c, "train"))
					must(server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(8 * time.Hour) }))
					must(server.Compensate(ctx, c, "undo hotel", func(ctx context.Context) error {
						if tries.Add(1) < 10 {
							runtime.Goexit()
						}
						x.do(ctx, "undo hotel")
						return nil
					}))
					must(server.Sleep(ctx, c, "day", func() time.Time { return time.Now().Add(8 * time.Hour) }))
					must(errors.New("no room"))
					return "", nil
				})
				id := d.call()
				time.Sleep(12 * time.Hour)
				equal(t, "effects before the failure", []string{"train"}, x.all())
				status := "failed"
				switch fate {
				case "cancelled":
					status = "cancelled"
					if _, err := d.m.Cancel(t.Context(), "ada", id, nil); err != nil {
						t.Error(err)
					}
				case "recovered":
					time.Sleep(4*time.Hour + time.Second) // between two attempts of the first undo
					d.restart()
				}
				time.Sleep(12 * time.Hour)
				equal(t, "effects", []string{"train", "undo hotel", "undo train"}, x.all())
				if got := d.record(id); string(got.Status) != status || tries.Load() != 10 {
					t.Errorf("%s after %d attempts", got.Status, tries.Load())
				}
			})
		})
	}
}

// So does a handler whose error cannot be examined, or is nested too deeply to be decoded by default:
// it is undone after several attempts, and in the next process.
func TestOddErrorIsUndone(t *testing.T) {
	for _, failure := range []error{fail(), &jsonrpc.Error{Code: 7, Message: "deep", Data: nested(wire.DefaultDepth + 1)}} {
		t.Run(fmt.Sprintf("%T", failure), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int64
				d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
					if err := server.Compensate(ctx, c, "undo", func(context.Context) error {
						if tries.Add(1) < 20 {
							return errors.New("later")
						}
						return nil
					}); err != nil {
						return "", err
					}
					return "", failure
				})
				id := d.call()
				time.Sleep(10 * time.Second)
				d.restart()
				time.Sleep(3 * time.Hour)
				if got := d.record(id); got.Status != mcp.TaskStatusFailed || tries.Load() != 20 {
					t.Errorf("%s after %d attempts", got.Status, tries.Load())
				}
			})
		})
	}
}

// After a success, no undo runs, and none runs while a handler is parked or its server restarts.
func TestSuccessIsNotUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			if err := x.book(ctx, c, "train"); err != nil {
				return "", err
			}
			if err := server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(8 * time.Hour) }); err != nil {
				return "", err
			}
			return askName(ctx, c, "Who?")
		})
		id := d.call()
		synctest.Wait()
		d.restart() // during the sleep, before it is parked
		time.Sleep(time.Hour)
		if err := d.m.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		d.restart()
		time.Sleep(10 * time.Hour)
		d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
		equal(t, "result", "accept Ada", d.result(id))
		time.Sleep(20 * time.Hour)
		equal(t, "effects", []string{"train"}, x.all())
	})
}

// An undo that fails is tried again, also after a restart, and the next one waits for it. An undo
// that fails for a day is given up.
func TestUndoIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		var undone atomic.Pointer[time.Time]
		var failures atomic.Int64
		failures.Store(2)
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			if err := x.book(ctx, c, "train"); err != nil {
				return "", err
			}
			err := server.Compensate(ctx, c, "undo hotel", func(ctx context.Context) error {
				if failures.Add(-1) >= 0 {
					return errors.New("closed")
				}
				undone.Store(new(time.Now()))
				return nil
			})
			if err != nil {
				return "", err
			}
			return "", errors.New("no room")
		})
		begin := time.Now()
		id := d.call()
		equal(t, "result", "no room", d.result(id))
		if d := undone.Load().Sub(begin); d > time.Second || failures.Load() != -1 {
			t.Errorf("undone after %v, %d attempts too few", d, failures.Load()+1)
		}

		x.forget()
		failures.Store(1 << 30)
		begin = time.Now()
		id = d.call()
		time.Sleep(time.Hour)
		if status := d.record(id).Status; status != "working" {
			t.Errorf("status %s before all is undone", status)
		}
		d.restart()
		time.Sleep(time.Hour)
		equal(t, "effects", []string{"train", "undo train", "train"}, x.all())
		failures.Store(1)
		equal(t, "result", "no room", d.result(id))
		equal(t, "effects", []string{"train", "undo train", "train", "undo train"}, x.all())
		if d := undone.Load().Sub(begin); d < 2*time.Hour || d > 2*time.Hour+10*time.Minute {
			t.Errorf("undone after %v", d)
		}

		x.forget()
		failures.Store(1 << 30)
		begin = time.Now()
		id = d.call()
		equal(t, "result", "no room", d.result(id))
		if d := time.Since(begin); d < 24*time.Hour || d > 24*time.Hour+10*time.Minute {
			t.Errorf("given up after %v", d)
		}
		if n := 1<<30 - failures.Load(); n > 400 {
			t.Errorf("%d attempts", n)
		}
		equal(t, "effects", []string{"undo train"}, x.all()[5:])
	})
}

// takesSecond returns the function of an undo that takes a second, unless its context ends.
func (x *effects) takesSecond(name string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(time.Second):
			x.do(ctx, name)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// The day for which an undo is tried is one of the process that tries it: neither the time in which
// no process was running nor that of other undos shortens it.
func TestEachUndoHasDayOfItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		down := errors.New("down")
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			if err := server.Compensate(ctx, c, "train", x.takesSecond("train")); err != nil {
				return "", err
			}
			if err := server.Compensate(ctx, c, "hotel", func(context.Context) error { return down }); err != nil {
				return "", err
			}
			return "", errors.New("no room")
		})
		id := d.call()
		time.Sleep(time.Hour)
		d.s.Close()
		time.Sleep(72 * time.Hour)
		d.start()
		time.Sleep(23 * time.Hour)
		if status := d.record(id).Status; status != "working" || len(x.all()) > 0 {
			t.Errorf("status %s, effects %q after 23 hours", status, x.all())
		}
		time.Sleep(2 * time.Hour)
		equal(t, "effects", []string{"train"}, x.all())
		equal(t, "result", "no room", d.result(id))
	})
}

// In a plain call, an undo that hangs does not keep the others from running.
func TestHangingUndoOfPlainCallDelaysOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		s := newServer(t, server.Options{})
		addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
			if err := server.Compensate(ctx, c, "train", x.takesSecond("train")); err != nil {
				return "", err
			}
			if err := server.Compensate(ctx, c, "hotel", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }); err != nil {
				return "", err
			}
			if err := server.Compensate(ctx, c, "bike", func(ctx context.Context) error { return errors.New("closed") }); err != nil {
				return "", err
			}
			return "", errors.New("no room")
		})
		c := connect(t, s, clientConfig{})
		begin := time.Now()
		c.call("tools/call", do)
		if d := time.Since(begin); d < 25*time.Second || d > 32*time.Second {
			t.Errorf("the call took %v", d)
		}
		equal(t, "effects", []string{"train"}, x.all())
	})
}

// A principal that has no bytes left can still cancel a task that is undone then, and such a task
// expires.
func TestWithdrawnTaskIsUndoneAtLimitOfBytes(t *testing.T) {
	for _, fate := range []string{"cancelled", "expires"} {
		synctest.Test(t, func(t *testing.T) {
			x := newEffects(t)
			d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
				if err := x.book(ctx, c, "train"); err != nil {
					return "", err
				}
				return "", server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(8 * time.Hour) })
			})
			d.cfg.Tasks.TTL.Default = time.Hour
			d.restart()
			id := d.call()
			time.Sleep(time.Minute)
			d.cfg.Tasks.Limits.Bytes = d.record(id).Bytes
			d.restart()
			if fate == "cancelled" {
				if _, err := d.m.Cancel(t.Context(), "ada", id, nil); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
			} else {
				time.Sleep(2 * time.Hour)
			}
			equal(t, fate, []string{"train", "undo train"}, x.all())
		})
	}
}

// The outcome of a task that fails is that of the run that has failed, whatever the runs that follow
// for the undos return.
func TestFailedTaskHasOutcomeOfFirstFailure(t *testing.T) {
	for want, fail := range map[string]func() (*mcp.CallToolResult, error){
		"no room": func() (*mcp.CallToolResult, error) { return nil, errors.New("no room") },
		"full": func() (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: "full"}}, IsError: new(true)}, nil
		},
		"-7 no way": func() (*mcp.CallToolResult, error) { return nil, &jsonrpc.Error{Code: -7, Message: "no way"} },
		"-32603 internal error: the handler panicked": func() (*mcp.CallToolResult, error) { panic("no room") },
	} {
		for name, later := range map[string]func(ctx context.Context, c *server.Call) error{
			"success": func(context.Context, *server.Call) error { return nil },
			"new step": func(ctx context.Context, c *server.Call) error {
				_, err := server.Step(ctx, c, "s", func(context.Context) (int, error) { return 1, nil })
				return err
			},
		} {
			t.Run(want+", then "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x := newEffects(t)
					var reopened atomic.Bool
					runs := 0
					cfg := server.Options{Tasks: task.Options{TTL: task.TTL{Default: 24 * time.Hour}}}
					cfg.Session.Principal = "ada"
					store := memory.New()
					start := func() (*server.Server, *task.Manager) {
						return withTasksOf(t, cfg, store, func(s *server.Server) {
							server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (*mcp.CallToolResult, error) {
								runs++
								err := server.Compensate(ctx, c, "undo", func(ctx context.Context) error {
									if !reopened.Load() {
										return errors.New("closed")
									}
									x.do(ctx, "undo")
									return nil
								})
								if err != nil {
									return nil, err
								}
								if runs == 1 {
									return fail()
								}
								return &mcp.CallToolResult{}, later(ctx, c)
							}, server.Durable())
						})
					}
					s, _ := start()
					c := connect(t, s, clientConfig{})
					created, _ := c.call("tools/call", `{"name":"do","task":{}}`)
					time.Sleep(time.Hour)
					s.Close()
					reopened.Store(true)
					d := &durable{t: t}
					d.s, d.m = start()
					equal(t, "outcome", want, d.result(taskID(t, created)))
					equal(t, "effects", []string{"undo"}, x.all())
				})
			})
		}
	}
}

// A result that is too large for the limit of the principal fails the task, which is undone.
func TestTaskWithTooLargeResultIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			return strings.Repeat("x", 100000), x.book(ctx, c, "train")
		})
		d.cfg.Tasks.Limits.Bytes = 50000
		d.restart()
		equal(t, "outcome", "-32061 task: limit of 50000 stored bytes is reached", d.result(d.call()))
		equal(t, "effects", []string{"train", "undo train"}, x.all())
	})
}

// The undos do not wait for ever for a handler that waits for something else than its operations.
func TestUndosEndWaitOfHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		var ended []error
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			if err := x.book(ctx, c, "train"); err != nil {
				return "", err
			}
			select { // polls a job, for example
			case <-time.After(100 * time.Hour):
			case <-ctx.Done():
			}
			ended = append(ended, context.Cause(ctx))
			return "", x.book(ctx, c, "hotel")
		})
		id := d.call()
		synctest.Wait()
		if _, err := d.m.Cancel(t.Context(), "ada", id, nil); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		equal(t, "effects", []string{"train", "undo hotel", "undo train"}, x.all())
		if len(ended) != 2 || ended[0] != task.ErrCancelled || ended[1] != task.ErrCancelled {
			t.Errorf("causes %v", ended)
		}
	})
}

// setClock is a store whose clock is set while it is used.
type setClock struct {
	task.Store
	ahead atomic.Int64
}

func (s *setClock) Now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// A sleep that has ended does not begin anew if by the present clock it has not: the clock was set
// back, or is that of another member of a fleet. So what the handler has done after it is undone.
func TestSleepThatHasEndedDoesNotBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		var ends atomic.Int64
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			for n, hours := range []time.Duration{8, 9} {
				if err := server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(hours * time.Hour) }); err != nil {
					return "", err
				}
				ends.Add(1)
				err := c.RunAll(ctx, func(ctx context.Context) error { return x.book(ctx, c, fmt.Sprint("train ", n)) })
				if err != nil {
					return "", err
				}
			}
			return "done", nil
		})
		d.s.Close()
		d.cfg.Tasks.Recovery.ParkAfter = -1
		clock := &setClock{Store: d.cfg.Tasks.Store}
		d.cfg.Tasks.Store = clock
		d.start()
		id := d.call()
		time.Sleep(9 * time.Hour)
		clock.ahead.Store(int64(-2 * time.Hour))
		d.restart()
		time.Sleep(time.Minute)
		equal(t, "ends of sleeps before and after a restart", int64(2), ends.Load())
		if _, err := d.m.Cancel(t.Context(), "ada", id, nil); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		equal(t, "effects", []string{"train 0", "undo train 0"}, x.all())
	})
}

// The undos of earlier runs are not lost if a later run fails before it has registered them again,
// in the handler or before it. Then the handler runs again until it has.
func TestUndosOfEarlierRunsAreNotLost(t *testing.T) {
	for _, where := range []string{"middleware", "handler", "second undo"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newEffects(t)
				errDown := errors.New("the database is down")
				var down atomic.Bool
				fails := func(here string) bool { return down.Load() && here == where }
				d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
					if fails("handler") {
						return "", errDown
					}
					if err := x.book(ctx, c, "train"); err != nil {
						return "", err
					}
					if fails("second undo") {
						return "", errDown
					}
					if err := x.book(ctx, c, "hotel"); err != nil {
						return "", err
					}
					return "done", server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(8 * time.Hour) })
				})
				d.cfg.Middleware.Tools = append(d.cfg.Middleware.Tools, func(next server.ToolHandler) server.ToolHandler {
					return func(ctx context.Context, c *server.Call, r *server.ToolRequest) (*mcp.CallToolResult, error) {
						if fails("middleware") {
							return nil, errDown
						}
						return next(ctx, c, r)
					}
				})
				d.restart()
				id := d.call()
				synctest.Wait()
				down.Store(true)
				d.restart()
				time.Sleep(time.Hour)
				equal(t, "effects while the database is down", []string{"train", "hotel"}, x.all())
				down.Store(false)
				time.Sleep(time.Hour)
				equal(t, "effects", []string{"train", "hotel", "undo hotel", "undo train"}, x.all())
				equal(t, "outcome", errDown.Error(), d.result(id))
			})
		})
	}
}

// A process gives up an undo that a changed handler does not register any longer after a day. That
// does not delay the other undos by more days, however often they fail.
func TestUndoThatIsGoneDelaysOthersForOneDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		var changed, busy atomic.Bool
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			if err := server.Compensate(ctx, c, "train", func(ctx context.Context) error {
				if busy.CompareAndSwap(true, false) {
					return errors.New("busy")
				}
				x.do(ctx, "undo train")
				return nil
			}); err != nil {
				return "", err
			}
			if changed.Load() {
				return "", errors.New("no hotels any longer")
			}
			if err := x.book(ctx, c, "hotel"); err != nil {
				return "", err
			}
			return "done", server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(8 * time.Hour) })
		})
		d.cfg.Tasks.Recovery.ParkAfter = time.Millisecond
		d.restart()
		id := d.call()
		time.Sleep(time.Minute)
		changed.Store(true)
		busy.Store(true)
		d.restart()
		time.Sleep(23 * time.Hour)
		equal(t, "effects within a day", []string{"hotel"}, x.all())
		time.Sleep(10 * time.Hour)
		equal(t, "effects", []string{"hotel", "undo train"}, x.all())
		equal(t, "outcome", "no hotels any longer", d.result(id))
	})
}

// A wall clock that jumps far ahead, because it was wrong or no process was running, does not drop a
// task before its undos have run.
func TestTaskIsUndoneAfterJumpOfClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		var failures atomic.Int64
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			if err := x.book(ctx, c, "train"); err != nil {
				return "", err
			}
			err := server.Compensate(ctx, c, "undo hotel", func(ctx context.Context) error {
				if failures.Add(1) < 20 {
					return errors.New("closed")
				}
				x.do(ctx, "undo hotel")
				return nil
			})
			if err != nil {
				return "", err
			}
			return askName(ctx, c, "Who?")
		})
		clock := &setClock{Store: d.cfg.Tasks.Store}
		d.s.Close()
		d.cfg.Tasks.Store = clock
		d.cfg.Tasks.TTL.Default = 10 * time.Hour
		d.start()
		d.call()
		time.Sleep(time.Minute)
		clock.ahead.Store(int64(100 * 24 * time.Hour))
		time.Sleep(20 * time.Hour)
		equal(t, "effects", []string{"train", "undo hotel", "undo train"}, x.all())
	})
}

// mortal is a store as one process uses it. The process dies at one of its writes, before or after
// it.
type mortal struct {
	task.Store
	writes *atomic.Int64 // of all processes
	dies   int64         // the number of the write; 0 for none
	after  bool
	dead   atomic.Bool
}

var errDead = errors.New("the process has died")

func (s *mortal) Acquire() (release func(), err error) { return func() {}, nil }

func (s *mortal) Create(ctx context.Context, r task.Record) (task.Record, error) {
	return s.write(func() (task.Record, error) { return s.Store.Create(ctx, r) })
}

func (s *mortal) Update(ctx context.Context, r task.Record) (task.Record, error) {
	return s.write(func() (task.Record, error) { return s.Store.Update(ctx, r) })
}

func (s *mortal) write(f func() (task.Record, error)) (r task.Record, err error) {
	if s.dead.Load() {
		return r, errDead
	}
	last := s.writes.Add(1) == s.dies
	if !last || s.after {
		r, err = f()
	}
	if last {
		s.dead.Store(true)
		return task.Record{}, errDead
	}
	return r, err
}

func (s *mortal) Get(ctx context.Context, id string) (task.Record, error) {
	if s.dead.Load() {
		return task.Record{}, errDead
	}
	return s.Store.Get(ctx, id)
}

func (s *mortal) Sweep(ctx context.Context, now time.Time, limit int) ([]task.Record, time.Time, error) {
	if s.dead.Load() {
		return nil, time.Time{}, errDead
	}
	return s.Store.Sweep(ctx, now, limit)
}

// Whichever write of a task is the last of a process, its undos take effect once, the latest first,
// if the handler fails, the task is cancelled or it expires, parked or not.
func TestUndosSurviveDeathOfProcess(t *testing.T) {
	for _, fate := range []string{"fails", "cancelled", "cancelled while parked", "expires", "expires while parked"} {
		t.Run(fate, func(t *testing.T) {
			for dies := int64(1); ; dies++ {
				if left := dieAt(t, fate, dies, false); left > 0 || t.Failed() {
					break
				}
				dieAt(t, fate, dies, true)
			}
		})
	}
}

// dieAt runs a task with a fate in a process that dies before or after one of its writes, and then
// in another process. It returns how many writes were left.
func dieAt(t *testing.T, fate string, dies int64, after bool) (left int64) {
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			for _, name := range []string{"train", "hotel"} {
				if err := x.book(ctx, c, name); err != nil {
					return "", err
				}
			}
			if fate == "fails" {
				return "", errors.New("no room")
			}
			if err := server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(8 * time.Hour) }); err != nil {
				return "", err
			}
			return "done", nil
		})
		store, writes := d.cfg.Tasks.Store, new(atomic.Int64)
		process := &mortal{Store: store, writes: writes, dies: dies, after: after}
		d.cfg.Tasks.TTL.Default = time.Hour
		if !strings.HasSuffix(fate, "parked") {
			d.cfg.Tasks.Recovery.ParkAfter = -1
		}
		d.s.Close()
		d.cfg.Tasks.Store = process
		d.start()
		begin := time.Now()
		c := connect(t, d.s, clientConfig{capabilities: clientCapabilities(t, everyInput)})
		c.call("tools/call", `{"name":"do","task":{}}`)
		c.Close()
		id := ""
		for r, err := range store.Scan(t.Context()) {
			if id = r.ID; err != nil {
				t.Fatal(err)
			}
		}
		if id == "" {
			return // not created
		}
		again := func() {
			if process.dead.Load() {
				process = &mortal{Store: store, writes: writes}
				d.cfg.Tasks.Store = process
				d.start()
			}
		}
		shown := func() string {
			r, err := d.m.Internals(boundary.Caller{}).GetRecord(t.Context(), "ada", id, "tasks/get")
			if errors.Is(err, task.ErrExpired) {
				return "expired"
			}
			return string(r.Status)
		}
		want := "failed"
		for range 10 {
			time.Sleep(30 * time.Second)
			again()
			synctest.Wait()
			if strings.HasPrefix(fate, "cancelled") && shown() != "cancelled" {
				want = "cancelled"
				_, err := d.m.Cancel(t.Context(), "ada", id, nil)
				// The process may die at a write of the undos, before the status is read.
				if got := shown(); err == nil && got != "cancelled" && !process.dead.Load() {
					t.Errorf("status %s after the cancellation", got)
				}
			}
		}
		if strings.HasPrefix(fate, "expires") {
			want = "expired"
			time.Sleep(time.Until(begin.Add(time.Hour + time.Second)))
			again()
			time.Sleep(time.Minute)
			again() // may have died at the expiry
			time.Sleep(2 * time.Hour)
		}
		where := fmt.Sprintf("died at write %d (after it: %t)", dies, after)
		equal(t, "effects, "+where, []string{"train", "hotel", "undo hotel", "undo train"}, slices.Compact(x.all()))
		equal(t, "status, "+where, want, shown())
		if r, err := store.Get(t.Context(), id); err == nil && (!task.Terminal(r.Status) || r.Durable.Recorded > 0) {
			t.Errorf("%s: status %s, %d entries", where, r.Status, r.Durable.Recorded)
		}
		left = dies - writes.Load()
	})
	return left
}

// A task may also expire while no process runs.
func TestTaskThatExpiresWithoutProcessIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			run, _ := c.Task()
			if err := x.book(ctx, c, run.ID()); err != nil {
				return "", err
			}
			return askName(ctx, c, "Who?")
		})
		d.s.Close()
		d.cfg.Tasks.TTL.Default = time.Hour
		d.start()
		running := d.call()
		synctest.Wait()
		d.s.Close()
		d.start()
		parked := d.call()
		time.Sleep(time.Minute)
		d.s.Close()
		time.Sleep(1000 * time.Hour)
		d.start()
		time.Sleep(2 * time.Hour) // until the clock is believed
		want := []string{running, parked, "undo " + running, "undo " + parked}
		equal(t, "effects", slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(x.all())))
		for _, id := range []string{running, parked} {
			if _, err := d.cfg.Tasks.Store.Get(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
				t.Errorf("got %v", err)
			}
		}
	})
}

// The handler that runs again for its undos gets what was recorded, and obtains nothing else.
func TestCompensatingRunBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		var failed []error
		begun := make(chan struct{})
		runs := 0
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			runs++
			name, err := askName(ctx, c, "Who?")
			if err != nil {
				return "", err
			}
			if err := x.book(ctx, c, "room of "+name); err != nil {
				return "", err
			}
			err = c.RunAll(ctx, func(ctx context.Context) error {
				if err := x.book(ctx, c, "breakfast"); err != nil {
					return err
				}
				return server.Compensate(ctx, c, "refund", func(ctx context.Context) error { x.do(ctx, "refund"); return nil })
			}, func(ctx context.Context) error {
				_, err := server.Step(ctx, c, "slow", func(ctx context.Context) (int, error) {
					if runs == 1 {
						close(begun)
						<-ctx.Done()
					}
					x.do(ctx, "slow")
					return 1, ctx.Err()
				})
				return err
			})
			failed = append(failed, err)
			for _, op := range []func() error{
				func() error { return x.book(ctx, c, "other") },
				func() error { _, err := askName(ctx, c, "Sure?"); return err },
				func() error { return server.Sleep(ctx, c, "s", time.Now) },
			} {
				failed = append(failed, op())
			}
			return "done", nil
		})
		d.cfg.Tasks.Recovery.ParkAfter = -1
		d.restart()
		id := d.call()
		synctest.Wait()
		d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
		<-begun
		synctest.Wait()
		if _, err := d.m.Cancel(t.Context(), "ada", id, nil); err != nil {
			t.Error(err)
		}
		if _, err := d.m.Cancel(t.Context(), "ada", id, nil); err == nil {
			t.Error("cancelled again")
		}
		equal(t, "outcome", fmt.Sprint(task.CodeCancelled, " task was cancelled"), d.result(id))
		time.Sleep(time.Minute)
		equal(t, "effects", []string{"room of accept Ada", "breakfast", "slow", "refund", "undo breakfast", "undo room of accept Ada"}, x.all())
		if runs != 2 || len(failed) != 8 {
			t.Fatalf("%d runs, %v", runs, failed)
		}
		for i, err := range failed[4:] {
			if !errors.Is(err, task.ErrCancelled) {
				t.Errorf("operation %d: %v", i, err)
			}
		}
	})
}

// A plain call that its client cancels is undone in its process.
func TestCancelledPlainCallIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		begun := make(chan struct{})
		s := newServer(t, server.Options{})
		addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
			if err := x.book(ctx, c, "train"); err != nil {
				return "", err
			}
			_, err := server.Step(ctx, c, "hotel", func(ctx context.Context) (int, error) {
				close(begun)
				<-ctx.Done()
				x.do(ctx, "hotel")
				return 1, nil
			})
			if err != nil {
				return "", err
			}
			tries := 0
			return "", server.Compensate(ctx, c, "undo hotel", func(ctx context.Context) error {
				if tries++; tries < 3 {
					return errors.New("busy")
				}
				x.do(ctx, "undo hotel")
				return ctx.Err()
			})
		})
		c := connect(t, s, clientConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		go c.Session.Call(ctx, "tools/call", session.Raw(json.RawMessage(do))) // ends with ctx
		<-begun
		cancel()
		time.Sleep(time.Minute)
		equal(t, "effects", []string{"train", "hotel", "undo hotel", "undo train"}, x.all())
	})
}

// After the end of a call, a goroutine that its handler has left behind registers no undo, which
// nothing would run, and begins nothing else, whether the handler itself has done so or not.
func TestNothingBeginsAfterCall(t *testing.T) {
	for name, operation := range map[string]func(ctx context.Context, c *server.Call) error{
		"compensation": func(ctx context.Context, c *server.Call) error {
			return server.Compensate(ctx, c, "late", func(context.Context) error { return errors.New("undone") })
		},
		"step": func(ctx context.Context, c *server.Call) error {
			_, err := server.Step(ctx, c, "late", func(context.Context) (int, error) { return 0, errors.New("done") })
			return err
		},
		"input request": func(ctx context.Context, c *server.Call) error {
			_, err := askName(ctx, c, "Late?")
			return err
		},
	} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", early: ", early), func(t *testing.T) {
				over, late := make(chan bool, 2), make(chan error, 2)
				inSession, inRounds := inBothEras(t, func(ctx context.Context, c *server.Call) (string, error) {
					if early {
						if _, err := server.Step(ctx, c, "early", func(context.Context) (int, error) { return 1, nil }); err != nil {
							return "", err
						}
					}
					go func() { // ends with over
						<-over
						late <- operation(context.WithoutCancel(ctx), c)
					}()
					return "done", nil
				})
				equal(t, "results", []string{"done", "done"}, []string{inSession, inRounds})
				for range 2 {
					over <- true
					if err := <-late; err == nil || err.Error() != "server: the handler of the call has returned" {
						t.Error(err)
					}
				}
			})
		}
	}
}

// A step that panics has run: in the runs that undo, and in those of a handler that recovers, it
// panics again, and its function does not run.
func TestPanicOfStepHappensOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		charged, undone := 0, 0
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			if err := server.Compensate(ctx, c, "refund", func(context.Context) error { undone++; return nil }); err != nil {
				return "", err
			}
			charge := func(context.Context) (int, error) { charged++; panic("boom") }
			func() {
				defer func() { recover() }()
				server.Step(ctx, c, "first", charge)
			}()
			if _, err := server.Await[int](ctx, c, "go"); err != nil {
				return "", err
			}
			server.Step(ctx, c, "second", charge)
			return "", nil
		})
		id := d.call()
		time.Sleep(time.Minute) // parked
		d.restart()
		d.signal(id, "go", 1)
		time.Sleep(time.Minute)
		if r := d.record(id); r.Status != mcp.TaskStatusFailed || strings.Contains(string(r.Error), "boom") {
			t.Errorf("%s with %s", r.Status, string(r.Error))
		}
		equal(t, "steps", 2, charged)
		equal(t, "undos", 1, undone)
	})
}

// A call whose result cannot be sent fails, and is undone: that of a tool, a prompt or a resource.
func TestCallWhoseResultCannotBeSentIsUndone(t *testing.T) {
	meta := new(mcp.ResultMetaObject)
	meta.Extra.Set("no key", json.RawMessage(`1`))
	const latin1 = "caf\xe9"
	for name, result := range map[string]*mcp.CallToolResult{
		"text":   {Content: []mcp.ContentBlock{&mcp.TextContent{Text: latin1}}},
		"output": {StructuredContent: json.RawMessage(`{"a":}`)},
		"_meta":  {Meta: meta},
	} {
		for _, options := range [][]server.ToolOption{{server.Tasks(receiver.Support{})}, {server.Durable()}} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x := newEffects(t)
					s, _ := withTasks(t, memory.New(), func(s *server.Server) {
						server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (*mcp.CallToolResult, error) {
							return result, x.book(ctx, c, "flight")
						}, options...)
					})
					undone := func(era string, n int) {
						t.Helper()
						equal(t, "effects "+era, slices.Repeat([]string{"flight", "undo flight"}, n), x.all())
						x.forget()
					}
					c := connect(t, s, clientConfig{})
					c.expectError("tools/call", `{"name":"do"}`, jsonrpc.CodeInternalError)
					undone("in a session", 1)
					created, _ := c.call("tools/call", `{"name":"do","task":{}}`)
					c.expectError("tasks/result", `{"taskId":"`+taskID(t, created)+`"}`, jsonrpc.CodeInternalError)
					undone("of a task", 2)
					m := connectModern(t, s)
					m.fails("tools/call", `{"name":"do"}`, "", jsonrpc.CodeInternalError, "result")
					undone("in rounds", 3)
				})
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		x := newEffects(t)
		s := newServer(t, server.Options{})
		server.AddPrompt(s, "p", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			return latin1, x.book(ctx, c, "prompt")
		})
		server.AddResource(s, "file:///r", "r", func(ctx context.Context, c *server.Call, _ server.Resource) (string, error) {
			return latin1, x.book(ctx, c, "resource")
		})
		c := connect(t, s, clientConfig{})
		c.expectError("prompts/get", `{"name":"p"}`, jsonrpc.CodeInternalError)
		c.expectError("resources/read", `{"uri":"file:///r"}`, jsonrpc.CodeInternalError)
		equal(t, "effects", []string{"prompt", "undo prompt", "resource", "undo resource"}, x.all())
	})
}
