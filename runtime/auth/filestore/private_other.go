//go:build !unix

package filestore

import (
	"fmt"
	"os"
)

// openFile opens a regular file for reading. It does not follow symbolic links.
func openFile(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return os.Open(path)
}

// openLock opens or creates a lock file.
func openLock(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) }

// checkPrivate always succeeds: the permissions of the directory protect the file.
func checkPrivate(string, os.FileInfo) error { return nil }
