package jsonschema_test

import (
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/mcp"
)

// The generated packages contain the tables, and their functions Validate use them.
func ExampleFaults() {
	err := mcp.Validate(mcp.Revision20251125, "TextContent", []byte(`{"type":"text","text":7,"annotations":{"priority":1.5}}`))
	var faults jsonschema.Faults
	if !errors.As(err, &faults) {
		return
	}
	for _, f := range faults {
		broken, ok := errors.AsType[*jsonschema.Error](f)
		fmt.Println(f.Pointer, f.Err)
		if ok {
			fmt.Println("  breaks", broken.Keyword)
		}
	}
	// Output:
	// /text want string, got number
	// /annotations/priority 1.5 is more than 1
	//   breaks maximum
}
