package boltstore

import (
	"fmt"
	"io"

	"go.etcd.io/bbolt"

	"github.com/mcpwire/mcpwire/runtime/internal/boltfile"
)

func (s *store) health() error {
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

func (s *store) compact() (err error) {
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
	if err := s.health(); err != nil {
		return err
	}
	return boltfile.Compact(s.db, s.path, lockTimeout, nil, func(db *bbolt.DB) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.db = db
	})
}

func (s *store) backup(path string) (err error) {
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
