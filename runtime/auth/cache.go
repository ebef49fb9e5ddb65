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

// cache holds values of tokens: the identities of valid ones, or the errors of rejected ones. A full
// shard evicts its least recently used entry.
type cache[T any] struct {
	shards []cacheShard[T] // a power of two
	max    int             // entries of a shard
}

type cacheShard[T any] struct {
	mu      sync.Mutex
	entries map[cacheKey]*cacheEntry[T]
	oldest  cacheEntry[T] // head of a ring; its next is the least recently used entry
}

type cacheEntry[T any] struct {
	key            cacheKey
	value          T
	until          time.Time
	previous, next *cacheEntry[T]
}

// newCache returns a cache for about size tokens.
func newCache[T any](size int) *cache[T] {
	n := 16
	if size < 1024 {
		n = 1
	}
	c := &cache[T]{shards: make([]cacheShard[T], n), max: (size + n - 1) / n}
	for i := range c.shards {
		s := &c.shards[i]
		s.entries = map[cacheKey]*cacheEntry[T]{}
		s.oldest.previous, s.oldest.next = &s.oldest, &s.oldest
	}
	return c
}

func (c *cache[T]) shard(key *cacheKey) *cacheShard[T] {
	return &c.shards[int(key.sum[0])&(len(c.shards)-1)]
}

// get returns the value of a token, or the zero value.
func (c *cache[T]) get(key *cacheKey, now time.Time) (v T) {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[*key]
	if e == nil {
		return v
	}
	e.unlink()
	if !now.Before(e.until) {
		delete(s.entries, *key)
		return v
	}
	s.append(e)
	return e.value
}

// put adds the value of a token.
func (c *cache[T]) put(key *cacheKey, v T, until time.Time) {
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
		e = new(cacheEntry[T])
	}
	e.key, e.value, e.until = *key, v, until
	s.entries[*key] = e
	s.append(e)
}

// remove removes a token.
func (c *cache[T]) remove(key *cacheKey) {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[*key]; e != nil {
		e.unlink()
		delete(s.entries, *key)
	}
}

// append links an entry as the newest one. mu must be held.
func (s *cacheShard[T]) append(e *cacheEntry[T]) {
	e.previous, e.next = s.oldest.previous, &s.oldest
	e.previous.next, e.next.previous = e, e
}

func (e *cacheEntry[T]) unlink() {
	e.previous.next, e.next.previous = e.next, e.previous
}
