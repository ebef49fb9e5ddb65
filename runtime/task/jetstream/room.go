package jetstream

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A stream with a maximum size keeps a part of it free for the tasks that exist: for their steps,
// answers and results. Otherwise, a stream that is full of new tasks would let none of them end.
const reservedShare = 16 // a sixteenth of the maximum size

// Times after which the size of a stream is read again.
const (
	roomPeriod = time.Second
	fullPeriod = 100 * time.Millisecond // after it had no room
)

// room is what a Store knows about the free space of the stream of a partition.
type room struct {
	mu    sync.Mutex
	until time.Time // when the size must be read again
	limit bool      // the stream has a maximum size
	left  int64     // bytes that were left for new tasks when it was read
	// taken counts the bytes that this Store has written since, and those reserved for new tasks.
	taken atomic.Int64
	full  error // the stream has no room for new tasks; nil if it has
}

// smallRecord is about the size in bytes of the messages of a record with small payloads.
const smallRecord = 1024

// checkRoom fails with ErrFull if the stream of a partition has no room for new tasks.
func (s *store) checkRoom(ctx context.Context, partition int) error {
	room := &s.rooms[partition]
	room.mu.Lock() // one call reads the size, and the others wait for it
	defer room.mu.Unlock()
	if time.Now().After(room.until) || room.full == nil && room.limit && room.left < room.taken.Load() {
		if s.measure(ctx, partition, room) != nil { // the write will fail with the right error
			room.until, room.limit, room.full = time.Now().Add(roomPeriod), false, nil
		}
	}
	if room.full == nil {
		room.taken.Add(smallRecord)
	}
	return room.full
}

// measure reads the size of the stream of a partition, in one attempt. The caller holds the mu of
// the room.
func (s *store) measure(ctx context.Context, partition int, room *room) error {
	var info struct {
		Config struct {
			MaxBytes int64 `json:"max_bytes"`
		} `json:"config"`
		State struct {
			Bytes int64 `json:"bytes"`
		} `json:"state"`
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	room.taken.Store(0)
	if err := s.call(ctx, "STREAM.INFO."+s.recordStream(partition), struct{}{}, &info); err != nil {
		return err
	}
	most, period := info.Config.MaxBytes, roomPeriod
	room.limit, room.full = most > 0, nil
	if room.left = most - most/reservedShare - info.State.Bytes; room.limit && room.left <= 0 {
		room.full = fmt.Errorf("jetstream: create task: %w: it has %d of %d bytes", ErrFull, info.State.Bytes, most)
		period = fullPeriod
	}
	room.until = time.Now().Add(period)
	return nil
}

// probe finds out whether the servers accept writes again, and then resets the error that Health
// reports. It does not repeat its requests; Health calls it again.
func (s *store) probe() {
	ctx, cancel := context.WithTimeout(s.lifetime, attemptTimeout)
	defer cancel()
	for n := range s.partitions {
		r := new(room)
		if s.measure(ctx, n, r) != nil || r.full != nil {
			return
		}
		// An empty message that expires soon, like those of confirmLast.
		if _, err := s.publish(ctx, newMessage(s.prefix(n)+".h._.=", nil, tombstone)); err != nil {
			return
		}
	}
	s.report(nil)
}

// probePeriod is the minimum time between two probes.
const probePeriod = time.Second

// probeSoon starts a probe, unless one has begun within probePeriod.
func (s *store) probeSoon() {
	s.probes.Lock()
	defer s.probes.Unlock()
	if s.lifetime.Err() == nil && time.Since(s.probed) >= probePeriod {
		s.probed = time.Now()
		s.running.Go(s.probe) // ends within attemptTimeout
	}
}
