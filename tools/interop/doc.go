// Package interop tests this module against other implementations, over standard input and output
// and over HTTP: the official TypeScript SDK, the official Go SDK, and mcp-go. It tests their
// clients with our server and our client with their servers, with plain calls and tasks. The client
// of version 2 of the TypeScript SDK is tested in revision 2026-07-28. The tests with the TypeScript
// SDK need node and npm, which installs the SDK on the first run; without them they are skipped. One
// test shows a page of our server in Chromium, in a client made with the npm package of MCP Apps; it
// also needs Chromium.
package interop
