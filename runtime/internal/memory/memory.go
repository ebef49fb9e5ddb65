// Package memory keeps tasks in memory. Its Store is that of runtime/task/memory. Its Fleet stands
// for several processes in tests.
package memory

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/watch"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Store holds records in memory. Create one with [New]. It may be used concurrently.
type Store struct {
	task.Local

	mu   sync.RWMutex
	byID map[string]*entry
	// journals holds the journals that have entries, by task id. Entries are only added behind the
	// end of a slice that was returned.
	journals map[string][]task.Entry
	owners   map[string]*series
	expiry   expiries
	// held holds the tasks that need a holder, by the member that holds them. It is nil if the
	// store is not that of a Fleet.
	held   map[string]map[*entry]struct{}
	seq    uint64
	closed bool
	hub    watch.Hub
}

var _ task.Store = (*Store)(nil)

// entry is the current record of a task. All indexes point to the same entry.
type entry struct{ task.Record }

// New returns an empty store.
func New() *Store {
	return &Store{byID: map[string]*entry{}, journals: map[string][]task.Entry{}, owners: map[string]*series{}}
}

// Create implements [task.Store].
func (s *Store) Create(ctx context.Context, r task.Record) (task.Record, error) {
	if err := ctx.Err(); err != nil {
		return task.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return task.Record{}, task.ErrClosed
	}
	if s.byID[r.ID] != nil {
		return task.Record{}, task.ErrExists
	}
	if err := s.record(&r, nil); err != nil {
		return task.Record{}, err
	}
	s.seq++
	r.Seq, r.Revision = s.seq, 1
	e := &entry{r}
	s.byID[r.ID] = e
	s.hold(e)
	ownerTasks := s.owners[r.Owner]
	if ownerTasks == nil {
		ownerTasks = new(series)
		s.owners[r.Owner] = ownerTasks
	}
	ownerTasks.add(e)
	if r.TTL != 0 {
		s.expiry.add(e)
	}
	return r, nil
}

// Get implements [task.Store].
func (s *Store) Get(ctx context.Context, id string) (task.Record, error) {
	if err := ctx.Err(); err != nil {
		return task.Record{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return task.Record{}, task.ErrClosed
	}
	e := s.byID[id]
	if e == nil {
		return task.Record{}, task.ErrNotFound
	}
	return e.Record, nil
}

// Journal implements [task.Store].
func (s *Store) Journal(ctx context.Context, id string) ([]task.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, task.ErrClosed
	}
	if s.byID[id] == nil {
		return nil, task.ErrNotFound
	}
	return slices.Clip(s.journals[id]), nil
}

// record updates the journal of a task whose stored record has before as its Durable, and removes
// the entries from the new record. The caller holds the lock.
func (s *Store) record(r *task.Record, before *task.Durable) error {
	if r.Durable == nil && before == nil {
		return nil
	}
	var entries []task.Entry
	recorded := 0
	if d := r.Durable; d != nil {
		entries, recorded = d.Entries, d.Recorded
	}
	earlier, stays := s.journals[r.ID], recorded-len(entries)
	if stays < 0 || stays > len(earlier) {
		return fmt.Errorf("memory: journal of %d entries cannot have %d after %d are added", len(earlier), recorded, len(entries))
	}
	if len(entries) > 0 {
		d := *r.Durable
		d.Entries = nil
		r.Durable = &d
	}
	switch {
	case recorded == 0:
		delete(s.journals, r.ID)
	case stays < len(earlier):
		s.journals[r.ID] = append(slices.Clip(earlier[:stays]), entries...)
	case len(entries) > 0:
		s.journals[r.ID] = append(earlier, entries...)
	}
	return nil
}

// Update implements [task.Store].
func (s *Store) Update(ctx context.Context, r task.Record) (task.Record, error) {
	if err := ctx.Err(); err != nil {
		return task.Record{}, err
	}
	if err := s.swap(&r); err != nil {
		return task.Record{}, err
	}
	s.hub.Publish(&r)
	return r, nil
}

// swap stores r in place of the same revision, and sets its Revision and constant fields.
func (s *Store) swap(r *task.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return task.ErrClosed
	}
	e := s.byID[r.ID]
	if e == nil {
		return task.ErrNotFound
	}
	if e.Revision != r.Revision {
		return task.ErrConflict
	}
	if err := s.record(r, e.Durable); err != nil {
		return err
	}
	r.ID, r.Owner, r.Seq, r.Created, r.TTL, r.Token = e.ID, e.Owner, e.Seq, e.Created, e.TTL, e.Token
	if len(r.Params) > 0 {
		r.Params = e.Params
	}
	r.Revision++
	s.release(e)
	e.Record = *r
	s.hold(e)
	return nil
}

