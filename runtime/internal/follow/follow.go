// Package follow keeps one subscription of a revision without sessions open, for everything that a
// client follows (MCP subscriptions).
package follow

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Listener keeps one subscription of a session open for everything that the client follows: lists,
// resources and tasks. When it is lost, for example because the server restarts, the Listener opens
// it again, and then passes a notification for each resource and list to the handler of the
// session, because changes may have been missed. Its methods are safe for concurrent use.
type Listener struct {
	s   *session.Session
	log *slog.Logger

	fetched func(notification string) bool // see New
	changed chan struct{}                  // buffers one; signals a change of the fields below

	mu      sync.Mutex
	all     bool                   // Lists was called
	lists   mcp.SubscriptionFilter // the lists that are followed
	uris    map[string]bool        // the subscribed resources; true if the server has accepted the subscription
	waiters []*subscriber          // of resources that are in no request yet
	asked   []*subscriber          // of resources in the pending request
	running bool
	tasks   followedTasks
}

// subscriber is a call of Subscribe.
type subscriber struct {
	uri  string
	done chan error // buffers one
}

// New returns a Listener for a session of a revision without sessions. Fetched reports whether the
// client may have fetched the list of a notification. If so when the server accepts the first
// subscription, the list may have changed since, and the Listener reports that.
func New(s *session.Session, fetched func(notification string) bool, log *slog.Logger) *Listener {
	return &Listener{s: s, fetched: fetched, log: log, changed: make(chan struct{}, 1), uris: map[string]bool{}}
}

