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
// Tasks are an experimental part of revision 2025-11-25. [requestor.Handle.Result] says what a handle
// does when the connection breaks or the server is silent.
//
// # Results in parts
//
// CallTool fetches all parts of a result whose tool announces them in tools/list, once the list is known; see
// package [partial]. To go on part by part, or with a tool that announces nothing, use [partial.Start] with
// [Client.Session].
//
// # Input requests of the server
//
// A server may send the input requests that [Options] has a handler for: to fill in a form, to open
// a URL, or to sample a message from a model. The client declares the matching capabilities. It
// refuses requests that were not declared or that the protocol does not allow, fills in the
// defaults of forms, checks answers, and limits the rate. It ends loops of a model and its tools
// after [DefaultMaxToolRounds] rounds.
//
// URLs must pass [CheckURL]: https, or http on this machine, without user information. The server
// sees the roots that [Options].CheckRoot admits each time; by default, those that exist and can be
// opened. [Icons] come from the server's own origin, or from public addresses of trusted hosts;
// [PickIcon] finds the one to fetch.
//
// # What a host owes its users
//
// Some duties are left to the host. Show which server sent an input request, and let the user
// decline it. Show a URL in full, with its host, and warn if it is [URLRequest].International. Open
// or fetch nothing before the user has agreed, and open the URL where neither the host nor a model
// can see the page. Let the user continue by hand if a server never reports that the elicitation is
// complete. Ask for confirmation of sensitive tool calls. Trust the descriptions of tools,
// annotations included, no more than the server that sent them.
package client
