package receiver

import (
	"encoding/json"

	"github.com/mcpwire/mcpwire/mcp"
)

// declared returns {}, which declares a capability, if yes is true, and otherwise nil.
func declared(yes bool) json.RawMessage {
	if !yes {
		return nil
	}
	return json.RawMessage(`{}`)
}

// ServerCapabilities returns the capability of a server whose tools can be called as tasks. Tasks
// can be cancelled, and listed if list is true. Set list only if requestors have different
// principals (MCP tasks, "Server Capabilities" and "Task Isolation and Access Control").
func ServerCapabilities(list bool) *mcp.ServerCapabilitiesTasks {
	return &mcp.ServerCapabilitiesTasks{
		List:     declared(list),
		Cancel:   declared(true),
		Requests: &mcp.ServerCapabilitiesTasksRequests{Tools: &mcp.ServerCapabilitiesTasksRequestsTools{Call: declared(true)}},
	}
}

// ClientCapabilities returns the capability of a client that can run sampling, elicitation or both
// as tasks (MCP tasks, "Client Capabilities"). For list see [ServerCapabilities].
func ClientCapabilities(list, sampling, elicitation bool) *mcp.ClientCapabilitiesTasks {
	c := &mcp.ClientCapabilitiesTasks{List: declared(list), Cancel: declared(true), Requests: new(mcp.ClientCapabilitiesTasksRequests)}
	if sampling {
		c.Requests.Sampling = &mcp.ClientCapabilitiesTasksRequestsSampling{CreateMessage: declared(true)}
	}
	if elicitation {
		c.Requests.Elicitation = &mcp.ClientCapabilitiesTasksRequestsElicitation{Create: declared(true)}
	}
	return c
}
