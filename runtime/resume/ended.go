package resume

import (
	"context"
	"sync"
	"time"
)

// Ended remembers operations that are over, so that their tokens are refused. Instances of a server that
// share keys share one, too, or a token of an operation that another instance has completed is taken
// until it expires. Its methods may be called by many goroutines.
type Ended interface {
	// Add notes that an operation is over. It may be forgotten at the given time.
	Add(ctx context.Context, operation string, until time.Time) error
	// Has reports whether an operation is over.
	Has(ctx context.Context, operation string) (bool, error)
}

// maxEnded is how many operations memory remembers. Beyond that, the oldest are forgotten before
// their time.
const maxEnded = 100_000

// memory is an Ended for one process.
type memory struct {
	mu    sync.Mutex
	known map[string]struct{}
	queue []ended // in the order they came, which is that of their times
}

type ended struct {
	operation string
	until     time.Time
}

// Add forgets what it may, and then notes the operation.
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

// Has reports whether an operation is noted.
func (m *memory) Has(_ context.Context, operation string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.known[operation]
	return ok, nil
}
