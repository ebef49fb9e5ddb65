package server

import (
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Kind is a kind of feature.
type Kind string

// The kinds of features.
const (
	KindTool     Kind = "tool"
	KindResource Kind = "resource"
	KindTemplate Kind = "resource template"
	KindPrompt   Kind = "prompt"
	KindMethod   Kind = "method" // of [Features.Methods] or an extension; for [Server.Has] only
)

// Feature identifies a feature of a server, for [Features.Visible].
type Feature struct {
	Kind Kind
	Name string // of a tool, a prompt or a method; the URI of a resource, or the URI template
}

// Has reports whether the server has a feature that is not disabled, visible or not.
func (s *Server) Has(f Feature) (ok bool) {
	switch f.Kind {
	case KindTool:
		_, ok = s.tools.find(f.Name)
	case KindResource:
		_, ok = s.resources.find(f.Name)
	case KindTemplate:
		_, ok = s.templates.find(f.Name)
	case KindPrompt:
		_, ok = s.prompts.find(f.Name)
	case KindMethod:
		ok = s.cfg.Features.Methods[f.Name] != nil || s.extends(f.Name)
	}
	return ok
}

// FeatureOption is an option of every function that adds a feature: [VisibleTo] or
// [RequireScopes].
type FeatureOption interface {
	ToolOption
	PromptOption
	ResourceOption
	TemplateOption
}

type featureOption func(*common)

func (f featureOption) forTool(t *tool)         { f(&t.common) }
func (f featureOption) forPrompt(p *prompt)     { f(&p.common) }
func (f featureOption) forResource(r *resource) { f(&r.common) }
func (f featureOption) forTemplate(t *template) { f(&t.common) }

// VisibleTo shows the feature only to calls for which visible returns true, such as those of one
// principal. For all other calls, the feature does not exist: it is not listed, and requests for it
// fail as for an unknown feature. The resources of a hidden template are neither listed nor
// readable. With several VisibleTo, all functions must return true. [Features.Visible] decides for
// all features.
//
//	server.AddTool(s, "delete", "Deletes a file.", remove, server.VisibleTo(func(c *server.Call) bool {
//		return c.Principal() == "admin"
//	}))
//
// The function must be fast and safe for concurrent use: a request for a list calls it once for each
// feature that it passes, and every request for a feature calls it, too. It may use what the Call
// says about the request, but must not reach the client. If it panics, the feature is hidden. If its
// result changes for a client, call [Server.ListChanged].
//
// A task is checked when it is created, and not when it is recovered by another process. A
// subscription is checked when the client subscribes.
func VisibleTo(visible func(c *Call) bool) FeatureOption {
	if visible == nil {
		return nil
	}
	return featureOption(func(x *common) { x.visible = append(x.visible, visible) })
}

// common holds what features of all kinds have.
type common struct {
	visible  []func(*Call) bool
	scopes   []string // of the option RequireScopes
	scoped   bool     // requests for it may need scopes
	fault    error    // of an option
	tailored bool     // its description depends on the caller
}

func (x *common) shared() *common { return x }

// open reports whether a feature is visible to all calls.
func (x *set[T]) open(e *entry[T]) bool {
	return len(e.value.shared().visible) == 0 && x.s.cfg.Features.Visible == nil
}

// shows reports whether a feature is visible to a call. It logs a panic and hides the feature.
func (x *set[T]) shows(c *Call, e *entry[T]) bool {
	if x.open(e) || c.p == x.s.detached { // a recovered task
		return true
	}
	f := Feature{x.kind, e.key}
	visible, err := x.s.isVisible(c, f, e.value.shared().visible)
	if err != nil {
		boundary.Report(x.s.cfg.Logger, "visibility function panicked", err, "kind", f.Kind, "name", f.Name)
	}
	return visible
}

// isVisible calls [Features.Visible] and the functions of a feature.
func (s *Server) isVisible(c *Call, f Feature, own []func(*Call) bool) (visible bool, err error) {
	defer boundary.Catch(&err)
	if s.cfg.Features.Visible != nil && !s.cfg.Features.Visible(c, f) {
		return false, nil
	}
	for _, sees := range own {
		if !sees(c) {
			return false, nil
		}
	}
	return true, nil
}
