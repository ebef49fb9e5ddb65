// Command calls measures plain tool calls beside the other SDKs: how many a client and a server do per second, in one
// process and over standard input and output.
//
//	go run ./calls
//
// The contestants take turns, so that what else the machine does hits all of them; the table has the median round of
// each. All of them do the same: a call with a small object of arguments, which the tool answers with a line of
// text, through the plain calls of their APIs, with what these check by default.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
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
	turn := flags.Duration("time", time.Second, "how long a turn takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, way := range []string{"in memory", "stdio"} {
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
	list := contestants()
	rates := make([][]float64, len(list))
	for range rounds {
		for i, c := range list {
			open := c.inMemory
			if way == "stdio" {
				open = c.overStdio
			}
			rate, err := calls(ctx, open, callers, turn)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, way, err)
			}
			rates[i] = append(rates[i], rate)
		}
	}
	fmt.Fprintf(out, "%s, %d callers\n", way, callers)
	ours := 0.0
	for i, c := range list {
		slices.Sort(rates[i])
		median := rates[i][rounds/2]
		if i == 0 {
			ours = median
		}
		fmt.Fprintf(out, "  %-24s %8.0f calls/s  %5.2f times that is mcpwire\n", c.name, median, ours/median)
	}
	return nil
}

// calls opens a connection and returns how many calls per second it does.
func calls(ctx context.Context, open func(context.Context) (client, error), callers int, turn time.Duration) (float64, error) {
	c, err := open(ctx)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := c.call(ctx); err != nil {
		return 0, err
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
		return 0, err
	}
	if err, ok := failure.Load().(error); ok {
		return 0, err
	}
	return float64(n.Load()) / took.Seconds(), nil
}
