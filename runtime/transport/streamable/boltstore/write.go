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

// write is a pending change.
type write struct {
	f    func(*bbolt.Tx) error
	done chan error // buffers one
}

// do applies a change, and returns when it is persisted.
func (s *store) do(ctx context.Context, f func(*bbolt.Tx) error) error {
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
	s.writer.Wait() // the change may have been in the last batch
	select {
	case err := <-w.done:
		return err
	default:
		return ErrClosed
	}
}

// write applies pending changes in batches, and deletes old sessions, until the store is closed.
func (s *store) write() {
	prune := time.NewTicker(max(s.o.MaxAge/8, time.Second))
	defer prune.Stop()
	for {
		select {
		case w := <-s.writes:
			s.commit(s.gather(w))
		case <-prune.C:
			s.transact(s.prune) // a failure is retried; see Health
		case <-s.closing:
			return
		}
	}
}

// transact applies a change in its own transaction, and records whether the transaction failed.
func (s *store) transact(f func(*bbolt.Tx) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	rejected := false
	err := s.db.Update(func(tx *bbolt.Tx) error {
		err := f(tx)
		rejected = err != nil
		return err
	})
	switch {
	case err == nil:
		s.fault.Store(nil)
	case !rejected: // an error of f is a fault of the data, not of the file
		fault := fmt.Errorf("boltstore: %w", err)
		s.fault.Store(&fault)
	}
	return err
}

// gather returns a write and the writes that are pending after it.
func (s *store) gather(first *write) []*write {
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

var errOther = errors.New("boltstore: another write of the transaction failed")

// commit applies the changes of a batch in one transaction. If a change fails, it applies each
// change in a transaction of its own.
func (s *store) commit(batch []*write) {
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
