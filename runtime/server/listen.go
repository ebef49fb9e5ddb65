package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// listeners holds the open subscriptions of modern requests.
type listeners struct {
	quota modern.Quota // counts the requests, and the resources and tasks in them

	mu   sync.Mutex
	open map[*listener]struct{}
}

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
	id        mcp.NotificationMetaObject // the _meta of its notifications
	principal string
	account   string // key of the quota
	size      modern.Size

	lists   []string                     // sorted methods of notifications of changed lists
	uris    []string                     // sorted
	tasks   taskrules.Watch[task.Record] // nil for none
	changes *modern.Changes[notice]
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

// taskChanged reports a change of a task.
func (l *listener) taskChanged(id string) {
	l.changes.Add(notice{method: modern.NotificationTask, uri: id})
}

// compareNotices sorts lists first.
func compareNotices(a, b notice) int {
	return cmp.Or(strings.Compare(a.uri, b.uri), strings.Compare(a.method, b.method))
}

// SubscriptionsListen implements subscriptions/listen (MCP, "Subscriptions"). It returns when the
// client cancels the request, or with a result when the server shuts down.
func (h *handler) SubscriptionsListen(ctx context.Context, params *mcp.SubscriptionsListenRequestParams) (*mcp.SubscriptionsListenResult, error) {
	l, err := h.beginListening(ctx, params)
	if err != nil {
		return nil, err
	}
	defer h.leave(ctx, l)
	for {
		select {
		case <-l.changes.Added():
			if err := l.send(ctx); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return l.end(ctx)
		}
	}
}

// beginListening starts the subscription that params describe, and sends the acknowledgment.
func (h *handler) beginListening(ctx context.Context, params *mcp.SubscriptionsListenRequestParams) (*listener, error) {
	s := h.p.s
	req, _ := session.FromContext(ctx)
	uris := slices.Compact(slices.Sorted(slices.Values(params.Notifications.ResourceSubscriptions)))
	meta, _ := codec.Member(req.Params, "_meta")
	size := modern.Size{Count: 1 + len(uris), Bytes: len(meta)}
	for _, uri := range uris {
		size.Bytes += len(uri)
	}
	ids, err := h.watchedTasks(req, &params.Notifications)
	if err != nil {
		return nil, err
	}
	size.Count += len(ids)
	for _, id := range ids {
		size.Bytes += len(id)
	}
	principal, from := strings.Clone(session.Principal(ctx)), strings.Clone(account(ctx))
	switch s.listeners.quota.Reserve(from, size) {
	case modern.ErrCount:
		return nil, invalidRequest("limit of %d subscriptions is reached", s.cfg.Limits.Subscriptions)
	case modern.ErrBytes:
		return nil, invalidRequest("limit of %d bytes of subscriptions is reached", s.cfg.Limits.SubscriptionBytes)
	}
	l := &listener{id: mcp.NotificationMetaObject{SubscriptionID: req.ID}, principal: principal, account: from, size: size, changes: modern.NewChanges(compareNotices)}
	listening := false
	defer func() { // also if a function of the author ends the goroutine
		if !listening {
			h.leave(ctx, l)
		}
	}()
	filter, err := h.subscribeTo(ctx, l, &params.Notifications, uris)
	if err == nil && ids != nil {
		err = h.watchTasks(ctx, l, ids, &filter)
	}
	if err == nil {
		// The message is no longer needed.
		req.Detach(slices.Concat(json.RawMessage(`{"_meta":`), meta, json.RawMessage(`}`)))
		req.EndOnShutdown()
		s.listeners.add(l)
		err = l.notifyClient(ctx, mcp.MethodNotificationsSubscriptionsAcknowledged, &mcp.SubscriptionsAcknowledgedNotificationParams{Meta: &l.id, Notifications: filter})
	}
	if err != nil {
		return nil, err
	}
	listening = true
	return l, nil
}

// subscribeTo sets the lists and resources whose changes l reports, and calls [Hooks.Subscribe].
// It returns the part of the filter that the server honors.
func (h *handler) subscribeTo(ctx context.Context, l *listener, wanted *mcp.SubscriptionFilter, uris []string) (mcp.SubscriptionFilter, error) {
	d, err := h.p.s.discovery()
	if err != nil {
		return mcp.SubscriptionFilter{}, err
	}
	filter := l.setLists(&d.result.Capabilities, wanted)
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

// leave ends a subscription, and calls [Hooks.Unsubscribe].
func (h *handler) leave(ctx context.Context, l *listener) {
	h.p.s.listeners.remove(l)
	if l.tasks != nil {
		l.tasks.Close()
	}
	ctx = session.WithPeer(context.WithoutCancel(ctx), silent{})
	for _, uri := range l.uris {
		h.p.callUnsubscribe(ctx, newCall(ctx, h.p), uri)
	}
	h.p.s.listeners.quota.Release(l.account, l.size)
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
		case n.method == modern.NotificationTask:
			state := receiver.WatchedTask(ctx, l.tasks, n.uri, &l.id)
			if state == nil {
				continue
			}
			params = state
		case n.uri != "":
			params = &mcp.ResourceUpdatedNotificationParams{Meta: &l.id, URI: n.uri}
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := l.notifyClient(ctx, n.method, params); err != nil {
			return err
		}
	}
	return nil
}

// end returns the outcome of a subscription whose context has ended: a result if the server
// shuts down. Over a connection that all requests share, such as stdio, the server also announces
// that it ends the subscription (MCP cancellation).
func (l *listener) end(ctx context.Context) (*mcp.SubscriptionsListenResult, error) {
	cause := context.Cause(ctx)
	if e, ok := errors.AsType[*jsonrpc.Error](cause); !ok || e.Code != session.CodeClosing {
		return nil, cause
	}
	if header, _ := transport.HTTP(ctx); header == nil {
		l.notifyClient(context.WithoutCancel(ctx), mcp.MethodNotificationsCancelled, // the result follows in any case
			&mcp.CancelledNotificationParams{RequestID: l.id.SubscriptionID, Reason: new("the server shuts down")})
	}
	return &mcp.SubscriptionsListenResult{Meta: mcp.SubscriptionsListenResultMetaObject{SubscriptionID: l.id.SubscriptionID}, ResultType: modern.ResultComplete}, nil
}

// silent is the Peer in the context of the author's functions for a subscription, such as
// [Hooks.Subscribe]. They must not send anything on its stream, so silent drops notifications and
// progress.
type silent struct{ noClient }

func (silent) Notify(context.Context, string, codec.Encoder) error { return nil }
func (silent) Report(session.Progress) error                       { return nil }
