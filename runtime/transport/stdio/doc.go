// Package stdio implements the stdio transport: a server runs as a child process of its client, and
// each message is one line on standard input or output (MCP transports, "stdio").
//
// [Server] opens the server end. [Start] starts the process and opens the client end. [New] opens
// either end over other streams, such as a socket.
//
// Lines that are too long are skipped and reported as a [transport.MessageError] or, if the line is
// the answer to a request, as a [transport.DeliveryError], so that the request fails at once. For
// that, the id must be in the first or the last 4 KiB of the line. The session handles other
// invalid lines. Empty lines are ignored. Written messages never have line breaks. Messages that
// are written during a system call are sent together in the next one.
//
// After a failed write, Read returns what the peer has written so far, and fails within a second: a
// peer that has closed its input but lives on answers no request.
package stdio
