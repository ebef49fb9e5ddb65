package task_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/internal/network"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Networks of clients without a principal.
const networkOfEve, networkOfAnn = "\x00network 203.0.113.0/24", "\x00network 198.51.100.0/24"

// createFrom creates a task for a client without a principal.
func createFrom(t *testing.T, m *task.Manager, from string, work task.Work) (id string, err error) {
	t.Helper()
	created, err := m.Create(network.With(t.Context(), from), task.Request{Method: "tools/call", Work: work})
	return created.TaskID, err
}

// One network of clients without a principal may have half of the tasks, bytes and calls of all of
// them. What it has used is free again when its tasks end and expire.
func TestNetworksShareLimits(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *task.Manager, string){
		"cancelled": func(t *testing.T, m *task.Manager, id string) {
			if _, err := m.Cancel(t.Context(), "", id, nil); err != nil {
				t.Error(err)
			}
		},
		"expired": func(*testing.T, *task.Manager, string) { time.Sleep(2 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, task.Options{Limits: task.Limits{Tasks: 4}}, func(t *testing.T, m *task.Manager) {
				tooMany := func(from string, limit int64) {
					t.Helper()
					_, err := createFrom(t, m, from, untilDone)
					if limited, ok := errors.AsType[*task.LimitError](err); !ok || limited.Code != task.CodeTooManyTasks || limited.Limit != limit {
						t.Errorf("%q: %v, want a limit of %d", from, err, limit)
					}
				}
				create := func(from string) (id string) {
					t.Helper()
					id, err := createFrom(t, m, from, untilDone)
					if err != nil {
						t.Errorf("%q: %v", from, err)
					}
					return id
				}
				for range 3 {
					first := create(networkOfEve)
					create(networkOfEve)
					tooMany(networkOfEve, 2)
					end(t, m, first)
					synctest.Wait()
					create(networkOfEve)
					create(networkOfAnn)
					last := create("") // a client whose network is unknown
					if name == "cancelled" {
						tooMany(networkOfAnn, 4)
						end(t, m, last)
						synctest.Wait()
					}
					create(networkOfAnn)
					time.Sleep(2 * time.Hour) // all expire
					synctest.Wait()
				}
			})
		})
	}
	t.Run("bytes", func(t *testing.T) {
		runInBubble(t, task.Options{Limits: task.Limits{Bytes: 20_000}}, func(t *testing.T, m *task.Manager) {
			for range 3 {
				for _, from := range []string{networkOfEve, ""} {
					want := map[string]string{networkOfEve: "10000"}[from]
					id, err := createFrom(t, m, from, returns(`{"x":"`+strings.Repeat("x", 11_000)+`"}`))
					if err != nil {
						t.Fatal(err)
					}
					out, err := m.Result(t.Context(), "", id, nil)
					if err != nil {
						t.Fatal(err)
					}
					if got := out.Error; (got == nil) != (want == "") || got != nil && !strings.Contains(got.Message, want) {
						t.Errorf("%q: %v, want %s", from, got, want)
					}
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
			}
		})
	})
	t.Run("calls", func(t *testing.T) {
		runInBubble(t, task.Options{Limits: task.Limits{Rate: 4, Burst: 4}}, func(t *testing.T, m *task.Manager) {
			call := func(from string) int64 {
				_, _, err := m.List(network.With(context.Background(), from), "", "")
				if limited, ok := errors.AsType[*task.LimitError](err); ok {
					return limited.Limit
				}
				return 0
			}
			for i, want := range []int64{0, 0, 2, 2, 2} {
				if got := call(networkOfEve); got != want {
					t.Errorf("call %d: limit %d, want %d", i, got, want)
				}
			}
			for i, want := range []int64{0, 0, 2} {
				if got := call(networkOfAnn); got != want {
					t.Errorf("call %d of another network: limit %d, want %d", i, got, want)
				}
			}
			if got := call(""); got != 4 {
				t.Errorf("all: limit %d", got)
			}
		})
	})
}

// The tasks of networks have turns, as those of principals have.
func TestNetworksHaveTurns(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{Running: 1}}, func(t *testing.T, m *task.Manager) {
		var order []string
		work := func(name string) task.Work {
			w := returns(`{}`)
			return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				order = append(order, name)
				time.Sleep(time.Second)
				return w(ctx, run)
			}
		}
		for range 3 {
			if _, err := createFrom(t, m, networkOfEve, work("eve")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := createFrom(t, m, networkOfAnn, work("ann")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := strings.Join(order, " "); got != "eve eve ann eve" && got != "eve ann eve eve" {
			t.Errorf("order: %s", got)
		}
	})
}
