package main

import (
	"context"
	"errors"
	"time"

	"github.com/mcpwire/mcpwire/runtime/client"
)

func init() {
	for way, dial := range map[string]dialer{"in memory": inMemory("2025-11-25"), "HTTP": overHTTP("2025-11-25")} {
		benchmarks = append(benchmarks,
			onClient("durable call, "+way, dial, func(ctx context.Context, c *client.Client) error { return runTask(ctx, c, "later") }),
			wakeUp("wake-up, "+way, dial),
			benchmark{name: "tasks/get, " + way, open: func(ctx context.Context) (func() error, func() error, error) {
				c, end, err := dial(ctx)
				if err != nil {
					return nil, nil, err
				}
				h, err := c.StartTool(ctx, "wait", person{"World"})
				return func() error {
					_, err := h.Refresh(ctx)
					return err
				}, end, err
			}})
	}
	states = append(states,
		state{"idle session in memory, both sides", func(ctx context.Context, n int) (func(), error) {
			s, end, err := newServer()
			clients := make([]*client.Client, n)
			for i := range clients {
				if err == nil {
					clients[i], _, err = connect(ctx, s, "2025-11-25")
				}
			}
			return func() {
				for _, c := range clients {
					c.Close()
				}
				end()
			}, err
		}},
		state{"live task", holdTasks(func(ctx context.Context, c *client.Client) error {
			_, err := c.StartTool(ctx, "wait", person{"World"})
			return err
		})},
		state{"finished task", holdTasks(func(ctx context.Context, c *client.Client) error { return runTask(ctx, c, "later") })})
}

// runTask runs a tool as a task and waits for its result.
func runTask(ctx context.Context, c *client.Client, name string) error {
	h, err := c.StartTool(ctx, name, person{"World"})
	if err != nil {
		return err
	}
	result, err := h.Result(ctx)
	if err == nil && len(result.Content) != 1 {
		err = errors.New("wrong result")
	}
	return err
}

// wakeUp returns a benchmark of the time from the end of a task's work to the end of a call that
// waits for the result.
func wakeUp(name string, dial dialer) benchmark {
	latencies := new([]time.Duration)
	return benchmark{name: name, latencies: latencies, open: func(ctx context.Context) (func() error, func() error, error) {
		c, end, err := dial(ctx)
		if err != nil {
			return nil, nil, err
		}
		return func() error {
			h, err := c.StartTool(ctx, "wait", person{"World"})
			if err != nil {
				return err
			}
			time.AfterFunc(time.Millisecond, func() { released <- struct{}{} })
			if _, err := h.Result(ctx); err != nil {
				return err
			}
			*latencies = append(*latencies, time.Since(time.Unix(0, releasedAt.Load())))
			return nil
		}, end, nil
	}}
}

// holdTasks returns a function that makes tasks.
func holdTasks(start func(ctx context.Context, c *client.Client) error) func(ctx context.Context, n int) (func(), error) {
	return func(ctx context.Context, n int) (func(), error) {
		c, end, err := inMemory("2025-11-25")(ctx)
		if err != nil {
			return nil, err
		}
		for range n {
			if err := start(ctx, c); err != nil {
				return nil, err
			}
		}
		return func() { end() }, nil
	}
}
