package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// subscription is a subscription to a resource of an upstream.
type subscription struct {
	link  *link
	count int // of listeners; 1 for a session
}

// change is a changed list, or an updated resource.
type change struct{ method, uri string }

// compareChanges sorts lists first.
func compareChanges(a, b change) int {
	return cmp.Or(cmp.Compare(a.uri, b.uri), cmp.Compare(a.method, b.method))
}

// listener is an open subscriptions/listen of a modern client.
type listener struct {
	session.Peer // to which the server itself sends the acknowledgment and its own changes
	c            *client
	id           mcp.NotificationMetaObject // the _meta of its notifications
	wanted       mcp.SubscriptionFilter
	accepted     map[change]bool
	changes      *modern.Changes[change]
	sending      sync.WaitGroup
	uris         []string // subscribed at upstreams
}

// listen serves subscriptions/listen. The server itself handles the request. The listener adds
// resources of upstreams to its acknowledgment, and reports the changes of upstreams on the same
// stream.
func (c *client) listen(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	var params mcp.SubscriptionsListenRequestParams
	peer, ok := session.PeerFrom(ctx)
	if err := codec.Unmarshal(req.Params, &params); err != nil || !ok {
		return next(ctx, req) // which rejects it
	}
	x := &listener{
		Peer: peer, c: c, id: mcp.NotificationMetaObject{SubscriptionID: req.ID}, wanted: params.Notifications,
		accepted: map[change]bool{}, changes: modern.NewChanges(compareChanges),
	}
	ctx, cancel := context.WithCancelCause(ctx)
	result, err := next(session.WithPeer(ctx, x), req)
	cancel(nil)
	x.sending.Wait()
	c.mu.Lock()
	delete(c.listeners, x)
	c.mu.Unlock()
	for _, uri := range x.uris {
		c.unfollow(uri)
	}
	return result, err
}

// Notify implements [session.Peer] for the server itself.
func (x *listener) Notify(ctx context.Context, method string, params codec.Encoder) error {
	accepted, ok := params.(*mcp.SubscriptionsAcknowledgedNotificationParams)
	if !ok || method != mcp.MethodNotificationsSubscriptionsAcknowledged {
		return x.Peer.Notify(ctx, method, params)
	}
	all := *accepted
	all.Notifications.ResourceSubscriptions = x.follow(ctx, accepted.Notifications.ResourceSubscriptions)
	x.accept(&all.Notifications)
	x.c.mu.Lock()
	x.c.listeners[x] = struct{}{} // from now on, changes are pending
	x.c.mu.Unlock()
	if err := x.Peer.Notify(ctx, method, &all); err != nil {
		return err
	}
	x.sending.Go(func() { x.send(ctx) }) // ends with ctx
	return nil
}

// accept sets the changes that the listener reports.
func (x *listener) accept(filter *mcp.SubscriptionFilter) {
	for _, list := range []struct {
		accepted *bool
		method   string
	}{
		{filter.ToolsListChanged, mcp.MethodNotificationsToolsListChanged},
		{filter.PromptsListChanged, mcp.MethodNotificationsPromptsListChanged},
		{filter.ResourcesListChanged, mcp.MethodNotificationsResourcesListChanged},
	} {
		if list.accepted != nil && *list.accepted {
			x.accepted[change{method: list.method}] = true
		}
	}
	for _, uri := range filter.ResourceSubscriptions {
		x.accepted[change{mcp.MethodNotificationsResourcesUpdated, uri}] = true
	}
}

// follow subscribes to the wanted resources at upstreams, and returns those that they or the server
// itself have accepted.
func (x *listener) follow(ctx context.Context, own []string) []string {
	accepted := slices.Clone(own)
	table := x.c.table.Load()
	for _, uri := range slices.Compact(slices.Sorted(slices.Values(x.wanted.ResourceSubscriptions))) {
		isOwn := slices.Contains(own, uri)
		if isOwn && table.get(resources, uri) == nil {
			continue
		}
		if x.c.follow(ctx, uri) {
			x.uris = append(x.uris, uri)
			if !isOwn {
				accepted = append(accepted, uri)
			}
		}
	}
	return accepted
}

// send reports changes until ctx ends.
func (x *listener) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.changes.Added():
		}
		for _, change := range x.changes.Take() {
			var params codec.Encoder = &mcp.NotificationParams{Meta: &x.id}
			if change.uri != "" {
				params = &mcp.ResourceUpdatedNotificationParams{Meta: &x.id, URI: change.uri}
			}
			if ctx.Err() != nil || x.Peer.Notify(ctx, change.method, params) != nil {
				return
			}
		}
	}
}

// notifyListeners reports a changed list, or the resource with a URI, to modern clients that listen
// to it.
func (c *client) notifyListeners(method, uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.listeners {
		if of := (change{method, uri}); x.accepted[of] {
			x.changes.Add(of)
		}
	}
}

