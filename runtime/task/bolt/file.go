package bolt

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// File returns the store in the file path, which is open only while a Manager uses it: Acquire,
// which [task.New] calls, opens the file like [Open], and fails with its errors, and the Manager
// closes the file when it has closed and all of its work has returned. So the start of a server
// returns the error of the store, and nothing is left to close. Until then, and afterwards, methods
// fail with [task.ErrClosed].
//
// If another process has the file open, as when the hosts of one user start several processes of a
// server on standard input and output, Acquire fails with [task.ErrLocked], after a second. A
// server then serves without tasks, and tries again once a second.
func File(path string) task.Store { return &file{path: path} }

// file is a store that is open while a Manager uses it.
type file struct {
	task.Local
	path string
	open atomic.Pointer[store]
}

// Acquire opens the file.
func (f *file) Acquire() (release func(), err error) {
	unlock, err := f.Local.Acquire()
	if err != nil {
		return nil, err
	}
	s, err := open(f.path)
	if err != nil {
		unlock()
		return nil, err
	}
	done, err := s.Acquire()
	if err != nil {
		unlock()
		return nil, errors.Join(err, s.Close())
	}
	f.open.Store(s)
	return func() {
		if f.open.CompareAndSwap(s, nil) {
			done()
			s.Close() // acknowledged writes are in the file
			unlock()
		}
	}, nil
}

// Close closes the file, if it is open.
func (f *file) Close() error {
	if s := f.open.Load(); s != nil {
		return s.Close()
	}
	return nil
}

// Health is that of the open file.
func (f *file) Health() error {
	s, err := f.store()
	if err != nil {
		return err
	}
	return s.Health()
}

func (f *file) store() (*store, error) {
	if s := f.open.Load(); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("bolt: %s: no Manager uses the file: %w", f.path, task.ErrClosed)
}

func (f *file) Create(ctx context.Context, r task.Record) (task.Record, error) {
	s, err := f.store()
	if err != nil {
		return task.Record{}, err
	}
	return s.Create(ctx, r)
}

func (f *file) Get(ctx context.Context, id string) (task.Record, error) {
	s, err := f.store()
	if err != nil {
		return task.Record{}, err
	}
	return s.Get(ctx, id)
}

func (f *file) Journal(ctx context.Context, id string) ([]task.Entry, error) {
	s, err := f.store()
	if err != nil {
		return nil, err
	}
	return s.Journal(ctx, id)
}

func (f *file) Update(ctx context.Context, r task.Record) (task.Record, error) {
	s, err := f.store()
	if err != nil {
		return task.Record{}, err
	}
	return s.Update(ctx, r)
}

func (f *file) Wait(ctx context.Context, id string, revision uint64) (task.Record, error) {
	s, err := f.store()
	if err != nil {
		return task.Record{}, err
	}
	return s.Wait(ctx, id, revision)
}

func (f *file) List(ctx context.Context, owner string, after uint64, limit int) ([]task.Record, error) {
	s, err := f.store()
	if err != nil {
		return nil, err
	}
	return s.List(ctx, owner, after, limit)
}

func (f *file) Sweep(ctx context.Context, now time.Time, limit int) ([]task.Record, time.Time, error) {
	s, err := f.store()
	if err != nil {
		return nil, time.Time{}, err
	}
	return s.Sweep(ctx, now, limit)
}

func (f *file) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
	s, err := f.store()
	if err != nil {
		return func(yield func(task.Record, error) bool) { yield(task.Record{}, err) }
	}
	return s.Scan(ctx)
}
