package gen_test

import (
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/gen"
	"github.com/mcpwire/mcpwire/schema"
)

// This example generates a package for one revision, with the documentation of this project.
func ExampleGenerate() {
	src, err := schema.Read("2025-11-25")
	if err != nil {
		log.Fatal(err)
	}
	docs, err := schema.ReadDocs()
	if err != nil {
		log.Fatal(err)
	}
	out, err := gen.Generate(gen.Options{
		Package: "mcp1125",
		Docs:    docs,
		Schemas: []gen.Schema{{Revision: "2025-11-25", File: "schema.json", Src: src}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range out.Files {
		fmt.Println(f.Name)
	}
	// Output:
	// types.go
	// enums.go
	// unions.go
	// decode.go
	// encode.go
	// marshal.go
	// protocol.go
	// methods.go
	// handlers.go
	// convert.go
	// validate.go
}
