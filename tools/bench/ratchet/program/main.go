// Command program measures what a program pays that uses mcpwire as the README shows. Command
// ratchet builds it with two commits and compares them.
//
// It prints one line of JSON for each benchmark. The arguments are the names of benchmarks to run;
// without any, it runs all.
//
// Each file registers its own benchmarks, so that ratchet can leave out a file that an old commit
// cannot build. The files in the folders of testdata take the place of those of the same name for
// commits whose API differs.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/mcpwire/mcpwire/tools/bench/internal/processor"
)

// benchmark is something that a program does again and again.
type benchmark struct {
	name string
	// open prepares it. Close ends what open has begun, and waits for child processes, whose
	// processor time counts from then on.
	open func(ctx context.Context) (do func() error, close func() error, err error)
	// latencies are what do has measured itself, if it is not nil.
	latencies *[]time.Duration
}

// state is something that a program holds many of.
type state struct {
	name string
	// hold makes n of them.
	hold func(ctx context.Context, n int) (release func(), err error)
}

// result is a line of output: costs of one operation, or of one object that is held, by unit.
type result struct {
	Name  string
	Costs map[string]float64
}

var (
	benchmarks []benchmark
	states     []state
)

func main() {
	turn := flag.Duration("turn", 300*time.Millisecond, "repeat each benchmark for this `TIME`")
	list := flag.Bool("names", false, "print the names of the benchmarks")
	child := flag.Bool("serve", false, "serve over standard input and output")
	flag.Parse()
	if *list {
		for _, s := range states {
			fmt.Println(s.name)
		}
		for _, b := range benchmarks {
			fmt.Println(b.name)
		}
		return
	}
	if err := run(context.Background(), *turn, *child, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "program:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, turn time.Duration, child bool, names []string) error {
	if child {
		return serveStdio(ctx)
	}
	out := json.NewEncoder(os.Stdout)
	wanted := func(name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	for _, s := range states {
		if !wanted(s.name) {
			continue
		}
		costs, err := weigh(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err := out.Encode(result{s.name, costs}); err != nil {
			return err
		}
	}
	for _, b := range benchmarks {
		if !wanted(b.name) {
			continue
		}
		costs, err := measure(ctx, b, turn)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		if err := out.Encode(result{b.name, costs}); err != nil {
			return err
		}
	}
	return nil
}

// least is how often a benchmark is repeated at least, so that what a process does beside it counts
// for little.
const least = 100

// measure repeats a benchmark for a turn.
func measure(ctx context.Context, b benchmark, turn time.Duration) (map[string]float64, error) {
	do, end, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	for warm := time.Now(); time.Since(warm) < turn/4; {
		if err := do(); err != nil {
			end()
			return nil, err
		}
	}
	runtime.GC()
	var before, after runtime.MemStats // unlike package metrics, they have counted all allocations
	runtime.ReadMemStats(&before)
	spent := processor.Time()
	n, start := 0.0, time.Now()
	for ; n < least || time.Since(start) < turn; n++ {
		if err := do(); err != nil {
			end()
			return nil, err
		}
	}
	spent = processor.Time() - spent
	runtime.ReadMemStats(&after)
	// A child has served the repetitions of the warm-up as well. Its start and its end count for
	// less than a thousandth of the calls of a turn.
	children, all := processor.TimeOfChildren(), n*1.25
	if err := end(); err != nil {
		return nil, err
	}
	cost := float64(spent)/n + float64(processor.TimeOfChildren()-children)/all
	costs := map[string]float64{"cpu ns": cost, "bytes": float64(after.TotalAlloc-before.TotalAlloc) / n, "allocs": float64(after.Mallocs-before.Mallocs) / n}
	if b.latencies != nil {
		slices.Sort(*b.latencies)
		costs["wait ns"] = float64((*b.latencies)[len(*b.latencies)/2])
	}
	return costs, nil
}

// weigh makes many objects and returns the memory of one.
func weigh(ctx context.Context, s state) (map[string]float64, error) {
	const n = 2000
	warm, err := s.hold(ctx, 10) // what is made once
	if err != nil {
		return nil, err
	}
	defer warm()
	heap, stack := inUse()
	release, err := s.hold(ctx, n)
	if err != nil {
		return nil, err
	}
	defer release()
	moreHeap, moreStack := inUse()
	return map[string]float64{"heap bytes": (moreHeap - heap) / n, "stack bytes": (moreStack - stack) / n}, nil
}

// inUse returns the bytes of live objects and of stacks.
func inUse() (heap, stack float64) {
	time.Sleep(200 * time.Millisecond) // goroutines that end
	runtime.GC()
	runtime.GC()
	return float64(counter("/memory/classes/heap/objects:bytes")), float64(counter("/memory/classes/heap/stacks:bytes"))
}

func counter(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
