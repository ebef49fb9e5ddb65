package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/mcpwire/mcpwire/tools/bench/internal/processor"
	"github.com/mcpwire/mcpwire/tools/bench/internal/stat"
)

// plan configures a measurement.
type plan struct {
	rounds int                  // number of turns of each contestant
	turn   time.Duration        // approximate length of a turn
	clock  func() time.Duration // returns the time since an arbitrary start
}

// clock returns a function for processor time. If the system does not report that, or wall is set,
// it returns one for clock time, whose results do not hold on a machine with other load.
func clock(wall bool) (now func() time.Duration, name string) {
	if processor.Time() > 0 && !wall {
		return processor.Time, "CPU time"
	}
	start := time.Now()
	return func() time.Duration { return time.Since(start) }, "wall time"
}

// sample is the measurement of one contestant for one operation on one message.
type sample struct {
	Contestant string  `json:"contestant"`
	Median     float64 `json:"nsPerOp"`    // of the turns
	Min        float64 `json:"minNsPerOp"` // of the turns
	Allocs     int64   `json:"allocsPerOp"`
	Bytes      int64   `json:"bytesPerOp"` // allocated

	turns []float64 // nanoseconds per operation, by round
	role  role
}

// runner is a contestant during a measurement.
type runner struct {
	contestant contestant
	run        func() error
}

// measure lets the runners take turns. Each has one turn in every round, so that a slow machine
// affects all, and the order changes, so that no runner always follows the same one. A turn begins
// with a few operations that are not measured. All work runs on one processor. Otherwise, another
// processor would collect garbage for free.
//
// measure does not collect garbage before a turn: that would shrink the heap after turns that
// allocate nothing, and the next runner would need milliseconds to get memory from the system. So
// garbage of one runner may be collected in the turn of another. But each runner causes as many
// collections as its allocations require.
func (p plan) measure(runners []runner) ([]sample, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	samples := make([]sample, len(runners))
	counts := make([]int, len(runners))
	for i, r := range runners {
		s := &samples[i]
		s.Contestant, s.role = r.contestant.name, r.contestant.role
		var err error
		if counts[i], err = p.calibrate(r); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Contestant, err)
		}
		s.Allocs, s.Bytes = allocations(r.run, min(counts[i], 100))
	}
	order := rand.New(rand.NewPCG(1, 2)) // the same order in every run
	for range p.rounds {
		for _, i := range order.Perm(len(runners)) {
			p.repeat(runners[i].run, 1+counts[i]/20)
			samples[i].turns = append(samples[i].turns, p.repeat(runners[i].run, counts[i]))
		}
	}
	for i := range samples {
		samples[i].Median = stat.Median(samples[i].turns)
		samples[i].Min = slices.Min(samples[i].turns)
	}
	return samples, nil
}

// calibrate returns the number of operations that fill a turn, at least one.
func (p plan) calibrate(r runner) (int, error) {
	if err := r.run(); err != nil {
		return 0, err
	}
	n := 1
	for {
		took := time.Duration(p.repeat(r.run, n) * float64(n))
		if took >= p.turn/4 {
			return max(1, int(float64(n)*float64(p.turn)/float64(took))), nil
		}
		n *= 2
	}
}

// repeat runs an operation n times and returns the nanoseconds per operation. Errors were checked
// before.
func (p plan) repeat(run func() error, n int) float64 {
	start := p.clock()
	for range n {
		_ = run()
	}
	return float64(p.clock()-start) / float64(n)
}

// allocations returns the allocations and allocated bytes per operation: the average over n
// operations, rounded down to exclude occasional allocations of the runtime.
func allocations(run func() error, n int) (count, bytes int64) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	_ = run()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		_ = run()
	}
	runtime.ReadMemStats(&after)
	return int64(after.Mallocs-before.Mallocs) / int64(n), int64(after.TotalAlloc-before.TotalAlloc) / int64(n)
}

// ratio returns the speed of a relative to b: the median over the rounds, in each of which both had
// turns within a short time.
func ratio(a, b sample) float64 {
	list := make([]float64, len(a.turns))
	for i := range list {
		list[i] = b.turns[i] / a.turns[i]
	}
	return stat.Median(list)
}
