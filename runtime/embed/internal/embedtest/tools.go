package embedtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// arguments are the arguments of the tools.
type arguments struct {
	Key   string // of notes and gates
	Name  string
	Count int
	Until time.Time
	Task  string // id
}

// behaviour is the function of a tool.
type behaviour func(ctx context.Context, c Caller, in arguments) (*Result, error)

func text(format string, values ...any) (*Result, error) {
	return &Result{Text: fmt.Sprintf(format, values...)}, nil
}

// failedInput returns the result of a tool whose input request has failed: the code and the message of
// the error, if the client has responded with one.
func failedInput(err error) (*Result, error) {
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &Result{Text: fmt.Sprintf("error %d: %s", rpc.Code, rpc.Message), IsError: true}, nil
	}
	return nil, err
}

// behaviours returns the behaviours by name.
func behaviours(b *board) map[string]behaviour {
	var tried sync.Map // bookings of trips
	elicit := func(ctx context.Context, c Caller, message string) (string, error) {
		action, name, err := c.Elicit(ctx, message)
		return strings.TrimSpace(action + " " + name), err
	}
	// run returns a behaviour that notes each of its runs.
	run := func(f behaviour) behaviour {
		return func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			b.note(in.Key, "run")
			return f(ctx, c, in)
		}
	}
	gate := func(ctx context.Context, c Caller, in arguments) (*Result, error) {
		if err := b.pass(ctx, in.Key); err != nil {
			b.note(in.Key, "cancelled")
			return nil, err
		}
		b.note(in.Key, "passed")
		return text("passed")
	}
	step := func(ctx context.Context, c Caller, in arguments, name string) (string, error) {
		return c.Step(ctx, name, func(ctx context.Context) (string, error) {
			b.note(in.Key, "step "+name)
			return name + rand.Text(), nil
		})
	}
	return map[string]behaviour{
		"echo":  func(_ context.Context, c Caller, _ arguments) (*Result, error) { return text("%s", c.Arguments()) },
		"greet": func(_ context.Context, _ Caller, in arguments) (*Result, error) { return text("Hello, %s", in.Name) },
		"whoami": run(func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			return text("%s", c.User())
		}),
		"principal": func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			b.note(in.Key, "run")
			if err := b.pass(ctx, in.Key); err != nil {
				return nil, err
			}
			return text("%s", embed.Principal(ctx))
		},
		"gate": run(gate),
		"stubborn": run(func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			return gate(context.WithoutCancel(ctx), c, in)
		}),
		"count": run(func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			for n := 1; n <= 3; n++ {
				if err := c.ProgressWithToken(ctx, "other", float64(n)); err != nil {
					return nil, err
				}
				if err := c.Progress(ctx, float64(n), fmt.Sprintf("step %d", n)); err != nil {
					return nil, err
				}
				if err := c.Log(ctx, fmt.Sprintf("log %d of %s", n, in.Key)); err != nil {
					return nil, err
				}
			}
			b.note(in.Key, "counted")
			return gate(ctx, c, in)
		}),
		"chatty": func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			go func() { // ends when its messages have been refused, sent or dropped
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), caseTimeout)
				defer cancel()
				if b.pass(ctx, in.Key) != nil {
					return
				}
				c.Progress(ctx, 1, "late progress")
				c.Log(ctx, "late log")
				if _, err := elicit(ctx, c, "late question"); err != nil {
					b.note(in.Key, "refused")
				} else {
					b.note(in.Key, "answered")
				}
			}()
			return text("done")
		},
		"ask": run(func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			got, err := elicit(ctx, c, in.Key)
			if err != nil {
				return failedInput(err)
			}
			return text("%s", got)
		}),
		"ask-two": run(func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			var got [2]string
			ask := func(n int) func(ctx context.Context) error {
				return func(ctx context.Context) (err error) {
					got[n], err = elicit(ctx, c, fmt.Sprintf("%s %d", in.Key, n))
					return err
				}
			}
			if err := c.RunAll(ctx, ask(0), ask(1)); err != nil {
				return failedInput(err)
			}
			return text("%s, %s", got[0], got[1])
		}),
		"sample": run(func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			got, err := c.Sample(ctx, in.Key)
			if err != nil {
				return failedInput(err)
			}
			return text("%s", got)
		}),
		"roots": run(func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			got, err := c.Roots(ctx)
			if err != nil {
				return failedInput(err)
			}
			return text("%s", strings.Join(got, " "))
		}),
		"rounds": func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			got := c.Responses()
			if got == nil {
				return &Result{Ask: map[string]string{"a": in.Key + " a", "b": in.Key + " b"}}, nil
			}
			if in.Count > 0 { // waits in the second round
				if _, err := gate(ctx, c, in); err != nil {
					return nil, err
				}
			}
			return text("%s, %s", got["a"], got["b"])
		},
		"fail": func(context.Context, Caller, arguments) (*Result, error) {
			return &Result{Text: "it is broken", IsError: true}, nil
		},
		"fail-rpc": func(context.Context, Caller, arguments) (*Result, error) {
			return nil, &jsonrpc.Error{Code: -7, Message: "no way", Data: json.RawMessage(`{"why":[1,"é"]}`)}
		},
		"error": func(context.Context, Caller, arguments) (*Result, error) { return nil, errors.New("it is broken") },
		"structured": func(context.Context, Caller, arguments) (*Result, error) {
			return &Result{Text: "one", Structured: map[string]any{"n": 1}}, nil
		},
		"unencodable": func(context.Context, Caller, arguments) (*Result, error) {
			return &Result{Text: "none", Structured: map[string]any{"n": math.NaN()}}, nil
		},
		"panic": func(context.Context, Caller, arguments) (*Result, error) { panic("the panic of a test") },
		"steps": run(func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			first, err := step(ctx, c, in, "first")
			if err != nil {
				return nil, err
			}
			b.note(in.Key, "waits")
			if _, err := gate(ctx, c, in); err != nil {
				return nil, err
			}
			second, err := step(ctx, c, in, "second")
			if err != nil {
				return nil, err
			}
			return text("%s %s", first[:len("first")], second[:len("second")])
		}),
		"steps-ask": run(func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			if _, err := step(ctx, c, in, "first"); err != nil {
				return nil, err
			}
			got, err := elicit(ctx, c, in.Key)
			if err != nil {
				b.note(in.Key, "returned") // for example because the task is parked
				return failedInput(err)
			}
			b.note(in.Key, "answered")
			if _, err := gate(ctx, c, in); err != nil {
				return nil, err
			}
			return text("%s", got)
		}),
		"nap": run(func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			err := c.Sleep(ctx, "nap", func() time.Time {
				b.note(in.Key, "sleep")
				return in.Until
			})
			if err != nil {
				b.note(in.Key, "returned")
				return nil, err
			}
			b.note(in.Key, "awake")
			return text("awake")
		}),
		// patient asks until a deadline of Count milliseconds, and does something else then.
		"patient": run(func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			limited, cancel := context.WithTimeout(ctx, time.Duration(in.Count)*time.Millisecond)
			defer cancel()
			got, err := elicit(limited, c, in.Key)
			if errors.Is(err, context.DeadlineExceeded) {
				got, err = step(ctx, c, in, "instead")
				got = strings.TrimSuffix(got, got[min(len(got), len("instead")):])
			}
			if err != nil {
				b.note(in.Key, "returned")
				return failedInput(err)
			}
			b.note(in.Key, "got "+got)
			if _, err := gate(ctx, c, in); err != nil {
				return nil, err
			}
			return text("%s", got)
		}),
		// choose waits for the first of several events, then for its release, and then for a second
		// signal. The time that it waits is Count milliseconds.
		"choose": run(func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			asked := embed.OnAnswer(func(ctx context.Context) (string, error) { return elicit(ctx, c, in.Key) })
			paid, late := embed.OnSignal[string]("paid"), embed.After(time.Duration(in.Count)*time.Millisecond)
			first, err := c.Select(ctx, "payment", asked, paid, late)
			if err != nil {
				b.note(in.Key, "returned")
				return failedInput(err)
			}
			chosen := "late"
			switch first {
			case asked:
				chosen = "answer " + asked.Value
			case paid:
				chosen = "signal " + paid.Value
			}
			b.note(in.Key, "chosen "+chosen)
			if _, err := gate(ctx, c, in); err != nil {
				return nil, err
			}
			end := embed.OnSignal[string]("end")
			if _, err := c.Select(ctx, "end", end); err != nil {
				b.note(in.Key, "returned")
				return nil, err
			}
			return text("%s, %s", chosen, end.Value)
		}),
		// trip books a train and a hotel at the same time, asks for each of them, and waits. Then the
		// arguments say how it ends. The first attempt of each booking in a process fails.
		"trip": run(func(ctx context.Context, c Caller, in arguments) (*Result, error) {
			book := func(name string) func(ctx context.Context) error {
				return func(ctx context.Context) error {
					err := c.Compensate(ctx, "undo "+name, func(ctx context.Context) error {
						b.note(in.Key, "undo "+name)
						return nil
					})
					if err != nil {
						return err
					}
					_, err = c.Step(ctx, "book", func(ctx context.Context) (string, error) {
						if _, tried := tried.LoadOrStore(in.Key+name, true); !tried {
							return "", errors.New("busy")
						}
						b.note(in.Key, "book "+name)
						return name, nil
					}, embed.Retry{Attempts: 5, Backoff: time.Millisecond})
					if err != nil {
						return err
					}
					limited, cancel := context.WithTimeout(ctx, caseTimeout)
					defer cancel()
					got, err := elicit(limited, c, in.Key+" "+name)
					if err == nil && got != "accept "+in.Key+" "+name {
						err = fmt.Errorf("got %q for the %s", got, name)
					}
					return err
				}
			}
			if err := book("insurance")(ctx); err != nil {
				return failedInput(err)
			}
			if err := c.RunAll(ctx, book("train"), book("hotel")); err != nil {
				return failedInput(err)
			}
			b.note(in.Key, "waits")
			if _, err := gate(ctx, c, in); err != nil {
				return nil, err
			}
			return &Result{Text: "booked " + in.Name, IsError: in.Name != ""}, nil
		}),
		"big": func(_ context.Context, _ Caller, in arguments) (*Result, error) {
			return text("%s", strings.Repeat("x", in.Count))
		},
		"events": func(ctx context.Context, _ Caller, in arguments) (*Result, error) {
			notes, err := b.read(ctx, in.Key, in.Count)
			if err != nil {
				return nil, err
			}
			out, err := json.Marshal(notes)
			return &Result{Text: string(out)}, err
		},
		"signal": func(ctx context.Context, _ Caller, in arguments) (*Result, error) {
			if err := b.signal(ctx, in.Task, in.Name, json.RawMessage(`"of `+in.Name+`"`)); err != nil {
				return nil, err
			}
			return text("sent")
		},
		"release": func(_ context.Context, _ Caller, in arguments) (*Result, error) {
			b.release(in.Key)
			return text("released")
		},
	}
}

