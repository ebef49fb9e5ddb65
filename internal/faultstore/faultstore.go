// Package faultstore makes a store of tasks fail, for tests.
package faultstore

import (
	"context"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// Fault is what happens to one call of a store. The zero Fault is none.
type Fault struct {
	Delay  time.Duration // before the call
	Before error         // is returned instead of the call
	After  error         // is returned although the call has taken effect
}

// Store is a store some of whose calls fail: of Create, Get, Journal, Update, Wait and List. Its
// methods may be called concurrently.
type Store struct {
	task.Store
	inject func(call int, operation string) Fault

	mu    sync.Mutex
	calls int
}

// New returns a store that passes calls on to s. Inject is called before each call, one at a time,
// with the number of the call, from 1, and the name of the method.
func New(s task.Store, inject func(call int, operation string) Fault) *Store {
	return &Store{Store: s, inject: inject}
}

// Calls returns the number of calls so far.
func (s *Store) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *Store) next(operation string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.inject(s.calls, operation)
}

// do calls f with the next fault.
func do[T any](s *Store, operation string, f func() (T, error)) (result T, err error) {
	fault := s.next(operation)
	if fault.Delay > 0 {
		time.Sleep(fault.Delay)
	}
	if fault.Before != nil {
		return result, fault.Before
	}
	if result, err = f(); err == nil && fault.After != nil {
		return *new(T), fault.After
	}
	return result, err
}

// Create implements [task.Store].
func (s *Store) Create(ctx context.Context, r task.Record) (task.Record, error) {
	return do(s, "Create", func() (task.Record, error) { return s.Store.Create(ctx, r) })
}

// Get implements [task.Store].
func (s *Store) Get(ctx context.Context, id string) (task.Record, error) {
	return do(s, "Get", func() (task.Record, error) { return s.Store.Get(ctx, id) })
}

// Journal implements [task.Store].
func (s *Store) Journal(ctx context.Context, id string) ([]task.Entry, error) {
	return do(s, "Journal", func() ([]task.Entry, error) { return s.Store.Journal(ctx, id) })
}

// Update implements [task.Store].
func (s *Store) Update(ctx context.Context, r task.Record) (task.Record, error) {
	return do(s, "Update", func() (task.Record, error) { return s.Store.Update(ctx, r) })
}

// Wait implements [task.Store].
func (s *Store) Wait(ctx context.Context, id string, revision uint64) (task.Record, error) {
	return do(s, "Wait", func() (task.Record, error) { return s.Store.Wait(ctx, id, revision) })
}

// List implements [task.Store].
func (s *Store) List(ctx context.Context, owner string, after uint64, limit int) ([]task.Record, error) {
	return do(s, "List", func() ([]task.Record, error) { return s.Store.List(ctx, owner, after, limit) })
}
