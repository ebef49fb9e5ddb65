package embed_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// handler is the handler of a tool, whose result is JSON.
type handler func(ctx context.Context) (string, error)

// work runs a handler as a task.
func (h handler) work(ctx context.Context, run *task.Run) (codec.Encoder, error) {
	r := rerun.New(ctx, rerun.Options{Package: "embed", Task: run})
	result, err := h(rerun.NewContext(ctx, r))
	if _, _, fault := r.End(); fault != nil {
		err = fault
	}
	return session.Raw(`{"value":` + result + `}`), err
}

// host runs a handler as a durable task. It can be restarted.
type host struct {
	t     *testing.T
	store task.Store
	h     handler
	m     *task.Manager
}

func newHost(t *testing.T, h handler) *host {
	x := &host{t: t, store: memory.New(), h: h}
	x.start()
	t.Cleanup(func() { x.m.Close(context.Background()) })
	return x
}

func (x *host) start() {
	x.t.Helper()
	m, err := task.New(x.t.Context(), task.Options{
		Store: x.store, Recovery: task.Recovery{ParkAfter: time.Second, Recover: func(task.Record) task.Work { return x.h.work }}, TTL: task.TTL{Default: 10000 * time.Hour, Max: 10000 * time.Hour},
	})
	if err != nil {
		x.t.Fatal(err)
	}
	x.m = m
}

func (x *host) restart() {
	x.t.Helper()
	if err := x.m.Close(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	x.start()
}

// create creates a task and returns its id.
func (x *host) create(durable bool) string {
	x.t.Helper()
	created, err := x.m.Create(x.t.Context(), task.Request{Principal: "ada", Method: "tools/call", Restartable: durable, Work: x.h.work})
	if err != nil {
		x.t.Fatal(err)
	}
	return created.TaskID
}

// result waits for a task and returns its result, or the text of its error.
func (x *host) result(id string) string {
	x.t.Helper()
	out, err := x.m.Result(x.t.Context(), "ada", id, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	if out.Error != nil {
		return out.Error.Message
	}
	value, _ := codec.Member(out.Result, "value")
	return string(value)
}

// A plain call has no run: the functions behave as in a task, and record nothing.
func TestStepsOfPlainCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		keys := map[string]bool{}
		for range 2 {
			got, err := embed.Step(ctx, "s", func(ctx context.Context) (any, error) {
				keys[embed.IdempotencyKey(ctx)] = true
				_, inner := embed.Step(ctx, "inner", func(context.Context) (int, error) { return 0, nil })
				return struct{ Inner string }{inner.Error()}, nil
			})
			if m, ok := got.(map[string]any); err != nil || !ok || m["Inner"] != `embed: step in step "s": call it in the handler, before or after the step` {
				t.Errorf("got %v, %v", got, err)
			}
		}
		if len(keys) != 2 || keys[""] || embed.IdempotencyKey(ctx) != "" {
			t.Errorf("keys %v, outside of a step %q", keys, embed.IdempotencyKey(ctx))
		}
		_, err := embed.Step(ctx, "s", func(context.Context) (int, error) {
			return 0, errors.Join(errors.New("lost"), &jsonrpc.Error{Code: 7, Message: "kept"})
		})
		failed, ok := errors.AsType[*embed.StepError](err)
		rpc, _ := errors.AsType[*jsonrpc.Error](err)
		if !ok || failed.Step != "s" || rpc == nil || rpc.Code != 7 {
			t.Errorf("got %v", err)
		}
		begin := time.Now()
		if err := embed.Sleep(ctx, "s", func() time.Time { return begin.Add(time.Hour) }); err != nil || time.Since(begin) != time.Hour {
			t.Errorf("slept %v, %v", time.Since(begin), err)
		}
		ended, cancel := context.WithCancelCause(ctx)
		cancel(task.ErrCancelled)
		if err := embed.Sleep(ended, "s", func() time.Time { return time.Now().Add(time.Hour) }); err != task.ErrCancelled {
			t.Errorf("got %v", err)
		}
		for _, err := range []error{
			embed.Sleep(ctx, "", time.Now),
			func() error { _, err := embed.Step[int](ctx, "s", nil); return err }(),
		} {
			if err == nil || err.Error()[:6] != "embed:" {
				t.Errorf("got %v", err)
			}
		}
	})
}

// A task that is not durable runs once, so its steps are not recorded.
func TestStepsOfNonDurableTask(t *testing.T) {
	x := newHost(t, func(ctx context.Context) (string, error) {
		key, err := embed.Step(ctx, "s", func(ctx context.Context) (string, error) { return embed.IdempotencyKey(ctx), nil })
		if err == nil && key == "" {
			err = errors.New("no key")
		}
		return `true`, err
	})
	id := x.create(false)
	if got := x.result(id); got != `true` {
		t.Error(got)
	}
	if journal, err := x.store.Journal(t.Context(), id); err != nil || len(journal) != 0 {
		t.Errorf("journal %v, %v", journal, err)
	}
}

