package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// kind is a kind of features, which has a list.
type kind int

const (
	tools kind = iota
	prompts
	resources
	templates
	kinds // number of kinds
)

// lists describes the list of each kind.
var lists = [kinds]struct {
	method   string // that lists the features
	member   string // of the result, with the list
	key      string // member of a feature that identifies it
	prefixed bool   // the key gets the prefix of the upstream
	changed  string // method of the notification of a change

	announced string // capability of servers that send it
}{
	tools:     {mcp.MethodToolsList, "tools", "name", true, mcp.MethodNotificationsToolsListChanged, "tools.listChanged"},
	prompts:   {mcp.MethodPromptsList, "prompts", "name", true, mcp.MethodNotificationsPromptsListChanged, "prompts.listChanged"},
	resources: {mcp.MethodResourcesList, "resources", "uri", false, mcp.MethodNotificationsResourcesListChanged, "resources.listChanged"},
	templates: {mcp.MethodResourcesTemplatesList, "resourceTemplates", "uriTemplate", false, mcp.MethodNotificationsResourcesListChanged, "resources.listChanged"},
}

// feature is a feature of an upstream. It is immutable.
type feature struct {
	link     *link
	key      string // for clients
	original string // the key at the upstream
	text     json.RawMessage
	fields   func() ([]modern.Field, error) // arguments of a tool that clients repeat in header fields
}

// Limits of the list of an upstream, and of the lists that an upstream has sent for all clients
// together: each client has its own.
const (
	maxFeatures     = 100_000
	maxFeatureBytes = 64 << 20
	maxListBytes    = 1 << 30
)

// featureSize is what a feature takes in memory besides its text.
const featureSize = 256

// fetched is a list of an upstream.
type fetched struct {
	features []*feature
	size     int // of the features, in bytes
	at       time.Time
	ttl      time.Duration // how long the list may be used; in a session, -1 for an unknown time
}

// bytes returns the size of a list, which may be nil.
func (f *fetched) bytes() int64 {
	if f == nil {
		return 0
	}
	return int64(f.size)
}

// stale reports whether a list must be fetched again. An upstream that announces changes has
// announced none.
func (f *fetched) stale(conn *connection, k kind) bool {
	return conn.session.Traits().CacheHints && conn.session.PeerServes(lists[k].method) &&
		!conn.session.Server().Capabilities.Declares(lists[k].announced) && time.Since(f.at) >= f.ttl
}

// fetch returns the features of a kind that the upstream lists. The list is empty if it has none. Its
// size counts for the limit of all clients as the pages arrive. The caller must pass it to setList.
func (l *link) fetch(ctx context.Context, conn *connection, k kind) (_ *fetched, err error) {
	list := &fetched{at: time.Now(), ttl: -1}
	of := lists[k]
	if !conn.session.PeerServes(of.method) {
		return list, nil
	}
	var all []*feature
	var cursors methods.Cursors
	size := 0
	defer func() {
		if err != nil {
			l.known.listBytes.Add(-int64(list.size))
		}
	}()
	for params := new(mcp.PaginatedRequestParams); ; {
		page, err := conn.session.With(session.Timeout(listTimeout)).Call(ctx, of.method, params)
		if err != nil {
			return nil, err
		}
		if conn.session.Traits().CacheHints {
			if ttl := ttlOf(page); list.ttl < 0 || ttl < list.ttl {
				list.ttl = ttl
			}
		}
		page = l.c.convert(conn, of.method, page)
		for _, text := range elements(page, of.member) {
			key, ok := textOf(text, of.key)
			if !ok {
				continue
			}
			text = withoutAlike(text, of.key)
			f := &feature{link: l, key: key, original: key, text: text}
			if of.prefixed {
				f.key = l.up.Prefix + key
				f.text = editText(text, func(string) string { return f.key }, of.key)
			}
			if k == tools {
				schema, _ := codec.Member(f.text, "inputSchema") // not of text, which would stay in memory, too
				f.fields = sync.OnceValues(func() ([]modern.Field, error) { return modern.ReceivedFields(schema) })
				if conn.overHTTP && conn.session.Traits().ParamHeaders {
					if _, err := f.fields(); err != nil {
						l.c.p.log.Warn("invalid tool dropped", "upstream", l.up.Name, "tool", key, "error", err)
						continue
					}
				}
			}
			all = append(all, f)
			size += len(f.text) + featureSize
		}
		if len(all) > maxFeatures {
			return nil, fmt.Errorf("proxy: list has more than %d features", maxFeatures)
		}
		if size > maxFeatureBytes {
			return nil, fmt.Errorf("proxy: list has more than %d bytes", maxFeatureBytes)
		}
		counted := l.known.listBytes.Add(int64(size - list.size))
		list.size = size
		if counted-l.c.listOf(l, k).bytes() > maxListBytes {
			return nil, fmt.Errorf("proxy: lists for all clients have more than %d bytes", maxListBytes)
		}
		var next *string
		if text, ok := textOf(page, "nextCursor"); ok {
			next = &text
		}
		more, err := cursors.Next(next)
		if err != nil {
			return nil, fmt.Errorf("proxy: list: %w", err)
		}
		if !more {
			list.features = all
			return list, nil
		}
		params = &mcp.PaginatedRequestParams{Cursor: next}
	}
}

