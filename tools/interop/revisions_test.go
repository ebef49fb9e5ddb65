package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	official "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// A choice is what one side of this module speaks.
type choice struct {
	name      string
	revisions []mcp.Revision
}

// both are all revisions, with and without sessions.
var both = append(session.ModernRevisions(), session.Revisions()...)

var choices = []choice{
	{"both", both},
	{"sessions only", session.Revisions()},
	{"2026-07-28 only", session.ModernRevisions()},
}

// An outcome is the expected result of one choice.
type outcome struct {
	revision mcp.Revision
	refused  string // part of the error of a client that does not connect
	lacks    []lack
}

func sessions(lacks ...lack) outcome { return outcome{revision: mcp.Revision20251125, lacks: lacks} }
func modern(lacks ...lack) outcome   { return outcome{revision: mcp.Revision20260728, lacks: lacks} }
func refused(err string) outcome     { return outcome{refused: err} }

// Reasons of lacks, for the documentation.
const (
	whyStateless = "The server keeps no sessions. It cannot send requests to a client of a revision with sessions, and it can send notifications only in the response to a request of the client."
	whyStray     = "The server keeps no sessions, so it does not find the call that the client's cancellation notification names."
	whyOneRound  = "In a session, the SDK handles the input requests of the first run of a tool and runs the tool again. It does not handle the input requests of the second run, and returns an empty result."
	whyOneListen = "Over stdio, when one subscription of a client ends, the SDK stops reporting changes of lists to all of the client's subscriptions. When our client subscribes to a resource, it opens a new subscription and then ends the previous one."
	whyNoUpdates = "The server accepts a subscription to a resource, but sends no notifications when the resource changes."
	whyNoStream  = "The client opens a stream for notifications only with the option `WithContinuousListening`. With that option, it does not look for revisions without sessions, so the test does not set it."
	whyNoCancel  = "When the context of a call ends, the client closes the HTTP connection of the call. In a session, that does not cancel the call: the client would have to send a cancellation notification."
)

var (
	statelessLacks = []lack{
		{"rounds of input", "input", whyStateless}, {"several input requests at once", "input", whyStateless},
		{"changes of resources", "", whyStateless}, {"changes of lists", "", whyStateless},
	}
	oneRound     = lack{"rounds of input", "", whyOneRound}
	forgetsLists = lack{"changes of lists", "", whyOneListen}
	noCancel     = lack{"cancellation", "", whyNoCancel}
	noUpdates    = lack{"changes of resources", "", whyNoUpdates}
)

// A theirServer is a server of another SDK, over HTTP or as a child process.
type theirServer struct {
	name      string
	transport string
	outcomes  [3]outcome              // of choices
	url       func(*testing.T) string // over HTTP
	command   func(self string) stdio.Command
	elsewhere bool // TestClientWithTypeScriptServer tests what works, with all revisions
}

func over(handler func(context.Context) http.Handler) func(*testing.T) string {
	return func(t *testing.T) string {
		web := httptest.NewServer(handler(t.Context())) // the context ends before the cleanup
		t.Cleanup(func() {
			web.CloseClientConnections()
			web.Close()
		})
		return web.URL
	}
}

func officialHandler(options official.StreamableHTTPOptions, revisions ...string) func(*testing.T) string {
	return over(func(ctx context.Context) http.Handler {
		s := newOfficialServer(ctx, revisions...)
		return official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s }, &options)
	})
}

func mcpgoHandler(revisions ...string) func(*testing.T) string {
	return over(func(ctx context.Context) http.Handler {
		return mcpgoserver.NewStreamableHTTPServer(newMCPGoServer(ctx), mcpgoserver.WithStateful(true), mcpgoserver.WithStreamableHTTPProtocolVersions(revisions...))
	})
}

// typescript2 returns the URL of a path of a server of the TypeScript SDK that all tests share.
func typescript2(path string) func(*testing.T) string {
	return func(*testing.T) string { return typescript2URL + path }
}

var typescript2URL string

