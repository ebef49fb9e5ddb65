//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package boltfile

import "os"

// unlock does nothing: on this system the lock ends with the file or the process.
func unlock(*os.File) {}
