package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
)

// Limits of a cached list. A longer list is fetched again each time.
const (
	maxCached      = 10_000   // items
	maxCachedBytes = 16 << 20 // bytes of all pages
)

// ErrUnknown is returned if the server's list has no item with the given name.
var ErrUnknown = errors.New("client: unknown to the server")

// ErrListCut ends a list if the session was lost and replaced between two pages. Cursors are not
// valid in the new session: fetch the list from its beginning (MCP pagination, "Implementation
// Guidelines").
var ErrListCut = errors.New("client: list: session was replaced between two pages")

// list fetches and caches one of the server's lists. Cached items are shared with callers.
type list[T any] struct {
	c       *Client
	method  string
	key     func(*T) string // identifies an item
	fetch   func(ctx context.Context, to mcp.ToServer, p *mcp.PaginatedRequestParams) (page []T, next *string, err error)
	onCache func()      // called when another list is cached; may be nil
	fetched atomic.Bool // a page was requested

	mu       sync.Mutex
	changes  uint64        // number of changes reported
	sessions uint64        // number of sessions replaced
	cached   []*T          // the complete list as fetched last; nil if not cached
	byKey    map[string]*T // the first item of each key in cached; nil before it is used
	fresh    bool          // no change was reported since cached was fetched
}

// init sets how the list is fetched.
func (l *list[T]) init(c *Client, method string, fetch func(context.Context, mcp.ToServer, *mcp.PaginatedRequestParams) ([]T, *string, error), key func(*T) string) {
	l.c, l.method, l.fetch, l.key = c, method, fetch, key
}

// changed marks the cached list as outdated.
func (l *list[T]) changed() {
	l.c.cache.drop(l.method, "")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.fresh = false
}

// sessionReplaced marks the cached list as outdated because the session was replaced.
func (l *list[T]) sessionReplaced() {
	l.changed()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions++
}

// sessionID identifies a session.
type sessionID struct {
	server *mcp.InitializeResult // nil in revisions without sessions
	number uint64
}

// session returns the current session. The client learns in another goroutine that a session was
// replaced, perhaps after a page was fetched from the new one, so the number alone is not enough.
func (l *list[T]) session() sessionID {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := sessionID{number: l.sessions}
	if !l.c.session.Traits().Sessionless {
		id = sessionID{server: l.c.session.Server()}
	}
	return id
}

// all iterates over the list. It uses the cache if the list is fresh and the server announces
// changes. Otherwise it fetches the list page by page. In revisions without sessions, the pages
// have a cache of their own.
func (l *list[T]) all(ctx context.Context, announced bool) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		l.mu.Lock()
		cached, fresh, changes := l.cached, l.fresh && announced && !l.c.session.Traits().CacheHints, l.changes
		l.mu.Unlock()
		if !fresh {
			l.pages(ctx, changes, yield)
			return
		}
		for _, item := range cached {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// pages fetches the list page by page until yield returns false (MCP pagination). It caches a list
// that was fetched completely and did not change meanwhile.
func (l *list[T]) pages(ctx context.Context, changes uint64, yield func(*T, error) bool) {
	l.fetched.Store(true)
	cached, cacheable := []*T{}, true
	to := &counter{Caller: l.c.caller()}
	var cursors methods.Cursors
	session := l.session()
	var yielded map[string]bool // before a restart; nil otherwise
	for p := new(mcp.PaginatedRequestParams); ; {
		page, next, err := l.fetch(ctx, mcp.ToServer{Caller: to}, p)
		if err != nil && yielded == nil && p.Cursor != nil && jsonrpc.CodeOf(err) == jsonrpc.CodeInvalidParams && l.c.cache.drop(l.method, "") {
			// The cursor comes from a cached page that is outdated (MCP caching, "Interaction with
			// Pagination").
			yielded = map[string]bool{}
			for _, item := range cached {
				yielded[l.key(item)] = true
			}
			cached, cursors, p = []*T{}, methods.Cursors{}, new(mcp.PaginatedRequestParams)
			continue
		}
		switch now := l.session(); {
		case now == session:
		case p.Cursor == nil:
			session = now
		default: // the cursor belongs to the previous session, even if the server accepted it
			err = ErrListCut
		}
		if err != nil {
			yield(nil, err)
			return
		}
		if cacheable = cacheable && len(cached)+len(page) <= maxCached && to.received <= maxCachedBytes; !cacheable {
			cached = nil
		}
		for i := range page {
			if cacheable {
				cached = append(cached, &page[i])
			}
			if !yielded[l.key(&page[i])] && !yield(&page[i], nil) {
				return
			}
		}
		more, err := cursors.Next(next)
		if err != nil {
			yield(nil, fmt.Errorf("client: list: %w", err))
			return
		}
		if !more {
			break
		}
		p = &mcp.PaginatedRequestParams{Cursor: next}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !cacheable {
		l.cached, l.byKey, l.fresh = nil, nil, false
	} else if l.changes == changes {
		l.cached, l.byKey, l.fresh = cached, nil, true
		if l.onCache != nil {
			l.onCache()
		}
	}
}

// counter is a caller that counts the bytes of its results. It is not safe for concurrent use.
type counter struct {
	jsonrpc.Caller
	received int
}

// Call implements [jsonrpc.Caller].
func (c *counter) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	result, err := c.Caller.Call(ctx, method, params)
	c.received += len(result)
	return result, err
}

// find returns the first item with a key. It uses the cache if the list is fresh and has such an
// item. Otherwise it fetches the list. It fails with ErrUnknown if there is no such item.
func (l *list[T]) find(ctx context.Context, key string) (*T, error) {
	l.mu.Lock()
	changes := l.changes
	l.mu.Unlock()
	if item := l.cachedItem(key); item != nil && !l.c.session.Traits().CacheHints {
		return item, nil
	}
	var found *T
	var failed error
	l.pages(ctx, changes, func(item *T, err error) bool {
		if failed = err; err == nil && found == nil && l.key(item) == key {
			found = item
		}
		return err == nil
	})
	if failed == nil && found == nil {
		failed = ErrUnknown
	}
	return found, failed
}

// cachedItem returns the first cached item with a key. It returns nil if there is none or if the
// cache is not fresh.
func (l *list[T]) cachedItem(key string) *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.fresh {
		return nil
	}
	if l.byKey == nil {
		l.byKey = make(map[string]*T, len(l.cached))
		for _, item := range slices.Backward(l.cached) {
			l.byKey[l.key(item)] = item
		}
	}
	return l.byKey[key]
}

