package boltstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

func compactPath(path string) string { return path + ".compact" }

// Health returns why the last write failed, such as a full disk; nil if it did not, and [ErrClosed] after Close.
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

// compactTransaction is how many bytes Compact writes in a transaction.
const compactTransaction = 1 << 20

// Compact rewrites the file without the room that dropped events and sessions have left. It needs as much disk as the
// rest takes. Reads go on meanwhile, and writes wait. If it fails, the store goes on with the file that it has. It is not
// supported where an open file cannot be renamed, as on Windows.
func (s *Store) Compact() (err error) {
	defer func() {
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
	db, err := openDB(small, info.Mode().Perm()) // locked before it takes the place of the old one
	if err != nil {
		return err
	}
	if err = bbolt.Compact(db, s.db, compactTransaction); err == nil {
		err = os.Rename(small, path)
	}
	if err != nil {
		db.Close()
		os.Remove(small)
		return err
	}
	s.mu.Lock()
	old := s.db
	s.db = db
	s.mu.Unlock()
	old.Close() // its error does not matter: nothing of it is needed any more
	return syncDir(filepath.Dir(path))
}

// Backup writes a copy of the store, as it is at one moment, to the file path, which [Open] opens. It replaces a file that
// is there, once the copy is complete. Reads and writes go on meanwhile; a write for which the store's file has to grow
// may wait.
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
	own, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && os.SameFile(own, info) {
		return fmt.Errorf("%q is the store's own file", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".events-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it is renamed
	s.mu.RLock()
	err = s.db.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(f)
		return err
	})
	s.mu.RUnlock()
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}
