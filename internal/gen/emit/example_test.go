package emit_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/emit"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
	"github.com/mcpwire/mcpwire/internal/gen/plan"
	"github.com/mcpwire/mcpwire/internal/gen/tables"
)

// The stages of the generator one by one: a definition of two revisions becomes one type.
func ExamplePackage() {
	var docs []*load.Document
	for _, s := range [][2]string{
		{"2024", `{"$defs": {"Place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}`},
		{"2025", `{"$defs": {"Place": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "string"}}, "required": ["city"]}}}`},
	} {
		doc, err := load.Parse(s[0], s[0]+".json", []byte(s[1]))
		if err != nil {
			log.Fatal(err)
		}
		docs = append(docs, doc)
	}
	graph, err := merge.Merge(docs, nil)
	if err != nil {
		log.Fatal(err)
	}
	pkg, err := plan.Build(graph, plan.Config{Name: "places"})
	if err != nil {
		log.Fatal(err)
	}
	tables, err := tables.Compile(docs)
	if err != nil {
		log.Fatal(err)
	}
	files, err := emit.Package(pkg, emit.Sources{"2024.json", "2025.json"}, tables.Source("table"))
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range files {
		if f.Name == "types.go" {
			_, types, _ := strings.Cut(string(f.Src), "// Place")
			fmt.Print("// Place" + types)
		}
	}
	// Output:
	// // Place is the definition Place.
	// type Place struct {
	// 	City string
	// 	// (In 2025 only.)
	// 	Zip *string
	//
	// 	// Extra keeps the members that have no field here.
	// 	Extra wire.Extra
	// }
}
