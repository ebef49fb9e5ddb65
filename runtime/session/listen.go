package session

import (
	"context"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// Listen subscribes to the notifications that filter selects, in a revision without sessions. They
// go to the handler of the session, as other notifications do. When the server has accepted the
// subscription, Listen calls acknowledged with the part of the filter that the server supports, in
// a goroutine of the session (MCP subscriptions, "Acknowledgment").
//
// Listen returns when the subscription ends: nil if the server has ended it in order, the cause of
// ctx if ctx ends, [ErrTimeout] if the server does not accept it within Timeouts.Request, and
// otherwise the errors of [Session.Call]. [Session.Shutdown] ends it with [ErrClosed].
func (s *Session) Listen(ctx context.Context, filter mcp.SubscriptionFilter, acknowledged func(mcp.SubscriptionFilter)) error {
	clock := new(lazyctx.Clock)
	ctx, cancel := context.WithCancelCause(lazyctx.WithClock(ctx, clock))
	defer cancel(nil)
	sub := &subscription{cancel: cancel, acknowledged: make(chan mcp.SubscriptionFilter, 1)}
	waited := s.life.spawn(func() { // ends when the subscription is acknowledged or ends
		limited := ctx
		if d := s.cfg.Timeouts.Request; d > 0 {
			var stop context.CancelFunc
			limited, stop = clock.WithTimeout(ctx, d, nil)
			defer stop()
		}
		select {
		case accepted := <-sub.acknowledged:
			s.panicked("acknowledged", boundary.Run(func() error { acknowledged(accepted); return nil }))
		case <-limited.Done():
			cancel(ErrTimeout) // no effect if ctx has ended
		}
	})
	if !waited {
		return s.life.err()
	}
	params := &mcp.SubscriptionsListenRequestParams{Notifications: filter}
	_, err := s.sender(ctx, &Call{
		Method: mcp.MethodSubscriptionsListen, Params: params, Session: s, opts: options{timed: true, subscription: sub},
	})
	return err
}

// subscription is a request of Session.Listen.
type subscription struct {
	cancel       context.CancelCauseFunc
	acknowledged chan mcp.SubscriptionFilter // buffers one
}

// listens holds the open subscriptions of a client by the ids of their requests. The zero value is
// empty. Its methods are safe for concurrent use.
type listens struct {
	mu   sync.Mutex
	byID map[jsonrpc.ID]*subscription // nil for a request that is not from Session.Listen
}

func (l *listens) add(id jsonrpc.ID, sub *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = map[jsonrpc.ID]*subscription{}
	}
	l.byID[id] = sub
}

func (l *listens) remove(id jsonrpc.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byID, id)
}

func (l *listens) get(id jsonrpc.ID) (sub *subscription, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sub, ok = l.byID[id]
	return sub, ok
}

func (l *listens) has(id jsonrpc.ID) bool {
	_, ok := l.get(id)
	return ok
}

// end ends the subscriptions of Session.Listen with cause.
func (l *listens) end(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sub := range l.byID {
		if sub != nil {
			sub.cancel(cause)
		}
	}
}

// admit reports whether a notification is for the handler. It is not if it names a subscription
// that is not open, for instance because another one has replaced it (MCP subscriptions, "Receiving
// Notifications"). Open reports whether there is an open request with an id: requests of extensions
// can be subscriptions, too.
func (l *listens) admit(m jsonrpc.Message, open func(jsonrpc.ID) bool) bool {
	meta, _ := codec.Member(m.Params, "_meta")
	raw, ok := codec.Member(meta, modern.MetaSubscription)
	if !ok {
		return true
	}
	var id jsonrpc.ID
	codec.ReadPart(raw, func(r *wire.Reader) { id.DecodeJSON(r) })
	sub, ok := l.get(id)
	if !ok {
		if sub, ok = l.get(jsonrpc.CanonicalID(id)); !ok {
			return open(id)
		}
	}
	if m.Method == mcp.MethodNotificationsSubscriptionsAcknowledged && sub != nil {
		var p mcp.SubscriptionsAcknowledgedNotificationParams
		if codec.Unmarshal(m.Params, &p) != nil {
			return false
		}
		select {
		case sub.acknowledged <- p.Notifications:
		default: // acknowledged before
		}
	}
	return true
}
