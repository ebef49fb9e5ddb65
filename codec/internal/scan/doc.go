// Package scan implements the grammar of JSON (RFC 8259) as functions on bytes: finding the end of
// strings, numbers and values, checking and decoding them, escaping strings, and locating values.
// It does not depend on the Reader or the Writer. Long texts are scanned with vector instructions
// where an amd64 processor has AVX2; the build tag purego leaves them out.
package scan

// Sizes up to which a table or a scratch buffer is kept from one message to the next.
const (
	KeepSlots   = 1 << 10   // entries of a table
	KeepScratch = 256 << 10 // bytes
)