// children are the servers that the test binary can be; see childEnv.
var children = map[string]func() error{
	"plain": func() error { return serve(stdio.Server(stdio.Options{})) },
	"tasks": func() error { return serveTasks(stdio.Server(stdio.Options{})) },
	"extension tasks": func() error {
		return newTaskServer().Run(context.Background(), stdio.Server(stdio.Options{}))
	},
	"official": func() error {
		return newOfficialServer(context.Background()).Run(context.Background(), &official.StdioTransport{})
	},
	"official, modern": func() error {
		return newOfficialServer(context.Background(), string(mcp.Revision20260728)).Run(context.Background(), &official.StdioTransport{})
	},
	"official, sessions": func() error {
		return newOfficialServer(context.Background(), string(mcp.Revision20251125)).Run(context.Background(), &official.StdioTransport{})
	},
	"mcp-go": func() error { return mcpgoserver.ServeStdio(newMCPGoServer(context.Background())) },
}

func init() {
	for _, c := range choices {
		children["mcpwire, "+c.name] = func() error {
			return newServer(context.Background(), c.revisions).Run(context.Background(), stdio.Server(stdio.Options{}))
		}
	}
}

var theirServers = []theirServer{
	{name: "official Go SDK, Stateless", transport: "HTTP",
		url:      officialHandler(official.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}),
		outcomes: [3]outcome{modern(), sessions(append(statelessLacks, lack{"cancellation", "", whyStray})...), modern()}},
	{name: "official Go SDK", transport: "HTTP",
		url:      officialHandler(official.StreamableHTTPOptions{}),
		outcomes: [3]outcome{sessions(oneRound), sessions(oneRound), refused(otherOffered)}},
	{name: "official Go SDK", transport: "stdio", command: child("official"),
		outcomes: [3]outcome{modern(forgetsLists), sessions(oneRound), modern(forgetsLists)}},
	{name: "official Go SDK, SupportedProtocolVersions 2026-07-28", transport: "stdio", command: child("official, modern"),
		outcomes: [3]outcome{modern(forgetsLists), sessions(oneRound), modern(forgetsLists)}},
	{name: "official Go SDK, SupportedProtocolVersions 2025-11-25", transport: "stdio", command: child("official, sessions"),
		outcomes: [3]outcome{sessions(oneRound), sessions(oneRound), refused(otherOffered)}},
	{name: "mcp-go", transport: "HTTP", url: mcpgoHandler(), outcomes: [3]outcome{modern(noUpdates), sessions(), modern(noUpdates)}},
	{name: "mcp-go, WithStreamableHTTPProtocolVersions 2026-07-28", transport: "HTTP", url: mcpgoHandler(mcpgo.ProtocolVersion20260728),
		outcomes: [3]outcome{modern(noUpdates), sessions(), modern(noUpdates)}},
	{name: "mcp-go, WithStreamableHTTPProtocolVersions 2025-11-25", transport: "HTTP", url: mcpgoHandler(mcpgo.ProtocolVersion20251125),
		outcomes: [3]outcome{sessions(), sessions(), refused(otherOffered)}},
	{name: "mcp-go", transport: "stdio", command: child("mcp-go"), outcomes: [3]outcome{modern(), sessions(), modern()}},
	{name: "TypeScript SDK 1", transport: "HTTP", elsewhere: true,
		url: func(t *testing.T) string {
			url, _ := serveTypeScript(t, "server.mjs")
			return url
		},
		outcomes: [3]outcome{sessions(), sessions(), refused(onlySessions)}},
	{name: "TypeScript SDK 1", transport: "stdio", elsewhere: true, command: node("server.mjs"),
		outcomes: [3]outcome{sessions(), sessions(), refused(onlySessions)}},
	{name: "TypeScript SDK 2, createMcpHandler", transport: "HTTP", url: typescript2("/stateless"),
		outcomes: [3]outcome{modern(), sessions(statelessLacks...), modern()}},
	{name: "TypeScript SDK 2, createMcpHandler, legacy 'reject'", transport: "HTTP", url: typescript2("/reject"),
		outcomes: [3]outcome{modern(), refused(onlyModern), modern()}},
	{name: "TypeScript SDK 2, transport with sessions", transport: "HTTP", url: typescript2("/sessions"),
		outcomes: [3]outcome{sessions(), sessions(), refused(onlySessions)}},
	{name: "TypeScript SDK 2, both by isLegacyRequest", transport: "HTTP", url: typescript2("/both"),
		outcomes: [3]outcome{modern(), sessions(), modern()}},
	{name: "TypeScript SDK 2, serveStdio", transport: "stdio", command: node("features-server.mjs", "stdio"),
		outcomes: [3]outcome{modern(), sessions(), modern()}},
	{name: "TypeScript SDK 2, serveStdio, legacy 'reject'", transport: "stdio", command: node("features-server.mjs", "stdio", "reject"),
		outcomes: [3]outcome{modern(), refused(onlyModern), modern()}},
}

