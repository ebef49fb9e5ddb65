package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// listenSession is the session in which the SDK serves a subscriptions/listen that also names
// tasks. It adds the tasks to the acknowledgment. Everything else passes to the session of the
// client.
type listenSession struct {
	server.ClientSession
	queue chan mcp.JSONRPCNotification
	acked chan struct{} // closed when the acknowledgment has been sent
	ack   func()        // closes acked
}

func newListenSession(s server.ClientSession) *listenSession {
	l := &listenSession{ClientSession: s, queue: make(chan mcp.JSONRPCNotification, 1), acked: make(chan struct{})}
	l.ack = sync.OnceFunc(func() { close(l.acked) })
	return l
}

// notify sends the acknowledgment, or a notification about a task, which waits for the
// acknowledgment.
func (l *listenSession) notify(ctx context.Context, method string, params json.RawMessage) error {
	n, err := notification(method, session.Raw(params))
	if err != nil {
		return err
	}
	if method == wire.MethodNotificationsSubscriptionsAcknowledged {
		defer l.ack()
		return send(ctx, l.ClientSession, n)
	}
	select {
	case <-l.acked:
		return send(ctx, l.ClientSession, n)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// listen lets the SDK serve a subscriptions/listen without its tasks. It returns when the request
// ends.
func (t *Tasks) listen(ctx context.Context, l *listenSession, message json.RawMessage, ids []string) (json.RawMessage, error) {
	params, _ := codec.Member(message, "params")
	filter, _ := codec.Member(params, "notifications")
	message = jsonedit.With(message, "params", jsonedit.With(params, "notifications", jsonedit.With(filter, "taskIds", nil)))
	done, forwarded := make(chan struct{}), make(chan struct{})
	go func() { // ends when the SDK has responded
		defer close(forwarded)
		for {
			select {
			case n := <-l.queue:
				l.forward(ctx, n, ids)
			case <-done:
				return
			}
		}
	}()
	response := t.server.HandleMessage(t.server.WithContext(ctx, l), message)
	close(done)
	<-forwarded
	switch r := response.(type) {
	case mcp.JSONRPCError:
		return nil, wireError(r)
	case mcp.JSONRPCResponse:
		// The SDK responds at once if the client has subscribed to nothing else.
		<-ctx.Done()
		return json.Marshal(r.Result)
	default:
		return nil, fmt.Errorf("mcpgo: unexpected response of type %T", response)
	}
}

// forward sends a notification of the SDK to the client.
func (l *listenSession) forward(ctx context.Context, n mcp.JSONRPCNotification, ids []string) {
	if n.Method != wire.MethodNotificationsSubscriptionsAcknowledged {
		send(ctx, l.ClientSession, n)
		return
	}
	if text, err := json.Marshal(n.Params.AdditionalFields["notifications"]); err == nil {
		if filter, err := members(text); err == nil {
			filter["taskIds"] = ids
			n.Params.AdditionalFields = map[string]any{"notifications": filter}
		}
	}
	send(ctx, l.ClientSession, n)
	l.ack()
}

// NotificationChannel implements [server.ClientSession].
func (l *listenSession) NotificationChannel() chan<- mcp.JSONRPCNotification { return l.queue }

// SetSubscriptionFilter implements [server.SessionWithSubscriptionFilter].
func (l *listenSession) SetSubscriptionFilter(filter mcp.SubscriptionFilter) {
	if s, ok := l.ClientSession.(server.SessionWithSubscriptionFilter); ok {
		s.SetSubscriptionFilter(filter)
	}
}

// SubscriptionFilter implements [server.SessionWithSubscriptionFilter].
func (l *listenSession) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	if s, ok := l.ClientSession.(server.SessionWithSubscriptionFilter); ok {
		return s.SubscriptionFilter()
	}
	return mcp.SubscriptionFilter{}, false
}

// SubscribeToResource implements [server.SessionWithResourceSubscriptions].
func (l *listenSession) SubscribeToResource(uri string) { l.SubscribeToResourceErr(uri) }

// SubscribeToResourceErr implements [server.SessionWithResourceSubscriptionsErr].
func (l *listenSession) SubscribeToResourceErr(uri string) error {
	switch s := l.ClientSession.(type) {
	case server.SessionWithResourceSubscriptionsErr:
		return s.SubscribeToResourceErr(uri)
	case server.SessionWithResourceSubscriptions:
		s.SubscribeToResource(uri)
	}
	return nil
}

// UnsubscribeFromResource implements [server.SessionWithResourceSubscriptions].
func (l *listenSession) UnsubscribeFromResource(uri string) {
	if s, ok := l.ClientSession.(server.SessionWithResourceSubscriptions); ok {
		s.UnsubscribeFromResource(uri)
	}
}

// SubscribedResources implements [server.SessionWithResourceSubscriptions].
func (l *listenSession) SubscribedResources() []string {
	if s, ok := l.ClientSession.(server.SessionWithResourceSubscriptions); ok {
		return s.SubscribedResources()
	}
	return nil
}

// IsSubscribedToResource implements [server.SessionWithResourceSubscriptions].
func (l *listenSession) IsSubscribedToResource(uri string) bool {
	if s, ok := l.ClientSession.(server.SessionWithResourceSubscriptions); ok {
		return s.IsSubscribedToResource(uri)
	}
	return false
}

var (
	_ server.SessionWithSubscriptionFilter       = (*listenSession)(nil)
	_ server.SessionWithResourceSubscriptionsErr = (*listenSession)(nil)
)
