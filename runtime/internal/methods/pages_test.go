package methods_test

import (
	"fmt"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/internal/methods"
)

// A loop of any length, after any number of pages, is found within a few rounds.
func TestLoopsAreFound(t *testing.T) {
	for begin := range 40 {
		for length := 1; length < 40; length++ {
			var c methods.Cursors
			for n := 0; ; n++ {
				i := n
				if n >= begin {
					i = begin + (n-begin)%length
				}
				more, err := c.Next(new(fmt.Sprint(i)))
				if err == methods.ErrLoop {
					break
				}
				if err != nil || !more {
					t.Fatalf("beginning %d, loop %d: %v, %v", begin, length, more, err)
				}
				if n > 4*(begin+length) {
					t.Fatalf("beginning %d, loop %d: not found after %d pages", begin, length, n)
				}
			}
		}
	}
}

func TestListsEnd(t *testing.T) {
	var c methods.Cursors
	for n := 1; n < methods.MaxPages; n++ {
		if more, err := c.Next(new(fmt.Sprint(n))); !more || err != nil {
			t.Fatalf("page %d: %v, %v", n, more, err)
		}
	}
	if more, err := c.Next(new("another")); more || err != methods.ErrTooMany {
		t.Errorf("after the last page: %v, %v", more, err)
	}
	if more, err := new(methods.Cursors).Next(nil); more || err != nil {
		t.Errorf("the only page: %v, %v", more, err)
	}
	c = methods.Cursors{}
	if more, err := c.Next(new("")); !more || err != nil {
		t.Errorf("an empty cursor: %v, %v", more, err)
	}
}