const (
	never  = time.Hour        // After of calls that do not become tasks
	soon   = time.Millisecond // After of calls that become tasks while they run
	atOnce = -1
)

// tool is a tool of all fixtures.
type tool struct {
	behaviour string
	support   *embed.Tool // nil for a tool that is never a task
}

func supported(after time.Duration) *embed.Tool {
	return &embed.Tool{Support: receiver.Support{After: after}}
}

func durable() *embed.Tool {
	t := embed.Durable()
	t.After = atOnce
	return &t
}

// tools are the tools of all fixtures by name.
func (s setup) tools() map[string]tool {
	all := map[string]tool{
		"greet-plain":       {"greet", nil},
		"gate-plain":        {"gate", nil},
		"gate-later":        {"gate", supported(soon)},
		"gate-durable":      {"gate", durable()},
		"echo-later":        {"echo", supported(never)},
		"count-plain":       {"count", supported(never)},
		"ask-later":         {"ask", supported(never)},
		"forbidden":         {"echo", &embed.Tool{Support: receiver.Support{Mode: mcp.TaskSupportForbidden}}},
		"required":          {"echo", &embed.Tool{Support: receiver.Support{Mode: mcp.TaskSupportRequired}}},
		"events":            {"events", nil},
		"release":           {"release", nil},
		"signal":            {"signal", nil},
		"rounds":            {"rounds", &embed.Tool{Rounds: true, Support: receiver.Support{After: soon}}},
		"rounds-plain":      {"rounds", &embed.Tool{Rounds: true, Support: receiver.Support{After: never}}},
		"rounds-task":       {"rounds", &embed.Tool{Rounds: true, Support: receiver.Support{After: atOnce}}},
		"steps":             {"steps", durable()},
		"steps-ask":         {"steps-ask", durable()},
		"nap":               {"nap", durable()},
		"patient":           {"patient", durable()},
		"choose":            {"choose", durable()},
		"trip":              {"trip", durable()},
		"trip-later":        {"trip", &embed.Tool{Support: receiver.Support{Restartable: true, After: never}}},
		"principal":         {"principal", nil},
		"principal-durable": {"principal", durable()},
	}
	for _, name := range []string{"echo", "greet", "whoami", "gate", "stubborn", "count", "chatty", "ask", "ask-two", "sample", "roots", "fail", "fail-rpc", "error", "structured", "unencodable", "panic", "big"} {
		all[name] = tool{name, supported(atOnce)}
	}
	versioned := durable()
	versioned.Version, versioned.Accepts = s.Version, s.Accepts
	all["versioned"] = tool{"gate", versioned}
	return all
}

// fixtureTools returns the tools of a fixture and their task support.
func (s setup) fixtureTools(b *board) (list []Tool, supports map[string]embed.Tool) {
	supports = map[string]embed.Tool{}
	all := behaviours(b)
	for name, t := range s.tools() {
		if t.support != nil {
			supports[name] = *t.support
		}
		if name == s.Without {
			continue
		}
		run := all[t.behaviour]
		made := Tool{
			Name: name, Description: "Does " + t.behaviour + ".", InputSchema: json.RawMessage(`{"type":"object"}`),
			Run: func(ctx context.Context, c Caller) (*Result, error) {
				var in arguments
				if raw := c.Arguments(); len(raw) > 0 {
					if err := json.Unmarshal(raw, &in); err != nil {
						return nil, err
					}
				}
				return run(ctx, c, in)
			},
		}
		if t.behaviour == "greet" {
			made.Typed, made.InputSchema = true, json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)
		}
		list = append(list, made)
	}
	return list, supports
}