// follow subscribes to a resource at the first upstream that accepts the subscription, unless there
// is one already. It returns false if no upstream does.
func (c *client) follow(ctx context.Context, uri string) bool {
	c.mu.Lock()
	sub := c.subscriptions[uri]
	if sub != nil {
		sub.count++
	}
	c.mu.Unlock()
	if sub != nil {
		return true
	}
	for _, at := range c.byURI(uri) {
		l := at.link
		if err := l.follow(ctx, uri); err == nil {
			return true
		} else if !meansUnknown(err) {
			c.p.log.Warn("resource not subscribed", "upstream", l.up.Name, "uri", uri, "error", boundary.ErrorText(err))
		}
	}
	return false
}

// follow subscribes to a resource of the upstream for a modern client. It fails if the upstream
// does not respond within patience, because the client may wait for other upstreams, too.
func (l *link) follow(ctx context.Context, uri string) error {
	conn := l.ready()
	if conn == nil || l.follows.isOpen() {
		return l.unavailable()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errNoResponse)
	defer cancel()
	if !l.lockSubscriptions(ctx) {
		return l.unavailable()
	}
	defer l.unlockSubscriptions()
	err := conn.follow(ctx, uri)
	if errors.Is(err, errNoResponse) {
		l.follows.failed()
		conn.suspect()
		return l.unavailable()
	}
	l.follows.succeeded()
	if err != nil {
		return err
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if sub := l.c.subscriptions[uri]; sub != nil { // another listener has subscribed in the meantime
		sub.count++
	} else {
		l.c.subscriptions[uri] = &subscription{l, 1}
	}
	return nil
}

// lockSubscriptions begins a change of the subscriptions of modern clients. It returns false if ctx
// ends while another change is being made.
func (l *link) lockSubscriptions(ctx context.Context) bool {
	select {
	case l.subscribe <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *link) unlockSubscriptions() { <-l.subscribe }

// follow subscribes to a resource. It fails with [jsonrpc.CodeMethodNotFound] if the upstream does
// not report changes of it.
func (x *connection) follow(ctx context.Context, uri string) (err error) {
	if x.listener != nil {
		err = x.listener.Subscribe(ctx, uri)
	} else {
		_, err = x.session.Call(ctx, mcp.MethodResourcesSubscribe, &mcp.SubscribeRequestParams{URI: uri})
	}
	if _, undeclared := errors.AsType[*session.CapabilityError](err); undeclared {
		return jsonrpc.MethodNotFound(mcp.MethodResourcesSubscribe)
	}
	return err
}

// unfollow ends the subscription of a listener to a resource. It does not wait for the upstream.
func (c *client) unfollow(uri string) {
	c.mu.Lock()
	sub := c.subscriptions[uri]
	c.mu.Unlock()
	if sub == nil {
		return
	}
	c.p.upstream.Go(func() { sub.link.unfollow(c.ctx, uri) }) // ends with the client, or after patience for each in turn
}

func (l *link) unfollow(ctx context.Context, uri string) {
	if !l.lockSubscriptions(ctx) {
		return
	}
	defer l.unlockSubscriptions()
	l.c.mu.Lock()
	sub := l.c.subscriptions[uri]
	last := false
	if sub != nil {
		sub.count--
		if last = sub.count == 0; last {
			delete(l.c.subscriptions, uri)
		}
	}
	l.c.mu.Unlock()
	conn := l.ready()
	if !last || conn == nil {
		return
	}
	if conn.listener != nil {
		conn.listener.Unsubscribe(uri)
		return
	}
	if l.follows.isOpen() {
		return
	}
	if _, err := conn.session.With(session.Timeout(patience)).Call(ctx, mcp.MethodResourcesUnsubscribe, &mcp.UnsubscribeRequestParams{URI: uri}); err != nil {
		if errors.Is(err, session.ErrTimeout) {
			l.follows.failed()
			conn.suspect()
		}
		l.c.p.log.Debug("resource not unsubscribed", "upstream", l.up.Name, "uri", uri, "error", boundary.ErrorText(err))
	}
}

// listenTo serves resources/subscribe and resources/unsubscribe of a session for an upstream
// without sessions.
func (l *link) listenTo(ctx context.Context, conn *connection, req *session.Request) (json.RawMessage, error) {
	uri, _ := textOf(req.Params, "uri")
	if req.Method == mcp.MethodResourcesUnsubscribe {
		conn.listener.Unsubscribe(uri)
		return json.RawMessage(`{}`), nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if err := conn.follow(ctx, uri); err != nil {
		return nil, l.failure(ctx, req.Method, err)
	}
	return json.RawMessage(`{}`), nil
}
