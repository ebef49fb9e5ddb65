package jetstream

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// The clock follows the servers. If their time jumps, the clock of the process decides whether the
// present or the earlier time is right.
func TestClockOfServers(t *testing.T) {
	for _, each := range []struct {
		name    string
		servers []time.Duration // how far the servers are ahead of this process, minute by minute
		want    time.Duration
	}{
		{"no sample", nil, 0},
		{"local clock behind", []time.Duration{time.Hour}, time.Hour},
		{"local clock ahead", []time.Duration{-time.Hour, -time.Hour}, -time.Hour},
		{"drift", []time.Duration{time.Hour, time.Hour + time.Second, time.Hour + 2*time.Second, time.Hour + 3*time.Second}, time.Hour + 3*time.Second},
		{"servers jump forward", []time.Duration{0, time.Hour}, 0},
		{"servers jump back", []time.Duration{0, -time.Hour, -time.Hour}, 0},
		{"servers are put right", []time.Duration{time.Hour, 0}, 0},
		{"local clock wrong and servers jump", []time.Duration{time.Hour, 3 * time.Hour}, time.Hour},
	} {
		t.Run(each.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c clock
				for _, ahead := range each.servers {
					time.Sleep(time.Minute)
					begun := time.Now()
					time.Sleep(time.Second)
					c.sample(begun, begun.Add(time.Second/2+ahead))
				}
				time.Sleep(time.Minute)
				if got := time.Until(c.now()); got != each.want {
					t.Errorf("the clock is %v ahead, want %v", got, each.want)
				}
			})
		})
	}
}

// A response that arrived long ago says nothing about the present time.
func TestClockIgnoresLateSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		begun := time.Now()
		time.Sleep(attemptTimeout + 1)
		c.sample(begun, begun.Add(time.Hour))
		if off := time.Until(c.now()); off != 0 {
			t.Errorf("the clock is %v ahead", off)
		}
	})
}

// Records without labels have a format that earlier versions read. Those versions refuse records with
// labels, because they would not leave the tasks to members with the labels.
func TestLabelsAloneChangeFormat(t *testing.T) {
	for want, labels := range map[byte][]string{2: nil, 3: {"gpu"}} {
		s := &stored{record: task.Record{ID: "x", Labels: labels}}
		if data := s.encode("subject", nil); data[4] != want {
			t.Errorf("labels %q: format %d, want %d", labels, data[4], want)
		}
	}
}

// Calls that have collided do not all try again at the same times.
func TestRetriesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{options: Options{Timeout: time.Minute}, lifetime: t.Context()}
		begun := time.Now()
		var group sync.WaitGroup
		var mu sync.Mutex
		times := map[time.Duration]bool{}
		for range 100 {
			group.Go(func() {
				attempts := 0
				s.retry(t.Context(), "test", func(context.Context) error {
					if attempts++; attempts < 8 {
						return errOutdated
					}
					mu.Lock()
					defer mu.Unlock()
					times[time.Since(begun)] = true
					return nil
				})
			})
		}
		group.Wait()
		if len(times) < 90 {
			t.Errorf("100 calls succeed at %d different times", len(times))
		}
	})
}
