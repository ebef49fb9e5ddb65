// Command calls measures plain tool calls beside the other SDKs: how many a client and a server do per second, in one
// process, over standard input and output, and over HTTP on the loopback address.
//
//	go run ./calls
//
// The contestants take turns, so that what else the machine does hits all of them; the table has the median round of
// each, the processor time that a call takes on both sides together, which depends less on what else goes on, and the
// bytes that are allocated for it in this process, which both sides share except over standard input and output. All
// of them do the same: a call with a small object of arguments, which the tool answers with a line of text, through
// the plain calls of their APIs, with what these check by default. Over HTTP they share a way of pooling
// connections, and there is what such an exchange costs when nobody looks at what is in it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
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
	turn := flags.Duration("time", time.Second, "how long a turn takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, way := range []string{inMemory, overStdio, overJSON, overSSE} {
		if *only != "" && !strings.Contains(way, *only) {
			continue
		}
		for _, callers := range []int{1, 64} {
			if err := measure(ctx, out, way, callers, *rounds, *turn); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure prints the table for one way to the server and a number of callers.
func measure(ctx context.Context, out io.Writer, way string, callers, rounds int, turn time.Duration) error {
	list := slices.DeleteFunc(contestants(), func(c contestant) bool { return c.ways[way] == nil })
	rates := make([][]float64, len(list))
	costs := make([][]float64, len(list))
	bytes := make([][]float64, len(list))
	for range rounds {
		for i, c := range list {
			before, memory := processorTime(), allocated()
			n, took, err := calls(ctx, c.ways[way], callers, turn)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, way, err)
			}
			rates[i] = append(rates[i], float64(n)/took.Seconds())
			costs[i] = append(costs[i], float64((processorTime()-before).Microseconds())/float64(n))
			bytes[i] = append(bytes[i], float64(allocated()-memory)/float64(n))
		}
	}
	fmt.Fprintf(out, "%s, %d callers\n", way, callers)
	ours, cost := median(rates[0]), median(costs[0])
	for i, c := range list {
		fmt.Fprintf(out, "  %-16s %8.0f calls/s (mcpwire: %5.2f times that) %8.1f µs processor time (%5.2f times ours) %8.1f kB allocated\n",
			c.name, median(rates[i]), ours/median(rates[i]), median(costs[i]), median(costs[i])/cost, median(bytes[i])/1000)
	}
	return nil
}

// allocated is how many bytes this process has allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
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
