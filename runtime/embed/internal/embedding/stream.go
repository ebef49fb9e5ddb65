package embedding

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
)

// Stream is the [http.ResponseWriter] of a response in which an SDK may send server-sent events.
// Send adds events of its own between them, and Acknowledge adds task ids to the acknowledgment of
// a subscription. The SDK ends lines with a line feed. All methods may be called concurrently with
// those that the SDK calls. Call Close before the HTTP handler returns.
type Stream struct {
	w http.ResponseWriter

	mu     lock // held while something is written
	status int  // 0 until the header is sent
	events bool // the response consists of events
	// sdkHeader is the header that the SDK sees after Open, and nil before. Unless it is that of an
	// event stream, the body of the SDK becomes an event.
	sdkHeader http.Header
	body      []byte
	tail      [2]byte  // the last bytes that were written
	written   bool     // something was written
	ids       []string // for the acknowledgment; nil if there are none, or after it was sent
	held      []byte   // the beginning of an event, while ids wait for the acknowledgment
	closed    bool

	queueing sync.Mutex // guards the fields below; may be locked while mu is held
	queue    []*streamEvent
	draining bool // drainQueue has been started and has not yet begun
	opening  bool // drainQueue has to open the stream
}

// lock is a mutex that may be held for long, while a client does not read.
type lock chan struct{}

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// streamEvent is an event that Send has queued.
type streamEvent struct {
	text []byte
	done chan error // has room for one
}

var (
	errNoEvents     = errors.New("embed: the response has no event stream")
	errStreamClosed = errors.New("embed: the response has ended")
)

// NewStream returns a Stream that writes to w.
func NewStream(w http.ResponseWriter) *Stream { return &Stream{w: w, mu: make(lock, 1)} }

// Unwrap returns the ResponseWriter below; see [http.ResponseController].
func (s *Stream) Unwrap() http.ResponseWriter { return s.w }

// Header implements [http.ResponseWriter].
func (s *Stream) Header() http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sdkHeader != nil {
		return s.sdkHeader
	}
	return s.w.Header()
}

// WriteHeader implements [http.ResponseWriter].
func (s *Stream) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeHeader(status)
}

func (s *Stream) writeHeader(status int) {
	if s.status != 0 || s.closed {
		return
	}
	if status >= 200 { // not an informational one
		s.status = status
		s.events = status == http.StatusOK && hasEvents(s.w.Header())
	}
	s.w.WriteHeader(status)
	s.drain()
}

func hasEvents(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "text/event-stream")
}

// Open makes the response an event stream, unless the SDK has sent a header. If the SDK then
// answers with a body of another type, such as JSON, that becomes an event. Open does not wait.
func (s *Stream) Open() {
	s.queueing.Lock()
	defer s.queueing.Unlock()
	s.opening = true
	s.startDraining()
}

func (s *Stream) open() {
	if s.status != 0 || s.closed {
		return
	}
	s.sdkHeader = s.w.Header().Clone()
	if s.sdkHeader == nil {
		s.sdkHeader = http.Header{}
	}
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Del("Content-Length")
	s.writeHeader(http.StatusOK)
	s.flush()
}

// Write implements [http.ResponseWriter].
func (s *Stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errStreamClosed
	}
	s.writeHeader(http.StatusOK)
	switch {
	case s.sdkHeader != nil && !hasEvents(s.sdkHeader):
		s.body = append(s.body, p...)
		return len(p), nil
	case !s.events || s.ids == nil:
		n, err := s.write(p)
		s.drain()
		return n, err
	}
	s.held = append(s.held, p...)
	for s.ids != nil {
		end := bytes.Index(s.held, []byte("\n\n"))
		if end < 0 {
			return len(p), nil
		}
		end += len("\n\n")
		event := s.acknowledge(s.held[:end:end])
		s.held = s.held[end:]
		if _, err := s.write(event); err != nil {
			return 0, err
		}
	}
	err := s.release()
	s.drain()
	return len(p), err
}

// release writes the text that Write has held back.
func (s *Stream) release() error {
	held := s.held
	s.held = nil
	if len(held) == 0 {
		return nil
	}
	_, err := s.write(held)
	return err
}

// write writes to the response.
func (s *Stream) write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	for _, c := range p[max(0, n-len(s.tail)):n] {
		s.tail = [2]byte{s.tail[1], c}
		s.written = true
	}
	return n, err
}

// ready reports whether an event can be written now.
func (s *Stream) ready() bool {
	return s.events && s.ids == nil && (!s.written || s.tail == [2]byte{'\n', '\n'})
}

