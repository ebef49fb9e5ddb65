package server

import (
	"context"
	"errors"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// notice is a notification of a changed list or an updated resource, or a log message outside of
// calls.
type notice struct {
	method string
	uri    string // of the updated resource, or a name of part; "" for a list
	log    *mcp.LoggingMessageNotificationParams
	part   *part // of a subscription; nil unless an extension reports the change
}

// mergeNotices is the number of pending notices at which a session begins to merge equal ones.
const mergeNotices = 64

// announce notifies every session and subscription that a list has changed, after
// [Features.Debounce]. Tasks that wait for a tool look for it at once.
func (s *Server) announce(method string) {
	if m := s.Tasks(); m != nil && method == mcp.MethodNotificationsToolsListChanged {
		m.ToolsChanged()
	}
	if s.cfg.Features.Debounce == 0 {
		s.broadcast(method)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.timers[method] != nil {
		return
	}
	s.timers[method] = time.AfterFunc(s.cfg.Features.Debounce, func() {
		s.mu.Lock()
		delete(s.timers, method)
		s.mu.Unlock()
		s.broadcast(method)
	})
}

// broadcast notifies the clients of all processes that a list has changed.
func (s *Server) broadcast(method string) {
	s.deliver(method, "")
	s.publish(method, "")
}

// ListChanged notifies every session, and every modern client that listens to it, that a list has
// changed. Notification is the method of its notification, such as
// [mcp.MethodNotificationsToolsListChanged] or one of [Extension].Lists; others are ignored. Call it if
// the result of a function of [VisibleTo], of [Features.Visible] or of a [ListFunc] changes, or if
// middleware changes the lists that sessions see; the server itself reports changes of its features.
func (s *Server) ListChanged(notification string) {
	if s.isList(notification) {
		s.announce(notification)
	}
}

// ResourceUpdated notifies the sessions and modern clients that subscribe to a resource that its
// contents have changed (MCP resources, "Subscriptions"). It queues the notifications and returns
// at once. With a [Shared.Bus], they also reach the clients of other processes.
func (s *Server) ResourceUpdated(uri string) {
	s.deliver(mcp.MethodNotificationsResourcesUpdated, uri)
	s.publish(mcp.MethodNotificationsResourcesUpdated, uri)
}

// notify queues a notice, which is sent once the session is open.
func (p *peer) notify(n notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || n.uri != "" && !p.isSubscribed(n.uri) || p.lacksList(n.method) || p.canMerge(n) {
		return
	}
	p.notices = append(p.notices, n)
	p.sendPending()
}

// Limits of the pending log messages of a session. Further ones are dropped.
const (
	maxPendingLogs     = 1000
	maxPendingLogBytes = 1 << 20 // of their data; a single message may be longer
)

// queueLog queues a log message, unless it is less severe than the level of the session or exceeds
// a limit. It does not wait for the client.
func (p *peer) queueLog(severity int, message *mcp.LoggingMessageNotificationParams) {
	if !p.logs(severity) || !allow(p.s.limits.of(p.key).logs) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.pendingLogs >= maxPendingLogs || p.pendingLogs > 0 && p.pendingLogBytes+len(message.Data) > maxPendingLogBytes {
		return
	}
	p.pendingLogs++
	p.pendingLogBytes += len(message.Data)
	p.notices = append(p.notices, notice{method: mcp.MethodNotificationsMessage, log: message})
	p.sendPending()
}

// startNotices starts sending the notices that were queued while the session was being opened.
func (p *peer) startNotices() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sendPending()
}

// sendPending starts a goroutine that sends the pending notices, unless one is running or there is
// no session yet. The caller must hold mu.
func (p *peer) sendPending() {
	if p.sendingNotices || len(p.notices) == 0 || p.session.Load() == nil {
		return
	}
	p.sendingNotices = true
	p.s.running.Add(1)
	go p.sendNotices() // ends when no notice is pending; the end of the session drops all of them
}

// canMerge reports whether n can be merged with an equal pending notice. The caller must hold mu.
func (p *peer) canMerge(n notice) bool {
	if len(p.notices) < mergeNotices {
		return false
	}
	for _, other := range p.notices {
		if other == n {
			return true
		}
	}
	return false
}

func (p *peer) sendNotices() {
	defer p.s.running.Done()
	// A client may fetch a list before the handshake is complete. Notices of changes during the
	// handshake are therefore not dropped, but sent after it. Ready also returns when the session
	// ends.
	p.session.Load().Ready(context.Background())
	for {
		p.mu.Lock()
		if len(p.notices) == 0 {
			p.sendingNotices = false
			p.mu.Unlock()
			return
		}
		n := p.notices[0]
		p.notices = p.notices[1:]
		dropped := n.uri != "" && !p.isSubscribed(n.uri)
		if n.log != nil {
			p.pendingLogs--
			p.pendingLogBytes -= len(n.log.Data)
		}
		p.mu.Unlock()
		if dropped {
			continue
		}
		err := boundary.Run(func() error { return p.send(n) })
		if err != nil && !boundary.Report(p.s.cfg.Logger, "notification panicked", err, "method", n.method) {
			p.s.cfg.Logger.Debug("notification not sent", "method", n.method, "error", err)
		}
	}
}

// send sends a notice to the client. It does nothing if the server has not declared its capability,
// and if the extension of a list does not exist for the client.
func (p *peer) send(n notice) error {
	if e := p.s.offers(n.method); e != nil && !e.existsIn(p.session.Load()) {
		return nil
	}
	var params codec.Encoder
	if n.uri != "" {
		params = &mcp.ResourceUpdatedNotificationParams{URI: n.uri}
	}
	if n.log != nil {
		params = n.log
	}
	err := p.session.Load().Notify(context.Background(), n.method, params)
	if _, undeclared := errors.AsType[*session.CapabilityError](err); undeclared {
		return nil
	}
	return err
}
