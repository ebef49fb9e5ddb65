package streamable

import (
	"context"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// guardedEvents wraps a user's EventStore and returns panics as errors.
type guardedEvents struct{ store EventStore }

// guardedSessions wraps a user's SessionStore and returns panics as errors.
type guardedSessions struct {
	guardedEvents
	store SessionStore
}

// guardStore returns a store whose methods do not panic.
func guardStore(store EventStore) EventStore {
	if s, ok := store.(SessionStore); ok {
		return guardedSessions{guardedEvents{s}, s}
	}
	return guardedEvents{store}
}

func (g guardedEvents) Append(ctx context.Context, session, stream string, e Event) (err error) {
	defer boundary.Catch(&err)
	return g.store.Append(ctx, session, stream, e)
}

func (g guardedEvents) Events(ctx context.Context, session, stream string, after uint64) (events []Event, err error) {
	defer boundary.Catch(&err)
	return g.store.Events(ctx, session, stream, after)
}

func (g guardedEvents) Forget(ctx context.Context, session string) (err error) {
	defer boundary.Catch(&err)
	return g.store.Forget(ctx, session)
}

func (g guardedSessions) PersistOpening(ctx context.Context, session string, o Opening) (err error) {
	defer boundary.Catch(&err)
	return g.store.PersistOpening(ctx, session, o)
}

func (g guardedSessions) PersistState(ctx context.Context, session string, state []byte) (err error) {
	defer boundary.Catch(&err)
	return g.store.PersistState(ctx, session, state)
}

func (g guardedSessions) Begin(ctx context.Context, session, stream string, requests []byte) (err error) {
	defer boundary.Catch(&err)
	return g.store.Begin(ctx, session, stream, requests)
}

func (g guardedSessions) Touch(ctx context.Context, sessions []string) (err error) {
	defer boundary.Catch(&err)
	return g.store.Touch(ctx, sessions)
}

func (g guardedSessions) Load(ctx context.Context, session string) (o Opening, streams []PersistedStream, err error) {
	defer boundary.Catch(&err)
	return g.store.Load(ctx, session)
}
