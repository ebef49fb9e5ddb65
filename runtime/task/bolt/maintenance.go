package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"go.etcd.io/bbolt"

	"github.com/mcpwire/mcpwire/runtime/task"
)

func compactPath(path string) string { return path + ".compact" }

// partialPath returns the name of a backup that is being written.
func partialPath(path string) string { return path + ".partial" }

// Compact rewrites the file without the space of dropped tasks. It needs as much free disk space as
// the records take. During the call, reads continue and writes block. If it fails, the store keeps
// using its current file. It is not supported where an open file cannot be renamed, as on Windows.
func (s *Store) Compact() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", task.ErrCorrupt, p)
		}
		if err != nil {
			err = fmt.Errorf("bolt: compact: %w", err)
		}
	}()
	s.maintenance.Lock()
	defer s.maintenance.Unlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.Health(); err != nil {
		return err
	}
	path, err := filepath.EvalSymlinks(s.path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	small := compactPath(path)
	os.Remove(small)
	// bbolt.Open locks the new file, before it replaces the old one.
	db, err := bbolt.Open(small, info.Mode().Perm(), &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	if err := s.replaceBy(db, small, path); err != nil {
		db.Close()
		os.Remove(small)
		return err
	}
	return syncDir(filepath.Dir(path))
}

// compactTransaction is the number of bytes that Compact writes in one transaction.
const compactTransaction = 1 << 20

// replaceBy copies the store to db, renames its file from small to path, and uses it from then on.
func (s *Store) replaceBy(db *bbolt.DB, small, path string) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if err := bbolt.Compact(db, s.db, compactTransaction); err != nil {
		return err
	}
	if err := verify(db, small); err != nil {
		return err
	}
	if err := os.Rename(small, path); err != nil {
		return err
	}
	s.mu.Lock()
	old := s.db
	s.db = db
	s.mu.Unlock()
	old.Close() // ignore the error: the old file has been replaced
	return nil
}

// Backup writes a consistent copy of the store to the file path, for [Open]. While it is
// incomplete, the copy is in path + ".partial"; a file that an interrupted Backup has left there is
// replaced. The complete copy replaces an existing file at path.
//
// Reads and writes continue during the call, unless a write needs a larger memory map of the
// store's file. That write, and all reads and writes after it, block until the copy is complete.
// The map doubles up to 1 GiB, and then grows by 1 GiB.
func (s *Store) Backup(path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("bolt: backup: %w", err)
		}
	}()
	s.maintenance.Lock()
	defer s.maintenance.Unlock()
	own, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && os.SameFile(own, info) {
		return fmt.Errorf("%q is the store's own file", path)
	}
	// The name is fixed, so that repeated crashes leave at most one partial file.
	os.Remove(partialPath(path))
	f, err := os.OpenFile(partialPath(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it is renamed
	err = s.view(func(b buckets) error {
		_, err := b.tasks.Tx().WriteTo(f)
		return err
	})
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
