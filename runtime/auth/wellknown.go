package auth

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// wellKnown is the path of the metadata of a resource with the path "/" (RFC 9728, section 3).
const wellKnown = "/.well-known/oauth-protected-resource"

// completeMetadata sets the metadata and the paths at which it is served.
func (p *Protector) completeMetadata(resource *url.URL) (err error) {
	p.origin = resource.Scheme + "://" + resource.Host
	p.path = strings.TrimSuffix(resource.EscapedPath(), "/")
	m := p.c.Metadata
	m.Resource, m.AuthorizationServers = p.c.Resource, slices.Clone(p.c.Issuers)
	if m.ScopesSupported == nil {
		m.ScopesSupported = slices.Clone(p.c.Scopes)
	}
	if m.BearerMethods == nil {
		m.BearerMethods = []string{"header"}
	}
	m.DPoPRequired = m.DPoPRequired || p.c.RequireDPoP
	p.metadata = m
	p.metadataURL = p.origin + wellKnown + p.path
	if resource.RawQuery != "" {
		p.metadataURL += "?" + resource.RawQuery
	}
	p.metadataPaths = map[string]bool{}
	for _, path := range wellKnownPaths(p.path) {
		p.metadataPaths[path] = true
	}
	p.metadataText, err = json.Marshal(&p.metadata)
	return err
}

// wellKnownPaths returns the paths at which the metadata of a resource with the given path is
// served: the well-known path at the root, with and without the path of the resource; with each
// suffix of it, because a proxy may remove a prefix; and below each prefix of it, because a proxy
// may forward only that prefix.
func wellKnownPaths(path string) []string {
	paths := []string{wellKnown, wellKnown + path, path + wellKnown}
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			prefix, suffix := path[:i], path[i:]
			paths = append(paths, wellKnown+suffix, prefix+wellKnown, prefix+wellKnown+suffix)
		}
	}
	return paths
}

// Handler returns a handler that serves the resource metadata at its well-known paths (RFC 9728,
// section 3), without authorization, and passes all other requests to next. It does not protect
// next. If next is nil, other requests get status 404. For a resource with the path /base/mcp, the
// paths are /.well-known/oauth-protected-resource, the same path followed by /base/mcp or /mcp, and
// paths that begin with /base or /base/mcp. So a proxy may remove a prefix, or forward only that
// prefix.
func (p *Protector) Handler(next http.Handler) http.Handler {
	if next == nil {
		next = http.NotFoundHandler()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.metadataPaths[r.URL.EscapedPath()] {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			h.Set("Content-Type", "application/json")
			h.Set("Cache-Control", "max-age=3600")
			w.Write(p.metadataText)
		case http.MethodOptions:
			h.Set("Access-Control-Allow-Methods", "GET, HEAD")
			h.Set("Access-Control-Allow-Headers", "Accept, Content-Type, MCP-Protocol-Version")
			h.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
		default:
			h.Set("Allow", "GET, HEAD, OPTIONS")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		}
	})
}

// Middleware returns a handler that passes authorized requests to next, with their identity in the
// context; see [FromContext]. It rejects all other requests. Use it for handlers without an option
// for a Protector.
func (p *Protector) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, err := p.Authenticate(r)
		if err != nil {
			err.(*Denied).write(w)
			return
		}
		next.ServeHTTP(w, r.WithContext(WithIdentity(r.Context(), i)))
	})
}
