// Package client is what a host needs to talk to an MCP server: tools, resources, prompts and
// completion with typed calls, lists as iterators, and answers to what the server asks.
//
//	c, err := client.Command(ctx, stdio.Command{Path: "weather-server"}, nil)
//	…
//	defer c.Close()
//	result, err := c.CallTool(ctx, "forecast", map[string]any{"city": "Oslo"})
//
// # Tasks
//
// [Client.CallTool] waits for the result, and keeps to what a tool says of itself: one that can only
// be called as a task is. [Client.StartTool] starts a task and returns its handle, and
// [Client.ResumeTool] gets the handle of a task from its id, after a reconnect or in another process.
// Tasks are an experimental part of revision 2025-11-25.
//
// # Questions of the server
//
// What a server may ask is what [Options] has a handler for: a form to be filled in, a URL to be
// opened, a message of a model. The client declares the capabilities that belong to it, refuses what
// was not declared and what the protocol does not allow, fills in the defaults of forms, checks
// answers, and keeps to a rate.
//
// # What a host owes its users
//
// Some duties no library can see to. Show which server asks, and let its questions be declined. Show
// a URL in full, with its host, before it is opened, and open or fetch nothing before the user has
// agreed. Have sensitive tool calls confirmed. What a server says of its tools, annotations
// included, is no more to be believed than the server itself.
package client
