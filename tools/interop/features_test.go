package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// The tests of revisions use servers with the same features, written with each SDK:
//
//	echo     returns its text
//	work     reports progress, waits for a call of proceed, and returns "done"
//	ask      elicits a name, then a color, and returns both
//	survey   elicits a name, samples a message and lists the roots, all at once, and returns the three
//	change   changes the list of tools
//	touch    updates the resource note:1
//	hang     reports progress, and waits until it is cancelled
//	ended    waits until hang has been cancelled, and returns "cancelled"

// Responses of the clients to input requests, and the results that follow.
const (
	clientModel = "forty-two"
	clientRoot  = "file:///work"

	question1, question2 = "What is your name?", "Which color?"

	answered, surveyed = "Ann likes blue", "Ann forty-two file:///work"
)

var answers = map[string]map[string]any{question1: {"name": "Ann"}, question2: {"color": "blue"}}

// note is the URI of the resource that clients subscribe to.
const note = "note:1"

// gates connect the calls that wait with those that they wait for. Calls end with ctx, too.
type gates struct {
	ctx            context.Context
	proceed, ended chan bool
}

func newGates(ctx context.Context) gates { return gates{ctx, make(chan bool, 1), make(chan bool, 1)} }

// work returns when proceed has been called.
func (g gates) work(ctx context.Context) (string, error) { return wait(ctx, g, g.proceed, "done") }

// hang returns when its call is cancelled.
func (g gates) hang(ctx context.Context) error {
	_, err := wait(ctx, g, nil, "")
	if g.ctx.Err() == nil {
		g.ended <- true
	}
	return err
}

// waitEnded returns when hang has returned.
func (g gates) waitEnded(ctx context.Context) (string, error) {
	return wait(ctx, g, g.ended, "cancelled")
}

func wait(ctx context.Context, g gates, event <-chan bool, text string) (string, error) {
	select {
	case <-event:
		return text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	case <-g.ctx.Done():
		return "", g.ctx.Err()
	}
}

// newServer returns a server of this module with the features. Nil revisions are those that a
// server serves by default, with and without sessions. Calls that wait end with ctx.
func newServer(ctx context.Context, revisions []mcp.Revision) *server.Server {
	cfg := server.Options{Session: session.Options{Revisions: revisions}}
	s := server.New("mcpwire", "1", &cfg)
	g := newGates(ctx)
	type none = struct{}
	server.AddTool(s, "echo", "", func(_ context.Context, _ *server.Call, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	server.AddTool(s, "work", "", func(ctx context.Context, c *server.Call, _ none) (string, error) {
		if err := c.Progress(1, 2, ""); err != nil {
			return "", err
		}
		return g.work(ctx)
	})
	server.AddTool(s, "proceed", "", func(context.Context, *server.Call, none) (string, error) {
		g.proceed <- true
		return "", nil
	})
	type nameForm struct {
		Name string `json:"name"`
	}
	server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ none) (string, error) {
		var name nameForm
		if _, err := server.Elicit(ctx, c, question1, &name); err != nil {
			return "", err
		}
		var color struct {
			Color string `json:"color"`
		}
		_, err := server.Elicit(ctx, c, question2, &color)
		return name.Name + " likes " + color.Color, err
	})
	server.AddTool(s, "survey", "", func(ctx context.Context, c *server.Call, _ none) (string, error) {
		var name nameForm
		var sample string
		var roots []mcp.Root
		err := c.RunAll(ctx,
			func(ctx context.Context) error {
				_, err := server.Elicit(ctx, c, question1, &name)
				return err
			},
			func(ctx context.Context) error {
				result, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 10, Messages: []mcp.SamplingMessage{{
					Role: "user", Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "How much?"}}},
				}}})
				if err != nil {
					return err
				}
				sample = result.Content.Items[0].(*mcp.TextContent).Text
				return nil
			},
			func(ctx context.Context) (err error) {
				roots, err = c.Roots(ctx)
				return err
			})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(name.Name, " ", sample, " ", roots[0].URI), nil
	})
	changing := server.AddTool(s, "changing", "!", func(context.Context, *server.Call, none) (string, error) { return "", nil })
	server.AddTool(s, "change", "", func(context.Context, *server.Call, none) (string, error) {
		return "", changing.Change(func(t *mcp.Tool) { t.Description = new(*t.Description + "!") })
	})
	server.AddResource(s, note, "note", func(context.Context, *server.Call, server.Resource) (string, error) { return "text", nil })
	server.AddTool(s, "touch", "", func(context.Context, *server.Call, none) (string, error) {
		s.ResourceUpdated(note)
		return "", nil
	})
	server.AddTool(s, "hang", "", func(ctx context.Context, c *server.Call, _ none) (string, error) {
		if err := c.Progress(1, 2, ""); err != nil {
			return "", err
		}
		return "", g.hang(ctx)
	})
	server.AddTool(s, "ended", "", func(ctx context.Context, _ *server.Call, _ none) (string, error) { return g.waitEnded(ctx) })
	return s
}

// peer is a connected client, of this module or of another SDK.
type peer struct {
	key       string // names the calls that wait, at a server of several clients; may be empty
	revision  string
	call      func(ctx context.Context, tool string, args map[string]any, progress func()) (string, error)
	subscribe func(ctx context.Context, uri string) error
	changes   changes
	close     func() error
}

// withKey returns the arguments of calls that wait and those that they wait for.
func (c *peer) withKey() map[string]any {
	if c.key == "" {
		return map[string]any{}
	}
	return map[string]any{"key": c.key}
}

// changes receives what a server reports. Senders do not block.
type changes struct {
	tools     chan bool
	resources chan string
}

func newChanges() changes { return changes{make(chan bool, 1), make(chan string, 1)} }

