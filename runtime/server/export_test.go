package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// ModernState describes the state that the modern requests of all principals share.
func ModernState(s *Server) string {
	p := s.modern
	p.mu.Lock()
	defer p.mu.Unlock()
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	return fmt.Sprint(p.session.Load(), p.level.Load(), p.key, p.requestsTasks.Load(), p.initialized.Load(),
		p.store, p.persisted, p.reopened, p.lists, p.restored, p.ended, p.stateChanges, p.clientLevel, p.principal, p.subscriptions,
		p.subscriptionLocks, p.elicitations, p.notices, p.pendingLogs, p.pendingLogBytes, p.sendingNotices, p.roots.known, p.roots.list, p.roots.changes,
		len(s.listeners.open), len(s.listeners.quota.Used()))
}

// Open is [Server.Serve] with a function that opens the session, and without persisted state.
func Open(s *Server, open func(*mcp.InitializeResult, *session.Options) *session.Session) (*session.Session, error) {
	if err := s.Start(context.Background()); err != nil {
		return nil, err
	}
	return s.openFor(newPeer(s), open)
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

const DefaultMaxState = defaultMaxState

const DefaultMaxURI = defaultMaxURI

const DefaultMaxSubscriptionBytes = defaultMaxSubscriptionBytes

// Routes describes the current routes of a server that have features: the name of each method, and
// those of its features, the outermost first. The methods that are sent as notifications end with
// an exclamation mark.
func Routes(s *Server) (list []string) {
	t := s.table()
	for _, m := range append(s.methods(s.offered()), mcp.Method{Name: "unknown"}, mcp.Method{Name: "unknown", Notification: true}) {
		if r := t.Route(m.Name, m.Notification); len(r.Features) > 0 {
			mark := ""
			if m.Notification {
				mark = "!"
			}
			list = append(list, m.Name+mark+": "+strings.Join(r.Features, " "))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
