package wire

import (
	"hash/maphash"
	"sync/atomic"
)

// A raw value that was checked when it was read need not be checked again when it is written. This
// file keeps the hashes of recently checked values. A hash depends on the text alone and not on its
// address: a copy of a checked value has the same hash, and a changed value has another one. The
// hash is seeded, so that a peer cannot construct two values with the same hash.

var (
	checkedSeed  = maphash.MakeSeed() // never changes
	checkedTexts [1 << 13]atomic.Uint64
)

// cheapToCheck is the size in bytes up to which checking a value again is as cheap as looking up
// its hash.
const cheapToCheck = 4

// noteChecked stores the hash of s, which must be one JSON value without white space around it.
func noteChecked(s []byte) {
	if len(s) <= cheapToCheck {
		return
	}
	sum := textSum(s)
	if slot := checkedSlot(sum); slot.Load() != sum {
		slot.Store(sum)
	}
}

// wasChecked reports whether noteChecked was called with the same text. It returns false if another
// text has since taken the same slot.
func wasChecked(s []byte) bool {
	if len(s) <= cheapToCheck {
		return false
	}
	sum := textSum(s)
	return checkedSlot(sum).Load() == sum
}

// checkedSlot returns the slot for the hash sum.
func checkedSlot(sum uint64) *atomic.Uint64 { return &checkedTexts[sum%uint64(len(checkedTexts))] }

// textSum returns a hash of s that is not 0.
func textSum(s []byte) uint64 { return max(maphash.Bytes(checkedSeed, s), 1) }
