package main

import (
	"context"
	"fmt"
	"slices"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
)

// contestant is an SDK.
type contestant struct {
	name  string
	ways  map[string]opener
	serve func(ctx context.Context) error // runs a server over standard input and output
}

// opener opens a connection to a server.
type opener func(ctx context.Context) (client, error)

// client is a connection to a server with the tool.
type client struct {
	version string                          // of the protocol
	call    func(ctx context.Context) error // calls the tool and checks the result
	close   func() error                    // may be called more than once
}

// The transports.
const (
	inMemory  = "in memory"
	overStdio = "stdio"
	overJSON  = "HTTP, JSON response"
	overSSE   = "HTTP, SSE response"

	// Without sessions; over HTTP with JSON responses.
	overModern      = "HTTP, " + modernVersion
	overModernStdio = "stdio, " + modernVersion
)

// texts returns the contestants whose tool returns a line of text.
func texts() []contestant {
	return []contestant{
		sessionText().contestant("mcpwire session"),
		serverText().contestant("mcpwire server"),
		{"official Go SDK", map[string]opener{inMemory: officialInMemory, overStdio: officialOverStdio, overJSON: officialOverHTTP(true), overSSE: officialOverHTTP(false), overModern: officialModern, overModernStdio: officialOverStdio}, officialServe},
		{"mcp-go", map[string]opener{inMemory: mcpgoInMemory, overStdio: mcpgoOverStdio(), overJSON: mcpgoOverHTTP(), overModern: mcpgoOverHTTP(mcpgoclient.WithProtocolVersion(modernVersion)), overModernStdio: mcpgoOverStdio(mcpgoclient.WithProtocolVersion(modernVersion))}, mcpgoServe},
		{"net/http alone", map[string]opener{overJSON: plainOverHTTP(plainRequest, nil), overModern: plainOverHTTP(modernRequest, modernHeader())}, nil},
	}
}

// structs returns the contestants whose tool converts structs.
func structs() []contestant {
	return []contestant{
		sessionByHand().contestant("session, by hand"),
		sessionFixed().contestant("session, fixed"),
		serverStructs().contestant("server and client"),
	}
}

// serve runs the child process of a contestant.
func serve(ctx context.Context, name string) error {
	for _, c := range slices.Concat(texts(), structs(), proxies()) {
		if c.name == name && c.serve != nil {
			return c.serve(ctx)
		}
	}
	return fmt.Errorf("unknown contestant %q", name)
}

// tool is the name of the tool that all contestants call.
const tool = "weather"

// answer is the line of text that the tool returns for arguments.
const answer = "4 °C, rain later"

func arguments() map[string]any { return map[string]any{"city": "Oslo", "days": 3} }

// check checks a result.
func check(text string, err error) error {
	if err == nil && text != answer {
		err = fmt.Errorf("wrong result %q", text)
	}
	return err
}

// place and forecast are the arguments and the output of the tool.
type place struct {
	City string `json:"city"`
	Days int    `json:"days"`
}

type forecast struct {
	City string `json:"city"`
	Rain bool   `json:"rain"`
}

var where = place{"Oslo", 3}

func weather(in place) forecast { return forecast{in.City, in.Days > 2} }

func checkForecast(out forecast, err error) error {
	if err == nil && out != weather(where) {
		err = fmt.Errorf("wrong result %v", out)
	}
	return err
}
