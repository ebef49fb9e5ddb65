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

// A store is what a task.Manager writes to, and what others may read and wait for.
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
	_, err = store.Update(ctx, r) // by somebody who has not seen that
	fmt.Println(err)
	r, err = store.Wait(ctx, "1", seen)
	fmt.Println(r.Status, err)
	// Output:
	// task: record was changed by another writer
	// completed <nil>
}
