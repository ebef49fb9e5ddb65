package boltstore

import (
	"fmt"
	"io"

	"go.etcd.io/bbolt"

	"github.com/mcpwire/mcpwire/runtime/internal/boltfile"
)

// Health returns the error of the last write, for example because the disk is full. It returns nil
// if that write succeeded, and [ErrClosed] after Close.
func (s *Store) Health() error {
	select {
	case <-s.closing:
		return ErrClosed
	default:
	}
	if fault := s.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

// Compact rewrites the file without the free space that dropped events and sessions have left.
// Meanwhile it needs as much additional disk space as the remaining data. Reads continue during the
// call, and writes wait. If Compact fails, the store continues with its current file. It is not
// supported where an open file cannot be renamed, as on Windows.
func (s *Store) Compact() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%q is damaged: %v", s.path, p)
		}
		if err != nil {
			err = fmt.Errorf("boltstore: compact: %w", err)
		}
	}()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.Health(); err != nil {
		return err
	}
	return boltfile.Compact(s.db, s.path, lockTimeout, nil, func(db *bbolt.DB) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.db = db
	})
}

// Backup writes a consistent copy of the store to the file path, for [Open]. While it is
// incomplete, the copy is in path + ".partial"; a file that an interrupted Backup has left there is
// replaced. The complete copy replaces an existing file at path. Reads and writes continue during
// the call; a write for which the store's file has to grow may block.
func (s *Store) Backup(path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("boltstore: backup: %w", err)
		}
	}()
	s.upkeep.Lock()
	defer s.upkeep.Unlock()
	select {
	case <-s.closing:
		return ErrClosed
	default:
	}
	return boltfile.Backup(s.path, path, func(w io.Writer) error {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.db.View(func(tx *bbolt.Tx) error {
			_, err := tx.WriteTo(w)
			return err
		})
	})
}
