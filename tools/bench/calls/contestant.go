package main

import (
	"context"
	"fmt"
)

// contestant is an SDK.
type contestant struct {
	name      string
	inMemory  func(ctx context.Context) (client, error) // opens a connection to a server in this process
	overStdio func(ctx context.Context) (client, error) // and to one in a child process
	serve     func(ctx context.Context) error           // is that child process
}

// client is a connection to a server with the tool.
type client struct {
	call  func(ctx context.Context) error // calls the tool and checks the answer
	close func() error                    // may be called again
}

// contestants returns all of them, ours first.
func contestants() []contestant {
	return []contestant{
		{"mcpwire", mcpwireInMemory, mcpwireOverStdio, mcpwireServe},
		{"official Go SDK", officialInMemory, officialOverStdio, officialServe},
		{"mcp-go", mcpgoInMemory, mcpgoOverStdio, mcpgoServe},
	}
}

// serve is the child process of a contestant.
func serve(ctx context.Context, name string) error {
	for _, c := range contestants() {
		if c.name == name {
			return c.serve(ctx)
		}
	}
	return fmt.Errorf("there is no contestant %q", name)
}

// What is said in each call.
const (
	tool   = "weather"
	answer = "4 °C, rain later"
)

// arguments are those of each call.
func arguments() map[string]any { return map[string]any{"city": "Oslo", "days": 3} }

// check checks an answer.
func check(text string, err error) error {
	if err == nil && text != answer {
		err = fmt.Errorf("the tool answers %q", text)
	}
	return err
}
