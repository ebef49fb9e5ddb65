package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/tools/bench/internal/stat"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		list []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 100}, 3.5}} {
		before := slices.Clone(c.list)
		if got := stat.Median(c.list); got != c.want || !slices.Equal(c.list, before) {
			t.Errorf("median of %v is %v, want %v", before, got, c.want)
		}
	}
}

func TestRatioIsTakenWithinRounds(t *testing.T) {
	// The machine was ten times slower for both in the second round, and for one of them in the
	// last.
	a, b := sample{turns: []float64{10, 100, 10, 100}}, sample{turns: []float64{20, 200, 20, 20}}
	if got := ratio(a, b); got != 2 {
		t.Errorf("got %v, want 2", got)
	}
}

func TestContestantsTakeTurns(t *testing.T) {
	var order []string
	work := func(name string) runner {
		return runner{contestant{name: name}, func() error {
			if len(order) == 0 || order[len(order)-1] != name {
				order = append(order, name)
			}
			time.Sleep(time.Millisecond)
			return nil
		}}
	}
	now, _ := clock(true) // sleeping takes no processor time
	samples, err := plan{3, time.Millisecond, now}.measure([]runner{work("a"), work("b"), work("c")})
	if err != nil {
		t.Fatal(err)
	}
	// All runners are calibrated first. Two consecutive turns of one runner appear as one.
	got := strings.Join(order, "")
	if !strings.HasPrefix(got, "abc") || strings.Repeat("abc", len(got)/3) == got {
		t.Errorf("the order is %s", got)
	}
	for _, name := range []string{"a", "b", "c"} {
		if n := strings.Count(got, name); n < 3 || n > 4 {
			t.Errorf("%s has %d turns in %s", name, n, got)
		}
	}
	for _, s := range samples {
		if len(s.turns) != 3 || s.Median < 1e6 || s.Min > s.Median {
			t.Errorf("%+v", s)
		}
	}
}

func TestClocksAdvance(t *testing.T) {
	for _, wall := range []bool{false, true} {
		now, name := clock(wall)
		start := now()
		for begun := time.Now(); time.Since(begun) < 5*time.Millisecond || now() == start; {
		}
		if now() <= start || wall != (name == "wall time") && !wall == (name == "CPU time") {
			t.Errorf("%s: wrong clock for wall=%t, or it does not advance", name, wall)
		}
	}
}

func TestErrorEndsMeasurement(t *testing.T) {
	fault := errors.New("failed")
	now, _ := clock(false)
	_, err := plan{1, time.Millisecond, now}.measure([]runner{{contestant{name: "a"}, func() error { return fault }}})
	if !errors.Is(err, fault) || !strings.HasPrefix(err.Error(), "a: ") {
		t.Errorf("got %v", err)
	}
}

func TestAllocationsAreCounted(t *testing.T) {
	var kept []byte
	count, size := allocations(func() error { kept = make([]byte, 1024); return nil }, 10)
	if count != 1 || size != 1024 {
		t.Errorf("%d allocations, %d bytes", count, size)
	}
	_ = kept
}
