package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// levels returns the levels of RFC 5424, the least severe first.
func levels() []mcp.LoggingLevel {
	return []mcp.LoggingLevel{
		mcp.LoggingLevelDebug, mcp.LoggingLevelInfo, mcp.LoggingLevelNotice, mcp.LoggingLevelWarning,
		mcp.LoggingLevelError, mcp.LoggingLevelCritical, mcp.LoggingLevelAlert, mcp.LoggingLevelEmergency,
	}
}

// severity returns the index of a level in levels; ok is false if the level is unknown.
func severity(level mcp.LoggingLevel) (n int, ok bool) {
	n = slices.Index(levels(), level)
	return n, n >= 0
}

// SetLevel implements logging/setLevel (MCP logging, "Setting Log Level").
func (h *handler) SetLevel(ctx context.Context, params *mcp.SetLevelRequestParams) (*mcp.Result, error) {
	if _, ok := severity(params.Level); !ok {
		return nil, invalidParams("unknown level: %q", params.Level)
	}
	before := h.p.setLevel(params.Level)
	if err := h.p.persist(ctx); err != nil {
		h.p.setLevel(before)
		return nil, err
	}
	return new(mcp.Result), nil
}

// setLevel sets the client's level, and returns the previous one. The level "" means
// [Features.LogLevel].
func (p *peer) setLevel(level mcp.LoggingLevel) (before mcp.LoggingLevel) {
	n, ok := severity(level)
	if !ok {
		n, _ = severity(p.s.cfg.Features.LogLevel) // New has checked it
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level.Store(int32(n))
	if before = p.clientLevel; before != level {
		p.clientLevel = level
		p.stateChanges++
	}
	return before
}

// Log sends a log message to the client, unless it is less severe than the level of the session. If
// the call runs as a task, that is the session over which the message would be sent. In revisions
// without sessions, it is less severe than the level that the request asks for; most requests ask
// for no messages.
// Logger names the logger and may be empty. Package codec/value encodes data, which must not
// contain secrets. Log drops messages beyond [Limits.Logs], and all messages if the server has
// not declared logging. It fails if the level is unknown or data cannot be encoded.
func (c *Call) Log(ctx context.Context, level mcp.LoggingLevel, logger string, data any) error {
	n, ok := severity(level)
	if !ok {
		return &levelError{level}
	}
	if !c.logs(n) || c.repeats() || !c.allowLog() {
		return nil
	}
	text, err := boundary.Marshal(value.Of(data))
	if err != nil {
		return err
	}
	params := &mcp.LoggingMessageNotificationParams{Level: level, Data: text}
	if logger != "" {
		params.Logger = &logger
	}
	to, ok := session.PeerFrom(c.ctx)
	if !ok {
		return nil
	}
	err = to.Notify(ctx, mcp.MethodNotificationsMessage, params)
	if _, undeclared := errors.AsType[*session.CapabilityError](err); undeclared {
		return nil
	}
	return err
}

// logs reports whether messages of a severity are sent to the client of the call.
func (c *Call) logs(severity int) bool {
	if req, ok := session.FromContext(c.ctx); ok && req.Traits().LogInRequests {
		return c.p.s.logsTo(req, severity)
	}
	return c.recipient().logs(severity)
}

// logsTo reports whether messages of a severity are sent to the client of a modern request (MCP
// logging, "Per-request log level").
func (s *Server) logsTo(req *session.Request, least int) bool {
	meta, err := req.Meta()
	if err != nil || meta.LogLevel == nil {
		return false
	}
	n, ok := severity(*meta.LogLevel)
	d, err := s.discovery()
	return ok && least >= n && err == nil && d.result.Capabilities.Declares("logging")
}

// allowLog reports whether a message is within [Limits.Logs].
func (c *Call) allowLog() bool {
	return allow(c.p.s.limits.of(c.recipient().account(c.ctx)).logs)
}

// recipient returns the peer of the session over which a notification would be sent. A task may
// have outlived the session that created it.
func (c *Call) recipient() *peer {
	to, _ := session.PeerFrom(c.ctx)
	if moving, ok := to.(interface{ Session() *session.Session }); ok {
		if sess := moving.Session(); sess != nil && sess != c.p.session.Load() {
			if p := c.p.s.peerOf(sess); p != nil {
				return p
			}
		}
	}
	return c.p
}

// logs reports whether messages of a severity are sent to the client.
func (p *peer) logs(severity int) bool { return severity >= int(p.level.Load()) }

// levelError reports a level that the protocol does not define.
type levelError struct{ level mcp.LoggingLevel }

func (e *levelError) Error() string { return fmt.Sprintf("server: unknown log level %q", e.level) }

// Logger returns a logger that sends its records to the client as log messages. The data of a
// message is an object with the attributes, and with the text of the record as msg. An attribute
// named msg becomes fields.msg. A value without a JSON form becomes the text that package fmt
// prints. Values between slog's levels stand for the levels that slog lacks: notice is 2 above
// info, critical 4 above error, alert 8 and emergency 12.
func (c *Call) Logger(name string) *slog.Logger {
	return slog.New(&logHandler{to: callLog{c}, name: name})
}

// Logger returns a logger that sends its records to the clients of all sessions as log messages,
// for events that belong to no call. Clients without a session do not receive them. Records have
// the form of [Call.Logger]. All clients with a session receive them: log nothing that concerns
// only one. For each session, the logger drops records below its level and beyond [Limits.Logs].
// It also drops records while 1000 of them, or 1 MiB, are pending for the session. The logger does
// not wait for clients.
func (s *Server) Logger(name string) *slog.Logger {
	return slog.New(&logHandler{to: sessionsLog(s.allPeers), name: name})
}

// SessionLogger returns a logger like that of [Server.Logger] for the client of one session. It
// discards all records if the server does not have the session, or the session has ended.
func (s *Server) SessionLogger(sess *session.Session, name string) *slog.Logger {
	p := s.peerOf(sess)
	if p == nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(&logHandler{to: sessionsLog(func() []*peer { return []*peer{p} }), name: name})
}

// logTarget receives the records of a logHandler.
type logTarget interface {
	// logs reports whether messages of a severity are sent.
	logs(severity int) bool
	log(ctx context.Context, level mcp.LoggingLevel, logger string, data any) error
}

// callLog sends log messages to the client of a call.
type callLog struct{ c *Call }

func (l callLog) logs(severity int) bool { return l.c.logs(severity) }

func (l callLog) log(ctx context.Context, level mcp.LoggingLevel, logger string, data any) error {
	return l.c.Log(ctx, level, logger, data)
}

// sessionsLog returns the peers to which log messages outside of calls are sent.
type sessionsLog func() []*peer

func (peers sessionsLog) logs(severity int) bool {
	return slices.ContainsFunc(peers(), func(p *peer) bool { return p.logs(severity) })
}

func (peers sessionsLog) log(_ context.Context, level mcp.LoggingLevel, logger string, data any) error {
	text, err := boundary.Marshal(value.Of(data))
	if err != nil {
		return err
	}
	message := &mcp.LoggingMessageNotificationParams{Level: level, Data: text}
	if logger != "" {
		message.Logger = &logger
	}
	n, _ := severity(level)
	for _, p := range peers() {
		p.queueLog(n, message)
	}
	return nil
}

// logHandler is a slog.Handler that sends records to clients.
type logHandler struct {
	to     logTarget
	name   string
	groups []string
	attrs  []groupedAttr
}

// groupedAttr is an attribute and the groups that were open when it was added.
type groupedAttr struct {
	groups []string
	attr   slog.Attr
}

// levelOf converts a level of slog to one of the protocol.
func levelOf(l slog.Level) mcp.LoggingLevel {
	switch {
	case l < slog.LevelInfo:
		return mcp.LoggingLevelDebug
	case l < slog.LevelInfo+2:
		return mcp.LoggingLevelInfo
	case l < slog.LevelWarn:
		return mcp.LoggingLevelNotice
	case l < slog.LevelError:
		return mcp.LoggingLevelWarning
	case l < slog.LevelError+4:
		return mcp.LoggingLevelError
	case l < slog.LevelError+8:
		return mcp.LoggingLevelCritical
	case l < slog.LevelError+12:
		return mcp.LoggingLevelAlert
	}
	return mcp.LoggingLevelEmergency
}

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool {
	n, _ := severity(levelOf(l))
	return h.to.logs(n)
}

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	data := map[string]any{}
	for _, a := range h.attrs {
		addAttr(data, a.groups, a.attr)
	}
	r.Attrs(func(a slog.Attr) bool {
		addAttr(data, h.groups, a)
		return true
	})
	if attr, taken := data["msg"]; taken {
		data["fields.msg"] = attr // msg is the text of the record
	}
	data["msg"] = strings.ToValidUTF8(r.Message, "\uFFFD")
	return h.to.log(ctx, levelOf(r.Level), h.name, data)
}

