// Package gen turns JSON schemas into a Go package: those of the Model Context Protocol, and those of
// others. docs/reference/generator.md says what each keyword of JSON Schema does.
//
// Its stages are the packages below internal/gen: load reads a schema, merge folds the revisions
// into one graph, plan decides the Go types, and emit prints them. Package tables compiles the
// tables that values are checked against.
//
// The output has Go types for params, results and everything in them. It has none for the JSON-RPC
// messages around them, which package codec/jsonrpc decodes and encodes.
package gen

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpwire/mcpwire/internal/gen/emit"
	"github.com/mcpwire/mcpwire/internal/gen/ir"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
	"github.com/mcpwire/mcpwire/internal/gen/plan"
	"github.com/mcpwire/mcpwire/internal/gen/tables"
)

// Schema is one schema to generate from.
type Schema struct {
	Revision string // its label, such as "2025-11-25"
	File     string // its name, for errors and the header of the output
	Src      []byte // JSON text
}

// Capabilities is a JSON array of rows that state the capabilities that messages need. The table of
// this module, internal/gen/protocol/capabilities.json, shows their forms.
type Capabilities struct {
	File string // its name, for errors
	Src  []byte // JSON text
}

// Overrides is an overrides file: decisions that the schemas leave open. It is a JSON array of
// rows. Every row is an object with a rule, the members that the rule needs, and a reason. A row
// that applies to nothing is an error. The zero value has no rows.
//
// These are the rules and their members:
//
//	rename     the definition def of older revisions is called as in newer ones
//	refer      the inline or open objects that match at have the shape of the definition as; where
//	           revisions contradict each other at that place, it applies to the inline object
//	add        the definition def has the optional member member in revision; its shape is the
//	           definition ref or the type type, and doc documents it
//	struct     the definition def, an open object, becomes a struct that keeps its members
//	tag        the member member of the definition def always has the string value value
//	widen      integers in the member member of the definition def may be of type "number"
//	name       the definition, inline shape or enum value at has the Go name as
//	field      the member at has the Go name as
//	direction  the method method is sent by from: "client", "server" or "both"
//	ignore     the keyword keyword has no effect, wherever it is
//
// A place, at, is written as "Definition/member/member", an enum value as
// "Definition/member=value". In a refer row both parts of "Definition/member" may have the
// wildcards of path.Match, and "**/member" matches the member at any depth.
type Overrides struct {
	File string // its name, for errors
	Src  []byte // JSON text
}

// Docs supplies documentation by revision. An empty text means that there is none.
type Docs interface {
	Definition(rev, name string) string
	// Field documents the member at path, such as "tasks.requests" or "items[].title". The text
	// follows the name of the Go field. It is a predicate, such as "Names the tool.", or it starts
	// with a colon.
	Field(rev, def, path string) string
	// Value documents one value of the enumeration at path.
	Value(rev, def, path, value string) string
}

// Options configures [Generate].
type Options struct {
	Package   string   // name of the Go package
	Doc       string   // package comment, to follow "Package NAME "; empty for a plain one
	Schemas   []Schema // from the oldest revision to the newest; at least one
	Overrides Overrides
	// Capabilities is the table of the capabilities that messages need. Without Src the output has
	// no functions for capabilities.
	Capabilities Capabilities
	// Messages is a JSON file that says how the schemas write their messages, for protocols other
	// than the Model Context Protocol. docs/reference/generator.md describes it.
	Messages File
	// Docs documents the output. If it is nil, the output has the descriptions of the schemas.
	Docs Docs
	// Link returns the address of the page that specifies a definition in a revision. It may be
	// nil.
	Link func(rev, def string) string
	// Base is a package generated before. Definitions that are equal in its schema of BaseRevision
	// are not generated again. BaseRevision defaults to its newest revision.
	Base         *Output
	BaseRevision string
	Path         string // import path of the output; needed if it is to be a Base

	// Open returns the text of another file that a $ref leads to. The name is a path relative to
	// the folder of the schema's file, or an address. If Open is nil, such a $ref is an error.
	Open func(name string) ([]byte, error)
	// Strict makes an error of everything that would be in Output.Notes, and of keywords that are
	// not those of JSON Schema. It is for schemas that the overrides must settle completely.
	Strict bool
}

// Header is the first line of every generated file.
const Header = emit.Generated

// File is a file: one of the output is Go source, gofmt-clean.
type File struct {
	Name string
	Src  []byte
}

