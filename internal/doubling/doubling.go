// Package doubling checks that the cost of work grows linearly with its input, not quadratically.
package doubling

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// Small is the size of the small input, in the unit of prepare.
const Small = 2000

// The large input is factor times the small one. It may cost factor*slack times the time and memory
// of the small one; the slack is for caches, growing slices and logarithms. Quadratic work costs
// factor*factor times as much.
const (
	factor = 32
	slack  = 16
	little = 128 // bytes per n that are ignored; a small input may get them from a pool
	quick  = 500 // nanoseconds per n that are ignored; a small input may fit into the caches
)

// Check fails the test if the memory or time of run grows with the square of n. Prepare returns run
// for an input of size n; the call of prepare is not measured. Check skips the test with the flag
// -short, and under the race detector, which makes it many times slower and cannot find a race in a
// single goroutine.
//
// Time is the processor time of the goroutine's thread, so other load on the machine does not
// matter. On operating systems that do not report it per thread, Check compares memory only. It
// uses the smallest figure of several runs.
func Check(t *testing.T, prepare func(n int) (run func())) {
	t.Helper()
	check(t, Small, prepare)
}

// CheckQuick is Check with inputs of half the size, for the tests that make many checks.
func CheckQuick(t *testing.T, prepare func(n int) (run func())) {
	t.Helper()
	check(t, Small/2, prepare)
}

func check(t *testing.T, size int, prepare func(n int) (run func())) {
	t.Helper()
	if Race || testing.Short() {
		t.Skip("long, above all with the race detector")
	}
	if why := squared(size, prepare); why != "" {
		t.Error(why)
	}
}

// squared describes quadratic growth, or returns "" if there is none.
func squared(size int, prepare func(n int) (run func())) (why string) {
	small, large := prepare(size), prepare(size*factor)
	a, b := first(small), measure(large)
	for attempt := 0; ; attempt++ {
		time, memory := max(a.time, time.Duration(size)*quick)*factor*slack, max(a.memory, uint64(size)*little)*factor*slack
		if b.time <= time && b.memory <= memory {
			return ""
		}
		if attempt == 20 || attempt >= 2 && (b.time > 3*time || b.memory > memory) {
			return fmt.Sprintf("n = %d takes %v and %d bytes of memory; n = %d takes %v and %d bytes", size, a.time, a.memory, size*factor, b.time, b.memory)
		}
		b = b.least(measure(large))
	}
}

// first runs f often enough for a stable measurement.
func first(f func()) cost {
	c := measure(f)
	for range 5 {
		if c.time > 100*time.Millisecond {
			break
		}
		c = c.least(measure(f))
	}
	return c
}

// Memory returns the smallest number of bytes that f allocates in several runs.
func Memory(f func()) uint64 {
	c := measure(f)
	for range 4 {
		c = c.least(measure(f))
	}
	return c.memory
}

type cost struct {
	time   time.Duration
	memory uint64
}

func (c cost) least(d cost) cost { return cost{min(c.time, d.time), min(c.memory, d.memory)} }

func measure(f func()) cost {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	runtime.LockOSThread()
	start := threadTime()
	f()
	took := threadTime() - start
	runtime.UnlockOSThread()
	runtime.ReadMemStats(&after)
	return cost{took, after.TotalAlloc - before.TotalAlloc}
}
