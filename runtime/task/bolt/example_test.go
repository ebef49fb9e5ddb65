package bolt_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

// A task survives a restart. The second Manager runs its work again.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "tasks")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	start := func(work task.Work) (*task.Manager, func()) {
		store, err := bolt.Open(filepath.Join(dir, "tasks.db"))
		if err != nil {
			log.Fatal(err)
		}
		manager, err := task.New(ctx, task.Options{Store: store, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return work }}})
		if err != nil {
			log.Fatal(err)
		}
		return manager, func() { manager.Close(ctx); store.Close() }
	}

	first, stop := start(nil)
	created, err := first.Create(ctx, task.Request{Method: "tools/call", Restartable: true, Work: func(ctx context.Context, _ *task.Run) (codec.Encoder, error) {
		<-ctx.Done() // the Manager closes
		return nil, context.Cause(ctx)
	}})
	if err != nil {
		log.Fatal(err)
	}
	stop()

	second, stop := start(func(context.Context, *task.Run) (codec.Encoder, error) { return session.Raw(`{"content":[]}`), nil })
	defer stop()
	if _, err := second.Result(ctx, "", created.TaskID, nil); err != nil {
		log.Fatal(err)
	}
	now, err := second.Get(ctx, "", created.TaskID, nil)
	fmt.Println(now.Status, err)
	// Output:
	// completed <nil>
}
