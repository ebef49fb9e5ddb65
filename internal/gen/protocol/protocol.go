// Package protocol configures the generator for the packages of this module: mcp from all published
// revisions, and a package in mcp/ext from each extension.
package protocol

import (
	_ "embed"
	"strings"

	"github.com/mcpwire/mcpwire/gen"
	"github.com/mcpwire/mcpwire/schema"
)

//go:embed overrides.json
var overrides []byte

//go:embed capabilities.json
var capabilities []byte

// Package is a generated package and its directory.
type Package struct {
	Dir string // slash-separated, below the root of the module
	*gen.Output
}

const module = "github.com/mcpwire/mcpwire/"

// extensions are the extensions of the protocol with a schema. That of Skills is written by hand
// from the text of the extension, which has none.
var extensions = []struct {
	schema string // folder in schema/
	name   string // of the package in mcp/ext, and of the page
	title  string
}{
	{"ext-skills", "skills", "Skills"},
	{"ext-tasks", "tasks", "Tasks"},
}

// Generate makes the packages from the embedded schemas, in memory.
func Generate() ([]Package, error) {
	docs, err := schema.ReadDocs()
	if err != nil {
		return nil, err
	}
	core := gen.Options{
		Package: "mcp",
		Path:    module + "mcp",
		Doc: "defines Go types for the params and results of all messages of the Model Context Protocol, in one package " +
			"for all published revisions. [DecodeRequest] and [DecodeResponse] decode a message and its params or result.\n\n" +
			"A member that every revision requires is a plain field. Any other member is a pointer, or a slice, map, raw value " +
			"or union; nil means absent. Unions are interfaces whose variants are pointers, for use in a type switch. A value " +
			"that matches no variant is decoded as [*Unknown]. Each struct keeps members without a field in its field Extra, " +
			"so that decoding and encoding again loses no data. Decoding accepts a value that violates the schema if it can " +
			"keep it; Validate reports what a revision does not allow.",
		Overrides:    gen.Overrides{File: "internal/gen/protocol/overrides.json", Src: overrides},
		Capabilities: gen.Capabilities{File: "internal/gen/protocol/capabilities.json", Src: capabilities},
		Docs:         docs,
		Link:         link,
		Strict:       true,
	}
	for _, rev := range schema.Revisions() {
		if core.Schemas, err = add(core.Schemas, rev); err != nil {
			return nil, err
		}
	}
	mcp, err := gen.Generate(core)
	if err != nil {
		return nil, err
	}
	packages := []Package{{"mcp", mcp}}
	for _, e := range extensions {
		ext := gen.Options{
			Package: e.name,
			Path:    module + "mcp/ext/" + e.name,
			Doc: "defines Go types for the messages of the " + e.title + " extension (io.modelcontextprotocol/" + e.name +
				"). Definitions that the extension shares with the protocol have their types in package mcp.",
			Docs:   docs,
			Link:   link,
			Strict: true,
			Base:   mcp,
			// The revision that the extension's schema was written for.
			BaseRevision: "2026-07-28",
		}
		if ext.Schemas, err = add(nil, e.schema); err != nil {
			return nil, err
		}
		out, err := gen.Generate(ext)
		if err != nil {
			return nil, err
		}
		packages = append(packages, Package{"mcp/ext/" + e.name, out})
	}
	return packages, nil
}

func add(schemas []gen.Schema, rev string) ([]gen.Schema, error) {
	src, err := schema.Read(rev)
	return append(schemas, gen.Schema{Revision: rev, File: "schema/" + rev + "/schema.json", Src: src}), err
}

// link returns the address of the page that specifies a definition. Revisions before 2025-06-18
// have no schema reference with anchors, so their definitions link to the whole revision.
func link(rev, def string) string {
	for _, e := range extensions {
		if rev == e.schema {
			return "https://modelcontextprotocol.io/extensions/" + e.name + "/overview"
		}
	}
	switch rev {
	case "2024-11-05", "2025-03-26":
		return "https://modelcontextprotocol.io/specification/" + rev
	}
	return "https://modelcontextprotocol.io/specification/" + rev + "/schema#" + strings.ToLower(def)
}
