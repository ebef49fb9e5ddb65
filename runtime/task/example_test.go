package task_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// A Manager without sessions, as another SDK would embed it.
func Example() {
	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	manager, err := task.New(ctx, task.Options{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer manager.Close(ctx)

	created, err := manager.Create(ctx, task.Request{
		Principal: "alice",
		Method:    "tools/call",
		Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: "done"}}}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("created:", created.Status)

	outcome, err := manager.Result(ctx, "alice", created.TaskID, nil)
	if err != nil {
		log.Fatal(err)
	}
	var result mcp.CallToolResult
	if err := codec.Unmarshal(outcome.Result, &result); err != nil {
		log.Fatal(err)
	}
	fmt.Println("result:", result.Content[0].(*mcp.TextContent).Text)

	_, err = manager.Get(ctx, "bob", created.TaskID, nil)
	fmt.Println("bob: not found:", errors.Is(err, task.ErrNotFound))
	// Output:
	// created: working
	// result: done
	// bob: not found: true
}

// The work sets the status message. The requestor reads it and cancels the task.
func ExampleRun() {
	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	manager, err := task.New(ctx, task.Options{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer manager.Close(ctx)
	messageSet := make(chan struct{})
	created, err := manager.Create(ctx, task.Request{Method: "tools/call", Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		if err := run.SetStatusMessage(ctx, "in the oven"); err != nil {
			return nil, err
		}
		close(messageSet)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}})
	if err != nil {
		log.Fatal(err)
	}
	<-messageSet
	now, err := manager.Get(ctx, "", created.TaskID, nil)
	fmt.Println(now.Status, *now.StatusMessage, err)
	now, err = manager.Cancel(ctx, "", created.TaskID, nil)
	fmt.Println(now.Status, err)
	// Output:
	// working in the oven <nil>
	// cancelled <nil>
}

// printers is an external system that runs jobs.
type printers struct{ polls int }

func (*printers) Start(_ context.Context, r task.Record) (job string, err error) {
	return "job-1", nil // r.ID identifies a job that was already started
}

func (p *printers) Look(_ context.Context, job string) (task.Look, error) {
	if p.polls++; p.polls == 1 {
		return task.Look{Message: job + " is waiting", After: time.Millisecond}, nil
	}
	return task.Look{Done: true, Outcome: task.Outcome{Result: []byte(`{"content":[{"type":"text","text":"printed"}]}`)}}, nil
}

func (*printers) Cancel(context.Context, string) error { return nil }

// A task that stands for a job in an external system.
func ExampleJobs() {
	ctx := context.Background()
	store := memory.New()
	defer store.Close()
	manager, err := task.New(ctx, task.Options{Store: store, Jobs: map[string]task.Jobs{"printers": new(printers)}})
	if err != nil {
		log.Fatal(err)
	}
	defer manager.Close(ctx)
	created, err := manager.Create(ctx, task.Request{Method: "tools/call", Runner: "printers"})
	if err != nil {
		log.Fatal(err)
	}
	outcome, err := manager.Result(ctx, "", created.TaskID, nil)
	if err != nil {
		log.Fatal(err)
	}
	var result mcp.CallToolResult
	err = codec.Unmarshal(outcome.Result, &result)
	fmt.Println(result.Content[0].(*mcp.TextContent).Text, err)
	// Output:
	// printed <nil>
}
