package session

import (
	"cmp"
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
)

// need is the capability that a message requires.
type need struct {
	name   string // such as "resources.subscribe"
	sender bool   // the sender declares it, not the receiver
}

// needs returns the capability that a message of the protocol requires. ok is false if it requires
// none (MCP lifecycle, "Capability Negotiation").
func needs(method string) (n need, ok bool) {
	switch method {
	case mcp.MethodCompletionComplete:
		return need{name: "completions"}, true
	case mcp.MethodLoggingSetLevel:
		return need{name: "logging"}, true
	case mcp.MethodPromptsGet, mcp.MethodPromptsList:
		return need{name: "prompts"}, true
	case mcp.MethodResourcesList, mcp.MethodResourcesRead, mcp.MethodResourcesTemplatesList:
		return need{name: "resources"}, true
	case mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return need{name: "resources.subscribe"}, true
	case mcp.MethodToolsCall, mcp.MethodToolsList:
		return need{name: "tools"}, true
	case mcp.MethodElicitationCreate:
		return need{name: "elicitation"}, true
	case mcp.MethodRootsList:
		return need{name: "roots"}, true
	case mcp.MethodSamplingCreateMessage:
		return need{name: "sampling"}, true
	case mcp.MethodTasksGet, mcp.MethodTasksResult:
		return need{name: "tasks"}, true
	case mcp.MethodTasksList:
		return need{name: "tasks.list"}, true
	case mcp.MethodTasksCancel:
		return need{name: "tasks.cancel"}, true
	case mcp.MethodNotificationsMessage:
		return need{"logging", true}, true
	case mcp.MethodNotificationsPromptsListChanged:
		return need{"prompts.listChanged", true}, true
	case mcp.MethodNotificationsResourcesListChanged:
		return need{"resources.listChanged", true}, true
	case mcp.MethodNotificationsResourcesUpdated:
		return need{"resources.subscribe", true}, true
	case mcp.MethodNotificationsToolsListChanged:
		return need{"tools.listChanged", true}, true
	case mcp.MethodNotificationsRootsListChanged:
		return need{"roots.listChanged", true}, true
	case mcp.MethodNotificationsTasksStatus:
		return need{"tasks", true}, true
	case mcp.MethodNotificationsElicitationComplete:
		return need{name: "elicitation.url"}, true
	}
	return need{}, false
}

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
		sender = 3 - sender
	}
	if !m.In(a.revision) || m.Notification != notification || m.From&direction(sender) == 0 {
		return &CapabilityError{Method: method, Revision: a.revision}
	}
	n, ok := needs(method)
	if !ok || n.name == "completions" && a.revision == mcp.Revision20241105 { // the revision has no such capability
		return nil
	}
	owner := 3 - sender
	if n.sender {
		owner = sender
	}
	if a.declared(owner, n.name) {
		return nil
	}
	return &CapabilityError{Method: method, Capability: n.name, Own: owner == a.role, Revision: a.revision}
}

// missingDetail returns an error if a request must not be sent with its params: they use a part of
// a feature that the client has not declared or the revision does not have. It does not inspect Raw
// params.
func (a *agreement) missingDetail(method string, params codec.Encoder) error {
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
	case name == "", name == "elicitation.form" && a.revision == mcp.Revision20250618: // the revision has forms alone
		return nil
	case a.revision == mcp.Revision20251125 && a.declared(3-a.role, name):
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
	return &CapabilityError{Method: method, Capability: cmp.Or(taskCapability(method), "tasks"), Revision: a.revision}
}

// takesTask reports whether a side has declared that it runs requests of a method as tasks.
func (a *agreement) takesTask(side Role, method string) bool {
	name := taskCapability(method)
	return name != "" && a.revision == mcp.Revision20251125 && a.declared(side, name)
}

// taskCapability names the capability to run a method as a task, or "".
func taskCapability(method string) string {
	switch method {
	case mcp.MethodToolsCall:
		return "tasks.requests.tools.call"
	case mcp.MethodSamplingCreateMessage:
		return "tasks.requests.sampling.createMessage"
	case mcp.MethodElicitationCreate:
		return "tasks.requests.elicitation.create"
	}
	return ""
}

// PeerTakesTask reports whether the peer has declared that it runs requests of a method as tasks.
func (s *Session) PeerTakesTask(method string) bool {
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
func (s *Session) TakesTask(method string) bool {
	a := s.handshake.current.Load()
	return a.takesTask(a.role, method)
}

func direction(r Role) mcp.Direction {
	if r == RoleServer {
		return mcp.FromServer
	}
	return mcp.FromClient
}

// declared reports whether a side has declared a capability.
func (a *agreement) declared(side Role, name string) bool {
	if side == RoleServer {
		return a.server != nil && serverDeclares(&a.server.Capabilities, name)
	}
	return a.client != nil && clientDeclares(&a.client.Capabilities, name)
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
	case "elicitation.form": // an empty object means forms
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