// Lists follows the lists whose changes the server announces. It is called again when the server
// may have been replaced.
func (l *Listener) Lists() {
	declared := &l.s.Server().Capabilities
	follow := func(capability string) *bool {
		if declared.Declares(capability) {
			return new(true)
		}
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.lists
	l.all, l.lists = true, mcp.SubscriptionFilter{
		ToolsListChanged: follow("tools.listChanged"), PromptsListChanged: follow("prompts.listChanged"),
		ResourcesListChanged: follow("resources.listChanged"),
	}
	if isTrue(l.lists.ToolsListChanged) != isTrue(before.ToolsListChanged) || isTrue(l.lists.PromptsListChanged) != isTrue(before.PromptsListChanged) ||
		isTrue(l.lists.ResourcesListChanged) != isTrue(before.ResourcesListChanged) {
		l.update()
	}
}

// relearn asks the server for its capabilities, and follows the lists whose changes it announces.
// The server may have been replaced.
func (l *Listener) relearn() {
	if l.s.Ping(context.Background()) != nil {
		return // the subscription is lost again
	}
	l.mu.Lock()
	all := l.all
	l.tasks.refused = false
	l.mu.Unlock()
	if all {
		l.Lists()
	}
}

// update makes run look at the fields again. mu must be held.
func (l *Listener) update() {
	if !l.running {
		l.running = true
		go l.run() // ends when nothing is followed, or with the session
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Subscribe adds a resource and waits until the server has accepted the subscription.
func (l *Listener) Subscribe(ctx context.Context, uri string) error {
	if !l.s.Server().Capabilities.Declares("resources.subscribe") {
		return notSubscribable(l.s)
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
	case <-l.s.Done():
		return session.ErrClosed
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, list := range []*[]*subscriber{&l.waiters, &l.asked} {
			*list = slices.DeleteFunc(*list, func(x *subscriber) bool { return x == s })
		}
		sameURI := func(x *subscriber) bool { return x.uri == uri }
		if accepted, ok := l.uris[uri]; ok && !accepted && !slices.ContainsFunc(l.waiters, sameURI) && !slices.ContainsFunc(l.asked, sameURI) {
			delete(l.uris, uri)
			l.update()
		}
		return context.Cause(ctx)
	}
}

func notSubscribable(s *session.Session) error {
	return &session.CapabilityError{Method: mcp.MethodSubscriptionsListen, Capability: "resources.subscribe", Revision: s.Revision()}
}

// Unsubscribe removes a resource.
func (l *Listener) Unsubscribe(uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.uris[uri]; ok {
		delete(l.uris, uri)
		l.update()
	}
}

// wanted returns the filter of everything that is followed. If forWaiters is true, settle must be
// called with the outcome. If ok is false, nothing is followed and run must return.
func (l *Listener) wanted() (filter mcp.SubscriptionFilter, forWaiters, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.changed:
	default:
	}
	filter = l.lists
	filter.ResourceSubscriptions = slices.Sorted(maps.Keys(l.uris))
	l.tasks.filter(&filter)
	l.asked, l.waiters = l.waiters, nil
	ok = l.follows()
	if l.running = ok; !ok {
		l.answer(filter, nil) // waiters whose resource was removed meanwhile
	}
	return filter, len(l.asked) > 0, ok
}

// follows reports whether anything is followed. mu must be held.
func (l *Listener) follows() bool {
	return l.lists.ToolsListChanged != nil || l.lists.PromptsListChanged != nil || l.lists.ResourcesListChanged != nil ||
		len(l.uris) > 0 || len(l.tasks.byID) > 0
}

// settle answers the waiters of the last request. accepted is the filter that the server has
// accepted. err is not nil if the request has failed.
func (l *Listener) settle(accepted mcp.SubscriptionFilter, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer(accepted, err)
}

// answer is settle with mu held.
func (l *Listener) answer(accepted mcp.SubscriptionFilter, err error) {
	for uri := range l.uris {
		if slices.Contains(accepted.ResourceSubscriptions, uri) {
			l.uris[uri] = true
		}
	}
	for _, s := range l.asked {
		failed := err
		if failed == nil && !slices.Contains(accepted.ResourceSubscriptions, s.uri) {
			failed = notSubscribable(l.s)
		}
		if failed != nil && !l.uris[s.uri] {
			delete(l.uris, s.uri)
		}
		s.done <- failed
	}
	l.asked = nil
}

// listening is one request of subscriptions/listen.
type listening struct {
	cancel   context.CancelFunc
	accepted chan mcp.SubscriptionFilter // buffers one
	done     chan error                  // buffers one
}

func (l *Listener) listen(filter mcp.SubscriptionFilter) *listening {
	ctx, cancel := context.WithCancel(context.Background())
	x := &listening{cancel, make(chan mcp.SubscriptionFilter, 1), make(chan error, 1)}
	go func() { // ends with ctx or the session
		x.done <- l.s.Listen(ctx, filter, func(accepted mcp.SubscriptionFilter) { x.accepted <- accepted })
	}()
	return x
}

// Delays before a lost subscription is opened again. They double with each failure, and the actual
// delay is a random value between half of it and all of it. The loss of a subscription that was
// open for less than stableListen is a failure, too: the server may end each one at once.
const (
	listenDelay    = 250 * time.Millisecond
	maxListenDelay = 30 * time.Second
	stableListen   = 10 * time.Second
)

// run opens the subscription, replaces it when the filter changes, and opens it again when it is
// lost.
func (l *Listener) run() {
	var current *listening // accepted by the server; nil if no request is open
	var opened time.Time   // when the server accepted a subscription after a loss
	lost := false          // changes may have been missed
	accepted := false      // some subscription
	for failures := 0; ; {
		filter, forWaiters, ok := l.wanted()
		if !ok {
			if current != nil {
				current.cancel()
			}
			return
		}
		next := l.listen(filter)
		var err error
		select {
		case honored := <-next.accepted:
			if current != nil {
				select {
				case <-current.done: // it ended before the new one was open
					lost = true
				default:
					// The new one reports all further changes. One that the server is still sending on
					// the old one is missed.
					current.cancel()
				}
			}
			if current == nil || lost {
				opened = time.Now()
			}
			current = next
			l.settle(honored, nil)
			l.compare(filter, honored)
			l.acceptTasks(&filter, &honored, lost)
			switch {
			case lost:
				l.relearn()
				l.reportMissed(honored)
			case !accepted:
				l.reportMissed(l.fetchedLists(honored))
			}
			lost, accepted = false, true
			select {
			case <-l.changed:
				continue
			case err = <-current.done:
			}
		case err = <-next.done:
			if !retryListen(err, accepted) && l.refuseTasks(&filter) {
				l.log.Info("subscription to tasks rejected", "error", err)
				continue // without them
			}
			l.settle(mcp.SubscriptionFilter{}, orEnded(err))
		}
		switch {
		case next == current:
			current, lost = nil, true
			if time.Since(opened) >= stableListen {
				failures = 0
			}
			l.loseTasks()
		case current == nil:
			lost = true
		}
		if errors.Is(err, session.ErrClosed) {
			l.end()
			return
		}
		if !retryListen(err, accepted) {
			l.log.Warn("subscription rejected", "error", err)
			if !forWaiters {
				l.clear()
			}
			continue // without the resources of the waiters
		}
		l.log.Info("subscription lost", "error", err)
		delay := min(listenDelay<<min(failures, 10), maxListenDelay)
		failures++
		timer := time.NewTimer(delay/2 + rand.N(delay/2+1))
		select {
		case <-timer.C:
		case <-l.s.Done():
		}
		timer.Stop()
	}
}

// orEnded returns err, or an error for a subscription that the server has ended before it accepted
// it.
func orEnded(err error) error {
	if err == nil {
		return errors.New("session: server has ended the subscription")
	}
	return err
}

// retryListen reports whether a subscription that ended with err may be opened again. A server may
// end one in order because it restarts. If the server has accepted one before, a rejection that is
// not an answer of the server is temporary: a gateway whose server is down may respond with status
// 404, a page or a redirect.
func retryListen(err error, accepted bool) bool {
	if lost, ok := errors.AsType[*transport.DeliveryError](err); ok {
		return accepted || !lost.Refused
	}
	if _, rejected := errors.AsType[*jsonrpc.Error](err); rejected {
		return Temporary(err)
	}
	_, undeclared := errors.AsType[*session.CapabilityError](err)
	return !undeclared
}

// clear stops following everything.
func (l *Listener) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists = mcp.SubscriptionFilter{}
	clear(l.uris)
}

// end answers waiters after the end of the session.
func (l *Listener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.waiters {
		s.done <- session.ErrClosed
	}
	l.waiters, l.running = nil, false
}

// compare logs what the server does not report (MCP subscriptions, "Acknowledgment").
func (l *Listener) compare(wanted, accepted mcp.SubscriptionFilter) {
	for _, x := range []struct {
		name             string
		wanted, accepted *bool
	}{
		{"tools", wanted.ToolsListChanged, accepted.ToolsListChanged},
		{"prompts", wanted.PromptsListChanged, accepted.PromptsListChanged},
		{"resources", wanted.ResourcesListChanged, accepted.ResourcesListChanged},
	} {
		if isTrue(x.wanted) && !isTrue(x.accepted) {
			l.log.Warn("server does not report changes", "list", x.name)
		}
	}
	for _, uri := range wanted.ResourceSubscriptions {
		if !slices.Contains(accepted.ResourceSubscriptions, uri) {
			l.log.Warn("server does not report changes", "resource", uri)
		}
	}
}

// fetchedLists returns the part of a filter with the lists that the client has fetched.
func (l *Listener) fetchedLists(filter mcp.SubscriptionFilter) (fetched mcp.SubscriptionFilter) {
	for _, x := range []struct {
		method   string
		from, to **bool
	}{
		{mcp.MethodNotificationsToolsListChanged, &filter.ToolsListChanged, &fetched.ToolsListChanged},
		{mcp.MethodNotificationsPromptsListChanged, &filter.PromptsListChanged, &fetched.PromptsListChanged},
		{mcp.MethodNotificationsResourcesListChanged, &filter.ResourcesListChanged, &fetched.ResourcesListChanged},
	} {
		if l.fetched(x.method) {
			*x.to = *x.from
		}
	}
	return fetched
}

// reportMissed reports a change of everything that a filter selects, as if the server had reported
// it.
func (l *Listener) reportMissed(accepted mcp.SubscriptionFilter) {
	report := func(follows *bool, method string) {
		if isTrue(follows) {
			l.s.Internals(boundary.Caller{}).Handle(context.Background(), &session.Request{Method: method})
		}
	}
	report(accepted.ToolsListChanged, mcp.MethodNotificationsToolsListChanged)
	report(accepted.PromptsListChanged, mcp.MethodNotificationsPromptsListChanged)
	report(accepted.ResourcesListChanged, mcp.MethodNotificationsResourcesListChanged)
	for _, uri := range accepted.ResourceSubscriptions {
		params, err := codec.Marshal(&mcp.ResourceUpdatedNotificationParams{URI: uri})
		if err == nil {
			l.s.Internals(boundary.Caller{}).Handle(context.Background(), &session.Request{Method: mcp.MethodNotificationsResourcesUpdated, Params: params})
		}
	}
}

// Temporary reports whether a request that failed with err may succeed later.
func Temporary(err error) bool {
	if lost, ok := errors.AsType[*transport.DeliveryError](err); ok {
		return !lost.Refused
	}
	return session.IsTemporary(err)
}

func isTrue(b *bool) bool { return b != nil && *b }
