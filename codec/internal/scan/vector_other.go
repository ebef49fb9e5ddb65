//go:build !amd64 || purego

package scan

// Other processors, and builds with the tag purego, use no vector instructions. These functions
// process nothing, so the portable code processes all of the text.

const vectors = false

func escapeBlocks([]byte, string, *[256]uint64) (n, i int, beyond bool) { return }

func plainText(string) (n int) { return }

func plainBytes([]byte) (n int) { return }

func contentBlocks([]byte, *[256]byte) (n int, beyond, escaped bool) { return }

func utf8Text(string) (ok bool) { return }

func utf8Bytes([]byte) (ok bool) { return }
