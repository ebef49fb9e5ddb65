package streamable

import (
	"context"
	"fmt"
	"sync"
)

// What a [MemoryStore] keeps if its options do not say otherwise.
const (
	DefaultStoreBytes   = 64 << 20 // of all sessions together
	DefaultSessionBytes = 2 << 20  // of one session
)

// MemoryOptions are the limits of a [MemoryStore]. The zero value means the defaults.
type MemoryOptions struct {
	MaxBytes        int // of events of all sessions together; default [DefaultStoreBytes]
	MaxSessionBytes int // of events of one session; default [DefaultSessionBytes]
}

// eventOverhead is what an event costs beside its text.
const eventOverhead = 128

// MemoryStore is an [EventStore] in memory. When a session has too many events, or all sessions together have and this
// one gets another, it loses its oldest ones; it never costs others theirs.
type MemoryStore struct {
	o MemoryOptions

	mu       sync.Mutex
	size     int
	sessions map[string]*memorySession
}

type memorySession struct {
	size    int
	all     []memoryEvent // the oldest first
	dropped int           // that many at the beginning of all
	streams map[string]int
}

// order returns the events that are there, the oldest first.
func (m *memorySession) order() []memoryEvent { return m.all[m.dropped:] }

// add adds an event, in the place of dropped ones if those are most.
func (m *memorySession) add(e memoryEvent) {
	if len(m.all) == cap(m.all) && m.dropped > len(m.all)/2 {
		n := copy(m.all, m.order())
		clear(m.all[n:])
		m.all, m.dropped = m.all[:n], 0
	}
	m.all = append(m.all, e)
}

type memoryEvent struct {
	stream string
	Event
}

// NewMemoryStore returns an empty store.
func NewMemoryStore(o MemoryOptions) *MemoryStore {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultStoreBytes
	}
	if o.MaxSessionBytes <= 0 {
		o.MaxSessionBytes = DefaultSessionBytes
	}
	return &MemoryStore{o: o, sessions: map[string]*memorySession{}}
}

// Append adds an event to the end of a stream. It never fails.
func (s *MemoryStore) Append(_ context.Context, session, stream string, e Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.sessions[session]
	if of == nil {
		of = &memorySession{streams: map[string]int{}}
		s.sessions[session] = of
	}
	of.add(memoryEvent{stream, e})
	of.streams[stream]++
	size := len(e.Text) + eventOverhead
	of.size += size
	s.size += size
	for len(of.order()) > 1 && (of.size > s.o.MaxSessionBytes || s.size > s.o.MaxBytes) {
		s.dropOldest(of)
	}
	return nil
}

// dropOldest forgets the oldest event of a session. It is called with mu held.
func (s *MemoryStore) dropOldest(of *memorySession) {
	e := of.all[of.dropped]
	of.all[of.dropped] = memoryEvent{}
	of.dropped++
	if of.streams[e.stream]--; of.streams[e.stream] == 0 {
		delete(of.streams, e.stream)
	}
	size := len(e.Text) + eventOverhead
	of.size -= size
	s.size -= size
}

// Events returns the events of a stream that come after the one with a number.
func (s *MemoryStore) Events(_ context.Context, session, stream string, after uint64) ([]Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.sessions[session]
	if of == nil || of.streams[stream] == 0 {
		return nil, fmt.Errorf("%w: stream %s", ErrUnknown, stream)
	}
	var events []Event
	for _, e := range of.order() {
		if e.stream == stream && e.Number > after {
			events = append(events, e.Event)
		}
	}
	return events, nil
}

// Forget drops a session. It never fails.
func (s *MemoryStore) Forget(_ context.Context, session string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.sessions[session]; of != nil {
		s.size -= of.size
		delete(s.sessions, session)
	}
	return nil
}