// addAttr adds an attribute to the object of its groups.
func addAttr(data map[string]any, groups []string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			groups = append(slices.Clone(groups), a.Key)
		}
		for _, member := range v.Group() {
			addAttr(data, groups, member)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	for _, g := range groups {
		g = strings.ToValidUTF8(g, "\uFFFD")
		inner, ok := data[g].(map[string]any)
		if !ok {
			inner = map[string]any{}
			data[g] = inner
		}
		data = inner
	}
	data[strings.ToValidUTF8(a.Key, "\uFFFD")] = loggable(v)
}

// loggable returns the value to encode for v: the text that package fmt prints if v has no JSON
// form.
func loggable(v slog.Value) any {
	switch v.Kind() {
	case slog.KindBool, slog.KindInt64, slog.KindUint64, slog.KindTime:
		return v.Any()
	case slog.KindString:
		return strings.ToValidUTF8(v.String(), "\uFFFD")
	case slog.KindDuration:
		return v.Duration().String()
	}
	x := v.Any()
	if readable, ok := errorsAsText(x, 0); ok {
		x = readable
	}
	text, err := boundary.Marshal(value.Of(x))
	if err != nil {
		return strings.ToValidUTF8(fmt.Sprintf("%+v", x), "\uFFFD")
	}
	return json.RawMessage(text)
}

