package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// durable is a server with one durable tool, which is restarted now and then. Its tasks stay in a
// store.
type durable struct {
	t       *testing.T
	cfg     server.Options
	options []server.ToolOption
	f       func(ctx context.Context, c *server.Call) (string, error)
	s       *server.Server
	m       *task.Manager
}

// newDurable starts a server whose tool is parked after a second.
func newDurable(t *testing.T, f func(ctx context.Context, c *server.Call) (string, error)) *durable {
	t.Helper()
	d := &durable{t: t, f: f, options: []server.ToolOption{server.Durable()}}
	d.cfg.Session.Principal = "ada"
	d.cfg.Tasks = task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, TTL: task.TTL{Max: 10000 * time.Hour, Default: 10000 * time.Hour}}
	d.cfg.Tasks.Store = memory.New()
	d.start()
	return d
}

func (d *durable) start() {
	d.t.Helper()
	d.s, d.m = withTasksOf(d.t, d.cfg, d.cfg.Tasks.Store, func(s *server.Server) {
		server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ map[string]any) (string, error) { return d.f(ctx, c) }, d.options...)
	})
}

// restart ends the server and starts another one.
func (d *durable) restart() {
	d.t.Helper()
	d.s.Close()
	d.start()
}

// call calls the tool as a task of a session, and returns the id.
func (d *durable) call() string {
	d.t.Helper()
	c := connect(d.t, d.s, clientConfig{capabilities: clientCapabilities(d.t, everyInput)})
	created, _ := c.call("tools/call", `{"name":"do","task":{}}`)
	c.Close()
	return taskID(d.t, created)
}

func (d *durable) record(id string) task.Record {
	d.t.Helper()
	r, err := d.cfg.Tasks.Store.Get(d.t.Context(), id)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// open returns the open input requests of a task.
func (d *durable) open(id string) (open []task.InputRequest) {
	for _, q := range d.record(id).InputRequests {
		if q.Open() {
			open = append(open, q)
		}
	}
	return open
}

// answer answers an input request.
func (d *durable) answer(id string, number uint64, answer string) {
	d.t.Helper()
	err := d.m.Update(d.t.Context(), "ada", id, "tasks/update", func(q *task.InputRequest) (json.RawMessage, error) {
		if q.Number == number {
			return json.RawMessage(answer), nil
		}
		return nil, nil
	})
	if err != nil {
		d.t.Error(err)
	}
}

// result returns the text of the result of a task, or its error.
func (d *durable) result(id string) string {
	d.t.Helper()
	out, err := d.m.Result(d.t.Context(), "ada", id, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if out.Error != nil {
		return fmt.Sprint(out.Error.Code, " ", out.Error.Message)
	}
	return text(d.t, string(out.Result))
}

// A durable task goes on where it was: after restarts of the server, and after it was parked
// because its user took long, no recorded step runs again, nothing is asked twice and a sleep is
// not longer.
func TestDurableTaskContinuesFromJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := map[string]int{}
		runs := 0
		step := func(ctx context.Context, c *server.Call, name string) (int, error) {
			return server.Step(ctx, c, name, func(context.Context) (int, error) { steps[name]++; return steps[name], nil })
		}
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			runs++
			if _, err := step(ctx, c, "before"); err != nil {
				return "", err
			}
			first, err := askName(ctx, c, "First?")
			if err != nil {
				return "", err
			}
			if _, err := step(ctx, c, "between"); err != nil {
				return "", err
			}
			if err := server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(8 * time.Hour) }); err != nil {
				return "", err
			}
			second, err := askName(ctx, c, "Second?")
			return first + " " + second, err
		})
		begin := time.Now()
		id := d.call()
		time.Sleep(time.Minute)
		if got := d.m.Stats(); got.Running != 0 || got.Parked != 1 {
			t.Errorf("while the user thinks: %+v", got)
		}
		d.restart()
		time.Sleep(time.Minute)
		if got := d.m.Stats(); got.Running != 0 || got.Parked != 1 || runs != 1 {
			t.Errorf("after a restart: %+v, %d runs", got, runs)
		}
		d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
		time.Sleep(time.Hour)
		d.restart()
		time.Sleep(time.Until(begin.Add(2*time.Minute+8*time.Hour)) - time.Nanosecond)
		if got := d.open(id); len(got) != 0 {
			t.Errorf("asked in the night: %v", got)
		}
		time.Sleep(time.Second)
		open := d.open(id)
		if len(open) != 1 {
			t.Fatalf("in the morning: %v", open)
		}
		d.answer(id, open[0].Number, accept(`{"name":"Bob"}`))
		equal(t, "result", "accept Ada accept Bob", d.result(id))
		equal(t, "runs of steps", map[string]int{"before": 1, "between": 1}, steps)
	})
}

