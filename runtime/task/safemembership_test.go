package task

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
)

// A membership that panics, as a nil one does, ends the lease, and fails what returns errors.
func TestPanicsOfMembershipAreErrors(t *testing.T) {
	log := new(bytes.Buffer)
	s := safeMembership{nil, slog.New(slog.NewTextHandler(log, nil))}
	if s.Self().ID != "" || s.Members() != nil || s.Share("q") != (fleets.Share{}) {
		t.Error("the membership has values")
	}
	if !lapsed(s) {
		t.Error("the lease has not ended")
	}
	s.Drain()
	s.Announce(nil)
	s.Follow("id", fleets.Follower{})()
	if n := strings.Count(log.String(), "membership panicked"); n != 7 {
		t.Errorf("%d panics were logged", n)
	}
	ctx := context.Background()
	alive := func() error { _, err := s.Alive(ctx, "m"); return err }
	query := func() error { _, err := s.Query(ctx, nil); return err }
	for name, err := range map[string]error{
		"Alive": alive(), "Query": query(), "Send": s.Send(ctx, "id", nil), "Offer": s.Offer(ctx, "m", "id"),
		"Reserve": s.Reserve(ctx, "q", fleets.Reservation{}), "Leave": s.Leave(ctx),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, err := range s.Orphans(ctx) {
		if err == nil {
			t.Error("Orphans: no error")
		}
	}
}
