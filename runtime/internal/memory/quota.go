package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
)

// Reserve implements [fleets.Membership].
func (m *membership) Reserve(ctx context.Context, name string, r fleets.Reservation) error {
	if err := m.store.reachable(); err != nil {
		return err
	}
	f := m.store.fleet
	f.mu.Lock()
	if !slices.Contains(f.members, m) {
		f.mu.Unlock()
		return ErrCut
	}
	state := f.quotas[name].Reserve(m.self.ID, r, func(id string) bool { return !f.alive(id) })
	if f.quotas[name] = state; len(state) == 0 {
		delete(f.quotas, name)
	}
	if m.seen[name] = state; !state.Has(m.self.ID) {
		delete(m.seen, name)
	}
	var others []*membership
	for _, other := range f.members {
		if other != m && state.Has(other.self.ID) && other.store.reachable() == nil {
			other.seen[name] = state
			others = append(others, other)
		}
	}
	f.mu.Unlock()
	for _, other := range others {
		other.events.Shared(name)
	}
	return nil
}

// Share implements [fleets.Membership].
func (m *membership) Share(name string) fleets.Share {
	f := m.store.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	return m.seen[name].Share(m.self.ID, f.alive)
}

// alive reports whether a member is alive. The caller holds mu.
func (f *Fleet) alive(id string) bool {
	return slices.ContainsFunc(f.members, func(m *membership) bool { return m.self.ID == id })
}

// refresh returns the quotas in which the member has a part, after it has been cut off. The caller
// holds the mu of the fleet.
func (m *membership) refresh() []string {
	names := slices.Collect(maps.Keys(m.seen))
	for _, name := range names {
		m.seen[name] = m.store.fleet.quotas[name]
	}
	return names
}