// table holds the merged lists, sorted by key. It is immutable.
type table [kinds][]*feature

func compareKey(f *feature, key string) int { return cmp.Compare(f.key, key) }

// get returns a feature, or nil.
func (t *table) get(k kind, key string) *feature {
	i, ok := slices.BinarySearchFunc(t[k], key, compareKey)
	if !ok {
		return nil
	}
	return t[k][i]
}

// setList replaces a list of an upstream, and announces a change of the merged list. It does
// nothing if conn, over which the list was fetched, is not the current connection.
func (c *client) setList(l *link, conn *connection, k kind, list *fetched) {
	c.mu.Lock()
	if l.conn.Load() != conn {
		c.mu.Unlock()
		l.known.listBytes.Add(-list.bytes())
		return
	}
	l.known.listBytes.Add(-l.lists[k].bytes())
	l.lists[k] = list
	var all []*feature
	for _, l := range c.links {
		if l.lists[k] != nil {
			all = append(all, l.lists[k].features...)
		}
	}
	slices.SortStableFunc(all, func(a, b *feature) int { return cmp.Compare(a.key, b.key) })
	merged := c.distinct(all, k)
	before := c.table.Load()
	now := *before
	now[k] = merged
	c.table.Store(&now)
	c.mu.Unlock()
	same := slices.EqualFunc(before[k], merged, func(a, b *feature) bool {
		return a.link == b.link && a.key == b.key && bytes.Equal(a.text, b.text)
	})
	switch {
	case same:
	case c.traits().Listens:
		c.notifyListeners(lists[k].changed, "")
	default:
		if _, ready := c.session.Internals(boundary.Caller{}).State(); ready { // otherwise the client has not listed anything
			c.notify(c.ctx, lists[k].changed, nil)
		}
	}
}

// distinct returns the first feature with each key of a sorted list, which it overwrites. For each
// upstream whose features are hidden by those of others, it logs one line: upstreams decide how many
// there are.
func (c *client) distinct(all []*feature, k kind) []*feature {
	kept, hidden := all[:0], map[*link]int{}
	var examples []*feature // the first hidden feature of each upstream
	for _, f := range all {
		n := len(kept)
		if n == 0 || kept[n-1].key != f.key {
			kept = append(kept, f)
			continue
		}
		if kept[n-1].link == f.link {
			continue
		}
		if hidden[f.link]++; hidden[f.link] == 1 {
			examples = append(examples, f)
		}
	}
	clear(all[len(kept):])
	for _, f := range examples {
		i, _ := slices.BinarySearchFunc(kept, f.key, compareKey)
		c.p.log.Warn("features hidden", "kind", lists[k].member, "upstream", f.link.up.Name, "number", hidden[f.link],
			"key", f.key, "by", kept[i].link.up.Name)
	}
	return kept
}

// ownParams returns the params of a request for a list of the server itself, on behalf of another
// request. Given is true if there is a cursor.
func ownParams(req *session.Request, cursor string, given bool) (params json.RawMessage) {
	if meta, ok := codec.Member(req.Params, "_meta"); ok {
		params = jsonedit.With(nil, "_meta", meta)
	}
	if given {
		params = jsonedit.With(params, "cursor", quote(cursor))
	}
	return params
}

// refreshStale fetches expired lists again if their upstreams do not announce changes. The list of
// an upstream that does not respond within patience stays as it is, and changes later.
func (c *client) refreshStale(ctx context.Context, k kind) {
	var group sync.WaitGroup
	for _, l := range c.links {
		if conn, list := l.ready(), c.listOf(l, k); conn != nil && list != nil && list.stale(conn, k) {
			group.Go(func() { l.fetching[k].await(ctx) })
		}
	}
	group.Wait()
}

// listOf returns a list of an upstream, or nil.
func (c *client) listOf(l *link, k kind) *fetched {
	c.mu.Lock()
	defer c.mu.Unlock()
	return l.lists[k]
}

