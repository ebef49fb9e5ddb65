package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-shellwords"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/console"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/recorder"
)

// serverHelp is the part of the help that all commands that connect to a server share.
const serverHelp = `
SERVER is a URL, or a command line in one argument, such as 'weather-server -v'. The command gets a
few variables of the environment, such as PATH and HOME, and those named by -env. Its standard error
is shown. Only results are written to standard output; progress and input requests are written to
standard error. Answers to input requests are read from standard input, line by line, and nothing is
read before the server asks. If standard input is an empty file or /dev/null, the server cannot
request input. On a terminal, control characters from the server are escaped.
` + authHelp

// remote is a connection to a server, configured by the flags of a command.
type remote struct {
	json    bool
	env     values
	headers values
	roots   values
	era     era
	access  access

	streams
	lines   sync.Mutex // held while a line is written
	console *console.Console
	*client.Client
}

// text is a flag that is not empty if it is given. An empty one usually comes from a variable of the
// shell that is not set. Without it, the command would not do what the user wants, such as log in
// only at one authorization server.
type text string

func (t *text) String() string { return string(*t) }

func (t *text) Set(s string) error {
	if s == "" {
		return errors.New("it is empty")
	}
	*t = text(s)
	return nil
}

// values is a flag that can be given several times.
type values []string

func (v *values) String() string { return strings.Join(*v, ", ") }

func (v *values) Set(s string) error {
	if s == "" {
		return errors.New("it is empty")
	}
	*v = append(*v, s)
	return nil
}

// era is a flag that selects protocol revisions. The zero value selects all.
type era string

const (
	modernEra  era = "modern"
	sessionEra era = "session"
)

func (e *era) String() string { return string(*e) }

func (e *era) Set(s string) error {
	if *e = era(s); *e != modernEra && *e != sessionEra {
		return fmt.Errorf("want %s or %s", modernEra, sessionEra)
	}
	return nil
}

// revisions returns the revisions of the era, the preferred one first.
func (e era) revisions() []mcp.Revision {
	switch e {
	case modernEra:
		return session.ModernRevisions()
	case sessionEra:
		return session.Revisions()
	}
	return append(session.ModernRevisions(), session.Revisions()...)
}

// preferSessions selects revisions with sessions, which report the progress of tasks and list them,
// unless the user has selected others.
func (e *era) preferSessions() {
	if *e == "" {
		*e = sessionEra
	}
}

// declare declares the flags.
func (r *remote) declare(flags *flag.FlagSet) {
	flags.BoolVar(&r.json, "json", false, "write JSON for scripts, one result per line")
	flags.Var(&r.env, "env", "pass the environment variable `NAME[=VALUE]` to the command; may be repeated")
	flags.Var(&r.headers, "header", "send the header `\"Name: value\"` to the URL; may be repeated")
	flags.Var(&r.era, "era", "use only revisions of `ERA`: modern, those without sessions, or session; by default, the server decides")
	r.access.declare(flags)
	flags.Var(&r.roots, "root", "offer the folder `DIR` to the server as a root; may be repeated")
}

// waitingAfter is how long a command is silent while it connects.
const waitingAfter = 2 * time.Second

// withServer connects to server, runs f, and disconnects.
func (r *remote) withServer(ctx context.Context, s streams, server string, f func() error) error {
	r.streams, r.console = s, console.New(s.in, s.err)
	waiting := func() { r.console.Line("waiting for %s to respond …", withoutSecrets(server)) }
	timer := time.AfterFunc(waitingAfter, waiting)
	c, err := r.dial(ctx, server)
	timer.Stop()
	if err != nil {
		if _, usage := errors.AsType[*usageError](err); usage {
			return err
		}
		if lost, ok := errors.AsType[*transport.DeliveryError](err); ok {
			err = lost.Err
		}
		if explained := r.access.explain(err, server); explained != err {
			return explained
		}
		return fmt.Errorf("cannot connect to %s: %w", withoutSecrets(server), err)
	}
	r.Client = c
	err = r.access.explain(explainTasks(f(), server), server)
	r.console.Finish()
	closed := c.Close()
	if err == nil && closed != nil {
		if _, ok := errors.AsType[*exec.ExitError](closed); ok {
			closed = fmt.Errorf("the command succeeded, but the server process failed: %w", closed)
		}
		err = closed
	}
	return err
}

// withoutSecrets returns a command unchanged, and a URL without its user and query.
func withoutSecrets(server string) string {
	if !isURL(server) {
		return server
	}
	return recorder.Server{URL: server}.String()
}

