package main

import (
	"bytes"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestWorse(t *testing.T) {
	for _, x := range []struct {
		unit        string
		before, now []float64
		want        bool
	}{
		{"cpu ns", []float64{100, 101, 102}, []float64{107, 108, 109}, true},
		{"cpu ns", []float64{100, 101, 107}, []float64{107, 108, 109}, false}, // the rounds overlap
		{"cpu ns", []float64{100, 101, 102}, []float64{103, 104, 105}, false}, // less than 5 %
		{"cpu ns", []float64{107, 108, 109}, []float64{100, 101, 102}, false}, // better
		{"wait ns", []float64{100, 101, 102}, []float64{107, 108, 109}, true},
		{"allocs", []float64{10, 10, 12}, []float64{11, 11, 11}, true},
		{"allocs", []float64{10, 10, 10}, []float64{11, 10, 11}, false}, // the least is equal
		{"allocs", []float64{0, 0, 0}, []float64{0.4, 0.4, 0.4}, false},
		{"allocs", []float64{0, 0, 0}, []float64{1, 1, 1}, true},
		{"bytes", []float64{1, 1}, []float64{16, 16}, false},
		{"bytes", []float64{1000, 1000}, []float64{1051, 1051}, true},
		{"heap bytes", []float64{100}, []float64{164}, false},
		{"heap bytes", []float64{100}, []float64{165}, true},
		{"stack bytes", []float64{-66}, []float64{180}, false}, // no stacks of their own
		{"stack bytes", []float64{4096}, []float64{8192}, true},
		{"stack bytes", []float64{0}, []float64{2048}, true},
		{"cpu ns", nil, []float64{1}, false}, // new
	} {
		r := row{unit: x.unit, rounds: [2][]float64{x.before, x.now}}
		if got := r.worse(tolerance); got != x.want {
			t.Errorf("%s, %v and then %v: worse is %v", x.unit, x.before, x.now, got)
		}
	}
}

func TestWorseAllowsSlower(t *testing.T) {
	for unit, want := range map[string]bool{"cpu ns": false, "wait ns": false, "allocs": true, "heap bytes": true} {
		r := row{unit: unit, rounds: [2][]float64{{1000}, {1200}}}
		if got := r.worse(1.25); got != want {
			t.Errorf("%s, 1.2 times as much: worse is %v", unit, got)
		}
	}
}

func TestNewLines(t *testing.T) {
	got := newLines("# Title\n\n- call: dearer: because\n", "# Title\n\n- call: dearer: because\n- list, in memory: checks: more\ntext: no item\n- no reason\n")
	if want := map[string]string{"list, in memory": "checks: more"}; !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFaultyFiles(t *testing.T) {
	got := faultyFiles("# x/program\nratchet/program/b.go:3:4: undefined: a\nratchet/program/a.go:3: x\nratchet/program/b.go:7:1: y\n\tother/c.go:1: z\n")
	if want := []string{"a.go", "b.go"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The command compares the commit of the work tree with the work tree.
func TestRatchet(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	if err := exec.Command("git", "rev-parse", "--verify", "HEAD").Run(); err != nil {
		t.Skip("without git:", err)
	}
	var out bytes.Buffer
	err := run(t.Context(), []string{"-rounds", "1", "-turn", "1ms", "-run", "wake-up, in memory", "HEAD"}, &out)
	if err != nil && !strings.Contains(err.Error(), "worse than") { // one round proves nothing
		t.Fatal(err)
	}
	for _, unit := range []string{"cpu ns", "bytes", "allocs", "wait ns"} {
		if !strings.Contains(out.String(), unit+"  wake-up, in memory") {
			t.Errorf("%s is missing in:\n%s", unit, &out)
		}
	}
	if strings.Contains(out.String(), "cannot build") {
		t.Errorf("HEAD is the tree:\n%s", &out)
	}
}
