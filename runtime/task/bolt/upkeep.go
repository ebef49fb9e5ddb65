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

// partialPath is the name of a backup while it is being written.
func partialPath(path string) string { return path + ".partial" }

// Compact rewrites the file without the space that dropped tasks have left. It needs as much free
// disk space as the records take. Reads go on meanwhile, and writes wait. If it fails, the store
// keeps using its current file. It is not supported where an open file cannot be renamed, as on
// Windows.
func (s *Store) Compact() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", task.ErrCorrupt, p)
		}
		if err != nil {
			err = fmt.Errorf("bolt: compact: %w", err)
		}
	}()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
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
	// The new file is locked before it takes the place of the old one.
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

// compactTransaction is how many bytes Compact writes in a transaction.
const compactTransaction = 1 << 20

// replaceBy fills the database of the file small, and goes on with it in the place of the file path.
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
	old.Close() // an error does not matter: the old file is not needed any more
	return nil
}

// Backup writes a copy of the store, as it is at one moment, to the file path, which [Open] opens. It
// replaces a file that is there, once the copy is complete. Until then, the copy is in path + ".partial";
// the next Backup to path replaces one that an interrupted Backup has left. Reads and writes go on meanwhile, unless a
// write needs a larger memory map of the store's file. That write, and all reads and writes after it,
// wait until the copy is complete. The map doubles up to 1 GiB, and then grows by 1 GiB.
func (s *Store) Backup(path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("bolt: backup: %w", err)
		}
	}()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	own, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && os.SameFile(own, info) {
		return fmt.Errorf("%q is the store's own file", path)
	}
	// The name is fixed, so that a process that dies in the middle leaves one file, not one each time.
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
