package schema_test

import (
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/schema"
)

// The schemas that are part of the module.
func ExampleRead() {
	fmt.Println(schema.Revisions(), schema.Extensions())
	src, err := schema.Read("2025-11-25")
	fmt.Println(len(src) > 0, err)
	// Output:
	// [2024-11-05 2025-03-26 2025-06-18 2025-11-25 2026-07-28] [ext-tasks]
	// true <nil>
}

// The documentation of a member, and the members that are not documented yet.
func ExampleParseDocs() {
	docs, err := schema.ParseDocs([]byte("# Task\nSome work.\n\n- ttl: How long it is kept.\n- ttl (2024-11-05): In seconds.\n"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(docs.Definition("2025-11-25", "Task"))
	fmt.Println(docs.Field("2025-11-25", "Task", "ttl"))
	fmt.Println(docs.Field("2024-11-05", "Task", "ttl"))
	members, err := schema.Members([]byte(`{"$defs": {"Task": {"type": "object", "properties": {"ttl": {"type": "integer"}, "owner": {"type": "string"}}}}}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(docs.Undocumented("2025-11-25", members))
	// Output:
	// Some work.
	// How long it is kept.
	// In seconds.
	// [Task.owner]
}

// A schema without its prose, in the order that the project keeps them in.
func ExampleCanonical() {
	out, err := schema.Canonical([]byte(`{"$defs": {"Age": {"minimum": 0, "type": "integer", "description": "In years."}}}`))
	fmt.Print(string(out), err)
	// Output:
	// {
	//   "$defs": {
	//     "Age": {
	//       "minimum": 0,
	//       "type": "integer"
	//     }
	//   }
	// }
	// <nil>
}
