// Command calls measures tool calls between a client and a server: in one process, over standard
// input and output, and over HTTP on the loopback address.
//
//	go run ./calls
//	go run ./calls -structs
//	go run ./calls -proxy
//	go run ./calls -embedded [-argument 1048576]
//
// The first compares plain calls with those of the other SDKs: a small object of arguments and a
// line of text as the result, through the plain calls of their APIs, with their default checks.
// Over HTTP all use the same pooling of connections, and "net/http alone" shows the cost of the
// exchange without decoding. The last tables are of revision 2026-07-28, which has no sessions.
//
// The second measures a tool that is a Go function from a struct to a struct, called by a client
// that knows its schemas. It compares this with a handler and a call over a bare session that
// convert the same structs by hand and check nothing, and with prepared messages whose values are
// not decoded.
//
// The third compares calls through a proxy with direct ones, for package proxy and for a proxy that
// is written with the official SDK and passes on tools alone. The proxy and the server behind it
// use the same transport. Over standard input and output, both are processes of their own.
//
// The fourth compares plain calls to servers of the other SDKs with tasks, and to the same servers
// without. -argument adds a string of this size to the arguments.
//
// The contestants take turns, so that other load of the machine affects all of them. The table has
// medians over the turns: the calls per second, and in parentheses the ratio to the first
// contestant in the neighboring turn; the processor time per call of both sides together, which
// depends less on other load, and its ratio; and the allocations per call in this process, which
// contains both sides except over standard input and output.
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

	"github.com/mcpwire/mcpwire/tools/bench/internal/processor"
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
	rounds := flags.Int("rounds", 5, "give each contestant this `NUMBER` of turns")
	only := flags.String("way", "", "measure only transports whose name contains `TEXT`")
	moved := flags.Bool("structs", false, "compare calls with structs")
	proxied := flags.Bool("proxy", false, "compare calls through proxies")
	embedded := flags.Bool("embedded", false, "compare plain calls to servers of other SDKs with and without tasks")
	size := flags.Int("argument", 0, "with -embedded, add a string of this `SIZE` to the arguments")
	turn := flags.Duration("time", time.Second, "let a turn take this `TIME`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	lists := [][]contestant{texts()}
	switch {
	case *moved:
		lists = [][]contestant{structs()}
	case *proxied:
		lists = [][]contestant{proxies()}
	case *embedded:
		lists = embeddings(*size)
	}
	for _, transport := range []string{inMemory, overStdio, overJSON, overSSE, overModern, overModernStdio} {
		if *only != "" && !strings.Contains(transport, *only) {
			continue
		}
		for _, list := range lists {
			for _, callers := range []int{1, 64} {
				if err := measure(ctx, out, list, transport, callers, *rounds, *turn); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// turn holds the measurements of one turn.
type turn struct{ rate, cost, bytes, allocations float64 }

// measure prints the table for one transport and a number of callers.
func measure(ctx context.Context, out io.Writer, all []contestant, transport string, callers, rounds int, length time.Duration) error {
	list := slices.DeleteFunc(slices.Clone(all), func(c contestant) bool { return c.ways[transport] == nil })
	if len(list) == 0 {
		return nil
	}
	turns := make([][]turn, len(list))
	for round := range rounds {
		for i := range list {
			if round%2 == 1 { // so that no contestant always follows the same one
				i = len(list) - 1 - i
			}
			t, err := calls(ctx, list[i].ways[transport], strings.Contains(transport, modernVersion), callers, length)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", list[i].name, transport, err)
			}
			turns[i] = append(turns[i], t)
		}
	}
	fmt.Fprintf(out, "%s, %d callers\n", transport, callers)
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

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// calls opens a connection and makes calls for a turn. It measures them without opening the connection. It
// fails if the connection is not modern, but should be.
func calls(ctx context.Context, open opener, modern bool, callers int, length time.Duration) (turn, error) {
	c, err := open(ctx)
	if err != nil {
		return turn{}, err
	}
	defer c.close()
	if modern && c.version != modernVersion {
		return turn{}, fmt.Errorf("speaks %q, want %q", c.version, modernVersion)
	}
	if err := c.call(ctx); err != nil {
		return turn{}, err
	}
	var n atomic.Int64
	var failure atomic.Value
	var earlier, later runtime.MemStats // unlike package metrics, they have counted all allocations
	runtime.ReadMemStats(&earlier)
	start, before := time.Now(), processor.Time()+processor.TimeOfChildren()
	end := start.Add(length)
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
	made := float64(n.Load())
	took := time.Since(start)
	runtime.ReadMemStats(&later)
	t := turn{
		rate:        made / took.Seconds(),
		bytes:       float64(later.TotalAlloc-earlier.TotalAlloc) / made,
		allocations: float64(later.Mallocs-earlier.Mallocs) / made,
	}
	if err, ok := failure.Load().(error); ok {
		return turn{}, err
	}
	if err := c.close(); err != nil {
		return turn{}, err
	}
	spent := processor.Time() + processor.TimeOfChildren() - before // a child counts when it has ended
	t.cost = float64(spent.Nanoseconds()) / 1e3 / made
	return t, nil
}
