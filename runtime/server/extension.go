package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Extension is an extension of the protocol, for [Server.Extend]. All fields but ID are optional.
type Extension struct {
	// ID identifies the extension. It has a prefix, as in "io.modelcontextprotocol/ui".
	ID string
	// Settings is a JSON object that the server declares with the ID; nil means no settings.
	Settings json.RawMessage
	// Since is the first revision of the protocol that has the extension; "" means that all have it.
	Since mcp.Revision
	// Offered reports whether a server with these capabilities offers the extension. If it does not,
	// the extension does not exist for clients. Nil means that it always exists. Offered must not call
	// methods of the server.
	Offered func(declared *mcp.ServerCapabilities) bool
	// Negotiated hides methods, lists and subscriptions of the extension from clients that have not
	// declared it in their capabilities.
	Negotiated bool

	// Methods are the handlers of requests and notifications by method; see [Method] and
	// [Notification]. [Features.Methods] takes precedence. Limits.Calls limits the requests. A nil
	// handler is that of a method that Wrap serves, and that Limits.Calls does not limit.
	Methods map[string]session.Handler
	// Validate checks the params of a message, before its handler in Methods decodes them. It is
	// ValidateParams of a generated package for one of its revisions.
	Validate func(method string, params []byte) error
	// Wrap is middleware for the methods that Wraps selects, inside all other middleware.
	Wrap  session.Middleware
	Wraps func(m mcp.Method) bool

	// Lists are lists whose changes subscriptions/listen reports: by the name of the boolean member of
	// its filter, such as "eventsListChanged", the notification of a change. See
	// [Server.ListChanged].
	Lists map[string]string
	// Listen are functions for other members of the filter of subscriptions/listen, by name. Each
	// returns what the subscription wants of the extension, or nil to ignore the member. It must not
	// send messages.
	Listen map[string]func(ctx context.Context, c *Call, member json.RawMessage) (Subscription, error)
}

// Subscription is what one subscriptions/listen wants of an extension. Its methods are called by one
// goroutine, in this order: Names and Open once, Read any number of times, and Close, unless Open has
// failed.
type Subscription interface {
	// Names are the names of what the subscription is about, such as URIs. They count against
	// [Limits.Subscriptions] and SubscriptionBytes.
	Names() []string
	// Open begins the subscription, and returns the member of the filter that the server
	// acknowledges, as JSON. From then on, changed reports that something with a name has changed.
	// It returns at once, may be called by any goroutine, and merges what the client has not read.
	Open(ctx context.Context, changed func(name string)) (acknowledged json.RawMessage, err error)
	// Read returns the notification for a change, with meta as the _meta of its params. If params
	// are nil, nothing is sent.
	Read(ctx context.Context, name string, meta *mcp.NotificationMetaObject) (method string, params codec.Encoder)
	// Close ends the subscription.
	Close()
}

// extension is an extension of a server.
type extension struct {
	Extension
	by string // path of the package that has added it
}

// Extend adds an extension of the protocol to a server: the server declares it to clients (MCP
// extensions, "Negotiation"), and serves its methods and subscriptions, over any transport and in
// all revisions that have it. An extension with the ID of an earlier one replaces it, for example
// with other settings. Extend fails if a field is invalid. The error is also recorded, see
// [Server.Err].
//
// Errors that the server records later, for calls of the package that calls Extend, name the place
// of the call to that package. It therefore calls Extend before it adds features.
func (s *Server) Extend(e Extension) error {
	if s == nil {
		return errNoServer
	}
	by := caller()
	return s.record(s.extend(e, by), by)
}

