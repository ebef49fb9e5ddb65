package server

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// peer holds the server's state for the client of one session.
type peer struct {
	s             *Server
	handler       handler                         // serves its requests
	base          session.Handler                 // of the session, which answers initialize; nil without one
	session       atomic.Pointer[session.Session] // nil before it has opened, and for calls without a session
	key           string                          // of its limits; see account. "" for requests without sessions
	roots         rootCache
	requestsTasks atomic.Bool // the client has been asked to create a task
	initialized   atomic.Bool // Options.Hooks.Initialized was called

	store     transport.Persister // nil if the connection does not persist state
	persistMu sync.Mutex          // held while the state is persisted
	persisted uint64              // stateChanges in the persisted state; guarded by persistMu

	level         atomic.Int32       // severity of the least severe messages that are sent
	reopened      bool               // an earlier connection has opened the session
	restored      []string           // URIs of the restored subscriptions, until restoring is closed
	restoring     chan struct{}      // closed after Subscribe was called for them; nil if there are none
	cancelRestore context.CancelFunc // ends the context of those calls

	mu                sync.Mutex
	ended             bool
	stateChanges      uint64                   // number of changes to the state that is persisted
	clientLevel       mcp.LoggingLevel         // set by the client; "" if it has set none
	lists             map[string]uint64        // see compareLists; nil if the connection does not persist state
	principal         string                   // of the latest subscription
	subscriber        string                   // its account
	subscriptions     map[string]string        // accounts that they count for, by URI
	subscriptionLocks map[string]chan struct{} // by URI; closed when unlocked
	elicitations      map[string]*elicitation  // open URL elicitations by id
	notices           []notice                 // pending
	pendingLogs       int                      // log messages among them
	pendingLogBytes   int                      // length of their data
	sendingNotices    bool                     // a goroutine sends them
}

func newPeer(s *Server) *peer {
	p := &peer{s: s, key: "\x00session " + strconv.FormatUint(s.opened.Add(1), 36)} // equal to no principal
	p.handler.p = p
	p.setLevel("")
	return p
}

// receive is the only receiving middleware of a session: the server has the rest in its own table.
func (p *peer) receive(base session.Handler) session.Handler {
	p.base = base
	return p.s.handle
}

// limiter returns a limiter with bursts of twice the rate. If the rate is not positive, it returns
// nil, which means no limit.
func limiter(perSecond float64) *rate.Limiter {
	if perSecond <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(2*perSecond)))
}

// dispatchAgain dispatches a request whose arguments are null again, with empty arguments. For other
// requests, it returns err, with which they have failed.
func (h *handler) dispatchAgain(ctx context.Context, req *session.Request, err error) (codec.Encoder, error) {
	params, ok := withoutNullArguments(req)
	if !ok {
		return nil, err
	}
	return mcp.DispatchServer(ctx, h, revision(req), req.Method, params)
}

// withoutNullArguments returns the params of a call whose arguments are null, with empty arguments.
// Null is not valid, so the call has not reached its handler. Clients in Go send it for a nil map.
func withoutNullArguments(req *session.Request) (json.RawMessage, bool) {
	if req.Method != mcp.MethodToolsCall && req.Method != mcp.MethodPromptsGet {
		return nil, false
	}
	if arguments, ok := codec.Member(req.Params, "arguments"); !ok || string(arguments) != "null" {
		return nil, false
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(req.Params, &members) != nil {
		return nil, false
	}
	members["arguments"] = json.RawMessage(`{}`)
	params, err := json.Marshal(members)
	return params, err == nil
}

func methodNotFound(req *session.Request) error {
	if req.IsNotification() {
		return nil
	}
	return jsonrpc.MethodNotFound(req.Method)
}

// latest returns the newest revision that sessions support.
func latest() mcp.Revision { return session.Revisions()[0] }

// revision returns the revision of a request. That of a task from an older version of this module
// is unknown: it is the newest one of sessions.
func revision(req *session.Request) mcp.Revision {
	if rev := req.Revision(); rev != "" {
		return rev
	}
	return latest()
}

// end drops the state of the session, and calls [Hooks.Unsubscribe] for its subscriptions.
func (p *peer) end() {
	p.stopRestoring()
	p.mu.Lock()
	p.ended = true
	uris := p.subscriptions
	p.subscriptions, p.elicitations, p.notices = nil, nil, nil
	p.mu.Unlock()
	for uri, account := range uris {
		p.s.listeners.quota.Release(account, sizeOf(uri))
		p.callUnsubscribe(context.Background(), nil, uri)
	}
}
