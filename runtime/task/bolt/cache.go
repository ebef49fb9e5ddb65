package bolt

import (
	"sync"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// cache holds the most recently written records. A task that was just created or changed is usually
// read next; the cache saves the lookup and the decoding. It contains only records that are in the
// file.
type cache struct {
	mu   sync.Mutex
	byID map[string]task.Record
	ring [cacheSize]string // ids, the oldest at next
	next int
}

const (
	cacheSize  = 1024    // records
	cacheBytes = 8 << 10 // of payload in a record; larger records are not cached
)

// put adds a record that has just been written, or removes it if it is too large.
func (c *cache) put(r *task.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if payloadBytes(r) > cacheBytes {
		delete(c.byID, r.ID)
		return
	}
	if _, ok := c.byID[r.ID]; !ok {
		if c.byID == nil {
			c.byID = make(map[string]task.Record, cacheSize)
		}
		delete(c.byID, c.ring[c.next])
		c.ring[c.next] = r.ID
		c.next = (c.next + 1) % cacheSize
	}
	c.byID[r.ID] = *r
}

// payloadBytes returns the size of the payloads of a record.
func payloadBytes(r *task.Record) int {
	n := len(r.Params) + len(r.Result) + len(r.Error)
	for i := range r.InputRequests {
		q := &r.InputRequests[i]
		n += 128 + len(q.Method) + len(q.Key) + len(q.Params) + len(q.Result) + len(q.Error)
	}
	if r.Durable != nil {
		for i := range r.Durable.Signals {
			s := &r.Durable.Signals[i]
			n += 128 + len(s.ID) + len(s.Name) + len(s.Value)
		}
	}
	return n
}

func (c *cache) get(id string) (task.Record, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.byID[id]
	return r, ok
}

func (c *cache) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, id)
}

func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.byID)
}
