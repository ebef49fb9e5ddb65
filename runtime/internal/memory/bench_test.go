package memory

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// BenchmarkLockHold creates, updates and drops a million tasks from one goroutine and measures how
// long each step holds the store's lock. The longest time usually shows that the operating system
// has preempted the process, so p99.99 says more about the store.
func BenchmarkLockHold(b *testing.B) {
	const n = 1_000_000
	for range b.N {
		s := New()
		times := map[string][]time.Duration{}
		timed := func(step string, f func() error) {
			start := time.Now()
			err := f()
			times[step] = append(times[step], time.Since(start))
			if err != nil {
				b.Fatal(err)
			}
		}
		created := time.Now().UTC()
		for i := range n {
			r := task.Record{ID: fmt.Sprintf("%016x", i*7919), Owner: "o", Status: mcp.TaskStatusWorking, Created: created, TTL: time.Duration(i%1000+1) * time.Millisecond}
			timed("create", func() (err error) { r, err = s.Create(context.Background(), r); return err })
			r.Status = mcp.TaskStatusCompleted
			timed("update", func() error { return s.swap(&r) })
		}
		dropped := make([]*entry, 0, sweepBatch)
		for total := 0; total < n; total += len(dropped) {
			timed("drop", func() (err error) {
				dropped, _, err = s.drop(created.Add(time.Hour), sweepBatch, dropped[:0])
				return err
			})
		}
		for step, list := range times {
			slices.Sort(list)
			b.ReportMetric(float64(list[len(list)/2])/1e3, step+"-p50-µs")
			b.ReportMetric(float64(list[len(list)*9999/10000])/1e3, step+"-p99.99-µs")
			b.ReportMetric(float64(list[len(list)-1])/1e3, step+"-longest-µs")
		}
	}
}
