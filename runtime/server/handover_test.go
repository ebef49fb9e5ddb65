package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/faultstore"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// work is a tool that works for some seconds, and reports each of them.
func work(ctx context.Context, c *server.Call, in struct {
	Seconds int `json:"seconds"`
}) (string, error) {
	for i := range in.Seconds {
		time.Sleep(time.Second)
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err := c.Progress(float64(i+1), float64(in.Seconds), ""); err != nil && !errors.Is(err, session.ErrProgressOver) {
			return "", err
		}
	}
	_, isTask := c.Task()
	return fmt.Sprintf("worked as a task: %v", isTask), nil
}

// Proves XTASK-05 and XTASK-49.
func TestCallBecomesTaskIfItTakesLong(t *testing.T) {
	for _, row := range []struct {
		name    string
		support receiver.Support
		seconds int
		task    bool
		reports int // before the answer
		after   time.Duration
	}{
		{"a short call", receiver.Support{}, 0, false, 0, 0},
		{"a long call", receiver.Support{}, 3, true, 0, time.Second},
		{"shorter than the time of the tool", receiver.Support{After: 3500 * time.Millisecond}, 3, false, 3, 3 * time.Second},
		{"longer than the time of the tool", receiver.Support{After: 2500 * time.Millisecond}, 3, true, 2, 2500 * time.Millisecond},
		{"at once", receiver.Support{After: -1}, 0, true, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s, m := withTasks(t, memory.New(), func(s *server.Server) { server.AddTool(s, "work", "", work, server.Tasks(row.support)) })
				c := connectModern(t, s)
				params := fmt.Sprintf(`{"name":"work","arguments":{"seconds":%d}}`, row.seconds)
				c.start("tools/call", params, withExtension+`"progressToken":1,`)
				if row.after > 0 {
					time.Sleep(row.after - time.Nanosecond)
					for _, text := range c.take() {
						if part(text, "method") != `"notifications/progress"` {
							t.Errorf("early: %s", text)
						}
						row.reports--
					}
					time.Sleep(time.Nanosecond)
				}
				got := c.take()
				reports := len(got) - 1
				if reports < 0 || reports > row.reports+1 { // the last report may come with the answer
					t.Fatalf("got %q", got)
				}
				result := part(got[reports], "result")
				if !row.task {
					if want := "worked as a task: false"; text(t, result) != want {
						t.Errorf("got %s, want %s", result, want)
					}
					if got := m.Stats().Created; got != 0 {
						t.Errorf("%d tasks were created", got)
					}
					return
				}
				if part(result, "resultType") != `"task"` || part(result, "status") != `"working"` {
					t.Fatalf("got %s", result)
				}
				id := strings.Trim(part(result, "taskId"), `"`)
				c.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, c.id)) // too late
				time.Sleep(5 * time.Second)
				if got := c.take(); len(got) > 0 {
					t.Errorf("got %q after the task was created", got)
				}
				if got := c.task(id); text(t, part(got, "result")) != "worked as a task: true" {
					t.Errorf("got %s", got)
				}
			})
		})
	}
}

func TestCancellationBeforeAndAfterCallBecomesTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ended := make(chan error, 2)
		s, _ := withTasks(t, memory.New(), func(s *server.Server) {
			server.AddTool(s, "hang", "", func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return "", context.Cause(ctx)
			}, server.Tasks(receiver.Support{}))
		})
		c := connectModern(t, s)
		c.start("tools/call", `{"name":"hang"}`, withExtension)
		c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		if err := <-ended; !errors.Is(err, session.ErrCancelled) {
			t.Errorf("ended by %v", err)
		}
		c.start("tools/call", `{"name":"hang"}`, withExtension)
		time.Sleep(time.Second)
		got := c.take()
		if len(got) != 1 || len(ended) > 0 {
			t.Fatalf("got %q", got)
		}
		c.result("tasks/cancel", `{"taskId":`+part(got[0], "result", "taskId")+`}`, withExtension)
		if err := <-ended; !errors.Is(err, task.ErrCancelled) {
			t.Errorf("ended by %v", err)
		}
	})
}

