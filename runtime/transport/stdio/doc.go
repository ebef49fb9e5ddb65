// Package stdio is the transport over standard input and output: a server that runs as a child process of its
// client, and messages that are one line each (MCP transports, "stdio").
//
// [Server] is the server's end, [Start] the client's, which launches the process. [New] is either end over a pair
// of streams of one's own, such as a socket.
//
// A line that is no message does no harm: one that is too long is skipped and reported as a
// [transport.MessageError], or as a [transport.DeliveryError] if it was the answer to a request, which then fails at
// once; the id must stand in the first or the last 4 KiB of it. Anything else is for the session to judge. Empty lines are passed over. What is
// written never has a line break inside, whatever the text of the message has. Messages that are written while
// others are on their way go out together, in one system call.
package stdio