func (c changes) toolsChanged() {
	select {
	case c.tools <- true:
	default:
	}
}

func (c changes) resourceUpdated(uri string) {
	select {
	case c.resources <- uri:
	default:
	}
}

// A step tests one feature and returns what the client has seen.
type step struct {
	name string
	want string
	run  func(ctx context.Context, c *peer) (string, error)
}

var steps = []step{
	{"calls", "ä€𝄞\u2028", func(ctx context.Context, c *peer) (string, error) {
		return c.call(ctx, "echo", map[string]any{"text": "ä€𝄞\u2028"}, nil)
	}},
	{"progress", "done", func(ctx context.Context, c *peer) (string, error) {
		return c.call(ctx, "work", c.withKey(), func() {
			go c.call(ctx, "proceed", c.withKey(), nil) // ends with ctx
		})
	}},
	{"rounds of input", answered, func(ctx context.Context, c *peer) (string, error) { return c.call(ctx, "ask", map[string]any{}, nil) }},
	{"several input requests at once", surveyed, func(ctx context.Context, c *peer) (string, error) {
		return c.call(ctx, "survey", map[string]any{}, nil)
	}},
	{"changes of resources", note, func(ctx context.Context, c *peer) (string, error) {
		if err := c.subscribe(ctx, note); err != nil {
			return "", err
		}
		return until(ctx, c, "touch", c.changes.resources)
	}},
	{"changes of lists", "true", func(ctx context.Context, c *peer) (string, error) {
		return until(ctx, c, "change", c.changes.tools)
	}},
	{"cancellation", "cancelled", func(ctx context.Context, c *peer) (string, error) {
		hanging, cancel := context.WithCancel(ctx)
		defer cancel()
		if text, err := c.call(hanging, "hang", c.withKey(), cancel); !errors.Is(err, context.Canceled) {
			return "", fmt.Errorf("hang returned %q, %v", text, err)
		}
		return c.call(ctx, "ended", c.withKey(), nil)
	}},
}

// until calls a tool again and again until the client has received a notification: a client may
// call the tool before the server has its subscription.
func until[T any](ctx context.Context, c *peer, tool string, received <-chan T) (string, error) {
	for {
		if _, err := c.call(ctx, tool, map[string]any{}, nil); err != nil {
			return "", err
		}
		select {
		case x := <-received:
			return fmt.Sprint(x), nil
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// A lack is a step that fails for a known reason.
type lack struct {
	step  string
	error string // part of the error; empty if nothing happens, and the test does not wait for long
	why   string // a sentence for the documentation
}

// Times after which a step fails: the longest for one that must not, and that for one that fails
// because nothing happens.
const (
	patience   = 30 * time.Second
	impatience = 300 * time.Millisecond
)

// find returns the lack of a step, or nil.
func (s step) find(lacks []lack) *lack {
	if i := slices.IndexFunc(lacks, func(l lack) bool { return l.step == s.name }); i >= 0 {
		return &lacks[i]
	}
	return nil
}

// limit returns the time after which the step fails.
func (s step) limit(lacks []lack) time.Duration {
	if l := s.find(lacks); l != nil && l.error == "" {
		return impatience
	}
	return patience
}

// check compares the result of the step with what is expected: that of lacks, if the step is one.
func (s step) check(t *testing.T, got string, err error, lacks []lack) {
	t.Helper()
	switch l := s.find(lacks); {
	case l == nil:
		if got != s.want || err != nil {
			t.Errorf("%s: got %q, %v", s.name, got, err)
		}
	case got == s.want && err == nil:
		t.Errorf("%s: works now", s.name)
	case !strings.Contains(fmt.Sprint(err), l.error):
		t.Errorf("%s: got %q, %v, want an error with %q", s.name, got, err, l.error)
	}
}

// clientOptions are the options of our client.
func clientOptions(revisions []mcp.Revision, seen changes) (*client.Options, error) {
	roots := new(client.Roots)
	if err := roots.Set(context.Background(), mcp.Root{URI: clientRoot}); err != nil {
		return nil, err
	}
	return &client.Options{
		Input: client.Input{
			Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
				return client.Accept(answers[f.Message])
			},
			Sample: func(context.Context, *client.SampleRequest) (*mcp.CreateMessageResult, error) {
				return client.Say("m", clientModel), nil
			},
			Roots:     roots,
			CheckRoot: func(context.Context, mcp.Root) error { return nil },
		},
		Notifications: watcher{changes: seen},
		Session:       session.Options{Revisions: revisions},
	}, nil
}

// watcher handles notifications to our client.
type watcher struct {
	mcp.UnimplementedClientNotificationHandler
	changes
}

func (w watcher) ToolListChanged(context.Context, *mcp.NotificationParams) error {
	w.toolsChanged()
	return nil
}

func (w watcher) ResourceUpdated(_ context.Context, p *mcp.ResourceUpdatedNotificationParams) error {
	w.resourceUpdated(p.URI)
	return nil
}

// connectOurs connects our client to a server.
func connectOurs(ctx context.Context, revisions []mcp.Revision, connect func(*client.Options) (*client.Client, error)) (*peer, error) {
	seen := newChanges()
	o, err := clientOptions(revisions, seen)
	if err != nil {
		return nil, err
	}
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	return &peer{
		revision: string(c.Revision()),
		call: func(ctx context.Context, tool string, args map[string]any, progress func()) (string, error) {
			var options []client.CallOption
			if progress != nil {
				options = append(options, client.OnProgress(func(session.Progress) { progress() }))
			}
			result, err := c.CallTool(ctx, tool, args, options...)
			if err != nil {
				return "", err
			}
			return client.Text(result)
		},
		subscribe: c.Subscribe,
		changes:   seen,
		close:     c.Close,
	}, nil
}
