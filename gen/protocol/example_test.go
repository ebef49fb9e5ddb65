package protocol_test

import (
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/gen/protocol"
)

// The packages of this module, in memory.
func ExampleGenerate() {
	packages, err := protocol.Generate()
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range packages {
		fmt.Println(p.Dir, p.Package.Name)
	}
	// Output:
	// mcp mcp
	// mcp/ext/tasks tasks
}
