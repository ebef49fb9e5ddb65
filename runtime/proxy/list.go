package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/pages"
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
}{
	tools:     {mcp.MethodToolsList, "tools", "name", true, mcp.MethodNotificationsToolsListChanged},
	prompts:   {mcp.MethodPromptsList, "prompts", "name", true, mcp.MethodNotificationsPromptsListChanged},
	resources: {mcp.MethodResourcesList, "resources", "uri", false, mcp.MethodNotificationsResourcesListChanged},
	templates: {mcp.MethodResourcesTemplatesList, "resourceTemplates", "uriTemplate", false, mcp.MethodNotificationsResourcesListChanged},
}

// feature is a feature of an upstream. It is immutable.
type feature struct {
	link     *link
	key      string // for clients
	original string // the key at the upstream
	text     json.RawMessage
}

// Limits of the list of an upstream.
const (
	maxFeatures     = 100_000
	maxFeatureBytes = 64 << 20
	listTimeout     = time.Minute // of a page
)

// fetch returns the features of a kind that the upstream lists. The list is empty if it has none.
func (l *link) fetch(ctx context.Context, conn *connection, k kind) ([]*feature, error) {
	of := lists[k]
	if !conn.session.PeerServes(of.method) {
		return nil, nil
	}
	var all []*feature
	var cursors pages.Cursors
	size := 0
	for params := new(mcp.PaginatedRequestParams); ; {
		page, err := conn.session.With(session.Timeout(listTimeout)).Call(ctx, of.method, params)
		if err != nil {
			return nil, err
		}
		page = l.c.convert(conn, of.method, page)
		for _, text := range elements(page, of.member) {
			key, ok := textOf(text, of.key)
			if !ok {
				continue
			}
			f := &feature{link: l, key: key, original: key, text: text}
			if of.prefixed {
				f.key = l.up.Prefix + key
				f.text = editText(text, func(string) string { return f.key }, of.key)
			}
			all = append(all, f)
			size += len(f.text)
		}
		if len(all) > maxFeatures {
			return nil, fmt.Errorf("proxy: list has more than %d features", maxFeatures)
		}
		if size > maxFeatureBytes {
			return nil, fmt.Errorf("proxy: list has more than %d bytes", maxFeatureBytes)
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
			return all, nil
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

// setList replaces a list of an upstream, and announces a change of the merged list.
func (c *client) setList(l *link, k kind, list []*feature) {
	c.mu.Lock()
	l.lists[k] = list
	var all []*feature
	for _, l := range c.links {
		all = append(all, l.lists[k]...)
	}
	slices.SortStableFunc(all, func(a, b *feature) int { return cmp.Compare(a.key, b.key) })
	merged := slices.CompactFunc(all, func(a, b *feature) bool {
		if a.key == b.key && a.link != b.link {
			c.p.log.Warn("feature hidden", "kind", lists[k].member, "key", a.key, "upstream", b.link.up.Name, "by", a.link.up.Name)
		}
		return a.key == b.key
	})
	before := c.table.Load()
	now := *before
	now[k] = merged
	c.table.Store(&now)
	c.mu.Unlock()
	same := slices.EqualFunc(before[k], merged, func(a, b *feature) bool {
		return a.link == b.link && a.key == b.key && bytes.Equal(a.text, b.text)
	})
	if _, ready := c.session.State(); !same && ready { // otherwise the client has not listed anything
		c.notify(c.ctx, lists[k].changed, nil)
	}
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
	page := page{member: lists[k].member}
	size := c.p.cfg.Server.PageSize
	for _, f := range all[:min(size, len(all))] {
		page.add(f.text)
	}
	if len(all) > size {
		return page.end(afterKey + all[size-1].key), nil
	}
	return page.addOwn(ctx, req, strings.TrimPrefix(cursor, ownList), strings.HasPrefix(cursor, ownList), next)
}

// page is a page of a list as JSON text. It begins with the member name of the list.
type page struct {
	member string
	text   []byte
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
	if cursor != "" {
		if text, err := codec.Append(append(p.text, `,"nextCursor":`...), codec.StringScalar(cursor)); err == nil {
			p.text = text
		}
	}
	return session.Raw(append(p.text, '}'))
}

// addOwn adds a page of the server's own list and ends the page. Given is true if the client has
// sent a cursor of that list. In this case, an error of the list fails the request; otherwise, the
// page lacks the server's own features.
func (p *page) addOwn(ctx context.Context, req *session.Request, cursor string, given bool, next session.Handler) (codec.Encoder, error) {
	own := req.Clone()
	own.Params = nil
	if given {
		params, err := codec.Marshal(&mcp.PaginatedRequestParams{Cursor: &cursor})
		if err != nil {
			return nil, err
		}
		own.Params = params
	}
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
		}
		if cursor, ok := textOf(text, "nextCursor"); ok {
			following = ownList + cursor
		}
	}
	return p.end(following), nil
}
