// Package gen turns JSON schemas of the protocol into a Go package.
//
// The stages stand in packages of their own, values in and values out: load reads a
// schema, merge folds revisions into one graph, build decides the Go types, emit prints
// them; shapes makes the tables that values are checked against.
package gen

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/gen/build"
	"github.com/mcpwire/mcpwire/gen/emit"
	"github.com/mcpwire/mcpwire/gen/ir"
	"github.com/mcpwire/mcpwire/gen/load"
	"github.com/mcpwire/mcpwire/gen/merge"
	"github.com/mcpwire/mcpwire/gen/shapes"
)

// Schema is one schema to generate from.
type Schema struct {
	Revision string // its label, such as "2025-11-25"
	File     string // its name, for errors and the header of the output
	Src      []byte // JSON text
}

// Config says what to generate.
type Config struct {
	Package   string   // name of the Go package
	Doc       string   // package comment, to follow "Package NAME "; empty for a plain one
	Schemas   []Schema // from the oldest revision to the newest; at least one
	Overrides *merge.Overrides
	// Docs documents the output. If it is nil, the output has the descriptions in the
	// schemas.
	Docs build.Docs
	Link build.LinkFunc // where a definition is specified, or nil
	// Base is a package generated before: definitions that say the same in its schema of
	// BaseRevision are not generated again. An empty BaseRevision is its newest.
	Base         *Output
	BaseRevision string
	Path         string // import path of the output; needed if it is to be a Base
}

// Output is a generated package.
type Output struct {
	Files   []emit.File
	Package *ir.Package

	path string
	docs []*load.Document
}

// Generate makes a package. It is a function of its argument alone. An error in or about a
// schema is a [*load.Error].
func Generate(c Config) (*Output, error) {
	out := &Output{path: c.Path}
	var sources emit.Sources
	for _, s := range c.Schemas {
		doc, err := load.Parse(s.Revision, s.File, s.Src)
		if err != nil {
			return nil, err
		}
		out.docs = append(out.docs, doc)
		sources = append(sources, fmt.Sprintf("%s %s, sha256 %x", s.Revision, s.File, sha256.Sum256(s.Src)))
	}
	if len(out.docs) == 0 {
		return nil, fmt.Errorf("no schema to generate from")
	}
	graph, err := merge.Merge(out.docs, c.Overrides)
	if err != nil {
		return nil, err
	}
	bc := build.Config{Name: c.Package, Doc: c.Doc, Overrides: c.Overrides, Docs: c.Docs, Link: c.Link}
	if bc.Docs == nil {
		bc.Docs = descriptions(out.docs)
	}
	if bc.Doc == "" {
		bc.Doc = "holds the messages of the Model Context Protocol."
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
		bc.Base = &build.Base{Path: c.Base.path, Package: c.Base.Package, Same: func(def string) bool { return same[def] }}
	}
	if out.Package, err = build.Build(graph, bc); err != nil {
		return nil, err
	}
	if err := c.Overrides.Unused(); err != nil {
		return nil, err
	}
	addParams(out.docs)
	tables, err := shapes.Compile(out.docs)
	if err != nil {
		return nil, err
	}
	out.Files, err = emit.Package(out.Package, sources, tables.Source("table"))
	return out, err
}

// addParams adds to each document a definition "NAME/params" for the params of every
// request and notification, so that they can be checked alone in revisions that state them
// inside the message.
func addParams(docs []*load.Document) {
	for _, doc := range docs {
		for _, name := range doc.Names() {
			if !strings.HasSuffix(name, "Request") && !strings.HasSuffix(name, "Notification") {
				continue
			}
			s := doc.Defs[name]
			switch all := paramsOf(s); len(all) {
			case 0:
			case 1:
				doc.Defs[name+"/params"] = all[0]
			default:
				doc.Defs[name+"/params"] = &load.Schema{Doc: doc, Pointer: s.Pointer, AllOf: all}
			}
		}
	}
}

// paramsOf lists what s says of its member params, itself and through allOf.
func paramsOf(s *load.Schema) []*load.Schema {
	var all []*load.Schema
	if s.Ref != "" {
		all = append(all, paramsOf(s.Doc.Defs[s.Ref])...)
	}
	if p := s.Property("params"); p != nil {
		all = append(all, p)
	}
	for _, sub := range s.AllOf {
		all = append(all, paramsOf(sub)...)
	}
	return all
}
