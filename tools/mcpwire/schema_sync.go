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
		short: "import a published schema into the schema folder",
		help: `
Reads a published schema from a file or over HTTP, removes its prose, sorts its keys and writes it to
DIR/REV/schema.json. Prints a summary, and then each definition and field without a text in
DIR/docs.md, one per line.

An unknown keyword, a duplicate name or invalid JSON is reported with its position, and nothing is
written. REV is a protocol revision, such as 2026-07-28, or an extension, whose name starts with
"ext-".

Example, in the root of the repository:

  mcpwire schema sync -rev 2026-07-28 ~/specification/schema/2026-07-28/schema.json
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			rev := flags.String("rev", "", "import the schema as revision `REV`; required")
			dir := flags.String("dir", "schema", "use the schema folder `DIR`, with docs.md and a folder for each revision")
			return func(ctx context.Context, s streams, args []string) error {
				switch {
				case *rev == "":
					return usagef("missing -rev")
				case len(args) != 1:
					return usagef("want one file or URL, got %d arguments", len(args))
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
