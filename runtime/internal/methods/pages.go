package methods

import (
	"errors"
	"fmt"
)

// MaxPages is how many pages a list may have.
const MaxPages = 10_000

// Errors of [Cursors.Next].
var (
	ErrLoop    = errors.New("the cursor leads back to an earlier page")
	ErrTooMany = fmt.Errorf("more than %d pages", MaxPages)
)

// Cursors checks the cursors of one list (MCP pagination). The zero value is ready to use. Its
// memory does not grow with the number of cursors.
type Cursors struct {
	pages int
	mark  string // the cursor of an earlier page, compared with later ones
	power int    // the number of the page at which the mark moves
}

// Next reports whether another page follows. next is the next cursor of the current page, or nil;
// an empty string is a valid cursor. Next fails with [ErrLoop] if the cursors repeat, at the latest
// after three times as many pages as there are different cursors, and with [ErrTooMany] after
// [MaxPages] pages.
func (c *Cursors) Next(next *string) (more bool, err error) {
	if next == nil {
		return false, nil
	}
	c.pages++
	switch {
	case c.pages > 1 && *next == c.mark:
		return false, ErrLoop
	case c.pages >= MaxPages:
		return false, ErrTooMany
	case c.pages > c.power: // Brent's algorithm: the mark moves in steps of growing length
		c.mark, c.power = *next, max(2*c.power, 1)
	}
	return true, nil
}
