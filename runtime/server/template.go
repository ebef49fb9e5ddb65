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

// ListFunc lists resources that a template stands for, a page at a time: cursor is "" for the first page, and then
// what it returned as next; next is "" after the last page. Clients cannot forge a cursor; see [Config.CursorKey].
type ListFunc func(ctx context.Context, c *Call, cursor string) (page []mcp.Resource, next string, err error)

// TemplateOption says more about a resource template than the protocol does.
type TemplateOption interface{ forTemplate(*template) }

// forTemplate makes a list callback an option.
func (f ListFunc) forTemplate(t *template) { t.list = f }

// template is a resource template of a server. It does not change.
type template struct {
	def       mcp.ResourceTemplate
	uri       *pattern
	names     []string // of the variables
	read      ReadFunc
	list      ListFunc // nil for none
	completes map[string]CompleteFunc
}

// AddTemplate adds a family of resources whose URIs are those of an RFC 6570 template. A static resource goes before
// templates, and among these the first in the order of their texts that fits. Options are a [ListFunc], by which
// resources/list has resources of the family, and completions by [Complete] for variables. It fails if the template or
// the description is not what it should be, or with [ErrExists] if there is such a template.
func (s *Server) AddTemplate(def mcp.ResourceTemplate, read ReadFunc, options ...TemplateOption) (*Handle[mcp.ResourceTemplate], error) {
	if read == nil {
		return nil, errors.New("server: no function for the template " + def.URITemplate)
	}
	build := func(def mcp.ResourceTemplate) (*template, error) { return newTemplate(def, read, options) }
	return addTo(s.templates, def, func(d *mcp.ResourceTemplate) string { return d.URITemplate }, build, func(t *template) mcp.ResourceTemplate { return t.def })
}

func newTemplate(def mcp.ResourceTemplate, read ReadFunc, options []TemplateOption) (*template, error) {
	if def.Name == "" || def.URITemplate == "" {
		return nil, errors.New("server: resource template needs both a name and a URI template")
	}
	parsed, err := uritemplate.New(def.URITemplate)
	if err != nil {
		return nil, fmt.Errorf("server: the template %q: %w", def.URITemplate, err)
	}
	uri, err := newPattern(def.URITemplate)
	if err != nil {
		return nil, fmt.Errorf("server: the template %q: %w", def.URITemplate, err)
	}
	if err := def.Validate(latest()); err != nil {
		return nil, fmt.Errorf("server: the template %q: %w", def.URITemplate, err)
	}
	t := &template{def: def, uri: uri, names: parsed.Varnames(), read: read, completes: map[string]CompleteFunc{}}
	for _, o := range options {
		if o == nil {
			return nil, fmt.Errorf("server: nil option of the template %q", def.URITemplate)
		}
		o.forTemplate(t)
	}
	for name := range t.completes {
		if !slices.Contains(t.names, name) {
			return nil, fmt.Errorf("server: the template %q has no variable %q to complete", def.URITemplate, name)
		}
	}
	return t, nil
}

// match returns the values of the variables in a URI; ok is false if it is none of the template's, or one of them
// leads upwards.
func (t *template) match(uri string) (vars url.Values, ok bool) {
	vars, ok = t.uri.match(uri)
	for _, values := range vars {
		if slices.ContainsFunc(values, upwards) {
			return nil, false
		}
	}
	return vars, ok
}

// listed returns the templates with a list callback, from the one with a key on, or all if that is "".
func (s *Server) listed(from string) (list []*entry[*template]) {
	for _, e := range *s.templates.shown.Load() {
		if e.value.list != nil && e.key >= from {
			list = append(list, e)
		}
	}
	return list
}

// ListResourceTemplates implements resources/templates/list (MCP resources, "Resource Templates").
func (h *handler) ListResourceTemplates(ctx context.Context, params *mcp.PaginatedRequestParams) (*mcp.ListResourceTemplatesResult, error) {
	entries, next, err := page(h.p.s.templates, mcp.MethodResourcesTemplatesList, params)
	if err != nil {
		return nil, err
	}
	result := &mcp.ListResourceTemplatesResult{ResourceTemplates: make([]mcp.ResourceTemplate, len(entries)), NextCursor: next}
	for i, e := range entries {
		result.ResourceTemplates[i] = e.value.def
	}
	return result, nil
}