// hint returns how long clients may use the features of upstreams in a merged list: the shortest
// time of an upstream. [server.Caching] has that of upstreams with sessions.
func (c *client) hint(k kind) time.Duration {
	shortest := time.Duration(-1)
	for _, l := range c.links {
		conn, list := l.conn.Load(), c.listOf(l, k)
		ttl := c.ownTTL(k)
		switch {
		case conn == nil || list == nil || list.stale(conn, k):
			ttl = 0
		case !conn.session.PeerServes(lists[k].method):
			continue
		case list.ttl >= 0:
			ttl = list.ttl
		}
		if shortest < 0 || ttl < shortest {
			shortest = ttl
		}
	}
	if shortest < 0 {
		return c.ownTTL(k)
	}
	return shortest
}

// ownTTL returns how long clients may use the server's own list.
func (c *client) ownTTL(k kind) time.Duration {
	caching := &c.p.cfg.Server.Features.Caching
	return [kinds]time.Duration{tools: caching.Tools, prompts: caching.Prompts, resources: caching.Resources, templates: caching.Templates}[k]
}

// ttlOf returns how long a result may be used.
func ttlOf(result json.RawMessage) time.Duration {
	raw, _ := codec.Member(result, "ttlMs")
	n, ok := codec.Number(raw).Int()
	if !ok || n < 0 {
		return 0
	}
	return time.Duration(min(n, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// Prefixes of cursors. The rest of a cursor is the last key of the previous page after afterKey,
// and a cursor of the server's own list after ownList.
const (
	afterKey = "k"
	ownList  = "o"
)

// list serves a page of a merged list: features of upstreams, and then those of the server itself.
func (c *client) list(ctx context.Context, req *session.Request, k kind, next session.Handler) (codec.Encoder, error) {
	cursor, _ := textOf(req.Params, "cursor")
	if cursor == "" {
		c.refreshStale(ctx, k)
	}
	all := c.table.Load()[k]
	switch {
	case strings.HasPrefix(cursor, afterKey):
		key := strings.TrimPrefix(cursor, afterKey)
		from, found := slices.BinarySearchFunc(all, key, compareKey)
		if found {
			from++
		}
		all = all[from:]
	case strings.HasPrefix(cursor, ownList):
		all = nil
	case cursor != "":
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid cursor"}
	}
	page := page{member: lists[k].member, hint: -1}
	if req.Traits().CacheHints {
		page.hint = c.hint(k)
	}
	size := c.p.cfg.Server.Features.PageSize
	for _, f := range all[:min(size, len(all))] {
		page.add(f.text)
	}
	if len(all) > size {
		return page.end(afterKey + all[size-1].key), nil
	}
	return page.addOwn(ctx, req, c.ownTTL(k), strings.TrimPrefix(cursor, ownList), strings.HasPrefix(cursor, ownList), next)
}

// page is a page of a list as JSON text. It begins with the member name of the list.
type page struct {
	member string
	text   []byte
	hint   time.Duration // how long a modern client may use the page; -1 for a page without a hint
}

func (p *page) add(element json.RawMessage) {
	if p.text == nil {
		p.text = append(p.text, `{"`+p.member+`":[`...)
	} else {
		p.text = append(p.text, ',')
	}
	p.text = append(p.text, element...)
}

// end returns the page with a cursor for the next one, or without one if it is "".
func (p *page) end(cursor string) codec.Encoder {
	if p.text == nil {
		p.text = append(p.text, `{"`+p.member+`":[`...)
	}
	p.text = append(p.text, ']')
	if p.hint >= 0 {
		p.text = append(p.text, `,"ttlMs":`+strconv.FormatInt(p.hint.Milliseconds(), 10)+`,"cacheScope":"private"`...)
	}
	if cursor != "" {
		if text, err := codec.Append(append(p.text, `,"nextCursor":`...), codec.StringScalar(cursor)); err == nil {
			p.text = text
		}
	}
	return session.Raw(append(p.text, '}'))
}

// addOwn adds a page of the server's own list, which clients may use for ttl, and ends the page.
// Given is true if the client has sent a cursor of that list. In this case, an error of the list
// fails the request; otherwise, the page lacks the server's own features.
func (p *page) addOwn(ctx context.Context, req *session.Request, ttl time.Duration, cursor string, given bool, next session.Handler) (codec.Encoder, error) {
	own := req.Clone()
	own.Params = ownParams(req, cursor, given)
	result, err := next(ctx, own)
	if err != nil && given {
		return nil, err
	}
	var following string
	if err == nil {
		text, err := codec.Marshal(result)
		if err != nil {
			return nil, err
		}
		for _, element := range elements(text, p.member) {
			p.add(element)
			p.hint = min(p.hint, ttl)
		}
		if cursor, ok := textOf(text, "nextCursor"); ok {
			following = ownList + cursor
		}
	}
	return p.end(following), nil
}
