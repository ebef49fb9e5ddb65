package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/quota"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Fleet is memory that the Managers of one process share as if they ran in separate processes. It
// is for tests of programs that run as a fleet: [FleetStore.Cut] cuts a Manager off. Create a Fleet
// with [NewFleet]. Its methods may be called concurrently.
type Fleet struct {
	store *Store

	mu      sync.Mutex
	joined  int           // number of members that have ever joined
	members []*membership // living members, in the order of joining
	// followers holds the followers of all members by task, including members that are cut off.
	followers map[string][]*follower
	quotas    map[string]quota.State // only quotas in which a member has a part
}

// NewFleet returns an empty Fleet.
func NewFleet() *Fleet {
	f := &Fleet{store: New(), followers: map[string][]*follower{}, quotas: map[string]quota.State{}}
	f.store.held = map[string]map[*entry]struct{}{}
	return f
}

// Store returns a store for one Manager. All stores of a Fleet have the same records.
func (f *Fleet) Store() *FleetStore { return &FleetStore{fleet: f, records: f.store} }

// FleetStore is the store of one Manager of a [Fleet]. Its methods may be called concurrently.
type FleetStore struct {
	fleet       *Fleet
	records     *Store
	reservation task.Local // only its Acquire is used

	mu     sync.Mutex
	cut    bool
	closed bool
	member *membership // the latest; nil before the first Join
	// last is what the others know of the member while the store is cut off.
	last heartbeat
}

// heartbeat is what a member renews.
type heartbeat struct {
	load  fleets.Load
	heard time.Time
}

var _ task.Store = (*FleetStore)(nil)

// ErrCut is the error of a store that was cut off.
var ErrCut = errors.New("memory: the store is cut off")

// Cut cuts the Manager off from the Fleet until Heal is called: all its calls fail with [ErrCut],
// and it receives no events. Its lease ends after [task.Member].Lease.
func (s *FleetStore) Cut() {
	s.mu.Lock()
	m := s.member
	s.mu.Unlock()
	var last heartbeat
	if m != nil {
		last = m.heartbeat()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return
	}
	s.cut, s.last = true, last
	if m := s.member; m != nil {
		m.expiry = time.AfterFunc(m.self.Lease, func() { s.fleet.remove(m) })
	}
}

// Heal undoes Cut. If the lease has not ended, the Manager receives events for all tasks that it
// follows and all quotas in which it has a part.
func (s *FleetStore) Heal() {
	s.mu.Lock()
	m := s.member
	healed := s.cut
	s.cut = false
	if m != nil && m.expiry != nil {
		m.expiry.Stop()
	}
	s.mu.Unlock()
	if !healed || m == nil {
		return
	}
	f := s.fleet
	f.mu.Lock()
	alive := slices.Contains(f.members, m)
	var mine []*follower
	for _, list := range f.followers {
		for _, each := range list {
			if each.member == m {
				mine = append(mine, each)
			}
		}
	}
	quotas := m.refresh()
	f.mu.Unlock()
	if !alive {
		return
	}
	for _, each := range mine {
		each.Changed()
	}
	for _, name := range quotas {
		m.events.Shared(name)
	}
	m.events.Departed()
}

// reachable returns an error if the store is cut off or closed.
func (s *FleetStore) reachable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return task.ErrClosed
	case s.cut:
		return ErrCut
	}
	return nil
}

// Create implements [task.Store].
func (s *FleetStore) Create(ctx context.Context, r task.Record) (task.Record, error) {
	if err := s.reachable(); err != nil {
		return task.Record{}, err
	}
	return s.records.Create(ctx, r)
}

// Get implements [task.Store].
func (s *FleetStore) Get(ctx context.Context, id string) (task.Record, error) {
	if err := s.reachable(); err != nil {
		return task.Record{}, err
	}
	return s.records.Get(ctx, id)
}

// Journal implements [task.Store].
func (s *FleetStore) Journal(ctx context.Context, id string) ([]task.Entry, error) {
	if err := s.reachable(); err != nil {
		return nil, err
	}
	return s.records.Journal(ctx, id)
}

// Update implements [task.Store].
func (s *FleetStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	if err := s.reachable(); err != nil {
		return task.Record{}, err
	}
	r, err := s.records.Update(ctx, r)
	if err == nil {
		s.fleet.changed(r.ID, s)
	}
	return r, err
}

// Wait implements [task.Store].
func (s *FleetStore) Wait(ctx context.Context, id string, revision uint64) (task.Record, error) {
	if err := s.reachable(); err != nil {
		return task.Record{}, err
	}
	r, err := s.records.Wait(ctx, id, revision)
	if err == nil {
		err = s.reachable()
	}
	if err != nil {
		return task.Record{}, err
	}
	return r, nil
}

