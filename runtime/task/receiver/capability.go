package receiver

import (
	"encoding/json"

	"github.com/mcpwire/mcpwire/mcp"
)

// The capabilities are objects, present or absent; what is in them is nothing yet.
func declared(yes bool) json.RawMessage {
	if !yes {
		return nil
	}
	return json.RawMessage(`{}`)
}

// ServerCapabilities is what a server declares whose tools can be called as tasks. Tasks can be
// cancelled; they can be listed if list is set, which it should only be where requestors are told
// apart (MCP tasks, "Server Capabilities" and "Task Isolation and Access Control").
func ServerCapabilities(list bool) *mcp.ServerCapabilitiesTasks {
	return &mcp.ServerCapabilitiesTasks{
		List:     declared(list),
		Cancel:   declared(true),
		Requests: &mcp.ServerCapabilitiesTasksRequests{Tools: &mcp.ServerCapabilitiesTasksRequestsTools{Call: declared(true)}},
	}
}

// ClientCapabilities is what a client declares that runs sampling, elicitation or both as tasks
// (MCP tasks, "Client Capabilities"). See [ServerCapabilities] for list.
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
