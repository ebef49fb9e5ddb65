package jetstream_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
)

var (
	manyTasks   = flag.Int("tasks", 3000, "number of tasks of TestManyTasks")
	manyWaiters = flag.Int("waiters", 500, "number of waiters of TestManyWaiters")
)

// inUse returns the memory in use after a garbage collection, including stacks of goroutines.
func inUse() uint64 {
	for range 3 { // pools and finalizers keep memory during the first collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// row prints a line of a table.
func row(t *testing.T, what, format string, args ...any) {
	t.Helper()
	t.Logf("| %s | %s |", what, fmt.Sprintf(format, args...))
}

// timed returns the median duration of several calls of f.
func timed(t *testing.T, f func() error) time.Duration {
	t.Helper()
	var took []time.Duration
	for range 5 {
		begun := time.Now()
		if err := f(); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(begun))
	}
	return medianTime(took)
}

func medianTime(list []time.Duration) time.Duration {
	for i := range list {
		for j := i; j > 0 && list[j] < list[j-1]; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	return list[len(list)/2].Round(10 * time.Microsecond)
}

// TestManyTasks reads, lists and sweeps a store with many tasks, and prints the cost. They belong to
// four owners, except for a hundred tasks of another owner, which are spread evenly. The node runs
// in this process, so that its memory is measured: the store itself keeps nothing for a task.
//
//	go test -run TestManyTasks -tasks 1000000 -v -timeout 30m
func TestManyTasks(t *testing.T) {
	const (
		ttl   = 24 * time.Hour
		page  = 50
		few   = 100 // tasks of the rare owner
		owner = "owner 1"
	)
	n := *manyTasks
	c := natstest.Run(t, 1)
	js := c.JetStream(t)
	s := open(t, js, jetstream.Options{Name: "many"})
	before := inUse()
	start := time.Now()
	record := func(i int) task.Record {
		r := task.Record{
			ID: fmt.Sprintf("TASK%022d", i), Owner: fmt.Sprint("owner ", i%4), Status: mcp.TaskStatusCompleted, Method: mcp.MethodToolsCall, Name: "tool",
			Created: start.Add(time.Minute - ttl + time.Duration(float64(ttl)*float64(i)/float64(n))).UTC().Truncate(time.Microsecond), TTL: ttl,
			Result: json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 100) + `"}]}`),
		}
		if i%(n/few) == n/few/2 {
			r.Owner = "rare"
		}
		r.Updated = r.Created
		return r
	}
	if err := s.Fill(t.Context(), n, record); err != nil {
		t.Fatal(err)
	}
	row(t, "tasks", "%d, filled in %.0f s", n, time.Since(start).Seconds())
	var messages, bytes, subjects uint64
	for _, name := range []string{"many-0", "many-0-index"} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		state := stream.CachedInfo().State
		messages, bytes, subjects = messages+state.Msgs, bytes+state.Bytes, subjects+state.NumSubjects
	}
	row(t, "messages, subjects and bytes in the streams, per task", "%.2f, %.2f, %d", float64(messages)/float64(n), float64(subjects)/float64(n), bytes/uint64(n))
	row(t, "memory of the server, bytes per task", "%d", (int64(inUse())-int64(before))/int64(n))

	// places returns the Seq before the page at some places of the list of an owner. The lists of
	// the other owners are as long.
	places := map[string]uint64{}
	listed, begun := 0, time.Now()
	for after := uint64(0); ; {
		list, err := s.List(t.Context(), owner, after, page)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range list {
			if r.Owner != owner || r.Seq <= after {
				t.Fatalf("task %d of the page after %d has owner %q and Seq %d", i, after, r.Owner, r.Seq)
			}
		}
		for place, at := range map[string]int{"first": 0, "middle": n / 8, "last": n/4 - page - few} {
			if listed <= at && listed+page > at {
				places[place] = after
			}
		}
		listed += len(list)
		if len(list) < page {
			break
		}
		after = list[page-1].Seq
	}
	if rest := n/4 - listed; rest < 0 || rest > few {
		t.Errorf("listed %d tasks of %d", listed, n/4)
	}
	row(t, fmt.Sprintf("list of %d tasks by pages of %d", listed, page), "%.0f µs per page", time.Since(begun).Seconds()*1e6/float64(max(1, listed/page)))
	pages := func(when string) {
		for _, place := range []string{"first", "middle", "last"} {
			took := timed(t, func() error { _, err := s.List(t.Context(), owner, places[place], page); return err })
			row(t, fmt.Sprintf("%s page of %d%s", place, page, when), "%v", took)
		}
		for _, n := range []int{page, few + 1} {
			begun := time.Now()
			list, err := s.List(t.Context(), "rare", 0, n)
			if err != nil || len(list) != min(n, few) {
				t.Fatalf("listed %d tasks, %v", len(list), err)
			}
			row(t, fmt.Sprintf("%d tasks of an owner with %d%s", len(list), few, when), "%v", time.Since(begun).Round(10*time.Microsecond))
		}
		var took []time.Duration
		for range 50 {
			begun := time.Now()
			if _, err := s.Get(t.Context(), record(rand.IntN(n)).ID); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(begun))
		}
		row(t, "random task"+when, "%v", medianTime(took))
	}
	pages("")
	begun = time.Now()
	c.Kill(0)
	c.Restart(0)
	if _, err := s.Get(t.Context(), record(0).ID); err != nil {
		t.Fatal(err)
	}
	row(t, "restart of the server, until it has answered", "%v", time.Since(begun).Round(time.Millisecond))
	pages(", after the restart")

	begun = time.Now()
	second := open(t, c.JetStream(t), jetstream.Options{Name: "many"})
	row(t, "open the store", "%v", time.Since(begun).Round(10*time.Microsecond))
	begun = time.Now()
	m, err := second.Join(t.Context(), task.Member{}, fleets.Events{Departed: func() {}, Offered: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	row(t, "join the fleet", "%v", time.Since(begun).Round(10*time.Microsecond))
	defer m.Leave(context.Background())

	// A 50th of the tasks has expired in half an hour.
	dropped, calls := 0, 0
	begun = time.Now()
	now := start.Add(ttl/50 + time.Minute)
	for {
		list, next, err := s.Sweep(t.Context(), now, 256)
		if err != nil {
			t.Fatal(err)
		}
		dropped, calls = dropped+len(list), calls+1
		if len(list) < 256 {
			if !next.After(now) {
				t.Errorf("the next task expires at %v, want after %v", next, now)
			}
			break
		}
	}
	took := time.Since(begun)
	if least := n / 50; dropped < least || dropped > least+1 {
		t.Errorf("dropped %d tasks, want %d", dropped, least)
	}
	row(t, fmt.Sprintf("sweep %d expired tasks in %d calls", dropped, calls), "%.0f tasks/s", float64(dropped)/took.Seconds())
	row(t, "sweep without expired tasks", "%v", timed(t, func() error { _, _, err := s.Sweep(t.Context(), now, 256); return err }))
}

// TestManyWaiters prints the memory of calls of Wait, each for another task. The first round has the
// node in a process of its own, and the second in this process, whose memory then includes it.
//
//	go test -run TestManyWaiters -waiters 100000 -v -timeout 10m
func TestManyWaiters(t *testing.T) {
	n := *manyWaiters
	var per [2]int64
	for i, run := range []func(testing.TB, int) *natstest.Cluster{
		func(t testing.TB, n int) *natstest.Cluster { return natstest.RunProcesses(t, n) },
		func(t testing.TB, n int) *natstest.Cluster { return natstest.Run(t, n) },
	} {
		c := run(t, 1)
		s := open(t, c.JetStream(t), jetstream.Options{Storage: natsjs.MemoryStorage})
		name := func(i int) string { return fmt.Sprintf("TASK%022d", i) }
		create := func(i int) task.Record {
			r := record(name(i))
			r.TTL, r.Owner = time.Hour, "alice"
			return r
		}
		if err := s.Fill(t.Context(), n, create); err != nil {
			t.Fatal(err)
		}
		before := inUse()
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		woken := make(chan string, n)
		for i := range n {
			group.Go(func() {
				if r, err := s.Wait(ctx, name(i), 1); err == nil {
					woken <- r.ID
				}
			})
			// The server drops requests if 10,000 are queued. It handles them in order.
			if i%500 == 499 {
				if _, err := s.Get(t.Context(), name(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		natstest.Until(t, "all calls blocked", func() bool { return jetstream.Waiters(s) >= n })
		per[i] = (int64(inUse()) - int64(before)) / int64(n)
		// One change wakes one waiter.
		r, err := s.Get(t.Context(), name(n/2))
		if err == nil {
			r.StatusMessage = "changed"
			_, err = s.Update(t.Context(), r)
		}
		if err != nil {
			t.Fatal(err)
		}
		if id := natstest.Receive(t, "a waiter returned", woken); id != r.ID {
			t.Errorf("the waiter of %s was woken, want %s", id, r.ID)
		}
		cancel()
		group.Wait()
		if len(woken) > 0 {
			t.Errorf("%d more waiters were woken", len(woken))
		}
		c.Kill(0)
	}
	row(t, fmt.Sprintf("%d waiters: memory of the process, bytes each, with a goroutine", n), "%d", per[0])
	row(t, "memory of the server, bytes each", "%d", per[1]-per[0])
}
