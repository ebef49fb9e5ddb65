//go:build !unix

package main

import "time"

// processTime is not supported on this system.
func processTime() (spent time.Duration, ok bool) { return 0, false }
