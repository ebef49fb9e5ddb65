//go:build !amd64 || purego

package scan

// On these processors, and with the build tag purego, there are no vector instructions to use: the
// code that otherwise follows these functions does everything.

const vectors = false

func escapeBlocks([]byte, string, *[256]uint64) (n, i int, beyond bool) { return }

func plainText(string) (n int) { return }

func plainBytes([]byte) (n int) { return }

func contentBlocks([]byte, *[256]byte) (n int, beyond, escaped bool) { return }

func utf8Text(string) (ok bool) { return }

func utf8Bytes([]byte) (ok bool) { return }
