package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// toolbox has the versions of the tools of a process.
type toolbox struct {
	mu      sync.Mutex
	tools   map[string][]string // versions that continue; the first is the one that begins
	refused []string            // ids of the tasks that Recover has been asked for in vain
	begun   []string            // versions of the tasks that run here
}

func (b *toolbox) set(tool string, versions ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tools == nil {
		b.tools = map[string][]string{}
	}
	b.tools[tool] = versions
}

// config returns the configuration of a Manager with the tools. Their work lasts as long as lasts.
func (b *toolbox) config(member task.Member, lasts time.Duration) task.Options {
	return task.Options{
		Member: member, Updates: task.Updates{Quiet: true}, TTL: task.TTL{Default: 24 * time.Hour},
		Recovery: task.Recovery{
			ToolVersion: func(tool string) string {
				b.mu.Lock()
				defer b.mu.Unlock()
				return append(b.tools[tool], "")[0]
			},
			Recover: func(r task.Record) task.Work {
				b.mu.Lock()
				defer b.mu.Unlock()
				versions := b.tools[r.Name]
				if len(versions) == 0 || r.Begun() && !slices.Contains(versions, r.Durable.Version) {
					b.refused = append(b.refused, r.ID)
					return nil
				}
				return b.work(lasts)
			},
		},
	}
}

func (b *toolbox) work(lasts time.Duration) task.Work {
	return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		b.mu.Lock()
		b.begun = append(b.begun, run.ID())
		b.mu.Unlock()
		select {
		case <-time.After(lasts):
			return raw(`{}`), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// joinWith adds a Manager with tools to a fleet.
func joinWith(t *testing.T, f *memory.Fleet, b *toolbox, member task.Member, lasts time.Duration) *member {
	t.Helper()
	return joinStore(t, f.Store(), b.config(member, lasts))
}

func joinStore(t *testing.T, store *memory.FleetStore, cfg task.Options) *member {
	t.Helper()
	cfg.Store = store
	m := &member{store: store}
	m.Manager = newManager(t, cfg)
	synctest.Wait()
	return m
}

func (b *toolbox) create(t *testing.T, m *member, tool, version string, lasts time.Duration) string {
	t.Helper()
	return create(t, m.Manager, task.Request{Restartable: true, Name: tool, Version: version, Work: b.work(lasts)}).TaskID
}

// A member without a tool is asked for it once. Its tasks run on those that have it, and wait, with
// a reason, while none has. They run once it is added.
func TestTasksWaitForTheirTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		none := task.Member{Tools: []string{}}
		front := joinWith(t, f, new(toolbox), none, 0)
		var old, late toolbox
		old.set("pack", "1")
		joinWith(t, f, &old, task.Member{}, time.Second)
		var waiting []string
		for range 5 {
			waiting = append(waiting, old.create(t, front, "gift", "1", 0))
			synctest.Wait()
		}
		time.Sleep(10 * time.Minute)
		if len(old.refused) != 1 {
			t.Errorf("%d tasks refused", len(old.refused))
		}
		for _, id := range waiting {
			if got := get(t, front.Manager, id); got.Status != mcp.TaskStatusWorking || got.StatusMessage == nil || *got.StatusMessage != `waits for a process that has the tool "gift"` {
				t.Errorf("%+v", got)
			}
		}
		late.set("pack", "1")
		m := joinWith(t, f, &late, task.Member{}, time.Second)
		time.Sleep(time.Second)
		if len(old.refused) != 1 || len(late.refused) == 0 {
			t.Errorf("%d and %d tasks refused", len(old.refused), len(late.refused))
		}
		late.set("gift", "1")
		m.ToolsChanged()
		time.Sleep(2 * time.Second)
		for range 20 {
			waiting = append(waiting, old.create(t, front, "gift", "1", 0))
		}
		time.Sleep(2 * time.Second)
		for _, id := range waiting {
			if got := get(t, front.Manager, id); got.Status != mcp.TaskStatusCompleted {
				t.Errorf("%+v", got)
			}
		}
		if len(old.refused) != 1 {
			t.Errorf("%d tasks refused", len(old.refused))
		}
	})
}

