package client

import (
	"context"
	"fmt"
	"log/slog"

	"golang.org/x/time/rate"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// Client is a connection to one server. [Connect], [Command] and [Dial] create it; the zero value
// is not usable. It is safe for concurrent use. Methods that send a request return the errors of
// [session.Session.Call].
type Client struct {
	options     Options
	tasks       *requestor.Tasks
	limit       *rate.Limiter // of the server's input requests
	origin      string        // URL of the server; empty unless created by Dial
	urls        urls
	outputs     outputs
	serverState serverState
	log         *slog.Logger

	completions *rate.Limiter

	tools     list[mcp.Tool]
	resources list[mcp.Resource]
	templates list[mcp.ResourceTemplate]
	prompts   list[mcp.Prompt]

	opened  chan struct{} // closed when session is set
	session *session.Session
}

// Connect connects to the server at the other end of conn and returns once the handshake is
// complete. The client owns conn, even if Connect fails. Connect returns the errors of
// [session.Connect]; ctx limits Connect only, not the session.
func Connect(ctx context.Context, conn transport.Conn, o *Options) (*Client, error) {
	return newClient(o).connect(ctx, conn)
}

func newClient(o *Options) *Client {
	c := &Client{options: valueOf(o), limit: newInputLimit(valueOf(o).InputRequestsPerMinute), opened: make(chan struct{})}
	c.completions = rate.NewLimiter(completionsPerSecond, completionsPerSecond)
	c.log = boundary.Logger(c.options.Session.Logger)
	if c.options.MaxToolRounds == 0 {
		c.options.MaxToolRounds = DefaultMaxToolRounds
	}
	caller := func() jsonrpc.Caller { return c.session }
	c.tools.caller, c.resources.caller, c.templates.caller, c.prompts.caller = caller, caller, caller, caller
	c.tools.fetch, c.resources.fetch, c.templates.fetch, c.prompts.fetch = toolPage, resourcePage, templatePage, promptPage
	c.tools.onCache = c.outputs.clear
	return c
}

func (c *Client) connect(ctx context.Context, conn transport.Conn) (*Client, error) {
	cfg := c.options.config()
	cfg.Handler = c.handler(cfg.Handler)
	cfg.Sending = append(cfg.Sending, c.recordURLs)
	cfg.Reopened = c.reopened(cfg.Reopened)
	c.tasks = requestor.Attach(&cfg)
	if c.options.Tasks != nil {
		receiver.Attach(&cfg, receiver.Options{Manager: c.options.Tasks})
	}
	var version uint64
	if c.options.Roots != nil {
		version = c.options.Roots.version()
	}
	s, err := session.Connect(ctx, conn, c.options.initializeParams(), &cfg)
	if err != nil {
		return nil, err
	}
	c.session = s
	close(c.opened)
	if c.options.Roots != nil {
		if err := c.options.Roots.announceTo(ctx, s, version); err != nil {
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
			c.restoreServerState()
		default: // Connect has not returned, so there is no server state to restore
		}
		if next != nil {
			next(result)
		}
	}
}

// Command starts a server as a child process and connects to it over its standard input and output.
// Closing the client ends the process.
func Command(ctx context.Context, server stdio.Command, o *Options) (*Client, error) {
	process, err := stdio.Start(server)
	if err != nil {
		return nil, err
	}
	return Connect(ctx, process, o)
}

// Dial connects to the server at serverURL over Streamable HTTP, or over the older HTTP with SSE if
// the server supports only that; see [Options].HTTP.
//
// If the session is lost, for example because the server restarts, the client opens a new session.
// It then discards its cached lists and restores the subscriptions and the log level that were set
// with [Client.Subscribe] and [Client.SetLogLevel]. It repeats these requests while the server is
// overloaded or unavailable, up to 20 times in a row.
func Dial(ctx context.Context, serverURL string, o *Options) (*Client, error) {
	c := newClient(o)
	c.origin = serverURL
	conn, err := streamable.Dial(serverURL, c.options.HTTP)
	if err != nil {
		return nil, err
	}
	return c.connect(ctx, conn)
}

// completionsPerSecond limits the requests for completions (MCP completion, "Security").
const completionsPerSecond = 10

// newInputLimit returns the limiter of a server's input requests.
func newInputLimit(perMinute int) *rate.Limiter {
	switch {
	case perMinute < 0:
		return rate.NewLimiter(rate.Inf, 0)
	case perMinute == 0:
		perMinute = DefaultInputRequestsPerMinute
	}
	return rate.NewLimiter(rate.Limit(perMinute)/60, perMinute)
}

// Session returns the client's session, for operations that Client has no method for.
func (c *Client) Session() *session.Session { return c.session }

// Server returns the server info: the server's name, capabilities and instructions. If a lost
// session was replaced, it returns the server info of the new session. The result must not be
// modified.
func (c *Client) Server() *mcp.InitializeResult { return c.session.Server() }

// Revision returns the negotiated protocol revision.
func (c *Client) Revision() mcp.Revision { return c.session.Revision() }

// Close ends the session at once; see [session.Session.Close]. Tasks continue on the server. Close
// waits for handlers and progress callbacks to return; call [session.Session.StartClose] from within
// one of them instead.
func (c *Client) Close() error { return c.session.Close() }

// Shutdown ends the session in order; see [session.Session.Shutdown].
func (c *Client) Shutdown(ctx context.Context) error { return c.session.Shutdown(ctx) }

// Wait waits for the end of the session and returns its cause; see [session.Session.Wait].
func (c *Client) Wait() error { return c.session.Wait() }

// With returns typed calls for every method of the protocol, made with the given options. They are
// plain requests: lists are not cached, tools run as tasks only if the params say so, and
// subscriptions and the log level are not restored in a later session.
func (c *Client) With(opts ...session.Option) mcp.ToServer {
	return mcp.ToServer{Caller: c.session.With(opts...)}
}

// Ping sends a ping to the server and waits for the response.
func (c *Client) Ping(ctx context.Context) error { return c.session.Ping(ctx) }

// ReadResource reads a resource (MCP resources, "Reading Resources").
func (c *Client) ReadResource(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
	return resultAs[*mcp.ReadResourceResult](c.With().ReadResource(ctx, &mcp.ReadResourceRequestParams{URI: uri}))
}

// Subscribe subscribes to changes of a resource. [Options].Notifications receives them in
// ResourceUpdated (MCP resources, "Subscriptions").
func (c *Client) Subscribe(ctx context.Context, uri string) error {
	fresh := c.serverState.subscribe(uri)
	_, err := c.With().Subscribe(ctx, &mcp.SubscribeRequestParams{URI: uri})
	if err != nil && fresh {
		c.serverState.unsubscribe(uri)
	}
	return err
}

// Unsubscribe ends the subscription to a resource.
func (c *Client) Unsubscribe(ctx context.Context, uri string) error {
	c.serverState.unsubscribe(uri)
	_, err := c.With().Unsubscribe(ctx, &mcp.UnsubscribeRequestParams{URI: uri})
	return err
}

// GetPrompt returns a prompt, rendered with arguments (MCP prompts, "Getting a Prompt"). Arguments
// may be nil.
func (c *Client) GetPrompt(ctx context.Context, name string, arguments map[string]string) (*mcp.GetPromptResult, error) {
	return resultAs[*mcp.GetPromptResult](c.With().GetPrompt(ctx, &mcp.GetPromptRequestParams{Name: name, Arguments: arguments}))
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
	r, err := c.With().Complete(ctx, p)
	if err != nil {
		return nil, err
	}
	return &r.Completion, nil
}

// SetLogLevel requests log messages of the given level and of more severe ones (MCP logging,
// "Setting Log Level").
func (c *Client) SetLogLevel(ctx context.Context, level mcp.LoggingLevel) error {
	before := c.serverState.setLevel(&level, nil)
	_, err := c.With().SetLevel(ctx, &mcp.SetLevelRequestParams{Level: level})
	if err != nil {
		c.serverState.setLevel(before, &level)
	}
	return err
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
