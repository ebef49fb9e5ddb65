package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// showTrace returns the command trace.
func showTrace() command {
	return command{
		name:  "trace",
		args:  "[-svg OUT] FILE",
		short: "list or draw recorded messages",
		help: `
Lists the messages in a file written by "mcpwire record". With -svg, it draws a sequence diagram
instead: a line for the client of each session and one for the server, an arrow for each message, and
the states of the tasks.

Invalid lines of the file are reported and skipped.

Example:

  mcpwire trace -svg talk.svg talk.ndjson
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			svg := flags.String("svg", "", "draw to `FILE`")
			return func(_ context.Context, s streams, args []string) error {
				if len(args) == 0 {
					return usagef("missing FILE")
				}
				if len(args) > 1 {
					return usagef("unexpected argument %q", args[1])
				}
				if *svg != "" && sameFile(*svg, args[0]) {
					return usagef("the drawing would replace the recording %q; choose another file for -svg", args[0])
				}
				rec, faults := readTrace(args[0])
				if rec == nil {
					return faults
				}
				if *svg == "" {
					return errors.Join(faults, rec.Print(s.out))
				}
				return errors.Join(faults, drawTo(*svg, rec))
			}
		},
	}
}

// sameFile reports whether a and b name the same existing file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// readTrace reads a file. If some lines are invalid, it returns a recording of the others and an
// error.
func readTrace(name string) (*trace.Recording, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rec, err := trace.Read(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return rec, err
}

// drawTo draws a recording into a file.
func drawTo(name string, rec *trace.Recording) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(rec.Draw(f), f.Close())
}
