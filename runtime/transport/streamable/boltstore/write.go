package boltstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// maxBatch is how many writes share a transaction.
const maxBatch = 256

// write is a change on its way to the disk.
type write struct {
	f    func(*bbolt.Tx) error
	done chan error // holds one
}

// do makes a change, and returns when it is on the disk.
func (s *Store) do(ctx context.Context, f func(*bbolt.Tx) error) error {
	w := &write{f, make(chan error, 1)}
	select {
	case s.writes <- w:
	case <-s.closing:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-w.done:
		return err
	case <-s.closing:
	}
	s.writer.Wait() // it may have been among the last
	select {
	case err := <-w.done:
		return err
	default:
		return ErrClosed
	}
}

// write makes changes, as many as there are at once, and drops old sessions, until the store is closed.
func (s *Store) write() {
	prune := time.NewTicker(max(s.o.MaxAge/8, time.Second))
	defer prune.Stop()
	for {
		select {
		case w := <-s.writes:
			s.commit(s.gather(w))
		case <-prune.C:
			s.transact(s.prune) // what fails is tried again; see Health
		case <-s.closing:
			return
		}
	}
}

// transact makes a change in a transaction of its own, and notes whether that failed.
func (s *Store) transact(f func(*bbolt.Tx) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	refused := false
	err := s.db.Update(func(tx *bbolt.Tx) error {
		err := f(tx)
		refused = err != nil
		return err
	})
	switch {
	case err == nil:
		s.fault.Store(nil)
	case !refused: // by f, which is the fault of what was written
		fault := fmt.Errorf("boltstore: %w", err)
		s.fault.Store(&fault)
	}
	return err
}

// gather returns a write and those that wait behind it.
func (s *Store) gather(first *write) []*write {
	batch := []*write{first}
	for len(batch) < maxBatch {
		select {
		case w := <-s.writes:
			batch = append(batch, w)
		default:
			return batch
		}
	}
	return batch
}

var errOther = errors.New("boltstore: another write of the transaction has failed")

// commit makes the changes of a batch, in one transaction if none of them fails, else each in its own.
func (s *Store) commit(batch []*write) {
	err := s.transact(func(tx *bbolt.Tx) error {
		for _, w := range batch {
			if err := w.f(tx); err != nil {
				return fmt.Errorf("%w: %w", errOther, err)
			}
		}
		return nil
	})
	for _, w := range batch {
		own := err
		if errors.Is(err, errOther) {
			own = s.transact(w.f)
		}
		if own != nil {
			own = fmt.Errorf("boltstore: %w", own)
		}
		w.done <- own
	}
}
