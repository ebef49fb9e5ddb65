// Package loopback provides user agents for package oauth: [New] opens a browser and receives the
// redirect on a loopback address, [Print] prints the authorization URL and reads the redirect, and
// [Callback] is for programs with their own web pages.
package loopback

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Options configures [New]. The zero value is valid.
type Options struct {
	// Open shows a URL to the user. The default is the function [Open].
	Open func(url string) error
	// Print receives a line with the URL, for users whose browser does not open. If it is nil, the
	// authorization fails if Open fails.
	Print io.Writer
}

// New returns a user agent for a program on the user's machine. For each authorization, it listens
// on a loopback address. It uses the port and path of a known redirect URI if that port is free,
// and a random port and path otherwise. It accepts one GET request with the state of the
// authorization, and rejects all others (RFC 8252, "Loopback Interface Redirection"). o may be nil.
func New(o *Options) oauth.UserAgent {
	a := &agent{listen: listen}
	if o != nil {
		a.o = *o
	}
	if a.o.Open == nil {
		a.o.Open = Open
	}
	return a
}

type agent struct {
	o      Options
	listen func(ctx context.Context, address string) (net.Listener, error)
}

// Begin implements [oauth.UserAgent].
func (a *agent) Begin(ctx context.Context, known []string) (oauth.Redirect, error) {
	for _, uri := range known {
		if l, own, ok := a.listenAs(ctx, uri); ok {
			return &redirect{o: a.o, listener: l, uri: own}, nil
		}
	}
	l, err := a.listen(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("loopback: %w", err)
	}
	own := &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/callback/" + strings.ToLower(rand.Text())}
	return &redirect{o: a.o, listener: l, uri: own}, nil
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

// listenAs listens on the address of a registered redirect URI. A URI without a port matches every
// port. ok is false if the URI has no loopback address, or if its port is in use.
func (a *agent) listenAs(ctx context.Context, uri string) (l net.Listener, own *url.URL, ok bool) {
	own, err := url.Parse(uri)
	if err != nil || own.Scheme != "http" || own.User != nil || own.RawQuery != "" || own.Fragment != "" {
		return nil, nil, false
	}
	address, ok := loopbackAddress(own.Hostname())
	if !ok {
		return nil, nil, false
	}
	l, err = a.listen(ctx, net.JoinHostPort(address, cmp.Or(own.Port(), "0")))
	if err != nil {
		return nil, nil, false
	}
	if own.Port() == "" {
		_, port, _ := net.SplitHostPort(l.Addr().String())
		own.Host = net.JoinHostPort(own.Hostname(), port)
	}
	return l, own, true
}

// loopbackAddress returns the address to listen on for a host.
func loopbackAddress(host string) (address string, ok bool) {
	if strings.EqualFold(host, "localhost") {
		return "127.0.0.1", true
	}
	ip, err := netip.ParseAddr(host)
	return ip.String(), err == nil && ip.IsLoopback()
}

// redirect is a listener for one redirect.
type redirect struct {
	o        Options
	listener net.Listener
	uri      *url.URL

	closing sync.Once
	server  atomic.Pointer[http.Server] // nil before Wait
}

// URI implements [oauth.Redirect].
func (r *redirect) URI() string { return r.uri.String() }

// maxRequests is how many requests may arrive before the authorization fails.
const maxRequests = 100

// Limits of a request to the listener.
const (
	headerTimeout  = 5 * time.Second
	maxHeaderBytes = 64 << 10
)

var errTooManyRequests = fmt.Errorf("loopback: more than %d requests without the state of the authorization", maxRequests)

// Wait implements [oauth.Redirect].
func (r *redirect) Wait(ctx context.Context, authorizationURL string, accept func(state string) bool) (url.Values, error) {
	shown, err := checked(authorizationURL)
	if err != nil {
		return nil, err
	}
	h := &handler{path: r.uri.Path, port: port(r.listener), accept: accept, outcome: make(chan outcome, 1)}
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: noLog}
	server.SetKeepAlivesEnabled(false)
	r.server.Store(server)
	defer r.Close()
	served := make(chan error, 1)
	go func() { served <- server.Serve(r.listener) }() // ends when the server is closed
	if r.o.Print != nil {
		fmt.Fprintf(r.o.Print, "To log in, open %s\n", shown)
	}
	opened := make(chan error, 1)
	go func() { opened <- boundary.Run(func() error { return r.o.Open(shown) }) }() // ends when Open returns
	for {
		select {
		case got := <-h.outcome:
			return got.query, got.err
		case err := <-opened:
			if err != nil && r.o.Print == nil {
				return nil, fmt.Errorf("loopback: open the browser: %w", err)
			}
		case err := <-served:
			return nil, fmt.Errorf("loopback: %w", err)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// closeTimeout is how long Close waits for the browser to receive the page.
const closeTimeout = time.Second

// Close implements [oauth.Redirect].
func (r *redirect) Close() error {
	r.closing.Do(func() {
		server := r.server.Load()
		if server == nil {
			r.listener.Close()
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	})
	return nil
}

func port(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// checked returns the URL in text if a browser may open it.
func checked(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("loopback: malformed authorization URL") // the text of err contains the URL
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", fmt.Errorf("loopback: authorization URL with scheme %q and host %q is not supported", u.Scheme, u.Host)
	}
	return u.String(), nil
}

// Open opens an http or https URL in the user's browser. It returns when the system's opener
// command, such as xdg-open, has exited.
func Open(address string) error {
	address, err := checked(address)
	if err != nil {
		return err
	}
	argv := opener(runtime.GOOS, address)
	cmd := exec.Command(argv[0], argv[1:]...)
	setApart(cmd)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", argv[0], err)
	}
	return nil
}

// opener returns the command that opens a URL. The command must not be run by a shell.
func opener(system, address string) []string {
	switch system {
	case "darwin":
		return []string{"open", address}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	return []string{"xdg-open", address}
}
