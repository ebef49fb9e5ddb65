package streamable

import (
	"container/heap"
	"context"
	"fmt"
	"sort"
	"sync"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Defaults of [MemoryOptions].
const (
	defaultStoreBytes   = 64 << 20 // of all sessions together
	defaultSessionBytes = 8 << 20  // of one session
)

// MemoryOptions sets the limits of [NewMemoryStore]. The zero value means the defaults.
type MemoryOptions struct {
	// MaxBytes limits the size in bytes of the events of all sessions; default 64 MiB.
	MaxBytes int
	// MaxSessionBytes limits the size in bytes of the events of one session; default
	// 8 MiB, and at most MaxBytes.
	MaxSessionBytes int
}

// Memory of an event in addition to its text, including its stream, and of a session in addition to
// its events.
const (
	memoryOverhead  = 256
	sessionOverhead = 512
)

// memoryStore is the store of [NewMemoryStore].
type memoryStore struct {
	o MemoryOptions

	mu       sync.Mutex
	size     int
	sessions map[string]*memorySession
	accounts map[string]*memoryAccount
	largest  bySize[*memoryAccount]
}

// memoryAccount has the sessions of an account; see accountOf.
type memoryAccount struct {
	id      string
	sized   // in memoryStore.largest
	largest bySize[*memorySession]
}

type memorySession struct {
	id      string
	sized   // in memoryAccount.largest
	account *memoryAccount
	order   fifo[*memoryStream] // the stream of each event, the oldest event first
	streams map[string]*memoryStream
}

// sized is an item of a bySize.
type sized struct {
	place int // index
	size  int
}

func (s *sized) item() *sized { return s }

type memoryStream struct {
	id     string
	events fifo[Event]
}

// fifo is a queue. Adding an item takes constant amortized time.
type fifo[T any] struct {
	all     []T
	dropped int // number of dropped items at the beginning of all
}

func (f *fifo[T]) items() []T { return f.all[f.dropped:] }

func (f *fifo[T]) add(item T) {
	if len(f.all) == cap(f.all) && f.dropped > len(f.all)/2 {
		n := copy(f.all, f.items())
		clear(f.all[n:])
		f.all, f.dropped = f.all[:n], 0
	}
	f.all = append(f.all, item)
}

func (f *fifo[T]) drop() T {
	var none T
	item := f.all[f.dropped]
	f.all[f.dropped] = none
	f.dropped++
	return item
}

// bySize is a heap, the largest item first.
type bySize[T interface{ item() *sized }] []T

func (b bySize[T]) Len() int           { return len(b) }
func (b bySize[T]) Less(i, j int) bool { return b[i].item().size > b[j].item().size }
func (b bySize[T]) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].item().place, b[j].item().place = i, j
}
func (b *bySize[T]) Push(x any) {
	item := x.(T)
	item.item().place = len(*b)
	*b = append(*b, item)
}
func (b *bySize[T]) Pop() any {
	var none T
	last := (*b)[len(*b)-1]
	(*b)[len(*b)-1] = none
	*b = (*b)[:len(*b)-1]
	return last
}

// NewMemoryStore returns an empty store in memory. A session above MaxSessionBytes loses its oldest
// events. Above MaxBytes, the principal whose sessions have the most bytes loses events, the oldest
// ones of its largest session. Clients without a principal count by their network; see
// [HandlerOptions].
func NewMemoryStore(o MemoryOptions) EventStore {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultStoreBytes
	}
	if o.MaxSessionBytes <= 0 {
		o.MaxSessionBytes = defaultSessionBytes
	}
	o.MaxSessionBytes = min(o.MaxSessionBytes, o.MaxBytes)
	return &memoryStore{o: o, sessions: map[string]*memorySession{}, accounts: map[string]*memoryAccount{}}
}

// Append adds an event to the end of a stream. It fails with an error that wraps
// [transport.ErrTooLong] if the event alone has more than MaxSessionBytes.
func (s *memoryStore) Append(ctx context.Context, session, stream string, e Event) error {
	size := len(e.Text) + memoryOverhead
	if size+sessionOverhead > s.o.MaxSessionBytes {
		return fmt.Errorf("streamable: event of %d bytes: %w", len(e.Text), transport.ErrTooLong)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.sessions[session]
	if of == nil {
		of = &memorySession{id: session, account: s.account(accountOf(ctx)), streams: map[string]*memoryStream{}}
		s.sessions[session] = of
		heap.Push(&of.account.largest, of)
		s.resize(of, sessionOverhead)
	}
	to := of.streams[stream]
	if to == nil {
		to = &memoryStream{id: stream}
		of.streams[stream] = to
	}
	to.events.add(e)
	of.order.add(to)
	s.resize(of, size)
	for of.size > s.o.MaxSessionBytes {
		s.dropOldest(of)
	}
	for s.size > s.o.MaxBytes {
		s.dropOldest(s.largest[0].largest[0])
	}
	return nil
}

// account returns the account with an id, and adds it if there is none. mu must be held.
func (s *memoryStore) account(id string) *memoryAccount {
	a := s.accounts[id]
	if a == nil {
		a = &memoryAccount{id: id}
		s.accounts[id] = a
		heap.Push(&s.largest, a)
	}
	return a
}

// resize adds by to the size of a session. mu must be held.
func (s *memoryStore) resize(of *memorySession, by int) {
	of.size += by
	of.account.size += by
	s.size += by
	heap.Fix(&of.account.largest, of.place)
	heap.Fix(&s.largest, of.account.place)
}

// dropOldest drops the oldest event of a session. mu must be held.
func (s *memoryStore) dropOldest(of *memorySession) {
	from := of.order.drop()
	e := from.events.drop()
	s.resize(of, -len(e.Text)-memoryOverhead)
	if len(from.events.items()) == 0 {
		delete(of.streams, from.id)
	}
	if len(of.order.items()) == 0 {
		s.remove(of)
	}
}

// remove drops a session. mu must be held.
func (s *memoryStore) remove(of *memorySession) {
	a := of.account
	s.size -= of.size
	a.size -= of.size
	heap.Remove(&a.largest, of.place)
	delete(s.sessions, of.id)
	if len(a.largest) > 0 {
		heap.Fix(&s.largest, a.place)
		return
	}
	heap.Remove(&s.largest, a.place)
	delete(s.accounts, a.id)
}

// maxRead is how many bytes of events one call of Events returns. A connection that is read slowly
// keeps them in memory, although the store may have dropped them.
const maxRead = 1 << 20

// Events returns the next events of a stream after the event with the number after.
func (s *memoryStore) Events(_ context.Context, session, stream string, after uint64) ([]Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.sessions[session]
	if of == nil || of.streams[stream] == nil {
		return nil, fmt.Errorf("%w: stream %s", ErrUnknown, stream)
	}
	events := of.streams[stream].events.items()
	events = events[sort.Search(len(events), func(i int) bool { return events[i].Number > after }):]
	n := 0
	for size := 0; n < len(events) && size < maxRead; n++ {
		size += len(events[n].Text) + memoryOverhead
	}
	return append([]Event(nil), events[:n]...), nil
}

// Forget drops a session. It never fails.
func (s *memoryStore) Forget(_ context.Context, session string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.sessions[session]; of != nil {
		s.remove(of)
	}
	return nil
}
