package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// cacheKey identifies a token without containing it.
type cacheKey struct {
	sum  [sha256.Size]byte
	dpop bool // the scheme
}

func keyOf(scheme, token string) cacheKey {
	var room [2 << 10]byte // avoids an allocation for most tokens
	return cacheKey{sha256.Sum256(append(room[:0], token...)), scheme == schemeDPoP}
}

// cache holds the identities of verified tokens. A full shard evicts its least recently used entry.
type cache struct {
	shards []cacheShard // a power of two
	max    int          // entries of a shard
}

type cacheShard struct {
	mu      sync.Mutex
	entries map[cacheKey]*cacheEntry
	oldest  cacheEntry // head of a ring; its next is the least recently used entry
}

type cacheEntry struct {
	key            cacheKey
	identity       *Identity
	until          time.Time
	previous, next *cacheEntry
}

// newCache returns a cache for about size tokens.
func newCache(size int) *cache {
	n := 16
	if size < 1024 {
		n = 1
	}
	c := &cache{shards: make([]cacheShard, n), max: (size + n - 1) / n}
	for i := range c.shards {
		s := &c.shards[i]
		s.entries = map[cacheKey]*cacheEntry{}
		s.oldest.previous, s.oldest.next = &s.oldest, &s.oldest
	}
	return c
}

func (c *cache) shard(key *cacheKey) *cacheShard {
	return &c.shards[int(key.sum[0])&(len(c.shards)-1)]
}

// get returns the identity of a token, or nil.
func (c *cache) get(key *cacheKey, now time.Time) *Identity {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[*key]
	if e == nil {
		return nil
	}
	e.unlink()
	if !now.Before(e.until) {
		delete(s.entries, *key)
		return nil
	}
	s.append(e)
	return e.identity
}

// put adds the identity of a token.
func (c *cache) put(key *cacheKey, i *Identity, until time.Time) {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[*key]
	switch {
	case e != nil:
		e.unlink()
	case len(s.entries) >= c.max:
		e = s.oldest.next
		e.unlink()
		delete(s.entries, e.key)
	default:
		e = new(cacheEntry)
	}
	e.key, e.identity, e.until = *key, i, until
	s.entries[*key] = e
	s.append(e)
}

// remove removes a token.
func (c *cache) remove(key *cacheKey) {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[*key]; e != nil {
		e.unlink()
		delete(s.entries, *key)
	}
}

// append links an entry as the newest one. mu must be held.
func (s *cacheShard) append(e *cacheEntry) {
	e.previous, e.next = s.oldest.previous, &s.oldest
	e.previous.next, e.next.previous = e, e
}

func (e *cacheEntry) unlink() {
	e.previous.next, e.next.previous = e.next, e.previous
}
