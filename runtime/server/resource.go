package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/server/internal/results"
	"github.com/mcpwire/mcpwire/runtime/server/internal/schemas"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// CodeResourceNotFound is the error code of requests for a resource that does not exist (MCP
// resources, "Error Handling").
const CodeResourceNotFound = -32002

// Resource is the argument of a [ReadFunc]: the resource that a client reads.
type Resource struct {
	URI string
	// Vars are the decoded values of the template's variables, or nil for a resource with a fixed
	// URI. No value has a ".." path segment.
	Vars url.Values
}

// ReadFunc is a Go function that reads a resource. Return [NotFound] if the resource does not
// exist.
//
// Out is string for a text, []byte for binary data, or [mcp.AnyResourceContents]. It may also be a
// slice of these, such as for the files of a folder. Contents without a URI or a media type get
// those of the resource.
type ReadFunc[Out any] func(ctx context.Context, c *Call, r Resource) (Out, error)

// readFunc is a ReadFunc whose output is converted.
type readFunc = ReadFunc[[]mcp.AnyResourceContents]

// reader returns a function that calls f and converts its output.
func reader[Out any](f ReadFunc[Out]) (readFunc, error) {
	if f == nil {
		return nil, errors.New("nil function")
	}
	var give any
	switch any(*new(Out)).(type) {
	case string:
		give = func(s string) []mcp.AnyResourceContents { return []mcp.AnyResourceContents{textContents(s)} }
	case []byte:
		give = func(b []byte) []mcp.AnyResourceContents { return []mcp.AnyResourceContents{blobContents(b)} }
	case []string:
		give = func(list []string) []mcp.AnyResourceContents { return contentsOf(list, textContents) }
	case [][]byte:
		give = func(list [][]byte) []mcp.AnyResourceContents { return contentsOf(list, blobContents) }
	case []mcp.AnyResourceContents:
		give = func(list []mcp.AnyResourceContents) []mcp.AnyResourceContents { return list }
	default:
		t := reflect.TypeFor[Out]()
		if t != reflect.TypeFor[mcp.AnyResourceContents]() {
			return nil, fmt.Errorf("output: want string, []byte, mcp.AnyResourceContents or a slice of these, got %v", t)
		}
		give = func(c mcp.AnyResourceContents) []mcp.AnyResourceContents { return []mcp.AnyResourceContents{c} }
	}
	convert := give.(func(Out) []mcp.AnyResourceContents)
	return func(ctx context.Context, c *Call, r Resource) ([]mcp.AnyResourceContents, error) {
		out, err := f(ctx, c, r)
		if err != nil {
			return nil, err
		}
		return convert(out), nil
	}, nil
}

func textContents(text string) mcp.AnyResourceContents {
	return &mcp.TextResourceContents{Text: text}
}

func blobContents(data []byte) mcp.AnyResourceContents {
	return &mcp.BlobResourceContents{Blob: base64.StdEncoding.EncodeToString(data)}
}

func contentsOf[T any](list []T, convert func(T) mcp.AnyResourceContents) []mcp.AnyResourceContents {
	out := make([]mcp.AnyResourceContents, len(list))
	for i, v := range list {
		out[i] = convert(v)
	}
	return out
}

// NotFound returns the error for a resource that does not exist. Its code is
// [CodeResourceNotFound].
func NotFound(uri string) error {
	data, err := codec.Marshal(value.Of(map[string]string{"uri": uri}))
	if err != nil { // uri is not UTF-8
		data = nil
	}
	return &jsonrpc.Error{Code: CodeResourceNotFound, Message: fmt.Sprintf("resource not found: %q", uri), Data: data}
}

// ResourceOption is an option of [AddResource]: [DefineResource], [CacheContents], [RequireScopes],
// [VisibleTo] or [WrapResource].
type ResourceOption interface{ forResource(*resource) }

type resourceOption func(*resource)

func (f resourceOption) forResource(r *resource) { f(r) }

// DefineResource sets members of the resource's description that [AddResource] has no argument for,
// such as the description, the media type, the size and annotations. F receives the description
// with the URI and the name of the call. It must not change the URI.
func DefineResource(f func(*mcp.Resource)) ResourceOption {
	if f == nil {
		return nil
	}
	return resourceOption(func(r *resource) { f(&r.def) })
}