// A handler that does something else for a client without a capability does so in each run, although
// the session has ended. What the client says of itself in a call does not count.
func TestDurableTaskKnowsItsClientInEachRun(t *testing.T) {
	page := "https://example.com/{id}"
	for name, lacks := range map[string]func(ctx context.Context, c *server.Call) bool{
		"form": func(ctx context.Context, c *server.Call) bool { return lacksCapability(askName(ctx, c, "Who?")) },
		"page": func(ctx context.Context, c *server.Call) bool {
			return lacksCapability(c.ElicitURL(ctx, "Pay?", page, ""))
		},
		"roots":        func(ctx context.Context, c *server.Call) bool { return lacksCapability(c.Roots(ctx)) },
		"capabilities": func(_ context.Context, c *server.Call) bool { return c.ClientCapabilities().Elicitation == nil },
		"name":         func(_ context.Context, c *server.Call) bool { return c.ClientInfo().Name == "client" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
					way := "long"
					if lacks(ctx, c) {
						way = "short"
					}
					_, err := server.Step(ctx, c, way, func(context.Context) (int, error) { return 1, nil })
					if err == nil {
						err = server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(8 * time.Hour) })
					}
					return way, err
				})
				c := connect(t, d.s, clientConfig{})
				created, _ := c.call("tools/call", `{"name":"do","task":{},"_meta":{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{},"url":{}},"roots":{}},"io.modelcontextprotocol/clientInfo":{"name":"other","version":"1"}}}`)
				c.Close()
				time.Sleep(time.Hour)
				d.restart()
				equal(t, "result", "short", d.result(taskID(t, created)))
			})
		})
	}
}

// lacksCapability reports whether err says that the client lacks a capability.
func lacksCapability[T any](_ T, err error) bool {
	_, lacks := errors.AsType[*session.CapabilityError](err)
	return lacks
}

