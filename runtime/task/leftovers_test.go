package task

import "fmt"

// Leftovers returns what a Manager still holds or counts for tasks. It is empty once all tasks have
// ended for some time.
func (m *Manager) Leftovers() (left []string) {
	add := func(what string, n int64) {
		if n != 0 {
			left = append(left, fmt.Sprintf("%d %s", n, what))
		}
	}
	l := &m.limits
	l.mu.Lock()
	for principal, u := range l.principals {
		add("tasks of "+principal, int64(u.tasks))
		add("bytes of tasks of "+principal, u.bytes)
		add("bytes stored too few of "+principal, min(u.stored, 0))
	}
	add("networks of tasks", int64(len(l.networks)))
	l.mu.Unlock()
	m.mu.Lock()
	add("runs", int64(len(m.runs)))
	add("deliveries of input requests", int64(len(m.claims)))
	add("runs with undos", int64(len(m.undoable)))
	m.mu.Unlock()
	if f, ok := m.fleet.(*shared); ok {
		f.mu.Lock()
		add("tasks followed", int64(len(f.followed)))
		add("doubts", int64(len(f.doubts)))
		f.mu.Unlock()
	}
	s := &m.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	add("running tickets", int64(s.running))
	add("waiting tickets", int64(s.waiting+len(s.trials.waiting)))
	add("turns", int64(len(s.turns)))
	add("calls", int64(len(s.calls)))
	for _, p := range s.pools {
		add("permits in use of "+p.tool, p.inUse)
	}
	return left
}
