package jetstreamstore

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Defaults of [Options].
const (
	DefaultName   = defaultName
	DefaultMaxAge = defaultMaxAge
)

// SetClock replaces the clock that decides when a Store writes old messages again.
func (s *Store) SetClock(now func() time.Time) { s.streams.now = now }

// ExpireLease deletes the lease of a process, as JetStream does when it is not renewed. processes is
// the stream of processes, over a connection of another process.
func ExpireLease(ctx context.Context, processes jetstream.Stream, opened *Locator) error {
	l := opened.process
	l.mu.Lock()
	process := l.process
	l.mu.Unlock()
	return processes.Purge(ctx, jetstream.WithPurgeSubject(l.s.processSubject(process)))
}

// ExtendNewLease joins again, and returns a function that renews that lease as the process does.
func ExtendNewLease(ctx context.Context, opened *Locator) (extend func(context.Context) error, err error) {
	l := opened.process
	a, err := l.join(ctx)
	return func(ctx context.Context) error { return l.extend(ctx, a) }, err
}

// PassTime makes what a process has read of others older.
func PassTime(opened *Locator, d time.Duration) {
	l := opened.process
	l.mu.Lock()
	defer l.mu.Unlock()
	for process, last := range l.seen {
		last.since = last.since.Add(-d)
		l.seen[process] = last
	}
}
