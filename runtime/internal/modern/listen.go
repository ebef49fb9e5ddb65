package modern

// The parts that all servers of subscriptions/listen share are the limits of what a principal
// subscribes to, and the changes that a subscription has not reported yet (MCP subscriptions).

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/mcpwire/mcpwire/runtime/internal/network"
)

// Errors of [Quota.Reserve].
var (
	ErrCount = errors.New("subscriptions: too many")
	ErrBytes = errors.New("subscriptions: too many bytes")
)

// Size is the size of subscriptions.
type Size struct {
	Count int // of requests and of what they name, such as resources
	Bytes int // of what they name
}

// Account returns the key of the limits for a request: its principal, or the network of a client
// without a principal, so that one stranger does not use up what is there for all, or "".
func Account(ctx context.Context, principal string) string {
	return cmp.Or(principal, network.From(ctx))
}

// Quota limits the subscriptions of each principal. Its methods are safe for concurrent use.
type Quota struct {
	Limit Size // of a principal; it is set before the first use and not changed afterwards

	mu   sync.Mutex
	used map[string]Size // by principal; those without subscriptions are absent
}

// Reserve counts a subscription of an account: a principal, or a network of clients without a
// principal. All networks together have the limit of a principal, and each has half of it. Reserve
// fails with [ErrCount] or [ErrBytes], and counts nothing, if the account would exceed the limit.
// The Quota keeps the string account.
func (q *Quota) Reserve(account string, s Size) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit, all := q.Limit, error(nil)
	if network.Is(account) {
		limit, all = Size{(limit.Count + 1) / 2, (limit.Bytes + 1) / 2}, q.room("", s, q.Limit)
	}
	if err := cmp.Or(q.room(account, s, limit), all); err != nil {
		return err
	}
	q.add(account, s)
	return nil
}

// room returns an error if an account with a limit has no room for a subscription. mu must be held.
func (q *Quota) room(account string, s, limit Size) error {
	switch used := q.used[account]; {
	case used.Count+s.Count > limit.Count:
		return ErrCount
	case used.Bytes+s.Bytes > limit.Bytes:
		return ErrBytes
	}
	return nil
}

// Add counts a subscription of an account even if it exceeds the limit.
func (q *Quota) Add(account string, s Size) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(account, s)
}

// Release stops counting a subscription that was counted with the same account and size.
func (q *Quota) Release(account string, s Size) { q.Add(account, Size{-s.Count, -s.Bytes}) }

// add counts a subscription. mu must be held.
func (q *Quota) add(account string, s Size) {
	if q.used == nil {
		q.used = map[string]Size{}
	}
	sum := q.used[account]
	sum.Count += s.Count
	sum.Bytes += s.Bytes
	if q.used[account] = sum; sum == (Size{}) {
		delete(q.used, account)
	}
	if network.Is(account) {
		q.add("", s)
	}
}

// Used returns the size of the subscriptions of all principals that have some.
func (q *Quota) Used() map[string]Size {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.used)
}

// Changes are the changes that a subscription has not reported yet. Equal changes are merged, so
// that a client that reads slowly costs no more memory than its subscription. The methods are safe
// for concurrent use.
type Changes[T comparable] struct {
	compare func(a, b T) int
	added   chan struct{} // buffers one

	mu      sync.Mutex
	pending map[T]struct{}
}

// NewChanges returns Changes that Take sorts with compare.
func NewChanges[T comparable](compare func(a, b T) int) *Changes[T] {
	return &Changes[T]{compare: compare, added: make(chan struct{}, 1)}
}

// Add adds a change. It does not block.
func (c *Changes[T]) Add(change T) {
	c.mu.Lock()
	if c.pending == nil {
		c.pending = map[T]struct{}{}
	}
	c.pending[change] = struct{}{}
	c.mu.Unlock()
	select {
	case c.added <- struct{}{}:
	default:
	}
}

// Added returns a channel with a value after changes were added. Take may return nothing then, if an
// earlier call has returned them already.
func (c *Changes[T]) Added() <-chan struct{} { return c.added }

// Take removes and returns the changes, sorted.
func (c *Changes[T]) Take() []T {
	c.mu.Lock()
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(pending), c.compare)
}
