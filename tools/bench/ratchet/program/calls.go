package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"sync"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// dialer connects a client to a server of its own.
type dialer func(ctx context.Context) (c *client.Client, close func() error, err error)

func init() {
	for _, revision := range revisions {
		for way, dial := range map[string]dialer{"in memory": inMemory(revision), "stdio": overStdio(revision), "HTTP": overHTTP(revision)} {
			way += ", " + string(revision)
			benchmarks = append(benchmarks,
				onClient("call, "+way, dial, func(ctx context.Context, c *client.Client) error { return call(ctx, c, "greet") }),
				onClient("call with progress, "+way, dial, func(ctx context.Context, c *client.Client) error {
					return call(ctx, c, "report", client.OnProgress(func(session.Progress) {}))
				}),
				onClient("round of input, "+way, dial, func(ctx context.Context, c *client.Client) error { return call(ctx, c, "ask") }),
				onClient("list of 100 tools, "+way, dial, list),
				onClient("call with 100 kB of JSON, "+way, dial, func(ctx context.Context, c *client.Client) error {
					result, err := c.CallTool(ctx, "rows", person{"World"})
					if err == nil && len(result.StructuredContent) < 90_000 {
						err = fmt.Errorf("the result has %d bytes", len(result.StructuredContent))
					}
					return err
				}))
		}
		benchmarks = append(benchmarks, onClient("64 calls, stdio, "+string(revision), overStdio(revision), func(ctx context.Context, c *client.Client) error {
			var all sync.WaitGroup
			failures := make([]error, 64)
			for i := range failures {
				all.Go(func() { failures[i] = call(ctx, c, "greet") })
			}
			all.Wait()
			return errors.Join(failures...)
		}))
	}
}

// onClient returns a benchmark with a client.
func onClient(name string, dial dialer, do func(context.Context, *client.Client) error) benchmark {
	return benchmark{name: name, open: func(ctx context.Context) (func() error, func() error, error) {
		c, end, err := dial(ctx)
		if err != nil {
			return nil, nil, err
		}
		return func() error { return do(ctx, c) }, end, nil
	}}
}

func call(ctx context.Context, c *client.Client, name string, options ...client.CallOption) error {
	result, err := c.CallTool(ctx, name, person{"World"}, options...)
	if err != nil {
		return err
	}
	if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != "Hi, World" {
		return errors.New("wrong result")
	}
	return nil
}

// list fetches the list from the server, not from the client's cache.
func list(ctx context.Context, c *client.Client) error {
	outcome, err := c.With().ListTools(ctx, &mcp.PaginatedRequestParams{})
	if err != nil {
		return err
	}
	if len(outcome.Tools) != 100 {
		return errors.New("wrong list")
	}
	return nil
}

func inMemory(revision mcp.Revision) dialer {
	return func(ctx context.Context) (*client.Client, func() error, error) {
		s, end, err := newServer()
		if err != nil {
			return nil, nil, err
		}
		c, _, err := connect(ctx, s, revision)
		if err != nil {
			return nil, nil, err
		}
		return c, func() error { return errors.Join(c.Close(), end()) }, nil
	}
}

func overStdio(revision mcp.Revision) dialer {
	return func(ctx context.Context) (*client.Client, func() error, error) {
		path, err := os.Executable()
		if err != nil {
			return nil, nil, err
		}
		c, err := client.Command(ctx, stdio.Command{Path: path, Args: []string{"-serve"}, Stderr: os.Stderr}, options(revision))
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	}
}

func overHTTP(revision mcp.Revision) dialer {
	return func(ctx context.Context) (*client.Client, func() error, error) {
		s, end, err := newServer()
		if err != nil {
			return nil, nil, err
		}
		handler, err := newHandler(s)
		if err != nil {
			return nil, nil, err
		}
		web := httptest.NewServer(handler)
		c, err := client.Dial(ctx, web.URL, options(revision))
		if err != nil {
			return nil, nil, err
		}
		return c, func() error {
			err := errors.Join(c.Close(), end())
			web.Close()
			return err
		}, nil
	}
}
