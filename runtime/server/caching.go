package server

import (
	"fmt"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server/internal/results"
)

// Caching sets how long clients may reuse a result before they fetch it again, by the kind of the
// result (MCP caching). It is sent with the results of modern requests, rounded down to
// milliseconds. Zero means that each use fetches the result. A client that listens to the changes
// of a list fetches the list again as soon as it has changed.
//
// A result has the scope private if it may differ between callers. Only the same user may reuse it.
// The lists of a server are public, except for those with features of [VisibleTo] or
// [DefineToolFor], and for lists of resources with a [ListFunc]. Contents of resources are private,
// unless the option [CacheContents] says that they are public. All results are private if an HTTP
// handler of the server has Auth or Principal, and if the server has [Features.Visible] or
// middleware that may change them: [session.Hooks].Receiving, a handler in [Features.Methods] or,
// for contents, [Middleware.Resources] and [WrapResource].
type Caching struct {
	// Private makes all results private. Set it if a proxy or a middleware of HTTP rejects clients
	// before they reach the server: a shared cache could serve public results to such clients.
	Private bool

	Discover  time.Duration // the result of server/discover
	Tools     time.Duration // the list of tools
	Prompts   time.Duration // the list of prompts
	Resources time.Duration // the list of resources
	Templates time.Duration // the list of resource templates
	Contents  time.Duration // the contents of resources without the option CacheContents
}

// times returns the fields that are times, by name.
func (c *Caching) times() map[string]*time.Duration {
	return map[string]*time.Duration{
		"Discover": &c.Discover, "Tools": &c.Tools, "Prompts": &c.Prompts,
		"Resources": &c.Resources, "Templates": &c.Templates, "Contents": &c.Contents,
	}
}

// cacheHint is the option [CacheContents]. The zero value means that there is none.
type cacheHint results.Hint

// CacheContents sets how long clients may reuse the contents of a resource, or of the resources of
// a template. The scope is public if all users may reuse them, or private if only the user that has
// read them may. Public contents must not depend on the caller. The scope is private nevertheless
// if the resource is not visible to all callers, or if there is middleware; see [Caching].
func CacheContents(ttl time.Duration, scope mcp.CacheScope) interface {
	ResourceOption
	TemplateOption
} {
	return cacheHint{ttl, scope}
}

func (h cacheHint) forResource(r *resource) { r.caching = h }
func (h cacheHint) forTemplate(t *template) { t.caching = h }

// check returns an error for an invalid option.
func (h cacheHint) check() error {
	switch {
	case h == cacheHint{}:
		return nil
	case h.TTL < 0:
		return fmt.Errorf("CacheContents: negative time (%v)", h.TTL)
	case h.Scope != mcp.CacheScopePrivate && h.Scope != mcp.CacheScopePublic:
		return fmt.Errorf("CacheContents: scope %q, want private or public", h.Scope)
	}
	return nil
}

// hint returns the caching hint of a complete result of a method, or none if it is not cacheable.
func (s *Server) hint(method string) results.Hint {
	c := &s.cfg.Features.Caching
	switch method {
	case mcp.MethodServerDiscover:
		return s.hintOf(method, c.Discover, false)
	case mcp.MethodToolsList:
		return s.hintOf(method, c.Tools, s.varies(method))
	case mcp.MethodPromptsList:
		return s.hintOf(method, c.Prompts, s.varies(method))
	case mcp.MethodResourcesList:
		return s.hintOf(method, c.Resources, s.varies(method))
	case mcp.MethodResourcesTemplatesList:
		return s.hintOf(method, c.Templates, s.varies(method))
	case mcp.MethodResourcesRead:
		return s.hintOf(method, c.Contents, true)
	}
	return results.Hint{}
}

// varies reports whether the list that a method returns may differ between callers: it has features
// that only some of them see or that are described for each of them, or a [ListFunc].
func (s *Server) varies(method string) bool {
	if s.cfg.Features.Visible != nil {
		return true
	}
	switch method {
	case mcp.MethodToolsList:
		return s.tools.private.Load()
	case mcp.MethodPromptsList:
		return s.prompts.private.Load()
	case mcp.MethodResourcesList:
		return s.resources.private.Load() || len(s.listed("")) > 0
	case mcp.MethodResourcesTemplatesList:
		return s.templates.private.Load()
	}
	return false
}

// hintOf returns a hint. Private reports whether the result is known to depend on the caller.
func (s *Server) hintOf(method string, ttl time.Duration, private bool) results.Hint {
	if private || s.cfg.Features.Caching.Private || s.protected.Load() || s.edited(method) {
		return results.Hint{TTL: ttl, Scope: mcp.CacheScopePrivate}
	}
	return results.Hint{TTL: ttl, Scope: mcp.CacheScopePublic}
}

// edited reports whether functions of the author may change the results of a method.
func (s *Server) edited(method string) bool {
	return len(s.cfg.Session.Hooks.Receiving) > 0 || s.cfg.Features.Methods[method] != nil
}

// contentsHint returns the hint for the contents of a resource with the option [CacheContents].
func (s *Server) contentsHint(r *found) results.Hint {
	private := r.caching.Scope == mcp.CacheScopePrivate || !r.open || r.wrapped != nil
	return s.hintOf(mcp.MethodResourcesRead, r.caching.TTL, private)
}
