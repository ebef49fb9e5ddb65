package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/schema"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/schemadiff"
)

func schemaDiff() command {
	return command{
		name:  "schema diff",
		args:  "[-dir DIR] A B",
		short: "list the changes from one schema to another",
		help: `
Lists the changes from the older schema A to the newer schema B: methods, definitions, fields,
whether they are required, types, enum values, union variants and bounds. A and B are revisions,
such as 2025-11-25 or ext-tasks, or files. The first word of each line is the effect on the Go
package generated from A when B is merged into it:

  added     new API, and existing code still compiles: definitions, methods, enum values,
            and fields, which are optional because A lacks them
  widened   the same Go type with new values: union variants, looser bounds, and a required
            list, map, raw value or union that becomes optional and so may be nil
  breaking  the Go type changes: another type, a struct that becomes a union, another name
            for an inline object, or a required field of another type that becomes optional
            or is removed, so that a plain field becomes a pointer
  none      the same API, but Validate may report more or fewer faults: removed items (merging
            keeps them), optional fields that become required, tighter bounds

Only the two schemas are compared. In a package of more revisions an effect can be weaker: a field
that an older revision lacks is a pointer already. Overrides are not applied. The exit code is 0
whether or not there are changes.

Example:

  mcpwire schema diff 2025-06-18 2025-11-25
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			dir := flags.String("dir", "", "read revisions from the schema folder `DIR` instead of the built-in ones")
			return func(_ context.Context, s streams, args []string) error {
				if len(args) != 2 {
					return usagef("want two revisions or files, got %d arguments", len(args))
				}
				var docs [2]*load.Document
				for i, arg := range args {
					var err error
					if docs[i], err = loadSchema(*dir, arg); err != nil {
						return err
					}
				}
				d, err := schemadiff.Compare(docs[0], docs[1])
				if err != nil {
					return err
				}
				return d.Print(s.out)
			}
		},
	}
}

// loadSchema loads the schema named by arg: a file if arg is a path or ends in .json, otherwise a
// revision in the folder dir, or in the embedded folder if dir is "".
func loadSchema(dir, arg string) (*load.Document, error) {
	if strings.ContainsAny(arg, `/\`) || strings.HasSuffix(arg, ".json") {
		src, err := os.ReadFile(arg)
		if err != nil {
			return nil, err
		}
		return load.Parse(arg, arg, src)
	}
	folder := schema.Embedded()
	if dir != "" {
		folder = os.DirFS(dir)
	}
	src, err := fs.ReadFile(folder, arg+"/schema.json")
	if errors.Is(err, fs.ErrNotExist) && dir == "" {
		_, err = schema.Read(arg) // the error lists all revisions
	}
	if err != nil {
		return nil, err
	}
	return load.Parse(arg, arg+"/schema.json", src)
}