// Whatever a handler does and whenever it is parked or its server is restarted, its task has the
// result of a plain call.
func TestGeneratedHandlersContinueFromJournal(t *testing.T) {
	respond := func(method, params string) string {
		if _, message, form := strings.Cut(params, `"message":"form `); form {
			message, _, _ = strings.Cut(message, `"`)
			return accept(`{"name":"` + message + `"}`)
		}
		return respondToAll(method, params)
	}
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			p := generate(r, "p", 3)
			x := &execution{mu: new(sync.Mutex), steps: map[string]int{}}
			d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
				if err := server.Sleep(ctx, c, "start", func() time.Time { return time.Now().Add(time.Duration(seed%3) * time.Hour) }); err != nil {
					return "", err
				}
				return p(ctx, &execution{c, x.mu, x.steps})
			})
			client := &scripted{respond: respond}
			c := connect(t, d.s, clientConfig{capabilities: clientCapabilities(t, everyInput), handler: client.serve})
			plain, err := c.With(session.Timeout(0)).Call(t.Context(), "tools/call", session.Raw(do))
			c.Close()
			if err != nil {
				t.Fatalf("seed %d: plain: %v", seed, err)
			}
			want := text(t, string(plain))

			x.steps = map[string]int{}
			id := d.call()
			answered := map[string]bool{}
			for turn := 0; !task.Terminal(d.record(id).Status); turn++ {
				if turn > 5000 {
					t.Fatalf("seed %d: the task does not end", seed)
				}
				time.Sleep(time.Duration(r.IntN(int(3 * time.Second))))
				synctest.Wait()
				for _, q := range d.open(id) {
					key := fmt.Sprint(q.Key, "#", q.Occurrence)
					if answered[key] {
						t.Errorf("seed %d: %s is asked again", seed, q.Params)
					}
					if r.IntN(3) == 0 {
						d.answer(id, q.Number, respond(q.Method, string(q.Params)))
						answered[key] = true
					}
				}
				if r.IntN(5) == 0 {
					synctest.Wait() // a step that has begun is recorded, too
					d.restart()
				}
				if turn > 100 {
					time.Sleep(time.Hour) // a sleep is over
				}
			}
			if got := d.result(id); got != want {
				t.Errorf("seed %d: got %q, want %q", seed, got, want)
			}
			for name, n := range x.steps {
				if n != 1 {
					t.Errorf("seed %d: step %s runs %d times", seed, name, n)
				}
			}
			d.s.Close()
		})
	}
}

// A function that asks for something other than the journal has is found, and the error says what
// differs.
func TestChangedHandlerOfDurableTaskFails(t *testing.T) {
	ask := func(message string) func(ctx context.Context, c *server.Call) (string, error) {
		return func(ctx context.Context, c *server.Call) (string, error) {
			if _, err := server.Step(ctx, c, "step of "+message, func(context.Context) (int, error) { return 1, nil }); err != nil {
				return "", err
			}
			return askName(ctx, c, message)
		}
	}
	for _, tt := range []struct {
		name    string
		options []server.ToolOption // of the second process
		change  bool
		want    string
	}{
		{"same", nil, false, "accept Ada"},
		{"changed without a new version", nil, true,
			`-32603 internal error: handler is not deterministic: an earlier run asked for step "step of Old?", this run asks for step "step of New?" instead; a handler whose steps have changed needs another Version`},
		{"an accepted version", []server.ToolOption{server.Version("2", "0", "1")}, false, "accept Ada"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDurable(t, ask("Old?"))
				d.s.Close()
				d.options = []server.ToolOption{server.Version("1"), server.Durable()}
				d.start()
				id := d.call()
				time.Sleep(time.Minute)
				open := d.open(id)
				if tt.change {
					d.f = ask("New?")
				}
				if tt.options != nil {
					d.options = append(tt.options, server.Durable())
				}
				d.restart()
				d.answer(id, open[0].Number, accept(`{"name":"Ada"}`))
				if tt.change { // the new function asks first
					time.Sleep(time.Minute)
					if open := d.open(id); len(open) > 0 {
						d.answer(id, open[0].Number, accept(`{"name":"Ada"}`))
					}
				}
				if got := d.result(id); !strings.HasPrefix(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// An error of the requestor is in the journal like an answer.
func TestErrorResponseIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			_, err := askName(ctx, c, "Who?")
			refused, ok := errors.AsType[*jsonrpc.Error](err)
			if !ok {
				return "", fmt.Errorf("want an error of the client, got %w", err)
			}
			got, err := askName(ctx, c, "Really?")
			return fmt.Sprint(refused.Code, " ", got), err
		})
		id := d.call()
		c := connect(t, d.s, clientConfig{capabilities: clientCapabilities(t, everyInput), handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if strings.Contains(string(req.Params), "Who?") {
				return nil, &jsonrpc.Error{Code: 7, Message: "no"}
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		go c.With(session.Timeout(0)).Call(t.Context(), mcp.MethodTasksResult, session.Raw(`{"taskId":"`+id+`"}`))
		time.Sleep(time.Minute)
		c.Close()
		d.restart()
		d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
		equal(t, "result", "7 accept Ada", d.result(id))
	})
}

// While a step runs, the waits of other goroutines do not end.
func TestHandlerIsNotParkedDuringStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		d := newDurable(t, func(ctx context.Context, c *server.Call) (name string, err error) {
			runs++
			err = c.RunAll(ctx, func(ctx context.Context) (err error) {
				name, err = askName(ctx, c, "Who?")
				return err
			}, func(ctx context.Context) error {
				_, err := server.Step(ctx, c, "s", func(context.Context) (int, error) { time.Sleep(time.Hour); return 1, nil })
				return err
			})
			return name, err
		})
		id := d.call()
		time.Sleep(time.Minute)
		d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
		equal(t, "result", "accept Ada", d.result(id))
		equal(t, "runs", 1, runs)
	})
}

