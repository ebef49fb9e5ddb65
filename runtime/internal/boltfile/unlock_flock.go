//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package boltfile

import (
	"os"
	"syscall"
)

// unlock releases the lock on a file that bbolt was opening when it panicked. Closing the file is
// not enough: it is still mapped, and the mapping keeps the lock.
func unlock(f *os.File) { syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
