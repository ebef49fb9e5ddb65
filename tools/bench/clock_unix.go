//go:build unix

package main

import (
	"syscall"
	"time"
)

// processTime returns the processor time of all threads of the process.
func processTime() (spent time.Duration, ok bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
