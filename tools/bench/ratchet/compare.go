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

// measureAgain repeats what seems to be worse. The new measurements take the place of the old ones.
func (c *comparison) measureAgain(ctx context.Context, rounds int) error {
	var names []string
	for _, r := range c.rows {
		if r.worse() && !slices.Contains(names, r.name) {
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
	tolerance = 1.05 // of the median
	few       = 0.5  // allocations and bytes per operation: some come from outside of it
	stackPage = 64   // bytes per object: stacks are counted in blocks that objects share
)

// worse reports whether the cost has grown.
func (r *row) worse() bool {
	before, now := r.rounds[0], r.rounds[1]
	if len(before) == 0 || len(now) == 0 || stat.Median(now) <= stat.Median(before)*tolerance {
		return false
	}
	growth := stat.Median(now) - stat.Median(before)
	switch r.unit {
	case "allocs", "bytes":
		return growth > few
	case "heap bytes", "stack bytes":
		return growth > stackPage
	}
	return slices.Min(now) > slices.Max(before)
}

func (c *comparison) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "base\twork tree\tratio\t\tcost\tbenchmark\n")
	for _, r := range c.rows {
		before, now := stat.Median(r.rounds[0]), stat.Median(r.rounds[1])
		ratio, mark := "", ""
		if before > 0 {
			ratio = fmt.Sprintf("%.2f", now/before)
		}
		if r.worse() {
			mark = "worse"
		}
		fmt.Fprintf(w, "%.4g\t%.4g\t%s\t%s\t%s\t  %s\n", before, now, ratio, mark, r.unit, r.name)
	}
	w.Flush()
}
