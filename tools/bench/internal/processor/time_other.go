//go:build !unix

// Package processor reports the processor time that this process has used. It is not supported on
// this system.
package processor

import "time"

// Time returns 0.
func Time() time.Duration { return 0 }

// TimeOfChildren returns 0.
func TimeOfChildren() time.Duration { return 0 }