// List implements [task.Store].
func (s *FleetStore) List(ctx context.Context, owner string, after uint64, limit int) ([]task.Record, error) {
	if err := s.reachable(); err != nil {
		return nil, err
	}
	return s.records.List(ctx, owner, after, limit)
}

// Sweep implements [task.Store].
func (s *FleetStore) Sweep(ctx context.Context, now time.Time, limit int) ([]task.Record, time.Time, error) {
	if err := s.reachable(); err != nil {
		return nil, time.Time{}, err
	}
	dropped, next, err := s.records.Sweep(ctx, now, limit)
	for i := range dropped {
		s.fleet.changed(dropped[i].ID, s)
	}
	return dropped, next, err
}

// Scan implements [task.Store].
func (s *FleetStore) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
	return func(yield func(task.Record, error) bool) {
		for r, err := range s.records.Scan(ctx) {
			if err == nil {
				err = s.reachable()
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Close ends the use of this store. The Fleet keeps its records.
func (s *FleetStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// membership is a member of a Fleet.
type membership struct {
	store   *FleetStore
	self    task.Member // Draining and Missing are guarded by the mu of the fleet
	events  fleets.Events
	expired chan struct{}
	expiry  *time.Timer // ends the lease while the store is cut off; guarded by the store's mu
	// seen holds the latest states of quotas that were reported to the member. It is guarded by the
	// mu of the fleet.
	seen map[string]quota.State
}

// follower is a call of Follow.
type follower struct {
	fleets.Follower
	member *membership
}

// Acquire implements [task.Store].
func (s *FleetStore) Acquire() (release func(), err error) { return s.reservation.Acquire() }

// Now implements [task.Store]. It returns [time.Now].
func (s *FleetStore) Now() time.Time { return time.Now() }

// Health implements [task.Store]. It returns [ErrCut] while the store is cut off.
func (s *FleetStore) Health() error { return s.reachable() }

// Join implements [task.Store].
func (s *FleetStore) Join(ctx context.Context, m task.Member, e fleets.Events) (fleets.Membership[task.Member, task.Record], error) {
	if err := s.reachable(); err != nil {
		return nil, err
	}
	fleets.SetDefaults(&m.Name, &m.Lease)
	m.Joined, m.Draining, m.Missing = time.Now(), false, nil
	f := s.fleet
	f.mu.Lock()
	f.joined++
	m.ID = fmt.Sprintf("member-%06d", f.joined)
	member := &membership{store: s, self: m, events: e, expired: make(chan struct{}), seen: map[string]quota.State{}}
	f.members = append(f.members, member)
	f.mu.Unlock()
	s.mu.Lock()
	s.member = member
	s.mu.Unlock()
	return member, nil
}

// remove ends a membership and reports its end to the other members.
func (f *Fleet) remove(m *membership) {
	f.mu.Lock()
	i := slices.Index(f.members, m)
	if i < 0 {
		f.mu.Unlock()
		return
	}
	f.members = slices.Delete(f.members, i, i+1)
	others := slices.Clone(f.members)
	for id, list := range f.followers {
		f.unfollow(id, list, func(each *follower) bool { return each.member == m })
	}
	f.mu.Unlock()
	close(m.expired)
	departed(others)
}

// departed calls Departed of the members whose stores are reachable.
func departed(members []*membership) {
	for _, m := range members {
		if m.store.reachable() == nil {
			m.events.Departed()
		}
	}
}

// unfollow removes followers from the list of a task. The caller holds mu.
func (f *Fleet) unfollow(id string, list []*follower, gone func(*follower) bool) {
	if list = slices.DeleteFunc(slices.Clone(list), gone); len(list) == 0 {
		delete(f.followers, id)
	} else {
		f.followers[id] = list
	}
}

// others returns the followers of a task whose stores are reachable, except those of one store.
func (f *Fleet) others(id string, except *FleetStore) []*follower {
	f.mu.Lock()
	list := f.followers[id] // never changed
	f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(list), func(each *follower) bool {
		return each.member.store == except || each.member.store.reachable() != nil
	})
}

// changed reports a change that was made through a store.
func (f *Fleet) changed(id string, by *FleetStore) {
	for _, each := range f.others(id, by) {
		each.Changed()
	}
}

// Self implements [fleets.Membership].
func (m *membership) Self() task.Member {
	f := m.store.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	return m.self
}

// heartbeat returns what the others know of the member. The caller holds no lock: Load of the
// events may take those of a Manager, which may be held in calls of this package.
func (m *membership) heartbeat() heartbeat {
	s := m.store
	s.mu.Lock()
	cut, last := s.cut, s.last
	s.mu.Unlock()
	if cut {
		return last
	}
	now := heartbeat{heard: time.Now()}
	if m.events.Load != nil {
		now.load = m.events.Load()
	}
	return now
}

// Members implements [fleets.Membership].
func (m *membership) Members() []task.Member {
	f := m.store.fleet
	f.mu.Lock()
	members := slices.Clone(f.members)
	list := make([]task.Member, len(members))
	for i, each := range members {
		list[i] = each.self
	}
	f.mu.Unlock()
	for i, each := range members {
		now := each.heartbeat()
		list[i].Load, list[i].Heard = now.load, now.heard
	}
	return list
}

// Alive implements [fleets.Membership].
func (m *membership) Alive(ctx context.Context, id string) (bool, error) {
	if err := m.store.reachable(); err != nil {
		return false, err
	}
	f := m.store.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.members, func(each *membership) bool { return each.self.ID == id }), nil
}

// Orphans implements [fleets.Membership].
func (m *membership) Orphans(ctx context.Context) iter.Seq2[task.Record, error] {
	return func(yield func(task.Record, error) bool) {
		f := m.store.fleet
		f.mu.Lock()
		briefs := m.store.records.heldByOthers(f.members)
		f.mu.Unlock()
		for i := 0; ; i++ {
			err := m.store.reachable()
			if err == nil {
				err = ctx.Err()
			}
			switch {
			case err != nil:
				yield(task.Record{}, err)
				return
			case i == len(briefs) || !yield(briefs[i], nil):
				return
			}
		}
	}
}

// Expired implements [fleets.Membership].
func (m *membership) Expired() <-chan struct{} { return m.expired }

// Follow implements [fleets.Membership].
func (m *membership) Follow(id string, callbacks fleets.Follower) (stop func()) {
	own := &follower{callbacks, m}
	f := m.store.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	id = strings.Clone(id)
	f.followers[id] = append(slices.Clip(f.followers[id]), own)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.unfollow(id, f.followers[id], func(each *follower) bool { return each == own })
	}
}

// Send implements [fleets.Membership].
func (m *membership) Send(ctx context.Context, id string, message []byte) error {
	if err := m.store.reachable(); err != nil {
		return err
	}
	for _, each := range m.store.fleet.others(id, m.store) {
		if each.Message != nil {
			each.Message(message)
		}
	}
	return nil
}

// Offer implements [fleets.Membership].
func (m *membership) Offer(ctx context.Context, member, id string) error {
	if err := m.store.reachable(); err != nil {
		return err
	}
	f := m.store.fleet
	f.mu.Lock()
	i := slices.IndexFunc(f.members, func(each *membership) bool { return each.self.ID == member })
	var to *membership
	if i >= 0 {
		to = f.members[i]
	}
	f.mu.Unlock()
	if to != nil && to.store.reachable() == nil {
		to.events.Offered(id)
	}
	return nil
}

// Query implements [fleets.Membership]. Members that are cut off do not respond, and ctx need not
// end.
func (m *membership) Query(ctx context.Context, request []byte) (responses map[string][]byte, err error) {
	if err := m.store.reachable(); err != nil {
		return nil, err
	}
	f := m.store.fleet
	f.mu.Lock()
	members := slices.Clone(f.members)
	f.mu.Unlock()
	responses = map[string][]byte{}
	for _, each := range members {
		if each == m || each.store.reachable() != nil {
			continue
		}
		responses[each.self.ID] = nil
		if each.events.Queried != nil {
			responses[each.self.ID] = each.events.Queried(request)
		}
	}
	return responses, nil
}

// Drain implements [fleets.Membership].
func (m *membership) Drain() {
	f := m.store.fleet
	f.mu.Lock()
	again := m.self.Draining
	m.self.Draining = true
	others := slices.DeleteFunc(slices.Clone(f.members), func(each *membership) bool { return each == m })
	f.mu.Unlock()
	if !again {
		departed(others)
	}
}

// Announce implements [fleets.Membership].
func (m *membership) Announce(missing []fleets.Missing) {
	f := m.store.fleet
	f.mu.Lock()
	m.self.Missing = missing
	others := slices.DeleteFunc(slices.Clone(f.members), func(each *membership) bool { return each == m })
	f.mu.Unlock()
	departed(others)
}

// Leave implements [fleets.Membership].
func (m *membership) Leave(ctx context.Context) error {
	m.store.fleet.remove(m)
	return nil
}
