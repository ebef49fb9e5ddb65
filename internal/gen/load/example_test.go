package load_test

import (
	"fmt"

	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// In a strict run, an unknown keyword is an error.
func ExampleParse() {
	doc, err := load.Parse("2025", "2025.json", []byte(`{"$defs": {"Name": {"type": "string"}, "Age": {"type": "integer", "minimum": 0}}}`))
	fmt.Println(doc.Names(), err)
	_, err = load.Read("2030", "2030.json", []byte(`{"$defs": {"Name": {"type": "string", "length": 5}}}`), load.Options{Strict: true})
	fmt.Println(err)
	// Output:
	// [Age Name] <nil>
	// 2030.json#/$defs/Name/length: the keyword "length" is not one of JSON Schema; if it has no meaning here, add an ignore row for it to the overrides
}
