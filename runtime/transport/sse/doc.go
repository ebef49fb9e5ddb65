// Package sse implements HTTP with SSE, the transport of revision 2024-11-05, for peers without
// Streamable HTTP (MCP 2024-11-05 transports, "HTTP with SSE"). One event stream carries all
// messages from the server. Its first event has the URL to which the client posts its messages.
//
// [Dial] opens the client end, and [Handler] serves the server end. The stream cannot be resumed:
// when it breaks, the server's connection ends, and the client opens a new session if it can; see
// [Dial]. To connect to servers of either HTTP transport, use streamable.Dial, which falls back
// to this package.
package sse
