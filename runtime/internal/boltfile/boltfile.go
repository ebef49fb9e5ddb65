// Package boltfile compacts and copies the file of a bbolt database that is in use.
package boltfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
)

// compactPath returns the name of the file that Compact writes.
func compactPath(path string) string { return path + ".compact" }

// partialPath returns the name of a backup that is being written.
func partialPath(path string) string { return path + ".partial" }

// RemoveCompact removes the file that an interrupted Compact has left next to the database at path.
func RemoveCompact(path string) { os.Remove(compactPath(path)) }

// compactTransaction is the number of bytes that Compact writes in one transaction.
const compactTransaction = 1 << 20

// Compact replaces the file of db, at path, with a copy without free space. It passes the copy to
// replace, which must use it instead of db from then on, and closes db. The caller must prevent
// other writes to db. verify, which may be nil, checks the copy before it replaces the file; it
// receives the copy and the name of its file. If Compact fails before that, the file at path is
// unchanged. Compact panics if the file is so damaged that reading it causes a memory fault.
func Compact(db *bbolt.DB, path string, timeout time.Duration, verify func(*bbolt.DB, string) error, replace func(*bbolt.DB)) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	small := compactPath(path)
	os.Remove(small)
	compacted, err := Open(small, info.Mode().Perm(), timeout) // locked before it replaces the file
	if err != nil {
		return err
	}
	replaced := false
	defer func() {
		if !replaced {
			compacted.Close()
			os.Remove(small)
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := bbolt.Compact(compacted, db, compactTransaction); err != nil {
		return err
	}
	if verify != nil {
		if err := verify(compacted, small); err != nil {
			return err
		}
	}
	if err := os.Rename(small, path); err != nil {
		return err
	}
	replaced = true
	replace(compacted)
	db.Close() // ignore the error: its file has been replaced
	return SyncDir(filepath.Dir(path))
}

// Backup writes a copy of the database in the file own to the file path. write writes the content
// of the copy. While the copy is incomplete, it is in path + ".partial". Such a file from an
// interrupted Backup is replaced. The complete copy replaces an existing file at path.
func Backup(own, path string, write func(io.Writer) error) error {
	info, err := os.Stat(own)
	if err != nil {
		return err
	}
	if other, err := os.Stat(path); err == nil && os.SameFile(info, other) {
		return fmt.Errorf("%q is the store's own file", path)
	}
	// The name is fixed, so that repeated crashes leave at most one partial file.
	os.Remove(partialPath(path))
	f, err := os.OpenFile(partialPath(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it is renamed
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the names in a directory durable, where the file system supports it.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}