// Tools iterates over the tools of the server and fetches pages on demand (MCP tools, "Listing
// Tools"). A completed list is cached until the server announces a change. It is not cached if the
// server does not declare listChanged, or if the list has more than 10,000 items or 16 MiB of JSON.
// The tools are shared and must not be modified. Iteration ends after an error. Cursors that lead
// back to an earlier page and lists of more than 10,000 pages are errors.
//
// In revisions without sessions, each page is cached for as long as the server says, and until it
// announces a change; see [Cache].Bytes. Over HTTP, tools with an invalid x-mcp-header in
// their schema are left out and logged.
func (c *Client) Tools(ctx context.Context) iter.Seq2[*mcp.Tool, error] {
	t := c.Server().Capabilities.Tools
	return c.tools.all(ctx, t != nil && isTrue(t.ListChanged))
}

// Resources iterates over the resources of the server, like [Client.Tools] (MCP resources, "Listing
// Resources").
func (c *Client) Resources(ctx context.Context) iter.Seq2[*mcp.Resource, error] {
	return c.resources.all(ctx, c.resourcesAnnounced())
}

// ResourceTemplates iterates over the resource templates of the server, like [Client.Tools] (MCP
// resources, "Resource Templates").
func (c *Client) ResourceTemplates(ctx context.Context) iter.Seq2[*mcp.ResourceTemplate, error] {
	return c.templates.all(ctx, c.resourcesAnnounced())
}

// Prompts iterates over the prompts of the server, like [Client.Tools] (MCP prompts, "Listing
// Prompts").
func (c *Client) Prompts(ctx context.Context) iter.Seq2[*mcp.Prompt, error] {
	p := c.Server().Capabilities.Prompts
	return c.prompts.all(ctx, p != nil && isTrue(p.ListChanged))
}

// Tool returns the tool with the given name. It fails with [ErrUnknown] if there is none. It uses
// the cached list, and fetches the list if that is outdated or does not contain the name. If the
// server does not announce changes, the cached list is never outdated. In revisions without
// sessions the server says how long it is valid.
func (c *Client) Tool(ctx context.Context, name string) (*mcp.Tool, error) {
	tool, err := c.tools.find(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	return tool, nil
}

// invalidateLists marks all lists as outdated because the session was replaced.
func (c *Client) invalidateLists() {
	c.tools.sessionReplaced()
	c.resources.sessionReplaced()
	c.templates.sessionReplaced()
	c.prompts.sessionReplaced()
}

// fetchedList reports whether the list of a notification was requested.
func (c *Client) fetchedList(notification string) bool {
	switch notification {
	case mcp.MethodNotificationsToolsListChanged:
		return c.tools.fetched.Load()
	case mcp.MethodNotificationsPromptsListChanged:
		return c.prompts.fetched.Load()
	case mcp.MethodNotificationsResourcesListChanged:
		return c.resources.fetched.Load() || c.templates.fetched.Load()
	}
	return false
}

func (c *Client) resourcesAnnounced() bool {
	r := c.Server().Capabilities.Resources
	return r != nil && isTrue(r.ListChanged)
}

func (c *Client) toolPage(ctx context.Context, to mcp.ToServer, p *mcp.PaginatedRequestParams) ([]mcp.Tool, *string, error) {
	r, err := to.ListTools(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	return c.usableTools(r.Tools), r.NextCursor, nil
}

func resourcePage(ctx context.Context, to mcp.ToServer, p *mcp.PaginatedRequestParams) ([]mcp.Resource, *string, error) {
	r, err := to.ListResources(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	return r.Resources, r.NextCursor, nil
}

func templatePage(ctx context.Context, to mcp.ToServer, p *mcp.PaginatedRequestParams) ([]mcp.ResourceTemplate, *string, error) {
	r, err := to.ListResourceTemplates(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	return r.ResourceTemplates, r.NextCursor, nil
}

func promptPage(ctx context.Context, to mcp.ToServer, p *mcp.PaginatedRequestParams) ([]mcp.Prompt, *string, error) {
	r, err := to.ListPrompts(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	return r.Prompts, r.NextCursor, nil
}

func isTrue(b *bool) bool { return b != nil && *b }
