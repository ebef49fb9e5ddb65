package session

import (
	"cmp"
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
)

// need is the capability that a message needs.
type need struct {
	name   string // such as "resources.subscribe"
	sender bool   // it is one of the sender's, not of the receiver's
}

// needs returns what a message of the protocol needs; ok is false if it needs nothing (MCP lifecycle, "Capability
// Negotiation").
func needs(method string) (n need, ok bool) {
	switch method {
	case "completion/complete":
		return need{name: "completions"}, true
	case "logging/setLevel":
		return need{name: "logging"}, true
	case "prompts/get", "prompts/list":
		return need{name: "prompts"}, true
	case "resources/list", "resources/read", "resources/templates/list":
		return need{name: "resources"}, true
	case "resources/subscribe", "resources/unsubscribe":
		return need{name: "resources.subscribe"}, true
	case "tools/call", "tools/list":
		return need{name: "tools"}, true
	case "elicitation/create":
		return need{name: "elicitation"}, true
	case "roots/list":
		return need{name: "roots"}, true
	case "sampling/createMessage":
		return need{name: "sampling"}, true
	case "tasks/get", "tasks/result":
		return need{name: "tasks"}, true
	case "tasks/list":
		return need{name: "tasks.list"}, true
	case "tasks/cancel":
		return need{name: "tasks.cancel"}, true
	case "notifications/message":
		return need{"logging", true}, true
	case "notifications/prompts/list_changed":
		return need{"prompts.listChanged", true}, true
	case "notifications/resources/list_changed":
		return need{"resources.listChanged", true}, true
	case "notifications/resources/updated":
		return need{"resources.subscribe", true}, true
	case "notifications/tools/list_changed":
		return need{"tools.listChanged", true}, true
	case "notifications/roots/list_changed":
		return need{"roots.listChanged", true}, true
	case "notifications/tasks/status":
		return need{"tasks", true}, true
	case "notifications/elicitation/complete":
		return need{name: "elicitation.url"}, true
	}
	return need{}, false
}

// missing reports why this side must not send a message or, if sending is false, need not serve it: as the
// revision does not have it or a capability was not declared. A method that no revision has is a matter between
// the peers. It is called with mu held.
func (s *Session) missing(method string, notification, sending bool) error {
	m, ok := mcp.LookupMethod(method)
	if !ok {
		return nil
	}
	sender := s.role
	if !sending {
		sender = 3 - sender
	}
	if !m.In(s.revision) || m.Notification != notification || m.From&direction(sender) == 0 {
		return &CapabilityError{Method: method, Revision: s.revision}
	}
	n, ok := needs(method)
	if !ok || n.name == "completions" && s.revision == mcp.Revision20241105 { // which has no such capability
		return nil
	}
	owner := 3 - sender
	if n.sender {
		owner = sender
	}
	if s.declared(owner, n.name) {
		return nil
	}
	return &CapabilityError{Method: method, Capability: n.name, Own: owner == s.role, Revision: s.revision}
}

// missingDetail reports why a request must not be sent with its params: as they use a part of a feature that the
// client has not declared or the revision does not have. Raw params are not looked into. It is called with mu
// held.
func (s *Session) missingDetail(method string, params codec.Encoder) error {
	name := ""
	switch p := params.(type) {
	case *mcp.ElicitRequestURLParams:
		name = "elicitation.url"
	case *mcp.ElicitRequestFormParams:
		name = "elicitation.form"
	case *mcp.CreateMessageRequestParams:
		if p.Tools != nil || p.ToolChoice != nil {
			name = "sampling.tools"
		}
	}
	switch {
	case name == "", name == "elicitation.form" && s.revision == mcp.Revision20250618: // the only way it had
		return nil
	case s.revision == mcp.Revision20251125 && s.declared(3-s.role, name):
		return nil
	}
	return &CapabilityError{Method: method, Capability: name, Revision: s.revision}
}

// missingTask reports why the peer must not be asked to run a request as a task (MCP tasks, "Capabilities"). It is
// called with mu held.
func (s *Session) missingTask(method string) error {
	if s.takesTask(3-s.role, method) {
		return nil
	}
	return &CapabilityError{Method: method, Capability: cmp.Or(taskCapability(method), "tasks"), Revision: s.revision}
}

