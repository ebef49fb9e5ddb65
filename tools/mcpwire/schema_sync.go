package main

import (
	"context"
	"flag"

	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/schemasync"
)

func schemaSync() command {
	return command{
		name:  "schema sync",
		args:  "-rev REV [-dir DIR] FILE|URL",
		short: "bring a published schema into the schema folder",
		help: `
Reads a published schema from a file or over HTTP, leaves out its prose, sorts its keys and
writes DIR/REV/schema.json. Prints what was taken, and then each definition and field for
which DIR/docs.md has no text yet, one per line.

A keyword that is not known, a name given twice or text that is not JSON is an error that
says where, and nothing is written. REV is a protocol revision, such as 2026-07-28, or an
extension, whose name starts with "ext-".

Example, in the root of the repository:

  mcpwire schema sync -rev 2026-07-28 ~/specification/schema/2026-07-28/schema.json
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			rev := flags.String("rev", "", "the `revision` that the schema is of; required")
			dir := flags.String("dir", "schema", "the schema `folder`, with docs.md and a folder for each revision")
			return func(ctx context.Context, s streams, args []string) error {
				switch {
				case *rev == "":
					return usagef("-rev is missing")
				case len(args) != 1:
					return usagef("it takes one file or address, got %d (flags come first)", len(args))
				}
				if err := schemasync.CheckRevision(*rev); err != nil {
					return usagef("%v", err)
				}
				report, err := schemasync.Sync(ctx, *dir, *rev, args[0])
				if err != nil {
					return err
				}
				return report.Print(s.out)
			}
		},
	}
}
