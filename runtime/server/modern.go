package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// newResponder sets the Responder of modern requests.
func (s *Server) newResponder() {
	s.modern = &peer{s: s} // requests of all principals share it, so it must have no state
	s.limits = newPrincipalLimits(&s.cfg)
	info := mcp.Implementation{Name: s.cfg.Info.Name, Title: s.cfg.Info.Title, Version: s.cfg.Info.Version}
	if text, err := codec.Marshal(&info); err == nil && !s.cfg.Features.OmitServerInfo {
		s.serverInfo = text
	}
	cfg := s.cfg.Session
	cfg.Handler = s.modern.methods(s.modern.handler())
	cfg.Receiving = slices.Concat(s.middleware, []session.Middleware{s.finish}, cfg.Receiving)
	cfg.Receiving = append(cfg.Receiving, s.receiveModern, receiver.Extension(receiver.ExtensionOptions{Manager: s.extensionTasks, Support: s.modern.extensionSupport}))
	cfg.ExtensionMethods = receiver.ExtensionMethods()
	s.responder = session.NewResponder(&cfg)
}

// servesModern reports whether the server serves revisions without sessions.
func (s *Server) servesModern() bool {
	named := s.cfg.Session.Revisions
	return named == nil || slices.ContainsFunc(named, func(rev mcp.Revision) bool { return rev.Traits().Sessionless })
}

// receiveModern is the innermost receiving middleware of modern requests. It enforces
// [Limits.Calls]. It rejects requests with too few scopes, and methods of features that the
// server has not declared (MCP, "Server Discovery").
func (s *Server) receiveModern(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if err := s.admitModern(ctx, req); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

// admitModern returns an error if receiveModern must reject the request.
func (s *Server) admitModern(ctx context.Context, req *session.Request) error {
	if s.cfg.Limits.Calls > 0 && (s.limited(req) || req.Method == mcp.MethodSubscriptionsListen) && !allow(s.limits.of(account(ctx)).calls) {
		return tooManyCalls()
	}
	if err := s.permit(ctx, req.Method, req.Params); err != nil {
		return err
	}
	m, ok := mcp.LookupMethod(req.Method)
	if !ok {
		return nil
	}
	name := m.Needs(req.Revision())
	if name == "" {
		return nil
	}
	d, err := s.discovery()
	if err == nil && !d.result.Capabilities.Declares(name) {
		err = jsonrpc.MethodNotFound(req.Method)
	}
	return err
}

// finish is the outermost receiving middleware of modern requests. It completes results.
func (s *Server) finish(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		result, err := next(ctx, req)
		if err != nil {
			return nil, err
		}
		return s.complete(req, result), nil
	}
}

// discovery is a result of server/discover. It is immutable.
type discovery struct {
	features uint64 // Server.features at the time
	tasks    bool   // the Tasks extension is declared
	result   *mcp.DiscoverResult
	text     encoded
}

// encoded is the JSON text of a result.
type encoded []byte

// EncodeJSON writes the text.
func (t encoded) EncodeJSON(w *wire.Writer) { w.LitBytes(t) }

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
	hasTasks := result.Capabilities.Tasks != nil && s.tasks.Load() != nil
	if err := replaceTasks(&result.Capabilities, hasTasks); err != nil {
		return nil, err
	}
	if !s.cfg.Features.OmitServerInfo {
		result.Meta = &mcp.ResultMetaObject{ServerInfo: &s.cfg.Info}
	}
	for _, rev := range s.responder.Supported() {
		result.SupportedVersions = append(result.SupportedVersions, string(rev))
	}
	hint := s.hint(mcp.MethodServerDiscover)
	result.TTLMs, result.CacheScope = hint.ttl.Milliseconds(), hint.scope
	d := &discovery{features: features, tasks: hasTasks, result: mcp.Project(rev, result)}
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

// complete adds the members that all results of modern revisions have: the kind of the result, the
// server info and, for some methods, caching hints. Members that the result already has are kept.
func (s *Server) complete(req *session.Request, result codec.Encoder) codec.Encoder {
	if d := s.discovered.Load(); d != nil && result == codec.Encoder(d.result) {
		return d.text
	}
	if result == nil {
		result = encoded(`{}`)
	}
	return &completed{s, req, s.hint(req.Method), result}
}

// completed is a result with the members that complete adds.
type completed struct {
	s      *Server
	req    *session.Request
	hint   cacheHint
	result codec.Encoder
}

// Unwrap returns the result without the added members, for middleware that looks at results.
func (c *completed) Unwrap() codec.Encoder { return c.result }

