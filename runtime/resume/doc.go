// Package resume goes on with requests whose results come in parts: as long as a result has a
// nextResumeToken, the same request with that token as its resumeToken brings the next part.
//
// This is a proposal, and in no revision of the protocol. It works with any method whose server knows
// it, over any transport. Nothing changes on the wire for those who do not use it.
package resume
