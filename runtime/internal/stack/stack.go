// Package stack makes room on stacks.
package stack

// Grow makes the stack of a goroutine, which is near its beginning, as large as it takes to handle a message. The stack
// would come to that size anyway, but in steps, each of which copies what is there by then; now that is next to
// nothing.
//
//go:noinline
func Grow() {
	var room [5 << 10]byte
	touch(&room)
}

//go:noinline
func touch(room *[5 << 10]byte) { room[0] = 1 }
