package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// The names of the sides in a file.
const (
	clientSide = "client"
	serverSide = "server"
)

// entry is a line of a file: an event, or a line that one side sent.
type entry struct {
	Time    time.Time `json:"time"`
	Session string    `json:"session,omitempty"` // name of the session; "" for an event that belongs to none
	Event   string    `json:"event,omitempty"`
	From    string    `json:"from,omitempty"`   // clientSide or serverSide
	Method  string    `json:"method,omitempty"` // method of the request, also for a response
	Type    string    `json:"type,omitempty"`   // Go type of the params or the result
	Error   string    `json:"error,omitempty"`  // the error of an invalid message
	Size    int64     `json:"size,omitempty"`   // bytes of a line that is too long to be recorded

	// The line in one of three forms: unchanged if it is JSON on one line, as text, or in base64 if
	// it is not UTF-8.
	Message json.RawMessage `json:"message,omitempty"`
	Text    string          `json:"text,omitempty"`
	Bytes   []byte          `json:"bytes,omitempty"`
}

// line returns the sent line, or nil if the entry does not contain it.
func (e *entry) line() []byte {
	switch {
	case e.Message != nil:
		return e.Message
	case e.Text != "":
		return []byte(e.Text)
	}
	return e.Bytes
}

// Log writes sessions as NDJSON: an object for each message or event, with the time, the session,
// the sender, the Go type and the unchanged message. A Log and its Sessions are safe for concurrent
// use.
type Log struct {
	mu  sync.Mutex // held while an entry is written, so that the file has the order of the messages
	w   io.Writer
	err error // the first error
}

// NewLog returns a Log that writes to w, with one Write per entry.
func NewLog(w io.Writer) *Log { return &Log{w: w} }

// Err returns the first write error. Entries after an error are lost.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Event records an event that belongs to no session.
func (l *Log) Event(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(entry{Event: text}, nil)
}

// Session is one session in a Log.
type Session struct {
	log   *Log
	name  string
	types mcp.Conversation // guarded by the mu of the Log
}

// Session starts a session with the given name. "" selects a new unique name.
func (l *Log) Session(name string) *Session {
	return &Session{log: l, name: cmp.Or(name, rand.Text()[:8])}
}

// Name returns the name of the session.
func (s *Session) Name() string { return s.name }

// Event records an event of the session.
func (s *Session) Event(text string) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.write(entry{Session: s.name, Event: text}, nil)
}

// Message records a message, or invalid text, that one side sent.
func (s *Session) Message(from mcp.Direction, line []byte) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	e := entry{Session: s.name, From: side(from)}
	m, err := s.types.DecodeFrom(from, line)
	e.Method = m.For
	switch {
	case err != nil:
		e.Error = err.Error()
	case m.Payload != nil:
		e.Type = strings.TrimPrefix(fmt.Sprintf("%T", m.Payload), "*")
	}
	var raw []byte
	switch {
	case !utf8.Valid(line):
		e.Bytes = line
	case bytes.IndexByte(line, '\n') < 0 && json.Valid(line):
		raw = line
	default:
		e.Text = string(line)
	}
	s.log.write(e, raw)
}

// TooLong records the size of a message that is too long to be recorded.
func (s *Session) TooLong(from mcp.Direction, size int64) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.write(entry{Session: s.name, From: side(from), Size: size}, nil)
}

// write writes an entry with the current time. It keeps the bytes of the message, which
// encoding/json would reformat. It must be called with mu held.
func (l *Log) write(e entry, message []byte) {
	if l.err != nil {
		return
	}
	e.Time = time.Now()
	text, err := json.Marshal(e)
	if err == nil {
		if message != nil {
			text = append(text[:len(text)-1], `,"message":`...)
			text = append(append(text, message...), '}')
		}
		_, err = l.w.Write(append(text, '\n'))
	}
	l.err = err
}

func side(from mcp.Direction) string {
	if from == mcp.FromClient {
		return clientSide
	}
	return serverSide
}

// Tap forwards the bytes that one side sends and records its lines. It does not record empty lines,
// and only the size of lines over [transport.DefaultMaxMessage] bytes. It must not be used
// concurrently.
type Tap struct {
	session *Session
	from    mcp.Direction
	to      io.Writer
	line    []byte // the incomplete last line
	dropped int64  // bytes of the line that were dropped; 0 if the line is complete so far
}

// Tap returns a Tap for the bytes that from sends. It forwards them to to.
func (s *Session) Tap(from mcp.Direction, to io.Writer) *Tap {
	return &Tap{session: s, from: from, to: to}
}

// Write forwards p. It records a message before it forwards the end of the message, so that the
// record precedes that of the response.
func (t *Tap) Write(p []byte) (int, error) {
	rest := p
	for {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		t.collect(rest[:i])
		t.End()
		rest = rest[i+1:]
	}
	t.collect(rest)
	return t.to.Write(p)
}

func (t *Tap) collect(p []byte) {
	if t.dropped > 0 || len(t.line)+len(p) > transport.DefaultMaxMessage {
		t.dropped += int64(len(t.line) + len(p))
		t.line = nil
		return
	}
	t.line = append(t.line, p...)
}

// End records an incomplete last line.
func (t *Tap) End() {
	switch {
	case t.dropped > 0:
		t.session.TooLong(t.from, t.dropped)
	case len(bytes.TrimSpace(t.line)) > 0:
		t.session.Message(t.from, t.line)
	}
	t.line, t.dropped = t.line[:0], 0
}

// Read reads a file written by a [Log]. It skips invalid lines, such as an incomplete last one, and
// returns an error that names them together with the Recording. If reading fails, it returns that
// error.
func Read(r io.Reader) (*Recording, error) {
	rec := new(Recording)
	var faults []error
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(text)) > 0 {
			if err := rec.entry(text); err != nil {
				faults = append(faults, fmt.Errorf("line %d: %w", n, err))
			}
		}
		switch {
		case err == io.EOF:
			return rec, errors.Join(faults...)
		case err != nil:
			return rec, errors.Join(append(faults, err)...)
		}
	}
}

// entry adds the entry of a file to the recording.
func (r *Recording) entry(text []byte) error {
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Event != "" {
		r.event(e.Time, e.Session, e.Event)
		return nil
	}
	var from mcp.Direction
	switch e.From {
	case clientSide:
		from = mcp.FromClient
	case serverSide:
		from = mcp.FromServer
	default:
		return fmt.Errorf("from %q: want %s or %s, or an event", e.From, clientSide, serverSide)
	}
	if line := e.line(); line != nil {
		r.message(e.Time, e.Session, from, line)
	} else {
		r.messageSize(e.Time, e.Session, from, fmt.Sprintf("%d bytes, too long to be kept", e.Size))
	}
	return nil
}