// A member that joins without the tool of many waiting tasks reads some of them, not all.
func TestMemberRefusesWaitingTasksTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		front := joinWith(t, f, new(toolbox), task.Member{Tools: []string{}}, 0)
		var late toolbox
		for range 300 {
			late.create(t, front, "gift", "1", 0)
		}
		joinWith(t, f, &late, task.Member{}, 0)
		time.Sleep(time.Hour)
		if n := len(late.refused); n == 0 || n > 100 { // those that it has begun to read at the same time
			t.Errorf("%d tasks refused", n)
		}
	})
}

// A member that has lost its lease during the trial of a task, and lacks the tool when it has joined
// again, has not died: its death at a later time is not that of the trial.
func TestInterruptedTrialIsNoDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		front := joinWith(t, f, new(toolbox), task.Member{Tools: []string{}}, 0)
		var b, next toolbox
		b.set("pack", "1")
		next.set("pack", "1")
		die := func(m *member) {
			m.store.Cut()
			time.Sleep(task.DefaultLease + time.Second)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			m.Close(ended)
		}
		first := joinWith(t, f, &b, task.Member{}, time.Minute)
		id := b.create(t, front, "pack", "1", 0)
		time.Sleep(time.Second)
		die(first)
		second := joinWith(t, f, &b, task.Member{}, time.Minute)
		time.Sleep(time.Second)
		if r := second.record(t, id); r.Phase != taskrules.PhaseTrial || r.Reruns != 1 {
			t.Fatalf("phase %v after %d deaths", r.Phase, r.Reruns)
		}
		second.store.Cut()
		b.set("pack")
		time.Sleep(task.DefaultLease + time.Second)
		second.store.Heal()
		time.Sleep(time.Minute)
		die(second)
		joinWith(t, f, &next, task.Member{}, time.Minute)
		time.Sleep(10 * time.Minute)
		if r := front.record(t, id); r.Status != mcp.TaskStatusCompleted {
			t.Errorf("%s: %s", r.Status, r.StatusMessage)
		}
	})
}

// Front ends and workers may have other versions of a tool: a task begins in the version of its
// worker.
func TestTaskBeginsInTheVersionOfItsWorker(t *testing.T) {
	for _, version := range [][2]string{{"1", "2"}, {"2", "1"}} {
		synctest.Test(t, func(t *testing.T) {
			f := memory.NewFleet()
			var at, work toolbox
			at.set("pack", version[0])
			work.set("pack", version[1])
			front := joinWith(t, f, &at, task.Member{Tools: []string{}}, 0)
			joinWith(t, f, &work, task.Member{}, time.Minute)
			id := at.create(t, front, "pack", version[0], 0)
			synctest.Wait()
			if r := front.record(t, id); r.Durable.Version != version[1] || !r.Begun() {
				t.Errorf("front end %q, worker %q: version %q", version[0], version[1], r.Durable.Version)
			}
			if out := result(t, front.Manager, id); out.Error != nil {
				t.Error(out.Error)
			}
		})
	}
}

// Tasks that have begun in a version continue on members that have it, at once, and no other member
// fails them. While there is none, they wait for one.
func TestTasksWaitForTheirVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		var first, newer, same toolbox
		first.set("pack", "1")
		newer.set("pack", "2")
		same.set("pack", "2", "1")
		a := joinWith(t, f, &first, task.Member{}, time.Hour)
		b := joinWith(t, f, &newer, task.Member{}, time.Minute)
		var ids []string
		for range 6 {
			ids = append(ids, first.create(t, a, "pack", "1", time.Hour))
		}
		synctest.Wait()
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		for _, id := range ids {
			if got := get(t, b.Manager, id); got.Status != mcp.TaskStatusWorking || got.StatusMessage == nil || *got.StatusMessage != `waits for a process that has version "1" of the tool "pack"` {
				t.Errorf("%+v", got)
			}
		}
		if len(newer.refused) > 6 || len(newer.begun) > 0 {
			t.Errorf("%d tasks refused, %d begun", len(newer.refused), len(newer.begun))
		}
		joinWith(t, f, &same, task.Member{}, time.Minute)
		time.Sleep(time.Second)
		if len(same.begun) != 6 {
			t.Errorf("%d of 6 tasks run", len(same.begun))
		}
		time.Sleep(time.Minute)
		for _, id := range ids {
			if got := get(t, b.Manager, id); got.Status != mcp.TaskStatusCompleted {
				t.Errorf("%+v", got)
			}
		}
	})
}

