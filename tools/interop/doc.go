// Package interop tests this module against other implementations, over standard input and output and over HTTP: the
// official TypeScript SDK, the official Go SDK, and mcp-go; their clients with our server, and our client with their
// servers, plain calls and tasks. For the TypeScript SDK it needs node and npm, which installs the SDK on the first
// run; without them those tests are skipped.
package interop