// Proves XTASK-18 and XTASK-22.
func TestInputRoundsPrecedeTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		steps := 0
		s, _ := withTasks(t, memory.New(), func(s *server.Server) {
			server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				n, err := server.Step(ctx, c, "count", func(context.Context) (int, error) { steps++; return steps, nil })
				if err != nil {
					return "", err
				}
				first, err := askName(server.InputName(ctx, "who"), c, "Who?")
				if err != nil {
					time.Sleep(10 * time.Second) // the call must stay a plain one
					return "", err
				}
				time.Sleep(10 * time.Second)
				m, err := server.Step(ctx, c, "count", func(context.Context) (int, error) { steps++; return steps, nil })
				if err != nil {
					return "", err
				}
				second, err := askName(ctx, c, "Who else?")
				return fmt.Sprintf("%s and %s, steps %d and %d of %d", first, second, n, m, steps), err
			}, server.Tasks(receiver.Support{}))
		})
		c := connectModern(t, s)
		send := func(params string) string {
			t.Helper()
			c.start("tools/call", params, withExtension)
			time.Sleep(10 * time.Second)
			got := c.take()
			if len(got) != 1 {
				t.Fatalf("got %q", got)
			}
			return part(got[0], "result")
		}
		round := send(`{"name":"ask"}`)
		if part(round, "resultType") != `"input_required"` || part(round, "inputRequests", "who") == "" || part(round, "taskId") != "" {
			t.Fatalf("got %s", round)
		}
		created := send(`{"name":"ask","requestState":` + part(round, "requestState") + `,"inputResponses":{"who":` + accept(`{"name":"Ada"}`) + `}}`)
		if part(created, "resultType") != `"task"` || part(created, "requestState") != "" || part(created, "inputRequests") != "" {
			t.Fatalf("got %s", created)
		}
		time.Sleep(10 * time.Second)
		id := strings.Trim(part(created, "taskId"), `"`)
		if got := c.task(id); part(got, "inputRequests", "input-1", "params", "message") != `"Who else?"` {
			t.Errorf("got %s", got)
		}
		c.result("tasks/update", `{"taskId":"`+id+`","inputResponses":{"input-1":`+accept(`{"name":"Bob"}`)+`}}`, withExtension)
		if got, want := text(t, part(c.task(id), "result")), "accept Ada and accept Bob, steps 1 and 2 of 2"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// If the client declares the extension only after the first round, the task goes on with the
// results of that round, even if the tool runs as a task from its beginning.
func TestTaskContinuesInputRounds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		steps := 0
		s, _ := withTasks(t, memory.New(), func(s *server.Server) {
			server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				n, err := server.Step(ctx, c, "count", func(context.Context) (int, error) { steps++; return steps, nil })
				if err != nil {
					return "", err
				}
				name, err := askName(server.InputName(ctx, "who"), c, "Who?")
				if err != nil {
					return "", err
				}
				time.Sleep(time.Second)
				return fmt.Sprintf("%s, step %d of %d", name, n, steps), nil
			}, server.Tasks(receiver.Support{After: -1, Restartable: true}))
		})
		c := connectModern(t, s)
		round := c.result("tools/call", `{"name":"ask"}`, declares(`{"elicitation":{}}`))
		params := `{"name":"ask","requestState":` + part(round, "requestState") + `,"inputResponses":{"who":` + accept(`{"name":"Ada"}`) + `}}`
		c.start("tools/call", params, withExtension)
		time.Sleep(time.Millisecond)
		got := c.take()
		if len(got) != 1 || part(got[0], "result", "resultType") != `"task"` {
			t.Fatalf("got %q", got)
		}
		time.Sleep(time.Second)
		id := strings.Trim(part(got[0], "result", "taskId"), `"`)
		equal(t, "result", "accept Ada, step 1 of 1", text(t, part(c.task(id), "result")))
		c.fails("tools/call", `{"name":"ask","requestState":"x"}`, withExtension, jsonrpc.CodeInvalidParams, "requestState")
	})
}

