// Package mockas is a scripted network for tests of authorization: authorization servers, protected
// resources and a browser, all in memory.
package mockas

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// Network routes requests to handlers by host, and records all requests. It is safe for concurrent
// use, except for Handle, which must be called before the first request.
type Network struct {
	hosts map[string]http.Handler

	mu       sync.Mutex
	requests []Request
}

// Request is a recorded request.
type Request struct {
	Method string
	URL    string     // without query
	Form   url.Values // of the query and of a form in the body
	Body   string
	Header http.Header
}

// Handle adds a handler for a host, such as "as.example".
func (n *Network) Handle(host string, h http.Handler) {
	if n.hosts == nil {
		n.hosts = map[string]http.Handler{}
	}
	n.hosts[host] = h
}

// RoundTrip implements [http.RoundTripper]. It passes a request to the handler of its host.
func (n *Network) RoundTrip(req *http.Request) (*http.Response, error) {
	h := n.hosts[req.URL.Host]
	if h == nil {
		return nil, errors.New("connection refused: " + req.URL.Host)
	}
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body.Close()
	}
	u := *req.URL
	u.RawQuery = ""
	recorded := Request{req.Method, u.String(), req.URL.Query(), string(body), req.Header.Clone()}
	if req.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
		form, _ := url.ParseQuery(string(body))
		for name, values := range form {
			recorded.Form[name] = append(recorded.Form[name], values...)
		}
	}
	n.mu.Lock()
	n.requests = append(n.requests, recorded)
	n.mu.Unlock()
	in := req.Clone(req.Context())
	in.Body = io.NopCloser(bytes.NewReader(body))
	in.RequestURI = req.URL.RequestURI()
	in.Host = req.URL.Host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, in)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

// Client returns a client of the network that follows no redirects.
func (n *Network) Client() *http.Client {
	return &http.Client{Transport: n, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Requests returns the recorded requests whose method and URL begin with one of the prefixes, such
// as "POST https://as.example/token". Without prefixes, it returns all requests.
func (n *Network) Requests(prefixes ...string) []Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.requests), func(r Request) bool {
		return prefixes != nil && !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(r.Method+" "+r.URL, p) })
	})
}

// Lines returns the method and URL of each recorded request.
func (n *Network) Lines() []string {
	var lines []string
	for _, r := range n.Requests() {
		lines = append(lines, r.Method+" "+r.URL)
	}
	return lines
}

// Clear removes the recorded requests.
func (n *Network) Clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests = nil
}

// Browser is a user agent that authorizes immediately. It visits the authorization URL and returns
// the redirect.
type Browser struct {
	Network  *Network
	Callback string                                // the redirect URI; default http://127.0.0.1:1/callback
	Answer   func(url.Values)                      // if not nil, changes the query of the redirect
	Refuse   error                                 // if not nil, is returned by Wait
	Before   func(ctx context.Context, url string) // if not nil, is called before the visit

	mu    sync.Mutex
	known [][]string
}

// Begin implements [oauth.UserAgent].
func (b *Browser) Begin(_ context.Context, known []string) (oauth.Redirect, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = append(b.known, known)
	return visit{b}, nil
}

// Known returns the known redirect URIs of each call of Begin.
func (b *Browser) Known() [][]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known
}

type visit struct{ b *Browser }

func (v visit) URI() string {
	if v.b.Callback == "" {
		return "http://127.0.0.1:1/callback"
	}
	return v.b.Callback
}

func (v visit) Close() error { return nil }

func (v visit) Wait(ctx context.Context, authorizationURL string, accept func(string) bool) (url.Values, error) {
	if v.b.Before != nil {
		v.b.Before(ctx, authorizationURL)
	}
	if v.b.Refuse != nil {
		return nil, v.b.Refuse
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, authorizationURL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := v.b.Network.Client().Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	u, err := resp.Location()
	if err != nil {
		return nil, errors.New("the browser shows an error page")
	}
	if !strings.HasPrefix(u.String(), v.URI()+"?") {
		return nil, errors.New("the browser was sent elsewhere")
	}
	answer := u.Query()
	if v.b.Answer != nil {
		v.b.Answer(answer)
	}
	return answer, nil
}
