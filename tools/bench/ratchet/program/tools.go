package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/server"
)

type person struct{ Name string }

// adder adds tools to a server.
type adder struct {
	greet, durable func(name string, f func(context.Context, *server.Call, person) (string, error)) error
	table          func(name string, f func(context.Context, *server.Call, person) (table, error)) error
}

// tools add the tools that the benchmarks of a file call.
var tools = []func(adder) error{
	func(add adder) error { return add.greet("greet", greet) },
	func(add adder) error { return add.greet("report", report) },
	func(add adder) error { return add.greet("ask", ask) },
	func(add adder) error { return add.table("rows", rows) },
	func(add adder) error { return add.durable("later", greet) },
	func(add adder) error { return add.durable("wait", wait) },
}

// addTools adds the tools that the benchmarks call, and so many others that there are 100.
func addTools(add adder) error {
	for _, tool := range tools {
		if err := tool(add); err != nil {
			return err
		}
	}
	for i := len(tools); i < 100; i++ {
		if err := add.greet(fmt.Sprintf("greet-%d", i), greet); err != nil {
			return err
		}
	}
	return nil
}

func greet(_ context.Context, _ *server.Call, p person) (string, error) { return "Hi, " + p.Name, nil }

// table is a large result.
type table struct{ Rows []row }

type row struct {
	Name, Unit string
	Value      float64
	Labels     []string
}

// rows returns a table of about 100 kB of JSON.
func rows(context.Context, *server.Call, person) (table, error) { return hundredKilobytes, nil }

var hundredKilobytes = func() (t table) {
	for i := range 1000 {
		t.Rows = append(t.Rows, row{Name: fmt.Sprintf("measurement %d", i), Unit: "seconds", Value: float64(i) / 7, Labels: []string{"first", "second"}})
	}
	return t
}()

// report reports progress once.
func report(_ context.Context, c *server.Call, p person) (string, error) {
	return "Hi, " + p.Name, c.Progress(1, 2, "half of it")
}

var (
	released   = make(chan struct{})
	releasedAt atomic.Int64
)

// wait works until it receives from released, and notes when that was.
func wait(ctx context.Context, _ *server.Call, _ person) (string, error) {
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-released:
		releasedAt.Store(time.Now().UnixNano())
		return "", nil
	}
}

// ask requests input, which the client declines.
func ask(ctx context.Context, c *server.Call, p person) (string, error) {
	var fields struct{ Age int }
	_, err := server.Elicit(ctx, c, "How old are you?", &fields)
	return "Hi, " + p.Name, err
}
