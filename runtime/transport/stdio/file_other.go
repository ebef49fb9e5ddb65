//go:build !unix

package stdio

import "os"

// interruptible returns a file for the same stream whose reads and writes end when it is closed.
// There is none on this system.
func interruptible(*os.File) (file *os.File, ok bool) { return nil, false }