// Flush implements [http.Flusher].
func (s *Stream) Flush() { s.FlushError() }

// FlushError is Flush for [http.ResponseController].
func (s *Stream) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStreamClosed
	}
	s.writeHeader(http.StatusOK) // package http also does this in Flush
	return s.flush()
}

func (s *Stream) flush() error { return http.NewResponseController(s.w).Flush() }

// Acknowledge adds task ids to the acknowledgment of the subscription that the SDK sends next.
// Events of Send wait for it.
func (s *Stream) Acknowledge(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = append([]string{}, ids...)
}

// acknowledge returns an event, with the task ids if it is the acknowledgment.
func (s *Stream) acknowledge(event []byte) []byte {
	var before, data, after []byte
	for line := range bytes.Lines(event) {
		switch {
		case bytes.HasPrefix(line, []byte("data:")):
			data = append(data, bytes.TrimPrefix(line[len("data:"):], []byte(" "))...)
		case data == nil:
			before = append(before, line...)
		default:
			after = append(after, line...)
		}
	}
	method, _ := peek(data)
	switch {
	case method == mcp.MethodNotificationsSubscriptionsAcknowledged:
	case method == "" && has(data, "id"): // a response: there is no acknowledgment
		s.ids = nil
		return event
	default:
		return event
	}
	text, err := codec.Marshal(value.Of(s.ids))
	s.ids = nil
	if err != nil {
		return event
	}
	data = jsonedit.WithPath(bytes.TrimSpace(data), text, "params", "notifications", "taskIds")
	return slices.Concat(before, dataLines(data), after)
}

// dataLines returns the lines of an event with data.
func dataLines(data []byte) (lines []byte) {
	for line := range bytes.Lines(data) {
		lines = append(append(lines, "data: "...), bytes.TrimRight(line, "\r\n")...)
		lines = append(lines, '\n')
	}
	return lines
}

// Send sends a notification as an event. It waits until the SDK has sent the header and completed
// the event that it is writing, or until ctx ends. The acknowledgment of a subscription opens the
// stream. Send fails if the response has no events, or has ended.
func (s *Stream) Send(ctx context.Context, method string, params json.RawMessage) error {
	m := jsonrpc.NewNotification(method, params)
	text, err := m.AppendJSON(nil)
	if err != nil {
		return err
	}
	e := &streamEvent{slices.Concat([]byte("event: message\n"), dataLines(text), []byte("\n")), make(chan error, 1)}
	s.queueing.Lock()
	s.queue = append(s.queue, e)
	s.opening = s.opening || method == mcp.MethodNotificationsSubscriptionsAcknowledged
	s.startDraining()
	s.queueing.Unlock()
	select {
	case err := <-e.done:
		return err
	case <-ctx.Done():
		s.queueing.Lock()
		s.queue = slices.DeleteFunc(s.queue, func(other *streamEvent) bool { return other == e })
		s.queueing.Unlock()
		return context.Cause(ctx)
	}
}

// startDraining starts drainQueue, unless it has not yet begun. The caller holds queueing.
func (s *Stream) startDraining() {
	if !s.draining {
		s.draining = true
		go s.drainQueue() // ends when the events are written, or wait for the SDK
	}
}

// drainQueue opens the stream if needed, and drains the queue. It runs in its own goroutine,
// because writing may block longer than the context of Send allows.
func (s *Stream) drainQueue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queueing.Lock()
	open := s.opening
	s.draining, s.opening = false, false
	s.queueing.Unlock()
	if open {
		s.open()
	}
	s.drain()
}

// drain writes the queued events if that is possible now. The caller holds mu.
func (s *Stream) drain() {
	for {
		var err error
		switch {
		case s.closed:
			err = errStreamClosed
		case s.status != 0 && !s.events:
			err = errNoEvents
		case !s.ready():
			return
		}
		s.queueing.Lock()
		if len(s.queue) == 0 {
			s.queueing.Unlock()
			return
		}
		e := s.queue[0]
		s.queue = slices.Delete(s.queue, 0, 1)
		s.queueing.Unlock()
		if err == nil {
			if _, err = s.write(e.text); err == nil {
				err = s.flush()
			}
		}
		e.done <- err
	}
}

// Close ends the response: it writes the text that Write has held back. Later calls of Write and
// Send fail.
func (s *Stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.ids = nil
	s.release()
	if body := bytes.TrimSpace(s.body); len(body) > 0 {
		s.write(slices.Concat([]byte("event: message\n"), dataLines(body), []byte("\n")))
	}
	s.body = nil
	s.drain()
	s.closed = true
	s.drain()
}
