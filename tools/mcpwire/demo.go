package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/demo"
)

// playDemo returns the command demo.
func playDemo() command {
	return command{
		name:  "demo",
		args:  "[-http] [-svg FILE]",
		short: "demonstrate a task that survives a crash of its server",
		help: `
Starts a server in a separate process and calls one of its tools as a task. It shows the steps and
their progress, kills the server between two steps, starts it again, answers an input request of the
task and shows the result: no finished step ran again. Then it calls a tool that requests input in
revision 2026-07-28, which has no sessions: the input goes in a second request. At the end it lists
all messages. With -http, the two communicate over HTTP, and the network is cut once before the server
is killed; the last call is left out.

Example:

  mcpwire demo -svg demo.svg
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			svg := flags.String("svg", "", "also draw the messages into `FILE`")
			overHTTP := flags.Bool("http", false, "use HTTP on this machine, and also cut the network")
			serve := flags.String("serve", "", "run the server of the demo, with its tasks in `FILE`")
			return func(ctx context.Context, s streams, args []string) error {
				switch {
				case len(args) > 0:
					return usagef("unexpected argument %q", args[0])
				case *serve != "" && *overHTTP:
					return demo.ServeHTTP(*serve)
				case *serve != "":
					return demo.Serve(*serve)
				}
				return runDemo(ctx, s, *svg, *overHTTP)
			}
		},
	}
}

func runDemo(ctx context.Context, s streams, svg string, overHTTP bool) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mcpwire-demo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	client := demo.Client{
		Server: stdio.Command{
			Path: program, Args: []string{"demo", "-serve", filepath.Join(dir, "tasks")},
			Stderr: s.err,
		},
		Out: s.out,
	}
	play := client.Run
	if overHTTP {
		client.Server.Args = append(client.Server.Args, "-http")
		play = client.RunHTTP
	}
	rec, err := play(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	if err := rec.Print(s.out); err != nil || svg == "" {
		return err
	}
	return drawTo(svg, rec)
}
