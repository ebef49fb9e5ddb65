package load_test

import (
	"fmt"

	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// An unknown keyword is an error.
func ExampleParse() {
	doc, err := load.Parse("2025", "2025.json", []byte(`{"$defs": {"Name": {"type": "string"}, "Age": {"type": "integer", "minimum": 0}}}`))
	fmt.Println(doc.Names(), err)
	_, err = load.Parse("2030", "2030.json", []byte(`{"$defs": {"Name": {"type": "string", "length": 5}}}`))
	fmt.Println(err)
	// Output:
	// [Age Name] <nil>
	// 2030.json#/$defs/Name/length: keyword "length" is not supported; add it to internal/gen/load and codec/wire/jsonschema
}
