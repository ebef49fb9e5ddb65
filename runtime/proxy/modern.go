package proxy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// clientKey identifies a client: its session, or what its modern requests have in common.
type clientKey struct {
	session   *session.Session // of the client, or over whose connection modern requests arrive; nil over HTTP
	principal string           // of modern requests
	network   string           // of modern requests over HTTP without a principal; see accountOf
	identity  [sha256.Size]byte
}

// Limits of the clients with modern requests. When a limit is reached, the proxy removes the client
// that has been without a request for the longest time.
const (
	maxClients       = 1000
	maxOfPrincipal   = 32                          // also those of a connection
	maxIdentityBytes = engine.DefaultMaxInitialize // of the client info and the capabilities
	maxIdle          = 5 * time.Minute             // over HTTP
)

// receiveModern serves a modern request. Next is the server itself.
func (p *Proxy) receiveModern(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	switch req.Method {
	case mcp.MethodServerDiscover, mcp.MethodSubscriptionsListen:
	default:
		if req.IsNotification() || !passes(req.Method) {
			return next(ctx, req)
		}
	}
	c, err := p.enter(ctx, req)
	if err != nil {
		return nil, err
	}
	defer p.leave(c)
	if err := c.wait(ctx, req); err != nil {
		return nil, err
	}
	switch req.Method {
	case mcp.MethodServerDiscover:
		return c.discover(ctx, req, next)
	case mcp.MethodSubscriptionsListen:
		return c.listen(ctx, req, next)
	}
	return c.serve(ctx, req, next)
}