// Errors of our client if a server speaks other revisions.
const (
	onlySessions = "session: server serves only revisions with sessions"
	otherOffered = `session: the server offers revision "2025-11-25"`
	onlyModern   = "(code -32022)"
)

// Errors of other clients if our server speaks other revisions.
const (
	onlyOurModern = "initialize is not supported: the server speaks revisions without sessions only"
	notPinned     = "the server did not offer pinned protocol version 2026-07-28"
)

// child returns the command of a server among children.
func child(name string) func(string) stdio.Command {
	return func(self string) stdio.Command {
		return stdio.Command{Path: self, Env: append(os.Environ(), childEnv+"="+name), Stderr: os.Stderr}
	}
}

// node returns the command of a server of the TypeScript SDK.
func node(script string, args ...string) func(string) stdio.Command {
	return func(string) stdio.Command {
		return stdio.Command{Path: "node", Args: append([]string{filepath.Join("typescript", script)}, args...), Stderr: os.Stderr}
	}
}

func TestClientWithServersOfRevisions(t *testing.T) {
	needSDK(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	typescript2URL, _ = serveTypeScript(t, "features-server.mjs")
	for _, s := range theirServers {
		for i, choice := range choices {
			if s.elsewhere && s.outcomes[i].revision != "" {
				continue
			}
			t.Run(s.name+"/"+s.transport+"/"+choice.name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				c, err := connectOurs(ctx, choice.revisions, func(o *client.Options) (*client.Client, error) {
					if s.url != nil {
						return client.Dial(ctx, s.url(t), o)
					}
					return client.Command(ctx, s.command(self), o)
				})
				if c != nil {
					c.key = t.Name()
				}
				checkOutcome(t, c, err, s.outcomes[i])
			})
		}
	}
}

