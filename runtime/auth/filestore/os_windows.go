package filestore

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

// Flags and errors of LockFileEx.
const (
	lockExclusive       = 2
	lockFailImmediately = 1
	errLockViolation    = syscall.Errno(33)
)

// excludesProcesses reports whether a lock excludes other processes.
const excludesProcesses = true

// lockFile locks a file for this process. ok is false if another process has locked it.
func lockFile(f *os.File) (ok bool, err error) {
	var at syscall.Overlapped
	done, _, err := lockFileEx.Call(f.Fd(), lockExclusive|lockFailImmediately, 0, 1, 0, uintptr(unsafe.Pointer(&at)))
	switch {
	case done != 0:
		return true, nil
	case errors.Is(err, errLockViolation), errors.Is(err, syscall.ERROR_IO_PENDING):
		return false, nil
	}
	return false, err
}
