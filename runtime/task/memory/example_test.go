package memory_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// A task.Manager writes to the store. Any goroutine may read its records and wait for changes.
func ExampleNew() {
	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	r, err := store.Create(ctx, task.Record{ID: "1", Owner: "ann", Status: mcp.TaskStatusWorking, Created: time.Now()})
	if err != nil {
		log.Fatal(err)
	}
	seen := r.Revision
	r.Status = mcp.TaskStatusCompleted
	if _, err := store.Update(ctx, r); err != nil {
		log.Fatal(err)
	}
	_, err = store.Update(ctx, r) // r still has the revision of the creation
	fmt.Println(err)
	r, err = store.Wait(ctx, "1", seen)
	fmt.Println(r.Status, err)
	// Output:
	// task: record was changed by another writer
	// completed <nil>
}