// A compensation in a defer, and a fallback for the error, have no effect while a handler is
// parked.
func TestParkedHandlerDoesNotCompensate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var effects []string
		d := newDurable(t, func(ctx context.Context, c *server.Call) (name string, err error) {
			effect := func(name string) error {
				_, err := server.Step(ctx, c, name, func(context.Context) (int, error) { effects = append(effects, name); return 1, nil })
				return err
			}
			if err := effect("charge"); err != nil {
				return "", err
			}
			defer func() {
				if err != nil {
					effect("refund")
				}
			}()
			if name, err = askName(ctx, c, "Where to?"); err != nil {
				name, err = "nowhere", effect("ship to the default address")
			}
			if err == nil {
				err = effect("ship")
			}
			return name, err
		})
		id := d.call()
		time.Sleep(time.Hour)
		d.restart()
		d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
		equal(t, "result", "accept Ada", d.result(id))
		equal(t, "effects", []string{"charge", "ship"}, effects)
	})
}

// A form whose deadline passes while the handler is parked times out once, and every later run
// takes the default.
func TestFormTimesOutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			runs++
			short, cancel := context.WithTimeout(ctx, 10*time.Minute)
			defer cancel()
			name, err := askName(short, c, "Who? (Bob after a while)")
			if errors.Is(err, context.DeadlineExceeded) {
				name = "Bob"
			} else if err != nil {
				return "", err
			}
			ship, err := server.Step(ctx, c, "ship to "+name, func(context.Context) (string, error) { return "shipped to " + name, nil })
			if err != nil {
				return "", err
			}
			return ship, server.Sleep(ctx, c, "trial", func() time.Time { return time.Now().Add(20 * time.Minute) })
		})
		begin := time.Now()
		id := d.call()
		time.Sleep(15 * time.Minute)
		if open := d.open(id); len(open) > 0 {
			t.Errorf("still open: %+v", open)
		}
		d.restart()
		equal(t, "result", "shipped to Bob", d.result(id))
		if got := time.Since(begin); got != 30*time.Minute || runs != 3 {
			t.Errorf("ended after %v and %d runs", got, runs)
		}
	})
}

// A form whose deadline has passed before the handler runs again is withdrawn: a late response does
// not count, and changes nothing.
func TestFormIsWithdrawnAfterDeadline(t *testing.T) {
	for name, restarts := range map[string]bool{"parked": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				deadline := time.Now().Add(time.Hour)
				d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
					limited, cancel := context.WithDeadline(ctx, deadline)
					defer cancel()
					_, failed := askName(limited, c, "Who?")
					if required(failed) {
						return "", failed
					}
					if err := server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(time.Hour) }); err != nil {
						return "", err
					}
					_, err := server.Step(ctx, c, "clean", func(context.Context) (int, error) { return 1, nil })
					return fmt.Sprint(errors.Is(failed, context.DeadlineExceeded), " ", err), nil
				})
				id := d.call()
				time.Sleep(time.Minute)
				form := d.open(id)[0].Number
				if restarts {
					d.s.Close()
					time.Sleep(time.Hour)
					d.start()
				}
				time.Sleep(time.Hour)
				if r := d.record(id); r.Status != mcp.TaskStatusWorking || len(d.open(id)) > 0 {
					t.Errorf("after the deadline: %s, %d open input requests", r.Status, len(d.open(id)))
				}
				d.answer(id, form, accept(`{"name":"Ada"}`))
				d.restart()
				equal(t, "result", "true <nil>", d.result(id))
			})
		})
	}
}

