package rerun_test

import (
	"math"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
)

// Pauses double up to the longest one, however long that is, less half at most.
func TestPauseOfRetry(t *testing.T) {
	for _, longest := range []time.Duration{1, 2, 5, 64, time.Minute, 1 << 62, math.MaxInt64} {
		for _, backoff := range []time.Duration{1, 3, time.Second, 1 << 61, math.MaxInt64} {
			for n := 1; n < 100; n++ {
				want := min(math.Ldexp(float64(backoff), n-1), float64(longest))
				got := rerun.Retry{Backoff: backoff, MaxBackoff: longest}.Pause(n)
				if got < 0 || got > longest || float64(got) > want || float64(got) < want/2-1 {
					t.Errorf("Backoff %d, MaxBackoff %d: pause %d is %d, want %g", backoff, longest, n, got, want)
				}
			}
		}
	}
}
