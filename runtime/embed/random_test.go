package embed_test

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
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// generator makes random handlers.
type generator struct {
	*rand.Rand
	mu    sync.Mutex
	steps map[string]int // runs by step and occurrence
}

// handler returns a random tree of steps, sleeps, input requests and concurrency. Its result names
// the results of all of them. Path is unique among handlers that may run at the same time.
func (g *generator) handler(path string, depth int) handler {
	kind := g.IntN(9)
	if depth == 0 {
		kind = g.IntN(5)
	}
	switch kind {
	case 0, 1: // steps of one name in a row, which may fail
		times, fails := 1+g.IntN(3), g.IntN(4) == 0
		return func(ctx context.Context) (string, error) {
			all := ""
			for i := range times {
				got, err := embed.Step(ctx, path, func(context.Context) (string, error) {
					g.mu.Lock()
					defer g.mu.Unlock()
					g.steps[fmt.Sprint(path, "#", i)]++
					if fails {
						return "", fmt.Errorf("%s fails", path)
					}
					return fmt.Sprint(path, i), nil
				})
				if _, failed := errors.AsType[*embed.StepError](err); failed {
					got = err.Error()
				} else if err != nil {
					return "", err
				}
				all += got + ","
			}
			return all, nil
		}
	case 2:
		d := time.Duration(g.IntN(3)) * time.Hour
		return func(ctx context.Context) (string, error) {
			return "slept", embed.Sleep(ctx, path, func() time.Time { return time.Now().Add(d) })
		}
	case 3, 4: // input requests, some of which repeat
		times := 1 + g.IntN(2)
		return func(ctx context.Context) (string, error) {
			all := ""
			for range times {
				got, err := input(ctx, path)
				if err != nil {
					return "", err
				}
				all += got
			}
			return all, nil
		}
	}
	parts := make([]handler, 1+g.IntN(4))
	for i := range parts {
		parts[i] = g.handler(fmt.Sprint(path, ".", i), depth-1)
	}
	if kind == 5 { // a branch that depends on a result
		condition := g.handler(path+"?", 0)
		return func(ctx context.Context) (string, error) {
			got, err := condition(ctx)
			if err != nil {
				return "", err
			}
			rest, err := parts[len(got)%len(parts)](ctx)
			return got + "?" + rest, err
		}
	}
	return func(ctx context.Context) (string, error) {
		got, failed := make([]string, len(parts)), make([]error, len(parts))
		if kind == 6 { // at the same time
			all := make([]func(ctx context.Context) error, len(parts))
			for i := range parts {
				all[i] = func(ctx context.Context) error { got[i], failed[i] = parts[i](ctx); return nil }
			}
			embed.RunAll(ctx, all...)
		} else {
			for i := range parts {
				if got[i], failed[i] = parts[i](ctx); failed[i] != nil {
					break
				}
			}
		}
		return "(" + strings.Join(got, " ") + ")", errors.Join(failed...)
	}
}

// response is the client's response to the input request of a path.
func response(path string) string { return `{"roots":[{"uri":"file:///` + path + `"}]}` }

// input makes an input request as an embedding does.
func input(ctx context.Context, path string) (string, error) {
	if _, isTask := task.FromContext(ctx); !isTask {
		pending, ok := rerun.PendingFrom(ctx)
		if !ok { // a plain call
			return response(path), nil
		}
		if err := pending.Promote(ctx); err != nil {
			return "", err
		}
	}
	answer, err := rerun.FromContext(ctx).Ask(ctx, &rerun.Request{Method: mcp.MethodRootsList, Params: json.RawMessage(`{"path":"` + path + `"}`)})
	return string(answer), err
}

// serve runs a handler for a request that is a task, or may become one.
func (h handler) serve(ctx context.Context, _ *session.Request) (codec.Encoder, error) {
	run, isTask := task.FromContext(ctx)
	r := rerun.New(ctx, rerun.Options{Package: "embed", Task: run, Rounds: !isTask})
	if pending, ok := rerun.PendingFrom(ctx); ok {
		pending.BeforeTask(r.BeforeTask)
	}
	result, err := h(rerun.NewContext(ctx, r))
	if err != nil {
		result = err.Error() // SDKs make a result of it
	}
	_, _, err = r.End()
	return session.Raw(`{"value":` + jsonText(result) + `}`), err
}

func jsonText(s string) string {
	text, _ := codec.Marshal(codec.StringScalar(s))
	return string(text)
}