// takesTask reports whether a side has declared that it runs requests of a method as tasks. It is called with mu held.
func (s *Session) takesTask(side Role, method string) bool {
	name := taskCapability(method)
	return name != "" && s.revision == mcp.Revision20251125 && s.declared(side, name)
}

// taskCapability names the capability to run a method as a task, or "".
func taskCapability(method string) string {
	switch method {
	case "tools/call":
		return "tasks.requests.tools.call"
	case "sampling/createMessage":
		return "tasks.requests.sampling.createMessage"
	case "elicitation/create":
		return "tasks.requests.elicitation.create"
	}
	return ""
}

// PeerTakesTask reports whether the peer has declared that it runs requests of a method as tasks.
func (s *Session) PeerTakesTask(method string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takesTask(3-s.role, method)
}

// PeerServes reports whether requests of a method may be sent to the peer: the revision has them, and the
// peer has declared the capability that they need.
func (s *Session) PeerServes(method string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missing(method, false, true) == nil
}

// TakesTask reports whether this side has declared that it runs requests of a method as tasks. If it has not, the
// task member of such requests is to be ignored.
func (s *Session) TakesTask(method string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takesTask(s.role, method)
}

func direction(r Role) mcp.Direction {
	if r == RoleServer {
		return mcp.FromServer
	}
	return mcp.FromClient
}

// declared reports whether a side has declared a capability. It is called with mu held.
func (s *Session) declared(side Role, name string) bool {
	if side == RoleServer {
		return s.server != nil && serverDeclares(&s.server.Capabilities, name)
	}
	return s.client != nil && clientDeclares(&s.client.Capabilities, name)
}

func serverDeclares(c *mcp.ServerCapabilities, name string) bool {
	switch name {
	case "completions":
		return present(c.Completions)
	case "logging":
		return present(c.Logging)
	case "prompts":
		return c.Prompts != nil
	case "prompts.listChanged":
		return c.Prompts != nil && isTrue(c.Prompts.ListChanged)
	case "resources":
		return c.Resources != nil
	case "resources.listChanged":
		return c.Resources != nil && isTrue(c.Resources.ListChanged)
	case "resources.subscribe":
		return c.Resources != nil && isTrue(c.Resources.Subscribe)
	case "tools":
		return c.Tools != nil
	case "tools.listChanged":
		return c.Tools != nil && isTrue(c.Tools.ListChanged)
	case "tasks":
		return c.Tasks != nil
	case "tasks.list":
		return c.Tasks != nil && present(c.Tasks.List)
	case "tasks.cancel":
		return c.Tasks != nil && present(c.Tasks.Cancel)
	case "tasks.requests.tools.call":
		return c.Tasks != nil && c.Tasks.Requests != nil && c.Tasks.Requests.Tools != nil && present(c.Tasks.Requests.Tools.Call)
	}
	return false
}

func clientDeclares(c *mcp.ClientCapabilities, name string) bool {
	switch name {
	case "elicitation":
		return c.Elicitation != nil
	case "elicitation.form": // which an empty object stands for, too
		return c.Elicitation != nil && (present(c.Elicitation.Form) || !present(c.Elicitation.URL))
	case "elicitation.url":
		return c.Elicitation != nil && present(c.Elicitation.URL)
	case "roots":
		return c.Roots != nil
	case "roots.listChanged":
		return c.Roots != nil && isTrue(c.Roots.ListChanged)
	case "sampling":
		return c.Sampling != nil
	case "sampling.tools":
		return c.Sampling != nil && present(c.Sampling.Tools)
	case "tasks":
		return c.Tasks != nil
	case "tasks.list":
		return c.Tasks != nil && present(c.Tasks.List)
	case "tasks.cancel":
		return c.Tasks != nil && present(c.Tasks.Cancel)
	case "tasks.requests.sampling.createMessage":
		return c.Tasks != nil && c.Tasks.Requests != nil && c.Tasks.Requests.Sampling != nil && present(c.Tasks.Requests.Sampling.CreateMessage)
	case "tasks.requests.elicitation.create":
		return c.Tasks != nil && c.Tasks.Requests != nil && c.Tasks.Requests.Elicitation != nil && present(c.Tasks.Requests.Elicitation.Create)
	}
	return false
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

func isTrue(b *bool) bool { return b != nil && *b }
