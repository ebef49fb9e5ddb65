package server

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// peer is what a server knows of the client of one session.
type peer struct {
	s            *Server
	session      atomic.Pointer[session.Session] // nil before it has opened, and for calls without a session
	level        atomic.Int32                    // least severe that is sent
	logs         *rate.Limiter
	calls        *rate.Limiter
	roots        rootCache
	asksForTasks atomic.Bool // the client has been asked to create a task

	keeper  transport.Keeper // nil if nothing is kept
	keeping sync.Mutex       // held while it keeps something
	safe    uint64           // changes that are kept; guarded by keeping

	telling chan struct{}      // closed when the author knows of the subscriptions that were kept; nil if there are none
	untold  []string           // those subscriptions
	leave   context.CancelFunc // stops telling the author

	mu              sync.Mutex
	over            bool
	changes         uint64                   // of what is kept, so far
	set             mcp.LoggingLevel         // that the client has set; "" for none
	principal       string                   // that has subscribed last
	subscriptions   map[string]struct{}      // by URI
	subscribedBytes int                      // of their URIs
	changing        map[string]chan struct{} // closed when the request that changes the subscription to this URI is served
	elicitations    map[string]*elicitation  // that are not complete, by id
	notices         []notice                 // that wait to be sent
	noticing        bool                     // a goroutine sends them
}

func newPeer(s *Server) *peer {
	p := &peer{s: s, logs: limiter(s.cfg.LogRate), calls: limiter(s.cfg.CallRate)}
	p.setLevel("")
	return p
}

// limiter allows so much per second, and twice as much at once. It is nil, which allows everything, if that is not
// positive.
func limiter(perSecond float64) *rate.Limiter {
	if perSecond <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(2*perSecond)))
}

// handler serves the requests of the client.
func (p *peer) handler() session.Handler {
	h := &handler{p: p}
	rest := p.s.cfg.Session.Handler
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if !serves(req.Method) || req.IsNotification() && req.Session != nil {
			if rest == nil {
				return nil, unserved(req)
			}
			return rest(ctx, req)
		}
		rev := revision(req)
		result, err := mcp.DispatchServer(ctx, h, rev, req.Method, req.Params)
		if err != nil {
			return nil, err
		}
		return project(rev, result), nil
	}
}

func unserved(req *session.Request) error {
	if req.IsNotification() {
		return nil
	}
	return jsonrpc.MethodNotFound(req.Method)
}

// latest returns the newest revision that has sessions.
func latest() mcp.Revision { return session.Revisions()[0] }

// revision returns the revision of the session of a request. Only a task that is recovered serves its request without
// a session, and tasks have the newest revision.
func revision(req *session.Request) mcp.Revision {
	if req.Session == nil {
		return latest()
	}
	return req.Session.Revision()
}

// serves reports whether handler serves requests of a method.
func serves(method string) bool {
	switch method {
	case mcp.MethodLoggingSetLevel, mcp.MethodPromptsList, mcp.MethodResourcesTemplatesList,
		mcp.MethodResourcesUnsubscribe, mcp.MethodToolsList:
		return true
	}
	return callsAuthor(method)
}

// callsAuthor reports whether handler calls a function of the author for requests of a method.
func callsAuthor(method string) bool {
	switch method {
	case mcp.MethodCompletionComplete, mcp.MethodPromptsGet, mcp.MethodResourcesList, mcp.MethodResourcesRead,
		mcp.MethodResourcesSubscribe, mcp.MethodToolsCall:
		return true
	}
	return false
}

// limited reports whether [Config.CallRate] limits a request.
func (s *Server) limited(req *session.Request) bool {
	return !req.IsNotification() && callsAuthor(req.Method) && s.cfg.Methods[req.Method] == nil
}

// end forgets what belonged to the session.
func (p *peer) end() {
	p.stopTelling()
	p.mu.Lock()
	p.over = true
	uris := p.subscriptions
	p.subscriptions, p.elicitations, p.notices = nil, nil, nil
	p.mu.Unlock()
	for uri := range uris {
		p.tellUnsubscribed(context.Background(), nil, uri)
	}
}
