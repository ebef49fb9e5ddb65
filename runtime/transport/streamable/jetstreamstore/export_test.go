package jetstreamstore

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// SetClock replaces the clock that decides when a Store writes what has become old again.
func (s *Store) SetClock(now func() time.Time) { s.now = now }

// ExpireLease deletes the lease of a process, as JetStream does when it is not renewed.
func ExpireLease(ctx context.Context, stream jetstream.Stream, l *Locator) error {
	l.mu.Lock()
	process := l.process
	l.mu.Unlock()
	return stream.Purge(ctx, jetstream.WithPurgeSubject(l.s.processSubject(process)))
}
