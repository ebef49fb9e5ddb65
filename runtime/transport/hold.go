package transport

import (
	"context"

	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
)

// Hold pauses the timeouts of a message until release is called: those of the session and those of
// the transports of this module. ctx is the context with which the message was passed to Write, or
// derived from it. Transports call Hold while a user logs in, which may take longer than the
// timeout of a response. Cancellation of the context still ends the message.
func Hold(ctx context.Context) (release func()) { return lazyctx.Hold(ctx) }
