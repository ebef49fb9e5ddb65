package bolt

import (
	"fmt"
	"io"

	"go.etcd.io/bbolt"

	"github.com/mcpwire/mcpwire/runtime/internal/boltfile"
	"github.com/mcpwire/mcpwire/runtime/task"
)

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
	return boltfile.Compact(s.db, s.path, lockTimeout, verify, func(db *bbolt.DB) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.db = db
	})
}

// Backup writes a consistent copy of the store to the file path. [Open] accepts the copy. While it
// is incomplete, the copy is in path + ".partial"; a file that an interrupted Backup has left there
// is replaced. The complete copy replaces an existing file at path.
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
	return boltfile.Backup(s.path, path, func(w io.Writer) error {
		return s.view(func(b buckets) error {
			_, err := b.tasks.Tx().WriteTo(w)
			return err
		})
	})
}
