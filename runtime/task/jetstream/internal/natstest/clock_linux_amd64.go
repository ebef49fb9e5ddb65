package natstest

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// The runtime calls clock_gettime of the kernel's shared library through a variable. clockGettime
// takes its place and adds offset to the wall clock. So all packages of the process see the same
// time. The variables have the size of a register and are set before other goroutines exist.
var (
	clockGettimeReal uintptr // the function of the kernel
	clockOffset      *int64  // in seconds; in memory that the test shares
)

// kernelClock returns what the runtime calls, or 0 if it makes system calls instead.
func kernelClock() uintptr

// replaceClock makes the runtime call clockGettime.
func replaceClock()

// canSetClock reports whether useClock works.
func canSetClock() bool { return kernelClock() != 0 }

// useClock makes the wall clock of this process that of a [Clock], whose file is at path.
func useClock(path string) error {
	if clockGettimeReal = kernelClock(); clockGettimeReal == 0 || clockOffset != nil {
		return errors.ErrUnsupported
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	memory, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	clockOffset = (*int64)(unsafe.Pointer(&memory[0]))
	replaceClock()
	return nil
}
