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
		short: "print what changed from one schema to another",
		help: `
Prints what changed from the older schema A to the newer schema B: methods, definitions,
fields, whether they are required, types, enum values, union variants and bounds. A and B
are revisions, such as 2025-11-25 or ext-tasks, or files. Each line begins with what becomes
of the generated Go package made from A once B is merged in:

  added     there is more to use, and code that compiled still does: definitions, methods,
            fields (A lacks them, so they may be absent), enum values
  widened   the Go type is the same, but new values turn up: union variants, looser bounds,
            a required list, map, raw value or union that becomes optional, so may be nil
  breaking  the Go type changes: another type, a struct that becomes a union, another name
            for an inline object, a required field of any other type that becomes optional
            or goes, so that a plain field becomes a pointer
  none      the API stays, though Validate may find more or less wrong: whatever is gone
            (merging keeps it), optional fields that become required, tighter bounds

Two schemas are all that is looked at. In a package of more revisions an effect can be
weaker (a field that a still older one lacks is a pointer already), and the overrides are
not applied. The exit code is 0 whether or not there are changes.

Example:

  mcpwire schema diff 2025-06-18 2025-11-25
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			dir := flags.String("dir", "", "the schema `folder` to take revisions from, instead of those built in")
			return func(_ context.Context, s streams, args []string) error {
				if len(args) != 2 {
					return usagef("it takes two revisions or files, got %d (flags come first)", len(args))
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

// loadSchema loads the schema that arg names: a file if it looks like one, else a revision
// of the folder dir, or of the embedded one if dir is "".
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
		_, err = schema.Read(arg) // its error lists the revisions there are
	}
	if err != nil {
		return nil, err
	}
	return load.Parse(arg, arg+"/schema.json", src)
}