// A parked task leaves a member that has lost its tool meanwhile.
func TestParkedTaskMovesToItsTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		var first, second toolbox
		first.set("pack", "1")
		a := joinWith(t, f, &first, task.Member{}, time.Minute)
		id := create(t, a.Manager, task.Request{Restartable: true, Name: "pack", Version: "1", Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			return nil, run.Sleep(ctx, time.Now().Add(time.Hour))
		}}).TaskID
		time.Sleep(10 * time.Minute)
		first.set("pack")
		second.set("pack", "1")
		b := joinWith(t, f, &second, task.Member{}, time.Minute)
		time.Sleep(time.Hour)
		if r := b.record(t, id); r.Status != mcp.TaskStatusCompleted || r.Reruns != 0 || !slices.Equal(second.begun, []string{id}) {
			t.Errorf("%s, held by %v, begun %v", r.Status, r.Claim, second.begun)
		}
	})
}

// A task that a member holds, but cannot run again because it has lost the tool meanwhile, leaves
// it, whether another member has the tool already or later.
func TestInterruptedTaskLeavesMemberWithoutItsTool(t *testing.T) {
	for _, later := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := memory.NewFleet()
			var first, second toolbox
			first.set("pack", "1")
			second.set("pack", "1")
			a := joinWith(t, f, &first, task.Member{}, time.Minute)
			id := create(t, a.Manager, task.Request{Restartable: true, Name: "pack", Version: "1", Work: untilDone}).TaskID
			time.Sleep(time.Second)
			first.set("pack")
			b := a
			if !later {
				b = joinWith(t, f, &second, task.Member{}, time.Minute)
			}
			if err := a.Internals(boundary.Caller{}).TakeOver(t.Context(), id); err != nil { // the work ends, and is to run again
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if later {
				b = joinWith(t, f, &second, task.Member{}, time.Minute)
			}
			time.Sleep(2 * time.Minute)
			if r := b.record(t, id); r.Status != mcp.TaskStatusCompleted || r.Reruns != 0 || len(first.refused) != 1 {
				t.Errorf("later %t: %s, held by %v, refused %d times", later, r.Status, r.Claim, len(first.refused))
			}
		})
	}
}

// In one process, too, tasks wait for their tool and version, with a reason. They go on when it is
// added, can be cancelled and listed, and expire.
func TestTasksOfOneProcessWaitForTheirTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		var tools toolbox
		tools.set("do", "1")
		cfg := tools.config(task.Member{}, time.Minute)
		cfg.Store, cfg.Recovery.ParkAfter = store, time.Second
		m := newManager(t, cfg)
		begin := func(version string, work task.Work) string {
			return create(t, m, task.Request{Restartable: true, Name: "do", Version: version, Work: work}).TaskID
		}
		running, cancelled := begin("1", untilDone), begin("1", untilDone)
		expired := create(t, m, task.Request{Restartable: true, Name: "do", Work: untilDone, Task: &mcp.TaskMetadata{TTL: new(int64(660_000))}}).TaskID
		parked := begin("1", func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			return nil, run.Sleep(ctx, time.Now().Add(time.Minute))
		})
		time.Sleep(10 * time.Second)
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		tools.set("do")
		m = newManager(t, cfg)
		time.Sleep(10 * time.Minute)
		reason := func(id, want string) {
			t.Helper()
			if got := get(t, m, id); got.Status != mcp.TaskStatusWorking || got.StatusMessage == nil || *got.StatusMessage != want {
				t.Errorf("%s, %q", got.Status, *got.StatusMessage)
			}
		}
		for _, id := range []string{running, cancelled, parked} {
			reason(id, `waits for a process that has version "1" of the tool "do"`)
		}
		list, _, err := m.List(t.Context(), "alice", "")
		if err != nil || len(list) != 4 || list[0].StatusMessage == nil || !strings.HasPrefix(*list[0].StatusMessage, "waits") {
			t.Errorf("%v, %v", list, err)
		}
		if _, err := m.Cancel(t.Context(), "alice", cancelled, nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s := m.Stats(); s.Parked != 3 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Minute)
		if _, err := m.Get(t.Context(), "alice", expired, nil); !errors.Is(err, task.ErrExpired) {
			t.Error(err)
		}
		tools.set("do", "2")
		m.ToolsChanged()
		synctest.Wait()
		reason(running, `waits for a process that has version "1" of the tool "do"`)
		tools.set("do", "2", "1")
		m.ToolsChanged()
		time.Sleep(2 * time.Minute)
		for _, id := range []string{running, parked} {
			if got := get(t, m, id); got.Status != mcp.TaskStatusCompleted {
				t.Errorf("%s, %v", got.Status, got.StatusMessage)
			}
		}
		if s := m.Stats(); s.Parked+s.Running != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A member is asked for the work of each tool once, also if it has refused more tools than it can
