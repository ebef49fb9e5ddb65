package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/time/rate"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/follow"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Client is a connection to one server. [Connect], [Command] and [Dial] create it; the zero value
// is not usable. It is safe for concurrent use. Methods that send a request return the errors of
// [session.Session.Call].
type Client struct {
	options     Options
	tasks       *requestor.Tasks
	limit       *rate.Limiter // of the server's input requests
	urls        urls
	outputs     outputs
	serverState serverState
	log         *slog.Logger

	completions *rate.Limiter

	cache    cache            // of results in revisions without sessions
	mirrors  mirrors          // of tools
	listener *follow.Listener // of lists and resources in revisions without sessions; nil in a session
	// taskListener has a subscription of its own. A change that the server is sending while a
	// subscription is replaced is lost, and tasks replace theirs often. No change of a task is lost,
	// because a subscription begins with the states of its tasks.
	taskListener *follow.Listener
	overHTTP     bool // the connection is over HTTP

	// removeKnown removes the server from Options.Cache.Servers. It is nil if the cached state was
	// not used.
	removeKnown func()

	tools     list[mcp.Tool]
	resources list[mcp.Resource]
	templates list[mcp.ResourceTemplate]
	prompts   list[mcp.Prompt]

	opened  chan struct{} // closed when session is set
	session *session.Session
	// Callers without options, and calls that of tools/call.
	requests, calls jsonrpc.Caller
}

// Connect connects to the server at the other end of conn and returns once the handshake is
// complete. The client owns conn, even if Connect fails. Connect returns the errors of
// [session.Connect]; ctx limits Connect only, not the session.
func Connect(ctx context.Context, conn transport.Conn, o *Options) (*Client, error) {
	c, err := newClient(o)
	if err != nil {
		boundary.Run(conn.Close) // the error of the options says more than its own
		return nil, err
	}
	return c.connect(ctx, conn)
}

// newClient returns a client that is not connected. It fails if the options are invalid.
func newClient(o *Options) (*Client, error) {
	c := &Client{options: valueOf(o), opened: make(chan struct{})}
	if err := c.options.complete(); err != nil {
		return nil, err
	}
	c.limit = newInputLimit(c.options.Limits.InputRequests)
	c.completions = rate.NewLimiter(completionsPerSecond, completionsPerSecond)
	c.log = boundary.Logger(c.options.Session.Logger)
	c.cache.max = c.options.Cache.Bytes
	c.cache.partition = c.options.Cache.Partition
	if c.options.Auth != nil {
		c.options.HTTP.Auth = c.options.Auth
	}
	c.cache.private = c.options.Cache.Partition != nil || c.options.HTTP.Prepare == nil && c.options.HTTP.Auth == nil
	c.tools.init(c, mcp.MethodToolsList, c.toolPage, func(t *mcp.Tool) string { return t.Name })
	c.resources.init(c, mcp.MethodResourcesList, resourcePage, func(r *mcp.Resource) string { return r.URI })
	c.templates.init(c, mcp.MethodResourcesTemplatesList, templatePage, func(t *mcp.ResourceTemplate) string { return t.URITemplate })
	c.prompts.init(c, mcp.MethodPromptsList, promptPage, func(p *mcp.Prompt) string { return p.Name })
	c.tools.onCache = func() {
		c.outputs.clear()
		c.mirrors.clear()
	}
	return c, nil
}

func (c *Client) connect(ctx context.Context, conn transport.Conn) (*Client, error) {
	cfg := c.options.config()
	cfg.Handler = c.handler(cfg.Handler)
	cfg.Hooks.Sending = append(cfg.Hooks.Sending, c.recordURLs, c.addLogLevel)
	if !c.options.Features.NoTasks {
		cfg.Hooks.Sending = append(cfg.Hooks.Sending, c.withoutTasksExtension)
	}
	if c.removeKnown != nil {
		cfg.Hooks.Sending = append(cfg.Hooks.Sending, c.verifyKnown)
	}
	cfg.Hooks.Reopened = c.reopened(cfg.Hooks.Reopened)
	c.tasks = requestor.Internals(boundary.Caller{}).Attach(&cfg, c.respondToTask, c.watchTask)
	if c.options.Input.Tasks != nil {
		receiver.Attach(&cfg, receiver.Options{Manager: c.options.Input.Tasks})
	}
	var version uint64
	if c.options.Input.Roots != nil {
		version = c.options.Input.Roots.version()
	}
	s, err := session.Connect(ctx, conn, c.options.initializeParams(), &cfg)
	if err != nil {
		return nil, err
	}
	c.session = s
	c.overHTTP = s.Info().Protocol == "http"
	c.requests, c.calls = caller{c, s}, waiting{caller{c, s}}
	if s.Traits().TasksByServer {
		c.calls = waiting{caller{c, s.With(s.Internals(boundary.Caller{}).OnLate(c.cancelLate))}}
	}
	c.listener = follow.New(s, c.fetchedList, c.log)
	c.taskListener = follow.New(s, func(string) bool { return false }, c.log)
	close(c.opened)
	if s.Traits().Listens {
		if c.options.Notifications != nil {
			c.listener.Lists()
		}
		return c, nil
	}
	if c.options.Input.Roots != nil {
		if err := c.options.Input.Roots.announceTo(ctx, s, version); err != nil {
			c.log.Warn("roots change not announced", "error", err)
		}
	}
	return c, nil
}

