//go:build linux || darwin

package scan

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// TestVectorCodeStaysWithinText scans texts that lie directly before and directly after memory
// pages without access, so that an access beyond the text crashes.
func TestVectorCodeStaysWithinText(t *testing.T) {
	size := os.Getpagesize()
	page := func() []byte {
		memory, err := syscall.Mmap(-1, 0, 3*size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Munmap(memory) })
		for _, guard := range [][]byte{memory[:size], memory[2*size:]} {
			if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
				t.Fatal(err)
			}
		}
		return memory[size : 2*size : 2*size]
	}
	from, to := page(), page()
	for _, thing := range []string{"", "\n", `\n`, `\`, "🌊", "\xf0\x9f", `"`} {
		for n := range 300 {
			for _, text := range []string{strings.Repeat("x", n) + thing, strings.Repeat("x", n) + thing + strings.Repeat("é", 70), strings.Repeat(thing, n)} {
				for _, place := range [][]byte{from[:len(text):len(text)], from[size-len(text):]} {
					copy(place, text)
					checkText(t, unsafe.String(unsafe.SliceData(place), len(text)), place, to)
				}
			}
		}
	}
}
