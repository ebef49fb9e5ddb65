package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/gen"
	"github.com/mcpwire/mcpwire/schema"
)

func generate() command {
	return command{
		name:  "gen",
		args:  "-pkg NAME -out DIR [-keep-docs] [-strict] [-overrides FILE] [-messages FILE] REV=SCHEMA.json...",
		short: "generate a Go package from one or several revisions of a schema",
		help: `
Writes a Go package with a type for every definition of the schemas. List the schemas from the
oldest revision to the newest, each with a label such as 2025-11-25. Several schemas are merged:
types have the form of the newest revision, and keep the members of older ones. A module that uses
the package needs no other module than github.com/mcpwire/mcpwire. Files in the
folder that an earlier run generated are replaced or removed; all others stay.

Comments come from this module's own documentation of the protocol. With -keep-docs they are the
descriptions in the schemas; those have their own authors and licence.

The schemas may be those of other protocols, too; docs/reference/generator.md says what each keyword
does. Where the output has less than a schema says, gen prints a note, or with -strict fails. If
revisions contradict each other, it fails with an error that names the place. Settle such cases in
an overrides file: a JSON array of rows, each with a rule and a reason. "go doc github.com/mcpwire/mcpwire/gen.Overrides" lists the rules; internal/gen/protocol/overrides.json
of this module is an example.

Example:

  mcpwire gen -pkg mcp1125 -out ./mcp1125 2025-11-25=schema/2025-11-25/schema.json
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			pkg := flags.String("pkg", "", "name the package `NAME`; required")
			out := flags.String("out", "", "write to the folder `DIR`, created if needed; required")
			keep := flags.Bool("keep-docs", false, "use the descriptions in the schemas as comments")
			overrides := flags.String("overrides", "", "settle ambiguities and contradictions as in `FILE`")
			messages := flags.String("messages", "", "read the messages of another protocol as in `FILE`")
			strict := flags.Bool("strict", false, "fail where the output would have less than the schema says")
			return func(_ context.Context, s streams, args []string) error {
				switch {
				case !token.IsIdentifier(*pkg) || *pkg == "_":
					return usagef("-pkg %q is not a package name", *pkg)
				case *out == "":
					return usagef("missing -out")
				case len(args) == 0:
					return usagef("missing REV=SCHEMA.json")
				}
				c := gen.Options{Package: *pkg, Strict: *strict}
				for _, arg := range args {
					rev, file, ok := strings.Cut(arg, "=")
					if !ok || rev == "" || file == "" {
						return usagef("argument %q is not of the form REV=SCHEMA.json", arg)
					}
					src, err := os.ReadFile(file)
					if err != nil {
						return err
					}
					c.Open = opener(file)
					c.Schemas = append(c.Schemas, gen.Schema{Revision: rev, File: filepath.ToSlash(file), Src: src})
				}
				if *overrides != "" {
					src, err := os.ReadFile(*overrides)
					if err != nil {
						return err
					}
					c.Overrides = gen.Overrides{File: *overrides, Src: src}
				}
				if *messages != "" {
					src, err := os.ReadFile(*messages)
					if err != nil {
						return err
					}
					c.Messages = gen.File{Name: *messages, Src: src}
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
				for _, n := range result.Notes {
					_, _ = fmt.Fprintf(s.err, "note: %v\n", n)
				}
				if line := ignored(result.Ignored); line != "" {
					_, _ = fmt.Fprintf(s.err, "ignored: %s\n", line)
				}
				_, err = fmt.Fprintf(s.out, "package %s: %s, in %s\n", result.Name, result.Summary, *out)
				return err
			}
		},
	}
}

// ignored lists keywords with the number of their places.
func ignored(keywords map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(keywords)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", k, keywords[k]))
	}
	return strings.Join(parts, ", ")
}

// opener returns a function that opens the files that a schema refers to. They are beside it; of an
// address, the last part is the name.
func opener(schema string) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if strings.Contains(name, "://") {
			name = path.Base(name)
		}
		return os.ReadFile(filepath.Join(filepath.Dir(schema), filepath.FromSlash(name)))
	}
}

// removeStale deletes the files in dir that an earlier run generated and files does not have. They
// would refer to types that no longer exist.
func removeStale(dir string, files []gen.File) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		current := slices.ContainsFunc(files, func(f gen.File) bool { return f.Name == e.Name() })
		if current || !e.Type().IsRegular() || filepath.Ext(e.Name()) != ".go" {
			continue
		}
		name := filepath.Join(dir, e.Name())
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(src, []byte(gen.Header)) {
			continue
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
