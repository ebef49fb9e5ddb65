package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// Options says who a client is and what it can do for servers. The zero value is useful, and nil is
// the zero value. Handlers may be called by several goroutines at once.
type Options struct {
	// Info introduces the client. Without a name it is called mcpwire.
	Info mcp.Implementation

	// Fill fills in a form, see [FormRequest]. Nil means that the server cannot ask with forms.
	Fill func(ctx context.Context, form *FormRequest) (*mcp.ElicitResult, error)

	// OpenURL asks the user to open a URL, see [URLRequest]. The client has already refused URLs
	// that [CheckURL] refuses. OpenURL returns the user's action: accept means that the user has
	// agreed, not that anything is done. Nil means that the server cannot ask for it.
	OpenURL func(ctx context.Context, u *URLRequest) (mcp.ElicitResultAction, error)

	// Sample makes a model continue a conversation, see [SampleRequest]. Nil means that the server
	// cannot ask for it. An error that wraps [ErrRefused] tells the server that the user did not want
	// it.
	Sample func(ctx context.Context, r *SampleRequest) (*mcp.CreateMessageResult, error)

	// SampleTools says that Sample honours tools.
	SampleTools bool

	// MaxToolRounds is how often a conversation may already have used tools when the server wants
	// it continued; further requests are refused with [session.CodeOverloaded], so that a loop of a
	// model and its tools ends. The default is [DefaultMaxToolRounds]; a negative value means no
	// limit.
	MaxToolRounds int

	// Roots are what the server may see of the file system. Nil means that it cannot ask.
	Roots *Roots

	// CheckRoot is called for each root whenever the server requests the roots. The server sees
	// those for which it returns nil. Errors are logged. If CheckRoot is nil, [Accessible] is used.
	CheckRoot func(ctx context.Context, root mcp.Root) error

	// Notifications takes what the server tells. The client has looked at it before: lists that have
	// changed are not cached any more. Nil ignores it.
	Notifications mcp.ClientNotificationHandler

	// Tasks runs questions of the server as tasks, if the server wants that. Nil means that it cannot.
	// Where clients of several servers share a Manager, Session.Principal must tell the servers apart.
	Tasks *task.Manager

	// QuestionsPerMinute is how many forms, URLs and messages the server may ask for; more are refused
	// with [session.CodeOverloaded]. The default is [DefaultQuestionsPerMinute]; a negative value means
	// no limit.
	QuestionsPerMinute int

	// Capabilities are declared beside those that follow from the fields above.
	Capabilities mcp.ClientCapabilities

	// HTTP says how [Dial] reaches the server. Its Renewed is called when a session that was lost has been
	// replaced, with its subscriptions and log level. What has changed between the two sessions nobody
	// tells: a host that shows resources or lists had better get them again.
	HTTP streamable.ClientOptions

	// Session configures the session. Its Handler gets requests and notifications with methods that
	// the protocol does not have.
	Session session.Config
}

// Defaults of [Options].
const (
	DefaultQuestionsPerMinute = 120
	DefaultMaxToolRounds      = 50
)

// ErrRefused says that the user does not want what the server asks for.
var ErrRefused = errors.New("client: refused by the user")

// hello is how the client introduces itself.
func (o *Options) hello() *mcp.InitializeRequestParams {
	hello := &mcp.InitializeRequestParams{ClientInfo: o.Info, Capabilities: o.capabilities()}
	if hello.ClientInfo.Name == "" {
		hello.ClientInfo.Name = "mcpwire"
	}
	if hello.ClientInfo.Version == "" {
		hello.ClientInfo.Version = "0"
	}
	return hello
}

// capabilities are those that follow from the handlers, and those given.
func (o *Options) capabilities() mcp.ClientCapabilities {
	c, yes := o.Capabilities, json.RawMessage(`{}`)
	if o.Fill != nil || o.OpenURL != nil {
		e := valueOf(c.Elicitation)
		if o.Fill != nil {
			e.Form = yes
		}
		if o.OpenURL != nil {
			e.URL = yes
		}
		c.Elicitation = &e
	}
	if o.Sample != nil {
		s := valueOf(c.Sampling)
		if o.SampleTools {
			s.Tools = yes
		}
		c.Sampling = &s
	}
	if o.Roots != nil {
		r := valueOf(c.Roots)
		r.ListChanged = new(true)
		c.Roots = &r
	}
	if o.Tasks != nil && c.Tasks == nil {
		c.Tasks = receiver.ClientCapabilities(o.Session.Principal != "", o.Sample != nil, c.Elicitation != nil)
	}
	return c
}

// valueOf is a copy of what p points to, or a zero value.
func valueOf[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// config is a copy of the session's configuration whose middleware can be added to.
func (o *Options) config() session.Config {
	cfg := o.Session
	cfg.Receiving = slices.Clone(cfg.Receiving)
	cfg.Sending = slices.Clone(cfg.Sending)
	return cfg
}