// resource is a resource of a server. It is immutable.
type resource struct {
	common
	def     mcp.Resource
	read    readFunc
	caching cacheHint // of the option CacheContents
	// wrapped calls the middleware, then readFrom. It is nil if there is no middleware.
	wrapped    ResourceHandler
	middleware []func(next ResourceHandler) ResourceHandler // of the option WrapResource
}

// AddResource adds a resource with a fixed URI. [DefineResource] sets the other members of its
// description. It is a fault if the protocol does not admit the description, or if there is a resource
// with that URI ([ErrExists]): the resource is not added, and the server does not start; see
// [Handle.Err].
func AddResource[Out any](s *Server, uri, name string, read ReadFunc[Out], options ...ResourceOption) *Handle[mcp.Resource] {
	f, err := reader(read)
	h, err := s.addResource(resource{def: mcp.Resource{URI: uri, Name: name}, read: f}, err, options)
	return added(s, h, err)
}

// addResource adds a resource. Fault is why its function is invalid, or nil.
func (s *Server) addResource(declared resource, fault error, options []ResourceOption) (*Handle[mcp.Resource], error) {
	uri := declared.def.URI
	switch {
	case s == nil:
		return nil, errNoServer
	case fault != nil:
		return nil, fmt.Errorf("server: resource %q: %w", uri, fault)
	}
	for _, o := range options {
		if o == nil {
			return nil, fmt.Errorf("server: resource %q: nil option", uri)
		}
		o.forResource(&declared)
	}
	if err := declared.caching.check(); err != nil {
		return nil, fmt.Errorf("server: resource %q: %w", uri, err)
	}
	if declared.def.URI != uri {
		return nil, fmt.Errorf("server: resource %q: DefineResource changed the URI to %q", uri, declared.def.URI)
	}
	build := func(def mcp.Resource) (*resource, error) {
		if err := s.checkURI(def.URI); err != nil {
			return nil, fmt.Errorf("server: resource %q: %w", def.Name, err)
		}
		if def.Name == "" {
			return nil, fmt.Errorf("server: resource %q: no name", def.URI)
		}
		if err := def.Validate(latest()); err != nil {
			return nil, fmt.Errorf("server: resource %q: %w", def.URI, err)
		}
		r := declared
		r.def = def
		var err error
		if r.wrapped, err = s.wrapRead(r.middleware, r.read, def.MIMEType); err != nil {
			return nil, fmt.Errorf("server: resource %q: %w", def.URI, err)
		}
		return &r, nil
	}
	return addTo(s.resources, declared.def, func(d *mcp.Resource) string { return d.URI }, build, func(r *resource) mcp.Resource { return r.def })
}

