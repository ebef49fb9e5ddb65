package client

import (
	linked "container/list"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
)

// cache holds the results that a server of a revision without sessions allows to be used again (MCP
// caching). Its methods are safe for concurrent use. An entry is the result of one page or of one
// resource, and expires by its own clock.
type cache struct {
	max       int                              // bytes; 0 means that nothing is cached
	partition func(ctx context.Context) string // of private results
	private   bool                             // private results are cached, too

	mu      sync.Mutex
	changes uint64 // number of invalidations
	bytes   int    // of keys and results
	entries map[string]*linked.Element
	order   linked.List // of *cached, the oldest first
}

// cached is an entry.
type cached struct {
	key     string
	result  json.RawMessage
	expires time.Time
}

// cacheable reports whether the results of a method may be cached.
func cacheable(method string) bool {
	switch method {
	case mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList, mcp.MethodResourcesRead:
		return true
	}
	return false
}

// call returns the fresh cached result of a request, or that of send, which it caches if the server
// allows that. asked reports that the result of send depends on input: it is not cached.
func (c *cache) call(ctx context.Context, method string, params codec.Encoder, send func() (result json.RawMessage, asked bool, err error)) (json.RawMessage, error) {
	if c.max <= 0 || !cacheable(method) {
		result, _, err := send()
		return result, err
	}
	key := cacheKey(method, params)
	if key == "" {
		result, _, err := send()
		return result, err
	}
	private := ""
	if c.private {
		private = key + "\x00" // distinct from a public key, also for an empty partition
		if c.partition != nil {
			private += c.partition(ctx)
		}
	}
	result, changes := c.get(key, private)
	if result != nil {
		return result, nil
	}
	result, asked, err := send()
	if err == nil && !asked {
		c.put(key, private, result, changes)
	}
	return result, err
}

// cacheKey returns the key of a request: its method and its params. It returns "" if the params
// cannot be encoded.
func cacheKey(method string, params codec.Encoder) string {
	if params == nil {
		return method + "\x00{}"
	}
	text, err := codec.Marshal(params)
	if err != nil {
		return ""
	}
	return method + "\x00" + string(text)
}

// get returns the fresh result of a key, or nil, and the number of invalidations so far.
func (c *cache) get(public, private string) (result json.RawMessage, changes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range []string{public, private} {
		element := c.entries[key]
		if element == nil {
			continue
		}
		entry := element.Value.(*cached)
		if time.Now().Before(entry.expires) {
			return entry.result, c.changes
		}
		c.remove(element)
	}
	return nil, c.changes
}

// put caches a result that was requested when there had been the given number of invalidations.
func (c *cache) put(public, private string, result json.RawMessage, changes uint64) {
	ttl, scope := hints(result)
	key := private
	if scope == mcp.CacheScopePublic {
		key = public
	}
	size := len(key) + len(result)
	if ttl <= 0 || key == "" || size > c.max {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != changes {
		return
	}
	if old := c.entries[key]; old != nil {
		c.remove(old)
	}
	for c.bytes+size > c.max {
		c.remove(c.order.Front())
	}
	if c.entries == nil {
		c.entries = map[string]*linked.Element{}
	}
	c.entries[key] = c.order.PushBack(&cached{key, result, time.Now().Add(ttl)})
	c.bytes += size
}

// remove removes an entry. mu must be held.
func (c *cache) remove(element *linked.Element) {
	entry := c.order.Remove(element).(*cached)
	delete(c.entries, entry.key)
	c.bytes -= len(entry.key) + len(entry.result)
}

// drop removes the results of a method, or of one resource if uri is not empty. Results of pending
// requests are not cached.
func (c *cache) drop(method, uri string) (dropped bool) {
	prefix := method + "\x00"
	if uri != "" {
		prefix = cacheKey(method, &mcp.ReadResourceRequestParams{URI: uri})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	for key, element := range c.entries {
		if strings.HasPrefix(key, prefix) && (uri == "" || len(key) == len(prefix) || key[len(prefix)] == 0) {
			c.remove(element)
			dropped = true
		}
	}
	return dropped
}

// maxTTL limits how long a result stays fresh, so that a time does not overflow.
const maxTTL = 365 * 24 * time.Hour

// hints returns how long a result stays fresh, and its scope. A ttlMs that is absent, negative or
// not an integer counts as 0.
func hints(result json.RawMessage) (ttl time.Duration, scope mcp.CacheScope) {
	raw, ok := codec.Member(result, "ttlMs")
	if !ok {
		return 0, ""
	}
	ms, ok := codec.Number(raw).Int()
	if !ok || ms <= 0 {
		return 0, ""
	}
	ttl = time.Duration(min(ms, int64(maxTTL/time.Millisecond))) * time.Millisecond
	if raw, ok = codec.Member(result, "cacheScope"); ok {
		codec.ReadPart(raw, func(r *wire.Reader) { scope = mcp.CacheScope(r.Text()) })
	}
	return ttl, scope
}