// enter returns the client of a modern request. If there is none yet, enter creates it and starts
// to connect to the upstreams. The client is not removed before leave is called.
func (p *Proxy) enter(ctx context.Context, req *session.Request) (*client, error) {
	params, err := describeClient(req)
	if err != nil {
		return nil, err
	}
	text, err := codec.Marshal(params)
	if err != nil {
		return nil, err
	}
	if len(text) > maxIdentityBytes {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid params: _meta: client info and capabilities are too long"}
	}
	key := clientKey{session: req.Internals(boundary.Caller{}).Connection(), principal: session.Principal(ctx), identity: sha256.Sum256(text)}
	if key.session == nil && key.principal == "" {
		key.network = accountOf(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, session.ErrClosed
	}
	c := p.clients[key]
	if c == nil {
		if !p.makeRoom(key.session, accountOf(ctx)) {
			return nil, &jsonrpc.Error{Code: session.CodeOverloaded, Message: "too many clients"}
		}
		own := new(mcp.InitializeRequestParams) // does not share the memory of the message
		if err := codec.Unmarshal(text, own); err != nil {
			return nil, err
		}
		c = newClient(ctx, p, key)
		c.params = own
		if key.session == nil {
			// The requests of a principal share the connections, which therefore must not depend on
			// anything else in one of them.
			c.opening = c.ctx
			if principal, ok := transport.Principal(ctx); ok {
				c.opening = transport.WithPrincipal(c.ctx, principal)
			}
			c.anonymous = c.principal == ""
		} else {
			p.upstream.Go(func() { // ends with the connection or the client
				select {
				case <-key.session.Done():
					p.remove(c)
				case <-c.ctx.Done():
				}
			})
		}
		p.start(c)
	}
	c.uses++
	if c.idle != nil {
		c.idle.Stop()
		c.idle = nil
	}
	return c, nil
}

// alike returns a client, and those that differ from it in their network only.
func (p *Proxy) alike(c *client) []*client {
	list := []*client{c}
	if !c.anonymous {
		return list
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, other := range p.clients {
		if key.network = c.key.network; key == c.key && other != c {
			list = append(list, other)
		}
	}
	return list
}

// describeClient returns the client info and the capabilities in a modern request, as params of
// initialize.
func describeClient(req *session.Request) (*mcp.InitializeRequestParams, error) {
	if _, err := req.Meta(); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid params: _meta: " + err.Error()}
	}
	capabilities := *req.ClientCapabilities()
	capabilities.Extensions = withoutTasks(capabilities.Extensions)
	return &mcp.InitializeRequestParams{
		ProtocolVersion: string(req.Revision()), Capabilities: capabilities, ClientInfo: req.ClientInfo(),
	}, nil
}

// makeRoom reports whether there may be a further client with modern requests. If a limit is
// reached, it removes a client without requests. The caller must hold mu.
func (p *Proxy) makeRoom(connection *session.Session, account string) bool {
	for {
		all, same := 0, 0
		var oldest, oldestOfSame *client
		for k, c := range p.clients {
			if c.session != nil {
				continue
			}
			all++
			oldest = earlier(oldest, c)
			if k.session == connection && c.account == account {
				same++
				oldestOfSame = earlier(oldestOfSame, c)
			}
		}
		var victim *client
		switch {
		case same >= maxOfPrincipal:
			victim = oldestOfSame
		case all >= maxClients:
			victim = oldest
		default:
			return true
		}
		if victim == nil {
			return false
		}
		victim.cancel()
		delete(p.clients, victim.key)
	}
}

// earlier returns the one of two clients that has had no request for longer. a may be nil.
func earlier(a, b *client) *client {
	if b.uses > 0 || a != nil && a.left.Before(b.left) {
		return a
	}
	return b
}

// keep prevents the removal of a client until one more call of leave.
func (p *Proxy) keep(c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.uses++
}

// leave undoes a call of enter or keep. A client over HTTP without requests is removed after
// maxIdle.
func (p *Proxy) leave(c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.uses--
	if c.uses > 0 {
		return
	}
	c.left = time.Now()
	if c.key.session != nil || c.ctx.Err() != nil {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(maxIdle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if c.idle == timer && p.clients[c.key] == c {
			c.cancel()
			delete(p.clients, c.key)
		}
	})
	c.idle = timer
}

// start adds a client and starts to connect to the upstreams. The caller must hold mu.
func (p *Proxy) start(c *client) {
	p.clients[c.key] = c
	for _, l := range c.links {
		p.upstream.Go(func() { l.run(c.ctx) }) // ends with the client
	}
	p.upstream.Go(c.settle)
}

// accountOf returns the key of the limits for a request.
func accountOf(ctx context.Context) string { return modern.Account(ctx, session.Principal(ctx)) }

// newClient returns a client that is not connected yet. Ctx is that of a request.
func newClient(ctx context.Context, p *Proxy, key clientKey) *client {
	c := &client{
		p: p, key: key, principal: session.Principal(ctx), account: accountOf(ctx), began: time.Now(), settled: make(chan struct{}),
		subscriptions: map[string]*subscription{}, known: map[taskKey]*knownTask{},
		listeners: map[*listener]struct{}{}, held: map[string]*heldCall{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.opening = &lazyctx.Values{Context: c.ctx, Other: ctx}
	c.table.Store(new(table))
	for i := range p.cfg.Upstreams {
		c.links = append(c.links, newLink(c, i))
	}
	return c
}

// traits returns the traits of the revision of the client.
func (c *client) traits() mcp.Traits { return c.revision().Traits() }

// revision returns the protocol revision of the client.
func (c *client) revision() mcp.Revision {
	if c.session != nil {
		return c.session.Revision()
	}
	return mcp.Revision(c.params.ProtocolVersion)
}

// initializeParams returns the client info and the capabilities of the client.
func (c *client) initializeParams() *mcp.InitializeRequestParams {
	if c.session != nil {
		return c.session.Client()
	}
	return c.params
}

// takesInput reports whether the client has declared that it responds to any input requests.
func (c *client) takesInput() bool {
	declared := &c.params.Capabilities
	return declared.Elicitation != nil || declared.Sampling != nil || declared.Roots != nil
}

// inputTimeout returns how long a call waits for input between two modern requests.
func (p *Proxy) inputTimeout() time.Duration {
	switch d := p.cfg.Server.Limits.InputTimeout; {
	case d < 0:
		return 24 * time.Hour
	default:
		return cmp.Or(d, boundary.DefaultInputTimeout)
	}
}

// maxRounds returns how often a call may ask for input, or a negative number for any.
func (p *Proxy) maxRounds() int { return cmp.Or(p.cfg.Server.Limits.Rounds, boundary.DefaultMaxRounds) }
