// Package interop tests this module against other implementations, over standard input and output
// and over HTTP: the official TypeScript SDK, the official Go SDK, and mcp-go. It tests their
// clients with our server and our client with their servers, with plain calls and tasks, in
// revisions with and without sessions; docs/reference/interop.md has the outcome. The clients of
// both official SDKs also use a fleet of processes behind a proxy. The tests with the TypeScript
// SDK need node and npm, without which they are skipped, and the packages that .ci/setup installs.
// Those of authorization use oidc-provider, a certified authorization server. One test shows a page
// of our server in Chromium, in a client made with the npm package of MCP Apps, and one logs in with
// Chromium; they also need Chromium.
package interop
