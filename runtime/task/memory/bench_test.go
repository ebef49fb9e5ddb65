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

// BenchmarkHold creates, changes and drops a million tasks, with nobody else there, and measures for how long each
// step holds the store's lock. The system may take the processor away meanwhile: p99.99 tells more about the
// store than the longest time, which is the system's as a rule.
func BenchmarkHold(b *testing.B) {
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
		gone := make([]*entry, 0, sweepPortion)
		for dropped := 0; dropped < n; dropped += len(gone) {
			timed("drop", func() (err error) {
				gone, _, err = s.drop(created.Add(time.Hour), sweepPortion, gone[:0])
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
