// Package embedtest tests servers with durable tasks: mcpwire's own server, and servers made with
// other SDKs and package gosdk or mcpgo. One set of cases runs against all of them, in sessions and
// in revisions without sessions, in memory, over HTTP, and over standard input and output of a
// child process. The client is package client.
//
//	var subject = embedtest.Subject{Name: "my-sdk", Serve: serve}
//
//	func TestMain(m *testing.M) { embedtest.Main(m, subject) }
//	func TestEmbedding(t *testing.T) { embedtest.Run(t, subject) }
//
// # Tools
//
// A subject registers [Fixture.Tools] in the way of its SDK. It passes [Tool.Run] a [Caller], which
// reaches the client by the functions that the SDK has for it. What the tools do is defined here,
// so that all subjects do the same:
//
//   - echo returns its arguments unchanged.
//   - greet is registered with a typed handler, if the SDK has such handlers.
//   - gate waits until the tool release opens it, or until its context ends.
//   - count reports progress and logs; ask, sample, roots and rounds send input requests.
//   - steps, nap, choose and killed use steps, sleeps, input requests and signals, and are run again
//     after a restart.
//   - structured and unencodable have structured content.
//   - fail, fail-rpc, error and panic fail.
//   - events returns the notes of handlers, release opens gates, and signal sends a signal to a task.
//     They are never tasks.
//
// A tool may have several names, which differ in their task support.
//
// # Limits
//
// Package sdklimits lists what an SDK makes impossible. Cases with a limit run nevertheless, and
// must fail: if one passes, the test reports that the limit is lifted. Cases that fail only at
// times, because of an SDK, are run again until they pass.
package embedtest

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Subject is a way to make servers with tasks.
type Subject struct {
	// Name is the name of the SDK: "mcpwire", "go-sdk" or "mcp-go".
	Name string

	// Serve makes a server. It is called in the test process, and in child processes that serve
	// standard input and output.
	Serve func(f Fixture) (*Endpoint, error)
}

// Fixture describes the server that a [Subject] makes.
type Fixture struct {
	// Options are the options of the embedding. They are complete, apart from Principal if Tokens
	// is set.
	Options embed.Options

	// Tools are the tools of the server.
	Tools []Tool

	// Tokens makes the HTTP handler demand a bearer token. The user id of the token info is the
	// text of the token, and the principal is that user.
	Tokens bool
}

// Endpoint is a running server.
type Endpoint struct {
	// Handler serves Streamable HTTP, in all revisions.
	Handler http.Handler

	// Connect opens a connection in memory and returns its client end. The connection ends when the
	// client closes that end.
	Connect func() (transport.Conn, error)

	// Stdio serves standard input and output until the client closes standard input. It may be
	// called once.
	Stdio func(ctx context.Context) error

	// Bare opens a connection, as Connect does, to the server without the wrapper of its transport.
	// Nil means that there is no such wrapper.
	Bare func() (transport.Conn, error)

	// CloseSessions closes the sessions that the SDK lists. Nil means that it lists none.
	CloseSessions func()

	// Manager returns the manager of the tasks after the first request.
	Manager func() *task.Manager

	// Close shuts down the server and its tasks. The store stays open.
	Close func() error
}

// Tool is a tool of a [Fixture].
type Tool struct {
	Name        string
	Description string
	InputSchema json.RawMessage // an object

	// Typed asks for a handler with typed arguments, if the SDK has such handlers: an object with
	// the member "name", a string. Caller.Arguments then returns them encoded again.
	Typed bool

	// Run runs the tool. If err has a [*jsonrpc.Error] in its chain, the call fails with this code,
	// message and data. The handler returns any other error to the SDK unchanged.
	//
	// [*jsonrpc.Error]: https://pkg.go.dev/github.com/mcpwire/mcpwire/codec/jsonrpc#Error
	Run func(ctx context.Context, c Caller) (*Result, error)
}

// Result is the result of a [Tool].
type Result struct {
	Text       string // the only content block
	Structured any    // the structured content; nil for none
	IsError    bool

	// If Ask is set, the result asks for input instead: it has a form with [FormSchema] for each
	// key, with the value as its message. Caller.Responses returns the responses in the next round.
	// If the handlers of an SDK cannot return input requests, the subject sends them and calls Run
	// again.
	Ask map[string]string
}

// FormSchema is the requestedSchema of all forms.
const FormSchema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`

// Caller gives a [Tool] access to its call. Each method uses the SDK's function for the purpose.
// The methods may be called concurrently.
type Caller interface {
	// Arguments returns the arguments of the call as JSON, as received if the SDK has them.
	Arguments() json.RawMessage

	// User returns the user of the call: that of the token info, if the SDK has one. It returns ""
	// if the handler cannot read the user.
	User() string

	// Progress sends a progress notification, if the request has a progress token. The total is 10.
	Progress(ctx context.Context, value float64, message string) error

	// ProgressWithToken sends a progress notification with another token than that of the request.
	// SDKs that send only the token of the request do nothing.
	ProgressWithToken(ctx context.Context, token string, value float64) error

	// Log sends a log message of level info, with the text as its data.
	Log(ctx context.Context, text string) error

	// Elicit sends elicitation/create with a form of FormSchema. It returns the action and, if that
	// is accept, the member "name" of the content.
	Elicit(ctx context.Context, message string) (action, name string, err error)

	// Sample sends sampling/createMessage with one text message of the user and maxTokens 10, and
	// returns the text of the response.
	Sample(ctx context.Context, text string) (string, error)

	// Roots sends roots/list and returns the URIs.
	Roots(ctx context.Context) ([]string, error)

	// Responses returns the member "name" of the responses to Result.Ask by key, and nil in the
	// first round. The value for a form that was not accepted is "".
	Responses() map[string]string

	// Step, Sleep, Select, IdempotencyKey, RunAll and Compensate are those of package embed; see
	// [Steps].
	Step(ctx context.Context, name string, f func(ctx context.Context) (string, error), options ...embed.StepOption) (string, error)
	Sleep(ctx context.Context, name string, f func() time.Time) error
	Select(ctx context.Context, name string, cases ...embed.Case) (embed.Case, error)
	IdempotencyKey(ctx context.Context) string
	RunAll(ctx context.Context, functions ...func(ctx context.Context) error) error
	Compensate(ctx context.Context, name string, undo func(ctx context.Context) error) error
}

// Steps has the methods of a [Caller] that use package embed.
type Steps struct{}

// Step is [embed.Step].
func (Steps) Step(ctx context.Context, name string, f func(ctx context.Context) (string, error), options ...embed.StepOption) (string, error) {
	return embed.Step(ctx, name, f, options...)
}

// Sleep is [embed.Sleep].
func (Steps) Sleep(ctx context.Context, name string, f func() time.Time) error {
	return embed.Sleep(ctx, name, f)
}

// Select is [embed.Select].
func (Steps) Select(ctx context.Context, name string, cases ...embed.Case) (embed.Case, error) {
	return embed.Select(ctx, name, cases...)
}

// IdempotencyKey is [embed.IdempotencyKey].
func (Steps) IdempotencyKey(ctx context.Context) string { return embed.IdempotencyKey(ctx) }

// RunAll is [embed.RunAll].
func (Steps) RunAll(ctx context.Context, functions ...func(ctx context.Context) error) error {
	return embed.RunAll(ctx, functions...)
}

// Compensate is [embed.Compensate].
func (Steps) Compensate(ctx context.Context, name string, undo func(ctx context.Context) error) error {
	return embed.Compensate(ctx, name, undo)
}
