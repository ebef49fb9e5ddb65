package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

const manyInput = 150

// askMany makes input requests in as many branches.
func askMany(ctx context.Context, c *server.Call) (string, error) {
	ask := make([]func(ctx context.Context) error, manyInput)
	for i := range ask {
		ask[i] = func(ctx context.Context) error {
			_, err := askName(ctx, c, fmt.Sprint("Who is ", i, "?"))
			return err
		}
	}
	return "done", c.RunAll(ctx, ask...)
}

func addMany(s *server.Server) {
	server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ map[string]any) (string, error) { return askMany(ctx, c) })
}

func TestManyInputRequestsTakeTurnsInRounds(t *testing.T) {
	s := newServer(t, server.Options{})
	addMany(s)
	last, rounds := connectRounds(t, s).finish("tools/call", do, respondToAll)
	equal(t, "result", "done", last.text)
	if want := manyInput/taskrules.MaxOpenInput + 2; rounds != want {
		t.Errorf("%d rounds, want %d", rounds, want)
	}
}

func TestManyInputRequestsTakeTurnsInSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open, most atomic.Int32
		s := newServer(t, server.Options{})
		addMany(s)
		c := connect(t, s, clientConfig{capabilities: clientCapabilities(t, everyInput), handler: func(context.Context, *session.Request) (codec.Encoder, error) {
			if n := open.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Minute)
			open.Add(-1)
			return session.Raw(accept(`{"name":"Ada"}`)), nil
		}})
		result, _ := c.call("tools/call", do)
		equal(t, "result", "done", text(t, result))
		if got := most.Load(); got != taskrules.MaxOpenInput {
			t.Errorf("%d input requests at once, want %d", got, taskrules.MaxOpenInput)
		}
	})
}

func TestManyInputRequestsTakeTurnsInTask(t *testing.T) {
	for _, fate := range []string{"waits", "parks", "restarts"} {
		t.Run(fate, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDurable(t, askMany)
				if fate == "waits" {
					d.s.Close()
					d.cfg.Tasks.Recovery.ParkAfter = -1
					d.start()
				}
				id := d.call()
				answers := 0
				for range manyInput {
					time.Sleep(10 * time.Second)
					open := d.open(id)
					if len(open) == 0 {
						break
					}
					if want := min(taskrules.MaxOpenInput, manyInput-answers); len(open) != want {
						t.Fatalf("%d open input requests after %d answers, want %d", len(open), answers, want)
					}
					for i, q := range open {
						if i%3 == 0 || len(open) < 5 {
							d.answer(id, q.Number, accept(`{"name":"Ada"}`))
							answers++
						}
					}
					if fate == "restarts" {
						d.restart()
					}
				}
				equal(t, "answers", manyInput, answers)
				equal(t, "result", "done", d.result(id))
			})
		})
	}
}

// What ends while it waits for room has an outcome, which is recorded.
func TestInputRequestIsGivenUpWhileItWaitsForRoom(t *testing.T) {
	for _, parkAfter := range []time.Duration{-1, time.Second} {
		for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
			t.Run(fmt.Sprint(end, ", parked after ", parkAfter), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var seen atomic.Int32
					d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
						group := make([]func(ctx context.Context) error, taskrules.MaxOpenInput+1)
						for i := range group {
							group[i] = func(ctx context.Context) error { _, err := askName(ctx, c, fmt.Sprint(i)); return err }
						}
						group[0] = func(ctx context.Context) error {
							if err := server.Sleep(ctx, c, "others first", func() time.Time { return time.Now().Add(time.Millisecond) }); err != nil {
								return err
							}
							ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
							defer cancel()
							if end == context.Canceled {
								time.AfterFunc(500*time.Millisecond, cancel)
							}
							if _, err := askName(ctx, c, "late"); !errors.Is(err, end) {
								return err
							}
							seen.Add(1)
							return nil
						}
						group = append(group, func(ctx context.Context) error {
							_, err := askName(ctx, c, "last")
							return err
						})
						return "done", c.RunAll(ctx, group...)
					})
					d.s.Close()
					d.cfg.Tasks.Recovery.ParkAfter = parkAfter
					d.start()
					id := d.call()
					time.Sleep(time.Minute)
					if seen.Load() == 0 {
						t.Error("the handler has no outcome")
					}
					equal(t, "open", taskrules.MaxOpenInput, len(d.open(id)))
					for range 3 {
						d.restart()
						time.Sleep(time.Second)
						for _, q := range d.open(id) {
							d.answer(id, q.Number, accept(`{"name":"Ada"}`))
						}
						time.Sleep(time.Minute)
					}
					equal(t, "result", "done", d.result(id))
				})
			})
		}
	}
}

// slowReads is a store whose reads take some seconds once an input request is answered.
type slowReads struct {
	task.Store
	answered atomic.Bool
}

func (s *slowReads) Get(ctx context.Context, id string) (task.Record, error) {
	if s.answered.Load() {
		select {
		case <-ctx.Done():
			return task.Record{}, ctx.Err()
		case <-time.After(3 * time.Second):
		}
	}
	return s.Store.Get(ctx, id)
}

func (s *slowReads) Update(ctx context.Context, r task.Record) (task.Record, error) {
	r, err := s.Store.Update(ctx, r)
	if err == nil && slices.ContainsFunc(r.InputRequests, func(q task.InputRequest) bool { return !q.Open() }) {
		s.answered.Store(true)
	}
	return r, err
}

// If the store is slow when the task is parked, an input request that waits for room has no outcome.
func TestInputRequestThatWaitsForRoomIsParkedWithSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			group := make([]func(ctx context.Context) error, taskrules.MaxOpenInput+3)
			for i := range group {
				group[i] = func(ctx context.Context) error {
					_, err := askName(ctx, c, fmt.Sprint(i))
					if _, required := errors.AsType[*server.InputRequiredError](err); err != nil && !required {
						t.Errorf("input request %d: %v", i, err)
					}
					return err
				}
			}
			return "done", c.RunAll(ctx, group...)
		})
		d.s.Close()
		d.cfg.Tasks.Store = &slowReads{Store: d.cfg.Tasks.Store}
		d.start()
		id := d.call()
		time.Sleep(500 * time.Millisecond)
		d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
		for range 3 {
			time.Sleep(time.Minute)
			for _, q := range d.open(id) {
				d.answer(id, q.Number, accept(`{"name":"Ada"}`))
			}
		}
		equal(t, "result", "done", d.result(id))
	})
}

// A task whose input requests wait for room ends when it is cancelled.
func TestCancelledTaskWaitsForNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			text, err := askMany(ctx, c)
			ended <- err
			return text, err
		})
		d.s.Close()
		d.cfg.Tasks.Recovery.ParkAfter = -1
		d.start()
		id := d.call()
		time.Sleep(time.Minute)
		if _, err := d.m.Cancel(t.Context(), "ada", id, nil); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