// checkOutcome compares a client that has connected, or has failed to, with what is expected.
func checkOutcome(t *testing.T, c *peer, err error, want outcome) {
	t.Helper()
	if want.revision == "" {
		switch {
		case err == nil:
			t.Errorf("connected with revision %s", c.revision)
			c.close()
		case !strings.Contains(err.Error(), want.refused):
			t.Errorf("got error %v, want %q", err, want.refused)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if c.revision != string(want.revision) {
		t.Errorf("revision %s, want %s", c.revision, want.revision)
	}
	for _, s := range steps {
		ctx, cancel := context.WithTimeout(t.Context(), s.limit(want.lacks))
		got, err := s.run(ctx, c)
		cancel()
		s.check(t, got, err, want.lacks)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

// A theirClient is a client of another SDK.
type theirClient struct {
	name    string
	connect func(context.Context, target) (*peer, error)
	http    [3]outcome // of choices, over HTTP
	stdio   [3]outcome // as a child process
}

var theirClients = []theirClient{
	{"official Go SDK", func(ctx context.Context, s target) (*peer, error) { return connectOfficial(ctx, s, "") },
		[3]outcome{modern(), sessions(), modern()}, [3]outcome{modern(), sessions(), modern()}},
	{"official Go SDK, ProtocolVersion 2025-11-25", func(ctx context.Context, s target) (*peer, error) {
		return connectOfficial(ctx, s, string(mcp.Revision20251125))
	},
		[3]outcome{sessions(), sessions(), refused(onlyOurModern)}, [3]outcome{sessions(), sessions(), refused(onlyOurModern)}},
	{"mcp-go", func(ctx context.Context, s target) (*peer, error) { return connectMCPGo(ctx, s, false) },
		[3]outcome{modern(), sessions(noCancel, lack{"changes of resources", "", whyNoStream}, lack{"changes of lists", "", whyNoStream}), modern()}, [3]outcome{modern(), sessions(), modern()}},
	{"mcp-go, WithLegacyProtocolOnly", func(ctx context.Context, s target) (*peer, error) { return connectMCPGo(ctx, s, true) },
		[3]outcome{sessions(noCancel), sessions(noCancel), refused("server returned 4xx for initialize")}, [3]outcome{sessions(), sessions(), refused(`(supported: [2026-07-28])`)}},
}

func TestClientsWithServerOfRevisions(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range theirClients {
		for i, choice := range choices {
			t.Run(c.name+"/"+choice.name+"/HTTP", func(t *testing.T) {
				t.Parallel()
				runTheirs(t, c, target{url: serveHTTP(t, choice.revisions)}, c.http[i])
			})
			t.Run(c.name+"/"+choice.name+"/stdio", func(t *testing.T) {
				t.Parallel()
				runTheirs(t, c, target{program: self, env: childEnv + "=mcpwire, " + choice.name}, c.stdio[i])
			})
		}
	}
}

func runTheirs(t *testing.T, c theirClient, s target, want outcome) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	p, err := c.connect(ctx, s)
	checkOutcome(t, p, err, want)
}

// serveHTTP serves revisions over HTTP until the test ends, and returns the URL.
func serveHTTP(t *testing.T, revisions []mcp.Revision) string {
	s := newServer(t.Context(), revisions)
	handler := must.Get(s.Handler(nil))
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		if err := handler.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	return web.URL
}

// The clients of the TypeScript SDK run in one process.
func TestTypeScriptClientsWithServerOfRevisions(t *testing.T) {
	needSDK(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	type spec struct {
		Version int               `json:"version"`
		Mode    any               `json:"mode,omitempty"`
		URL     string            `json:"url,omitempty"`
		Command string            `json:"command,omitempty"`
		Env     map[string]string `json:"env,omitempty"`
		Steps   map[string]int64  `json:"steps"`
	}
	var specs []spec
	var names []string
	var wants []outcome
	for _, c := range typescriptClients {
		for i, choice := range choices {
			for _, over := range []string{"HTTP", "stdio"} {
				x, want := spec{Version: c.version, Mode: c.mode, Steps: map[string]int64{}}, c.stdio[i]
				if over == "HTTP" {
					x.URL, want = serveHTTP(t, choice.revisions), c.http[i]
				} else {
					x.Command, x.Env = self, map[string]string{childEnv: "mcpwire, " + choice.name}
				}
				for _, s := range steps {
					x.Steps[s.name] = s.limit(want.lacks).Milliseconds()
				}
				specs, names, wants = append(specs, x), append(names, c.name+"/"+choice.name+"/"+over), append(wants, want)
			}
		}
	}
	list, err := json.Marshal(specs)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "typescript/features-client.mjs", string(list))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Error(err)
	}
	done := map[string]bool{}
	for line := range bytes.Lines(out) {
		var got struct {
			Index           int
			Error, Revision string
			Steps           map[string]struct{ Text, Error string }
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		done[names[got.Index]] = true
		t.Run(names[got.Index], func(t *testing.T) {
			want := wants[got.Index]
			if (want.revision == "") != (got.Error != "") || !strings.Contains(got.Error, want.refused) || got.Revision != string(want.revision) {
				t.Errorf("revision %q, error %q, want %q, %q", got.Revision, got.Error, want.revision, want.refused)
			}
			for _, s := range steps {
				if want.revision == "" || got.Error != "" {
					break
				}
				var err error
				if text := got.Steps[s.name].Error; text != "" {
					err = errors.New(text)
				}
				s.check(t, got.Steps[s.name].Text, err, want.lacks)
			}
		})
	}
	for _, name := range names {
		if !done[name] {
			t.Errorf("%s: no outcome", name)
		}
	}
}

var typescriptClients = []struct {
	name    string
	version int
	mode    any
	http    [3]outcome
	stdio   [3]outcome
}{
	{"TypeScript SDK 1", 1, nil, [3]outcome{sessions(), sessions(), refused(onlyOurModern)}, [3]outcome{sessions(), sessions(), refused(onlyOurModern)}},
	{"TypeScript SDK 2", 2, nil, [3]outcome{sessions(), sessions(), refused(onlyOurModern)}, [3]outcome{sessions(), sessions(), refused(onlyOurModern)}},
	{"TypeScript SDK 2, mode 'auto'", 2, "auto", [3]outcome{modern(), sessions(), modern()}, [3]outcome{modern(), sessions(), modern()}},
	{"TypeScript SDK 2, pin 2026-07-28", 2, map[string]string{"pin": string(mcp.Revision20260728)}, [3]outcome{modern(), refused(notPinned), modern()}, [3]outcome{modern(), refused(notPinned), modern()}},
}
