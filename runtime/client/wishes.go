package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
)

// wishes are what the server keeps with its session because it was asked to, and has to be asked for again if another
// session takes the place of one that the server has dropped. They are noted before they are sent: or one would be
// missed that is granted just before the session is lost. The zero value has none.
type wishes struct {
	mu            sync.Mutex
	subscriptions map[string]struct{} // by URI
	level         *mcp.LoggingLevel   // nil if none was set

	asking sync.Mutex // held while all of them are asked for again
}

// subscribe notes a subscription; fresh is false if there was one before.
func (w *wishes) subscribe(uri string) (fresh bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.subscriptions == nil {
		w.subscriptions = map[string]struct{}{}
	}
	before := len(w.subscriptions)
	w.subscriptions[uri] = struct{}{}
	return len(w.subscriptions) > before
}

func (w *wishes) unsubscribe(uri string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.subscriptions, uri)
}

func (w *wishes) subscribed(uri string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.subscriptions[uri]
	return ok
}

// setLevel notes a level, unless from is given and is not the noted one any more, and returns what was noted before.
func (w *wishes) setLevel(level, from *mcp.LoggingLevel) (before *mcp.LoggingLevel) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before = w.level
	if from == nil || from == before {
		w.level = level
	}
	return before
}

// wishAgain asks the server, with which a new session was opened, for what the last session was asked for. A
// subscription that it refuses is forgotten.
func (c *Client) wishAgain() {
	w := &c.wishes
	w.asking.Lock()
	defer w.asking.Unlock()
	w.mu.Lock()
	level, uris := w.level, slices.Sorted(maps.Keys(w.subscriptions))
	w.mu.Unlock()
	ctx := context.Background() // the calls end with the session
	if level != nil {
		if _, err := c.With().SetLevel(ctx, &mcp.SetLevelRequestParams{Level: *level}); err != nil {
			c.log.Warn("log level not set again", "error", err)
		}
	}
	for _, uri := range uris {
		if !w.subscribed(uri) {
			continue // any more
		}
		if _, err := c.With().Subscribe(ctx, &mcp.SubscribeRequestParams{URI: uri}); err != nil {
			c.log.Warn("not subscribed again", "uri", uri, "error", err)
			if _, refused := errors.AsType[*jsonrpc.Error](err); refused {
				w.unsubscribe(uri)
			}
			continue
		}
		if !w.subscribed(uri) { // it was taken back meanwhile, maybe too early for the server
			c.With().Unsubscribe(ctx, &mcp.UnsubscribeRequestParams{URI: uri})
		}
	}
}
