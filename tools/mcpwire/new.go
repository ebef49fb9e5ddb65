package main

import (
	"context"
	"flag"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/project"
)

// newProject returns the command new.
func newProject() command {
	return command{
		name:  "new",
		args:  "[-durable] [-http] [-client] NAME",
		short: "begin a project with a server or a client",
		help: `
Writes a small server into the new folder NAME, with its module, a test, a Dockerfile, an entry for the
configuration of hosts (mcp.json) and a workflow that tests it, and shows what to do next. NAME can be
the path of a module, such as github.com/ada/shop; the folder is then shop. The folder must be empty
or not exist.

With -durable, the calls of the server's tool can run as tasks, which survive a crash of the server.
With -http, the server uses HTTP instead of standard input and output; both may be given. With -client,
the project is a client.

Example:

  mcpwire new -durable shop
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			p := &project.Project{Version: required(debug.ReadBuildInfo())}
			flags.BoolVar(&p.Durable, "durable", false, "write a server whose calls can run as tasks")
			flags.BoolVar(&p.HTTP, "http", false, "write a server over HTTP")
			flags.BoolVar(&p.Client, "client", false, "write a client")
			return func(ctx context.Context, s streams, args []string) error {
				switch {
				case len(args) != 1:
					return usagef("want one NAME, got %d arguments", len(args))
				case p.Client && (p.Durable || p.HTTP):
					return usagef("-client cannot be combined with -durable or -http")
				}
				p.Module = args[0]
				files, err := p.Write(ctx, ".")
				if err != nil {
					return err
				}
				var out strings.Builder
				for _, f := range files {
					fmt.Fprintf(&out, "wrote %s/%s\n", p.Name(), f)
				}
				fmt.Fprintf(&out, "\nTo try it:\n\n  cd %s\n  %s\n", p.Name(), p.Complete())
				for _, c := range p.Commands() {
					fmt.Fprintf(&out, "  %s\n", c)
				}
				_, err = fmt.Fprint(s.out, out.String())
				return err
			}
		},
	}
}

// local matches the versions of builds that only this machine may have.
var local = regexp.MustCompile(`^\(devel\)$|^$|[+]dirty$|\d{14}-[0-9a-f]{12}$`)

// required returns the version of this program that other modules can require, or "" if it was built
// from a work tree between releases. A version of a commit counts if the module proxy has it.
func required(info *debug.BuildInfo, ok bool) string {
	if !ok || info.Main.Sum == "" && local.MatchString(info.Main.Version) {
		return ""
	}
	return info.Main.Version
}
