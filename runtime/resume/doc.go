// Package resume is for requests whose results come in parts: as long as a result has a
// nextResumeToken, the same request with that token as its resumeToken brings the next part.
//
// This is a proposal, and in no revision of the protocol. It works with any method, over any transport,
// and nothing changes on the wire for those who do not use it.
//
//   - A client goes on with an [Operation], until no token comes.
//   - A server has the middleware of [Receive] in its sessions. A handler, such as that of a tool, asks
//     [PartFrom] which part it is to give, and says with [Part.More] that another one follows. The server
//     keeps nothing for an operation that nobody goes on with: all is in the token.
package resume