// announce. The tasks run once a member has their tools.
func TestMemberRefusesManyTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		front := joinWith(t, f, new(toolbox), task.Member{Tools: []string{}}, 0)
		var old, late toolbox
		old.set("pack", "1")
		joinWith(t, f, &old, task.Member{Name: "old"}, time.Second)
		var ids []string
		const tools, announced = 70, 64
		for n := range tools {
			tool := fmt.Sprint("tool ", n)
			late.set(tool, "1")
			ids = append(ids, old.create(t, front, tool, "1", 0))
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		if len(old.refused) != tools {
			t.Errorf("%d tasks refused, want %d", len(old.refused), tools)
		}
		for _, other := range front.Members() {
			if want := (fleets.Missing{Tool: "tool 69", All: true}); other.Name == "old" && (len(other.Missing) != announced || other.Missing[announced-1] != want) {
				t.Errorf("the member announces %v", other.Missing)
			}
		}
		joinWith(t, f, &late, task.Member{}, time.Second)
		time.Sleep(time.Minute)
		for _, id := range ids {
			if got := get(t, front.Manager, id); got.Status != mcp.TaskStatusCompleted {
				t.Errorf("%+v", got)
			}
		}
		if len(old.refused) != tools {
			t.Errorf("%d tasks refused, want %d", len(old.refused), tools)
		}
	})
}

// A task that is not restartable fails once its process has died, and a job is followed by another
// process that knows its system, whatever tools the other members run.
func TestOtherMembersEndTasksOfDeadFrontEnd(t *testing.T) {
	for name, tools := range map[string][]string{"no tool": {}, "another tool": {"other"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				b := &batchSystem{out: task.Outcome{Result: json.RawMessage(`{}`)}}
				jobs := map[string]task.Jobs{"batch": b}
				front := join(t, f, task.Options{Jobs: jobs, Member: task.Member{Tools: []string{}}}, nil)
				other := join(t, f, task.Options{Jobs: jobs, Member: task.Member{Tools: tools}}, nil)
				join(t, f, task.Options{Member: task.Member{Tools: tools}}, nil) // does not know the system
				lost := create(t, front.Manager, task.Request{Work: untilDone, Name: "tool"}).TaskID
				job := create(t, front.Manager, task.Request{Runner: "batch", Name: "tool"}).TaskID
				synctest.Wait()
				front.cut(t)
				time.Sleep(10 * time.Minute)
				if got := get(t, other.Manager, lost); got.Status != mcp.TaskStatusFailed {
					t.Errorf("the task is %s", got.Status)
				}
				if got := get(t, other.Manager, job); got.Status != mcp.TaskStatusCompleted {
					t.Errorf("the task of the job is %s", got.Status)
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				checkEqual(t, "starts", map[string]int{job: 1}, b.started)
			})
		})
	}
}