// Output is a generated package.
type Output struct {
	Name  string // name of the Go package
	Files []File
	// Summary counts what the package declares, such as
	// "150 definitions, 190 structs, 20 unions, 12 enums, 40 methods".
	Summary string
	// Notes are the places where the output has less than the schema says, or another name than one
	// would expect. Each has a remedy.
	Notes []*Error
	// Ignored counts the keywords in the schemas that had no effect, by name.
	Ignored map[string]int

	path string
	docs []*load.Document
	plan *ir.Package
}

// Error is a fault in a schema or in the overrides, or a shape in a schema that the generator does
// not support.
type Error struct {
	File    string // name of the file
	Pointer string // RFC 6901 pointer of the place at fault
	Message string // the fault and its remedy
}

func (e *Error) Error() string { return (*load.Error)(e).Error() }

// Generate generates a package. The output depends only on c. An error about a schema or the
// overrides is an [*Error].
func Generate(c Options) (*Output, error) {
	out, err := generate(c)
	if fault := (*load.Error)(nil); errors.As(err, &fault) {
		err = (*Error)(fault)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func generate(c Options) (*Output, error) {
	overrides, err := merge.ParseOverrides(c.Overrides.File, c.Overrides.Src)
	if err != nil {
		return nil, err
	}
	out := &Output{Name: c.Package, path: c.Path, Ignored: map[string]int{}}
	var sources emit.Sources
	messages, err := plan.ParseMessages(c.Messages.Name, c.Messages.Src)
	if err != nil {
		return nil, err
	}
	ignore := overrides.Ignored(func(string) bool { return false })
	for _, s := range c.Schemas {
		doc, err := load.Read(s.Revision, s.File, s.Src, load.Options{Open: c.Open, Ignore: ignore, Marks: messages.Marks(), Strict: c.Strict})
		if err != nil {
			return nil, err
		}
		for keyword, n := range doc.Ignored {
			out.Ignored[keyword] += n
		}
		for _, n := range doc.Notes {
			if c.Strict {
				return nil, n
			}
			out.Notes = append(out.Notes, (*Error)(n))
		}
		out.docs = append(out.docs, doc)
		sources = append(sources, fmt.Sprintf("%s %s, sha256:%x", s.Revision, s.File, sha256.Sum256(s.Src)))
	}
	if len(out.docs) == 0 {
		return nil, fmt.Errorf("no schema to generate from")
	}
	overrides.Ignored(func(keyword string) bool { return out.Ignored[keyword] > 0 })
	graph, err := merge.Merge(out.docs, overrides)
	if err != nil {
		return nil, err
	}
	bc := plan.Config{Name: c.Package, Doc: c.Doc, Overrides: overrides, Messages: messages, Docs: c.Docs, Link: c.Link}
	if !c.Strict {
		bc.Note = func(e *load.Error) { out.Notes = append(out.Notes, (*Error)(e)) }
	}
	if c.Capabilities.Src != nil {
		if bc.Capabilities, err = plan.ParseCapabilities(c.Capabilities.File, c.Capabilities.Src); err != nil {
			return nil, err
		}
	}
	if bc.Docs == nil {
		bc.Docs = descriptions(out.docs)
	}
	if bc.Doc == "" {
		bc.Doc = "has a type for each definition of a schema."
	}
	if c.Base != nil {
		base := c.Base.docs[len(c.Base.docs)-1]
		if c.BaseRevision != "" {
			i := slices.IndexFunc(c.Base.docs, func(d *load.Document) bool { return d.Revision == c.BaseRevision })
			if i < 0 {
				return nil, fmt.Errorf("the base has no revision %q", c.BaseRevision)
			}
			base = c.Base.docs[i]
		}
		same := merge.Same(out.docs[len(out.docs)-1], base)
		bc.Base = &plan.Base{Path: c.Base.path, Package: c.Base.plan, Same: func(def string) bool { return same[def] }}
	}
	if out.plan, err = plan.Build(graph, bc); err != nil {
		return nil, err
	}
	if err := overrides.Unused(); err != nil {
		return nil, err
	}
	messages.AddParams(out.docs, out.plan.Methods)
	compiled, err := tables.Compile(out.docs)
	if err != nil {
		return nil, err
	}
	files, err := emit.Package(out.plan, sources, compiled.Source("table"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		out.Files = append(out.Files, File(f))
	}
	p := out.plan
	out.Summary = fmt.Sprintf("%d definitions, %d structs, %d unions, %d enums, %d methods",
		len(p.Defs), len(p.Structs), len(p.Unions), len(p.Enums), len(p.Methods))
	return out, nil
}
