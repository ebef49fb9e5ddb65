package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/yosida95/uritemplate/v3"

	"github.com/mcpwire/mcpwire/mcp"
)

// ListFunc lists resources of a template, a page at a time. Cursor is "" for the first page. For
// each further page it is the next that was returned with the page before. Next is "" for the last
// page. Clients cannot forge a cursor; see [Shared.CursorKey].
type ListFunc func(ctx context.Context, c *Call, cursor string) (page []mcp.Resource, next string, err error)

// TemplateOption is an option of [AddTemplate]: [DefineTemplate], [CacheContents], [RequireScopes],
// [VisibleTo], [WrapResource], a [ListFunc] or a completion of a variable, see [Complete].
type TemplateOption interface{ forTemplate(*template) }

type templateOption func(*template)

func (f templateOption) forTemplate(t *template) { f(t) }

// DefineTemplate sets members of the template's description that [AddTemplate] has no argument for,
// such as the description, the media type and annotations. F receives the description with the URI
// template and the name of the call. It must not change the URI template.
func DefineTemplate(f func(*mcp.ResourceTemplate)) TemplateOption {
	if f == nil {
		return nil
	}
	return templateOption(func(t *template) { f(&t.def) })
}

// forTemplate implements TemplateOption.
func (f ListFunc) forTemplate(t *template) { t.list = f }

// template is a resource template of a server. It is immutable.
type template struct {
	common
	def        mcp.ResourceTemplate
	uri        *pattern
	names      []string // of the variables
	read       readFunc
	list       ListFunc // nil for none
	completers map[string]CompleteFunc
	caching    cacheHint // of the option CacheContents
	// wrapped calls the middleware, then readFrom. It is nil if there is no middleware.
	wrapped    ResourceHandler
	middleware []func(next ResourceHandler) ResourceHandler // of the option WrapResource
}

// AddTemplate adds the resources whose URIs match an RFC 6570 template. If several features match a
// URI, a static resource takes precedence, then the template that sorts first. The options are
// [DefineTemplate], a [ListFunc] and completions of variables, see [Complete]. The result of
// resources/list includes the resources of the ListFunc. It is a fault if the template is invalid, if
// the protocol does not admit the description, or if the server has the template already
// ([ErrExists]): the template is not added, and the server does not start; see [Handle.Err].
func AddTemplate[Out any](s *Server, uriTemplate, name string, read ReadFunc[Out], options ...TemplateOption) *Handle[mcp.ResourceTemplate] {
	f, err := reader(read)
	h, err := s.addTemplate(template{def: mcp.ResourceTemplate{URITemplate: uriTemplate, Name: name}, read: f}, err, options)
	return added(s, h, err)
}

// addTemplate adds a template. Fault is why its function is invalid, or nil.
func (s *Server) addTemplate(declared template, fault error, options []TemplateOption) (*Handle[mcp.ResourceTemplate], error) {
	uri := declared.def.URITemplate
	switch {
	case s == nil:
		return nil, errNoServer
	case fault != nil:
		return nil, fmt.Errorf("server: resource template %q: %w", uri, fault)
	}
	declared.completers = map[string]CompleteFunc{}
	for _, o := range options {
		if o == nil {
			return nil, fmt.Errorf("server: resource template %q: nil option", uri)
		}
		o.forTemplate(&declared)
	}
	if err := declared.caching.check(); err != nil {
		return nil, fmt.Errorf("server: resource template %q: %w", uri, err)
	}
	if declared.def.URITemplate != uri {
		return nil, fmt.Errorf("server: resource template %q: DefineTemplate changed it to %q", uri, declared.def.URITemplate)
	}
	build := func(def mcp.ResourceTemplate) (*template, error) {
		t, err := newTemplate(def, declared)
		if err != nil {
			return nil, err
		}
		if t.wrapped, err = s.wrapRead(t.middleware, t.read, def.MIMEType); err != nil {
			return nil, fmt.Errorf("server: resource template %q: %w", def.URITemplate, err)
		}
		return t, nil
	}
	return addTo(s.templates, declared.def, func(d *mcp.ResourceTemplate) string { return d.URITemplate }, build, func(t *template) mcp.ResourceTemplate { return t.def })
}

// newTemplate completes declared, which has the function and the options, with the definition.
func newTemplate(def mcp.ResourceTemplate, declared template) (*template, error) {
	if def.Name == "" || def.URITemplate == "" {
		return nil, errors.New("server: resource template needs both a name and a URI template")
	}
	parsed, err := uritemplate.New(def.URITemplate)
	if err != nil {
		return nil, fmt.Errorf("server: resource template %q: %w", def.URITemplate, err)
	}
	uri, err := newPattern(def.URITemplate)
	if err != nil {
		return nil, fmt.Errorf("server: resource template %q: %w", def.URITemplate, err)
	}
	if err := def.Validate(latest()); err != nil {
		return nil, fmt.Errorf("server: resource template %q: %w", def.URITemplate, err)
	}
	t := &declared
	t.def, t.uri, t.names = def, uri, parsed.Varnames()
	for name := range t.completers {
		if !slices.Contains(t.names, name) {
			return nil, fmt.Errorf("server: resource template %q: completion of unknown variable %q", def.URITemplate, name)
		}
	}
	return t, nil
}

// match returns the values of the variables in a URI; ok is false if the URI does not match, or if
// a value has a ".." segment.
func (t *template) match(uri string) (vars url.Values, ok bool) {
	vars, ok = t.uri.match(uri)
	for _, values := range vars {
		if slices.ContainsFunc(values, hasParentSegment) {
			return nil, false
		}
	}
	return vars, ok
}

// listed returns the enabled templates with a list callback, beginning with the key from.
func (s *Server) listed(from string) (list []*entry[*template]) {
	for _, e := range *s.templates.enabled.Load() {
		if e.value.list != nil && e.key >= from {
			list = append(list, e)
		}
	}
	return list
}

// ListResourceTemplates implements resources/templates/list (MCP resources, "Resource Templates").
func (h *handler) ListResourceTemplates(ctx context.Context, params *mcp.PaginatedRequestParams) (*mcp.ListResourceTemplatesResult, error) {
	entries, next, err := page(newCall(ctx, h.p), h.p.s.templates, mcp.MethodResourcesTemplatesList, params)
	if err != nil {
		return nil, err
	}
	result := &mcp.ListResourceTemplatesResult{ResourceTemplates: make([]mcp.ResourceTemplate, len(entries)), NextCursor: next}
	for i, e := range entries {
		result.ResourceTemplates[i] = e.value.def
	}
	return result, nil
}
