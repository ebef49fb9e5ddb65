package jetstream_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
)

// faultFleet is a fleet whose servers can stall. They and the workers have clocks that can be set.
type faultFleet struct {
	cluster *natstest.Cluster
	store   *jetstream.Store
	front   *task.Manager
	lease   time.Duration
	log     string
}

// newFaultFleet starts three servers and a front end.
func newFaultFleet(t *testing.T, lease time.Duration) *faultFleet {
	f := &faultFleet{cluster: natstest.RunProcesses(t, 3), lease: lease, log: filepath.Join(t.TempDir(), "steps")}
	if err := os.WriteFile(f.log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.store = open(t, f.cluster.JetStream(t), jetstream.Options{Name: faultName, Replicas: 3})
	cfg := faultConfig(f.store, []string{})
	cfg.Member.Lease = lease
	var err error
	if f.front, err = task.New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.front.Close(context.Background()) })
	return f
}

// start starts a worker with a clock that is ahead.
func (f *faultFleet) start(t *testing.T, ahead time.Duration) *natstest.Clock {
	t.Helper()
	clock := natstest.NewClock(t)
	clock.Step(ahead)
	before := len(f.front.Members())
	t.Cleanup(startWorker(t, f.cluster, f.log, clock.Env(), envLease+"="+f.lease.String()))
	natstest.Until(t, "the worker joined", func() bool { return len(f.front.Members()) > before })
	return clock
}

// ids returns the IDs of the members.
func (f *faultFleet) ids() (ids []string) {
	for _, member := range f.front.Members() {
		ids = append(ids, member.ID)
	}
	return ids
}

// create creates a task that a worker runs.
func (f *faultFleet) create(t *testing.T, tool string, ttl time.Duration) string {
	t.Helper()
	var created mcp.Task
	natstest.Until(t, "a task was created", func() bool { // the front end may have to join the fleet again
		var err error
		created, err = f.front.Create(t.Context(), task.Request{
			Principal: "alice", Method: mcp.MethodToolsCall, Name: tool, Restartable: true, Task: &mcp.TaskMetadata{TTL: new(ttl.Milliseconds())},
			Work: func(context.Context, *task.Run) (codec.Encoder, error) { panic("a worker runs the task") },
		})
		return err == nil
	})
	return created.TaskID
}

// check waits until a task has ended, and compares its results with the steps that were recorded.
func (f *faultFleet) check(t *testing.T, id string) {
	t.Helper()
	results := finish(t, f.front, id)
	log, err := os.ReadFile(f.log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		by, result, _ := strings.Cut(strings.TrimSpace(line), " ")
		if by == id && !slices.Contains(results, result) {
			t.Errorf("task %s recorded %s, and its outcome is %v", id, result, results)
		}
	}
	if len(results) != steps+1 || results[steps/2] != fmt.Sprintf("%q", id) {
		t.Errorf("task %s ends with %v", id, results)
	}
}

// Workers with wrong clocks keep their leases, drop no task of others, and sleep as long as they
// should. So do workers whose clock is set while they work.
func TestWorkersWithWrongClocks(t *testing.T) {
	t.Parallel()
	f := newFaultFleet(t, time.Minute) // so that no lease ends because the machine is busy
	const ttl = 20 * time.Minute
	early := f.create(t, "steps", ttl)
	ahead := f.start(t, time.Hour) // looks for expired tasks when it starts
	behind := f.start(t, -time.Hour)
	f.check(t, early)
	before := f.ids()
	var ids, sleepers []string
	for i := range 8 {
		ids, sleepers = append(ids, f.create(t, "steps", ttl)), append(sleepers, f.create(t, "sleep", ttl))
		switch i {
		case 2:
			ahead.Step(-2 * time.Hour)
			behind.Step(time.Minute)
		case 4:
			ahead.Step(3 * time.Hour)
			behind.Step(-time.Minute)
		case 6:
			behind.Step(2 * time.Hour)
		}
		time.Sleep(500 * time.Millisecond) // so that the tasks make progress
	}
	for _, id := range ids {
		f.check(t, id)
	}
	for _, id := range sleepers {
		finish(t, f.front, id)
	}
	if after := f.ids(); !slices.Equal(before, after) {
		t.Errorf("the members were %v and are %v", before, after)
	}
	for _, id := range append(ids, early) {
		if _, err := f.front.Get(t.Context(), "alice", id, nil); err != nil {
			t.Error(err)
		}
	}
}

// Servers whose clock is set may end leases early. Tasks continue from their journal, and none is
// dropped.
func TestServersWithWrongClocks(t *testing.T) {
	t.Parallel()
	f := newFaultFleet(t, faultLease)
	f.start(t, 0)
	f.start(t, 0)
	const ttl = 20 * time.Minute
	var ids, sleepers []string
	for i, step := range []time.Duration{time.Hour, -2 * time.Hour, time.Minute, -time.Minute} {
		ids, sleepers = append(ids, f.create(t, "steps", ttl)), append(sleepers, f.create(t, "sleep", ttl))
		node := f.cluster.Leader(faultName + []string{"-0", "-members"}[i/2])
		f.cluster.StepClock(node, step)
		ids = append(ids, f.create(t, "steps", ttl))
		time.Sleep(faultLease)
	}
	for _, id := range ids {
		f.check(t, id)
	}
	for _, id := range sleepers {
		finish(t, f.front, id)
	}
	for _, id := range ids {
		if _, err := f.front.Get(t.Context(), "alice", id, nil); err != nil {
			t.Error(err)
		}
	}
}

// While the servers stall for longer than the lease, all members lose theirs. They join again, and
// the tasks go on from their journals.
func TestServersSlowerThanLease(t *testing.T) {
	t.Parallel()
	f := newFaultFleet(t, faultLease)
	f.start(t, 0)
	f.start(t, 0)
	before := f.ids()
	var ids []string
	for range 2 {
		for range 3 {
			ids = append(ids, f.create(t, "steps", 20*time.Minute))
		}
		for i := range 3 {
			f.cluster.Pause(i)
		}
		time.Sleep(2 * faultLease)
		for i := range 3 {
			f.cluster.Resume(i)
		}
	}
	for _, id := range ids {
		f.check(t, id)
	}
	for _, id := range f.ids() {
		if slices.Contains(before, id) {
			t.Errorf("the lease of member %s has not ended", id)
		}
	}
}
