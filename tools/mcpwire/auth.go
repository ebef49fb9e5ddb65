package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/filestore"
	"github.com/mcpwire/mcpwire/runtime/auth/loopback"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/console"
)

// authHelp is the section of the help about authorization.
const authHelp = `
If the server at a URL demands authorization, add -login to log in with your browser. Without a
browser or a terminal, -login prints the address to open, and reads the address to which the browser is
redirected. The login is stored in mcpwire/credentials.json in your configuration directory. Only you
can read the file. Later commands use the stored login without -login. To delete it, run "mcpwire
logout URL". A token given by -token or the environment variable MCPWIRE_TOKEN is not stored.
MCPWIRE_TOKEN is sent only to the server whose URL is in MCPWIRE_TOKEN_FOR, and to other URLs with the
same scheme, host and port.

With -issuer, you log in only at the authorization server that you name, whatever the server names.
You need it if the server names none, if the authorization server has several addresses and does not
name itself in its responses, and with -client-secret-file: the secret is sent to no other.
`

// authArgs are the flags of authorization, for the usage line.
const authArgs = "[-login] [-token TOKEN] [-issuer URL] [-client-id ID] [-client-secret-file FILE] [-scope SCOPE] [-allow-private]"

// Environment variables for a token and for the URL of the server that it is for. A variable stays
// set when the user names another server, so the token needs its own recipient.
const (
	tokenEnv    = "MCPWIRE_TOKEN"
	tokenForEnv = "MCPWIRE_TOKEN_FOR"
)

// access holds the authorization flags of a command.
type access struct {
	login        bool
	token        text
	issuer       text
	clientID     text
	secretFile   text
	scopes       values
	allowPrivate bool
}

// declare declares the flags.
func (a *access) declare(flags *flag.FlagSet) {
	flags.BoolVar(&a.login, "login", false, "log in with the browser if the server demands it, and store the login")
	flags.Var(&a.token, "token", "send the bearer `TOKEN` to the URL; @FILE reads it from FILE")
	flags.Var(&a.issuer, "issuer", "log in only at the authorization server whose issuer is `URL`")
	flags.Var(&a.clientID, "client-id", "log in as the registered client `ID`, whose redirect URI must be "+registeredURI)
	flags.Var(&a.secretFile, "client-secret-file", "read the secret of the registered client from `FILE`; needs -issuer")
	flags.Var(&a.scopes, "scope", "request `SCOPE` in addition to what the server demands; may be repeated")
	flags.BoolVar(&a.allowPrivate, "allow-private", false, "allow authorization servers at private addresses")
}

// registeredURI is the redirect URI of pre-registered clients. Authorization servers must accept
// any port for it (RFC 8252, section 7.3).
const registeredURI = "http://127.0.0.1/callback"

// used returns the name of a flag that was given, or "" if none was.
func (a *access) used() string {
	switch {
	case a.login:
		return "-login"
	case a.token != "":
		return "-token"
	case a.issuer != "":
		return "-issuer"
	case a.clientID != "":
		return "-client-id"
	case a.secretFile != "":
		return "-client-secret-file"
	case len(a.scopes) > 0:
		return "-scope"
	case a.allowPrivate:
		return "-allow-private"
	}
	return ""
}

// authorizer returns the Authorizer for the server at link, or nil if h has an Authorization field.
// Only -login uses the user agent.
func (a *access) authorizer(user oauth.UserAgent, link string, h http.Header) (httpclient.Authorizer, error) {
	own := h.Get("Authorization") != ""
	switch {
	case own && (a.login || a.token != ""):
		return nil, usagef("%s cannot be used with -header Authorization", a.used())
	case own:
		return nil, nil
	case a.login && a.token != "":
		return nil, usagef("-login cannot be used with -token")
	case a.secretFile != "" && a.clientID == "":
		return nil, usagef("-client-secret-file needs -client-id")
	case a.secretFile != "" && a.issuer == "":
		return nil, usagef("-client-secret-file needs -issuer, the URL of the authorization server to which the secret is sent")
	case a.issuer != "" && !isURL(string(a.issuer)):
		return nil, usagef("-issuer %q is not a URL", a.issuer)
	}
	given, recipient := string(a.token), link
	if given == "" && !a.login {
		given, recipient = os.Getenv(tokenEnv), os.Getenv(tokenForEnv)
		if given != "" && !isURL(recipient) {
			return nil, usagef("%s is set without %s: set that to the URL of the server for which the token is meant, or use -token", tokenEnv, tokenForEnv)
		}
	}
	token, err := readToken(given)
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(link)
	if err != nil {
		return nil, errors.New("malformed URL") // the text of err may contain a password
	}
	token = token.For(recipient)
	if _, err := token.RevealTo(server); err == nil && !token.Empty() {
		return client.Token(token), nil
	}
	authorizer, err := a.newAuthorizer(user)
	if fault, ok := errors.AsType[*storeError](err); ok && !a.login {
		return unreadable{fault}, nil
	}
	if err != nil {
		return nil, err
	}
	return authorizer, nil
}

// storeError is returned if the stored logins cannot be read.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

// unreadable is the Authorizer if the stored logins cannot be read. A server that demands no
// authorization does not need them.
type unreadable struct{ err *storeError }

// Authorize implements [httpclient.Authorizer].
func (unreadable) Authorize(*http.Request, httpclient.Operation) error { return nil }

