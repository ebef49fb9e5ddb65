package main

import (
	"context"
	"fmt"

	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
)

func init() {
	tools = append(tools, func(add adder) error { return add.durable("steps", steps) })
	benchmarks = append(benchmarks, onClient("durable call with 50 steps, in memory", inMemory("2025-11-25"), func(ctx context.Context, c *client.Client) error {
		return runTask(ctx, c, "steps")
	}))
}

// steps runs 50 steps.
func steps(ctx context.Context, c *server.Call, p person) (string, error) {
	for i := range 50 {
		if _, err := server.Step(ctx, c, fmt.Sprint("step ", i), func(context.Context) (int, error) { return i, nil }); err != nil {
			return "", err
		}
	}
	return "Hi, " + p.Name, nil
}