// A call that becomes a task after a round, before its handler has asked for the response of that
// round, has the response.
func TestCallThatBecomesTaskHasResponsesOfItsRounds(t *testing.T) {
	for method, row := range map[string]struct {
		ask      func(ctx context.Context, c *server.Call) (string, error)
		response string
	}{
		"elicitation/create": {func(ctx context.Context, c *server.Call) (string, error) { return askName(ctx, c, "Who?") }, accept(`{"name":"Ada"}`)},
		"url": {func(ctx context.Context, c *server.Call) (string, error) {
			action, err := c.ElicitURL(ctx, "Log in.", "https://example.com/{id}", "")
			return string(action), err
		}, `{"action":"accept"}`},
		"sampling/createMessage": {func(ctx context.Context, c *server.Call) (string, error) {
			message, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 1})
			if err != nil {
				return "", err
			}
			return message.Model, nil
		}, `{"role":"assistant","content":{"type":"text","text":"Hi."},"model":"m"}`},
		"roots/list": {func(ctx context.Context, c *server.Call) (string, error) {
			roots, err := c.Roots(ctx)
			return fmt.Sprint(len(roots)), err
		}, `{"roots":[]}`},
	} {
		for _, restartable := range []bool{false, true} {
			inBubble(t, func(t *testing.T) {
				runs := 0
				s, _ := withTasks(t, memory.New(), func(s *server.Server) {
					server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
						if runs++; runs == 2 {
							time.Sleep(2 * time.Second)
						}
						first, err := row.ask(server.InputName(ctx, "a"), c)
						if err != nil {
							return "", err
						}
						second, err := row.ask(server.InputName(ctx, "b"), c)
						return first + ", " + second, err
					}, server.Tasks(receiver.Support{Restartable: restartable}))
				})
				c := connectModern(t, s)
				capabilities := `"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}`
				round := c.result("tools/call", `{"name":"ask"}`, declares(`{`+capabilities+`}`))
				params := `{"name":"ask","requestState":` + part(round, "requestState") + `,"inputResponses":{"a":` + row.response + `}}`
				meta := declares(`{` + capabilities + `,"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
				c.start("tools/call", params, meta)
				time.Sleep(2 * time.Second)
				got := c.take()
				if len(got) != 1 || part(got[0], "result", "resultType") != `"task"` {
					t.Fatalf("%s, restartable %v: got %q", method, restartable, got)
				}
				id := strings.Trim(part(got[0], "result", "taskId"), `"`)
				state := c.task(id)
				if part(state, "inputRequests", "input-1") == "" {
					t.Fatalf("%s, restartable %v: %s", method, restartable, state)
				}
				c.result("tasks/update", `{"taskId":"`+id+`","inputResponses":{"input-1":`+row.response+`}}`, meta)
				synctest.Wait()
				if state := c.task(id); part(state, "status") != `"completed"` || runs != 2 {
					t.Errorf("%s, restartable %v: %s after %d runs", method, restartable, state, runs)
				}
			})
		}
	}
}

// A call stays a plain one if its results are too large for the journal of a task.
func TestCallWithTooLargeResultsStaysPlain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasksOf(t, server.Options{Tasks: task.Options{Limits: task.Limits{Journal: 1000}}}, memory.New(), func(s *server.Server) {
			server.AddTool(s, "large", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				text, err := server.Step(ctx, c, "s", func(context.Context) (string, error) { return strings.Repeat("x", 1000), nil })
				if err == nil {
					_, err = askName(server.InputName(ctx, "who"), c, "Who?")
				}
				if err == nil {
					time.Sleep(time.Minute)
				}
				return fmt.Sprint(len(text)), err
			}, server.Durable())
		})
		c := connectModern(t, s)
		round := c.result("tools/call", `{"name":"large"}`, declares(`{"elicitation":{}}`)) // cannot become a task
		params := `{"name":"large","requestState":` + part(round, "requestState") + `,"inputResponses":{"who":` + accept(`{"name":"Ada"}`) + `}}`
		c.start("tools/call", params, withExtension)
		time.Sleep(time.Minute)
		if got := c.take(); len(got) != 1 || text(t, part(got[0], "result")) != "1000" {
			t.Errorf("got %q", got)
		}
	})
}

// With the Tasks extension, the call of a durable tool is a task from its first step, sleep or
// input request on, and the function of a step runs only if the task is stored.
func TestDurableCallIsTaskFromItsFirstOperation(t *testing.T) {
	for name, operation := range map[string]func(ctx context.Context, c *server.Call) error{
		"step": func(ctx context.Context, c *server.Call) error {
			_, err := server.Step(ctx, c, "s", func(context.Context) (int, error) { return 1, nil })
			return err
		},
		"sleep": func(ctx context.Context, c *server.Call) error {
			return server.Sleep(ctx, c, "s", func() time.Time { return time.Now().Add(time.Hour / 2) })
		},
		"input request": func(ctx context.Context, c *server.Call) error { _, err := askName(ctx, c, "Who?"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				began, refused := 0, error(nil)
				s, m := withTasksOf(t, server.Options{Tasks: task.Options{Limits: task.Limits{Tasks: 1}}}, memory.New(), func(s *server.Server) {
					server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
						if began++; began > 1 {
							refused = operation(ctx, c)
							return "", refused
						}
						err := operation(ctx, c)
						time.Sleep(time.Hour / 4)
						return "done", err
					}, server.Durable())
				})
				c := connectModern(t, s)
				c.start("tools/call", `{"name":"do"}`, withExtension)
				synctest.Wait() // no time passes
				got := c.take()
				if len(got) != 1 || part(got[0], "result", "resultType") != `"task"` || m.Stats().Running != 1 {
					t.Errorf("got %q", got)
				}
				c.start("tools/call", `{"name":"do"}`, withExtension)
				synctest.Wait()
				if got := c.take(); len(got) != 1 || refused == nil || part(got[0], "error", "code") != `-31060` {
					t.Errorf("beyond the limit of tasks, got %q, %v", got, refused)
				}
			})
		})
	}
}

