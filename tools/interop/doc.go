// Package interop tests this module against other SDKs: the official TypeScript SDK, whose client meets our server and
// whose server meets our client, plain calls and tasks, over standard input and output and over HTTP; and the servers
// of the official Go SDK and of mcp-go, which meet our client over HTTP.
//
// The TypeScript SDK needs node and npm, which installs it on the first run; without them its tests are skipped.
package interop
