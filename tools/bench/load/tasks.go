package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	mcpserver "github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// taskCounts is what mixed members have done with tasks.
type taskCounts struct {
	jobs      atomic.Int64 // tasks that were created and must complete
	charges   atomic.Int64 // executions of the first step of a job
	cancelled atomic.Int64 // tasks that were cancelled
	foreign   atomic.Int64 // attempts to read a task of another principal
}

const (
	parkAfter = 20 * time.Millisecond
	nap       = 40 * time.Millisecond // duration of the sleep of a job, which is parked meanwhile
)

// addTaskTools adds the tools whose calls are tasks: job completes, hang waits for its cancellation.
func (m *mixture) addTaskTools() {
	mcpserver.AddTool(m.server, "job", "", func(ctx context.Context, c *mcpserver.Call, in text) (string, error) {
		charge, err := mcpserver.Step(ctx, c, "charge", func(context.Context) (int64, error) { return m.counts.charges.Add(1), nil })
		if err != nil {
			return "", err
		}
		if err := mcpserver.Sleep(ctx, c, "nap", func() time.Time { return time.Now().Add(nap) }); err != nil {
			return "", err
		}
		var name text
		if _, err := mcpserver.Elicit(ctx, c, "Name?", &name); err != nil {
			return "", err
		}
		receipt, err := mcpserver.Step(ctx, c, "receipt", func(context.Context) (string, error) { return fmt.Sprint("receipt ", charge), nil })
		return fmt.Sprintf("%s, %s, %s", in.Text, receipt, name.Text), err
	}, mcpserver.Tasks(receiver.Support{Restartable: true, After: -1}))
	mcpserver.AddTool(m.server, "hang", "", func(ctx context.Context, _ *mcpserver.Call, _ text) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}, mcpserver.Tasks(receiver.Support{After: -1}))
}

// start creates a task.
func (x *mixed) start(ctx context.Context, tool, given string) (*requestor.Handle[*mcp.CallToolResult], error) {
	h, err := x.client.StartTool(ctx, tool, text{given}, requestor.TTL(x.of.ttl))
	if err != nil {
		return nil, fmt.Errorf("%s starts %s: %w", x.name, tool, err)
	}
	if h.ID() == "" {
		return nil, fmt.Errorf("%s starts %s: the call has not become a task", x.name, tool)
	}
	return h, nil
}

// job runs a task. Both the member and its partner see its end and its result. The follow function
// of the member, and respond, of the member or the partner, are called at the same time.
func (x *mixed) job(ctx context.Context, given string, respond *mixed, follow func(ctx context.Context, h *requestor.Handle[*mcp.CallToolResult]) error) error {
	h, err := x.start(ctx, "job", given)
	if err != nil {
		return err
	}
	x.of.counts.jobs.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	followed := make(chan error, 1)
	go func() { followed <- follow(ctx, h) }() // ends with the task or ctx
	first, err := respond.result(ctx, h.ID())
	if err != nil {
		return err
	}
	if err := <-followed; err != nil {
		return fmt.Errorf("%s follows task %s: %w", x.name, h.ID(), err)
	}
	var charge int64
	rest := "" // of the result
	if _, err := fmt.Sscanf(first, given+", receipt %d,", &charge); err == nil {
		rest = first[len(fmt.Sprintf("%s, receipt %d, ", given, charge)):]
	}
	if rest != x.name+"Name?" && rest != x.partner.name+"Name?" {
		return fmt.Errorf("task %s of %s: got %q", h.ID(), x.name, first)
	}
	for _, reader := range []*mixed{x, x.partner} {
		state, err := reader.client.AttachTool(h.ID()).Refresh(ctx)
		if err != nil || state.Status != mcp.TaskStatusCompleted {
			return fmt.Errorf("%s reads the completed task %s of %s: %q, %w", reader.name, h.ID(), x.name, state.Status, err)
		}
		if again, err := reader.result(ctx, h.ID()); err != nil || again != first {
			return fmt.Errorf("%s reads task %s of %s: %q, want %q, %w", reader.name, h.ID(), x.name, again, first, err)
		}
	}
	return nil
}

// result waits for the result of a task, and responds to its input requests.
func (x *mixed) result(ctx context.Context, id string) (string, error) {
	result, err := x.client.AttachTool(id).Result(ctx)
	if err != nil {
		return "", fmt.Errorf("%s waits for task %s: %w", x.name, id, err)
	}
	got, _ := client.Text(result)
	return got, nil
}

// update iterates over the states of a task, and responds to its input requests.
func update(ctx context.Context, h *requestor.Handle[*mcp.CallToolResult]) error {
	var last mcp.TaskStatus
	for state, err := range h.Updates(ctx) {
		if err != nil {
			return err
		}
		last = state.Status
	}
	if last != mcp.TaskStatusCompleted {
		return fmt.Errorf("the last state is %q", last)
	}
	return nil
}

// pollTask requests the state of a task until it is terminal. It does not respond to input requests.
func (m *mixture) pollTask(ctx context.Context, h *requestor.Handle[*mcp.CallToolResult]) error {
	for {
		state, err := h.Refresh(ctx)
		if err != nil || state.Status == mcp.TaskStatusCompleted {
			return err
		}
		if !sleep(ctx, m.poll) {
			return context.Cause(ctx)
		}
	}
}

// cancelTask creates a task that the partner cancels. A member with another principal cannot read
// it.
func (x *mixed) cancelTask(ctx context.Context, given string) error {
	h, err := x.start(ctx, "hang", given)
	if err != nil {
		return err
	}
	x.of.counts.cancelled.Add(1)
	if x.stranger.principal != x.principal {
		x.of.counts.foreign.Add(1)
		if _, err := x.stranger.client.AttachTool(h.ID()).Refresh(ctx); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
			return fmt.Errorf("%s reads task %s of %s: %w", x.stranger.name, h.ID(), x.name, err)
		}
	}
	if _, err := x.partner.client.AttachTool(h.ID()).Cancel(ctx); err != nil {
		return fmt.Errorf("%s cancels task %s of %s: %w", x.partner.name, h.ID(), x.name, err)
	}
	if _, err := h.Result(ctx); !errors.Is(err, task.ErrCancelled) {
		return fmt.Errorf("%s waits for its cancelled task %s: %w", x.name, h.ID(), err)
	}
	return nil
}

// verifyTasks compares the counters of the Manager with those of the members.
func (m *mixture) verifyTasks(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		got := m.server.Tasks().Stats()
		if got.Running == 0 && got.Parked == 0 && got.Waiting == 0 {
			break
		}
		if !sleep(ctx, 5*time.Millisecond) {
			return fmt.Errorf("tasks are unfinished: %+v", got)
		}
	}
	got := m.server.Tasks().Stats()
	jobs, cancelled := uint64(m.counts.jobs.Load()), uint64(m.counts.cancelled.Load())
	if got.Created != jobs+cancelled || got.Completed != jobs || got.Cancelled != cancelled || got.Failed != 0 || got.Unstored != 0 {
		return fmt.Errorf("%d jobs and %d cancelled tasks, but the Manager counts %+v", jobs, cancelled, got)
	}
	if charges := uint64(m.counts.charges.Load()); charges != jobs {
		return fmt.Errorf("%d jobs have made %d charges", jobs, charges)
	}
	if foreign := uint64(m.counts.foreign.Load()); got.Foreign != foreign {
		return fmt.Errorf("%d reads of foreign tasks, but the Manager counts %d", foreign, got.Foreign)
	}
	return nil
}
