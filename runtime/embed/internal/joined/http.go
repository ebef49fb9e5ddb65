package joined

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// RoundTripper sends the HTTP requests of a joined session. The other client opens and ends the
// session at the server. So RoundTripper does not send initialize, notifications/initialized and
// DELETE, but responds to them.
type RoundTripper struct {
	Base       http.RoundTripper
	Session    string          // id of the session at the server, or ""
	Initialize json.RawMessage // the result of initialize that the other client has received

	opened atomic.Bool
}

// RoundTrip implements [http.RoundTripper].
func (t *RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodDelete:
		return respond(r, http.StatusOK, nil), nil
	case http.MethodGet: // resumes the stream of a request
		return t.Base.RoundTrip(r)
	}
	m, r, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	switch m.Method {
	case mcp.MethodNotificationsInitialized:
		return respond(r, http.StatusAccepted, nil), nil
	case mcp.MethodInitialize:
		answer := jsonrpc.NewResponse(m.ID, t.Initialize)
		if t.opened.Swap(true) {
			answer = jsonrpc.NewErrorResponse(m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the session of the other client has ended"})
		}
		text, err := answer.AppendJSON(nil)
		if err != nil {
			return nil, err
		}
		resp := respond(r, http.StatusOK, text)
		if t.Session != "" {
			resp.Header["Mcp-Session-Id"] = []string{t.Session}
		}
		return resp, nil
	}
	return t.Base.RoundTrip(r)
}

// respond returns a response that was not received from the server. A body is JSON.
func respond(r *http.Request, status int, body []byte) *http.Response {
	if r.Body != nil {
		r.Body.Close()
	}
	resp := &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Request: r, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	if body != nil {
		resp.Header["Content-Type"] = []string{"application/json"}
	}
	return resp
}

// readMessage returns the message of a POST, and the request with its body unread. The message is
// zero if the body is not a message.
func readMessage(r *http.Request) (m jsonrpc.Message, unread *http.Request, err error) {
	if r.Body == nil {
		return m, r, nil
	}
	text, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return m, nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(text))
	m, _ = jsonrpc.ParseReceived(text)
	return m, r, nil
}

// Tap is the [http.RoundTripper] of the other client. It passes messages of the server to Filter.
type Tap struct {
	Base http.RoundTripper

	// Filter returns the message that the client receives instead of text, or nil to drop it. Method
	// is the method of the request whose response has the message: initialize, server/discover or
	// tools/call. It is "" for the standing stream, and for a resumed stream.
	Filter func(method string, text []byte) []byte
}

// RoundTrip implements [http.RoundTripper].
func (t *Tap) RoundTrip(r *http.Request) (*http.Response, error) {
	var method string
	switch r.Method {
	case http.MethodGet:
	case http.MethodPost:
		m, unread, err := readMessage(r)
		if err != nil {
			return nil, err
		}
		r, method = unread, m.Method
		if method != mcp.MethodInitialize && method != mcp.MethodServerDiscover && method != mcp.MethodToolsCall {
			return t.Base.RoundTrip(r)
		}
	default:
		return t.Base.RoundTrip(r)
	}
	resp, err := t.Base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	filter := func(text []byte) []byte { return t.Filter(method, text) }
	switch media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media {
	case "application/json":
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("joined: response to %s: %w", method, err)
		}
		if text = filter(text); text == nil {
			text = []byte{}
		}
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		resp.Header.Set("Content-Length", strconv.Itoa(len(text)))
	case "text/event-stream":
		resp.Body = &events{from: resp.Body, lines: bufio.NewReader(resp.Body), filter: filter}
		resp.ContentLength = -1
	}
	return resp, nil
}

// events is the body of an event stream. It filters the data of the events.
type events struct {
	from   io.Closer
	lines  *bufio.Reader
	filter func(data []byte) []byte
	out    []byte // filtered, and not yet read
	err    error  // of lines
}

// Read implements [io.Reader]. It returns each event once it has arrived completely.
func (e *events) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.out, e.err = e.next()
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

// Close implements [io.Closer].
func (e *events) Close() error { return e.from.Close() }

// next returns the next event with filtered data.
func (e *events) next() (event []byte, err error) {
	var data []byte // nil without data
	var rest []byte // the other lines
	named := false
	for line := []byte(nil); err == nil && (event == nil || len(line) > 0); {
		var part []byte
		if part, err = e.line(maxEvent - len(event)); err == transport.ErrTooLong {
			return nil, err
		}
		event = append(event, part...)
		line = bytes.TrimRight(part, "\r\n")
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch value = bytes.TrimPrefix(value, []byte(" ")); string(name) {
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		case "":
		case "event":
			named = string(value) != "message"
			fallthrough
		default:
			rest = append(append(rest, line...), '\n')
		}
	}
	if len(data) == 0 || named {
		return event, err
	}
	filtered := e.filter(data)
	switch {
	case bytes.Equal(filtered, data):
		return event, err
	case filtered != nil:
		rest = append(append(append(rest, "data: "...), filtered...), '\n')
	}
	return append(rest, '\n'), err
}

// maxEvent limits the bytes of an event.
const maxEvent = 4 * transport.DefaultMaxMessage

// line returns the next line with its end. It fails with transport.ErrTooLong if it has more than
// max bytes.
func (e *events) line(max int) (line []byte, err error) {
	for {
		var part []byte
		part, err = e.lines.ReadSlice('\n')
		if len(line)+len(part) > max {
			return nil, transport.ErrTooLong
		}
		if line = append(line, part...); err != bufio.ErrBufferFull {
			return line, err
		}
	}
}