// reopened returns the callback for a session that replaces a lost one. It calls next unless that
// is nil.
func (c *Client) reopened(next func(*mcp.InitializeResult)) func(*mcp.InitializeResult) {
	return func(result *mcp.InitializeResult) {
		c.invalidateLists() // the server may have been replaced by another one
		select {
		case <-c.opened:
			switch {
			case !c.session.Traits().Listens:
				c.restoreServerState()
			case c.options.Notifications != nil:
				c.listener.Lists()
			}
		default: // Connect has not returned, so there is no server state to restore
		}
		if next != nil {
			next(result)
		}
	}
}

// completionsPerSecond limits the requests for completions (MCP completion, "Security").
const completionsPerSecond = 10

// newInputLimit returns the limiter of a server's input requests. 0 means no limit.
func newInputLimit(perMinute int) *rate.Limiter {
	if perMinute == 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(perMinute)/60, perMinute)
}

// Session returns the client's session, for operations that Client has no method for. In revisions
// without sessions, the result of a tools/call may be a task; see [Client.With].
func (c *Client) Session() *session.Session { return c.session }

// Server returns the server info: the server's name, capabilities and instructions. If a lost
// session was replaced, it returns the server info of the new session. In a revision without
// sessions, it is that of the latest server/discover. The client sends one in Ping, when it
// restores a lost subscription, and before it fails a request because the server has not declared a
// capability, unless it has sent one in the last ten seconds. The result must not be modified.
func (c *Client) Server() *mcp.InitializeResult { return c.session.Server() }

// Revision returns the negotiated protocol revision.
func (c *Client) Revision() mcp.Revision { return c.session.Revision() }

// Close ends the session at once; see [session.Session.Close]. Tasks continue on the server. Close
// waits for handlers and progress callbacks to return, so one of these calls it in a new goroutine.
func (c *Client) Close() error { return c.session.Close() }

// Shutdown ends the session in order; see [session.Session.Shutdown].
func (c *Client) Shutdown(ctx context.Context) error { return c.session.Shutdown(ctx) }

// Wait waits for the end of the session and returns its cause; see [session.Session.Wait].
func (c *Client) Wait() error { return c.session.Wait() }

// With returns typed calls for every method of the protocol, made with the given options. They are
// plain requests: results are not cached, tools run as tasks only if the params say so,
// subscriptions and the log level are not restored in a later session.
//
// In revisions without sessions, an [*mcp.InputRequiredResult] is returned as it is, and so is the
// task that a server creates for a tools/call, unless [Features].NoTasks is set: it is a
// [*mcp.CallToolResult] without content, whose ResultType is "task" and whose Extra has the taskId.
// Pass that id to [Client.AttachTool] to wait for the result or to cancel the task.
func (c *Client) With(opts ...session.Option) mcp.ToServer {
	return mcp.ToServer{Caller: c.session.With(opts...)}
}

// Ping sends a ping to the server and waits for the response. In revisions without sessions, it
// sends server/discover.
func (c *Client) Ping(ctx context.Context) error { return c.session.Ping(ctx) }

// ReadResource reads a resource (MCP resources, "Reading Resources"). The error wraps [ErrUnknown]
// if the server has no resource with that URI.
func (c *Client) ReadResource(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
	r, err := resultAs[*mcp.ReadResourceResult](c.to().ReadResource(ctx, &mcp.ReadResourceRequestParams{URI: uri}))
	if err != nil && isNotFound(err, uri) {
		return nil, &unknownError{err}
	}
	return r, err
}

// Subscribe subscribes to changes of a resource. [Options].Notifications receives them in
// ResourceUpdated (MCP resources, "Subscriptions").
//
// In revisions without sessions, one request covers all subscriptions of the client. When it is
// lost, for example because the server restarts, the client sends it again, and then reports a
// change of each resource and list that it covers, because changes may have been missed.
func (c *Client) Subscribe(ctx context.Context, uri string) error {
	if c.session.Traits().Listens {
		return c.listener.Subscribe(ctx, uri)
	}
	fresh := c.serverState.subscribe(uri)
	_, err := c.With().Subscribe(ctx, &mcp.SubscribeRequestParams{URI: uri})
	if err != nil && fresh {
		c.serverState.unsubscribe(uri)
	}
	return err
}

