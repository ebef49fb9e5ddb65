package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/follow"
)

// serverState records the state that the server keeps for the session: the client requests it again
// when a lost session is replaced. A request is recorded before it is sent, because the session may
// be lost after the server has granted the request and before its response arrives. The zero value
// is empty.
type serverState struct {
	mu            sync.Mutex
	subscriptions map[string]struct{} // by URI
	level         *mcp.LoggingLevel   // nil if none was set
}

// subscribe records a subscription. It returns false if the subscription is already recorded.
func (s *serverState) subscribe(uri string) (fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscriptions == nil {
		s.subscriptions = map[string]struct{}{}
	}
	before := len(s.subscriptions)
	s.subscriptions[uri] = struct{}{}
	return len(s.subscriptions) > before
}

func (s *serverState) unsubscribe(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscriptions, uri)
}

func (s *serverState) subscribed(uri string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.subscriptions[uri]
	return ok
}

// setLevel records a level and returns the previous one. If from is not nil, it records the level
// only if the current level is from.
func (s *serverState) setLevel(level, from *mcp.LoggingLevel) (before *mcp.LoggingLevel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.level
	if from == nil || from == before {
		s.level = level
	}
	return before
}

// logLevel returns the recorded level, or nil.
func (s *serverState) logLevel() *mcp.LoggingLevel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// restoreServerState restores the recorded state in a new session. It drops subscriptions that the
// server rejects.
func (c *Client) restoreServerState() {
	s := &c.serverState
	s.mu.Lock()
	level, uris := s.level, slices.Sorted(maps.Keys(s.subscriptions))
	s.mu.Unlock()
	ctx := context.Background() // the calls end with the session
	var retries restoreRetries
	if level != nil {
		err := retries.call(func() error {
			_, err := c.With().SetLevel(ctx, &mcp.SetLevelRequestParams{Level: *level})
			return err
		})
		if err != nil {
			c.log.Warn("log level not restored", "error", err)
		}
	}
	for _, uri := range uris {
		if !s.subscribed(uri) {
			continue // unsubscribed meanwhile
		}
		err := retries.call(func() error {
			_, err := c.With().Subscribe(ctx, &mcp.SubscribeRequestParams{URI: uri})
			return err
		})
		if err != nil {
			c.log.Warn("subscription not restored", "uri", uri, "error", err)
			if _, refused := errors.AsType[*jsonrpc.Error](err); refused && !follow.Temporary(err) {
				s.unsubscribe(uri)
			}
			continue
		}
		if !s.subscribed(uri) { // unsubscribed meanwhile, perhaps before the server saw the subscription
			c.With().Unsubscribe(ctx, &mcp.UnsubscribeRequestParams{URI: uri})
		}
	}
}

const (
	// maxRestoreFailures is the number of temporary failures in a row after which requests are not
	// repeated.
	maxRestoreFailures = 20
	restoreDelay       = 100 * time.Millisecond // after the first failure; doubles with each
	maxRestoreDelay    = time.Second            // Close may wait for it
)

// restoreRetries repeats requests that restore the state of the server.
type restoreRetries struct{ failures int } // temporary failures in a row

// call calls f until it succeeds, fails permanently, or has failed too often.
func (r *restoreRetries) call(f func() error) error {
	for {
		err := f()
		if err == nil {
			r.failures = 0
		}
		if !follow.Temporary(err) || r.failures == maxRestoreFailures {
			return err
		}
		time.Sleep(min(restoreDelay<<r.failures, maxRestoreDelay))
		r.failures++
	}
}