// uriSyntax matches absolute URIs (RFC 3986). Its group is the part between the scheme and the
// query or fragment.
var uriSyntax = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:((?:[A-Za-z0-9._~!$&'()*+,;=:@/\[\]-]|%[0-9A-Fa-f]{2})*)(?:[?#](?:[A-Za-z0-9._~!$&'()*+,;=:@/?#\[\]-]|%[0-9A-Fa-f]{2})*)?$`)

// checkURI rejects URIs that are longer than [Limits.URI], before any other work on them, and
// those that checkURISyntax rejects.
func (s *Server) checkURI(uri string) error {
	if len(uri) > s.cfg.Limits.URI {
		return fmt.Errorf("invalid URI: %d bytes long, the limit is %d", len(uri), s.cfg.Limits.URI)
	}
	return checkURISyntax(uri)
}

// checkURISyntax rejects texts that are not absolute URIs, and paths with a ".." segment (MCP
// resources, "Security Considerations"). It does not use package url, which rejects hosts that some
// schemes allow.
func checkURISyntax(uri string) error {
	parts := uriSyntax.FindStringSubmatch(uri)
	if parts == nil {
		return errors.New("invalid URI: want an absolute URI (RFC 3986)")
	}
	path, err := url.PathUnescape(parts[1])
	if err != nil || hasParentSegment(path) {
		return errors.New(`invalid URI: path has a ".." segment`)
	}
	return nil
}

// hasParentSegment reports whether a path has a ".." segment.
func hasParentSegment(path string) bool {
	for segment := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		if segment == ".." {
			return true
		}
	}
	return false
}

// found is a resource that a client reads.
type found struct {
	request ResourceRequest
	read    readFunc
	mime    *string // nil if unknown
	wrapped ResourceHandler
	caching cacheHint
	open    bool // it is visible to all callers
}

// find returns the resource with a URI. It fails when the context of the call ends.
func (s *Server) find(c *Call, uri string) (found, error) {
	if err := s.checkURI(uri); err != nil {
		return found{}, invalidParams("%v", err)
	}
	if e, ok := s.resources.find(uri); ok && s.resources.shows(c, e) {
		r := e.value
		return found{ResourceRequest{URI: uri, Resource: &r.def}, r.read, r.def.MIMEType, r.wrapped, r.caching, s.resources.open(e)}, nil
	}
	for _, e := range *s.templates.enabled.Load() {
		if c.ctx.Err() != nil {
			return found{}, context.Cause(c.ctx)
		}
		if vars, ok := e.value.match(uri); ok && s.templates.shows(c, e) {
			t := e.value
			return found{ResourceRequest{URI: uri, Vars: vars, Template: &t.def}, t.read, t.def.MIMEType, t.wrapped, t.caching, s.templates.open(e)}, nil
		}
	}
	return found{}, NotFound(uri)
}

// wrapRead returns a handler that calls middleware and then reads a resource. It returns nil if
// there is no middleware.
func (s *Server) wrapRead(own []func(next ResourceHandler) ResourceHandler, read readFunc, mime *string) (ResourceHandler, error) {
	return wrap(s.cfg.Middleware.Resources, own, func(ctx context.Context, c *Call, r *ResourceRequest) (*mcp.ReadResourceResult, error) {
		return readFrom(ctx, c, read, Resource{r.URI, r.Vars}, mime)
	})
}

// ReadResource implements resources/read (MCP resources, "Reading Resources").
func (h *handler) ReadResource(ctx context.Context, params *mcp.ReadResourceRequestParams) (mcp.ReadResourceOutcome, error) {
	c := newCall(ctx, h.p)
	c.rounds = true
	r, err := h.p.s.find(c, params.URI)
	if err != nil {
		return nil, err
	}
	if err := c.resume(params.URI, params.RequestState, params.InputResponses); err != nil {
		return nil, err
	}
	returned := false
	defer c.exit(&returned)
	result, err := r.run(ctx, c)
	returned = true
	required, fault := c.end(params.URI, err)
	switch {
	case required != nil:
		return required, nil
	case fault != nil:
		err = fault
	case err == nil && r.wrapped != nil:
		err = checkRead(c, r.request.URI, result)
	}
	if _, fault := c.compensate(err != nil, result, err); fault != nil {
		err = fault
	}
	if err != nil {
		return nil, err // an untyped nil: the outcome is an interface
	}
	if r.caching != (cacheHint{}) && c.traits().CacheHints && result.TTLMs == nil && result.CacheScope == nil {
		hint := h.p.s.contentsHint(&r)
		result = new(*result)
		result.TTLMs, result.CacheScope = new(hint.TTL.Milliseconds()), &hint.Scope
	}
	return result, nil
}

// run calls the middleware of the resource, then readFrom.
func (r *found) run(ctx context.Context, c *Call) (result *mcp.ReadResourceResult, err error) {
	defer boundary.Catch(&err)
	if r.wrapped == nil {
		return readFrom(ctx, c, r.read, Resource{r.request.URI, r.request.Vars}, r.mime)
	}
	return r.wrapped(ctx, c, new(r.request))
}

// readFrom calls the function of a resource, and completes and checks its contents.
func readFrom(ctx context.Context, c *Call, read readFunc, r Resource, mime *string) (*mcp.ReadResourceResult, error) {
	contents, err := read(ctx, c, r)
	if err != nil {
		return nil, err
	}
	result := &mcp.ReadResourceResult{Contents: make([]mcp.AnyResourceContents, len(contents))}
	for i, content := range contents {
		result.Contents[i] = withURIAndType(content, r.URI, mime)
	}
	return result, checkRead(c, r.URI, result)
}

// checkRead returns an error if a result must not be sent. It logs invalid contents.
func checkRead(c *Call, uri string, result *mcp.ReadResourceResult) error {
	if result == nil {
		return internalError("the resource has no result")
	}
	for i, content := range result.Contents {
		if fault := checkContents(content); fault != nil {
			err := internalError("contents %d of the resource are invalid: %s", i, schemas.FirstFault(fault.Error()))
			c.p.s.cfg.Logger.Error("resource contents rejected", "uri", uri, "error", err)
			return err
		}
	}
	if fault := results.CheckMeta(result.Meta); fault != nil {
		err := internalError("the result of the resource is invalid: %s", schemas.FirstFault(fault.Error()))
		c.p.s.cfg.Logger.Error("resource result rejected", "uri", uri, "error", err)
		return err
	}
	return nil
}

// withURIAndType returns contents with the URI and media type of their resource if they lack them.
func withURIAndType(c mcp.AnyResourceContents, uri string, mime *string) mcp.AnyResourceContents {
	if isNil(c) {
		return nil
	}
	switch c := c.(type) {
	case *mcp.TextResourceContents:
		out := *c
		out.URI, out.MIMEType = orURI(c.URI, uri), orMIME(c.MIMEType, mime)
		return &out
	case *mcp.BlobResourceContents:
		out := *c
		out.URI, out.MIMEType = orURI(c.URI, uri), orMIME(c.MIMEType, mime)
		return &out
	}
	return c
}

func orURI(uri, other string) string {
	if uri == "" {
		return other
	}
	return uri
}

func orMIME(mime, other *string) *string {
	if mime == nil {
		return other
	}
	return mime
}

// ListResources implements resources/list: the static resources, then those that the list callbacks
// of templates return (MCP resources, "Listing Resources").
func (h *handler) ListResources(ctx context.Context, params *mcp.PaginatedRequestParams) (*mcp.ListResourcesResult, error) {
	const list = mcp.MethodResourcesList
	from, err := h.p.s.parsePlace(list, params)
	if err != nil {
		return nil, err
	}
	result := &mcp.ListResourcesResult{Resources: []mcp.Resource{}}
	size, c := h.p.s.cfg.Features.PageSize, newCall(ctx, h.p)
	if from.source == "" {
		entries, more, err := h.p.s.resources.after(c, from.key, size)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			result.Resources = append(result.Resources, e.value.def)
		}
		if more {
			result.NextCursor = new(h.p.s.cursor(place{list: list, key: entries[len(entries)-1].key}))
			return result, nil
		}
	}
	for _, e := range h.p.s.listed(from.source) {
		if !h.p.s.templates.shows(c, e) {
			continue
		}
		if len(result.Resources) >= size {
			result.NextCursor = new(h.p.s.cursor(place{list: list, source: e.key}))
			return result, nil
		}
		inner := ""
		if e.key == from.source {
			inner = from.inner
		}
		found, next, err := e.value.list(ctx, c, inner)
		if err != nil {
			return nil, err
		}
		result.Resources = append(result.Resources, found...)
		if next != "" {
			result.NextCursor = new(h.p.s.cursor(place{list: list, source: e.key, inner: next}))
			return result, nil
		}
	}
	return result, nil
}

// Subscribe implements resources/subscribe (MCP resources, "Subscriptions").
func (h *handler) Subscribe(ctx context.Context, params *mcp.SubscribeRequestParams) (*mcp.Result, error) {
	if _, err := h.p.s.find(newCall(ctx, h.p), params.URI); err != nil {
		return nil, err
	}
	unlock, err := h.p.lockSubscription(ctx, params.URI)
	if err != nil {
		return nil, err
	}
	defer unlock()
	added, err := h.p.subscribe(ctx, params.URI)
	if err != nil {
		return nil, err
	}
	if added {
		if err := h.p.callSubscribe(ctx, params.URI); err != nil {
			h.p.unsubscribe(params.URI)
			return nil, err
		}
	}
	if err := h.p.persist(ctx); err != nil {
		if added {
			h.unsubscribe(ctx, params.URI)
		}
		return nil, err
	}
	return new(mcp.Result), nil
}

// Unsubscribe implements resources/unsubscribe.
func (h *handler) Unsubscribe(ctx context.Context, params *mcp.UnsubscribeRequestParams) (*mcp.Result, error) {
	if err := h.p.s.checkURI(params.URI); err != nil {
		return nil, invalidParams("%v", err)
	}
	unlock, err := h.p.lockSubscription(ctx, params.URI)
	if err != nil {
		return nil, err
	}
	defer unlock()
	h.unsubscribe(ctx, params.URI)
	if err := h.p.persist(ctx); err != nil {
		return nil, err
	}
	return new(mcp.Result), nil
}

// unsubscribe ends a subscription, if there is one, and calls [Hooks.Unsubscribe].
func (h *handler) unsubscribe(ctx context.Context, uri string) {
	if h.p.unsubscribe(uri) {
		h.p.callUnsubscribe(ctx, newCall(ctx, h.p), uri)
	}
}

// callSubscribe calls [Hooks.Subscribe] for a new subscription, and returns its error.
func (p *peer) callSubscribe(ctx context.Context, uri string) (err error) {
	defer boundary.Catch(&err)
	if p.s.cfg.Hooks.Subscribe == nil {
		return nil
	}
	return p.s.cfg.Hooks.Subscribe(ctx, newCall(ctx, p), uri)
}

// callUnsubscribe calls [Hooks.Unsubscribe] for a subscription that has ended.
func (p *peer) callUnsubscribe(ctx context.Context, c *Call, uri string) {
	if p.s.cfg.Hooks.Unsubscribe == nil {
		return
	}
	err := boundary.Run(func() error {
		p.s.cfg.Hooks.Unsubscribe(ctx, c, uri)
		return nil
	})
	boundary.Report(p.s.cfg.Logger, "Unsubscribe panicked", err, "uri", uri)
}

// lockSubscription locks the subscription to a resource, so that Subscribe and Unsubscribe are
// called one at a time, in the order of the changes. It first waits until Subscribe was called for
// the restored subscriptions. It fails when ctx ends.
func (p *peer) lockSubscription(ctx context.Context, uri string) (unlock func(), err error) {
	if err := p.waitRestored(ctx); err != nil {
		return nil, err
	}
	for {
		p.mu.Lock()
		other := p.subscriptionLocks[uri]
		if other == nil {
			break
		}
		p.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer p.mu.Unlock()
	if p.subscriptionLocks == nil {
		p.subscriptionLocks = map[string]chan struct{}{}
	}
	mine := make(chan struct{})
	p.subscriptionLocks[uri] = mine
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.subscriptionLocks, uri)
		close(mine)
	}, nil
}

