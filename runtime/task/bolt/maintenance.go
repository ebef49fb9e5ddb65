package bolt

import (
	"fmt"
	"io"

	"go.etcd.io/bbolt"

	"github.com/mcpwire/mcpwire/runtime/internal/boltfile"
	"github.com/mcpwire/mcpwire/runtime/task"
)

func (s *store) compact() (err error) {
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

func (s *store) backup(path string) (err error) {
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
