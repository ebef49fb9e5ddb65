package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Bus passes messages between the servers of several processes, so that changes that one of them
// announces reach the clients of all: changed lists of features, and updated resources. The
// messages are signals; clients fetch the lists and the resources again. A message is not longer
// than a URI and 200 bytes more. The methods of a Bus may be called concurrently.
type Bus interface {
	// Publish sends a message to the subscribers in other processes. It does not wait for them. It
	// may also send it to those of this process.
	Publish(ctx context.Context, message []byte) error

	// Subscribe calls receive with each message until stop is called. It calls receive with nil if
	// messages may have been lost, for instance after the connection was broken. receive returns
	// soon and may be called concurrently.
	Subscribe(receive func(message []byte)) (stop func(), err error)
}

// busMessage is a message on the Bus, as JSON.
type busMessage struct {
	From   string `json:"from"`   // the server that has sent it
	Method string `json:"method"` // of the notification
	URI    string `json:"uri,omitempty"`
}

// joinBus subscribes to the Bus, if there is one. The caller must hold starting.
func (s *Server) joinBus() (err error) {
	if s.cfg.Shared.Bus == nil || s.leaveBus != nil {
		return nil
	}
	defer boundary.Catch(&err)
	stop, err := s.cfg.Shared.Bus.Subscribe(s.receive)
	if err != nil {
		return fmt.Errorf("subscribe to the bus: %w", err)
	}
	s.leaveBus = stop
	return nil
}

// publish sends a change to the other servers.
func (s *Server) publish(method, uri string) {
	// Features that are added before the start are no changes.
	if s.cfg.Shared.Bus == nil || !s.onBus.Load() {
		return
	}
	text, err := json.Marshal(busMessage{From: s.busID, Method: method, URI: uri})
	if err == nil {
		err = boundary.Run(func() error { return s.cfg.Shared.Bus.Publish(context.Background(), text) })
	}
	if err != nil && !boundary.Report(s.cfg.Logger, "Bus panicked", err, "method", method) {
		s.cfg.Logger.Warn("change not published", "method", method, "error", err)
	}
}

// receive handles a message of the Bus.
func (s *Server) receive(message []byte) {
	if message == nil {
		s.deliverAll()
		return
	}
	var m busMessage
	if err := json.Unmarshal(message, &m); err != nil {
		s.cfg.Logger.Warn("message of the bus rejected", "error", err)
		return
	}
	switch {
	case m.From == s.busID:
	case m.Method == mcp.MethodNotificationsResourcesUpdated && m.URI != "", m.URI == "" && s.isList(m.Method):
		s.deliver(m.Method, m.URI)
	default: // of a later version
		s.cfg.Logger.Debug("message of the bus ignored", "method", m.Method)
	}
}

// deliver notifies the sessions and subscriptions of this process.
func (s *Server) deliver(method, uri string) {
	for _, p := range s.allPeers() {
		p.notify(notice{method: method, uri: uri})
	}
	s.listeners.notify(method, uri)
}

// deliverAll notifies the sessions and subscriptions of this process of everything that may have
// changed.
func (s *Server) deliverAll() {
	for _, list := range lists {
		s.deliver(list.changed, "")
	}
	for _, e := range s.offered() {
		for _, changed := range e.Lists {
			s.deliver(changed, "")
		}
	}
	const updated = mcp.MethodNotificationsResourcesUpdated
	for _, p := range s.allPeers() {
		p.mu.Lock()
		uris := slices.Sorted(maps.Keys(p.subscriptions))
		p.mu.Unlock()
		for _, uri := range uris {
			p.notify(notice{method: updated, uri: uri})
		}
	}
	s.listeners.mu.Lock()
	defer s.listeners.mu.Unlock()
	for l := range s.listeners.open {
		for _, uri := range l.uris {
			l.changes.Add(notice{method: updated, uri: uri})
		}
	}
}
