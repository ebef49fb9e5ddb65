package protocol_test

import (
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/internal/gen/protocol"
)

// The packages of this module, in memory.
func ExampleGenerate() {
	packages, err := protocol.Generate()
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range packages {
		fmt.Println(p.Dir, p.Name)
	}
	// Output:
	// mcp mcp
	// mcp/ext/skills skills
	// mcp/ext/tasks tasks
}
