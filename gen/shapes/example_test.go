package shapes_test

import (
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/gen/load"
	"github.com/mcpwire/mcpwire/gen/shapes"
)

func ExampleCompile() {
	doc, err := load.Parse("2025", "2025.json", []byte(`{"$defs": {"Age": {"type": "integer", "minimum": 0}}}`))
	if err != nil {
		log.Fatal(err)
	}
	tables, err := shapes.Compile([]*load.Document{doc})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(tables.Source("table"))
	// Output:
	// // table is what each revision's schema says, as published. Nodes carry the place where
	// // they are met first.
	// var table = shape.Table{
	// 	Revisions: []string{"2025"},
	// 	Definitions: []shape.Definition{
	// 		{Name: "Age", Nodes: []int32{2}},
	// 	},
	// 	Nodes: []shape.Node{
	// 		/* 0 anything */ {},
	// 		/* 1 nothing */ {Types: shape.Never},
	// 		/* 2 Age 2025 */ {Types: shape.Integer, Bounds: []shape.Bound{{Keyword: shape.Minimum, Limit: "0"}}},
	// 	},
	// }
}