// Challenged implements [httpclient.Authorizer].
func (u unreadable) Challenged(_ context.Context, r *http.Response, _ httpclient.Operation) (bool, error) {
	if r.StatusCode == http.StatusUnauthorized {
		return false, u.err
	}
	return false, nil
}

// readToken returns a token that was given as such or as @FILE.
func readToken(given string) (auth.Secret, error) {
	name, ok := strings.CutPrefix(given, "@")
	if !ok {
		return auth.NewSecret(given), nil
	}
	return readSecret(name)
}

// readSecret returns the content of a file without spaces around it.
func readSecret(name string) (auth.Secret, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return auth.Secret{}, err
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return auth.Secret{}, fmt.Errorf("%s is empty", name)
	}
	return auth.NewSecret(string(text)), nil
}

// newAuthorizer returns an Authorizer that uses stored logins. Only -login uses the user agent.
func (a *access) newAuthorizer(user oauth.UserAgent) (*oauth.Authorizer, error) {
	c := oauth.Options{Scopes: a.scopes}
	switch dir, err := os.UserConfigDir(); {
	case err == nil:
		if c.Store, err = filestore.Open(filepath.Join(dir, "mcpwire", "credentials.json"), nil); err != nil {
			return nil, &storeError{err}
		}
	case a.login:
		return nil, fmt.Errorf("cannot store the login: %w", err)
	}
	c.Network.AllowPrivate = a.allowPrivate
	if a.issuer != "" {
		c.Issuer = string(a.issuer)
		c.ChooseIssuer = func(_ context.Context, issuers []string) (string, error) {
			if !slices.Contains(issuers, c.Issuer) {
				return "", fmt.Errorf("the server names %q, and not the issuer of -issuer", issuers)
			}
			return c.Issuer, nil
		}
	}
	if a.login {
		c.User = user
	}
	if a.clientID != "" {
		own := oauth.Client{Issuer: cmp.Or(string(a.issuer), "*"), ID: string(a.clientID), RedirectURIs: []string{registeredURI}}
		if a.secretFile != "" {
			var err error
			if own.Secret, err = readSecret(string(a.secretFile)); err != nil {
				return nil, err
			}
		}
		c.Clients = []oauth.Client{own}
	}
	return oauth.New(c)
}

// userAgent returns a user agent that opens the browser. Without a terminal or a browser, it
// returns one that prints the address and reads the redirect.
func userAgent(ctx context.Context, c *console.Console) oauth.UserAgent {
	if c.Terminal() && hasBrowser() {
		return loopback.New(&loopback.Options{Print: notices{c}})
	}
	return loopback.Print(&asking{ctx: ctx, c: c}, notices{c})
}

// hasBrowser reports whether this machine can probably open a browser for the user.
func hasBrowser() bool {
	switch runtime.GOOS {
	case "darwin", "windows":
		return os.Getenv("SSH_CONNECTION") == ""
	}
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return false
	}
	_, err := exec.LookPath("xdg-open")
	return err == nil
}

// notices writes lines of this program to a console.
type notices struct{ *console.Console }

func (n notices) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		n.Line("%s", strings.TrimRight(line, "\n"))
	}
	return len(text), nil
}

// asking is a Reader of the lines that the user types on a console. Read prompts for a line if none
// is buffered.
type asking struct {
	ctx  context.Context
	c    *console.Console
	rest string
}

func (a *asking) Read(p []byte) (int, error) {
	if a.rest == "" {
		text, err := a.c.AskSecret(a.ctx, "Address: ") // it contains the authorization code
		if err != nil {
			return 0, io.EOF
		}
		a.rest = text + "\n"
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// explain replaces err with instructions for the user if a login is missing, and adds some if it
// may be impossible because the authorization server is not known, or not trusted.
func (a *access) explain(err error, server string) error {
	if !errors.Is(err, oauth.ErrLoginNeeded) {
		if e, ok := errors.AsType[*oauth.Error](err); ok && a.issuer == "" && (e.Op == "discover" || errors.Is(err, oauth.ErrIssuer)) {
			return fmt.Errorf("cannot log in to %s: %w; to log in at an authorization server that you know, add -issuer URL", withoutSecrets(server), err)
		}
		return err
	}
	if status, ok := errors.AsType[*httpclient.StatusError](err); ok && status.Code == http.StatusForbidden {
		return fmt.Errorf("the login for %s does not permit this: add -login to request more scopes", withoutSecrets(server))
	}
	return fmt.Errorf("not logged in to %s: add -login", withoutSecrets(server))
}

// logout returns the command logout.
func logout() command {
	return command{
		name:  "logout",
		args:  "[-allow-private] URL",
		short: "delete the stored login for a server",
		help: `
Deletes the stored token for the server at a URL. If the authorization server supports revocation, the
token is revoked.

Example:

  mcpwire logout https://example.com/mcp
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			a := new(access)
			flags.BoolVar(&a.allowPrivate, "allow-private", false, "allow authorization servers at private addresses")
			return func(ctx context.Context, _ streams, args []string) error {
				switch {
				case len(args) == 0:
					return usagef("missing URL")
				case len(args) > 1:
					return usagef("unexpected argument %q", args[1])
				case !isURL(args[0]):
					return usagef("%q is not a URL", args[0])
				}
				authorizer, err := a.newAuthorizer(nil)
				if err != nil {
					return err
				}
				return authorizer.Logout(ctx, args[0])
			}
		},
	}
}
