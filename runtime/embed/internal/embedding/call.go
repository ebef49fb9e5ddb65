package embedding

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// metaClient is the name of the member of _meta that holds the Client in the stored params of a
// durable task.
const metaClient = "com.mcpwire/client"

// withClient returns the params to store if a tools/call becomes a task. It adds the client to the
// params of a durable task.
func (e *Engine) withClient(in *Incoming) (json.RawMessage, error) {
	name, _ := toolName(in.Params)
	if t := e.tool(name); t == nil || !t.Restartable || t.Runner != "" {
		return in.Params, nil
	}
	return methods.AddMeta(in.Params, metaClient, value.Of(&in.Client))
}

// withoutClient removes the client from stored params. It returns the params for the SDK and the
// client, which is zero if there is none.
func withoutClient(params json.RawMessage) (json.RawMessage, Client) {
	var c Client
	if !bytes.Contains(params, []byte(metaClient)) && bytes.IndexByte(params, '\\') < 0 {
		return params, c
	}
	meta, _ := codec.Member(params, "_meta")
	stored, ok := codec.Member(meta, metaClient)
	if !ok {
		return params, c
	}
	codec.Unmarshal(stored, value.Of(&c), codec.AllowSize(stored)...) // fails only for text of a client
	if meta = jsonedit.With(meta, metaClient, nil); string(meta) == `{}` {
		meta = nil
	}
	return jsonedit.With(params, "_meta", meta), c
}

// call is one run of a tool.
type call struct {
	e       *Engine
	ctx     context.Context
	log     *rerun.Log
	tool    *embed.Tool
	token   mcp.ProgressToken
	client  Client
	modern  bool
	outer   *task.Run // of the request, if its client runs in a task of this process
	pending rerun.Pending
	plain   bool        // it began as a plain call, which is pending
	ended   atomic.Bool // the tool has returned
}

// serveCall is the handler of requests that are tasks, or may become one.
func (e *Engine) serveCall(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	name, _ := toolName(req.Params)
	c := &call{e: e, ctx: ctx, tool: e.tool(name), token: req.Internals(boundary.Caller{}).ProgressToken(), modern: req.Traits().InputInResults}
	params, stored := withoutClient(req.Params)
	to := &Call{Params: params, Request: c.request, Notify: c.notify}
	if o := originOf(ctx); o != nil {
		c.client, c.outer = o.client, o.task
		to.ID, to.Header = o.session, o.header
		pending, ok := rerun.PendingFrom(ctx)
		c.pending, c.plain = pending, ok && pending != o.call
	} else {
		c.client = stored
	}
	run := c.task()
	if run == nil && !c.plain {
		return nil, errPlain
	}
	if c.tool == nil { // only if options change while a task is stored
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the tool can no longer be called as a task"}
	}
	to.Client, to.Modern = c.client, c.tool.Rounds
	if to.Modern {
		to.Params = modernParams(to.Params, c.client)
	}
	if to.ID == "" && run != nil {
		to.ID = run.ID()
	}
	o := rerun.Options{Package: "embed", Task: run, Rounds: c.plain, Logger: e.logger()}
	if c.plain && c.tool.Restartable {
		o.Promote = c.pending.Promote
	}
	c.log = rerun.New(ctx, o)
	c.ctx = rerun.NewContext(ctx, c.log)
	if c.plain {
		c.pending.BeforeTask(c.log.BeforeTask)
	}
	in, release := c.log.HandlerContext(c.ctx)
	returned := false
	defer func() {
		if !returned { // the tool has called runtime.Goexit
			c.ended.Store(true)
			c.log.Exit()
		}
	}()
	result, err := c.rounds(in, to)
	if originOf(ctx) == nil {
		result, err = c.awaitTool(in, to, name, result, err)
	}
	returned = true
	release()
	c.ended.Store(true)
	if _, _, fault := c.log.End(); fault != nil {
		err = c.invalid(name, fault)
	}
	first, fault := c.log.Undo(err != nil || isError(result), session.Raw(result), err)
	switch {
	case fault != nil:
		err = fault
	case first != nil && first.Error != nil:
		err = first.Error
	case first != nil:
		result, err = first.Result, nil
	}
	if err != nil {
		return nil, err
	}
	if c.modern && c.task() == nil {
		if _, ok := codec.Member(result, "resultType"); !ok {
			return typed(result), nil
		}
	}
	return session.Raw(result), nil
}

