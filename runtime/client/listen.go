package client

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// listener keeps one subscription of a revision without sessions open for everything that the client
// follows: lists, and the resources of Client.Subscribe (MCP subscriptions).
type listener struct {
	c *Client

	changed chan struct{} // buffers one; signals a change of the fields below

	mu      sync.Mutex
	lists   mcp.SubscriptionFilter // the lists that are followed
	uris    map[string]bool        // the subscribed resources; true if the server has accepted the subscription
	waiters []*subscriber          // of resources that the server has not accepted yet
	running bool
}

// subscriber is a call of Client.Subscribe.
type subscriber struct {
	uri  string
	done chan error // buffers one
}

func newListener(c *Client) *listener {
	return &listener{c: c, changed: make(chan struct{}, 1), uris: map[string]bool{}}
}

// followLists follows the lists whose changes the server announces, if the host handles
// notifications.
func (l *listener) followLists() {
	declared := &l.c.Server().Capabilities
	if l.c.options.Notifications == nil {
		return
	}
	follow := func(capability string) *bool {
		if declared.Declares(capability) {
			return new(true)
		}
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists = mcp.SubscriptionFilter{
		ToolsListChanged: follow("tools.listChanged"), PromptsListChanged: follow("prompts.listChanged"),
		ResourcesListChanged: follow("resources.listChanged"),
	}
	if l.lists.ToolsListChanged != nil || l.lists.PromptsListChanged != nil || l.lists.ResourcesListChanged != nil {
		l.update()
	}
}

// update makes run look at the fields again. mu must be held.
func (l *listener) update() {
	if !l.running {
		l.running = true
		go l.run() // ends when nothing is followed any more, or with the session
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// subscribe adds a resource and waits until the server has accepted the subscription.
func (l *listener) subscribe(ctx context.Context, uri string) error {
	if !l.c.Server().Capabilities.Declares("resources.subscribe") {
		return notSubscribable(l.c)
	}
	s := &subscriber{uri, make(chan error, 1)}
	l.mu.Lock()
	if l.uris[uri] {
		l.mu.Unlock()
		return nil
	}
	l.uris[uri] = false
	l.waiters = append(l.waiters, s)
	l.update()
	l.mu.Unlock()
	select {
	case err := <-s.done:
		return err
	case <-l.c.session.Done():
		return session.ErrClosed
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waiters = slices.DeleteFunc(l.waiters, func(x *subscriber) bool { return x == s })
		if accepted, ok := l.uris[uri]; ok && !accepted && !slices.ContainsFunc(l.waiters, func(x *subscriber) bool { return x.uri == uri }) {
			delete(l.uris, uri)
			l.update()
		}
		return context.Cause(ctx)
	}
}

func notSubscribable(c *Client) error {
	return &session.CapabilityError{Method: mcp.MethodSubscriptionsListen, Capability: "resources.subscribe", Revision: c.Revision()}
}

// unsubscribe removes a resource.
func (l *listener) unsubscribe(uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.uris[uri]; ok {
		delete(l.uris, uri)
		l.update()
	}
}

// wanted returns the filter of everything that is followed, and the waiters that it answers. ok is
// false, and run must return, if nothing is followed.
func (l *listener) wanted() (filter mcp.SubscriptionFilter, waiters []*subscriber, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.changed:
	default:
	}
	filter = l.lists
	filter.ResourceSubscriptions = slices.Sorted(maps.Keys(l.uris))
	waiters, l.waiters = l.waiters, nil
	ok = filter.ToolsListChanged != nil || filter.PromptsListChanged != nil || filter.ResourcesListChanged != nil || len(l.uris) > 0
	l.running = ok
	return filter, waiters, ok
}

// settle answers waiters after the server has accepted a filter, or has failed with err.
func (l *listener) settle(waiters []*subscriber, accepted mcp.SubscriptionFilter, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uri := range l.uris {
		if slices.Contains(accepted.ResourceSubscriptions, uri) {
			l.uris[uri] = true
		}
	}
	for _, s := range waiters {
		failed := err
		if failed == nil && !slices.Contains(accepted.ResourceSubscriptions, s.uri) {
			failed = notSubscribable(l.c)
		}
		if failed != nil && !l.uris[s.uri] {
			delete(l.uris, s.uri)
		}
		s.done <- failed
	}
}

// listening is one request of subscriptions/listen.
type listening struct {
	cancel   context.CancelFunc
	accepted chan mcp.SubscriptionFilter // buffers one
	done     chan error                  // buffers one
}

func (l *listener) listen(filter mcp.SubscriptionFilter) *listening {
	ctx, cancel := context.WithCancel(context.Background())
	x := &listening{cancel, make(chan mcp.SubscriptionFilter, 1), make(chan error, 1)}
	go func() { // ends with ctx or the session
		x.done <- l.c.session.Listen(ctx, filter, func(accepted mcp.SubscriptionFilter) { x.accepted <- accepted })
	}()
	return x
}

// Delays before a lost subscription is opened again. They double with each failure, and the actual
// delay is a random value between half of it and all of it.
const (
	listenDelay    = 250 * time.Millisecond
	maxListenDelay = 30 * time.Second
)

// run opens the subscription, replaces it when the filter changes, and opens it again when it is
// lost.
func (l *listener) run() {
	var current *listening // accepted by the server; nil if there is none
	lost := false          // changes may have been missed
	for failures := 0; ; {
		filter, waiters, ok := l.wanted()
		if !ok {
			l.settle(waiters, filter, nil)
			if current != nil {
				current.cancel()
			}
			return
		}
		next := l.listen(filter)
		var err error
		select {
		case accepted := <-next.accepted:
			if current != nil {
				current.cancel() // now that the new one is open, no change is missed
			}
			current, failures = next, 0
			l.settle(waiters, accepted, nil)
			l.compare(filter, accepted)
			if lost {
				lost = false
				l.reportMissed(accepted)
			}
			select {
			case <-l.changed:
				continue
			case err = <-current.done:
			}
		case err = <-next.done:
			l.settle(waiters, mcp.SubscriptionFilter{}, orEnded(err))
		}
		switch {
		case next == current:
			current, lost = nil, true
		case current == nil:
			lost = true
		}
		if errors.Is(err, session.ErrClosed) {
			l.end()
			return
		}
		if !retryListen(err) {
			l.c.log.Warn("subscription rejected", "error", err)
			if len(waiters) == 0 {
				l.clear()
			}
			continue // with what was followed before
		}
		l.c.log.Info("subscription lost", "error", err)
		delay := min(listenDelay<<min(failures, 10), maxListenDelay)
		failures++
		timer := time.NewTimer(delay/2 + rand.N(delay/2+1))
		select {
		case <-timer.C:
		case <-l.c.session.Done():
		}
		timer.Stop()
	}
}

// orEnded returns err, or an error for a subscription that the server has ended before it accepted
// it.
func orEnded(err error) error {
	if err == nil {
		return errors.New("client: server has ended the subscription")
	}
	return err
}

// retryListen reports whether a subscription that ended with err may be opened again. A server may
// end one in order because it restarts.
func retryListen(err error) bool {
	if lost, ok := errors.AsType[*transport.DeliveryError](err); ok {
		return !lost.Refused
	}
	if _, rejected := errors.AsType[*jsonrpc.Error](err); rejected {
		return temporary(err)
	}
	_, undeclared := errors.AsType[*session.CapabilityError](err)
	return !undeclared
}

// clear stops following everything.
func (l *listener) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists = mcp.SubscriptionFilter{}
	clear(l.uris)
}

// end answers waiters after the end of the session.
func (l *listener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.waiters {
		s.done <- session.ErrClosed
	}
	l.waiters, l.running = nil, false
}

// compare logs what the server does not report (MCP subscriptions, "Acknowledgment").
func (l *listener) compare(wanted, accepted mcp.SubscriptionFilter) {
	for _, x := range []struct {
		name             string
		wanted, accepted *bool
	}{
		{"tools", wanted.ToolsListChanged, accepted.ToolsListChanged},
		{"prompts", wanted.PromptsListChanged, accepted.PromptsListChanged},
		{"resources", wanted.ResourcesListChanged, accepted.ResourcesListChanged},
	} {
		if isTrue(x.wanted) && !isTrue(x.accepted) {
			l.c.log.Warn("server does not report changes", "list", x.name)
		}
	}
	for _, uri := range wanted.ResourceSubscriptions {
		if !slices.Contains(accepted.ResourceSubscriptions, uri) {
			l.c.log.Warn("server does not report changes", "resource", uri)
		}
	}
}

// reportMissed reports a change of everything that a filter selects, as if the server had reported
// it.
func (l *listener) reportMissed(accepted mcp.SubscriptionFilter) {
	report := func(follows *bool, method string) {
		if isTrue(follows) {
			l.c.session.Handle(context.Background(), &session.Request{Method: method})
		}
	}
	report(accepted.ToolsListChanged, mcp.MethodNotificationsToolsListChanged)
	report(accepted.PromptsListChanged, mcp.MethodNotificationsPromptsListChanged)
	report(accepted.ResourcesListChanged, mcp.MethodNotificationsResourcesListChanged)
	for _, uri := range accepted.ResourceSubscriptions {
		params, err := codec.Marshal(&mcp.ResourceUpdatedNotificationParams{URI: uri})
		if err == nil {
			l.c.session.Handle(context.Background(), &session.Request{Method: mcp.MethodNotificationsResourcesUpdated, Params: params})
		}
	}
}
