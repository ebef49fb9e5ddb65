package durabletest

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	count      = flag.Int("handlers", 0, "number of random handlers of TestRandomHandlers; 0 for 500, or 100 with -short or the race detector; .ci/check plays the next 1500, too")
	seed       = flag.Uint64("seed", 0, "seed of the first handler; the default is 1, or a random one with -handlers")
	verbose    = flag.Bool("logs", false, "add the log of the servers to the history of a failure")
	survey     = flag.Bool("survey", false, "count all violations instead of ending at the first one")
	exhaustive = flag.Bool("exhaustive", false, "play all fates of each handler")
	only       = flag.String("only", "", "play only fates whose text matches a regular expression")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = 1 // so that go test finds the same each time
		if *count > 0 {
			*seed = rand.Uint64()
		}
	}
	debug.SetGCPercent(400) // most of what a play allocates is garbage at its end
	debug.SetMemoryLimit(256 << 20)
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

// fates calls each with the fates of a handler: with some random modes undisturbed, and with n
// random disturbances of tasks that are parked, or are not. With -exhaustive, it takes all of them.
// The undisturbed plays tell how often the store is used, so that disturbances hit.
func fates(t *testing.T, p *node, seed uint64, some, n int, each func(f fate, w *world)) {
	r := rand.New(rand.NewPCG(seed, 2))
	modes := []mode{inSession, inRounds, continued, relaxed, promoted, taskInSession, taskAtOnce}
	if !*exhaustive {
		r.Shuffle(len(modes), func(i, j int) { modes[i], modes[j] = modes[j], modes[i] })
		modes = modes[:some]
	}
	var disturbances [][]fate
	for _, m := range modes {
		if (m == continued || m == relaxed) && p.has((*node).takesSignal) {
			m = promoted // a call that was not a task when it waited for a signal must not become one
		}
		f := fate{mode: m}
		both := []bool{false, true}
		switch {
		case !f.tasks(), m == relaxed:
			both = both[:1]
		case !*exhaustive:
			both = []bool{r.IntN(2) == 0}
		}
		for _, f.parks = range both {
			w := play(t, p, f)
			each(f, w)
			if !w.overlapped { // in the first run, if nothing disturbs that
				disturbances = append(disturbances, disturbed(f, p, w.schedule.writes, w.schedule.operations, w.duration))
			}
		}
	}
	if *exhaustive {
		for _, f := range slices.Concat(disturbances...) {
			each(f, play(t, p, f))
		}
		return
	}
	for i := range min(n, n*len(disturbances)) {
		f := sample(disturbances[i%len(disturbances)], r)
		each(f, play(t, p, f))
	}
}

// sample returns a random fate. Each kind of disturbance has its share, however often the store is
// used.
func sample(all []fate, r *rand.Rand) fate {
	byKind := map[string][]fate{}
	for _, f := range all {
		byKind[f.kind()] = append(byKind[f.kind()], f)
	}
	kinds := slices.Sorted(maps.Keys(byKind))
	fates := byKind[kinds[r.IntN(len(kinds))]]
	return fates[r.IntN(len(fates))]
}

