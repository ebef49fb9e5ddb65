package main

import (
	"context"
	"fmt"
)

// contestant is an SDK.
type contestant struct {
	name  string
	ways  map[string]opener
	serve func(ctx context.Context) error // is a server over standard input and output
}

// opener opens a connection to a server.
type opener func(ctx context.Context) (client, error)

// client is a connection to a server with the tool.
type client struct {
	call  func(ctx context.Context) error // calls the tool and checks the answer
	close func() error                    // may be called again
}

// The ways to a server.
const (
	inMemory  = "in memory"
	overStdio = "stdio"
	overJSON  = "HTTP, answered with JSON"
	overSSE   = "HTTP, answered with SSE"
)

// contestants returns all of them, ours first.
func contestants() []contestant {
	return []contestant{
		{"mcpwire", map[string]opener{inMemory: mcpwireInMemory, overStdio: mcpwireOverStdio, overJSON: mcpwireOverHTTP(0), overSSE: mcpwireOverHTTP(-1)}, mcpwireServe},
		{"official Go SDK", map[string]opener{inMemory: officialInMemory, overStdio: officialOverStdio, overJSON: officialOverHTTP(true), overSSE: officialOverHTTP(false)}, officialServe},
		{"mcp-go", map[string]opener{inMemory: mcpgoInMemory, overStdio: mcpgoOverStdio, overJSON: mcpgoOverHTTP}, mcpgoServe},
		{"nothing decoded", map[string]opener{overJSON: plainOverHTTP}, nil},
	}
}

// serve is the child process of a contestant.
func serve(ctx context.Context, name string) error {
	for _, c := range contestants() {
		if c.name == name && c.serve != nil {
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
