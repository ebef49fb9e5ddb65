package otel_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// runOf creates a task with the name of a tool and waits for its outcome.
func runOf(t *testing.T, m *task.Manager, name string, err error) {
	t.Helper()
	created, failed := m.Create(t.Context(), task.Request{Method: "tools/call", Name: name, Work: func(context.Context, *task.Run) (codec.Encoder, error) {
		return session.Raw(`{}`), err
	}})
	if failed != nil {
		t.Fatal(failed)
	}
	if _, failed = m.Result(t.Context(), "", created.TaskID, nil); failed != nil {
		t.Fatal(failed)
	}
}

// newTasks returns a Manager for tasks that clients name.
func newTasks(t *testing.T, p *process) *task.Manager {
	t.Helper()
	cfg := task.Options{Store: memory.New(), Limits: task.Limits{Tasks: -1, Rate: -1, Bytes: -1}}
	p.Tasks(&cfg)
	m, err := task.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

// Clients that name tools which do not exist add no series and no names of spans. Errors that
// differ add a limited number.
func TestRunsOfUnknownToolsAreCountedTogether(t *testing.T) {
	p := newProcess(t)
	m := newTasks(t, p)
	unknown := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool"}
	for i := range 100 {
		runOf(t, m, fmt.Sprintf("made-up-%d", i), unknown)
	}
	runOf(t, m, strings.Repeat("x", 1<<20), nil) // longer than names in metrics
	runOf(t, m, "render", unknown)               // not yet known
	runOf(t, m, "render", nil)
	runOf(t, m, "render", unknown)
	for i := range 100 {
		runOf(t, m, "render", &jsonrpc.Error{Code: int64(1000 + i), Message: "failed"})
	}
	m.Close(t.Context())
	names := map[string]int{}
	for _, span := range p.exporter.GetSpans() {
		names[span.Name]++
	}
	if len(names) != 2 || names["mcpwire.task.run"] != 102 || names["mcpwire.task.run render"] != 102 {
		t.Errorf("spans have the names %v", names)
	}
	series := map[string]int{}
	for attrs := range p.metrics()["mcpwire.task.run.duration"] {
		series[value(attrs.ToSlice(), "gen_ai.tool.name")]++
	}
	if len(series) != 2 || series["_OTHER"] != 2 || series["render"] > 60 {
		t.Errorf("series by tool: %v", series)
	}
}

// The tools of a server are known before they have run.
func TestRunsOfOwnToolsHaveNames(t *testing.T) {
	p := newProcess(t)
	s := p.newServer(server.Options{}, func(s *server.Server) {
		server.AddTool(s, "render", "", func(context.Context, *server.Call, struct{}) (string, error) {
			return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no such film"}
		}, server.Tasks(receiver.Support{}))
	})
	h, err := p.connect(transports["in-memory"](t, s), client.Options{}).StartTool(t.Context(), "render", nil)
	if err != nil {
		t.Fatal(err)
	}
	h.Result(t.Context())
	s.Close()
	p.span("mcpwire.task.run render")
}

// Telemetry does not keep servers in memory, whether they were closed or dropped, and whether the
// metrics are read or not.
func TestTelemetryForgetsServers(t *testing.T) {
	for _, collects := range []bool{true, false} {
		p := newProcess(t)
		var all []weak.Pointer[server.Server]
		for i := range 128 {
			cfg := new(server.Options)
			if i%2 == 0 {
				cfg.Tasks.Store = memory.New()
			}
			p.Server(cfg)
			s := server.New("shop", "1", cfg)
			if i%2 == 0 {
				if err := s.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			all = append(all, weak.Make(s))
		}
		if collects {
			p.metrics()
		}
		runtime.GC()
		runtime.GC()
		left := 0
		for _, each := range all {
			if each.Value() != nil {
				left++
			}
		}
		if left > 0 {
			t.Errorf("metrics are read %v: %d of %d servers are in memory", collects, left, len(all))
		}
		runtime.KeepAlive(p)
	}
}

// ill is a store whose Health blocks.
type ill struct {
	task.Store
	asked chan struct{}
}

func (s *ill) Health() error {
	close(s.asked)
	select {}
}

// Metrics are read without the stores of tasks.
func TestMetricsDoNotAskStores(t *testing.T) {
	p := newProcess(t)
	store := &ill{memory.New(), make(chan struct{})}
	cfg := &server.Options{Tasks: task.Options{Store: store}}
	p.Server(cfg)
	s := server.New("shop", "1", cfg)
	defer s.Close()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.metrics()
	select {
	case <-store.asked:
		t.Error("Health was called")
	default:
	}
}

// The gauge shows the tasks that run, also while a closed Manager waits for them.
func TestActiveTasksAreThoseThatRun(t *testing.T) {
	p := newProcess(t)
	m := newTasks(t, p)
	p.Observe(m)
	end := make(chan struct{})
	for range 2 {
		if _, err := m.Create(t.Context(), task.Request{Method: "tools/call", Work: func(ctx context.Context, _ *task.Run) (codec.Encoder, error) {
			<-end // ignores the end of its context
			return nil, errors.New("late")
		}}); err != nil {
			t.Fatal(err)
		}
	}
	running := func() (n int64) {
		for attrs, count := range p.metrics()["mcpwire.tasks.active"] {
			if value(attrs.ToSlice(), "mcpwire.task.state") == "running" {
				n = count
			}
		}
		return n
	}
	if n := running(); n != 2 {
		t.Errorf("%d tasks are running", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if m.Close(ctx) == nil {
		t.Error("Close did not wait")
	}
	if n := running(); n != 2 {
		t.Errorf("%d tasks are running after the end of the Manager", n)
	}
	close(end)
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := running(); n != 0 {
		t.Errorf("%d tasks are running at the end", n)
	}
}