// disturbed returns the fates that differ from f by disturbances, of a call of a program that
// makes some writes and operations of the store, and takes some time.
func disturbed(f fate, p *node, writes, operations int, takes time.Duration) (out []fate) {
	add := func(change func(f *fate)) {
		with := f
		change(&with)
		out = append(out, with)
	}
	times := func(n int, set func(f *fate, at time.Duration)) {
		for i := range n {
			add(func(f *fate) { set(f, takes*time.Duration(2*i+1)/time.Duration(2*n)+time.Microsecond) })
		}
	}
	times(4, func(f *fate, at time.Duration) { f.cancel = at })
	switch f.mode {
	case inSession:
		return out
	case inRounds:
		add(func(f *fate) { f.restarts = true })
		add(func(f *fate) { f.partial = true })
		add(func(f *fate) { f.partial, f.restarts = true, true })
		times(4, func(f *fate, at time.Duration) { f.lost = at })
		return out
	}
	if f.begins() {
		add(func(f *fate) { f.partial = true })
	} else {
		for _, what := range []act{cancelBefore, cancelDuring, cancelAfter} {
			add(func(f *fate) { f.disturbances = []disturbance{{act: what, at: 1}} })
		}
	}
	if f.mode == relaxed {
		return out
	}
	times(6, func(f *fate, at time.Duration) { f.shutdown = at })
	stores := func(d ...disturbance) {
		add(func(f *fate) { f.disturbances = d })
		add(func(f *fate) { f.disturbances, f.closes = d, true })
		add(func(f *fate) { f.disturbances, f.fleet = d, true })
	}
	add(func(f *fate) { f.fleet = true })
	add(func(f *fate) { f.bolt = true })
	for at := 1; at <= writes; at++ {
		for _, what := range []act{crashBefore, crashAfter} {
			stores(disturbance{act: what, at: at})
			// and again, while the next process goes on
			stores(disturbance{act: what, at: at}, disturbance{act: crashBefore, at: at + 1 + at%4})
		}
		for _, what := range []act{shutBefore, shutAfter} {
			add(func(f *fate) { f.disturbances = []disturbance{{act: what, at: at}} })
			add(func(f *fate) {
				f.disturbances = []disturbance{{act: what, at: at}, {act: crashBefore, at: at + 1 + at%3}}
			})
		}
	}
	for i, c := range []change{renamed, inserted, removed} {
		for j, id := range p.steps(c) {
			for at := 1 + (i+j)%3; at <= writes; at += 3 {
				add(func(f *fate) {
					f.disturbances, f.change, f.changed = []disturbance{{act: crashAfter, at: at}}, c, id
				})
			}
		}
	}
	for i, what := range []absence{noTool, lateTool, otherVersion} {
		for at := 1 + i; at <= writes; at += 3 {
			add(func(f *fate) { f.disturbances, f.absent = []disturbance{{act: crashAfter, at: at}}, what })
			add(func(f *fate) { f.disturbances, f.absent = []disturbance{{act: shutAfter, at: at}}, what })
		}
	}
	times(4, func(f *fate, at time.Duration) { f.expires = max(at, 10*time.Millisecond) })
	for at := 2; at <= writes; at += 2 { // the task expires before or after the death of its process
		add(func(f *fate) {
			f.expires, f.disturbances = max(takes/2, 10*time.Millisecond), []disturbance{{act: crashAfter, at: at}}
		})
	}
	for at := 1; at <= operations; at++ {
		for _, what := range []act{failBefore, failAfter, delay} {
			for _, length := range []int{1, 3} {
				add(func(f *fate) {
					f.disturbances = []disturbance{{act: what, at: at, length: length, reads: true}}
				})
			}
		}
		add(func(f *fate) {
			f.fleet, f.disturbances = true, []disturbance{{act: failBefore, at: at, length: 2, reads: true}}
		})
	}
	return out
}

func TestRandomHandlers(t *testing.T) {
	n := *count
	if n == 0 {
		n = 500
		if testing.Short() || raceDetector {
			n = 100
		}
	}
	t.Logf("-seed %d", *seed)
	began := time.Now()
	plays := 0
	tally := map[string]int{}
	example := map[string]string{}
	for i := range n {
		s := *seed + uint64(i)
		p := program(s)
		fates(t, p, s, 2, 2, func(f fate, w *world) {
			plays++
			if len(w.violations) == 0 || t.Failed() || *only != "" && !regexp.MustCompile(*only).MatchString(f.String()) {
				return
			}
			if *survey {
				key := string(f.mode) + ": " + regexp.MustCompile(`[0-9]+([#/0-9]*)`).ReplaceAllString(w.violations[0], "N")
				tally[key]++
				example[key] = fmt.Sprintf("-seed %d: %s", s, f)
				return
			}
			report(t, s, w)
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d plays in %v", plays, time.Since(began))
	for _, key := range slices.SortedFunc(maps.Keys(tally), func(a, b string) int { return tally[b] - tally[a] }) {
		t.Logf("%6d %s (%s)", tally[key], key, example[key])
	}
}

// report makes a program that violates the model smaller, and prints it.
func report(t *testing.T, seed uint64, w *world) {
	t.Helper()
	p, f := w.program, w.fate
	for tries := 0; tries < 2000; {
		smaller := false
		for _, candidate := range p.smaller() {
			tries++
			if again := play(t, candidate, f); len(again.violations) > 0 {
				w, p, smaller = again, candidate, true
				break
			}
		}
		if !smaller {
			break
		}
	}
	t.Errorf("-seed %d -handlers 1: %s\n\n%s\n%s\n\n%s", seed, f, p, strings.Join(w.violations, "\n"), strings.Join(w.history, "\n"))
}
