// Command calls measures tool calls: how many a client and a server do per second, in one process, over standard input
// and output, and over HTTP on the loopback address.
//
//	go run ./calls
//	go run ./calls -structs
//
// The first compares plain calls with those of the other SDKs: a small object of arguments, which the tool answers with
// a line of text, through the plain calls of their APIs, with what these check by default. Over HTTP they share a way
// of pooling connections, and there is what such an exchange costs when nobody looks at what is in it.
//
// The second compares a tool that is a Go function from a struct to a struct, called by a client that knows its
// schemas, with a handler and a call over a bare session which move the same structs by hand and check nothing, and
// with one that sends the same messages without looking at the values in them.
//
// The contestants take turns, so that what else the machine does hits all of them. The table has medians of the turns:
// the calls per second, how that compares with the first contestant in the turn next to it, the processor time that a
// call takes on both sides together, which depends less on what else goes on, with the same comparison, and what is
// allocated for a call in this process, which both sides share except over standard input and output.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil && err != flag.ErrHelp {
		fmt.Fprintln(os.Stderr, "calls:", err)
		os.Exit(1)
	}
}

// serveFlag makes the program a server over standard input and output.
const serveFlag = "-serve"

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 2 && args[0] == serveFlag {
		return serve(ctx, args[1])
	}
	flags := flag.NewFlagSet("calls", flag.ContinueOnError)
	rounds := flags.Int("rounds", 5, "how many turns each contestant gets")
	only := flags.String("way", "", "measure only ways whose name has this `text` in it")
	moved := flags.Bool("structs", false, "compare calls that move structs")
	turn := flags.Duration("time", time.Second, "how long a turn takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	list := texts()
	if *moved {
		list = structs()
	}
	for _, way := range []string{inMemory, overStdio, overJSON, overSSE} {
		if *only != "" && !strings.Contains(way, *only) {
			continue
		}
		for _, callers := range []int{1, 64} {
			if err := measure(ctx, out, list, way, callers, *rounds, *turn); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn is what is measured in one.
type turn struct{ rate, cost, bytes, allocations float64 }

// measure prints the table for one way to the server and a number of callers.
func measure(ctx context.Context, out io.Writer, all []contestant, way string, callers, rounds int, length time.Duration) error {
	list := slices.DeleteFunc(slices.Clone(all), func(c contestant) bool { return c.ways[way] == nil })
	turns := make([][]turn, len(list))
	for range rounds {
		for i, c := range list {
			before, bytes, objects := processorTime(), allocated("/gc/heap/allocs:bytes"), allocated("/gc/heap/allocs:objects")
			n, took, err := calls(ctx, c.ways[way], callers, length)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, way, err)
			}
			turns[i] = append(turns[i], turn{
				float64(n) / took.Seconds(), float64((processorTime() - before).Microseconds()) / float64(n),
				float64(allocated("/gc/heap/allocs:bytes")-bytes) / float64(n), float64(allocated("/gc/heap/allocs:objects")-objects) / float64(n),
			})
		}
	}
	fmt.Fprintf(out, "%s, %d callers\n", way, callers)
	for i, c := range list {
		of := func(f func(own, first turn) float64) float64 {
			var values []float64
			for k, t := range turns[i] {
				values = append(values, f(t, turns[0][k]))
			}
			return median(values)
		}
		fmt.Fprintf(out, "  %-17s %8.0f calls/s (%5.3f) %7.1f µs processor time (%6.3f) %7.0f B in %4.0f allocations\n", c.name,
			of(func(t, _ turn) float64 { return t.rate }), of(func(t, first turn) float64 { return t.rate / first.rate }),
			of(func(t, _ turn) float64 { return t.cost }), of(func(t, first turn) float64 { return t.cost / first.cost }),
			of(func(t, _ turn) float64 { return t.bytes }), of(func(t, _ turn) float64 { return t.allocations }))
	}
	return nil
}

// allocated is how much this process has allocated, by one of the names of runtime/metrics.
func allocated(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// calls opens a connection and returns how many calls it does in a turn, and how long that took.
func calls(ctx context.Context, open opener, callers int, turn time.Duration) (int64, time.Duration, error) {
	c, err := open(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer c.close()
	if err := c.call(ctx); err != nil {
		return 0, 0, err
	}
	var n atomic.Int64
	var failure atomic.Value
	start := time.Now()
	end := start.Add(turn)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for time.Now().Before(end) {
				if err := c.call(ctx); err != nil {
					failure.Store(err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	if err := c.close(); err != nil {
		return 0, 0, err
	}
	if err, ok := failure.Load().(error); ok {
		return 0, 0, err
	}
	return n.Load(), took, nil
}
