package server

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// RequireScopes requires scopes for each request that uses the feature: to call, get, read or
// subscribe to it, and to complete its arguments. A request whose access token has too few scopes
// is rejected before the handler runs. Over HTTP, it gets status 403 and a challenge that names all
// scopes it needs, so that the client can ask the user for more. If the option is used several
// times, all scopes are required. Calls without an identity, such as those over stdio, need no
// scopes.
//
// The feature is listed for all callers. To hide it from callers without the scopes, use
// [VisibleTo] with [Call.HasScopes] instead.
func RequireScopes(scopes ...string) FeatureOption {
	return featureOption(func(x *common) {
		x.fault = errors.Join(x.fault, boundary.CheckScopes(scopes))
		x.scopes, x.scoped = append(x.scopes, scopes...), true
	})
}

// RequireScopesFor requires scopes that depend on the arguments, in addition to those of
// [RequireScopes]. The arguments are a JSON value that was not validated. f must decode them,
// because their text may have escapes. f must compare member names exactly: {"Path":…,"path":…} has
// two members, which package encoding/json takes for one. f must be fast and safe for concurrent
// use, and may be called more than once for a call. It must not modify the arguments. If it panics,
// the call is rejected.
func RequireScopesFor(f func(ctx context.Context, arguments json.RawMessage) []string) ToolOption {
	if f == nil {
		return nil
	}
	return toolOption(func(t *tool) { t.scopesFor, t.scoped = append(t.scopesFor, f), true })
}

// Identity returns the verified identity of the caller. ok is false if there is none: over stdio,
// without authorization, and in a task whose handler runs again, which has only the
// [Call.Principal]. The identity must not be changed.
func (c *Call) Identity() (i *auth.Identity, ok bool) { return auth.FromContext(c.ctx) }

// HasScopes reports whether the access token of the call has all scopes. It returns true if there
// is no authorization, and false in a task whose handler runs again. Use HasScopes to show less to
// some callers. If a whole feature needs scopes, use [RequireScopes].
func (c *Call) HasScopes(scopes ...string) bool {
	if i, ok := c.Identity(); ok {
		return i.HasScopes(scopes...)
	}
	return c.p != c.p.s.detached
}

// RequiredScopes returns the scopes that a request or notification needs according to
// [Features.Scopes] and the options of features. [Server.Handler] passes it to its transport. For
// other handlers, set it as their option RequiredScopes. A server whose transport does not call it
// rejects such requests itself, with an error response instead of a challenge.
func (s *Server) RequiredScopes(ctx context.Context, method string, params []byte) []string {
	scopes := together(s.cfg.Features.Scopes[allMethods], s.cfg.Features.Scopes[method])
	if s.scoped.Load() {
		scopes = together(scopes, s.featureScopes(ctx, method, params))
	}
	return scopes
}

// together returns the elements of a and b. It does not modify either list.
func together(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	return append(slices.Clip(a), b...)
}

// featureScopes returns the scopes of the features that a message refers to.
func (s *Server) featureScopes(ctx context.Context, method string, params []byte) (scopes []string) {
	switch method {
	case mcp.MethodToolsCall:
		e, ok := s.tools.find(memberText(params, "name"))
		if !ok {
			break
		}
		scopes = e.value.scopes
		if len(e.value.scopesFor) > 0 {
			arguments := callArguments(params)
			for _, f := range e.value.scopesFor {
				scopes = together(scopes, f(ctx, arguments))
			}
		}
	case mcp.MethodPromptsGet:
		if e, ok := s.prompts.find(memberText(params, "name")); ok {
			scopes = e.value.scopes
		}
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe:
		scopes = s.resourceScopes(memberText(params, "uri"))
	case mcp.MethodSubscriptionsListen:
		var p mcp.SubscriptionsListenRequestParams
		if codec.Unmarshal(params, &p, codec.AllowSize(params)...) == nil { // otherwise the request is rejected
			scopes = s.subscriptionScopes(p.Notifications.ResourceSubscriptions)
		}
	case mcp.MethodCompletionComplete:
		ref, _ := codec.Member(params, "ref")
		if e, ok := s.prompts.find(memberText(ref, "name")); ok {
			scopes = e.value.scopes
		}
		if e, ok := s.templates.find(memberText(ref, "uri")); ok {
			scopes = together(scopes, e.value.scopes)
		}
	}
	return scopes
}

// callArguments returns the arguments in the params of a call.
func callArguments(params json.RawMessage) json.RawMessage {
	arguments, _ := codec.Member(params, "arguments")
	if len(arguments) == 0 || arguments[0] == 'n' {
		return json.RawMessage(`{}`)
	}
	return arguments
}

// allMethods stands for all methods in [Features.Scopes].
const allMethods = "*"

// resourceScopes returns the scopes for a resource. Which feature serves it may depend on the
// caller, so these are the scopes of all features that match uri, up to the first one that all
// callers see.
func (s *Server) resourceScopes(uri string) (scopes []string) {
	if s.checkURI(uri) != nil {
		return nil
	}
	if e, ok := s.resources.find(uri); ok {
		if scopes = e.value.scopes; s.resources.open(e) {
			return scopes
		}
	}
	for _, e := range *s.templates.enabled.Load() {
		if _, ok := e.value.match(uri); ok {
			if scopes = together(scopes, e.value.scopes); s.templates.open(e) {
				break
			}
		}
	}
	return scopes
}

// subscriptionScopes returns the scopes for subscriptions/listen with the given URIs. If there are
// more than [Limits.Subscriptions] allows, the request is rejected anyway, and the URIs are not
// looked up.
func (s *Server) subscriptionScopes(uris []string) (scopes []string) {
	if s.cfg.Features.Methods[mcp.MethodSubscriptionsListen] == nil && len(uris) >= s.cfg.Limits.Subscriptions {
		if uris = slices.Compact(slices.Sorted(slices.Values(uris))); len(uris) >= s.cfg.Limits.Subscriptions {
			return nil
		}
	}
	for _, uri := range uris {
		for _, scope := range s.resourceScopes(uri) {
			if !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	return scopes
}

// memberText returns the text of a member of a JSON object, or "".
func memberText(object []byte, name string) string {
	text, _ := modern.TextMember(object, name)
	return text
}

// usesFeature reports whether the messages of a method refer to features; see featureScopes.
var usesFeature = named(mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe,
	mcp.MethodSubscriptionsListen, mcp.MethodCompletionComplete)

// needsScopes reports whether messages of a method may need scopes.
func (s *Server) needsScopes(m mcp.Method) bool {
	scopes := s.cfg.Features.Scopes
	return len(scopes[allMethods]) > 0 || len(scopes[m.Name]) > 0 || s.scoped.Load() && usesFeature(m)
}

// permit returns an error if a request has an identity without the required scopes. Transports
// usually reject such requests earlier.
func (s *Server) permit(ctx context.Context, req *session.Request) error {
	i, ok := auth.FromContext(ctx)
	if !ok || i.HasScopes(s.RequiredScopes(ctx, req.Method, req.Params)...) {
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "not authorized: the access token has too few scopes"}
}
