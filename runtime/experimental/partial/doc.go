// Package partial implements results that arrive in several parts: if a result has a member
// nextResumeToken, the same request with that token as its resumeToken returns the next part.
//
// The package is experimental. Partial results are a proposal and part of no revision of the
// protocol; the package may change or go away without notice. It works with every method and over
// every transport, and does not change the messages of peers that do not use it.
//
//   - A client requests the parts of an [Operation] one after another, until a result has no token.
//   - A server has the middleware of [Receive] in its sessions. A handler gets the requested part
//     from [PartFrom], and calls [Part.More] if another part follows. The token holds the whole
//     state, so that the server stores nothing for an operation that its client abandons.
package partial
