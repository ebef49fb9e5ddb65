package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// Options configures a client and the input requests that it accepts. The zero value is useful, and
// nil means the zero value. Handlers may be called by several goroutines at once. A number that is
// zero means the default, and a negative one is an error that [Connect], [Dial] and [Command] return
// and that names the field; [NoLimit] means no limit, and [Off] that something is switched off, where
// the field says so.
type Options struct {
	// Info is the client info of the handshake. The default name is "mcpwire", the default version
	// "0".
	Info mcp.Implementation

	// Input handles the input requests of the server.
	Input Input

	// Notifications handles the server's notifications. Before it is called, the client discards
	// the cached list that a list_changed notification names. Nil ignores notifications. In
	// revisions without sessions, the client also reports a change where it may have missed one:
	// while its subscription was lost, and of a list that it fetched before the server accepted the
	// first one.
	Notifications mcp.ClientNotificationHandler

	// Features says what the client supports in addition.
	Features Features
	// Limits limit what a server may ask for.
	Limits Limits
	// Cache says which results the client uses again.
	Cache Cache

	// Auth authorizes the client to the server of [Dial]: an Authorizer of package oauth, or
	// [Token]. It replaces the Auth of HTTP. Timeouts of requests do not run while the user logs in;
	// the context of a request limits how long it waits. [Command] ignores Auth.
	Auth httpclient.Authorizer

	// HTTP configures the connection of [Dial].
	HTTP streamable.ClientOptions

	// Session configures the session. Its Revisions choose between revisions with and without
	// sessions. Nil means that [Dial] and [Command] find out which the server has, and prefer one
	// without sessions. [Connect] then uses [session.Revisions], those with sessions. Its Handler
	// receives requests and notifications whose method is neither in Features.Methods nor defined by
	// the protocol.
	//
	// Its Hooks.Reopened is called when a lost session has been replaced and its subscriptions and
	// log level have been restored. The server does not report changes made between the two sessions:
	// a host that shows resources or lists should fetch them again.
	Session session.Options
}

// NoLimit is the value of a field that sets no limit, and Off that of one that switches off what
// the field is about.
const (
	NoLimit = boundary.None
	Off     = boundary.None
)

// Input is the part of [Options] that handles the input requests of a server.
type Input struct {
	// Fill fills in a form, see [FormRequest]. Nil means that the server cannot send forms.
	Fill func(ctx context.Context, form *FormRequest) (*mcp.ElicitResult, error)

	// OpenURL asks the user to open a URL, see [URLRequest]. The client has already refused URLs
	// that are not https, or http on this machine, and those with a user name or password, which
	// can pass for the host (MCP elicitation, "Safe URL Handling"). OpenURL returns the user's
	// action: accept means that the user has agreed, not that the interaction is complete. Nil
	// means that the server cannot send URLs.
	OpenURL func(ctx context.Context, u *URLRequest) (mcp.ElicitAction, error)

	// Sample lets a model continue a conversation, see [SampleRequest] and [Say]. If the user
	// rejects the request, return an error that wraps [ErrRefused]. Nil means that the server
	// cannot request sampling.
	Sample func(ctx context.Context, r *SampleRequest) (*mcp.CreateMessageResult, error)
	// SampleTools declares that Sample supports tools.
	SampleTools bool

	// Roots are the parts of the file system that the server may see. Nil means that the server
	// cannot list roots.
	Roots *Roots
	// CheckRoot is called for each root whenever the server requests the roots. The server sees the
	// roots for which it returns nil. Errors are logged. Nil admits the files and folders that
	// exist and can be opened, and roots on other hosts, which cannot be checked from here.
	CheckRoot func(ctx context.Context, root mcp.Root) error

	// Tasks runs input requests as tasks if the server asks for that. If clients of several servers
	// share a Manager, the Principal of their Session must differ. Nil means that input requests
	// cannot run as tasks.
	Tasks *task.Manager
}

// Features is the part of [Options] that says what a client supports in addition to input requests.
type Features struct {
	// Methods are handlers of requests and notifications of the server by method, for methods that
	// the protocol does not define; see [Method] and [Notification]. The map must not be changed
	// afterwards.
	Methods map[string]session.Handler

	// Capabilities are declared in addition to those that follow from Input.
	Capabilities mcp.ClientCapabilities

	// NoTasks keeps the client from declaring the Tasks extension in revisions without sessions.
	// The server then returns the result of each tool call, or rejects a tool that can only run as
	// a task.
	NoTasks bool
}