// Pauses before the SDK is asked again for a tool that it does not have: the first and the later
// ones, in which the task is parked by default. They end before lackTime, so that a parked task goes
// to another member of a fleet.
const (
	firstToolPause = 5 * time.Second
	toolPause      = 90 * time.Second
)

// awaitTool calls the tool again as long as the SDK does not have it. Result and err are the outcome
// of the first call. The task was stored before: the tool may be added later, another member of a
// fleet may have it, or the next version of the program, and the task fails when it expires.
func (c *call) awaitTool(ctx context.Context, to *Call, name string, result json.RawMessage, err error) (json.RawMessage, error) {
	run := c.task()
	for pause := firstToolPause; ; pause = toolPause {
		if _, unknown := errors.AsType[*UnknownToolError](err); !unknown {
			return result, err
		}
		c.e.lack(name)
		if why, _ := run.Internals(boundary.Caller{}).Undoing(); why != taskrules.UndoNone { // has pauses of its own
			return result, err
		}
		if pause == firstToolPause {
			c.e.logger().Warn("tool not found", "task", run.ID(), "tool", boundary.Text(name, maxQuoted))
		}
		run.SetStatusMessage(c.ctx, waitsFor(name))
		if err := run.Sleep(c.ctx, time.Now().Add(pause)); err != nil {
			return nil, err
		}
		run.SetStatusMessage(c.ctx, "")
		result, err = c.rounds(ctx, to)
	}
}

// invalid returns the error of the call after [rerun.Log.End] has failed with fault. It logs a
// fault of the handler.
func (c *call) invalid(name string, fault error) error {
	if !rerun.Invalid(fault) || c.ctx.Err() != nil {
		return fault
	}
	c.e.logger().Error("handler not continued", "name", boundary.Text(name, maxQuoted), "error", fault)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: " + fault.Error()}
}

// maxQuoted is how many bytes of text of a client are logged.
const maxQuoted = 256

// callTool calls the tool once.
func (c *call) callTool(ctx context.Context, to *Call) (result json.RawMessage, err error) {
	defer boundary.Catch(&err)
	result, err = c.e.backend.CallTool(ctx, to)
	if err == nil {
		err = checkResult(result)
	}
	if err == nil && c.ctx.Err() != nil && isError(result) {
		// The handler has failed because its context has ended, and the SDK has made a result of
		// the error. If the Engine closes, a durable task must not end with this result.
		err = context.Cause(c.ctx)
	}
	return result, err
}

// isError reports whether the result of a tool is an error for the model.
func isError(result json.RawMessage) bool {
	yes, _ := codec.Member(result, "isError")
	return string(yes) == "true"
}

// checkResult returns an error if a result is not an object.
func checkResult(result json.RawMessage) error {
	if err := checkObject(result); err != nil || len(result) == 0 {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the result of the tool is not a JSON object"}
	}
	return nil
}

// typed is the result of a plain modern call in which the SDK has set no resultType. Its encoding
// adds one.
type typed json.RawMessage

// EncodeJSON implements [codec.Encoder].
func (t typed) EncodeJSON(w *wire.Writer) {
	w.Begin()
	w.KeyText(`,"resultType":"`, modern.ResultComplete)
	w.EndWith(session.Raw(t))
}

// task returns the task that the call is now, or nil for a plain call.
func (c *call) task() *task.Run {
	if run, ok := task.FromContext(c.ctx); ok && run != c.outer {
		return run
	}
	return nil
}

