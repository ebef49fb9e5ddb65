//go:build !unix

package main

import "time"

// processTime does not know.
func processTime() (spent time.Duration, ok bool) { return 0, false }
