package server

import (
	"context"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// newResponder returns the Responder of modern requests.
func (s *Server) newResponder() *session.Responder {
	cfg := s.cfg.Session
	cfg.Handler = s.modern.methods(s.modern.handler())
	cfg.Receiving = append(append([]session.Middleware(nil), cfg.Receiving...), s.modern.receive)
	return session.NewResponder(&cfg)
}

// Discover implements server/discover.
func (h *handler) Discover(ctx context.Context, params *mcp.RequestParams) (*mcp.DiscoverResult, error) {
	initialize, err := h.p.s.initializeResult()
	if err != nil {
		return nil, err
	}
	result := &mcp.DiscoverResult{
		Capabilities: initialize.Capabilities, Instructions: initialize.Instructions,
		CacheScope: mcp.CacheScopePrivate, ResultType: resultComplete,
	}
	result.Capabilities.Tasks = nil
	for _, rev := range h.p.s.responder.Revisions() {
		result.SupportedVersions = append(result.SupportedVersions, string(rev))
	}
	return result, nil
}

const resultComplete = "complete"

// complete adds the members to a result that all results of modern revisions have.
func (s *Server) complete(result codec.Encoder) codec.Encoder {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		out := *r
		out.ResultType = new(resultComplete)
		return &out
	}
	return result
}
