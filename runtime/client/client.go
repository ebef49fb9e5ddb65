package client

import (
	"context"
	"encoding/json"
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
// is not usable. Its methods may be called by many goroutines; those that send a request fail as
// [session.Session.Call] does.
type Client struct {
	options Options
	tasks   *requestor.Tasks
	limit   *rate.Limiter // of the server's requests to the user and the model
	origin  string        // URL of the server; "" if it has none
	urls    urls
	outputs outputs
	wishes  wishes
	log     *slog.Logger

	completions *rate.Limiter

	tools     list[mcp.Tool]
	resources list[mcp.Resource]
	templates list[mcp.ResourceTemplate]
	prompts   list[mcp.Prompt]

	opened  chan struct{} // closed when session is set
	session *session.Session
}

// Connect connects with the server at the other end of conn, which belongs to the client from now on.
// It fails as [session.Connect] does; ctx bounds Connect alone.
func Connect(ctx context.Context, conn transport.Conn, o *Options) (*Client, error) {
	return newClient(o).connect(ctx, conn)
}

func newClient(o *Options) *Client {
	c := &Client{options: valueOf(o), limit: newLimit(valueOf(o).QuestionsPerMinute), opened: make(chan struct{})}
	c.completions = rate.NewLimiter(completionsPerSecond, completionsPerSecond)
	c.log = boundary.Logger(c.options.Session.Logger)
	if c.options.MaxToolRounds == 0 {
		c.options.MaxToolRounds = DefaultMaxToolRounds
	}
	caller := func() jsonrpc.Caller { return c.session }
	c.tools.caller, c.resources.caller, c.templates.caller, c.prompts.caller = caller, caller, caller, caller
	c.tools.fetch, c.resources.fetch, c.templates.fetch, c.prompts.fetch = toolPage, resourcePage, templatePage, promptPage
	c.tools.stored = c.outputs.clear
	return c
}

func (c *Client) connect(ctx context.Context, conn transport.Conn) (*Client, error) {
	cfg := c.options.config()
	cfg.Handler = c.handler(cfg.Handler)
	cfg.Sending = append(cfg.Sending, c.noteURLs)
	c.tasks = requestor.Attach(&cfg)
	if c.options.Tasks != nil {
		receiver.Attach(&cfg, receiver.Options{Manager: c.options.Tasks})
	}
	var version uint64
	if c.options.Roots != nil {
		version = c.options.Roots.version()
	}
	s, err := session.Connect(ctx, conn, c.options.hello(), &cfg)
	if err != nil {
		return nil, err
	}
	c.session = s
	close(c.opened)
	if c.options.Roots != nil {
		if err := c.options.Roots.join(ctx, s, version); err != nil {
			c.log.Warn("change of roots not announced", "error", err)
		}
	}
	return c, nil
}

// Command starts a server as a child process and connects with it over its standard input and output.
// Closing the client ends the process.
func Command(ctx context.Context, server stdio.Command, o *Options) (*Client, error) {
	process, err := stdio.Start(server)
	if err != nil {
		return nil, err
	}
	return Connect(ctx, process, o)
}

// Dial connects with the server at a URL, over Streamable HTTP, or the older HTTP with SSE if that is
// what the server has; see [Options].HTTP.
//
// When a session is lost, as by a restart of the server, and a new one is opened in its place, lists
// are asked for anew, and the client asks again for the subscriptions and the log level that it was
// asked for with [Client.Subscribe] and [Client.SetLogLevel].
func Dial(ctx context.Context, serverURL string, o *Options) (*Client, error) {
	c := newClient(o)
	c.origin = serverURL
	http := c.options.HTTP
	http.Renewed = func(result json.RawMessage) {
		c.forget() // a server that drops its sessions may have been replaced
		select {
		case <-c.opened:
			c.wishAgain()
		default: // nobody has had the client yet
		}
		if c.options.HTTP.Renewed != nil {
			err := boundary.Run(func() error { c.options.HTTP.Renewed(result); return nil })
			boundary.Report(c.log, "Renewed panicked", err)
		}
	}
	conn, err := streamable.Dial(serverURL, http)
	if err != nil {
		return nil, err
	}
	return c.connect(ctx, conn)
}

// completionsPerSecond limits the requests for completions (MCP completion, "Security").
const completionsPerSecond = 10

// newLimit limits the questions of a server.
func newLimit(perMinute int) *rate.Limiter {
	switch {
	case perMinute < 0:
		return rate.NewLimiter(rate.Inf, 0)
	case perMinute == 0:
		perMinute = DefaultQuestionsPerMinute
	}
	return rate.NewLimiter(rate.Limit(perMinute)/60, perMinute)
}

// Session returns the session below the client, for what the client has no method for.
func (c *Client) Session() *session.Session { return c.session }

// Server returns how the server has introduced itself: its name, capabilities and instructions. When a
// session was lost and another one has taken its place, that is what the server has said in the new
// one, and what may be called follows from it. It must not be changed.
func (c *Client) Server() *mcp.InitializeResult { return c.session.Server() }

// Revision returns the revision that was agreed on.
func (c *Client) Revision() mcp.Revision { return c.session.Revision() }

// Close ends the session at once; see [session.Session.Close]. Tasks go on at the server. Handlers and
// progress callbacks call [session.Session.Stop] instead, as Close waits for them.
func (c *Client) Close() error { return c.session.Close() }

// Shutdown ends the session in order; see [session.Session.Shutdown].
func (c *Client) Shutdown(ctx context.Context) error { return c.session.Shutdown(ctx) }

// Wait waits until the session is over, and returns what ended it; see [session.Session.Wait].
func (c *Client) Wait() error { return c.session.Wait() }

// With returns typed calls for every method of the protocol, with options. The other methods of the
// client are built on them; lists are not cached here, tools are called as params say, and what is
// subscribed to is not noted for a later session.
func (c *Client) With(opts ...session.Option) mcp.ToServer {
	return mcp.ToServer{Caller: c.session.With(opts...)}
}

// Ping asks the server whether it is there.
func (c *Client) Ping(ctx context.Context) error { return c.session.Ping(ctx) }

// ReadResource reads a resource (MCP resources, "Reading Resources").
func (c *Client) ReadResource(ctx context.Context, uri string) (*mcp.ReadResourceResult, error) {
	return expect[*mcp.ReadResourceResult](c.With().ReadResource(ctx, &mcp.ReadResourceRequestParams{URI: uri}))
}

// Subscribe asks to be told when a resource changes: by [mcp.ClientNotificationHandler].ResourceUpdated
// (MCP resources, "Subscriptions").
func (c *Client) Subscribe(ctx context.Context, uri string) error {
	fresh := c.wishes.subscribe(uri)
	_, err := c.With().Subscribe(ctx, &mcp.SubscribeRequestParams{URI: uri})
	if err != nil && fresh {
		c.wishes.unsubscribe(uri)
	}
	return err
}

// Unsubscribe takes Subscribe back.
func (c *Client) Unsubscribe(ctx context.Context, uri string) error {
	c.wishes.unsubscribe(uri)
	_, err := c.With().Unsubscribe(ctx, &mcp.UnsubscribeRequestParams{URI: uri})
	return err
}

// GetPrompt gets a prompt with arguments, nil for none (MCP prompts, "Getting a Prompt").
func (c *Client) GetPrompt(ctx context.Context, name string, arguments map[string]string) (*mcp.GetPromptResult, error) {
	return expect[*mcp.GetPromptResult](c.With().GetPrompt(ctx, &mcp.GetPromptRequestParams{Name: name, Arguments: arguments}))
}

// Complete asks for ways to go on with the value of an argument: of a prompt, if ref is a
// [*mcp.PromptReference], or of a template, if it is a [*mcp.ResourceTemplateReference]. The
// arguments that have a value already are given, nil for none. Call it when the user pauses, not
// for each key; more than ten requests a second wait for their turn (MCP completion, "Requesting
// Completions").
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

// SetLogLevel asks for log messages of a level or a more severe one (MCP logging, "Setting Log
// Level").
func (c *Client) SetLogLevel(ctx context.Context, level mcp.LoggingLevel) error {
	before := c.wishes.setLevel(&level, nil)
	_, err := c.With().SetLevel(ctx, &mcp.SetLevelRequestParams{Level: level})
	if err != nil {
		c.wishes.setLevel(before, &level)
	}
	return err
}

// expect returns an outcome as the one that must come of a request in the revisions of sessions.
func expect[T, O any](outcome O, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	result, ok := any(outcome).(T)
	if !ok {
		return none, fmt.Errorf("client: the server has answered with a %T", outcome)
	}
	return result, nil
}
