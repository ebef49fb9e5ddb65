package jetstream

import "sync"

// cacheSize is the maximum number of records in a cache.
const cacheSize = 1024

// cache holds the latest records that this process has written or read, without their payloads. An
// entry may be out of date. A write that is based on such an entry fails, and then reads the
// record.
type cache struct {
	mu   sync.Mutex
	byID map[string]*stored
	ring [cacheSize]string // ids, the oldest at next
	next int
}

// put adds a record.
func (c *cache) put(s *stored) {
	brief := *s
	brief.record = s.record.Brief()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = make(map[string]*stored)
	}
	id := brief.record.ID
	if old, ok := c.byID[id]; ok {
		if old.seq < brief.seq {
			c.byID[id] = &brief
		}
		return
	}
	delete(c.byID, c.ring[c.next])
	c.ring[c.next] = id
	c.next = (c.next + 1) % cacheSize
	c.byID[id] = &brief
}

// get returns a record that must not be changed, or nil.
func (c *cache) get(id string) *stored {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

// drop removes a record.
func (c *cache) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, id)
}
