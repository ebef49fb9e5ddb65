package httpcore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// Request is an HTTP request.
type Request struct {
	Method string
	URL    *url.URL
	Header http.Header // of the protocol; not changed
	Text   []byte      // the message in its body, or nil
	Sent   func()      // called when Text has gone out, maybe more than once, if the HTTP client tells; nil for nothing
}

// Do sends a request. The body of the answer must be closed, whatever its status.
func (e *End) Do(ctx context.Context, r Request) (*http.Response, error) {
	resp, err := e.do(ctx, r)
	if err == nil {
		e.stalls.Store(0)
	}
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return resp, err
}

// DoSoon is [End.Do], and fails with [transport.ErrStalled] if the answer does not begin within StallTimeout.
func (e *End) DoSoon(ctx context.Context, r Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stall := e.Options.StallTimeout
	timer := time.AfterFunc(stall, func() { cancel(fmt.Errorf("%w: no answer within %v", transport.ErrStalled, stall)) })
	resp, err := e.Do(ctx, r)
	if !timer.Stop() && err == nil {
		resp.Body.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	resp.Body = &cancelling{resp.Body, cancel}
	return resp, nil
}

// cancelling is a body that cancels its request when it is closed.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (c *cancelling) Close() error {
	c.cancel(nil)
	return c.ReadCloser.Close()
}

// do sends a request. Where the client has nothing to add, its transport does it alone, which is cheaper; a transport of
// another kind may take the request for its own, and change it.
func (e *End) do(ctx context.Context, r Request) (*http.Response, error) {
	if e.plain != nil && r.URL.User == nil {
		resp, err := e.plain.RoundTrip(r.with(ctx))
		if err != nil {
			return nil, r.failed(err)
		}
		if resp.StatusCode/100 != 3 || resp.Header.Get("Location") == "" {
			return resp, nil
		}
		client := e.client // follows, or says why not
		client.Transport = &redirected{resp, e.plain}
		return r.through(&client, r.with(ctx))
	}
	req := r.with(ctx)
	req.Header = req.Header.Clone()
	for name, values := range e.Options.Header {
		req.Header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if e.Options.Prepare != nil {
		if err := e.Options.Prepare(req); err != nil {
			return nil, fmt.Errorf("preparing an HTTP request: %w", err)
		}
	}
	return r.through(&e.client, req)
}

// through has a client send what became of the request.
func (r Request) through(client *http.Client, req *http.Request) (*http.Response, error) {
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, r.failed(err)
	}
	return resp, nil
}

// failed says what has failed, without the query of the URL: it may be secret, as the session of the older transport is
// that stands there.
func (r Request) failed(err error) error {
	u := *r.URL
	u.RawQuery = ""
	return fmt.Errorf("%s %s: %w", r.Method, u.Redacted(), err)
}

// redirected is a transport whose first answer is there already.
type redirected struct {
	first *http.Response // nil when it was given
	*http.Transport
}

func (t *redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	if resp := t.first; resp != nil {
		t.first = nil
		return resp, nil
	}
	return t.Transport.RoundTrip(req)
}

// with returns the request as the HTTP library has it.
func (r Request) with(ctx context.Context) *http.Request {
	req := &http.Request{
		Method: r.Method, URL: r.URL, Header: r.Header, Host: r.URL.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if r.Text != nil {
		req.ContentLength = int64(len(r.Text))
		// Of a body of this very type the HTTP library knows that it need not wait for it, and writes it together
		// with the headers.
		req.Body = io.NopCloser(bytes.NewReader(r.Text))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.Text)), nil }
	}
	if r.Sent != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: r.wrote})
	}
	return req.WithContext(ctx)
}

func (r Request) wrote(info httptrace.WroteRequestInfo) {
	if info.Err == nil {
		r.Sent()
	}
}

// Unreached reports whether err means that no connection to the server could be made, so that nothing was sent.
func Unreached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect")
}

// Content types.
const (
	JSON   = "application/json"
	Events = "text/event-stream"
)

// ContentType returns the type of an answer, without parameters, in lower case.
func ContentType(resp *http.Response) string {
	text := resp.Header.Get("Content-Type")
	if text == JSON || text == Events {
		return text
	}
	media, _, err := mime.ParseMediaType(text)
	if err != nil {
		media, _, _ = strings.Cut(text, ";") // parameters that are wrong say nothing about the type
		media = strings.ToLower(strings.TrimSpace(media))
	}
	return media
}

// ReadAll reads the body of an answer that is one message.
func (e *End) ReadAll(resp *http.Response) ([]byte, error) {
	limit := e.Options.MaxMessage
	if resp.ContentLength > int64(limit) {
		return nil, fmt.Errorf("%w: an answer of %d bytes, more than MaxMessage (%d bytes)", transport.ErrTooLong, resp.ContentLength, limit)
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
		return nil, fmt.Errorf("%w: an answer of more than MaxMessage (%d bytes)", transport.ErrTooLong, limit)
	}
	return buf.Bytes(), nil
}

// firstRead is how many bytes of an announced length are allocated before any of them has arrived.
const firstRead = 256 << 10

// readLength reads n bytes. Its memory grows with the bytes that have arrived, as an announced
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

// maxExcerpt is how much is read of the body of a refusal.
const maxExcerpt = 8 << 10

// excerptTimeout is how long that may take.
const excerptTimeout = 5 * time.Second

// maxQuoted is how much of it an error quotes.
const maxQuoted = 500

// Status returns the error that the status of an answer is, which is not one of success, and the id that the
// JSON-RPC error in it has, if there is one. It reads the body as far as necessary, which can be read again.
func Status(resp *http.Response) (err *httpclient.StatusError, id jsonrpc.ID) {
	err = &httpclient.StatusError{Method: resp.Request.Method, Code: resp.StatusCode, Header: resp.Header}
	defer closeLate(resp.Body).Stop()
	text, readErr := io.ReadAll(io.LimitReader(resp.Body, maxExcerpt))
	resp.Body = again{io.MultiReader(bytes.NewReader(text), resp.Body), resp.Body}
	if readErr != nil && len(text) == 0 {
		return err, id
	}
	if ContentType(resp) == JSON {
		m, parseErr := jsonrpc.ParseReceived(text)
		if parseErr == nil && m.Kind == jsonrpc.KindErrorResponse {
			err.RPC, id = m.Error, m.ID
		}
	}
	text = bytes.TrimSpace(text)
	err.Body = strings.ToValidUTF8(string(text[:min(len(text), maxQuoted)]), "\uFFFD")
	return err, id
}

// closeLate closes a body after excerptTimeout, so that a read from it ends.
func closeLate(body io.Closer) *time.Timer {
	return time.AfterFunc(excerptTimeout, func() { body.Close() })
}

// again is a body of which some was read before.
type again struct {
	io.Reader
	io.Closer
}

// Discard reads what is left of a short answer, so that its connection can be used again, and closes it.
func Discard(resp *http.Response) {
	if resp.ContentLength != 0 {
		defer closeLate(resp.Body).Stop()
	}
	io.CopyN(io.Discard, resp.Body, maxExcerpt)
	resp.Body.Close()
}

// Parse reads the envelope of a message, which is not changed any more.
func Parse(text []byte) (jsonrpc.Message, error) { return jsonrpc.ParseReceived(text) }
