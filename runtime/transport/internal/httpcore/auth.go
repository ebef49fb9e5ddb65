package httpcore

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// maxSends limits how often a request is sent because of the Authorizer: for example without a
// token, with a token, with a nonce in its proof, and with a token with more scopes.
const maxSends = 4

// maxDiscarded is how many bytes of the body of a challenge are discarded, so that its connection
// can be reused.
const maxDiscarded = 64 << 10

// doAuthorized sends a request with the credentials of the Authorizer.
func (e *End) doAuthorized(ctx context.Context, r Request) (*http.Response, error) {
	op := httpclient.Operation{Server: e.server}
	if !lazyctx.IsUnattended(ctx) {
		if op.Method, op.Name = operation(r.Text); r.Text == nil {
			op.Method = r.Message
		}
	}
	for ; ; op.Attempt++ {
		req, err := e.prepare(ctx, r)
		if err != nil {
			return nil, err
		}
		if err := e.Options.Auth.Authorize(req, op); err != nil {
			return nil, r.wrapError(&notSentError{fmt.Errorf("authorize: %w", err)})
		}
		resp, err := r.doThrough(&e.client, req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden || op.Attempt == maxSends-1 {
			return resp, nil
		}
		status, _ := Status(resp)
		detach(resp)
		again, err := e.challenged(ctx, resp, op)
		switch {
		case err != nil:
			return nil, r.wrapError(&challengeError{status, err})
		case !again:
			return resp, nil
		}
	}
}

// challenged passes a response to the Authorizer, which may wait for a user.
func (e *End) challenged(ctx context.Context, resp *http.Response, op httpclient.Operation) (again bool, err error) {
	defer transport.Hold(ctx)()
	return e.Options.Auth.Challenged(ctx, resp, op)
}

// challengeError is the error of a rejected request that could not be authorized.
type challengeError struct {
	status *httpclient.StatusError
	err    error
}

// Error returns the status and the error of the Authorizer.
func (e *challengeError) Error() string {
	return fmt.Sprintf("status %d %s: %v", e.status.Code, http.StatusText(e.status.Code), e.err)
}

func (e *challengeError) Unwrap() []error { return []error{e.status, e.err} }

// detach replaces the body of a response with a copy of its beginning, so that the response does
// not occupy a connection.
func detach(resp *http.Response) {
	defer closeAfterTimeout(resp.Body).Stop()
	var text bytes.Buffer
	io.CopyN(&text, resp.Body, maxExcerpt)
	io.CopyN(io.Discard, resp.Body, maxDiscarded)
	resp.Body.Close()
	resp.Body = io.NopCloser(&text)
}

// operation returns the method of a message and the tool, prompt or resource that it names. It
// returns "" for a response.
func operation(text []byte) (method, name string) {
	if text == nil {
		return "", ""
	}
	m, err := Parse(text)
	if err != nil || m.Kind != jsonrpc.KindRequest && m.Kind != jsonrpc.KindNotification {
		return "", ""
	}
	switch param := modern.NameParam(m.Method); param {
	case "name", "uri":
		raw, _ := codec.Member(m.Params, param)
		codec.ReadPart(raw, func(r *wire.Reader) { name = r.Text() })
	}
	return m.Method, name
}

// endpoint returns u without user, query and fragment.
func endpoint(u *url.URL) *url.URL {
	e := *u
	e.User, e.RawQuery, e.ForceQuery, e.Fragment, e.RawFragment = nil, "", false, "", ""
	return &e
}

// public lists the header fields that a redirect to another origin keeps. All others may be secret:
// those of the options, the id of the session, and the Referer, whose query may identify a session.
var public = []string{"Accept", "Content-Type", "Mcp-Protocol-Version", "User-Agent"}

// keepPublic removes the header fields that may be secret.
func keepPublic(h http.Header) {
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		return !slices.Contains(public, http.CanonicalHeaderKey(name))
	})
}

// headerValues returns the values of a header field. The names in h need not be canonical.
func headerValues(h http.Header, name string) (values []string) {
	for key, v := range h {
		if strings.EqualFold(textproto.CanonicalMIMEHeaderKey(key), name) {
			values = append(values, v...)
		}
	}
	return values
}
