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
// Tasks are an experimental part of revision 2025-11-25. docs/tasks.md has a table of what a handle does when
// the line breaks or the server is silent.
//
// # Results in parts
//
// CallTool fetches all parts of a result whose tool announces them in tools/list, once the list is known; see
// package resume. To go on part by part, or with a tool that announces nothing, use [resume.Start] with
// [Client.Session].
//
// # Input requests of the server
//
// A server may ask for what [Options] has a handler for: a form to be filled in, a URL to be opened, a message
// of a model. The client declares the capabilities that belong to it, refuses what was not declared and what
// the protocol does not allow, fills in the defaults of forms, checks answers, limits the rate, and ends loops
// of a model and its tools after [DefaultMaxToolRounds] rounds.
//
// URLs must pass [CheckURL]: https, or http on this machine, without user information. Roots are shown to the
// server as far as [Options].CheckRoot admits them, which is asked each time; by default those that are there
// and can be opened. [Icons] come from the server's own origin, or from public addresses of trusted hosts;
// [PickIcon] finds the one to fetch.
//
// # What a host owes its users
//
// Some duties a library cannot see to. Show which server asks, and let its requests be declined. Show a URL in
// full, with its host, and warn of one that is [URLRequest].International; open or fetch nothing before the user
// has agreed, and open it where neither the host nor a model can look in. Let the user go on by hand if a server
// never says that it has what it wanted. Have sensitive tool calls confirmed. What a server says of its tools,
// annotations included, is no more to be believed than the server itself.
package client