// notify serves Call.Notify. Notifications of a task are dropped if the client cannot be reached.
func (c *call) notify(ctx context.Context, method string, params json.RawMessage) (err error) {
	defer boundary.Catch(&err)
	if c.ended.Load() {
		return nil
	}
	if err := checkObject(params); err != nil {
		return err
	}
	peer, ok := session.PeerFrom(c.ctx)
	if !ok {
		return nil
	}
	progress := method == mcp.MethodNotificationsProgress
	if progress && c.token.IsZero() {
		return nil
	}
	if !progress && c.log.Repeats() { // an earlier run has sent it
		return nil
	}
	if progress && c.task() != nil {
		var p mcp.ProgressNotificationParams
		if err := codec.Unmarshal(params, &p, codec.AllowSize(params)...); err != nil {
			return err
		}
		if p.ProgressToken != c.token {
			return nil
		}
		report := session.Progress{Value: p.Progress, Total: p.Total}
		if p.Message != nil {
			report.Message = *p.Message
		}
		peer.Report(report)
		return nil
	}
	if progress {
		var token codec.Scalar
		text, _ := codec.Member(params, "progressToken")
		if codec.Unmarshal(text, &token) != nil || token != c.token {
			return nil
		}
	}
	both := lazyctx.WithBoth(ctx, c.ctx)
	defer both.Release()
	peer.Notify(both, method, raw(params))
	return nil
}

// request serves Call.Request: it sends an input request to the client. A plain call becomes a task
// first, because only tasks of revisions without sessions can wait for input.
func (c *call) request(ctx context.Context, method string, params json.RawMessage) (answer json.RawMessage, err error) {
	defer boundary.Catch(&err)
	switch method {
	case mcp.MethodElicitationCreate, mcp.MethodSamplingCreateMessage, mcp.MethodRootsList:
	default:
		return nil, jsonrpc.MethodNotFound(method)
	}
	if err := checkObject(params); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	if c.ended.Load() {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the tool has returned"}
	}
	if missing := c.client.missing(method, params); missing != "" {
		e := &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the client has not declared the capability " + missing}
		if c.modern {
			e.Code, e.Data = modern.CodeMissingCapability, modern.RequiredCapabilities(missing)
		}
		return nil, e
	}
	both := lazyctx.WithBoth(ctx, c.ctx)
	defer both.Release()
	if c.task() == nil {
		if c.tool.Rounds {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the tool asks for input by its result"}
		}
		if err := c.pending.Promote(both); err != nil {
			return nil, c.failed(both, err)
		}
	}
	if run := c.task(); run.Durable() {
		answer, err = c.log.Ask(both, &rerun.Request{Method: method, Params: params})
	} else if err = rerun.InStep(ctx, method); err == nil {
		// A handler that never runs again may make input requests in any order, also at once.
		answer, err = run.Call(both, method, raw(params))
	}
	return answer, c.failed(both, err)
}

// failed returns the error of an input request as the handler gets it.
func (c *call) failed(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if _, ok := errors.AsType[*task.LimitError](err); ok {
		return task.WireError(err)
	}
	return err
}

// missing returns the capability that an input request needs and the client has not declared, or
// "". It returns "" if the client is unknown.
func (c *Client) missing(method string, params json.RawMessage) string {
	declared, known := codec.Member(c.Initialize, "capabilities")
	if !known {
		return ""
	}
	needs := []string{"roots"}
	switch method {
	case mcp.MethodSamplingCreateMessage:
		needs = []string{"sampling"}
		if has(params, "tools") || has(params, "toolChoice") {
			needs = append(needs, "tools")
		}
	case mcp.MethodElicitationCreate:
		needs = []string{"elicitation"}
		mode, _ := codec.Member(params, "mode")
		url := string(mode) == `"url"`
		switch {
		case url:
			needs = append(needs, "url")
		case has(declared, "elicitation", "url"): // an empty object declares forms
			needs = append(needs, "form")
		}
	}
	if has(declared, needs...) {
		return ""
	}
	return strings.Join(needs, ".")
}

// raw returns params as an Encoder, or nil if they are empty.
func raw(params json.RawMessage) codec.Encoder {
	if len(params) == 0 {
		return nil
	}
	return session.Raw(params)
}
