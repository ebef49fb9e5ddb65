package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/schema"
)

// schemas describes the Go types that go-jsonschema generates.
func (r *Report) schemas(b *strings.Builder) error {
	b.WriteString("\n## The types that go-jsonschema generates\n\n| Schema |")
	for _, f := range flavours {
		fmt.Fprintf(b, " %s |", f.Name)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(flavours)) + "\n")
	for _, g := range r.Schemas {
		fmt.Fprintf(b, "| %s |", g.Rev)
		for _, x := range g.Generations {
			fmt.Fprintf(b, " %s |", generationCell(x))
		}
		b.WriteString("\n")
	}
	for _, g := range r.Schemas {
		if g.Rev == november {
			return r.concretely(b, g)
		}
	}
	return fmt.Errorf("no schema of %s", november)
}

func generationCell(g Generation) string {
	switch {
	case g.Failed != "":
		return "**fails**: " + code(g.Failed)
	case len(g.Errors) > 0:
		var messages []string
		for _, e := range g.Errors {
			_, e, _ = strings.Cut(e, ": ") // the position
			messages = append(messages, code(e))
		}
		return "**does not compile**: " + strings.Join(messages, ", ")
	}
	return "compiles"
}

// concretely says what becomes of some definitions.
func (r *Report) concretely(b *strings.Builder, g *Generated) error {
	src, err := schema.Read(g.Rev)
	if err != nil {
		return err
	}
	var doc struct {
		Defs map[string]map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(src, &doc); err != nil {
		return err
	}
	source := g.Generations[0].Source
	goType := func(name string) string {
		spec, err := declaration(source, name)
		if err != nil || spec == nil {
			return ""
		}
		return printed(spec.Type)
	}
	composed, free := 0, []string{}
	for _, name := range slices.Sorted(maps.Keys(doc.Defs)) {
		if def := doc.Defs[name]; def["anyOf"] == nil && def["oneOf"] == nil && def["allOf"] == nil {
			continue
		}
		composed++
		if goType(name) == "interface{}" {
			free = append(free, "`"+name+"`")
		}
	}
	fmt.Fprintf(b, "\nConcretely, for %s:\n\n", g.Rev)
	fmt.Fprintf(b, "- `RequestId` and `ProgressToken`, each a string or an integer, become `%s` and `%s`. The id `%s` gives: %s.\n",
		goType("RequestId"), goType("ProgressToken"), stringID.Doc, code(r.probes[stringID].Refused))
	fmt.Fprintf(b, "- Of %d definitions that are an anyOf, oneOf or allOf, %d become `interface{}`: %s.\n", composed, len(free), strings.Join(free, ", "))
	fmt.Fprintf(b, "- `GetTaskResult`, an allOf of `Result` and `Task`, is `%s`.\n", goType("GetTaskResult"))
	fmt.Fprintf(b, "- The content of a tool result is `%s`, and `ContentBlock`, an anyOf of five kinds of content, is `%s`.\n",
		fieldType(source, "CallToolResult", "Content"), goType("ContentBlock"))
	fmt.Fprintf(b, "- The content of a sampling message, one block or a list of blocks, is a %s with these fields: %s.\n",
		goType("SamplingMessageContent"), strings.Join(fieldNames(source, "SamplingMessageContent"), ", "))
	return nil
}

func printed(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return "*" + printed(e.X)
	case *ast.ArrayType:
		return "[]" + printed(e.Elt)
	case *ast.MapType:
		return "map[" + printed(e.Key) + "]" + printed(e.Value)
	case *ast.InterfaceType:
		return "interface{}"
	case *ast.StructType:
		return "struct"
	}
	return fmt.Sprintf("%T", e)
}

func fields(source []byte, name string) []*ast.Field {
	spec, err := declaration(source, name)
	if err != nil || spec == nil {
		return nil
	}
	if s, ok := spec.Type.(*ast.StructType); ok {
		return s.Fields.List
	}
	return nil
}

func fieldType(source []byte, name, field string) string {
	for _, f := range fields(source, name) {
		if len(f.Names) == 1 && f.Names[0].Name == field {
			return printed(f.Type)
		}
	}
	return ""
}

func fieldNames(source []byte, name string) (names []string) {
	for _, f := range fields(source, name) {
		for _, n := range f.Names {
			names = append(names, "`"+n.Name+"`")
		}
	}
	return names
}
