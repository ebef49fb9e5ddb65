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
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// listeners holds the open subscriptions of modern requests.
type listeners struct {
	mu    sync.Mutex
	open  map[*listener]struct{}
	usage map[string]usage // by principal
}

// usage counts the subscriptions of a principal: the requests and the URIs in them.
type usage struct{ count, bytes int }

// reserve counts subscriptions of a principal. It fails if there are too many.
func (x *listeners) reserve(cfg *Config, principal string, add usage) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	u := x.usage[principal]
	switch {
	case u.count+add.count > cfg.MaxSubscriptions:
		return invalidRequest("limit of %d subscriptions is reached", cfg.MaxSubscriptions)
	case u.bytes+add.bytes > cfg.MaxSubscriptionBytes:
		return invalidRequest("limit of %d bytes of subscriptions is reached", cfg.MaxSubscriptionBytes)
	}
	x.usage[principal] = usage{u.count + add.count, u.bytes + add.bytes}
	return nil
}

// release stops counting subscriptions.
func (x *listeners) release(principal string, sub usage) {
	x.mu.Lock()
	defer x.mu.Unlock()
	u := x.usage[principal]
	if u.count == sub.count {
		delete(x.usage, principal)
		return
	}
	x.usage[principal] = usage{u.count - sub.count, u.bytes - sub.bytes}
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

// listener is an open subscription. Changes that it has not reported are merged, so that a client
// that reads slowly costs no more memory than its subscription.
type listener struct {
	lists []string      // sorted methods of notifications of changed lists
	uris  []string      // sorted
	wake  chan struct{} // has room for one

	mu      sync.Mutex
	pending map[notice]struct{}
}

func (l *listener) notify(method, uri string) {
	of, key := l.lists, method
	if uri != "" {
		of, key = l.uris, uri
	}
	if _, found := slices.BinarySearch(of, key); !found {
		return
	}
	l.mu.Lock()
	if l.pending == nil {
		l.pending = map[notice]struct{}{}
	}
	l.pending[notice{method: method, uri: uri}] = struct{}{}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take returns the changes that were not reported, lists first.
func (l *listener) take() []notice {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := slices.SortedFunc(maps.Keys(l.pending), func(a, b notice) int {
		return cmp.Or(strings.Compare(a.uri, b.uri), strings.Compare(a.method, b.method))
	})
	l.pending = nil
	return list
}

// SubscriptionsListen implements subscriptions/listen (MCP, "Subscriptions"). It returns when the
// client cancels the request, or with a result when the server shuts down.
func (h *handler) SubscriptionsListen(ctx context.Context, params *mcp.SubscriptionsListenRequestParams) (*mcp.SubscriptionsListenResult, error) {
	s := h.p.s
	req, _ := session.FromContext(ctx)
	to, _ := session.PeerFrom(ctx)
	uris := slices.Compact(slices.Sorted(slices.Values(params.Notifications.ResourceSubscriptions)))
	meta, _ := codec.Member(req.Params, "_meta")
	use := usage{count: 1 + len(uris), bytes: len(meta)}
	for _, uri := range uris {
		use.bytes += len(uri)
	}
	principal := strings.Clone(session.Principal(ctx))
	if err := s.listeners.reserve(&s.cfg, principal, use); err != nil {
		return nil, err
	}
	defer s.listeners.release(principal, use)

	d, err := s.discovery()
	if err != nil {
		return nil, err
	}
	l, filter := newListener(&d.result.Capabilities, &params.Notifications)
	// The functions of the author must not send anything on the stream of the subscription.
	quiet := session.WithPeer(ctx, silent{})
	c := newCall(quiet, h.p)
	if d.result.Capabilities.Declares("resources.subscribe") {
		defer func() {
			for _, uri := range l.uris {
				h.p.callUnsubscribe(context.WithoutCancel(quiet), c, uri)
			}
		}()
		for _, uri := range uris {
			if _, err := s.find(c, uri); err == nil && h.p.callSubscribe(quiet, strings.Clone(uri)) == nil {
				l.uris = append(l.uris, strings.Clone(uri)) // uri may share the memory of the whole message
			}
		}
		filter.ResourceSubscriptions = slices.Clone(l.uris)
	}
	params, uris = nil, nil
	req.Detach(slices.Concat(json.RawMessage(`{"_meta":`), meta, json.RawMessage(`}`)))
	meta = nil
	req.EndOnShutdown()

	s.listeners.add(l)
	defer s.listeners.remove(l)
	id := &mcp.NotificationMetaObject{SubscriptionID: req.ID}
	err = to.Notify(ctx, mcp.MethodNotificationsSubscriptionsAcknowledged, &mcp.SubscriptionsAcknowledgedNotificationParams{Meta: id, Notifications: filter})
	for err == nil {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return h.endListening(ctx, req, to)
		}
		for _, n := range l.take() {
			if err == nil && ctx.Err() == nil {
				err = to.Notify(ctx, n.method, n.params(id))
			}
		}
	}
	return nil, err
}

// newListener returns a listener for the lists of a filter whose changes the server reports, and
// this part of the filter.
func newListener(declared *mcp.ServerCapabilities, wanted *mcp.SubscriptionFilter) (*listener, mcp.SubscriptionFilter) {
	l := &listener{wake: make(chan struct{}, 1)}
	var filter mcp.SubscriptionFilter
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
	return l, filter
}

// params returns the params of the notification of a subscription.
func (n notice) params(id *mcp.NotificationMetaObject) codec.Encoder {
	if n.uri != "" {
		return &mcp.ResourceUpdatedNotificationParams{Meta: id, URI: n.uri}
	}
	return &mcp.NotificationParams{Meta: id}
}

// endListening returns the outcome of a subscription whose context has ended: a result if the server
// shuts down. Over a connection that all requests share, such as stdio, the server also announces
// that it ends the subscription (MCP cancellation).
func (h *handler) endListening(ctx context.Context, req *session.Request, to jsonrpc.Notifier) (*mcp.SubscriptionsListenResult, error) {
	cause := context.Cause(ctx)
	if e, ok := errors.AsType[*jsonrpc.Error](cause); !ok || e.Code != session.CodeClosing {
		return nil, cause
	}
	if header, _ := transport.HTTP(ctx); header == nil {
		to.Notify(context.WithoutCancel(ctx), mcp.MethodNotificationsCancelled, // the result follows in any case
			&mcp.CancelledNotificationParams{RequestID: req.ID, Reason: new("the server shuts down")})
	}
	return &mcp.SubscriptionsListenResult{Meta: mcp.SubscriptionsListenResultMetaObject{SubscriptionID: req.ID}, ResultType: resultComplete}, nil
}

// silent is the Peer of calls that must not reach the client: it drops notifications and progress.
type silent struct{ noClient }

func (silent) Notify(context.Context, string, codec.Encoder) error { return nil }
func (silent) Report(session.Progress) error                       { return nil }
