package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// listeners holds the open subscriptions of modern requests.
type listeners struct {
	// Counts the requests, and the resources and tasks in them, and also the resources to which
	// sessions are subscribed.
	quota modern.Quota

	mu   sync.Mutex
	open map[*listener]struct{}
}

// reserve counts subscriptions of an account, or returns the error that rejects them.
func (x *listeners) reserve(account string, size modern.Size) error {
	switch x.quota.Reserve(account, size) {
	case modern.ErrCount:
		return invalidRequest("limit of %d subscriptions is reached", x.quota.Limit.Count)
	case modern.ErrBytes:
		return invalidRequest("limit of %d bytes of subscriptions is reached", x.quota.Limit.Bytes)
	}
	return nil
}

// sizeOf returns the size of a subscription to one resource.
func sizeOf(uri string) modern.Size { return modern.Size{Count: 1, Bytes: len(uri)} }

func (x *listeners) add(l *listener) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open[l] = struct{}{}
}

func (x *listeners) remove(l *listener) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, l)
}

// notify notifies the subscriptions to a list, or to the resource with a URI.
func (x *listeners) notify(method, uri string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for l := range x.open {
		l.notify(method, uri)
	}
}

// listener is an open subscription.
type listener struct {
	id      mcp.NotificationMetaObject // the _meta of its notifications
	lists   []string                   // sorted methods of notifications of changed lists
	uris    []string                   // sorted
	parts   []*part
	changes *modern.Changes[notice]
	release func() // gives its share of the limits back
}

// part is the part of a subscription that an extension reports.
type part struct {
	Subscription
	member string // of the filter
	opened bool
}

func (l *listener) notify(method, uri string) {
	of, key := l.lists, method
	if uri != "" {
		of, key = l.uris, uri
	}
	if _, found := slices.BinarySearch(of, key); found {
		l.changes.Add(notice{method: method, uri: uri})
	}
}

// compareNotices sorts lists first.
func compareNotices(a, b notice) int {
	return cmp.Or(strings.Compare(a.uri, b.uri), strings.Compare(a.method, b.method))
}

// Stand serves a request that stays open, such as one whose handler sends notifications until its
// client cancels it: it calls f and returns the error of f. Meanwhile the request counts against
// [Limits.Subscriptions] and SubscriptionBytes, with the names of what it is about, and holds nothing
// of its params but the _meta. When the server shuts down, or the access token of the client expires,
// the context of f ends, and Stand returns nil if f then returns an error: the handler ends the
// request with its result. Only a handler in [Features.Methods] or [Extension].Methods may call Stand,
// once.
func (c *Call) Stand(ctx context.Context, names []string, f func(ctx context.Context) error) error {
	release, err := c.p.s.stand(ctx, names)
	if err != nil {
		return err
	}
	defer release()
	return unlessClosing(ctx, f(ctx))
}

// stand makes the request of ctx one that stays open. Call release when it ends.
func (s *Server) stand(ctx context.Context, names []string) (release func(), err error) {
	req, ok := session.FromContext(ctx)
	if !ok {
		return nil, errors.New("server: Stand needs the context of a request")
	}
	meta, _ := codec.Member(req.Params, "_meta")
	size := modern.Size{Count: 1 + len(names), Bytes: len(meta)}
	for _, name := range names {
		size.Bytes += len(name)
	}
	from := strings.Clone(s.peerFor(ctx, req).account(ctx))
	if err := s.listeners.reserve(from, size); err != nil {
		return nil, err
	}
	if meta == nil {
		meta = json.RawMessage(`{}`)
	}
	req.Internals(boundary.Caller{}).Detach(slices.Concat(json.RawMessage(`{"_meta":`), meta, json.RawMessage(`}`))) // the message is no longer needed
	req.Internals(boundary.Caller{}).EndOnShutdown()
	return func() { s.listeners.quota.Release(from, size) }, nil
}

// unlessClosing returns the error of a request that stays open, or nil if its context has ended because
// the server shuts down.
func unlessClosing(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if e, ok := errors.AsType[*jsonrpc.Error](cause); ok && e.Code == session.CodeClosing {
		return nil
	}
	return cause
}

