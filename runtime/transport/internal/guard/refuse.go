package guard

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/overlong"
)

// Refuse writes an HTTP status and an error response without an id.
func Refuse(w http.ResponseWriter, status int, code int64, message string) {
	RefuseCall(w, status, jsonrpc.ID{}, &jsonrpc.Error{Code: code, Message: message})
}

// RefuseCall writes an HTTP status and an error response for the request with the given id, which
// may be zero.
func RefuseCall(w http.ResponseWriter, status int, id jsonrpc.ID, e *jsonrpc.Error) {
	message := jsonrpc.NewErrorResponse(id, e)
	text, err := codec.Marshal(&message)
	if err != nil { // the message is not UTF-8
		message.Error = &jsonrpc.Error{Code: e.Code, Message: http.StatusText(status)}
		text, _ = codec.Marshal(&message)
	}
	limitWrite(w)
	BeginJSON(w, status, text, new([1]string))
	w.Write(text)
}

// WriteStatus answers a request without a body.
func WriteStatus(w http.ResponseWriter, status int) {
	limitWrite(w)
	w.WriteHeader(status)
}

// limitWrite limits the time in which a client must accept a short response. Package http, which
// writes it after the handler has returned, removes the limit afterwards. Without one, a client that
// reads nothing would keep its connection open.
func limitWrite(w http.ResponseWriter) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(transport.DefaultStallTimeout))
}

// LimitBody limits the time in which the body of a request must arrive, also if the request is
// rejected without a call of [ReadBody]. Over HTTP/1.1, package http then reads the rest of the body.
func LimitBody(w http.ResponseWriter, r *http.Request, timeout time.Duration) {
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
	}
}

var contentJSON, noStore = []string{"application/json"}, []string{"no-store"} // shared by all responses

// BeginJSON writes the status and the header for a message. The caller writes the message. With
// status 429 and 503, the header asks the client to retry after a second. Without Cache-Control, a
// shared cache may store a rejection such as 404 or 405 of a GET, and use it for other clients (RFC
// 9111, section 4.2.2). The header refers to length, which BeginJSON sets.
func BeginJSON(w http.ResponseWriter, status int, text []byte, length *[1]string) {
	h := w.Header()
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		h["Retry-After"] = []string{"1"}
	}
	if status >= http.StatusBadRequest {
		h["Cache-Control"] = noStore
	}
	h["Content-Type"] = contentJSON
	length[0] = strconv.Itoa(len(text))
	h["Content-Length"] = length[:]
	w.WriteHeader(status)
}

// MaxBodies is how many bodies of maximum size one account may send concurrently. It limits the
// total size of all its bodies that are being read.
const MaxBodies = 4

// Room limits the total size of texts, such as bodies that are being read concurrently.
type Room struct {
	max  int64
	used atomic.Int64
	of   *Room // of which this one is a part, or nil
}

// NewRoom returns a Room for max bytes.
func NewRoom(max int) *Room { return &Room{max: int64(max)} }

// Part returns a Room for max of the bytes of r.
func (r *Room) Part(max int) *Room { return &Room{max: int64(max), of: r} }

// Take counts n bytes, which Give subtracts again. It returns false without counting them if the
// Room is full. The last text that has room may be longer than the rest of the Room.
func (r *Room) Take(n int) bool {
	if r.Full() {
		return false
	}
	r.add(int64(n))
	return true
}

// Give subtracts bytes that Take has counted.
func (r *Room) Give(n int) { r.add(int64(-n)) }

// add counts n bytes. full reports whether they exceed the Room.
func (r *Room) add(n int64) (full bool) {
	for room := r; room != nil; room = room.of {
		full = room.used.Add(n) > room.max || full
	}
	return full
}

// Full reports whether the Room is full.
func (r *Room) Full() bool {
	for room := r; room != nil; room = room.of {
		if room.used.Load() >= room.max {
			return true
		}
	}
	return false
}

// errNoRoom is the error of a shareReader whose Room is full.
var errNoRoom = errors.New("too many bytes are being received")

// Share is the part of a Room that one body uses.
type Share struct {
	Room *Room
	Free int64 // the number of bytes at the beginning of the body that are not counted
	Code int64 // the error code if the Room is full

	from       io.Reader // the body
	read, used int64
	full       bool // the Room had no room for the body
}

// add counts n bytes that were read.
func (s *Share) add(n int) error {
	s.read += int64(n)
	more := max(s.read-s.Free, 0) - s.used
	if more == 0 { // this body uses no more than before, even if another one exceeds the limit
		return nil
	}
	s.used += more
	if s.Room.add(more) {
		s.full = true
		return errNoRoom
	}
	return nil
}

// Move returns a Share with the counted bytes of s, which releases them in its place.
func (s *Share) Move() Share {
	moved := Share{Room: s.Room, used: s.used}
	s.used = 0
	return moved
}

// Release subtracts the counted bytes from the Room. Further calls have no effect.
func (s *Share) Release() {
	if s.used > 0 {
		s.Room.add(-s.used)
		s.used = 0
	}
}

// shareReader is a Share as an io.Reader. It counts the bytes that it reads.
type shareReader Share

