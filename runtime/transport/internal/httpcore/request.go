package httpcore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// Request is an HTTP request.
type Request struct {
	Method string
	URL    *url.URL
	Header http.Header // protocol headers; not modified
	Text   []byte      // the body; nil for none
	// Body saves an allocation: it reads Text in the first HTTP request, and is zero before. Retries
	// and redirects allocate readers of their own, because net/http may still use it.
	Body *bytes.Reader
	// Message is the method of the message that a request without Text prepares, for the
	// Authorizer; "" if there is none.
	Message string
}

// Do sends a request. The caller must close the body of the response, also if its status is an
// error.
func (e *End) Do(ctx context.Context, r Request) (*http.Response, error) {
	resp, err := e.do(ctx, r)
	if err == nil {
		e.stalls.Store(0)
		if r.Header["Accept-Encoding"] != nil {
			decompress(resp)
		}
	}
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return resp, err
}

// DoWithTimeout is [End.Do] with a limit: it fails with [transport.ErrStalled] if the response does
// not begin within Timeouts.Stall, which [transport.Hold] pauses.
func (e *End) DoWithTimeout(ctx context.Context, r Request) (*http.Response, error) {
	clock := new(lazyctx.Clock)
	ctx, cancel := context.WithCancelCause(lazyctx.WithClock(ctx, clock))
	stop := clock.AfterFunc(e.Options.Timeouts.Stall, func() { cancel(e.stalled) })
	resp, err := e.Do(ctx, r)
	if !stop() && err == nil {
		resp.Body.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Body = &cancellingBody{resp.Body, cancel}
	return resp, nil
}

// cancellingBody is a body whose Close cancels its request.
type cancellingBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (c *cancellingBody) Close() error {
	c.cancel(nil)
	return c.ReadCloser.Close()
}

// do sends a request. If the client would add only redirects, do uses its Transport directly, which
// is cheaper. It does so only for a plain *http.Transport, because other implementations may modify
// the request.
func (e *End) do(ctx context.Context, r Request) (*http.Response, error) {
	if e.plain != nil && r.URL.User == nil {
		resp, err := e.plain.RoundTrip(r.httpRequest(ctx))
		if err != nil {
			return nil, r.wrapError(err)
		}
		if resp.StatusCode/100 != 3 || resp.Header.Get("Location") == "" {
			return resp, nil
		}
		client := e.client // follows the redirect or returns an error
		client.Transport = &redirected{resp, e.plain}
		return r.doThrough(&client, r.httpRequest(ctx))
	}
	if e.Options.Auth != nil && SameOrigin(r.URL, e.server) {
		return e.doAuthorized(ctx, r)
	}
	req, err := e.prepare(ctx, r)
	if err != nil {
		return nil, err
	}
	return r.doThrough(&e.client, req)
}

// prepare returns the request with the headers of the options. They are meant for the origin of the
// server: in package sse, a redirect may have moved the endpoint of the session to another one.
func (e *End) prepare(ctx context.Context, r Request) (*http.Request, error) {
	req := r.httpRequest(ctx)
	req.Header = req.Header.Clone()
	if SameOrigin(r.URL, e.server) {
		for name, values := range e.Options.Header {
			req.Header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if e.Options.Prepare != nil {
		if err := e.Options.Prepare(req); err != nil {
			return nil, &notSentError{fmt.Errorf("prepare HTTP request: %w", err)}
		}
	}
	return req, nil
}

// doThrough sends the request through client.
func (r Request) doThrough(client *http.Client, req *http.Request) (*http.Response, error) {
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, r.wrapError(err)
	}
	return resp, nil
}

// wrapError adds the method and the URL to err. It omits the query of the URL, which may be secret:
// in package sse it identifies the session.
func (r Request) wrapError(err error) error {
	u := *r.URL
	u.RawQuery = ""
	return fmt.Errorf("%s %s: %w", r.Method, u.Redacted(), err)
}

// redirected is a Transport whose first response has already arrived.
type redirected struct {
	first *http.Response // nil after it was returned
	*http.Transport
}

func (t *redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	if resp := t.first; resp != nil {
		t.first = nil
		return resp, nil
	}
	return t.Transport.RoundTrip(req)
}

// httpRequest returns the request as an *http.Request.
func (r Request) httpRequest(ctx context.Context) *http.Request {
	req := noRequest.WithContext(ctx) // the only copy that package http offers with a context
	req.Method, req.URL, req.Header, req.Host = r.Method, r.URL, r.Header, r.URL.Host
	req.Proto, req.ProtoMajor, req.ProtoMinor = "HTTP/1.1", 1, 1
	if r.Text != nil {
		text, body := r.Text, r.Body
		if body == nil || body.Size() > 0 { // was used
			body = new(bytes.Reader)
		}
		body.Reset(text)
		req.ContentLength = int64(len(text))
		// net/http recognizes this body type: it does not wait for the body and writes it together
		// with the headers.
		req.Body = io.NopCloser(body)
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	}
	return req
}

var noRequest http.Request

// notSentError is the error of a request that was not sent.
type notSentError struct{ error }

func (e *notSentError) Unwrap() error { return e.error }

// NotSent reports whether err is that of a request that was not sent, and not a fault of the
// network.
func NotSent(err error) bool {
	_, ok := errors.AsType[*notSentError](err)
	return ok
}

// Unreached reports whether err means that no connection to the server was made, so that nothing
// was sent.
func Unreached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect")
}

// Content types.
const (
	JSON   = "application/json"
	Events = "text/event-stream"
)

// ContentType returns the content type of a response, in lower case and without parameters.
func ContentType(resp *http.Response) string {
	text := resp.Header.Get("Content-Type")
	if text == JSON || text == Events {
		return text
	}
	media, _, err := mime.ParseMediaType(text)
	if err != nil {
		media, _, _ = strings.Cut(text, ";") // ignore malformed parameters
		media = strings.ToLower(strings.TrimSpace(media))
	}
	return media
}

// ReadAll reads the body of a response that consists of one message.
func (e *End) ReadAll(resp *http.Response) ([]byte, error) {
	limit := e.Options.Limits.Message
	if resp.ContentLength > int64(limit) {
		return nil, fmt.Errorf("%w: response of %d bytes, more than MaxMessage (%d bytes)", transport.ErrTooLong, resp.ContentLength, limit)
	}
	if resp.ContentLength >= 0 {
		return readLength(resp.Body, int(resp.ContentLength))
	}
	var buf bytes.Buffer
	_, err := buf.ReadFrom(io.LimitReader(resp.Body, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", httpclient.ErrCut, err)
	case buf.Len() > limit:
		return nil, fmt.Errorf("%w: response of more than MaxMessage (%d bytes)", transport.ErrTooLong, limit)
	}
	return buf.Bytes(), nil
}

// firstRead is how many bytes of an announced length are allocated before any byte has arrived.
const firstRead = 256 << 10

// readLength reads n bytes. Its memory grows with the bytes that have arrived, because an announced
// length costs the server nothing.
func readLength(r io.Reader, n int) ([]byte, error) {
	text := make([]byte, min(n, firstRead))
	for read := 0; ; {
		m, err := io.ReadFull(r, text[read:])
		if read += m; err != nil {
			return nil, fmt.Errorf("%w: %w", httpclient.ErrCut, err)
		}
		if read == n {
			return text, nil
		}
		text = append(text, make([]byte, min(read, n-read))...)
	}
}

// maxExcerpt is how many bytes are read of the body of a rejection.
const maxExcerpt = 8 << 10

// excerptTimeout limits the time of that read.
const excerptTimeout = 5 * time.Second

// maxQuoted is how many bytes of the body an error quotes.
const maxQuoted = 500

// Status returns the error for a response whose status is not a success, and the id of the JSON-RPC
// error in its body, if there is one. It reads the beginning of the body, which callers can read
// again. The error contains no secrets of the request, which some servers quote in their responses.
func Status(resp *http.Response) (err *httpclient.StatusError, id jsonrpc.ID) {
	err = &httpclient.StatusError{Method: resp.Request.Method, Code: resp.StatusCode, Header: resp.Header}
	defer closeAfterTimeout(resp.Body).Stop()
	text, readErr := io.ReadAll(io.LimitReader(resp.Body, maxExcerpt))
	resp.Body = replayedBody{io.MultiReader(bytes.NewReader(text), resp.Body), resp.Body}
	if readErr != nil && len(text) == 0 {
		return err, id
	}
	hide := secretsOf(resp.Request)
	if ContentType(resp) == JSON {
		m, parseErr := jsonrpc.ParseReceived(text)
		if parseErr == nil && m.Kind == jsonrpc.KindErrorResponse {
			err.RPC, id = m.Error, m.ID
			err.RPC.Message = string(hide.in([]byte(err.RPC.Message)))
			if data := hide.in(err.RPC.Data); json.Valid(data) {
				err.RPC.Data = data
			}
		}
	}
	text = bytes.TrimSpace(hide.in(text))
	err.Body = strings.ToValidUTF8(string(text[:min(len(text), maxQuoted)]), "\uFFFD")
	return err, id
}

// minSecret is the length of the shortest text that counts as a secret. A shorter one may be a part
// of any word.
const minSecret = 6

// sentSecrets are the secrets in the header of a request: credentials, cookies, the id of the
// session, and the fields of the options.
type sentSecrets []string

func secretsOf(r *http.Request) (secrets sentSecrets) {
	add := func(secret string) {
		if len(secret) >= minSecret {
			secrets = append(secrets, secret)
		}
	}
	for name, values := range r.Header {
		if slices.Contains(public, name) || strings.HasPrefix(name, modern.HeaderParam) || slices.Contains(notSecret, name) {
			continue
		}
		for _, value := range values {
			_, credentials, _ := strings.Cut(value, " ")
			add(value)
			add(credentials)
			add(strings.ReplaceAll(credentials, "/", `\/`)) // some encoders of JSON escape it
		}
	}
	for _, cookie := range r.Cookies() {
		add(cookie.Value)
	}
	if _, password, ok := r.BasicAuth(); ok {
		add(password)
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // one may be a part of another
	return secrets
}

// in returns text with "[secret]" in place of each secret.
func (s sentSecrets) in(text []byte) []byte {
	for _, secret := range s {
		text = bytes.ReplaceAll(text, []byte(secret), []byte("[secret]"))
	}
	return text
}

// notSecret lists further header fields that are not secret: those that repeat parts of a message, and
// those that help to find a request in the logs of the server.
var notSecret = []string{modern.HeaderMethod, modern.HeaderName, "Last-Event-Id", "Traceparent", "Tracestate", "X-Request-Id"}

// closeAfterTimeout closes a body after excerptTimeout, which ends a read of it.
func closeAfterTimeout(body io.Closer) *time.Timer {
	return time.AfterFunc(excerptTimeout, func() { body.Close() })
}

// replayedBody is a body whose beginning was read and put back.
type replayedBody struct {
	io.Reader
	io.Closer
}

// Discard reads the rest of a short response, so that its connection can be reused, and closes the
// body.
func Discard(resp *http.Response) {
	if resp.ContentLength != 0 {
		defer closeAfterTimeout(resp.Body).Stop()
	}
	io.CopyN(io.Discard, resp.Body, maxExcerpt)
	resp.Body.Close()
}

// Parse decodes the envelope of a message. text must not be changed afterwards.
func Parse(text []byte) (jsonrpc.Message, error) { return jsonrpc.ParseReceived(text) }
