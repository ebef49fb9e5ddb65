// Package sse is the transport of revision 2024-11-05, HTTP with SSE, for peers that do not speak Streamable HTTP yet
// (MCP 2024-11-05 transports, "HTTP with SSE"): one stream of events brings everything from the server, and names
// the URL that everything to the server is posted to.
//
// [Dial] is the client's end, [Handler] the server's. The transport has no sessions beyond the stream and cannot
// resume it: when the stream breaks, the server's end of the connection is over, and the client opens a new session, as
// far as it can; see [Client]. Programs that want to reach servers of either kind use streamable.Dial, which falls back
// to this package.
package sse
