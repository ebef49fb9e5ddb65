package lazyctx

// GrowStack grows the stack of the calling goroutine to the size that handling a message needs. The
// stack would otherwise reach it in steps, and each step copies the whole stack. Call it near the
// start of the goroutine, while there is little to copy.
//
//go:noinline
func GrowStack() {
	var room [5 << 10]byte
	touch(&room)
}

//go:noinline
func touch(room *[5 << 10]byte) { room[0] = 1 }
