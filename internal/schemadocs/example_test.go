package schemadocs_test

import (
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/internal/schemadocs"
)

// The documentation of a member, and the members that are not documented yet.
func ExampleParseDocs() {
	docs, err := schemadocs.ParseDocs([]byte("# Task\nSome work.\n\n- ttl: How long it is kept.\n- ttl (2024-11-05): In seconds.\n"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(docs.Definition("2025-11-25", "Task"))
	fmt.Println(docs.Field("2025-11-25", "Task", "ttl"))
	fmt.Println(docs.Field("2024-11-05", "Task", "ttl"))
	members, err := schemadocs.Members([]byte(`{"$defs": {"Task": {"type": "object", "properties": {"ttl": {"type": "integer"}, "owner": {"type": "string"}}}}}`))
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
	out, err := schemadocs.Canonical([]byte(`{"$defs": {"Age": {"minimum": 0, "type": "integer", "description": "In years."}}}`))
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