// maxNesting limits how deep errorsAsText looks into maps and lists.
const maxNesting = 10

// errorsAsText returns the text of an error, or a copy of a map or list in which errors are
// replaced by their texts. It returns false for any other x.
func errorsAsText(x any, depth int) (out any, ok bool) {
	each := func(member any) any {
		if readable, ok := errorsAsText(member, depth+1); ok {
			return readable
		}
		return member
	}
	switch x := x.(type) {
	case error:
		return boundary.ErrorText(x), true
	case []error:
		list := make([]string, len(x))
		for i, err := range x {
			list[i] = boundary.ErrorText(err)
		}
		return list, true
	case []any:
		if depth == maxNesting {
			return fmt.Sprintf("%T", x), true // it may contain itself
		}
		list := make([]any, len(x))
		for i, member := range x {
			list[i] = each(member)
		}
		return list, true
	case map[string]any:
		if depth == maxNesting {
			return fmt.Sprintf("%T", x), true // it may contain itself
		}
		members := make(map[string]any, len(x))
		for name, member := range x {
			members[name] = each(member)
		}
		return members, true
	}
	return nil, false
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	out.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		out.attrs = append(out.attrs, groupedAttr{h.groups, a})
	}
	return &out
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	out := *h
	out.groups = append(slices.Clone(h.groups), name)
	return &out
}
