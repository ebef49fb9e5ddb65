//go:build unix

package main

import (
	"syscall"
	"time"
)

// processTime returns how long the process has had a processor, all threads together.
func processTime() (spent time.Duration, ok bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
