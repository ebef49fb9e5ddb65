package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/everything"
)

// serve is the command serve.
func serve() command {
	return command{
		name:  "serve",
		short: "be a server with every feature, to test clients with",
		help: `Serve is a server that has every feature of the protocol, on standard input and output, or
over HTTP with -http. Its tasks are kept in memory unless -store names a file.

Example:

    mcpwire serve -http localhost:8080 -store tasks.db`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			address := flags.String("http", "", "serve over HTTP at this `address`, at the path /mcp; without a host it is this machine alone")
			file := flags.String("store", "", "keep the tasks in this `file`")
			return func(ctx context.Context, s streams, args []string) error {
				if len(args) > 0 {
					return usagef("unexpected argument %q", args[0])
				}
				store, err := openStore(*file)
				if err != nil {
					return err
				}
				defer store.Close()
				if *address == "" {
					return serveStdio(ctx, store)
				}
				return serveHTTP(ctx, s, *address, store)
			}
		},
	}
}

func openStore(file string) (task.Store, error) {
	if file == "" {
		return memory.New(), nil
	}
	return bolt.Open(file)
}

func serveStdio(ctx context.Context, store task.Store) error {
	module, _ := build()
	server, err := everything.New(ctx, module, store, session.Config{Principal: "local"}, nil)
	if err != nil {
		return err
	}
	defer server.Close()
	err = server.Run(ctx, stdio.Server(stdio.Options{}))
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func serveHTTP(ctx context.Context, s streams, address string, store task.Store) error {
	module, _ := build()
	server, err := everything.New(ctx, module, store, session.Config{}, streamable.Disconnect)
	if err != nil {
		return err
	}
	defer server.Close()
	handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
		server.Serve(conn) // which closes the connection if it fails
	}, streamable.HandlerOptions{StreamAfter: -1})
	defer handler.Close()

	if strings.HasPrefix(address, ":") {
		address = "localhost" + address
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(s.out, "serving at http://%s/mcp\n", listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }() // ends with Close
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(handler.Shutdown(grace), web.Shutdown(grace))
	<-ended
	return err
}
