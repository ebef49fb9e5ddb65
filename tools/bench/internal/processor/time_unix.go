//go:build unix

// Package processor reports the processor time that this process has used.
package processor

import (
	"syscall"
	"time"
)

// Time returns the processor time of all threads of this process.
func Time() time.Duration { return of(syscall.RUSAGE_SELF) }

// TimeOfChildren returns the processor time of the ended children of this process.
func TimeOfChildren() time.Duration { return of(syscall.RUSAGE_CHILDREN) }

func of(target int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(target, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