// Without the Tasks extension, the call of a durable tool stays a plain one.
func TestDurableCallWithoutExtensionIsPlain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasksOf(t, server.Options{}, memory.New(), func(s *server.Server) {
			server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				return server.Step(ctx, c, "s", func(context.Context) (string, error) { return "done", nil })
			}, server.Durable())
		})
		c := connectModern(t, s)
		equal(t, "result", "done", text(t, c.result("tools/call", `{"name":"do"}`, declares(`{}`))))
		c.fails("tools/call", `{"name":"do","requestState":"x"}`, declares(`{}`), jsonrpc.CodeInvalidParams, "declare the Tasks extension")
	})
}

// A call stays a plain one if the task cannot be created.
func TestCallStaysPlainIfItCannotBecomeTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasksOf(t, server.Options{Tasks: task.Options{Limits: task.Limits{Tasks: 1}}}, memory.New(), func(s *server.Server) {
			server.AddTool(s, "work", "", work, server.Tasks(receiver.Support{}))
		})
		c := connectModern(t, s)
		c.start("tools/call", `{"name":"work","arguments":{"seconds":5}}`, withExtension)
		time.Sleep(time.Second / 2) // it becomes the task
		c.start("tools/call", `{"name":"work","arguments":{"seconds":3}}`, withExtension)
		c.start("tools/call", `{"name":"work","arguments":{"seconds":1000}}`, withExtension)
		time.Sleep(2 * time.Second)
		c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		kinds := map[string]int{}
		for _, text := range c.take() {
			kinds[part(text, "result", "resultType")]++
		}
		if kinds[`"task"`] != 1 || len(kinds) != 2 {
			t.Errorf("got %v", kinds)
		}
	})
}

// startLongCall calls a durable tool, which is parked after a minute, and returns the task that the
// call has become.
func startLongCall(t *testing.T, f func(ctx context.Context, c *server.Call) (string, error)) (c *modernClient, m *task.Manager, id string) {
	t.Helper()
	s, m := withTasksOf(t, server.Options{Tasks: task.Options{Recovery: task.Recovery{ParkAfter: time.Minute}}}, memory.New(), func(s *server.Server) {
		server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) { return f(ctx, c) }, server.Durable())
	})
	c = connectModern(t, s)
	c.start("tools/call", `{"name":"do"}`, withExtension)
	time.Sleep(time.Second)
	got := c.take()
	if len(got) != 1 || part(got[0], "result", "resultType") != `"task"` {
		t.Fatalf("got %q", got)
	}
	return c, m, strings.Trim(part(got[0], "result", "taskId"), `"`)
}

func TestSleepThatBeganBeforeTaskIsParked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		runs := 0
		c, m, id := startLongCall(t, func(ctx context.Context, c *server.Call) (string, error) {
			runs++
			err := server.Sleep(ctx, c, "pause", func() time.Time { return time.Now().Add(30 * time.Minute) })
			return "rested", err
		})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if stats := m.Stats(); stats.Parked != 1 || stats.Running != 0 {
			t.Errorf("%d tasks are parked and %d run, want 1 and 0", stats.Parked, stats.Running)
		}
		time.Sleep(28 * time.Minute)
		if got := text(t, part(c.task(id), "result")); got != "rested" || runs != 2 {
			t.Errorf("got %s after %d runs", got, runs)
		}
	})
}

