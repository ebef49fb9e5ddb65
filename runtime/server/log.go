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

// levels are those of RFC 5424, the least severe first.
func levels() []mcp.LoggingLevel {
	return []mcp.LoggingLevel{
		mcp.LoggingLevelDebug, mcp.LoggingLevelInfo, mcp.LoggingLevelNotice, mcp.LoggingLevelWarning,
		mcp.LoggingLevelError, mcp.LoggingLevelCritical, mcp.LoggingLevelAlert, mcp.LoggingLevelEmergency,
	}
}

// severity returns how severe a level is.
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
	if err := h.p.keep(ctx); err != nil {
		h.p.setLevel(before)
		return nil, err
	}
	return new(mcp.Result), nil
}

// setLevel sets the level that the client wants, "" for that of the server, and returns the one before.
func (p *peer) setLevel(level mcp.LoggingLevel) (before mcp.LoggingLevel) {
	n, ok := severity(level)
	if !ok {
		n, _ = severity(p.s.cfg.LogLevel) // which New has looked at
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level.Store(int32(n))
	if before = p.set; before != level {
		p.set = level
		p.changes++
	}
	return before
}

// Log sends a log message to the client, if it is severe enough for that. Logger names what logs, "" for nothing; data
// is written by package codec/value. It must hold no secrets. Messages beyond [Config.LogRate] are dropped, and all if
// the server has not declared logging.
func (c *Call) Log(ctx context.Context, level mcp.LoggingLevel, logger string, data any) error {
	n, ok := severity(level)
	if !ok {
		return &levelError{level}
	}
	if !c.logs(n) || c.p.logs != nil && !c.p.logs.Allow() {
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

// logs reports whether messages of a severity go to the client.
func (c *Call) logs(severity int) bool {
	return severity >= int(c.p.level.Load())
}

// levelError says that a level is none of the protocol's.
type levelError struct{ level mcp.LoggingLevel }

func (e *levelError) Error() string { return "server: unknown level " + string(e.level) }

// Logger returns a logger whose records go to the client as log messages: objects with the message
// as msg and the attributes. An attribute that is called msg as well becomes fields.msg, and a
// value without a JSON form becomes the text that package fmt prints. Values between slog's levels
// stand for the levels that slog lacks: notice is 2 above info, critical 4 above error, alert 8 and
// emergency 12.
func (c *Call) Logger(name string) *slog.Logger {
	return slog.New(&logHandler{c: c, name: name})
}

// logHandler is a slog.Handler that sends to a client.
type logHandler struct {
	c      *Call
	name   string
	groups []string
	attrs  []inGroups
}

// inGroups is an attribute and the groups that were open when it came.
type inGroups struct {
	groups []string
	attr   slog.Attr
}

// levelOf returns the level of the protocol that a level of slog stands for.
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
	return h.c.logs(n)
}

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	data := map[string]any{}
	for _, a := range h.attrs {
		put(data, a.groups, a.attr)
	}
	r.Attrs(func(a slog.Attr) bool {
		put(data, h.groups, a)
		return true
	})
	if attr, taken := data["msg"]; taken {
		data["fields.msg"] = attr // msg is the message itself
	}
	data["msg"] = strings.ToValidUTF8(r.Message, "\uFFFD")
	return h.c.Log(ctx, levelOf(r.Level), h.name, data)
}

// put puts an attribute into the object of its groups.
func put(data map[string]any, groups []string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			groups = append(slices.Clone(groups), a.Key)
		}
		for _, member := range v.Group() {
			put(data, groups, member)
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
	data[strings.ToValidUTF8(a.Key, "\uFFFD")] = plain(v)
}

// plain returns the value to write for v. Without a JSON form, that is the text that package fmt
// prints.
func plain(v slog.Value) any {
	switch v.Kind() {
	case slog.KindBool, slog.KindInt64, slog.KindUint64, slog.KindTime:
		return v.Any()
	case slog.KindString:
		return strings.ToValidUTF8(v.String(), "\uFFFD")
	case slog.KindDuration:
		return v.Duration().String()
	}
	x := v.Any()
	if readable, ok := withTexts(x, 0); ok {
		x = readable
	}
	text, err := boundary.Marshal(value.Of(x))
	if err != nil {
		return strings.ToValidUTF8(fmt.Sprintf("%+v", x), "\uFFFD")
	}
	return json.RawMessage(text)
}

// maxNesting is how deep maps and lists may be nested.
const maxNesting = 10

// withTexts returns an error as its text, and maps and lists with the texts of the errors in them; ok is false if x is
// none of these.
func withTexts(x any, depth int) (out any, ok bool) {
	each := func(member any) any {
		if readable, ok := withTexts(member, depth+1); ok {
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
		out.attrs = append(out.attrs, inGroups{h.groups, a})
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