// EncodeJSON writes the added members, then those of the result.
func (c *completed) EncodeJSON(w *wire.Writer) {
	w.Begin()
	if isTyped(c.req.Method, c.result) {
		c.encodeServerInfo(w)
		w.EndWith(c.result)
		return
	}
	if isBare(c.result) {
		w.KeyText(`,"resultType":"`, modern.ResultComplete)
		c.encodeServerInfo(w)
		c.hint.encode(w)
		w.EndWith(c.result)
		return
	}
	text, err := c.withServerInfo()
	if err != nil {
		w.Fail("", err)
		return
	}
	kind, found := codec.Member(text, "resultType")
	if !found {
		w.KeyText(`,"resultType":"`, modern.ResultComplete)
	} else if !c.mayBe(kind) {
		w.Fail("", fmt.Errorf("server: %s: resultType %s is not defined by the protocol or by an extension that both sides declare", c.req.Method, boundary.Text(string(kind), maxQuotedBytes)))
		return
	}
	_, hasTTL := codec.Member(text, "ttlMs")
	_, hasScope := codec.Member(text, "cacheScope")
	if !hasTTL && !hasScope && (!found || string(kind) == `"`+modern.ResultComplete+`"`) {
		c.hint.encode(w)
	}
	w.EndWith(encoded(text))
}

// mayBe reports whether the result may be of a kind, given as JSON. Kinds that the protocol does
// not define belong to an extension that both sides have declared (MCP basic, "ResultType").
func (c *completed) mayBe(kind json.RawMessage) bool {
	switch string(kind) {
	case `"` + modern.ResultComplete + `"`:
		return true
	case `"` + modern.ResultInputRequired + `"`:
		return modern.TakesInput(c.req.Method)
	}
	d, err := c.s.discovery()
	client := c.req.ClientCapabilities()
	if err != nil || client == nil || len(kind) == 0 || kind[0] != '"' {
		return false
	}
	shared := false
	codec.ReadPart(d.result.Capabilities.Extensions, func(r *wire.Reader) {
		r.Object()
		for id, more := r.NextKey(); more && !shared; id, more = r.NextKey() {
			shared = declaresExtension(client, string(id))
			r.Skip()
		}
	})
	return shared
}

// encodeServerInfo writes a _meta with the server info, if there is one.
func (c *completed) encodeServerInfo(w *wire.Writer) {
	if c.s.serverInfo == nil {
		return
	}
	w.Key(`,"_meta":`)
	w.Begin()
	w.Key(`,"` + modern.MetaServerInfo + `":`)
	w.LitBytes(c.s.serverInfo)
	w.End()
}

// withServerInfo returns the text of the result, with the server info in its _meta. A server info
// that is already there is kept. withServerInfo checks the keys of the _meta, except those of raw
// text, which may come from a third party.
func (c *completed) withServerInfo() (json.RawMessage, error) {
	text, err := codec.Marshal(c.result)
	if err != nil {
		return nil, err
	}
	meta, _ := codec.Member(text, "_meta")
	if _, raw := c.result.(session.Raw); !raw {
		err = checkMetaKeys(meta)
	}
	if _, found := codec.Member(meta, modern.MetaServerInfo); found || err != nil || c.s.serverInfo == nil {
		return text, err
	}
	return session.AddMeta(text, modern.MetaServerInfo, encoded(c.s.serverInfo))
}

// checkMetaKeys checks the keys of a _meta; nil stands for none.
func checkMetaKeys(meta json.RawMessage) (err error) {
	codec.ReadPart(meta, func(r *wire.Reader) {
		r.Object()
		for key, more := r.NextKey(); more && err == nil; key, more = r.NextKey() {
			err = session.CheckMetaKey(string(key))
			r.Skip()
		}
	})
	return err
}

// checkMeta returns an error if a result with this _meta cannot be sent.
func checkMeta(meta *mcp.ResultMetaObject) error {
	if meta == nil {
		return nil
	}
	text, err := boundary.Marshal(meta)
	if err == nil {
		err = checkMetaKeys(text)
	}
	return err
}

// isTyped reports whether a result has a resultType that the method allows, and no _meta.
func isTyped(method string, result codec.Encoder) bool {
	switch r := result.(type) {
	case *mcp.InputRequiredResult:
		return r.Meta == nil && modern.TakesInput(method)
	case *receiver.ExtensionTask:
		return true
	case *tasks.UpdateTaskResult:
		return r.Meta == nil
	case *tasks.CancelTaskResult:
		return r.Meta == nil
	}
	return false
}

// isBare reports whether a result is of a type of the protocol and has none of the members that
// complete adds. Most results are.
func isBare(result codec.Encoder) bool {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		return r.Meta == nil && r.ResultType == nil
	case *mcp.CompleteResult:
		return r.Meta == nil && r.ResultType == nil
	case *mcp.GetPromptResult:
		return r.Meta == nil && r.ResultType == nil
	case *mcp.ListPromptsResult:
		return r.Meta == nil && r.ResultType == nil && r.TTLMs == nil && r.CacheScope == nil
	case *mcp.ListResourcesResult:
		return r.Meta == nil && r.ResultType == nil && r.TTLMs == nil && r.CacheScope == nil
	case *mcp.ListResourceTemplatesResult:
		return r.Meta == nil && r.ResultType == nil && r.TTLMs == nil && r.CacheScope == nil
	case *mcp.ListToolsResult:
		return r.Meta == nil && r.ResultType == nil && r.TTLMs == nil && r.CacheScope == nil
	case *mcp.ReadResourceResult:
		return r.Meta == nil && r.ResultType == nil && r.TTLMs == nil && r.CacheScope == nil
	}
	return false
}
