// Package gosdk adds durable tasks to servers and clients made with the official Go SDK
// (github.com/modelcontextprotocol/go-sdk). Tools keep their handlers: they run as tasks of
// revision 2025-11-25, as tasks of the Tasks extension, and as plain calls.
package gosdk

import "github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"

// The module works with the version of mcpwire that it was released with.
var _ [3]struct{} = [embedding.Seam]struct{}{}