func (r *shareReader) Read(p []byte) (n int, err error) {
	n, err = r.from.Read(p)
	if full := (*Share)(r).add(n); full != nil {
		return n, full
	}
	return n, err
}

// ReadBody returns the body of a request. It must be JSON of at most max bytes, and arrive within
// timeout. If ok is false, ReadBody has written the response: 415 for another content type or
// encoding, 413 for a body that is too long, 408 after the timeout, 429 if the Room of share is
// full, or 400. With status 413 and 429, body is the beginning of the message, of at most
// [overlong.Part] bytes; see [FailUnread]. The caller releases share. A nil share means that the
// body is not counted.
func ReadBody(w http.ResponseWriter, r *http.Request, max int, timeout time.Duration, share *Share) (body []byte, ok bool) {
	conn := http.NewResponseController(w)
	// If the writer does not support deadlines, only the timeouts of the http.Server apply.
	conn.SetReadDeadline(time.Now().Add(timeout))
	if kind := r.Header.Get("Content-Type"); kind != "application/json" {
		if kind, _, err := mime.ParseMediaType(kind); err != nil || kind != "application/json" {
			Refuse(w, http.StatusUnsupportedMediaType, jsonrpc.CodeInvalidRequest, "the content type is not application/json")
			return nil, false
		}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		Refuse(w, http.StatusUnsupportedMediaType, jsonrpc.CodeInvalidRequest, "content encodings are not supported")
		return nil, false
	}
	if r.ContentLength > int64(max) {
		w.Header().Set("Connection", "close")
		if r.Header.Get("Expect") == "" { // with Expect, the client sends the body only after a status
			head := make([]byte, overlong.Part)
			n, _ := io.ReadFull(r.Body, head)
			body = head[:n]
		}
		Refuse(w, http.StatusRequestEntityTooLarge, jsonrpc.CodeInvalidRequest, fmt.Sprintf("the message is longer than %d bytes", max))
		return body, false
	}
	var from io.Reader = r.Body
	if share != nil {
		share.from = from
		from = (*shareReader)(share)
	}
	var err error
	body, err = readAll(from, r.ContentLength, max)
	if err == nil {
		r.Body.Close()                    // otherwise package http looks for the rest of it
		conn.SetReadDeadline(time.Time{}) // the deadline must not end the exchange that follows
		return body, true
	}
	w.Header().Set("Connection", "close")
	switch err {
	case errLong:
		Refuse(w, http.StatusRequestEntityTooLarge, jsonrpc.CodeInvalidRequest, fmt.Sprintf("the message is longer than %d bytes", max))
		return overlong.Head(body), false
	case errNoRoom:
		Refuse(w, http.StatusTooManyRequests, share.Code, err.Error())
		return overlong.Head(body), false
	}
	RefuseIncomplete(w, err)
	return nil, false
}

// RefuseIncomplete answers a request whose body could not be read: with status 408 if err is a
// timeout, otherwise 400.
func RefuseIncomplete(w http.ResponseWriter, err error) {
	w.Header().Set("Connection", "close")
	status := http.StatusBadRequest
	if timed, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timed.Timeout() {
		status = http.StatusRequestTimeout
	}
	Refuse(w, status, jsonrpc.CodeParseError, "incomplete message")
}

// FailAnswer returns an error response that fails the call of a rejected response. Without it, the
// call would wait for another response. m is the message as far as it could be read. ok is false if
// m is not a response with an id.
func FailAnswer(m *jsonrpc.Message, cause error) (fail transport.Message, ok bool) {
	if m.Kind != jsonrpc.KindResponse && m.Kind != jsonrpc.KindErrorResponse || m.ID.IsZero() {
		return fail, false
	}
	e := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "invalid answer: " + boundary.ErrorText(cause)}
	text, err := codec.Marshal(new(jsonrpc.NewErrorResponse(m.ID, e)))
	return transport.Message{Text: text}, err == nil
}

// FailUnread is FailAnswer for a message that [ReadBody] has rejected because it is longer than limit
// bytes, or because share is full. head is its beginning. The request whose handler waits for an
// answer without room may be one of those that fill the Room.
func FailUnread(head []byte, limit int, share *Share) (fail transport.Message, ok bool) {
	lost, ok := errors.AsType[*transport.DeliveryError](overlong.NewError(head, nil, limit))
	if !ok {
		return fail, false
	}
	cause := lost.Err
	if share != nil && share.full {
		cause = errNoRoom
	}
	return FailAnswer(&jsonrpc.Message{Kind: jsonrpc.KindResponse, ID: lost.ID}, cause)
}

// errLong is the error of a body that is longer than the limit.
var errLong = errors.New("too many bytes")

// readAll reads a body of the given length, which is negative if unknown. The buffer grows with the
// bytes that arrive, not with the announced length. After an error, readAll returns the bytes that
// it has read. It fails with errLong after more than max bytes.
func readAll(r io.Reader, length int64, max int) ([]byte, error) {
	const first = 64 << 10
	size := int64(512)
	if length > 0 {
		size = min(length, first)
	}
	buf := make([]byte, 0, size+1) // one more byte, so that the read of io.EOF does not grow the buffer
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if len(buf) > max {
			return buf[:max], errLong
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
	}
}
