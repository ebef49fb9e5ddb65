package main

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/mcpwire/mcpwire/schema"
)

func version() command {
	return command{
		name:  "version",
		short: "print the version and the supported protocol revisions",
		help: `
Prints the version of mcpwire, the Go version that built it, and the built-in protocol revisions and
extensions.

Example:

  mcpwire version
`,
		setup: func(*flag.FlagSet) func(context.Context, streams, []string) error {
			return func(_ context.Context, s streams, args []string) error {
				if len(args) > 0 {
					return usagef("version takes no arguments")
				}
				module, goVersion := build()
				_, err := fmt.Fprintf(s.out, "mcpwire %s, built with %s\nrevisions: %s\nextensions: %s\n", module, goVersion,
					strings.Join(schema.Revisions(), " "), strings.Join(schema.Extensions(), " "))
				return err
			}
		},
	}
}

// build returns the versions of this program and of Go.
func build() (module, goVersion string) {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version, info.GoVersion
	}
	return "unknown", "unknown"
}
