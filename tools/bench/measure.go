package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
)

// plan says how to measure.
type plan struct {
	rounds int                  // how often each contestant has its turn
	turn   time.Duration        // how long a turn is, about
	clock  func() time.Duration // measures time from any start
}

// clock returns the time that the process has had a processor, or the time of day where the system does not tell
// the former, or if asked to. Only the first holds on a machine that is busy with something else.
func clock(wall bool) (now func() time.Duration, name string) {
	if _, ok := processTime(); ok && !wall {
		return func() time.Duration {
			spent, _ := processTime()
			return spent
		}, "CPU time"
	}
	start := time.Now()
	return func() time.Duration { return time.Since(start) }, "wall time"
}

// sample is what was measured of one contestant with one operation on one message.
type sample struct {
	Contestant string  `json:"contestant"`
	Median     float64 `json:"nsPerOp"`    // of the turns
	Min        float64 `json:"minNsPerOp"` // of the turns
	Allocs     int64   `json:"allocsPerOp"`
	Bytes      int64   `json:"bytesPerOp"` // allocated

	turns []float64 // nanoseconds for one operation, by round
	role  role
}

// runner is a contestant at work.
type runner struct {
	contestant contestant
	run        func() error
}

// measure lets the runners have their turns: one each in every round, so that what slows the machine down for a
// while slows them all, and in another order each time, so that nobody always follows the same one. A turn begins
// with a few operations that do not count. All work is done on one processor, that of the garbage collector included,
// which otherwise an idle one would do for free.
//
// No turn begins with a collection of garbage, for that has the heap shrink after turns that allocate nothing; to get
// the memory back from the system takes whoever is next milliseconds. What one leaves behind may so be collected in
// the turn of another, but everybody causes as many collections as follow from what he allocates.
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
	order := rand.New(rand.NewPCG(1, 2)) // the same for everybody who measures
	for range p.rounds {
		for _, i := range order.Perm(len(runners)) {
			p.repeat(runners[i].run, 1+counts[i]/20)
			samples[i].turns = append(samples[i].turns, p.repeat(runners[i].run, counts[i]))
		}
	}
	for i := range samples {
		samples[i].Median = median(samples[i].turns)
		samples[i].Min = slices.Min(samples[i].turns)
	}
	return samples, nil
}

// calibrate returns how many operations fill a turn, at least one.
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

// repeat runs an operation n times and returns how many nanoseconds one took. Errors were looked for before.
func (p plan) repeat(run func() error, n int) float64 {
	start := p.clock()
	for range n {
		_ = run()
	}
	return float64(p.clock()-start) / float64(n)
}

// allocations returns how many allocations one operation makes, and how many bytes they take, on average over n
// operations, rounded down: what the runtime allocates now and then on its own does not count.
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

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	n := len(list)
	if n == 0 {
		return 0
	}
	return (list[(n-1)/2] + list[n/2]) / 2
}

// ratio returns how many times as fast as b a is: the median over the rounds, in each of which both had their turns
// within a short time.
func ratio(a, b sample) float64 {
	list := make([]float64, len(a.turns))
	for i := range list {
		list[i] = b.turns[i] / a.turns[i]
	}
	return median(list)
}