func TestStepThatBeganBeforeTaskDelaysParking(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		steps := 0
		c, m, id := startLongCall(t, func(ctx context.Context, c *server.Call) (string, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			done := make(chan error)
			go func() { // ends with the step
				err := server.Branch(ctx, c, "long", func(ctx context.Context) error {
					_, err := server.Step(ctx, c, "long", func(ctx context.Context) (int, error) {
						steps++
						select {
						case <-time.After(10 * time.Minute):
							return steps, nil
						case <-ctx.Done():
							return 0, context.Cause(ctx)
						}
					})
					return err
				})
				select {
				case done <- err:
				case <-ctx.Done():
				}
			}()
			time.Sleep(2 * time.Second)
			name, err := askName(ctx, c, "Who?")
			if err != nil {
				return "", err
			}
			return name, <-done
		})
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if stats := m.Stats(); stats.Parked != 1 {
			t.Errorf("%d tasks are parked after the step", stats.Parked)
		}
		c.result("tasks/update", `{"taskId":"`+id+`","inputResponses":{"input-1":`+accept(`{"name":"Bob"}`)+`}}`, withExtension)
		time.Sleep(3 * time.Second)
		if got := text(t, part(c.task(id), "result")); got != "accept Bob" || steps != 1 {
			t.Errorf("got %s after %d steps", got, steps)
		}
	})
}

// A cancellation that arrives while the call becomes a task cancels the task: its id is not sent.
func TestCancellationWhileCallBecomesTask(t *testing.T) {
	for range 50 {
		inBubble(t, func(t *testing.T) {
			s, m := withTasks(t, memory.New(), func(s *server.Server) {
				server.AddTool(s, "hang", "", func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
					<-ctx.Done()
					return "", context.Cause(ctx)
				}, server.Durable())
			})
			c := connectModern(t, s)
			c.start("tools/call", `{"name":"hang"}`, withExtension)
			time.Sleep(time.Second)
			c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
			if got, stats := c.take(), m.Stats(); len(got) == 0 && stats.Running > 0 {
				t.Errorf("no answer was sent, and %d tasks run", stats.Running)
			}
		})
	}
}

// The Manager may close while a call becomes a task. Its handler goes on, and the next process runs it
// again.
func TestManagerClosesWhileCallBecomesTask(t *testing.T) {
	for _, maxRunning := range []int{0, 2} {
		t.Run(fmt.Sprint("MaxRunning ", maxRunning), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := faultstore.New(memory.New(), func(_ int, operation string) (f faultstore.Fault) {
					if operation == "Create" {
						f.Delay = time.Second
					}
					return f
				})
				failed := make(chan error, 1)
				s, m := withTasksOf(t, server.Options{Tasks: task.Options{Limits: task.Limits{Running: maxRunning}}}, store, func(s *server.Server) {
					server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
						_, err := server.Step(ctx, c, "charge", func(context.Context) (int, error) { return 1, nil })
						failed <- err
						return "not charged", nil // which is no outcome
					}, server.Durable())
				})
				c := connectModern(t, s)
				c.start("tools/call", `{"name":"do"}`, withExtension)
				time.Sleep(500 * time.Millisecond)
				m.Close(t.Context())
				select {
				case err := <-failed:
					if _, suspended := errors.AsType[*server.InputRequiredError](err); !suspended {
						t.Error(err)
					}
				case <-time.After(time.Hour):
					t.Fatal("the handler hangs")
				}
				for r, err := range store.Scan(t.Context()) {
					if err != nil || r.Status != mcp.TaskStatusWorking || r.Phase != taskrules.PhaseSuspended {
						t.Errorf("%s, phase %d, %v", r.Status, r.Phase, err)
					}
				}
			})
		})
	}
}

// If the task cannot be stored, no later operation begins, even if the store works again: its
// outcome would follow one that is not in the journal.
func TestNoOperationFollowsOneThatIsNotStored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var works atomic.Bool
		steps := 0
		store := faultstore.New(memory.New(), func(int, string) faultstore.Fault {
			if !works.Load() {
				return faultstore.Fault{Before: errDisk}
			}
			return faultstore.Fault{}
		})
		step := func(context.Context) (int, error) { steps++; return steps, nil }
		s, _ := withTasksOf(t, server.Options{}, store, func(s *server.Server) {
			server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				limited, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, first := server.Step(limited, c, "first", step)
				works.Store(true)
				time.Sleep(time.Minute) // the call becomes a task
				_, second := server.Step(ctx, c, "second", step)
				_, isTask := c.Task()
				return fmt.Sprint(isTask, errors.Is(first, task.ErrUnavailable), errors.Is(second, task.ErrUnavailable), steps), nil
			}, server.Durable())
		})
		c := connectModern(t, s)
		c.start("tools/call", `{"name":"do"}`, withExtension)
		time.Sleep(2 * time.Minute)
		id := strings.Trim(part(c.take()[0], "result", "taskId"), `"`)
		equal(t, "result", "true true true 0", text(t, part(c.task(id), "result")))
	})
}

