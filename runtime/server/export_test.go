package server

import (
	"context"
	"fmt"
	"testing"
)

// ModernState describes the state that the modern requests of all principals share.
func ModernState(s *Server) string {
	p := s.modern
	p.mu.Lock()
	defer p.mu.Unlock()
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	return fmt.Sprint(p.session.Load(), p.level.Load(), p.logLimit, p.calls, p.requestsTasks.Load(), p.initialized.Load(),
		p.store, p.persisted, p.reopened, p.lists, p.restored, p.ended, p.stateChanges, p.clientLevel, p.principal, p.subscriptions, p.subscribedBytes,
		p.subscriptionLocks, p.elicitations, p.notices, p.pendingLogs, p.pendingLogBytes, p.sendingNotices, p.roots.known, p.roots.list, p.roots.changes,
		len(s.listeners.open), len(s.listeners.quota.Used()))
}

// WrapStepAllocs returns the number of allocations that a step without middleware has for it.
func WrapStepAllocs() float64 {
	s := New("s", "1", nil)
	defer s.Close()
	c := &Call{p: s.modern}
	f := func(context.Context) (int, error) { return 0, nil }
	return testing.AllocsPerRun(100, func() { sink = wrapStep(c, "one", f) })
}

var sink func(context.Context) (int, error)
