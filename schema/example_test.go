package schema_test

import (
	"fmt"

	"github.com/mcpwire/mcpwire/schema"
)

// The schemas that are part of the module.
func ExampleRead() {
	fmt.Println(schema.Revisions(), schema.Extensions())
	src, err := schema.Read("2025-11-25")
	fmt.Println(len(src) > 0, err)
	// Output:
	// [2024-11-05 2025-03-26 2025-06-18 2025-11-25 2026-07-28] [ext-skills ext-tasks]
	// true <nil>
}