// SubscriptionsListen implements subscriptions/listen (MCP, "Subscriptions"). It returns when the
// client cancels the request, or with a result when the server shuts down.
func (h *handler) SubscriptionsListen(ctx context.Context, params *mcp.SubscriptionsListenRequestParams) (*mcp.SubscriptionsListenResult, error) {
	l, err := h.beginListening(ctx, params)
	if err != nil {
		return nil, err
	}
	defer h.leave(ctx, l)
	for err == nil {
		select {
		case <-l.changes.Added():
			err = l.send(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err := unlessClosing(ctx, err); err != nil {
		return nil, err
	}
	return l.end(ctx), nil
}

// beginListening starts the subscription that params describe, and sends the acknowledgment.
func (h *handler) beginListening(ctx context.Context, params *mcp.SubscriptionsListenRequestParams) (*listener, error) {
	req, _ := session.FromContext(ctx)
	uris := slices.Compact(slices.Sorted(slices.Values(params.Notifications.ResourceSubscriptions)))
	l := &listener{id: mcp.NotificationMetaObject{SubscriptionID: req.ID}, changes: modern.NewChanges(compareNotices)}
	names := uris
	for _, e := range h.p.s.offered() {
		more, err := l.addParts(session.WithPeer(ctx, silent{}), h.p, e, req, &params.Notifications)
		if err != nil {
			return nil, err
		}
		names = slices.Concat(names, more)
	}
	release, err := h.p.s.stand(ctx, names)
	if err != nil {
		return nil, err
	}
	l.release = release
	listening := false
	defer func() { // also if a function of the author ends the goroutine
		if !listening {
			h.leave(ctx, l)
		}
	}()
	filter, err := h.subscribeTo(ctx, l, &params.Notifications, uris)
	if err == nil {
		h.p.s.listeners.add(l)
		err = l.notifyClient(ctx, mcp.MethodNotificationsSubscriptionsAcknowledged, &mcp.SubscriptionsAcknowledgedNotificationParams{Meta: &l.id, Notifications: filter})
	}
	if err != nil {
		return nil, err
	}
	listening = true
	return l, nil
}

// addParts adds the parts that an extension reports, and returns their names.
func (l *listener) addParts(ctx context.Context, p *peer, e *extension, req *session.Request, wanted *mcp.SubscriptionFilter) (names []string, err error) {
	for _, member := range slices.Sorted(maps.Keys(e.Listen)) {
		raw, ok := wanted.Extra.Get(member)
		if !ok || !e.exists(req) {
			continue
		}
		sub, err := e.Listen[member](ctx, newCall(ctx, p), raw)
		if err != nil {
			return nil, err
		}
		if sub != nil {
			l.parts = append(l.parts, &part{Subscription: sub, member: member})
			names = slices.Concat(names, sub.Names())
		}
	}
	return names, nil
}

// subscribeTo sets the lists and resources whose changes l reports, and calls [Hooks.Subscribe].
// It returns the part of the filter that the server honors.
func (h *handler) subscribeTo(ctx context.Context, l *listener, wanted *mcp.SubscriptionFilter, uris []string) (mcp.SubscriptionFilter, error) {
	d, err := h.p.s.discovery()
	if err != nil {
		return mcp.SubscriptionFilter{}, err
	}
	filter := l.setLists(&d.result.Capabilities, wanted)
	if err := h.extend(ctx, l, d.extensions, wanted, &filter); err != nil {
		return mcp.SubscriptionFilter{}, err
	}
	if !d.result.Capabilities.Declares("resources.subscribe") {
		return filter, nil
	}
	ctx = session.WithPeer(ctx, silent{})
	c := newCall(ctx, h.p)
	for _, uri := range uris {
		uri = strings.Clone(uri) // it may share the memory of the whole message
		if _, err := h.p.s.find(c, uri); err == nil && h.p.callSubscribe(ctx, uri) == nil {
			l.uris = append(l.uris, uri)
		}
	}
	filter.ResourceSubscriptions = slices.Clone(l.uris)
	return filter, nil
}

// extend sets the lists of extensions whose changes l reports, opens the parts of l, and adds both to
// the filter that the server honors.
func (h *handler) extend(ctx context.Context, l *listener, extensions []*extension, wanted, filter *mcp.SubscriptionFilter) error {
	req, _ := session.FromContext(ctx)
	for _, e := range extensions {
		for _, member := range slices.Sorted(maps.Keys(e.Lists)) {
			if raw, _ := wanted.Extra.Get(member); string(raw) == "true" && e.exists(req) {
				l.lists = append(l.lists, e.Lists[member])
				filter.Extra.Set(member, json.RawMessage("true"))
			}
		}
	}
	slices.Sort(l.lists)
	for _, p := range l.parts {
		acknowledged, err := p.Open(ctx, func(name string) { l.changes.Add(notice{uri: name, part: p}) })
		if err != nil {
			return err
		}
		p.opened = true
		filter.Extra.Set(p.member, acknowledged)
	}
	return nil
}

// leave ends a subscription, and calls [Hooks.Unsubscribe].
func (h *handler) leave(ctx context.Context, l *listener) {
	defer l.release()
	h.p.s.listeners.remove(l)
	for _, p := range l.parts {
		if p.opened {
			defer p.Close()
		}
	}
	ctx = session.WithPeer(context.WithoutCancel(ctx), silent{})
	for _, uri := range l.uris {
		h.p.callUnsubscribe(ctx, newCall(ctx, h.p), uri)
	}
}

// setLists sets the wanted lists whose changes the server reports, and returns the part of the
// filter that names them.
func (l *listener) setLists(declared *mcp.ServerCapabilities, wanted *mcp.SubscriptionFilter) (filter mcp.SubscriptionFilter) {
	for _, list := range []struct {
		capability, method string
		wanted             *bool
		honored            **bool
	}{ // sorted by method
		{"prompts.listChanged", mcp.MethodNotificationsPromptsListChanged, wanted.PromptsListChanged, &filter.PromptsListChanged},
		{"resources.listChanged", mcp.MethodNotificationsResourcesListChanged, wanted.ResourcesListChanged, &filter.ResourcesListChanged},
		{"tools.listChanged", mcp.MethodNotificationsToolsListChanged, wanted.ToolsListChanged, &filter.ToolsListChanged},
	} {
		if list.wanted != nil && *list.wanted && declared.Declares(list.capability) {
			l.lists = append(l.lists, list.method)
			*list.honored = new(true)
		}
	}
	return filter
}

// notifyClient sends a notification of the subscription.
func (l *listener) notifyClient(ctx context.Context, method string, params codec.Encoder) error {
	to, _ := session.PeerFrom(ctx)
	return to.Notify(ctx, method, params)
}

// send reports the pending changes.
func (l *listener) send(ctx context.Context) error {
	for _, n := range l.changes.Take() {
		var params codec.Encoder = &mcp.NotificationParams{Meta: &l.id}
		switch {
		case n.part != nil:
			if n.method, params = n.part.Read(ctx, n.uri, &l.id); params == nil {
				continue
			}
		case n.uri != "":
			params = &mcp.ResourceUpdatedNotificationParams{Meta: &l.id, URI: n.uri}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := l.notifyClient(ctx, n.method, params); err != nil {
			return err
		}
	}
	return nil
}

// end returns the result of a subscription that ends because the server shuts down. Over a connection
// that all requests share, such as stdio, the server also announces that it ends the subscription
// (MCP cancellation).
func (l *listener) end(ctx context.Context) *mcp.SubscriptionsListenResult {
	if header, _ := transport.HTTP(ctx); header == nil {
		l.notifyClient(context.WithoutCancel(ctx), mcp.MethodNotificationsCancelled, // the result follows in any case
			&mcp.CancelledNotificationParams{RequestID: l.id.SubscriptionID, Reason: new("the server shuts down")})
	}
	return &mcp.SubscriptionsListenResult{Meta: mcp.SubscriptionsListenResultMetaObject{SubscriptionID: l.id.SubscriptionID}, ResultType: modern.ResultComplete}
}

// silent is the Peer in the context of the author's functions for a subscription, such as
// [Hooks.Subscribe]. They must not send anything on its stream, so silent drops notifications and
// progress.
type silent struct{ noClient }

func (silent) Notify(context.Context, string, codec.Encoder) error { return nil }
func (silent) Report(session.Progress) error                       { return nil }