func (s *Server) extend(e Extension, by string) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("server: extension %q: "+format, append([]any{e.ID}, args...)...)
	}
	if prefix, name, _ := strings.Cut(e.ID, "/"); prefix == "" || name == "" || methods.CheckMetaKey(e.ID) != nil {
		return fail("want an identifier with a prefix, such as \"com.example/name\"")
	}
	if e.Settings == nil {
		e.Settings = json.RawMessage(`{}`)
	}
	var members map[string]json.RawMessage
	if err := codec.Unmarshal(e.Settings, value.Of(&members)); err != nil || members == nil {
		return fail("settings are not a JSON object")
	}
	since := slices.Index(mcp.Revisions(), e.Since)
	switch {
	case e.Since != "" && since < 0:
		return fail("unknown revision %q", e.Since)
	case (e.Wrap == nil) != (e.Wraps == nil):
		return fail("want both Wrap and Wraps")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Methods)) {
		if m, ok := mcp.LookupMethod(name); ok && slices.ContainsFunc(mcp.Revisions()[max(since, 0):], m.In) {
			return fail("the protocol defines method %q", name)
		}
		if modern.IsReserved(name) {
			return fail("method %q: the name is reserved for tasks", name)
		}
	}
	e.Settings, e.Methods, e.Lists, e.Listen = bytes.Clone(e.Settings), maps.Clone(e.Methods), maps.Clone(e.Lists), maps.Clone(e.Listen)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.extensions {
		if name := other.shares(&e); name != "" && other.ID != e.ID {
			return fail("%q belongs to extension %q", name, other.ID)
		}
	}
	if s.extensions == nil {
		s.extensions = map[string]*extension{}
	}
	s.extensions[e.ID] = &extension{e, by}
	s.features.Add(1)
	return nil
}

// shares returns a method or a member of a filter that two extensions have, or "".
func (e *extension) shares(other *Extension) string {
	for _, names := range []struct{ own, others []string }{
		{slices.Collect(maps.Keys(e.Methods)), slices.Collect(maps.Keys(other.Methods))},
		{e.members(), (&extension{Extension: *other}).members()},
		{slices.Collect(maps.Values(e.Lists)), slices.Collect(maps.Values(other.Lists))},
	} {
		for _, name := range slices.Sorted(slices.Values(names.own)) {
			if slices.Contains(names.others, name) {
				return name
			}
		}
	}
	return ""
}

// members returns the members of filters that the extension has.
func (e *extension) members() []string {
	return slices.Concat(slices.Collect(maps.Keys(e.Lists)), slices.Collect(maps.Keys(e.Listen)))
}

// in reports whether a revision has the extension.
func (e *extension) in(rev mcp.Revision) bool {
	all := mcp.Revisions()
	return e.Since == "" || slices.Index(all, rev) >= slices.Index(all, e.Since)
}

// exists reports whether the extension exists for the client of a request.
func (e *extension) exists(req *session.Request) bool {
	if !e.in(revision(req)) {
		return false
	}
	_, declared := req.Internals(boundary.Caller{}).ClientExtension(e.ID)
	return declared || !e.Negotiated
}

// existsIn reports whether the extension exists for the client of a session.
func (e *extension) existsIn(s *session.Session) bool {
	declared := false
	if client := s.Client(); client != nil {
		_, declared = codec.Member(client.Capabilities.Extensions, e.ID)
	}
	return e.in(s.Revision()) && (declared || !e.Negotiated)
}

// serve returns the handler of one of the methods.
func (e *extension) serve(own session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if !e.exists(req) {
			return nil, methodNotFound(req)
		}
		if e.Validate != nil {
			if err := e.Validate(req.Method, req.Params); err != nil {
				return nil, jsonrpc.InvalidParams(err)
			}
		}
		return own(ctx, req)
	}
}

// allExtensions returns the extensions of the server, sorted by ID.
func (s *Server) allExtensions() []*extension {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.extensions), func(a, b *extension) int { return strings.Compare(a.ID, b.ID) })
}

// declare adds some extensions to the capabilities, unless those have them.
func (s *Server) declare(c *mcp.ServerCapabilities, some func(*extension) bool) {
	for _, e := range s.allExtensions() {
		if some(e) && (e.Offered == nil || e.Offered(c)) {
			c.Extensions = modern.WithExtension(c.Extensions, e.ID, e.Settings)
		}
	}
}

// offered returns the extensions that the server declares, sorted by ID.
func (s *Server) offered() []*extension {
	if d, err := s.discovery(); err == nil {
		return d.extensions
	}
	return nil
}

// offers returns the extension with a list whose changes are announced by a notification, or nil.
func (s *Server) offers(list string) *extension {
	for _, e := range s.offered() {
		for _, changed := range e.Lists {
			if changed == list {
				return e
			}
		}
	}
	return nil
}

// extends reports whether an extension has a method.
func (s *Server) extends(method string) bool {
	return slices.ContainsFunc(s.offered(), func(e *extension) bool {
		_, ok := e.Methods[method]
		return ok
	})
}
