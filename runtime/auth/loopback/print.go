package loopback

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// Callback returns a user agent for a program with its own web pages. f sends a user to
// authorizationURL, waits for the browser's request to redirectURI, and returns the URL of that
// request with its query. f is called once per authorization. If the redirect it returns has
// another state, the authorization fails; f should ignore such redirects.
func Callback(redirectURI string, f func(ctx context.Context, authorizationURL string) (redirect string, err error)) oauth.UserAgent {
	return callback{redirectURI, f}
}

type callback struct {
	uri string
	f   func(ctx context.Context, authorizationURL string) (string, error)
}

// Begin implements [oauth.UserAgent].
func (c callback) Begin(context.Context, []string) (oauth.Redirect, error) { return c, nil }

// URI implements [oauth.Redirect].
func (c callback) URI() string { return c.uri }

// Close implements [oauth.Redirect].
func (c callback) Close() error { return nil }

// Wait implements [oauth.Redirect].
func (c callback) Wait(ctx context.Context, authorizationURL string, accept func(state string) bool) (url.Values, error) {
	address, err := checked(authorizationURL)
	if err != nil {
		return nil, err
	}
	redirect, err := c.f(ctx, address)
	if err != nil {
		return nil, err
	}
	query, ok := queryOf(redirect, c.uri, accept)
	if !ok {
		return nil, errors.New("loopback: the redirect does not belong to this authorization")
	}
	return query, nil
}

// queryOf returns the query of a redirect to uri. ok is false if it belongs to another
// authorization.
func queryOf(redirect, uri string, accept func(state string) bool) (query url.Values, ok bool) {
	got, err := url.Parse(redirect)
	if err != nil {
		return nil, false
	}
	want, err := url.Parse(uri)
	if err != nil || got.Scheme != want.Scheme || got.Host != want.Host || got.Path != want.Path || got.Opaque != want.Opaque {
		return nil, false
	}
	return accepted(got.RawQuery, accept)
}

// printedURI is the redirect URI of [Print] unless a loopback URI is registered. No server listens
// there: the user copies the address that the browser could not open.
const printedURI = "http://127.0.0.1/callback"

// maxLines is how many lines [Print] reads for one authorization.
const maxLines = 10

// Print returns a user agent without a browser and a listener, for example for a program on another
// machine. It prints the authorization URL to out and reads the redirect from in: one line with the
// address that the browser shows after the login, even if the browser cannot open that address.
// Print runs one authorization at a time. It starts a read of in only during an authorization, and
// may buffer more than one line. If an authorization is canceled, its pending read continues, and
// the next authorization receives the line.
func Print(in io.Reader, out io.Writer) oauth.UserAgent {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	return &printer{in: lines, out: out, turn: make(chan struct{}, 1), lines: make(chan line, 1)}
}

type printer struct {
	in      *bufio.Scanner
	out     io.Writer
	turn    chan struct{} // buffers one; full during an authorization, which owns reading and in
	reading bool          // whether a goroutine is reading a line
	lines   chan line     // buffers one
}

type line struct {
	text string
	err  error
}

// maxLine is the maximum size of a line in bytes.
const maxLine = 64 << 10

// line returns the next line. It waits for a pending read, or starts one. The caller holds turn.
func (p *printer) line(ctx context.Context) (string, error) {
	if !p.reading {
		p.reading = true
		go func() { // ends when it has read a line
			if p.in.Scan() {
				p.lines <- line{text: p.in.Text()}
				return
			}
			p.lines <- line{err: fmt.Errorf("loopback: read the redirect: %w", cmp.Or(p.in.Err(), io.ErrUnexpectedEOF))}
		}()
	}
	select {
	case l := <-p.lines:
		p.reading = false
		return l.text, l.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Begin implements [oauth.UserAgent].
func (p *printer) Begin(_ context.Context, known []string) (oauth.Redirect, error) {
	uri := printedURI
	if i := slices.IndexFunc(known, isLoopback); i >= 0 {
		uri = known[i]
	}
	return printed{p, uri}, nil
}

func isLoopback(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" {
		return false
	}
	_, ok := loopbackAddress(u.Hostname())
	return ok
}

type printed struct {
	p   *printer
	uri string
}

// URI implements [oauth.Redirect].
func (r printed) URI() string { return r.uri }

// Close implements [oauth.Redirect].
func (r printed) Close() error { return nil }

// Wait implements [oauth.Redirect].
func (r printed) Wait(ctx context.Context, authorizationURL string, accept func(state string) bool) (url.Values, error) {
	address, err := checked(authorizationURL)
	if err != nil {
		return nil, err
	}
	p := r.p
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	fmt.Fprintf(p.out, "To log in, open %s\nThen paste the address to which the browser was sent, which begins with %s\n", address, r.uri)
	for range maxLines {
		text, err := p.line(ctx)
		if err != nil {
			return nil, err
		}
		if query, ok := queryOf(strings.TrimSpace(text), r.uri, accept); ok {
			return query, nil
		}
		fmt.Fprintf(p.out, "This is not the address of this login. Paste an address that begins with %s\n", r.uri)
	}
	return nil, fmt.Errorf("loopback: no redirect in %d lines", maxLines)
}
