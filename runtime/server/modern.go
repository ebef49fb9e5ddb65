package server

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/server/internal/results"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// newResponder sets the Responder of modern requests.
func (s *Server) newResponder() {
	s.modern = &peer{s: s} // requests of all principals share it, so it must have no state
	s.modern.handler.p = s.modern
	s.completer.SharesExtension = s.sharesExtension
	s.limits = newPrincipalLimits(&s.cfg)
	info := mcp.Implementation{Name: s.cfg.Info.Name, Title: s.cfg.Info.Title, Version: s.cfg.Info.Version}
	if text, err := codec.Marshal(&info); err == nil && !s.cfg.Features.OmitServerInfo {
		s.completer.ServerInfo = text
	}
	cfg := s.cfg.Session
	in := cfg.Internals(boundary.Caller{})
	in.State, cfg.Handler, cfg.Hooks.Receiving = s.modern, s.handle, nil
	in.ExtensionMethods = s.extends
	s.responder = in.NewResponder()
}

// servesModern reports whether the server serves revisions without sessions.
func (s *Server) servesModern() bool {
	named := s.cfg.Session.Revisions
	return named == nil || slices.ContainsFunc(named, func(rev mcp.Revision) bool { return rev.Traits().Sessionless })
}

// discovery is a result of server/discover. It is immutable.
type discovery struct {
	features   uint64       // Server.features at the time
	extensions []*extension // those that the server declares, in any revision; sorted by ID
	result     *mcp.DiscoverResult
	text       results.Text
}

// discovery returns the current result of server/discover. It builds a new one only after a change
// of features or extensions.
func (s *Server) discovery() (*discovery, error) {
	features := s.features.Load()
	if d := s.discovered.Load(); d != nil && d.features == features {
		return d, nil
	}
	initialize, err := s.initializeResult()
	if err != nil {
		return nil, err
	}
	rev := s.responder.Revisions()[0]
	result := &mcp.DiscoverResult{Capabilities: initialize.Capabilities, Instructions: initialize.Instructions, ResultType: modern.ResultComplete}
	s.declare(&result.Capabilities, func(e *extension) bool { return e.in(rev) && !e.in(latest()) })
	result.Capabilities.Tasks = nil // a capability of sessions
	if !s.cfg.Features.OmitServerInfo {
		result.Meta = &mcp.ResultMetaObject{ServerInfo: &s.cfg.Info}
	}
	for _, rev := range s.responder.Supported() {
		result.SupportedVersions = append(result.SupportedVersions, string(rev))
	}
	hint := s.hint(mcp.MethodServerDiscover)
	result.TTLMs, result.CacheScope = hint.TTL.Milliseconds(), hint.Scope
	d := &discovery{features: features, result: mcp.Project(rev, result)}
	for _, e := range s.allExtensions() {
		if _, ok := codec.Member(result.Capabilities.Extensions, e.ID); ok {
			d.extensions = append(d.extensions, e)
		}
	}
	if d.text, err = boundary.Marshal(d.result); err != nil {
		return nil, err
	}
	s.discovered.Store(d)
	return d, nil
}

// Discover implements server/discover (MCP, "Discovery").
func (h *handler) Discover(context.Context, *mcp.RequestParams) (*mcp.DiscoverResult, error) {
	d, err := h.p.s.discovery()
	if err != nil {
		return nil, err
	}
	return d.result, nil
}

// complete adds the members that all results of modern revisions have.
func (s *Server) complete(req *session.Request, result codec.Encoder) codec.Encoder {
	if d := s.discovered.Load(); d != nil && result == codec.Encoder(d.result) {
		return d.text
	}
	return s.completer.Complete(req, s.hint(req.Method), result)
}

// sharesExtension reports whether the server and the client of a request have declared a common
// extension.
func (s *Server) sharesExtension(req *session.Request) bool {
	d, err := s.discovery()
	if err != nil {
		return false
	}
	var own map[string]json.RawMessage
	codec.Unmarshal(d.result.Capabilities.Extensions, value.Of(&own)) // otherwise there are none
	for id := range own {
		if _, ok := req.Internals(boundary.Caller{}).ClientExtension(id); ok {
			return true
		}
	}
	return false
}
