// Package fetch sends the HTTP requests of authorization. Their URLs come from other parties, so it
// refuses addresses that are not public, and limits time, redirects and sizes.
package fetch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Limits of each request.
const (
	Timeout      = 10 * time.Second
	MaxMetadata  = 1 << 20  // bytes of metadata and key sets
	MaxAnswer    = 64 << 10 // bytes of responses to POST
	maxRedirects = 3
	maxHeader    = 64 << 10
	maxDepth     = 32
)

var (
	// ErrRefused means that the Network does not allow a URL or an address.
	ErrRefused = errors.New("address not allowed")
	// ErrTooLarge means that a response is larger than allowed.
	ErrTooLarge = errors.New("response too large")
	// ErrNotJSON means that a response is not a JSON object.
	ErrNotJSON = errors.New("response is not a JSON object")
)

// Error is the error of a failed request. Its text contains neither a query nor content of the
// response.
type Error struct {
	URL    string // without user, query and fragment
	Status int    // 0 without a response
	Err    error  // nil if only the status is wrong
}

func (e *Error) Error() string {
	switch {
	case e.Err == nil:
		return fmt.Sprintf("%s: status %d", e.URL, e.Status)
	case e.Status != 0:
		return fmt.Sprintf("%s: status %d: %v", e.URL, e.Status, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.URL, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Response is an HTTP response with its body.
type Response struct {
	Status int
	Header http.Header
	Body   []byte

	url string
}

// JSON decodes the body into v. It fails with ErrNotJSON unless the content type is JSON and the
// body is a JSON object with at most 32 levels.
func (r *Response) JSON(v any) error {
	if err := r.json(v); err != nil {
		return &Error{r.url, r.Status, err}
	}
	return nil
}

func (r *Response) json(v any) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
		return fmt.Errorf("%w: content type %q", ErrNotJSON, Printable(kind))
	}
	if body := bytes.TrimLeft(r.Body, " \t\r\n"); len(body) == 0 || body[0] != '{' || !json.Valid(r.Body) {
		return ErrNotJSON
	}
	if depth(r.Body) > maxDepth {
		return fmt.Errorf("%w: more than %d levels", ErrNotJSON, maxDepth)
	}
	return json.Unmarshal(r.Body, v)
}

// RetryAfter returns the delay of a Retry-After header that has a number of seconds, and 0
// otherwise.
func (r *Response) RetryAfter() time.Duration {
	seconds, err := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// depth returns the nesting depth of a valid JSON text.
func depth(text []byte) int {
	level, deepest, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			level++
			deepest = max(deepest, level)
		case b == '}' || b == ']':
			level--
		}
	}
	return deepest
}

// Printable returns the printable ASCII characters of an untrusted text, at most 200 of them.
func Printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text[:min(len(text), 1000)])
	return text[:min(len(text), 200)]
}

// Get gets rawURL. It returns the response for every status. It follows at most 3 redirects.
func (c *Client) Get(ctx context.Context, rawURL string) (*Response, error) {
	return c.do(ctx, http.MethodGet, rawURL, nil, nil, MaxMetadata)
}

// GetJSON is like Get, and decodes the JSON object of the response into v. It fails if the status
// is not 2xx.
func (c *Client) GetJSON(ctx context.Context, rawURL string, v any) error {
	r, err := c.Get(ctx, rawURL)
	switch {
	case err != nil:
		return err
	case r.Status < 200 || r.Status > 299:
		return &Error{URL: r.url, Status: r.Status}
	}
	return r.JSON(v)
}

// PostForm posts form to rawURL. header has additional header fields. It returns the response for
// every status. It follows no redirects.
func (c *Client) PostForm(ctx context.Context, rawURL string, header http.Header, form url.Values) (*Response, error) {
	return c.post(ctx, rawURL, header, "application/x-www-form-urlencoded", []byte(form.Encode()))
}

// PostJSON posts body as JSON, like PostForm.
func (c *Client) PostJSON(ctx context.Context, rawURL string, header http.Header, body any) (*Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return c.post(ctx, rawURL, header, "application/json", text)
}

func (c *Client) post(ctx context.Context, rawURL string, header http.Header, contentType string, body []byte) (*Response, error) {
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Content-Type", contentType)
	return c.do(ctx, http.MethodPost, rawURL, header, body, MaxAnswer)
}

func (c *Client) do(ctx context.Context, method, rawURL string, header http.Header, body []byte, limit int64) (*Response, error) {
	shown := Show(rawURL)
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, rawURL, bytes.NewReader(body))
	if err != nil {
		return nil, &Error{URL: shown, Err: ErrRefused}
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		if cause := (*url.Error)(nil); errors.As(err, &cause) {
			err = cause.Err // the text of a *url.Error contains the URL with its query
		}
		return nil, &Error{URL: shown, Err: err}
	}
	defer resp.Body.Close()
	r := &Response{Status: resp.StatusCode, Header: resp.Header, url: shown}
	if r.Body, err = io.ReadAll(io.LimitReader(resp.Body, limit+1)); err == nil && int64(len(r.Body)) > limit {
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	if err != nil {
		return nil, &Error{shown, r.Status, err}
	}
	return r, nil
}

// Show returns rawURL for an error text, without user, query and fragment, and at most 200 bytes
// long.
func Show(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "malformed URL"
	}
	return Printable((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String())
}
