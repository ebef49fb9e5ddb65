package tables_test

import (
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/tables"
)

func ExampleCompile() {
	doc, err := load.Parse("2025", "2025.json", []byte(`{"$defs": {"Age": {"type": "integer", "minimum": 0}}}`))
	if err != nil {
		log.Fatal(err)
	}
	tables, err := tables.Compile([]*load.Document{doc})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(tables.Source("table"))
	// Output:
	// // table has the rules of each revision's published schema. Nodes carry the place where
	// // they are met first.
	// var table = jsonschema.Table{
	// 	Revisions: []string{"2025"},
	// 	Definitions: []jsonschema.Definition{
	// 		{Name: "Age", Nodes: []int32{2}},
	// 	},
	// 	Nodes: []jsonschema.Node{
	// 		/* 0 anything */ {},
	// 		/* 1 nothing */ {Types: jsonschema.Never},
	// 		/* 2 Age 2025 */ {Types: jsonschema.Integer, Bounds: []jsonschema.Bound{{Keyword: jsonschema.Minimum, Limit: "0"}}},
	// 	},
	// }
}
