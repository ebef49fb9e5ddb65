package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/gen"
	"github.com/mcpwire/mcpwire/gen/emit"
	"github.com/mcpwire/mcpwire/gen/merge"
	"github.com/mcpwire/mcpwire/schema"
)

func generate() command {
	return command{
		name:  "gen",
		args:  "-pkg NAME -out DIR [-keep-docs] [-overrides FILE] REV=SCHEMA.json...",
		short: "generate a Go package from one schema or several revisions",
		help: `
Writes a Go package with a type for every definition of the schemas, given from the oldest
revision to the newest, each with a label such as 2025-11-25. One schema gives the types of
that revision; several are merged: the newest shape wins, and what older revisions had stays.
The package compiles in a module that requires github.com/mcpwire/mcpwire alone. Files in the
folder that an earlier run generated are replaced or removed; all others stay.

Comments come from this module's own documentation of the protocol; with -keep-docs they are
the descriptions in the schemas, which are somebody else's text under a licence of its own.

What the schemas leave open, or what several revisions contradict each other in, is an error
that says where. The overrides file settles it: a JSON array of rows, each with a rule and a
reason; see the documentation of gen/merge.Override and, for an example, the file
gen/protocol/overrides.json of this module.

Example:

  mcpwire gen -pkg mcp1125 -out ./mcp1125 2025-11-25=schema/2025-11-25/schema.json
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			pkg := flags.String("pkg", "", "`name` of the package; required")
			out := flags.String("out", "", "`folder` to write to, made if need be; required")
			keep := flags.Bool("keep-docs", false, "take the comments from the schemas' descriptions")
			overrides := flags.String("overrides", "", "`file` that settles what the schemas leave open")
			return func(_ context.Context, s streams, args []string) error {
				switch {
				case !token.IsIdentifier(*pkg) || *pkg == "_":
					return usagef("-pkg %q is no package name", *pkg)
				case *out == "":
					return usagef("-out is missing")
				case len(args) == 0:
					return usagef("no schema is given (flags come first)")
				}
				c := gen.Config{Package: *pkg}
				for _, arg := range args {
					rev, file, ok := strings.Cut(arg, "=")
					if !ok || rev == "" || file == "" {
						return usagef("%q is not of the form REV=SCHEMA.json", arg)
					}
					src, err := os.ReadFile(file)
					if err != nil {
						return err
					}
					c.Schemas = append(c.Schemas, gen.Schema{Revision: rev, File: filepath.ToSlash(file), Src: src})
				}
				if *overrides != "" {
					src, err := os.ReadFile(*overrides)
					if err != nil {
						return err
					}
					if c.Overrides, err = merge.ParseOverrides(*overrides, src); err != nil {
						return err
					}
				}
				if !*keep {
					docs, err := schema.ReadDocs()
					if err != nil {
						return err
					}
					c.Docs = docs
				}
				result, err := gen.Generate(c)
				if err != nil {
					return err
				}
				if err := os.MkdirAll(*out, 0o755); err != nil {
					return err
				}
				for _, f := range result.Files {
					if err := os.WriteFile(filepath.Join(*out, f.Name), f.Src, 0o644); err != nil {
						return err
					}
				}
				if err := removeStale(*out, result.Files); err != nil {
					return err
				}
				p := result.Package
				_, err = fmt.Fprintf(s.out, "package %s: %d definitions, %d structs, %d unions, %d enums, %d methods, in %s\n",
					p.Name, len(p.Defs), len(p.Structs), len(p.Unions), len(p.Enums), len(p.Methods), *out)
				return err
			}
		},
	}
}

// removeStale deletes the files in dir that an earlier run generated and files does not have. They
// would refer to types that are gone.
func removeStale(dir string, files []emit.File) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		current := slices.ContainsFunc(files, func(f emit.File) bool { return f.Name == e.Name() })
		if current || !e.Type().IsRegular() || filepath.Ext(e.Name()) != ".go" {
			continue
		}
		name := filepath.Join(dir, e.Name())
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(src, []byte(emit.Generated)) {
			continue
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
