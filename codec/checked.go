package codec

import (
	"hash/maphash"
	"sync/atomic"
)

// A raw value that was checked when it was read need not be checked again when it is written. So
// that this is known, the hashes of the last such values are remembered. They say nothing about
// where a value lies: a copy of it is known, too, and one that was changed is not. The hash is
// seeded, so that it cannot be foreseen which values share one.

var (
	checkedSeed  = maphash.MakeSeed() // never changes
	checkedTexts [1 << 13]atomic.Uint64
)

// fewBytes is the size up to which checking a value again costs no more than remembering it.
const fewBytes = 4

// noteChecked remembers that s is one JSON value without white space around it.
func noteChecked(s []byte) {
	if len(s) <= fewBytes {
		return
	}
	sum := textSum(s)
	if slot := checkedSlot(sum); slot.Load() != sum {
		slot.Store(sum)
	}
}

// wasChecked reports whether noteChecked was called with the same text, as far as that is
// remembered.
func wasChecked(s []byte) bool {
	if len(s) <= fewBytes {
		return false
	}
	sum := textSum(s)
	return checkedSlot(sum).Load() == sum
}

func checkedSlot(sum uint64) *atomic.Uint64 { return &checkedTexts[sum%uint64(len(checkedTexts))] }

// textSum returns a hash of s that is not 0.
func textSum(s []byte) uint64 { return max(maphash.Bytes(checkedSeed, s), 1) }
