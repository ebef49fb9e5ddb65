//go:build unix

package main

import (
	"syscall"
	"time"
)

// processorTime returns the processor time of this process and of its ended children.
func processorTime() time.Duration {
	var sum time.Duration
	for _, target := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(target, &u); err == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}
