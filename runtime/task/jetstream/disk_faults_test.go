package jetstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
)

// diskSize is more than an idle server needs.
const diskSize = 16 << 20

// ledger creates tasks with large payloads and records the acknowledged tasks.
type ledger struct {
	store *jetstream.Store
	known map[string]task.Record
}

// write creates a task, which it returns only if the store has acknowledged it.
func (l *ledger) write(t *testing.T) error {
	r := record(fmt.Sprint("task ", len(l.known)))
	r.Params = json.RawMessage(`"` + strings.Repeat("x", 10_000) + `"`)
	created, err := l.store.Create(t.Context(), r)
	if errors.Is(err, task.ErrExists) { // an earlier call has failed, and yet written
		created, err = l.store.Get(t.Context(), r.ID)
	}
	if err == nil {
		l.known[r.ID] = created
	}
	return err
}

// check compares all acknowledged tasks with the stored ones.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	for id, r := range l.known {
		if stored, err := l.store.Get(t.Context(), id); err != nil || !cmp.Equal(stored, r) {
			t.Errorf("task %q: stored is revision %d, %v", id, stored.Revision, err)
		}
	}
}

// restart restarts a node that has run out of space, after its space was freed.
func restart(c *natstest.Cluster, disk *natstest.Disk, i int) {
	disk.Free()
	c.Kill(i)
	c.Restart(i)
}

// The loss of the disk space of one node does not stop writes, whether it leads or not. Without
// space on any node, writes fail, and go on once there is space again. No acknowledged task is lost.
func TestFullDisks(t *testing.T) {
	t.Parallel()
	disks, onDisks := natstest.OnDisks(t, 3, diskSize)
	c := natstest.RunProcesses(t, 3, onDisks)
	s := open(t, c.JetStream(t), jetstream.Options{Replicas: 3, Timeout: time.Minute})
	l := &ledger{s, map[string]task.Record{}}
	leader := c.Leader(s.Name() + "-0")
	for _, full := range []int{(leader + 1) % 3, leader} {
		disks[full].Fill()
		for range 30 {
			if err := l.write(t); err != nil {
				t.Fatalf("without space on node %d, whose stream is led by node %d: %v", full, leader, err)
			}
		}
		restart(c, disks[full], full)
		c.Current(s.Name() + "-0")
	}
	l.check(t)

	l.store = open(t, c.JetStream(t), same(s))
	l.store.SetTimeout(time.Second)
	for _, disk := range disks {
		disk.Fill()
	}
	var err error
	for err == nil {
		err = l.write(t)
	}
	if !errors.Is(err, jetstream.ErrFull) && !errors.Is(err, jetstream.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || l.store.Health() == nil {
		t.Errorf("without space on any node: %v, health %v", err, l.store.Health())
	}
	for i := range disks {
		restart(c, disks[i], i)
	}
	l.store = s
	l.check(t)
	if err := l.write(t); err != nil || s.Health() != nil {
		t.Errorf("with space again: %v, health %v", err, s.Health())
	}
	t.Logf("%d tasks", len(l.known))
}

// Work that outlasts the loss of all disk space, or servers that do not answer, goes on in the same
// run, and its result does not change.
func TestWorkOutlastsServers(t *testing.T) {
	t.Parallel()
	t.Run("full disks", func(t *testing.T) {
		t.Parallel()
		disks, onDisks := natstest.OnDisks(t, 3, diskSize)
		c := natstest.RunProcesses(t, 3, onDisks)
		outlasts(t, c, func() {
			for _, disk := range disks {
				disk.Fill()
			}
		}, func() {
			for i := range disks {
				restart(c, disks[i], i)
			}
		})
	})
	t.Run("stalled servers", func(t *testing.T) {
		t.Parallel()
		c := natstest.RunProcesses(t, 3)
		outlasts(t, c, func() {
			for i := range 3 {
				c.Pause(i)
			}
		}, func() {
			for i := range 3 {
				c.Resume(i)
			}
		})
	})
}

// outlasts runs work that writes to a store between the calls of fail and mend.
func outlasts(t *testing.T, c *natstest.Cluster, fail, mend func()) {
	s := open(t, c.JetStream(t), jetstream.Options{Replicas: 3})
	s.SetTimeout(3 * time.Second)
	failed, recorded := make(chan struct{}), make(chan struct{}, 1)
	runs := 0 // the runs follow one another
	work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		runs++
		for n := range 20 {
			e := task.Entry{Key: fmt.Sprint(n), Occurrence: 1, Result: json.RawMessage(`"` + strings.Repeat("x", 3_000) + `"`)}
			if err := run.Record(ctx, e); err != nil {
				return nil, err
			}
			if n == 0 {
				recorded <- struct{}{}
				select {
				case <-failed:
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
		}
		return raw(`{"done":true}`), nil
	}
	cfg := faultConfig(s, nil)
	cfg.Member.Lease = 10 * time.Minute
	cfg.Recovery.Recover = func(task.Record) task.Work { return work }
	m, err := task.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	created, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: mcp.MethodToolsCall, Restartable: true, Work: work})
	if err != nil {
		t.Fatal(err)
	}
	natstest.Receive(t, "the first step was recorded", recorded)
	fail()
	close(failed)
	natstest.Until(t, "a write has failed", func() bool { return m.Health() != nil })
	mend()
	out := ended(t, m, created.TaskID, nil)
	if value, _ := codec.Member(out.Result, "done"); string(value) != "true" || runs != 1 {
		t.Errorf("got %s, %v after %d runs", out.Result, out.Error, runs)
	}
}