// Unsubscribe ends the subscription to a resource.
func (c *Client) Unsubscribe(ctx context.Context, uri string) error {
	if c.session.Traits().Listens {
		c.listener.Unsubscribe(uri)
		return nil
	}
	c.serverState.unsubscribe(uri)
	_, err := c.With().Unsubscribe(ctx, &mcp.UnsubscribeRequestParams{URI: uri})
	return err
}

// GetPrompt returns a prompt, rendered with arguments (MCP prompts, "Getting a Prompt"). Arguments
// may be nil.
func (c *Client) GetPrompt(ctx context.Context, name string, arguments map[string]string) (*mcp.GetPromptResult, error) {
	return resultAs[*mcp.GetPromptResult](c.to().GetPrompt(ctx, &mcp.GetPromptRequestParams{Name: name, Arguments: arguments}))
}

// Complete returns suggestions for the value of an argument. The argument belongs to a prompt if
// ref is a [*mcp.PromptReference], or to a resource template if ref is a
// [*mcp.ResourceTemplateReference]. Given holds the arguments that already have a value; it may be
// nil. Call Complete when the user pauses, not on each key: it sends at most ten requests per
// second, and further calls block (MCP completion, "Requesting Completions").
func (c *Client) Complete(ctx context.Context, ref mcp.CompletionReference, argument, value string, given map[string]string) (*mcp.CompleteResultCompletion, error) {
	p := &mcp.CompleteRequestParams{Ref: ref, Argument: mcp.CompleteRequestParamsArgument{Name: argument, Value: value}}
	if len(given) > 0 {
		p.Context = &mcp.CompleteRequestParamsContext{Arguments: given}
	}
	if err := c.completions.Wait(ctx); err != nil {
		return nil, fmt.Errorf("client: complete: %w", err)
	}
	r, err := c.to().Complete(ctx, p)
	if err != nil {
		return nil, err
	}
	return &r.Completion, nil
}

// SetLogLevel requests log messages of the given level and of more severe ones (MCP logging,
// "Setting Log Level"). In revisions without sessions, it sends nothing: later requests carry the
// level, and the server logs while it serves them.
func (c *Client) SetLogLevel(ctx context.Context, level mcp.LoggingLevel) error {
	if c.session.Traits().LogInRequests {
		if !c.Server().Capabilities.Declares("logging") {
			return &session.CapabilityError{Method: mcp.MethodLoggingSetLevel, Capability: "logging", Revision: c.Revision()}
		}
		c.serverState.setLevel(&level, nil)
		return nil
	}
	before := c.serverState.setLevel(&level, nil)
	_, err := c.With().SetLevel(ctx, &mcp.SetLevelRequestParams{Level: level})
	if err != nil {
		c.serverState.setLevel(before, &level)
	}
	return err
}

// to returns typed calls that use the cache and respond to input requests.
func (c *Client) to(opts ...session.Option) mcp.ToServer {
	return mcp.ToServer{Caller: c.caller(opts...)}
}

// addLogLevel is sending middleware. In revisions without sessions it adds the log level to
// requests.
func (c *Client) addLogLevel(next session.Sender) session.Sender {
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		if !call.Notification && call.Session.Traits().LogInRequests {
			if level := c.serverState.logLevel(); level != nil {
				call.SetMeta(modern.MetaLogLevel, codec.StringScalar(string(*level)))
			}
		}
		return next(ctx, call)
	}
}

// unknownError is the error of a server that does not know an item. It wraps ErrUnknown, too.
type unknownError struct{ error }

func (e *unknownError) Unwrap() []error { return []error{e.error, ErrUnknown} }

// codeNotFound is the error code for an unknown resource in revisions with sessions.
const codeNotFound = -32002

// isNotFound reports whether a server has rejected a request because it has no resource with the
// URI (MCP resources, "Error Handling").
func isNotFound(err error, uri string) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != jsonrpc.CodeInvalidParams {
		return ok && e.Code == codeNotFound
	}
	raw, _ := codec.Member(e.Data, "uri")
	text, err := codec.Marshal(codec.StringScalar(uri))
	return err == nil && string(raw) == string(text)
}

// resultAs converts an outcome to T, the only result type that the revisions of sessions define for
// the request.
func resultAs[T, O any](outcome O, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	result, ok := any(outcome).(T)
	if !ok {
		return none, fmt.Errorf("client: unexpected result type %T", outcome)
	}
	return result, nil
}
