package partial

import (
	"context"
	"sync"
	"time"
)

// Ended stores the operations that have ended, so that their tokens are rejected. Instances of a
// server that share keys should share it, too: otherwise an instance accepts the tokens of an
// operation that another instance has completed, until they expire. Its methods may be called by
// many goroutines.
type Ended interface {
	// Add stores an operation, until the given time at least.
	Add(ctx context.Context, operation string, until time.Time) error
	// Has reports whether an operation is stored.
	Has(ctx context.Context, operation string) (bool, error)
}

// maxEnded is the largest number of operations in memory. Beyond that, the oldest are deleted
// before their time.
const maxEnded = 100_000

// memory is an Ended for one process.
type memory struct {
	mu    sync.Mutex
	known map[string]struct{}
	queue []ended // in the order of their times
}

type ended struct {
	operation string
	until     time.Time
}

// Add deletes expired operations, and then adds the given one.
func (m *memory) Add(_ context.Context, operation string, until time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for len(m.queue) > 0 && (len(m.queue) >= maxEnded || !m.queue[0].until.After(now)) {
		delete(m.known, m.queue[0].operation)
		m.queue = m.queue[1:]
	}
	if _, ok := m.known[operation]; !ok {
		m.known[operation] = struct{}{}
		m.queue = append(m.queue, ended{operation, until})
	}
	return nil
}

// Has implements [Ended].
func (m *memory) Has(_ context.Context, operation string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.known[operation]
	return ok, nil
}
