package session

import (
	"cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
)

// missing returns an error if this side must not send a message or, if sending is false, need not
// serve it: the revision does not have the method, or a capability was not declared. Methods that
// no revision has are always allowed.
func (a *agreement) missing(method string, notification, sending bool) error {
	m, ok := mcp.LookupMethod(method)
	if !ok {
		return nil
	}
	sender := a.role
	if !sending {
		sender = 3 - sender // the other role
	}
	if !defines(a.revision, &m, notification, direction(sender)) {
		return &CapabilityError{Method: method, Revision: a.revision}
	}
	owner := 3 - sender
	if m.SenderDeclares {
		owner = sender
	}
	name := m.Needs(a.revision)
	if name == "" || a.declared(owner, name) {
		return nil
	}
	return &CapabilityError{Method: method, Capability: name, Own: owner == a.role, Revision: a.revision}
}

// defines reports whether a revision has a method as a notification or a request of a side.
func defines(rev mcp.Revision, m *mcp.Method, notification bool, from mcp.Direction) bool {
	return m.In(rev) && m.Notification == notification && m.From&from != 0
}

// missingDetail returns an error if a request must not be sent with its params: they use a part of
// a feature that the client has not declared or the revision does not have. It does not inspect Raw
// params.
func (a *agreement) missingDetail(method string, params codec.Encoder) error {
	name, ok := mcp.ParamsNeed(a.revision, params)
	if ok && (name == "" || a.declared(3-a.role, name)) {
		return nil
	}
	return &CapabilityError{Method: method, Capability: name, Revision: a.revision}
}

// missingTask returns an error if the peer must not be asked to run a request as a task (MCP tasks,
// "Capabilities").
func (a *agreement) missingTask(method string) error {
	if a.takesTask(3-a.role, method) {
		return nil
	}
	m, _ := mcp.LookupMethod(method)
	return &CapabilityError{Method: method, Capability: cmp.Or(m.TaskCapability, "tasks"), Revision: a.revision}
}

// takesTask reports whether a side has declared that it runs requests of a method as tasks.
func (a *agreement) takesTask(side role, method string) bool {
	m, _ := mcp.LookupMethod(method)
	name := m.NeedsAsTask(a.revision)
	return name != "" && a.declared(side, name)
}

// PeerTakesTask reports whether the peer has declared that it runs requests of a method as tasks.
func (s sessionInternals) PeerTakesTask(method string) bool {
	a := s.handshake.current.Load()
	return a.takesTask(3-a.role, method)
}

// PeerServes reports whether requests of a method may be sent to the peer: the revision has them,
// and the peer has declared the capability that they need.
func (s *Session) PeerServes(method string) bool {
	return s.handshake.current.Load().missing(method, false, true) == nil
}

// TakesTask reports whether this side has declared that it runs requests of a method as tasks. If
// it returns false, a receiver ignores the task member of such requests.
func (s sessionInternals) TakesTask(method string) bool {
	a := s.handshake.current.Load()
	return a.takesTask(a.role, method)
}

func direction(r role) mcp.Direction {
	if r == roleServer {
		return mcp.FromServer
	}
	return mcp.FromClient
}

// declared reports whether a side has declared a capability.
func (a *agreement) declared(side role, name string) bool {
	if side == roleServer {
		return a.server != nil && a.server.Capabilities.Declares(name)
	}
	return a.client != nil && a.client.Capabilities.Declares(name)
}
