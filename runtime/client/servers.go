package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// Servers caches the revisions and the server info of servers for [Dial] and [Command]. A later
// client of the same server does not send server/discover: it sends nothing before the first call
// if the server has a revision without sessions, and initialize at once otherwise. A host may store
// a state and set it in another process. A server that rejects the first message is removed.
//
// A server is known by its URL, or by the path and the arguments of its command, separated by NUL
// bytes. The zero value is empty. Servers is safe for concurrent use.
type Servers struct {
	mu    sync.Mutex
	known map[string]session.State
}

// Get returns the cached state of a server. ok is false if there is none.
func (s *Servers) Get(server string) (state session.State, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok = s.known[server]
	return state, ok
}

// Set caches the Revision and the Server of a state. A state without a Revision removes the server.
func (s *Servers) Set(server string, state session.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state.Revision == "" {
		delete(s.known, server)
		return
	}
	if s.known == nil {
		s.known = map[string]session.State{}
	}
	state.Client = nil
	s.known[server] = state
}

// Dial connects to the server at serverURL over Streamable HTTP, or over the older HTTP with SSE if
// the server supports only that; see [Options].HTTP. If the Revisions of [Options].Session are of
// both kinds, with and without sessions, which is the default, it finds out which the server has,
// and prefers one without sessions; see [session.Connect]. A response with status 401 or 403 is an
// error and says nothing about the revision.
//
// If the session is lost, for example because the server restarts, the client opens a new session.
// It then discards its cached lists and restores the subscriptions and the log level that were set
// with [Client.Subscribe] and [Client.SetLogLevel]. It repeats these requests while the server is
// overloaded or unavailable, up to 20 times in a row.
func Dial(ctx context.Context, serverURL string, o *Options) (*Client, error) {
	return connectKnown(o, serverKey(serverURL), func(c *Client) (*Client, error) {
		conn, err := streamable.Dial(serverURL, c.options.HTTP)
		if err != nil {
			return nil, err
		}
		return c.connect(ctx, conn)
	})
}

// serverKey returns the URL of a server without the parts that may be secret.
func serverKey(serverURL string) string {
	u, err := url.Parse(serverURL)
	if err != nil {
		return serverURL
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// Command starts a server as a child process and connects to it over its standard input and output.
// Closing the client ends the process. It finds out which revision the server has, as [Dial] does.
//
// If the server ends while that is unknown, as some do on any message before initialize, Command
// starts it again and opens a session. If a server of a revision without sessions ends by itself
// later, the client starts it again: requests without a response fail with a
// [*transport.DeliveryError], and subscriptions are restored. The client is closed if the server
// ends five times in a row within ten seconds of its start.
func Command(ctx context.Context, server stdio.Command, o *Options) (*Client, error) {
	key := strings.Join(append([]string{server.Path}, server.Args...), "\x00")
	start := func(c *Client) (*Client, error) {
		conn, err := startProcess(server)
		if err != nil {
			return nil, err
		}
		connected, err := c.connect(ctx, conn)
		if err == nil && c.session.Traits().Sessionless {
			conn.restart()
		}
		return connected, err
	}
	c, err := connectKnown(o, key, start)
	current, sessions := modern.Split(revisions(o))
	if errors.Is(err, session.ErrClosed) && ctx.Err() == nil && len(current) > 0 && len(sessions) > 0 {
		own := valueOf(o)
		own.Session.Revisions = sessions
		return connectKnown(&own, key, start)
	}
	return c, err
}

// connectKnown connects a new client with the cached state of the server, and then caches the state
// of its session.
func connectKnown(o *Options, server string, connect func(*Client) (*Client, error)) (*Client, error) {
	own := valueOf(o)
	own.Session.Revisions = revisions(o)
	if own.Cache.Servers == nil {
		c, err := newClient(&own)
		if err != nil {
			return nil, err
		}
		return connect(c)
	}
	state, known := own.Cache.Servers.Get(server)
	if known && own.Session.Internals(boundary.Caller{}).Known == nil {
		own.Session.Internals(boundary.Caller{}).Known = &state
	}
	first, err := newClient(&own)
	if err != nil {
		return nil, err
	}
	if own.Session.Internals(boundary.Caller{}).Known != nil {
		first.removeKnown = func() { own.Cache.Servers.Set(server, session.State{}) }
	}
	c, err := connect(first)
	if err != nil {
		own.Cache.Servers.Set(server, session.State{})
		return nil, err
	}
	if state, ok := c.session.Internals(boundary.Caller{}).State(); ok {
		own.Cache.Servers.Set(server, state)
	}
	return c, nil
}

// verifyKnown is sending middleware of a client that was connected with a cached state. If the
// server rejects the first request, it may have changed: verifyKnown removes it from the cache.
func (c *Client) verifyKnown(next session.Sender) session.Sender {
	var verified atomic.Bool
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		result, err := next(ctx, call)
		if call.Notification || verified.Load() {
			return result, err
		}
		lost, undelivered := errors.AsType[*transport.DeliveryError](err)
		_, answered := errors.AsType[*jsonrpc.Error](err)
		switch {
		case err == nil:
			verified.Store(true)
		case answered, undelivered && lost.Refused:
			c.removeKnown()
		}
		return result, err
	}
}

// revisions returns the revisions of a client, the preferred one first.
func revisions(o *Options) []mcp.Revision {
	if o != nil && len(o.Session.Revisions) > 0 {
		return o.Session.Revisions
	}
	return append(session.ModernRevisions(), session.Revisions()...)
}