// A step whose result is too large for the journal fails the task, whatever the handler does with
// the error: otherwise the next run would run the step again.
func TestStepTooLargeForJournalFailsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large, small := 0, 0
		d := newDurable(t, nil)
		d.cfg.Tasks.Limits.Journal = 3000
		d.f = func(ctx context.Context, c *server.Call) (string, error) {
			server.Step(ctx, c, "large", func(context.Context) (string, error) {
				large++
				return strings.Repeat("x", 5000), nil
			})
			server.Step(ctx, c, "small", func(context.Context) (int, error) {
				small++
				return 0, nil
			})
			return askName(ctx, c, "Who?")
		}
		d.restart()
		id := d.call()
		time.Sleep(time.Minute)
		if got := d.result(id); !strings.Contains(got, "raise Options.Limits.Journal") || large != 1 || small != 0 {
			t.Errorf("got %q after %d and %d runs of the steps", got, large, small)
		}
	})
}

// A handler that swallows the error with which it is parked is run again nevertheless.
func TestParkedHandlerCannotEndItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			if name, err := askName(ctx, c, "Who?"); err == nil {
				return name, nil
			}
			return "nobody", nil
		})
		id := d.call()
		time.Sleep(time.Hour)
		if got := d.record(id).Status; got != mcp.TaskStatusInputRequired {
			t.Fatalf("status %s", got)
		}
		d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
		equal(t, "result", "accept Ada", d.result(id))
	})
}

// In a plain call, Sleep waits, once for all rounds of the call.
func TestSleepInPlainCalls(t *testing.T) {
	sleepAndAsk := func(ctx context.Context, c *server.Call) (string, error) {
		if err := server.Sleep(ctx, c, "s", func() time.Time { return time.Now().Add(time.Hour) }); err != nil {
			return "", err
		}
		return askName(ctx, c, "Who?")
	}
	t.Run("in a session", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, server.Options{})
			addTool(s, sleepAndAsk)
			client := &scripted{respond: respondToAll}
			c := connect(t, s, clientConfig{capabilities: clientCapabilities(t, everyInput), handler: client.serve})
			begin := time.Now()
			raw, err := c.With(session.Timeout(0)).Call(t.Context(), "tools/call", session.Raw(do))
			if err != nil || text(t, string(raw)) != "accept Ada" || time.Since(begin) != time.Hour {
				t.Errorf("got %s, %v, after %v", raw, err, time.Since(begin))
			}
		})
	})
	t.Run("in rounds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, server.Options{})
			addTool(s, sleepAndAsk)
			c := connectRounds(t, s)
			begin := time.Now()
			last, _ := c.finish("tools/call", do, respondToAll)
			if last.text != "accept Ada" || time.Since(begin) != time.Hour {
				t.Errorf("got %q after %v", last.text, time.Since(begin))
			}
		})
	})
	t.Run("cancelled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, server.Options{})
			ended := make(chan error, 1)
			addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
				_, err := sleepAndAsk(ctx, c)
				ended <- err
				return "", err
			})
			ctx, cancel := context.WithCancel(t.Context())
			c := connect(t, s, clientConfig{})
			go c.Call(ctx, "tools/call", session.Raw(do))
			synctest.Wait()
			cancel()
			if err := <-ended; err == nil || errors.As(err, new(*server.InputRequiredError)) {
				t.Errorf("got %v", err)
			}
		})
	})
}

