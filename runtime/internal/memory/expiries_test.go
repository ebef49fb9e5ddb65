package memory

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/task"
)

func TestExpiriesAreOrdered(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var x expiries
	var want, got []time.Duration
	start := time.Unix(1_800_000_000, 0).UTC()
	first := func() {
		got = append(got, x.at(0).TTL)
		x.removeFirst()
	}
	for n := range 5000 {
		ttl := time.Duration(1 + random.Int64N(300_000)) // several within one microsecond
		x.add(&entry{task.Record{Created: start, TTL: ttl}})
		want = append(want, ttl)
		if n%3 == 2 {
			slices.Sort(want)
			first()
			if got[len(got)-1] != want[0] {
				t.Fatalf("after %d entries: first is %v, want %v", n, got[len(got)-1], want[0])
			}
			want = want[1:]
		}
	}
	slices.Sort(want)
	got = nil
	for x.len > 0 {
		first()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