// A call that cannot become a task gets the error of one that is a task from its beginning: while the
// store fails, it is temporary.
func TestCallThatCannotBecomeTaskIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		fault error
		reads bool // work nevertheless
		tasks int
		code  int64
		data  string
	}{
		"store is full":  {fault: errDisk, reads: true, code: jsonrpc.CodeInternalError, data: `{"retryAfter":1000}`},
		"store fails":    {fault: errDisk, code: modern.MapCode(task.CodeDoubtful)},
		"too many tasks": {tasks: 1, code: modern.MapCode(task.CodeTooManyTasks)},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := faultstore.New(memory.New(), func(_ int, operation string) (f faultstore.Fault) {
					if !row.reads || operation != "Get" {
						f.Before = row.fault
					}
					return f
				})
				cfg := server.Options{Tasks: task.Options{Limits: task.Limits{Tasks: row.tasks}}}
				s, m := withTasksOf(t, cfg, store, func(s *server.Server) {
					server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
						_, err := server.Step(ctx, c, "charge", func(context.Context) (int, error) { return 1, nil })
						return "", err
					}, server.Durable())
				})
				if row.fault == nil {
					must(m.Create(t.Context(), task.Request{Principal: "ada", Work: func(ctx context.Context, _ *task.Run) (codec.Encoder, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					}}))
				}
				c := connectModern(t, s)
				c.ctx = transport.WithPrincipal(t.Context(), "ada")
				c.start("tools/call", `{"name":"do"}`, withExtension)
				time.Sleep(time.Minute)
				answer, err := jsonrpc.ParseReceived([]byte(c.take()[0]))
				if err != nil || answer.Error == nil {
					t.Fatalf("got %s, %v", answer.Result, err)
				}
				if got := answer.Error; got.Code != row.code || string(got.Data) != row.data {
					t.Errorf("got %v, data %s", got, got.Data)
				}
			})
		})
	}
}

// While the store may have the task of an earlier attempt, no step of the call begins: both tasks
// would do it if the process ended.
func TestCallIsNotTwoTasks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var fails atomic.Bool
		fails.Store(true)
		records := memory.New()
		store := faultstore.New(records, func(_ int, operation string) (f faultstore.Fault) {
			switch {
			case !fails.Load():
			case operation == "Create":
				f.After = errDisk
			default:
				f.Before = errDisk
			}
			return f
		})
		s, _ := withTasksOf(t, server.Options{}, store, func(s *server.Server) {
			server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				return server.Step(ctx, c, "charge", func(context.Context) (string, error) {
					count := map[mcp.TaskStatus]int{}
					for r := range records.Scan(t.Context()) {
						count[r.Status]++
					}
					return fmt.Sprint(count), nil
				})
			}, server.Durable())
		})
		c := connectModern(t, s)
		c.start("tools/call", `{"name":"do"}`, withExtension)
		time.Sleep(time.Second)
		fails.Store(false)
		time.Sleep(time.Minute)
		id := strings.Trim(part(c.take()[0], "result", "taskId"), `"`)
		equal(t, "tasks during the step", "map[failed:1 working:1]", text(t, part(c.task(id), "result")))
	})
}

// No step begins if the client cancels the call while it becomes a task.
func TestNoStepBeginsAfterCancellationWhileCallBecomesTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := faultstore.New(memory.New(), func(_ int, operation string) faultstore.Fault {
			if operation == "Create" {
				return faultstore.Fault{Delay: time.Second}
			}
			return faultstore.Fault{}
		})
		s, _ := withTasksOf(t, server.Options{}, store, func(s *server.Server) {
			server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				_, err := server.Step(ctx, c, "charge", func(context.Context) (int, error) {
					t.Error("the step began")
					return 0, nil
				})
				return "", err
			}, server.Durable())
		})
		c := connectModern(t, s)
		c.start("tools/call", `{"name":"do"}`, withExtension)
		time.Sleep(time.Second / 2)
		c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		time.Sleep(time.Minute)
	})
}
