package durabletest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// act is something that happens to a process at an operation of its store.
type act string

const (
	failBefore  act = "the store fails"
	failAfter   act = "the store fails after success"
	delay       act = "the store takes a second"
	crashBefore act = "the process dies before it"
	crashAfter  act = "the process dies after it"
	shutBefore  act = "the server is shut down before it"
	shutAfter   act = "the server is shut down after it"

	// The requestor cancels the request, which creates the task, and not the task.
	cancelBefore act = "the requestor cancels the request before it"
	cancelDuring act = "the requestor cancels the request at the same moment"
	cancelAfter  act = "the requestor cancels the request after it"
)

// disturbance is an act at an operation of the store: the n-th write or the n-th read or write, in
// all processes together, and those that follow it.
type disturbance struct {
	act    act
	at     int // from 1
	length int // number of operations that are concerned; 0 for one
	reads  bool
}

func (d disturbance) String() string {
	what := "write"
	if d.reads {
		what = "operation"
	}
	if d.length > 1 {
		return fmt.Sprintf("%s, at %ss %d to %d of the store", d.act, what, d.at, d.at+d.length-1)
	}
	return fmt.Sprintf("%s, at %s %d of the store", d.act, what, d.at)
}

// schedule counts the operations of the store.
type schedule struct {
	mu           sync.Mutex
	disturbances []disturbance
	operations   int
	writes       int
	over         bool
}

// next returns the act at the next operation, or "".
func (s *schedule) next(write bool) act {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.operations++
	if write {
		s.writes++
	}
	for _, d := range s.disturbances {
		n := s.operations
		if !d.reads {
			if n = s.writes; !write {
				continue
			}
		}
		if n >= d.at && n < d.at+max(d.length, 1) {
			return d.act
		}
	}
	return ""
}

// end ends all disturbances.
func (s *schedule) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disturbances, s.over = nil, true
}

func (s *schedule) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// errFault is the error of a store that fails. Its text must reach no client.
var errFault = errors.New("secret fault")

// processStore is the store of one process. Once the process has died, nothing is written any more.
type processStore struct {
	task.Store
	w *world
	p *process
}

func (s *processStore) do(ctx context.Context, name string, write bool, f func() error) error {
	if s.p.isDead() {
		return s.dead()
	}
	act := s.w.schedule.next(write)
	if act != "" {
		s.w.mu.Lock()
		s.w.disturbed = true
		s.w.event("%s: %s", name, act)
		s.w.mu.Unlock()
	}
	switch act {
	case failBefore:
		return errFault
	case failAfter:
		if err := f(); err != nil {
			return err
		}
		return errFault
	case delay:
		time.Sleep(time.Second)
		if s.p.isDead() {
			return s.dead()
		}
	case crashBefore:
		s.p.crash()
		return s.dead()
	case crashAfter:
		f()
		s.p.crash()
		return s.dead()
	case shutBefore:
		s.p.shutDown()
	case shutAfter:
		defer s.p.shutDown()
	case cancelBefore:
		s.w.cancelRequest()
		time.Sleep(time.Millisecond) // the server learns of it
	case cancelDuring:
		s.w.cancelRequest()
	case cancelAfter:
		err := f()
		s.w.cancelRequest()
		time.Sleep(time.Millisecond)
		return err
	}
	return f()
}

// dead is the outcome of an operation of a process that has died: it never ends, or fails at once.
func (s *processStore) dead() error {
	if !s.w.fate.closes {
		<-s.w.over
	}
	return errFault
}

// Create implements [task.Store].
func (s *processStore) Create(ctx context.Context, r task.Record) (stored task.Record, err error) {
	err = s.do(ctx, "Create", true, func() error {
		err := s.w.write(&r, func() (err error) {
			stored, err = s.Store.Create(ctx, r)
			return err
		})
		if err == nil {
			s.w.created(r.ID)
		}
		return err
	})
	return stored, err
}

// Update implements [task.Store].
func (s *processStore) Update(ctx context.Context, r task.Record) (stored task.Record, err error) {
	err = s.do(ctx, "Update", true, func() error {
		return s.w.write(&r, func() (err error) {
			stored, err = s.Store.Update(ctx, r)
			return err
		})
	})
	return stored, err
}

// Get implements [task.Store].
func (s *processStore) Get(ctx context.Context, id string) (stored task.Record, err error) {
	err = s.do(ctx, "Get", false, func() (err error) {
		stored, err = s.Store.Get(ctx, id)
		return err
	})
	return stored, err
}

// Journal implements [task.Store].
func (s *processStore) Journal(ctx context.Context, id string) (entries []task.Entry, err error) {
	err = s.do(ctx, "Journal", false, func() (err error) {
		entries, err = s.Store.Journal(ctx, id)
		return err
	})
	return entries, err
}

// Wait implements [task.Store].
func (s *processStore) Wait(ctx context.Context, id string, revision uint64) (stored task.Record, err error) {
	err = s.do(ctx, "Wait", false, func() (err error) {
		stored, err = s.Store.Wait(ctx, id, revision)
		return err
	})
	return stored, err
}

// List implements [task.Store].
func (s *processStore) List(ctx context.Context, owner string, after uint64, limit int) ([]task.Record, error) {
	if s.p.isDead() {
		return nil, s.dead()
	}
	return s.Store.List(ctx, owner, after, limit)
}

// Sweep implements [task.Store].
func (s *processStore) Sweep(ctx context.Context, now time.Time, limit int) ([]task.Record, time.Time, error) {
	if s.p.isDead() {
		return nil, time.Time{}, s.dead()
	}
	return s.Store.Sweep(ctx, now, limit)
}

// Scan implements [task.Store].
func (s *processStore) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
	return func(yield func(task.Record, error) bool) {
		if s.p.isDead() {
			yield(task.Record{}, s.dead())
			return
		}
		for r, err := range s.Store.Scan(ctx) {
			if !yield(r, err) {
				return
			}
		}
	}
}

// Acquire implements [task.Store]. A process that has died releases nothing.
func (s *processStore) Acquire() (release func(), err error) { return func() {}, nil }

// Close implements [task.Store].
func (s *processStore) Close() error { return nil }
