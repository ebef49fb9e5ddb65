package recorder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// authorizing is a Transport that authorizes the requests to the endpoint of a server.
type authorizing struct {
	http.RoundTripper
	auth   httpclient.Authorizer
	server *url.URL
}

// endpoint returns a URL without its query and user.
func endpoint(u *url.URL) *url.URL {
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
}

// maxSends is how many times a request is sent.
const maxSends = 4

// RoundTrip implements [http.RoundTripper]. It leaves requests alone that the client has authorized.
// If a request cannot be authorized, the client gets the rejection by the server. A request that is
// too long to be recorded is sent once.
func (t *authorizing) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req)
	if x == nil || req.Header.Get("Authorization") != "" {
		return t.RoundTripper.RoundTrip(req)
	}
	op := httpclient.Operation{Server: t.server}
	op.Method, op.Name = operation(x.body)
	for ; ; op.Attempt++ {
		next := req.Clone(req.Context())
		if x.body != nil {
			next.Body = io.NopCloser(bytes.NewReader(x.body))
		}
		if err := t.auth.Authorize(next, op); err != nil {
			return nil, fmt.Errorf("authorize: %w", err)
		}
		resp, err := t.RoundTripper.RoundTrip(next)
		if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			return resp, err
		}
		if op.Attempt == maxSends-1 || x.body == nil && req.Method == http.MethodPost {
			return resp, nil
		}
		again, err := t.auth.Challenged(req.Context(), resp, op)
		if err != nil {
			x.session.Event(err.Error())
		}
		if !again {
			return resp, nil
		}
		resp.Body.Close()
	}
}

// operation returns the method of a message, and the name of what it uses.
func operation(text []byte) (method, name string) {
	var m struct {
		Method string
		Params struct{ Name, URI string }
	}
	json.Unmarshal(text, &m) // the server reports faults
	return m.Method, m.Params.Name + m.Params.URI
}
