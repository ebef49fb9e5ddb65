package merge_test

import (
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
)

// The newest shape wins, and members of older revisions stay. A fact that no schema states, such as
// a renamed definition, is a row of the overrides.
func ExampleMerge() {
	var docs []*load.Document
	for _, s := range [][2]string{
		{"2024", `{"$defs": {"Job": {"type": "object", "properties": {"owner": {"type": "string"}}}}}`},
		{"2025", `{"$defs": {"Task": {"type": "object", "properties": {"ttl": {"type": "integer"}}}}}`},
	} {
		doc, err := load.Parse(s[0], s[0]+".json", []byte(s[1]))
		if err != nil {
			log.Fatal(err)
		}
		docs = append(docs, doc)
	}
	overrides, err := merge.ParseOverrides("overrides.json", []byte(`[{"rule": "rename", "def": "Job", "as": "Task", "reason": "2025 renamed it"}]`))
	if err != nil {
		log.Fatal(err)
	}
	graph, err := merge.Merge(docs, overrides)
	if err != nil {
		log.Fatal(err)
	}
	task := graph.Defs["Task"].Node.(*merge.Object)
	fmt.Println(graph.Names(), graph.Revisions)
	for _, m := range task.Members {
		fmt.Println(m.Name)
	}
	// Output:
	// [Task] [2024 2025]
	// owner
	// ttl
}
