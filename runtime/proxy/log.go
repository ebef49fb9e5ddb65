package proxy

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/mailbox"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// severities returns the log levels, the least severe first.
func severities() []mcp.LoggingLevel {
	return []mcp.LoggingLevel{
		mcp.LoggingLevelDebug, mcp.LoggingLevelInfo, mcp.LoggingLevelNotice, mcp.LoggingLevelWarning,
		mcp.LoggingLevelError, mcp.LoggingLevelCritical, mcp.LoggingLevelAlert, mcp.LoggingLevelEmergency,
	}
}

// logLevel returns the log level of a modern request as an index of severities(), or -1 if it wants
// no log messages.
func logLevel(req *session.Request) int {
	if !req.Traits().LogInRequests {
		return -1
	}
	meta, err := req.Meta()
	if err != nil || meta.LogLevel == nil {
		return -1
	}
	return slices.Index(severities(), *meta.LogLevel)
}

// wantsLogs reports whether a modern request wants log messages.
func wantsLogs(req *session.Request) bool { return logLevel(req) >= 0 }

// logged passes a log message of the upstream to the first modern request that wants it. It drops a
// message that no request wants.
func (x *connection) logged(params json.RawMessage) {
	text, _ := textOf(params, "level")
	severity := slices.Index(severities(), mcp.LoggingLevel(text))
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, call := range x.calls {
		req := call.request()
		if call.logs == nil || req == nil || logLevel(req) > severity {
			continue
		}
		if !call.logs.TryPut(logMessage{req, slices.Clone(params)}, len(params)) {
			x.l.c.p.log.Debug("log message dropped", "upstream", x.l.up.Name)
		}
		return
	}
}

// logMessage is a log message on its way to a modern request.
type logMessage struct {
	to     *session.Request
	params json.RawMessage
}

// Limits of the log messages that a modern request has not read.
const (
	maxLogs     = 1000
	maxLogBytes = 4 << 20
)

// newLogs returns a mailbox for the log messages of one call. A client that does not read its
// messages delays no other request that shares the connection to the upstream.
func (l *link) newLogs() *mailbox.Mailbox[logMessage] {
	return &mailbox.Mailbox[logMessage]{
		Handle: func(m logMessage) {
			l.c.notify(m.to.Internals(boundary.Caller{}).NewContext(l.c.ctx), mcp.MethodNotificationsMessage, m.params)
		},
		Spawn:    func(f func()) bool { l.c.p.upstream.Go(f); return true }, // ends with the request, or when all are sent
		MaxItems: maxLogs, MaxBytes: maxLogBytes,
	}
}

// sendLogs waits until the log messages of the call are sent, or ctx ends.
func (c *call) sendLogs(ctx context.Context) {
	if c.logs == nil {
		return
	}
	if c.logs.Wait(ctx); ctx.Err() != nil {
		c.logs.Close()
	}
}

// setLogLevel makes an upstream with sessions send the log messages that a modern request wants. It
// does not reduce those that others want.
func (x *connection) setLogLevel(ctx context.Context, req *session.Request) {
	level := logLevel(req)
	if level < 0 || !x.session.PeerServes(mcp.MethodLoggingSetLevel) {
		return
	}
	current := x.session.Server() // differs after the upstream has lost its session, and with that the level
	x.mu.Lock()
	enough := x.levelSetAt == current && x.level <= level
	if !enough {
		x.level, x.levelSetAt = level, current
	}
	x.mu.Unlock()
	if enough {
		return
	}
	if _, err := x.session.Call(ctx, mcp.MethodLoggingSetLevel, &mcp.SetLevelRequestParams{Level: severities()[level]}); err != nil {
		x.mu.Lock()
		x.levelSetAt = nil
		x.mu.Unlock()
		x.l.c.p.log.Warn("log level not set", "upstream", x.l.up.Name, "error", boundary.ErrorText(err))
	}
}

// withLogLevel adds the log level of a session to the params of a request to an upstream without
// sessions.
func (c *client) withLogLevel(params json.RawMessage) json.RawMessage {
	c.mu.Lock()
	level, ok := textOf(c.level, "level")
	c.mu.Unlock()
	if !ok {
		return params
	}
	with, err := methods.AddMeta(params, modern.MetaLogLevel, session.Raw(quote(level)))
	if err != nil {
		return params
	}
	return with
}

// methodFlush is the method of a notification that the proxy sends to itself.
const methodFlush = "mcpwire/flush"

// flushes reports whether the result of a request waits for the log messages before it. A session
// with a log level may be that of another proxy, whose client wants them before its result. The
// result of a call that creates a task does not wait: notifications of the task may be waiting for
// it.
func (l *link) flushes(req *session.Request) bool {
	if wantsLogs(req) {
		return true
	}
	_, asTask := req.Internals(boundary.Caller{}).Task()
	return !asTask && l.c.hasLevel()
}

// maxFlush limits how long a request waits for the notifications before its result.
const maxFlush = time.Second

// flush waits until the notifications that have arrived before are passed on: a modern client
// receives none after the result.
func (x *connection) flush(ctx context.Context) {
	done := make(chan struct{})
	x.mu.Lock()
	x.flushes++
	n := x.flushes
	x.flushing[n] = done
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		delete(x.flushing, n)
		x.mu.Unlock()
	}()
	x.session.Internals(boundary.Caller{}).Handle(ctx, &session.Request{Method: methodFlush, Params: json.RawMessage(`{"n":"` + strconv.FormatInt(n, 10) + `"}`)})
	timer := time.NewTimer(maxFlush) // the notification may be dropped
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	case <-x.session.Done():
	}
}

// flushed ends a call of flush.
func (x *connection) flushed(params json.RawMessage) {
	text, _ := textOf(params, "n")
	n, err := strconv.ParseInt(text, 10, 64)
	x.mu.Lock()
	defer x.mu.Unlock()
	if done := x.flushing[n]; err == nil && done != nil {
		close(done)
		delete(x.flushing, n)
	}
}
