//go:build !purego

package scan

// Long texts are scanned with vector instructions if the processor has AVX2: escaping and checking
// UTF-8 are several times faster with them. Each function here processes whole blocks and returns
// how far it got. The portable code, which other processors and the build tag purego use for all of
// the text, processes the rest.

// vectors reports whether the functions below may be called.
var vectors = hasAVX2() // never changes

// escapeBlocks writes s to dst with the escapes in table, and stops near the end of s or dst. It
// returns the number of bytes written to dst, the number of bytes read from s, and whether any byte
// read is beyond ASCII. It may change bytes of dst after those written.
//
//go:noescape
func escapeBlocks(dst []byte, s string, table *[256]uint64) (n, i int, beyond bool)

// plainText returns the length of the longest prefix of s that is ASCII and needs no escape,
// rounded down to a multiple of 64.
//
//go:noescape
func plainText(s string) (n int)

// plainBytes is plainText for bytes.
//
//go:noescape
func plainBytes(data []byte) (n int)

// contentBlocks scans string content, including the two-byte escapes in short. It stops at or
// before the first quote, control character or other escape, but never between a backslash and the
// byte that it escapes. It returns the number of bytes scanned, whether any of them may be beyond
// ASCII, and whether they include escapes.
//
//go:noescape
func contentBlocks(data []byte, short *[256]byte) (n int, beyond, escaped bool)

// utf8Text reports whether s, which has at least 64 bytes, is UTF-8.
//
//go:noescape
func utf8Text(s string) (ok bool)

// utf8Bytes is utf8Text for bytes.
//
//go:noescape
func utf8Bytes(data []byte) (ok bool)

// hasAVX2 reports whether the processor has AVX2 and the operating system saves its registers.
func hasAVX2() bool {
	const (
		osxsave, avx = 1 << 27, 1 << 28 // of function 1, in ecx
		avx2         = 1 << 5           // of function 7, in ebx
		registers    = 1<<1 | 1<<2      // those of SSE and AVX
	)
	last, _, _ := cpuid(0)
	if last < 7 {
		return false
	}
	if _, _, ecx := cpuid(1); ecx&osxsave == 0 || ecx&avx == 0 || savedState()&registers != registers {
		return false
	}
	_, ebx, _ := cpuid(7)
	return ebx&avx2 != 0
}

func cpuid(function uint32) (eax, ebx, ecx uint32)

func savedState() (low uint32)
