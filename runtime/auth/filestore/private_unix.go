//go:build unix

package filestore

import (
	"fmt"
	"os"
	"syscall"
)

// openFile opens a file for reading. It does not follow symbolic links, and does not block on a
// FIFO.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

// openLock opens or creates a lock file. It does not follow symbolic links.
func openLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
}

// checkPrivate checks that the current user owns a file and that other users can neither read nor
// write it.
func checkPrivate(path string, info os.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("other users can read or write %s (mode %#o): run chmod 600 on it", path, mode)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user", path)
	}
	return nil
}