// Writes do not wait for a node that stalls. If the leader stalls, they wait for the next one.
func TestStalledNodes(t *testing.T) {
	t.Parallel()
	c := natstest.RunProcesses(t, 3)
	s := open(t, c.JetStream(t), jetstream.Options{Replicas: 3, Timeout: time.Minute})
	stream := s.Name() + "-0"
	r := create(t, s, record("a"))
	c.Current(stream)
	follower := (c.Leader(stream) + 1) % 3
	// The connection must not be one to the node that stalls.
	over := open(t, c.JetStream(t, (follower+1)%3, (follower+2)%3), same(s))
	c.Pause(follower)
	for range 20 {
		r = update(t, over, r)
	}
	c.Resume(follower)
	c.Current(stream)

	leader := c.Leader(stream)
	over = open(t, c.JetStream(t, (leader+1)%3, (leader+2)%3), same(s))
	c.Pause(leader)
	begun := time.Now()
	for range 5 {
		r = update(t, over, r)
	}
	t.Logf("5 writes took %v after the leader had stalled", time.Since(begun))
	c.Resume(leader)
	c.Current(stream)
	if got, err := s.Get(t.Context(), "a"); err != nil || !cmp.Equal(got, r) || r.Revision != 26 {
		t.Errorf("stored is revision %d after %d, %v", got.Revision, r.Revision, err)
	}
}

// runSleep sleeps a second, by the clock of the process that runs it first.
func runSleep(ctx context.Context, run *task.Run) (codec.Encoder, error) {
	entries, _, err := run.Journal(ctx)
	if err != nil {
		return nil, err
	}
	until := run.Internals(boundary.Caller{}).SharedTime(time.Now().Add(time.Second))
	if len(entries) > 0 {
		var micro int64
		if err := json.Unmarshal(entries[0].Result, &micro); err != nil {
			return nil, err
		}
		until = time.UnixMicro(micro)
	} else if err := run.Record(ctx, task.Entry{Key: "until", Occurrence: 1, Result: fmt.Append(nil, until.UnixMicro())}); err != nil {
		return nil, err
	}
	if err := run.Sleep(ctx, until); err != nil {
		return nil, err
	}
	return raw(`{"results":["slept"]}`), nil
}