// A handler that ignores the error with which the end of the server interrupts it runs again: what
// it has returned then is not the result.
func TestHandlerThatIgnoresShutdownRunsAgain(t *testing.T) {
	for name, wait := range map[string]func(ctx context.Context, c *server.Call) error{
		"input request": func(ctx context.Context, c *server.Call) error { _, err := askName(ctx, c, "Who?"); return err },
		"sleep": func(ctx context.Context, c *server.Call) error {
			return server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(8 * time.Hour) })
		},
		"step": func(ctx context.Context, c *server.Call) error {
			_, err := server.Step(ctx, c, "s", func(ctx context.Context) (int, error) {
				select {
				case <-time.After(8 * time.Hour):
					return 1, nil
				case <-ctx.Done():
					return 0, context.Cause(ctx)
				}
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
					if wait(ctx, c) != nil {
						return "gave up", nil
					}
					return "waited", nil
				})
				id := d.call()
				synctest.Wait()
				d.restart()
				synctest.Wait()
				for _, q := range d.open(id) {
					d.answer(id, q.Number, accept(`{"name":"Ada"}`))
				}
				equal(t, "result", "waited", d.result(id))
			})
		})
	}
}

func TestOverlappingSleepsOfOneBranchFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			nap := func(ctx context.Context) error {
				return server.Sleep(ctx, c, "nap", func() time.Time { return time.Now().Add(time.Hour) })
			}
			later := make(chan error)
			err := errors.Join(nap(ctx), c.RunAll(ctx, nap, nap)) // one after the other, and in branches
			go func() {                                           // ends with the error
				time.Sleep(time.Millisecond)
				later <- nap(ctx)
			}()
			return "rested", errors.Join(err, nap(ctx), <-later)
		})
		if got := d.result(d.call()); !strings.Contains(got, `sleep "nap" begins while sleep "nap" (occurrence 2) is running`) {
			t.Errorf("got %s", got)
		}
	})
}

// Log messages that an earlier run has sent are not sent again.
func TestRepeatedLogMessagesAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			c.Log(ctx, mcp.LoggingLevelError, "", "first")
			if _, err := server.Step(ctx, c, "s", func(context.Context) (int, error) { return 1, nil }); err != nil {
				return "", err
			}
			name, err := askName(ctx, c, "Who?")
			if err == nil {
				c.Log(ctx, mcp.LoggingLevelError, "", "second")
			}
			return name, err
		})
		client := &scripted{respond: func(method, params string) string {
			time.Sleep(time.Hour)
			return respondToAll(method, params)
		}}
		c := connect(t, d.s, clientConfig{capabilities: clientCapabilities(t, everyInput), handler: client.serve})
		created, _ := c.call("tools/call", `{"name":"do","task":{}}`)
		raw, err := c.With(session.Timeout(0)).Call(t.Context(), mcp.MethodTasksResult, session.Raw(`{"taskId":"`+taskID(t, created)+`"}`))
		if err != nil || text(t, string(raw)) != "accept Ada" {
			t.Fatalf("got %s, %v", raw, err)
		}
		synctest.Wait()
		var messages []string
		for _, m := range c.notifications("notifications/message") {
			messages = append(messages, part(m, "data"))
		}
		equal(t, "messages", []string{`"first"`, `"second"`}, messages)
	})
}

// scripted is a client that answers input requests with a function.
type scripted struct {
	respond func(method, params string) string
}

func (s *scripted) serve(_ context.Context, req *session.Request) (codec.Encoder, error) {
	return session.Raw(s.respond(req.Method, string(req.Params))), nil
}

