package doubling

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestCheckFindsOnlyQuadraticWork(t *testing.T) {
	for name, c := range map[string]struct {
		run     func(numbers []int)
		squared bool
	}{
		"a sum":                  {func(numbers []int) { sum(numbers) }, false},
		"sorting":                {func(numbers []int) { slices.Sort(slices.Clone(numbers)) }, false},
		"a growing slice":        {func(numbers []int) { join(numbers, false) }, false},
		"a copy for each number": {func(numbers []int) { join(numbers, true) }, true},
		"no work":                {func([]int) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			why := squared(Small, func(n int) func() {
				numbers := rand.Perm(n)
				return func() { c.run(numbers) }
			})
			if (why != "") != c.squared {
				t.Errorf("squared: %q", why)
			}
		})
	}
}

func sum(numbers []int) (s int) {
	for _, n := range numbers {
		s += n ^ s
	}
	return s
}

// join writes a byte for each number, into one buffer or into a new copy of the previous ones.
func join(numbers []int, copied bool) string {
	var b strings.Builder
	text := ""
	for range numbers {
		if copied {
			text += "x"
		} else {
			b.WriteByte('x')
		}
	}
	return text + b.String()
}
