package codec

import (
	"encoding/binary"
	"hash/maphash"
)

// A raw value that was checked when it was read need not be checked again when it is written. So that this is known,
// it has its seal behind it, in the capacity of the slice: a hash that nobody outside can foresee. Whoever changes or
// cuts the value breaks the seal, and the value is checked like any other.

const sealSize = 8

var sealSeed = maphash.MakeSeed() // never changes

// appendSealed appends s and its seal to dst.
func appendSealed(dst, s []byte) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, s...), maphash.Bytes(sealSeed, s))
}

// sealed returns a copy of s with its seal behind it.
func sealed(s []byte) []byte {
	return appendSealed(make([]byte, 0, len(s)+sealSize), s)[:len(s)]
}

// seal seals s in place and returns it. There must be room for that behind it.
func seal(s []byte) []byte { return appendSealed(s[:0], s)[: len(s) : len(s)+sealSize] }

// isSealed reports whether s is just as it was when it was sealed. It looks behind s only where there is room for a
// seal and nothing else, so that it does not get in the way of others who use that memory.
func isSealed(s []byte) bool {
	return cap(s)-len(s) == sealSize &&
		binary.LittleEndian.Uint64(s[len(s):cap(s)]) == maphash.Bytes(sealSeed, s)
}