// After a restart, no recorded step of a durable task runs again, and a sleep waits for the rest of
// its time only. The task has no goroutine during the sleep.
func TestStepsOfDurableTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, runs, first := map[string]int{}, 0, 0
		x := newHost(t, func(ctx context.Context) (string, error) {
			runs++
			if !embed.Replaying(ctx) {
				first++
			}
			if _, err := embed.Step(ctx, "before", func(ctx context.Context) (int, error) { keys[embed.IdempotencyKey(ctx)]++; return 0, nil }); err != nil {
				return "", err
			}
			if err := embed.Sleep(ctx, "night", func() time.Time { return time.Now().Add(8 * time.Hour) }); err != nil {
				return "", err
			}
			_, err := embed.Step(ctx, "after", func(ctx context.Context) (int, error) {
				keys[embed.IdempotencyKey(ctx)]++
				if len(keys) == 2 { // the process ends before the result is stored
					keys["after"] = 1
					<-ctx.Done()
					return 0, context.Cause(ctx)
				}
				return 0, nil
			})
			return `"done"`, err
		})
		begin := time.Now()
		id := x.create(true)
		time.Sleep(time.Hour)
		if got := x.m.Stats(); got.Running != 0 || got.Parked != 1 {
			t.Errorf("during the sleep: %+v", got)
		}
		x.restart()
		time.Sleep(time.Until(begin.Add(9 * time.Hour)))
		x.restart()
		if got := x.result(id); got != `"done"` || time.Since(begin) != 9*time.Hour {
			t.Errorf("got %s after %v", got, time.Since(begin))
		}
		delete(keys, "after")
		total := 0
		for _, n := range keys {
			total += n
		}
		if len(keys) != 2 || total != 3 || runs != 3 || first != 1 {
			t.Errorf("runs by key: %v; %d runs, of which %d do not replay", keys, runs, first)
		}
	})
}

// A goroutine that outlives its handler records nothing.
func TestStepAfterHandlerHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan error, 2)
		x := newHost(t, func(ctx context.Context) (string, error) {
			ctx = context.WithoutCancel(ctx)
			go func() {
				time.Sleep(time.Minute)
				_, err := embed.Step(ctx, "late", func(context.Context) (int, error) { t.Error("the step ran"); return 0, nil })
				late <- err
				late <- embed.Sleep(ctx, "late", time.Now)
			}()
			return `true`, nil
		})
		id := x.create(true)
		if got := x.result(id); got != `true` {
			t.Error(got)
		}
		for range 2 {
			if err := <-late; err == nil || err.Error() != "embed: the handler of the call has returned" {
				t.Errorf("got %v", err)
			}
		}
	})
}

// The result of a step that is still running after its run has ended is not recorded, because the
// next run may have recorded the same step.
func TestStepThatOutlivesItsRunIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs []chan bool // ends the step of each run
		x := newHost(t, func(ctx context.Context) (string, error) {
			end, done := make(chan bool), make(chan error, 1)
			runs = append(runs, end)
			go func() {
				_, err := embed.Step(context.WithoutCancel(ctx), "slow", func(context.Context) (int, error) { <-end; return 0, nil })
				done <- err
			}()
			select {
			case err := <-done:
				return `true`, err
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
		id := x.create(true)
		synctest.Wait()
		x.restart()
		synctest.Wait()
		close(runs[0])
		synctest.Wait()
		if journal, err := x.store.Journal(t.Context(), id); err != nil || len(journal) != 0 {
			t.Errorf("the first run has recorded %v, %v", journal, err)
		}
		close(runs[1])
		if got := x.result(id); got != `true` {
			t.Error(got)
		}
	})
}

// labelled encodes itself with other names than those of its fields, as the contents of the official
// Go SDK do.
type labelled struct{ Text string }

func (l *labelled) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"type": "text", "text": l.Text})
}

// counted encodes itself with a computed member.
type counted struct {
	Text string `json:"text"`
}

func (c counted) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"text": c.Text, "length": len(c.Text)})
}

// A result that would lose a part when it is decoded fails its step.
func TestStepRejectsResultsThatLoseParts(t *testing.T) {
	ctx := t.Context()
	const want = `embed: step "s": the result cannot be recorded: a value of type `
	type holder struct{ All []*labelled }
	if got, err := embed.Step(ctx, "s", func(context.Context) (*labelled, error) { return &labelled{"x"}, nil }); err == nil || !strings.HasPrefix(err.Error(), want+"*embed_test.labelled") {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := embed.Step(ctx, "s", func(context.Context) (holder, error) { return holder{[]*labelled{{"x"}}}, nil }); err == nil || !strings.HasPrefix(err.Error(), want+"embed_test.holder") {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := embed.Step(ctx, "s", func(context.Context) (map[string]counted, error) {
		return map[string]counted{"a": {"x"}, "b": {"y"}}, nil
	}); err != nil || got["b"].Text != "y" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := embed.Step(ctx, "s", func(context.Context) (*holder, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
}
