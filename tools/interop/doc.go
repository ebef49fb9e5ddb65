// Package interop tests this module against the official TypeScript SDK, over standard input and output: its client
// with our server, and our client with its server, plain calls and tasks. It needs node and npm, which installs the SDK on the first run;
// without them the tests are skipped.
package interop