// hold adds an entry to the entries of its holder. The caller holds the lock.
func (s *Store) hold(e *entry) {
	if s.held == nil || !fleets.NeedsHolder(e.Status, e.Job) {
		return
	}
	if s.held[e.Claim.Member] == nil {
		s.held[e.Claim.Member] = map[*entry]struct{}{}
	}
	s.held[e.Claim.Member][e] = struct{}{}
}

// release undoes hold, before the entry is changed or dropped. The caller holds the lock.
func (s *Store) release(e *entry) {
	if s.held == nil {
		return
	}
	tasks := s.held[e.Claim.Member]
	if delete(tasks, e); len(tasks) == 0 {
		delete(s.held, e.Claim.Member)
	}
}

// heldByOthers returns the briefs of the tasks that need a holder, except those of some members.
func (s *Store) heldByOthers(members []*membership) (briefs []task.Record) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id, tasks := range s.held {
		if slices.ContainsFunc(members, func(m *membership) bool { return m.self.ID == id }) {
			continue
		}
		for e := range tasks {
			briefs = append(briefs, e.Brief())
		}
	}
	return briefs
}

// Wait implements [task.Store].
func (s *Store) Wait(ctx context.Context, id string, revision uint64) (r task.Record, err error) {
	err = s.hub.Wait(ctx, id, revision, s.Get, &r)
	return r, err
}

// List implements [task.Store].
func (s *Store) List(ctx context.Context, owner string, after uint64, limit int) ([]task.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, task.ErrClosed
	}
	ownerTasks := s.owners[owner]
	if ownerTasks == nil {
		return nil, nil
	}
	return ownerTasks.list(after, limit), nil
}

// Sweep implements [task.Store].
func (s *Store) Sweep(ctx context.Context, now time.Time, limit int) (briefs []task.Record, next time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, err
	}
	var dropped []*entry
	for more := true; more && err == nil; {
		before := len(dropped)
		batch := min(limit-before, sweepBatch)
		dropped, next, err = s.drop(now, batch, dropped)
		more = len(dropped)-before == batch && len(dropped) < limit
		for _, e := range dropped[before:] {
			s.hub.Remove(e.ID)
		}
	}
	briefs = make([]task.Record, len(dropped))
	for i, e := range dropped { // needs no lock: dropped entries do not change
		briefs[i] = e.Brief()
	}
	return briefs, next, err
}

// sweepBatch is the maximum number of tasks that Sweep drops without releasing the lock.
const sweepBatch = 32

// drop drops at most limit tasks that have expired at now and appends them to dropped. It returns
// when the next task expires.
func (s *Store) drop(now time.Time, limit int, dropped []*entry) (_ []*entry, next time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return dropped, time.Time{}, task.ErrClosed
	}
	limit += len(dropped)
	var retained []*entry
	defer func() {
		for _, e := range retained {
			s.expiry.add(e)
		}
	}()
	for s.expiry.len > 0 {
		e := s.expiry.at(0).entry
		next = e.Expires()
		if next.After(now) || len(dropped) == limit {
			return dropped, next, nil
		}
		s.expiry.removeFirst()
		if e.Retained(now) {
			retained = append(retained, e)
			continue
		}
		delete(s.byID, e.ID)
		s.release(e)
		if e.Durable != nil {
			delete(s.journals, e.ID)
		}
		if s.owners[e.Owner].remove(e.Seq) {
			delete(s.owners, e.Owner)
		}
		dropped = append(dropped, e)
	}
	return dropped, time.Time{}, nil
}

// Scan implements [task.Store].
func (s *Store) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
	return func(yield func(task.Record, error) bool) {
		s.mu.RLock()
		closed := s.closed
		ids := make([]string, 0, len(s.byID))
		for id := range s.byID {
			ids = append(ids, id)
		}
		s.mu.RUnlock()
		if closed {
			yield(task.Record{}, task.ErrClosed)
			return
		}
		for _, id := range ids {
			r, err := s.Get(ctx, id)
			if err == task.ErrNotFound {
				continue // dropped since ids was collected
			}
			if !yield(r.Brief(), err) || err != nil {
				return
			}
		}
	}
}

// Close implements [task.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.byID, s.journals, s.owners, s.expiry = nil, nil, nil, expiries{}
	s.mu.Unlock()
	s.hub.Close()
	return nil
}
