package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mcpwire/mcpwire/tools/bench/internal/stat"
)

// comparison holds what the programs of both commits have measured: first the base, then the work
// tree.
type comparison struct {
	programs [2]string
	turn     time.Duration
	slower   float64 // by which factor times may grow
	rows     []*row
}

// row is one cost of one benchmark. Rounds are the measurements of both programs.
type row struct {
	name, unit string
	rounds     [2][]float64
}

// measure lets both programs run for a number of rounds those benchmarks whose name contains a text.
func (c *comparison) measure(ctx context.Context, rounds int, only string) error {
	names := [2][]string{}
	for i, program := range c.programs {
		text, err := output(ctx, ".", nil, program, "-names")
		if err != nil {
			return err
		}
		names[i] = strings.Split(text, "\n")
	}
	both := slices.DeleteFunc(names[1], func(name string) bool {
		return !strings.Contains(name, only) || !slices.Contains(names[0], name)
	})
	if len(both) == 0 {
		return fmt.Errorf("no benchmark of both commits contains %q", only)
	}
	slices.Sort(both)
	return c.take(ctx, rounds, both)
}

// confirmations is how often what seems to be worse is measured again.
const confirmations = 3

// measureAgain repeats what seems to be worse. The new measurements take the place of the old ones.
func (c *comparison) measureAgain(ctx context.Context, rounds int) error {
	var names []string
	for _, r := range c.rows {
		if r.worse(c.slower) && !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	for _, r := range c.rows {
		if slices.Contains(names, r.name) {
			r.rounds = [2][]float64{}
		}
	}
	return c.take(ctx, rounds, names)
}

func (c *comparison) take(ctx context.Context, rounds int, names []string) error {
	if len(names) == 0 {
		return nil
	}
	args := append([]string{"-turn", c.turn.String()}, names...)
	for round := range rounds {
		for i := range c.programs {
			if round%2 == 1 { // so that none always follows the other
				i = 1 - i
			}
			text, err := output(ctx, ".", nil, c.programs[i], args...)
			if err != nil {
				return err
			}
			for line := range strings.Lines(text) {
				var result struct {
					Name  string
					Costs map[string]float64
				}
				if err := json.Unmarshal([]byte(line), &result); err != nil {
					return err
				}
				for _, unit := range slices.Sorted(maps.Keys(result.Costs)) {
					r := c.row(result.Name, unit)
					r.rounds[i] = append(r.rounds[i], result.Costs[unit])
				}
			}
		}
	}
	return nil
}

// row returns the row of a cost, which it adds if it is new.
func (c *comparison) row(name, unit string) *row {
	i := slices.IndexFunc(c.rows, func(r *row) bool { return r.name == name && r.unit == unit })
	if i < 0 {
		i, c.rows = len(c.rows), append(c.rows, &row{name: name, unit: unit})
	}
	return c.rows[i]
}

// Growth that does not count.
const (
	tolerance = 1.05 // by default for times
	few       = 0.5  // allocations per operation: some come from outside of it
	fewBytes  = 16   // bytes per operation
	fewHeap   = 64   // bytes per object
	// Bytes of stacks per object: a quarter of the smallest stack. The runtime counts whole blocks,
	// free stacks in its caches included: up to 0.4 MB for all objects of a weighing together.
	fewStack = 512
)

// cost returns what one of the two programs pays: the median of a time, and the least of anything
// else, to which other work of the process only adds, such as filling pools anew after a collection
// of garbage.
func (r *row) cost(program int) float64 {
	if r.isTime() {
		return stat.Median(r.rounds[program])
	}
	return slices.Min(r.rounds[program])
}

func (r *row) isTime() bool { return strings.HasSuffix(r.unit, " ns") }

// worse reports whether the cost has grown, a time by more than the factor slower.
func (r *row) worse(slower float64) bool {
	if len(r.rounds[0]) == 0 || len(r.rounds[1]) == 0 {
		return false
	}
	before, now := r.cost(0), r.cost(1)
	switch {
	case r.isTime():
		return now > before*slower && slices.Min(r.rounds[1]) > slices.Max(r.rounds[0])
	case r.unit == "heap bytes":
		return now > before*tolerance && now-before > fewHeap
	case r.unit == "stack bytes":
		return now > before*tolerance && now-before > fewStack
	case r.unit == "bytes":
		return now > before*tolerance && now-before > fewBytes
	}
	return now > before*tolerance && now-before > few
}

func (c *comparison) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "base\twork tree\tratio\t\tcost\tbenchmark\n")
	for _, r := range c.rows {
		before, now := r.cost(0), r.cost(1)
		ratio, mark := "", ""
		if before > 0 {
			ratio = fmt.Sprintf("%.2f", now/before)
		}
		if r.worse(c.slower) {
			mark = "worse"
		}
		fmt.Fprintf(w, "%.4g\t%.4g\t%s\t%s\t%s\t  %s\n", before, now, ratio, mark, r.unit, r.name)
	}
	w.Flush()
}