// dial connects to a server.
func (r *remote) dial(ctx context.Context, server string) (*client.Client, error) {
	o := &client.Options{
		Info:    mcp.Implementation{Name: "mcpwire", Version: "1"},
		Session: session.Options{Revisions: session.Revisions()}, // its commands use tasks and subscriptions of sessions
	}
	if r.console.HasInput() { // without input the user cannot answer, so the client declares no elicitation
		o.Input.Fill, o.Input.OpenURL = r.console.Fill, r.console.OpenURL
	}
	var err error
	if o.HTTP.Header, err = r.headers.header(); err != nil {
		return nil, err
	}
	if o.Input.Roots, err = r.offeredRoots(); err != nil {
		return nil, err
	}
	o.Session.Revisions = r.era.revisions()
	link, words, err := serverOf(server)
	switch {
	case err != nil:
		return nil, err
	case link != "" && len(r.env) > 0:
		return nil, usagef("-env is for servers that are commands")
	case link == "" && len(r.headers) > 0:
		return nil, usagef("-header is for servers at a URL")
	case link != "":
		if o.Auth, err = r.access.authorizer(userAgent(ctx, r.console), link, o.HTTP.Header); err != nil {
			return nil, err
		}
		return client.Dial(ctx, link, o)
	case r.access.used() != "":
		return nil, usagef("%s is for servers at a URL", r.access.used())
	}
	env, err := r.env.environment()
	if err != nil {
		return nil, err
	}
	return client.Command(ctx, stdio.Command{Path: words[0], Args: words[1:], Env: env, Stderr: r.console, Apart: true}, o)
}

// environment returns the environment of a server's command, with variables of the form NAME, which
// are those of this process, or NAME=VALUE.
func (v values) environment() ([]string, error) {
	env := stdio.DefaultEnv()
	for _, e := range v {
		name, _, given := strings.Cut(e, "=")
		if name == "" {
			return nil, usagef("-env %q has no name; use NAME or NAME=VALUE", e)
		}
		if !given {
			value, ok := os.LookupEnv(name)
			if !ok {
				return nil, usagef("-env %s: the variable is not set; set it, or use %s=VALUE", name, name)
			}
			e = name + "=" + value
		}
		env = append(env, e)
	}
	return env, nil
}

// header parses header fields of the form "Name: value". It returns nil if there are none.
func (v values) header() (h http.Header, err error) {
	for _, field := range v {
		name, value, ok := strings.Cut(field, ":")
		if !ok {
			return nil, usagef("-header %q has no colon; use \"Name: value\"", field)
		}
		if h == nil {
			h = http.Header{}
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return h, nil
}

func isURL(server string) bool {
	return strings.HasPrefix(server, "http://") || strings.HasPrefix(server, "https://")
}

// serverOf parses the argument SERVER as a URL or as the words of a command.
func serverOf(server string) (link string, words []string, err error) {
	if isURL(server) {
		return server, nil, nil
	}
	words, err = shellwords.Parse(server)
	if err != nil || len(words) == 0 || strings.Contains(words[0], "://") {
		return "", nil, usagef("server %q is neither a URL nor a command", server)
	}
	return "", words, nil
}

// offeredRoots returns the roots to offer to the server, or nil.
func (r *remote) offeredRoots() (*client.Roots, error) {
	if len(r.roots) == 0 {
		return nil, nil
	}
	var list []mcp.Root
	for _, folder := range r.roots {
		path, err := filepath.Abs(folder)
		if err != nil {
			return nil, err
		}
		u := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(path), "/")}
		list = append(list, mcp.Root{URI: u.String(), Name: new(filepath.Base(path))})
	}
	roots := new(client.Roots)
	return roots, roots.Set(context.Background(), list...)
}

// writeJSON writes a value as a line of JSON.
func (r *remote) writeJSON(v codec.Encoder) error {
	text, err := codec.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.out, "%s\n", text)
	return err
}

// writeResult writes the result of a tool. The result of a failed tool goes to standard error.
func (r *remote) writeResult(result *mcp.CallToolResult) error {
	failed := result.Failed()
	w := r.out
	if failed {
		w = r.console
	}
	var err error
	if r.json {
		err = r.writeJSON(result)
	} else {
		err = formatResult(w, result)
	}
	if err == nil && failed {
		return errFaults
	}
	return err
}

// formatResult writes a result for people.
func formatResult(w io.Writer, result *mcp.CallToolResult) error {
	for _, block := range result.Content {
		if _, err := fmt.Fprintln(w, describe(block)); err != nil {
			return err
		}
	}
	if len(result.Content) > 0 || len(result.StructuredContent) == 0 {
		return nil
	}
	text, err := json.MarshalIndent(result.StructuredContent, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}

// describe returns a content block as text.
func describe(block mcp.ContentBlock) string {
	switch b := block.(type) {
	case *mcp.TextContent:
		return b.Text
	case *mcp.ImageContent:
		return fmt.Sprintf("[image: %s, %d bytes in base64]", b.MIMEType, len(b.Data))
	case *mcp.AudioContent:
		return fmt.Sprintf("[audio: %s, %d bytes in base64]", b.MIMEType, len(b.Data))
	case *mcp.ResourceLink:
		return fmt.Sprintf("[link: %s, %s]", client.Title(b), b.URI)
	case *mcp.EmbeddedResource:
		switch x := b.Resource.(type) {
		case *mcp.TextResourceContents:
			return x.Text
		case *mcp.BlobResourceContents:
			return fmt.Sprintf("[resource: %s, %d bytes in base64]", x.URI, len(x.Blob))
		}
	case *mcp.Unknown:
		return string(b.Raw)
	}
	return fmt.Sprintf("[%T]", block)
}
