package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/pages"
)

// A list of more than maxKept items, or whose pages have more than maxKeptBytes bytes, is not
// cached: it is fetched anew each time.
const (
	maxKept      = 10_000
	maxKeptBytes = 16 << 20
)

// ErrUnknown says that the server has nothing of a name.
var ErrUnknown = errors.New("client: unknown to the server")

// ErrListCut ends a list whose session was lost between two pages. Another session has taken its place, in which the list
// can be fetched from its beginning (MCP pagination, "Implementation Guidelines").
var ErrListCut = errors.New("client: list: session was replaced between two pages")

// list is one of the server's lists. What it keeps is shared with those who go over it.
type list[T any] struct {
	caller func() jsonrpc.Caller
	fetch  func(ctx context.Context, to mcp.ToServer, p *mcp.PaginatedRequestParams) (page []T, next *string, err error)
	stored func() // called when another list is cached; may be nil

	mu       sync.Mutex
	changes  uint64 // how often the list has changed
	sessions uint64 // how many sessions have taken the place of another one
	kept     []*T   // what was fetched last, in full; nil if there is nothing
	fresh    bool   // it has not changed since then
}

// changed notes that the list is another one now.
func (l *list[T]) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.fresh = false
}

// renewed notes that another session has taken the place of the one that the list came from.
func (l *list[T]) renewed() {
	l.changed()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions++
}

// session returns the number of the session.
func (l *list[T]) session() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sessions
}

// all goes over the list, as it is kept if that is fresh and the server announces changes, else page
// by page.
func (l *list[T]) all(ctx context.Context, announced bool) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		l.mu.Lock()
		kept, fresh, changes := l.kept, l.fresh && announced, l.changes
		l.mu.Unlock()
		if !fresh {
			l.pages(ctx, changes, yield)
			return
		}
		for _, item := range kept {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// pages fetches the list page by page, as long as it is wanted (MCP pagination). A list that was
// fetched to its end, and has not changed meanwhile, is kept.
func (l *list[T]) pages(ctx context.Context, changes uint64, yield func(*T, error) bool) {
	kept, keep := []*T{}, true
	to := &counter{Caller: l.caller()}
	var cursors pages.Cursors
	session := l.session()
	for p := new(mcp.PaginatedRequestParams); ; {
		page, next, err := l.fetch(ctx, mcp.ToServer{Caller: to}, p)
		switch now := l.session(); {
		case now == session:
		case p.Cursor == nil:
			session = now
		default: // a cursor is not good beyond its session, whatever the server has made of it
			err = ErrListCut
		}
		if err != nil {
			yield(nil, err)
			return
		}
		if keep = keep && len(kept)+len(page) <= maxKept && to.received <= maxKeptBytes; !keep {
			kept = nil
		}
		for i := range page {
			if keep {
				kept = append(kept, &page[i])
			}
			if !yield(&page[i], nil) {
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
	if !keep {
		l.kept, l.fresh = nil, false
	} else if l.changes == changes {
		l.kept, l.fresh = kept, true
		if l.stored != nil {
			l.stored()
		}
	}
}

// counter is a caller that counts the bytes of the results that it receives. It is used by one goroutine at a time.
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

// find returns an item that fits, of what was fetched last unless it has changed since then, and
// else of the list as it is now.
func (l *list[T]) find(ctx context.Context, fits func(*T) bool) (*T, error) {
	l.mu.Lock()
	changes := l.changes
	l.mu.Unlock()
	if item := l.known(fits); item != nil {
		return item, nil
	}
	var found *T
	var failed error
	l.pages(ctx, changes, func(item *T, err error) bool {
		if failed = err; err == nil && found == nil && fits(item) {
			found = item
		}
		return err == nil
	})
	if failed == nil && found == nil {
		failed = ErrUnknown
	}
	return found, failed
}

// known returns an item that fits, of what was fetched last, unless that has changed; nil if there is
// none.
func (l *list[T]) known(fits func(*T) bool) *T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.fresh {
		return nil
	}
	for _, item := range l.kept {
		if fits(item) {
			return item
		}
	}
	return nil
}

// Tools goes over the tools of the server, page by page as they are wanted. A list that was gone
// over to its end is kept until the server announces a change, if it announces changes at all and the
// list has at most 10,000 items and 16 MiB of JSON; what is yielded is shared, and must not be changed. An
// error ends it (MCP tools, "Listing Tools"), as do cursors that lead back to an earlier page, and more
// than 10,000 pages.
func (c *Client) Tools(ctx context.Context) iter.Seq2[*mcp.Tool, error] {
	t := c.Server().Capabilities.Tools
	return c.tools.all(ctx, t != nil && isTrue(t.ListChanged))
}

// Resources goes over the resources of the server, as Tools does (MCP resources, "Listing
// Resources").
func (c *Client) Resources(ctx context.Context) iter.Seq2[*mcp.Resource, error] {
	return c.resources.all(ctx, c.resourcesAnnounced())
}

// ResourceTemplates goes over the templates of resources, as Tools does (MCP resources, "Resource
// Templates").
func (c *Client) ResourceTemplates(ctx context.Context) iter.Seq2[*mcp.ResourceTemplate, error] {
	return c.templates.all(ctx, c.resourcesAnnounced())
}

// Prompts goes over the prompts of the server, as Tools does (MCP prompts, "Listing Prompts").
func (c *Client) Prompts(ctx context.Context) iter.Seq2[*mcp.Prompt, error] {
	p := c.Server().Capabilities.Prompts
	return c.prompts.all(ctx, p != nil && isTrue(p.ListChanged))
}

// Tool returns the tool of a name. It fails with [ErrUnknown] if there is none. What the server said
// last counts; a server that does not announce changes is asked again only for a name that is new.
func (c *Client) Tool(ctx context.Context, name string) (*mcp.Tool, error) {
	tool, err := c.tools.find(ctx, func(t *mcp.Tool) bool { return t.Name == name })
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", name, err)
	}
	return tool, nil
}

// forget notes that all lists may be others now.
func (c *Client) forget() {
	c.tools.renewed()
	c.resources.renewed()
	c.templates.renewed()
	c.prompts.renewed()
}

func (c *Client) resourcesAnnounced() bool {
	r := c.Server().Capabilities.Resources
	return r != nil && isTrue(r.ListChanged)
}

func toolPage(ctx context.Context, to mcp.ToServer, p *mcp.PaginatedRequestParams) ([]mcp.Tool, *string, error) {
	r, err := to.ListTools(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	return r.Tools, r.NextCursor, nil
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
