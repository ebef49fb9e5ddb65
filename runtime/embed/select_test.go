package embed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// The first of several events is that of all runs.
func TestSelectInDurableTask(t *testing.T) {
	for want, happens := range map[string]func(x *host, id string) error{
		`"signal 7"`: func(x *host, id string) error { return x.m.Signal(t.Context(), id, "paid", json.RawMessage(`7`)) },
		`"answer"`: func(x *host, id string) error {
			return x.m.Update(t.Context(), "ada", id, "tasks/update", func(*task.InputRequest) (json.RawMessage, error) { return json.RawMessage(response("p")), nil })
		},
		`"late"`: func(*host, string) error { time.Sleep(2 * time.Hour); return nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			x := newHost(t, func(ctx context.Context) (string, error) {
				paid, late := embed.OnSignal[int]("paid"), embed.After(time.Hour)
				asked := embed.OnAnswer(func(ctx context.Context) (string, error) { return input(ctx, "p") })
				first, err := embed.Select(ctx, "s", paid, asked, late)
				if err != nil {
					return "", err
				}
				if _, err := embed.Await[any](ctx, "end"); err != nil {
					return "", err
				}
				switch first {
				case paid:
					return fmt.Sprintf(`"signal %d"`, paid.Value), nil
				case asked:
					if asked.Value != response("p") {
						t.Error(asked.Value)
					}
					return `"answer"`, nil
				}
				return `"late"`, nil
			})
			id := x.create(true)
			time.Sleep(time.Minute)
			x.restart()
			if err := happens(x, id); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			x.restart()
			if r, err := x.store.Get(t.Context(), id); err != nil || r.Status != "working" {
				t.Errorf("status %s, %v", r.Status, err)
			}
			if err := x.m.Signal(t.Context(), id, "end", json.RawMessage(`null`)); err != nil {
				t.Fatal(err)
			}
			if got := x.result(id); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// Calls without a journal have no signals. Select still waits for answers and times.
func TestSelectInOtherCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(ctx context.Context) (string, error) {
			if _, err := embed.Await[int](ctx, "n"); err == nil || !strings.Contains(err.Error(), "no signal can reach it") {
				t.Error(err)
			}
			never := embed.OnAnswer(func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			})
			late := embed.After(time.Hour)
			if first, err := embed.Select(ctx, "s", never, late); err != nil || first != late {
				t.Errorf("got %v, %v", first, err)
			}
			now := embed.OnAnswer(func(context.Context) (int, error) { return 7, nil })
			first, err := embed.Select(ctx, "s", now, late)
			if first != now {
				t.Errorf("got %v", first)
			}
			return fmt.Sprint(now.Value), err
		}
		if got, err := f(t.Context()); err != nil || got != "7" {
			t.Errorf("got %s, %v", got, err)
		}
		x := newHost(t, f)
		if got := x.result(x.create(false)); got != "7" {
			t.Errorf("got %s", got)
		}
	})
}
