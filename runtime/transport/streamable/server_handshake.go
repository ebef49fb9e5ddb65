package streamable

import (
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
)

// handshake is what the transport knows about the handshake of a session. Its revision is empty
// until initialize is answered with a result, and does not change afterwards.
type handshake struct {
	mu       sync.Mutex
	revision mcp.Revision
	client   []byte // the params of initialize, if restored
	restored bool   // the session was opened over another connection
}

// restore records the handshake of a session that was opened before.
func (h *handshake) restore(revision mcp.Revision, client []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.revision, h.client, h.restored = revision, client, true
}

// get returns the values of restore. ok is false if it was not called.
func (h *handshake) get() (revision mcp.Revision, client []byte, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision, h.client, h.restored
}

// complete records the answer to initialize and returns the negotiated revision. ok is false if the
// answer is not a result.
func (h *handshake) complete(answer []byte) (revision mcp.Revision, ok bool) {
	m, err := jsonrpc.ParseReceived(answer)
	if err != nil || m.Kind != jsonrpc.KindResponse {
		return "", false
	}
	var result mcp.InitializeResult
	if err := codec.Unmarshal(m.Result, &result); err != nil {
		return "", false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.revision = mcp.Revision(result.ProtocolVersion)
	return h.revision, true
}

// negotiated returns the revision, or "" before initialize is answered.
func (h *handshake) negotiated() mcp.Revision {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revision
}

// isOpen reports whether initialize was answered.
func (h *handshake) isOpen() bool { return h.negotiated() != "" }
