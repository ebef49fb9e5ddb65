package task

import (
	"context"
	"iter"
	"log/slog"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
)

// safeMembership is a Membership of a user's store whose methods do not panic. Those without an
// error log the panic and return nothing; a lease whose end is unknown has ended.
type safeMembership struct {
	membership membership
	log        *slog.Logger
}

// run calls f, which calls the membership.
func (s safeMembership) run(f func()) {
	boundary.Report(s.log, "membership panicked", boundary.Run(func() error { f(); return nil }))
}

func (s safeMembership) Self() (self Member) {
	s.run(func() { self = s.membership.Self() })
	return self
}

func (s safeMembership) Members() (members []Member) {
	s.run(func() { members = s.membership.Members() })
	return members
}

func (s safeMembership) Alive(ctx context.Context, id string) (alive bool, err error) {
	defer boundary.Catch(&err)
	return s.membership.Alive(ctx, id)
}

func (s safeMembership) Orphans(ctx context.Context) iter.Seq2[Record, error] {
	return safely(func() iter.Seq2[Record, error] { return s.membership.Orphans(ctx) })
}

func (s safeMembership) Expired() (expired <-chan struct{}) {
	expired = closedChannel
	s.run(func() { expired = s.membership.Expired() })
	return expired
}

// closedChannel is closed.
var closedChannel = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (s safeMembership) Follow(id string, f fleets.Follower) (stop func()) {
	inner := func() {}
	s.run(func() { inner = s.membership.Follow(id, f) })
	return func() { s.run(inner) }
}

func (s safeMembership) Send(ctx context.Context, id string, message []byte) (err error) {
	defer boundary.Catch(&err)
	return s.membership.Send(ctx, id, message)
}

func (s safeMembership) Offer(ctx context.Context, member, id string) (err error) {
	defer boundary.Catch(&err)
	return s.membership.Offer(ctx, member, id)
}

func (s safeMembership) Query(ctx context.Context, request []byte) (responses map[string][]byte, err error) {
	defer boundary.Catch(&err)
	return s.membership.Query(ctx, request)
}

func (s safeMembership) Reserve(ctx context.Context, quota string, r fleets.Reservation) (err error) {
	defer boundary.Catch(&err)
	return s.membership.Reserve(ctx, quota, r)
}

func (s safeMembership) Share(quota string) (share fleets.Share) {
	s.run(func() { share = s.membership.Share(quota) })
	return share
}

func (s safeMembership) Drain() { s.run(func() { s.membership.Drain() }) }

func (s safeMembership) Announce(missing []fleets.Missing) {
	s.run(func() { s.membership.Announce(missing) })
}

func (s safeMembership) Leave(ctx context.Context) (err error) {
	defer boundary.Catch(&err)
	return s.membership.Leave(ctx)
}