// No step begins once the handler is being parked, in any branch: the next run begins it. The
// handler is parked six times before it has the time for that.
func TestNoStepBeginsWhileHandlerIsBeingParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := 0
		d := newDurable(t, func(ctx context.Context, c *server.Call) (name string, err error) {
			err = c.RunAll(ctx, func(ctx context.Context) (err error) {
				name, err = askName(ctx, c, "Who?")
				return err
			}, func(ctx context.Context) error {
				time.Sleep(time.Minute) // not a wait that the server knows
				_, err := server.Step(ctx, c, "s", func(context.Context) (int, error) { steps++; return 1, nil })
				return err
			})
			return name, err
		})
		id := d.call()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		equal(t, "steps before the answer", 0, steps)
		d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
		equal(t, "result", "accept Ada", d.result(id))
		equal(t, "steps", 1, steps)
	})
}

// A step has the same idempotency key when it runs again, also if the call has become a task after
// the step had begun.
func TestIdempotencyKeySurvivesRestartOfPromotedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			return server.Step(ctx, c, "s", func(ctx context.Context) (string, error) {
				keys = append(keys, server.IdempotencyKey(ctx))
				select {
				case <-time.After(time.Hour):
					return "done", nil
				case <-ctx.Done():
					return "", context.Cause(ctx)
				}
			})
		})
		c := connectModern(t, d.s)
		c.start("tools/call", do, withExtension)
		time.Sleep(time.Minute)
		got := c.take()
		id := strings.Trim(part(got[len(got)-1], "result", "taskId"), `"`)
		d.restart()
		equal(t, "result", "done", d.result(id))
		if len(keys) != 2 || keys[0] != keys[1] {
			t.Errorf("keys %q", keys)
		}
	})
}

// A durable task whose tool or version is not in the server waits, and says for what. It goes on
// once the tool is added or enabled.
func TestDurableTaskWaitsForItsTool(t *testing.T) {
	waits := func(ctx context.Context, c *server.Call, _ map[string]any) (string, error) {
		return "done", server.Sleep(ctx, c, "s", func() time.Time { return time.Now().Add(time.Hour) })
	}
	for _, name := range []string{"removed", "disabled", "other version"} {
		for _, parked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, parked %t", name, parked), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := newDurable(t, nil)
					d.s.Close()
					if !parked {
						d.cfg.Tasks.Recovery.ParkAfter = -1
					}
					d.options = []server.ToolOption{server.Version("1"), server.Durable()}
					d.f = func(ctx context.Context, c *server.Call) (string, error) { return waits(ctx, c, nil) }
					d.start()
					id := d.call()
					time.Sleep(time.Minute)
					d.s.Close()
					var tool *server.Handle[mcp.Tool]
					add := func(version string) {
						t.Helper()
						tool = server.AddTool(d.s, "do", "", waits, server.Version(version), server.Durable())
					}
					d.s, d.m = withTasksOf(t, d.cfg, d.cfg.Tasks.Store, func(s *server.Server) {
						d.s = s
						switch name {
						case "other version":
							add("2")
						case "disabled":
							add("1")
							must(tool, tool.Disable())
						}
					})
					time.Sleep(2 * time.Hour)
					got, err := d.m.Get(t.Context(), "ada", id, nil)
					if err != nil || got.Status != mcp.TaskStatusWorking || got.StatusMessage == nil || !strings.HasPrefix(*got.StatusMessage, "waits for a process that has ") || !strings.HasSuffix(*got.StatusMessage, ` the tool "do"`) {
						t.Errorf("%+v, %v", got, err)
					}
					switch name {
					case "disabled":
						err = tool.Enable()
					case "other version":
						if err = tool.Remove(); err == nil {
							add("1")
						}
					default:
						add("1")
					}
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Hour)
					if got := d.result(id); got != "done" {
						t.Errorf("got %q", got)
					}
				})
			})
		}
	}
}