// subscribe records a subscription of the principal of ctx. It returns false if the session already
// has it.
func (p *peer) subscribe(ctx context.Context, uri string) (added bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isSubscribed(uri) {
		return false, nil
	}
	if p.ended {
		return false, session.ErrClosed
	}
	if account := p.account(ctx); account != p.subscriber {
		p.subscriber = strings.Clone(account)
	}
	if err := p.s.listeners.reserve(p.subscriber, sizeOf(uri)); err != nil {
		return false, err
	}
	p.addSubscription(uri, p.subscriber)
	p.principal = session.Principal(ctx)
	return true, nil
}

func invalidRequest(format string, limit int) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, limit)}
}

// addSubscription records a subscription that the quota counts for an account. The caller must hold
// mu.
func (p *peer) addSubscription(uri, account string) {
	if p.subscriptions == nil {
		p.subscriptions = map[string]string{}
	}
	p.subscriptions[strings.Clone(uri)] = account // uri may share the memory of the whole message
	p.stateChanges++
}

// unsubscribe removes a subscription. It reports whether there was one.
func (p *peer) unsubscribe(uri string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	account, removed := p.subscriptions[uri]
	if removed {
		delete(p.subscriptions, uri)
		p.s.listeners.quota.Release(account, sizeOf(uri))
		p.stateChanges++
	}
	return removed
}

// isSubscribed reports whether there is a subscription. The caller must hold mu.
func (p *peer) isSubscribed(uri string) bool {
	_, ok := p.subscriptions[uri]
	return ok
}
