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

// playDemo is the command demo.
func playDemo() command {
	return command{
		name:  "demo",
		args:  "[-http] [-svg FILE]",
		short: "play a task that survives the death of its server",
		help: `Demo starts a server in a process of its own and calls a tool of it as a task. It shows the
progress, kills the server in the middle, starts it again, answers a question of the task, and
shows the result. Then it lists what went over the wire. With -http that goes over HTTP, and the
network between the two is cut once before the server is killed.

Example:

    mcpwire demo -svg demo.svg`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			svg := flags.String("svg", "", "also draw the conversation, into this `file`")
			overHTTP := flags.Bool("http", false, "play it over HTTP on this machine, and cut the network too")
			serve := flags.String("serve", "", "be the server, with its tasks in this `file`")
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
