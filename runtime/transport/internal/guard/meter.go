package guard

import "sync"

// Meter is the part of a Room that one connection uses for all its texts. The first bytes do not
// count, so that a connection with few bytes is served even while others have filled the Room. Its
// methods are safe for concurrent use.
type Meter struct {
	room *Room
	free int

	mu    sync.Mutex
	used  int
	ended bool
}

// NewMeter returns a Meter that counts the bytes after the first free ones.
func NewMeter(room *Room, free int) *Meter { return &Meter{room: room, free: free} }

// Take counts n bytes. It returns false without counting them if some do not belong to the free
// ones, and the Room is full. The last bytes that have room may be more than the rest of the Room.
func (m *Meter) Take(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counted(m.used+n) > m.counted(m.used) && m.room.Full() {
		return false
	}
	m.set(m.used + n)
	return true
}

// Add counts n bytes, even if the Room is full. A negative n subtracts them.
func (m *Meter) Add(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(m.used + n)
}

// End subtracts all bytes from the Room, and those that are added later do not count for it.
func (m *Meter) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.room.Give(m.counted(m.used))
	m.ended = true
}

// Limit returns max, or the free bytes if that is less and the Room is full.
func (m *Meter) Limit(max int) int {
	if m.room.Full() {
		return min(max, m.free)
	}
	return max
}

// set changes the number of bytes. mu must be held.
func (m *Meter) set(used int) {
	if n := m.counted(used) - m.counted(m.used); n != 0 {
		m.room.Give(-n)
	}
	m.used = used
}

// counted returns how many of used bytes count for the Room. mu must be held.
func (m *Meter) counted(used int) int {
	if m.ended {
		return 0
	}
	return max(used-m.free, 0)
}
