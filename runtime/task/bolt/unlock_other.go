//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package bolt

import "os"

// unlock does nothing: here the lock goes with the file, or with the process.
func unlock(*os.File) {}