// A handler has the result of a plain call, independently of when it becomes a task, is parked, or
// is restarted with its process. No recorded step runs again, and no input request is sent again
// after its response.
func TestGeneratedHandlersHaveOneResult(t *testing.T) {
	const params = `{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`
	tasks, plain := 0, 0
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			g := &generator{Rand: rand.New(rand.NewPCG(seed, 3)), steps: map[string]int{}}
			h := g.handler("p", 3)
			want, err := h(t.Context())
			if err != nil {
				t.Fatalf("seed %d: plain: %v", seed, err)
			}
			g.steps = map[string]int{}
			store := memory.New()
			var m *task.Manager
			start := func() {
				if m, err = task.New(t.Context(), task.Options{
					Store: store, Recovery: task.Recovery{ParkAfter: time.Second, Recover: func(r task.Record) task.Work { return receiver.Work(h.serve, r) }}, TTL: task.TTL{Default: 10000 * time.Hour, Max: 10000 * time.Hour},
				}); err != nil {
					t.Fatal(err)
				}
			}
			start()
			defer func() { m.Close(context.Background()) }()
			after := []time.Duration{-1, time.Millisecond, 90 * time.Minute}[g.IntN(3)]
			call := receiver.Middleware(receiver.Options{
				Manager: m,
				Support: func(context.Context, *session.Request) (receiver.Support, error) {
					return receiver.Support{Mode: mcp.TaskSupportOptional, Name: "t", Restartable: true, After: after}, nil
				},
			})(h.serve)
			req := new(session.Request).Internals(boundary.Caller{}).Stored(codec.StringScalar("1"), mcp.MethodToolsCall, json.RawMessage(params), "2026-07-28")
			result, err := call(session.WithPeer(t.Context(), silent{}), req)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			text, err := codec.Marshal(result)
			if err != nil {
				t.Fatal(err)
			}
			if id, isTask := codec.Member(text, "taskId"); isTask {
				tasks++
				text = g.finish(t, seed, strings.Trim(string(id), `"`), store, func() *task.Manager { return m }, func() {
					if err := m.Close(t.Context()); err != nil {
						t.Fatal(err)
					}
					start()
				})
			} else {
				plain++
			}
			if got, _ := codec.Member(text, "value"); string(got) != jsonText(want) {
				t.Errorf("seed %d: got %s, want %q", seed, text, want)
			}
			for name, n := range g.steps {
				if n != 1 {
					t.Errorf("seed %d: step %s runs %d times", seed, name, n)
				}
			}
		})
	}
	if tasks == 0 || plain == 0 {
		t.Errorf("%d calls became tasks, %d stayed plain", tasks, plain)
	}
}

// finish answers the input requests of a task in random order, restarts its process now and then,
// and returns the result.
func (g *generator) finish(t *testing.T, seed uint64, id string, store task.Store, m func() *task.Manager, restart func()) json.RawMessage {
	t.Helper()
	answered := map[string]bool{}
	for turn := 0; ; turn++ {
		if turn > 5000 {
			t.Fatalf("seed %d: the task does not end", seed)
		}
		time.Sleep(time.Duration(g.IntN(int(3 * time.Second))))
		synctest.Wait()
		r, err := store.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if task.Terminal(r.Status) {
			if r.Error != nil {
				t.Fatalf("seed %d: %s", seed, r.Error)
			}
			return r.Result
		}
		for _, q := range r.InputRequests {
			if !q.Open() {
				continue
			}
			key := fmt.Sprint(q.Key, "#", q.Occurrence)
			if answered[key] {
				t.Errorf("seed %d: %s is asked again", seed, q.Params)
			}
			if g.IntN(3) > 0 {
				continue
			}
			answered[key] = true
			path, _ := codec.Member(q.Params, "path")
			if err := m().Update(t.Context(), r.Owner, id, "tasks/update", func(other *task.InputRequest) (json.RawMessage, error) {
				if other.Number == q.Number {
					return json.RawMessage(response(strings.Trim(string(path), `"`))), nil
				}
				return nil, nil
			}); err != nil {
				t.Error(err)
			}
		}
		if g.IntN(5) == 0 {
			synctest.Wait() // a step that has begun is recorded, too
			restart()
		}
		if turn > 100 {
			time.Sleep(time.Hour) // a sleep ends
		}
	}
}

// silent is a peer that drops all messages.
type silent struct{ session.Peer }

func (silent) Report(session.Progress) error { return nil }

// Goroutines that outlive their handler, and do not end with its context, do not harm later runs:
// no result is recorded twice, and the task ends.
func TestGoroutinesThatOutliveTheirHandler(t *testing.T) {
	outlived := 0
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			g := &generator{Rand: rand.New(rand.NewPCG(seed, 4))}
			pause := func() time.Duration {
				g.mu.Lock()
				defer g.mu.Unlock()
				return time.Duration(g.IntN(int(2 * time.Second)))
			}
			x := newHost(t, func(ctx context.Context) (string, error) {
				for i := range 4 {
					go func() { // ends with its handler, or later
						late := context.WithoutCancel(ctx)
						err := embed.Branch(late, fmt.Sprint(i), func(ctx context.Context) error {
							for {
								_, err := embed.Step(ctx, "late", func(context.Context) (int, error) { time.Sleep(pause()); return 0, nil })
								if err == nil && i%2 == 0 {
									err = embed.Sleep(ctx, "late", func() time.Time { return time.Now().Add(pause()) })
								}
								if err != nil {
									return err
								}
							}
						})
						g.mu.Lock()
						defer g.mu.Unlock()
						if err.Error() == "embed: the handler of the call has returned" {
							outlived++
						}
					}()
				}
				for range 3 {
					if _, err := embed.Step(ctx, "s", func(context.Context) (int, error) { time.Sleep(pause()); return 0, nil }); err != nil {
						return "", err
					}
					if err := embed.Sleep(ctx, "s", func() time.Time { return time.Now().Add(3 * pause()) }); err != nil {
						return "", err
					}
				}
				return `true`, nil
			})
			id := x.create(true)
			for range 10 {
				time.Sleep(pause())
				if pause() < time.Second {
					x.restart()
				}
				journal, err := x.store.Journal(t.Context(), id) // empty once the task has ended
				if err != nil {
					t.Fatal(err)
				}
				recorded := map[string]bool{}
				for _, e := range journal {
					key := fmt.Sprint(e.Branch, e.Kind, e.Key, "#", e.Occurrence)
					if recorded[key] {
						t.Errorf("seed %d: %s is recorded twice", seed, key)
					}
					recorded[key] = true
				}
			}
			x.result(id)
			time.Sleep(time.Hour) // all goroutines end
		})
	}
	if outlived == 0 {
		t.Error("no goroutine has outlived its handler")
	}
}