// Limits is the part of [Options] that limits what a server may ask for.
type Limits struct {
	// InputRequests limits the input requests per minute: forms, URLs and sampling together.
	// Further requests are rejected with [session.CodeOverloaded]. The default is 120. It may be
	// [NoLimit].
	InputRequests int

	// InputRounds limits how many times one request of a revision without sessions is sent again
	// because the server asks for input. Further rounds fail with an [*InputError]. The default is
	// 10. It may be [NoLimit].
	InputRounds int

	// ToolRounds limits the messages with tool uses in a conversation that the server asks the
	// model to continue. It ends loops of a model and its tools: requests at the limit are rejected
	// with [session.CodeOverloaded]. The default is 50. It may be [NoLimit].
	ToolRounds int
}

// Cache is the part of [Options] that says which results a client uses again.
type Cache struct {
	// Bytes limits the memory for results that a server of a revision without sessions allows to be
	// used again: lists and resources. The default is 8 MiB; [Off] means that none are cached.
	Bytes int

	// Partition returns the authorization context of a request, such as the user on whose behalf it
	// is sent. A result that the server has marked as private is used again only for the same one.
	// Nil means that all requests of the client have the same. If Auth or HTTP.Prepare is set, which
	// may authorize each request in another way, nil means that private results are not cached (MCP
	// caching, "Cache Scope Field").
	Partition func(ctx context.Context) string

	// Servers caches the revisions of servers; see [Servers]. Clients may share it. Nil means that
	// each client asks its server.
	Servers *Servers
}

// Defaults of [Options].
const (
	defaultInputRequests = 120
	defaultToolRounds    = 50
	defaultInputRounds   = 10
	defaultCacheBytes    = 8 << 20
)

// complete sets the defaults of all numbers, and returns an error that names the invalid ones.
// Numbers that mean no limit, or that something is off, become 0.
func (o *Options) complete() error {
	faults := boundary.Faults{Package: "client"}
	boundary.OrNone(&faults, "Limits.InputRequests", &o.Limits.InputRequests, defaultInputRequests)
	boundary.OrNone(&faults, "Limits.InputRounds", &o.Limits.InputRounds, defaultInputRounds)
	boundary.OrNone(&faults, "Limits.ToolRounds", &o.Limits.ToolRounds, defaultToolRounds)
	boundary.OrNone(&faults, "Cache.Bytes", &o.Cache.Bytes, defaultCacheBytes)
	faults.Add(o.Session.Internals(boundary.Caller{}).Check())
	return faults.Err()
}

// ErrRefused is returned by [Input].Sample if the user rejects the request.
var ErrRefused = errors.New("client: refused by the user")

// initializeParams returns the params of the initialize request.
func (o *Options) initializeParams() *mcp.InitializeRequestParams {
	params := &mcp.InitializeRequestParams{ClientInfo: o.Info, Capabilities: o.capabilities()}
	if params.ClientInfo.Name == "" {
		params.ClientInfo.Name = "mcpwire"
	}
	if params.ClientInfo.Version == "" {
		params.ClientInfo.Version = "0"
	}
	return params
}

// capabilities returns Features.Capabilities and those that follow from the handlers.
func (o *Options) capabilities() mcp.ClientCapabilities {
	c, yes := o.Features.Capabilities, json.RawMessage(`{}`)
	if o.Input.Fill != nil || o.Input.OpenURL != nil {
		e := valueOf(c.Elicitation)
		if o.Input.Fill != nil {
			e.Form = yes
		}
		if o.Input.OpenURL != nil {
			e.URL = yes
		}
		c.Elicitation = &e
	}
	if o.Input.Sample != nil {
		s := valueOf(c.Sampling)
		if o.Input.SampleTools {
			s.Tools = yes
		}
		c.Sampling = &s
	}
	if o.Input.Roots != nil {
		r := valueOf(c.Roots)
		r.ListChanged = new(true)
		c.Roots = &r
	}
	if o.Input.Tasks != nil && c.Tasks == nil {
		c.Tasks = receiver.ClientCapabilities(o.Session.Principal != "", o.Input.Sample != nil, c.Elicitation != nil)
	}
	if !o.Features.NoTasks {
		c.Extensions = modern.WithTasks(c.Extensions)
	}
	return c
}

// valueOf returns *p, or the zero value if p is nil.
func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// config returns a copy of o.Session. Appending to the middleware of the copy does not change o.
func (o *Options) config() session.Options {
	cfg := o.Session
	cfg.Hooks.Receiving = slices.Clone(cfg.Hooks.Receiving)
	cfg.Hooks.Sending = slices.Clone(cfg.Hooks.Sending)
	return cfg
}