// A call that has begun goes on although the input schema of a later program refuses its arguments.
// If it was cancelled, it is undone. Tools with middleware are an exception: the middleware may have
// recorded something after arguments were refused.
func TestStricterSchemaDoesNotEndCallThatHasBegun(t *testing.T) {
	type earlier struct {
		Item string `json:"item"`
	}
	type later struct {
		Item string `json:"item"`
		Size string `json:"size"` // required
	}
	const order = `{"name":"order","arguments":{"item":"shoe"}}`
	// add adds the tool of the earlier or of the later program.
	add := func(strict bool, f func(ctx context.Context, c *server.Call, item string) (string, error), options ...server.ToolOption) func(*server.Server) {
		return func(s *server.Server) {
			if strict {
				server.AddTool(s, "order", "", func(ctx context.Context, c *server.Call, in later) (string, error) {
					return f(ctx, c, in.Item+in.Size)
				}, options...)
				return
			}
			server.AddTool(s, "order", "", func(ctx context.Context, c *server.Call, in earlier) (string, error) { return f(ctx, c, in.Item) }, options...)
		}
	}
	for _, fate := range []string{"answered", "cancelled"} {
		t.Run("task "+fate, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newEffects(t)
				f := func(ctx context.Context, c *server.Call, item string) (string, error) {
					if err := x.book(ctx, c, item); err != nil {
						return "", err
					}
					return askName(ctx, c, "Who?")
				}
				d := newDurable(t, nil)
				d.s.Close()
				d.s, d.m = withTasksOf(t, d.cfg, d.cfg.Tasks.Store, add(false, f, server.Durable()))
				c := connect(t, d.s, clientConfig{capabilities: clientCapabilities(t, everyInput)})
				created, _ := c.call("tools/call", strings.TrimSuffix(order, "}")+`,"task":{}}`)
				id := taskID(t, created)
				time.Sleep(time.Minute)
				d.s.Close()
				d.s, d.m = withTasksOf(t, d.cfg, d.cfg.Tasks.Store, add(true, f, server.Durable()))
				if fate == "answered" {
					d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
					equal(t, "result", "accept Ada", d.result(id))
					equal(t, "effects", []string{"shoe"}, x.all())
					return
				}
				if _, err := d.m.Cancel(t.Context(), "ada", id, nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				equal(t, "effects", []string{"shoe", "undo shoe"}, x.all())
			})
		})
	}
	t.Run("rounds", func(t *testing.T) {
		f := func(ctx context.Context, c *server.Call, item string) (string, error) {
			name, err := askName(ctx, c, "Who?")
			return item + " " + name, err
		}
		cfg := server.Options{Shared: server.Shared{StateKeys: [][]byte{make([]byte, 32)}}}
		open := func(strict bool, options ...server.ToolOption) *roundClient {
			s := newServer(t, cfg)
			add(strict, f, options...)(s)
			return connectRounds(t, s)
		}
		one := open(false).round("tools/call", order, nil, nil)
		answers := map[string]string{one.name(t): accept(`{"name":"Ada"}`)}
		equal(t, "result", "shoe accept Ada", open(true).round("tools/call", order, one, answers).text)
		if got := open(true).round("tools/call", order, nil, nil).text; !strings.Contains(got, "size") {
			t.Errorf("a new call got %q", got)
		}
		asks := server.WrapTool(func(next server.ToolHandler) server.ToolHandler {
			return func(ctx context.Context, c *server.Call, r *server.ToolRequest) (*mcp.CallToolResult, error) {
				result, err := next(ctx, c, r)
				if _, err := askName(ctx, c, "Again?"); err != nil {
					return nil, err
				}
				return result, err
			}
		})
		one = open(true, asks).round("tools/call", order, nil, nil)
		answers = map[string]string{one.name(t): accept(`{"name":"Ada"}`)}
		if got := open(true, asks).round("tools/call", order, one, answers).text; !strings.Contains(got, "size") {
			t.Errorf("a call that middleware has continued got %q", got)
		}
	})
}
