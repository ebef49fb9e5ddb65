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

// entry is a line of a file: an event, or what one side sent as one line.
type entry struct {
	Time    time.Time `json:"time"`
	Session string    `json:"session,omitempty"` // name of the conversation; none for an event of all
	Event   string    `json:"event,omitempty"`
	From    string    `json:"from,omitempty"`   // clientSide or serverSide
	Method  string    `json:"method,omitempty"` // that is called or answered
	Type    string    `json:"type,omitempty"`   // of the params or the result, in Go
	Error   string    `json:"error,omitempty"`  // why it was not understood
	Size    int64     `json:"size,omitempty"`   // bytes of a line that is too long to be kept

	// The line, in one of three ways: as it is if that is JSON in one line, as a text, or in base64 if it is not UTF-8.
	Message json.RawMessage `json:"message,omitempty"`
	Text    string          `json:"text,omitempty"`
	Bytes   []byte          `json:"bytes,omitempty"`
}

// line is what was sent, or nil if that is not in the entry.
func (e *entry) line() []byte {
	switch {
	case e.Message != nil:
		return e.Message
	case e.Text != "":
		return []byte(e.Text)
	}
	return e.Bytes
}

// Log writes conversations as NDJSON, an object for each message or event, with the time, the conversation, who sent it,
// the Go type it has, and the message as it was. Its methods, and those of its Sessions, may be called by several
// goroutines.
type Log struct {
	mu  sync.Mutex // held while an entry is written: the order in the file is that of the conversations
	w   io.Writer
	err error // the first one
}

// NewLog returns a Log that writes to w, one Write for an entry.
func NewLog(w io.Writer) *Log { return &Log{w: w} }

// Err returns the first error of writing. What follows on one is lost.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Event records something that belongs to no conversation.
func (l *Log) Event(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(entry{Event: text}, nil)
}

// Session is one conversation in a Log.
type Session struct {
	log  *Log
	name string
	kept mcp.Conversation // guarded by the mu of the Log
}

// Session begins a conversation of a name; "" stands for one that no other conversation has.
func (l *Log) Session(name string) *Session {
	return &Session{log: l, name: cmp.Or(name, rand.Text()[:8])}
}

// Name returns the name of the conversation.
func (s *Session) Name() string { return s.name }

// Event records something that happened beside the messages.
func (s *Session) Event(text string) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.write(entry{Session: s.name, Event: text}, nil)
}

// Message records a message that one side sent, or what it sent in the place of one.
func (s *Session) Message(from mcp.Direction, line []byte) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	e := entry{Session: s.name, From: side(from)}
	m, err := s.kept.DecodeFrom(from, line)
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

// TooLong records a message of a number of bytes that was not kept.
func (s *Session) TooLong(from mcp.Direction, size int64) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.write(entry{Session: s.name, From: side(from), Size: size}, nil)
}

// write writes an entry at this time, with a message to the byte as it was, which encoding/json would make compact. It is
// called with mu held.
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

// Tap passes on what one side sends, byte for byte as it comes, and records its lines. It is used by one goroutine.
// Empty lines, which are no messages, are not recorded, and lines over [transport.DefaultMaxMessage] bytes only with their size.
type Tap struct {
	session *Session
	from    mcp.Direction
	to      io.Writer
	line    []byte // begun and not ended
	over    int64  // bytes of it that were dropped
}

// Tap returns a Tap for what one side sends to the other, which to leads to.
func (s *Session) Tap(from mcp.Direction, to io.Writer) *Tap {
	return &Tap{session: s, from: from, to: to}
}

// Write passes p on. A message is recorded before its end goes out, so that it stands in front of its answer.
func (t *Tap) Write(p []byte) (int, error) {
	rest := p
	for {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		t.keep(rest[:i])
		t.End()
		rest = rest[i+1:]
	}
	t.keep(rest)
	return t.to.Write(p)
}

func (t *Tap) keep(p []byte) {
	if t.over > 0 || len(t.line)+len(p) > transport.DefaultMaxMessage {
		t.over += int64(len(t.line) + len(p))
		t.line = nil
		return
	}
	t.line = append(t.line, p...)
}

// End records a last line that has no end, if there is one.
func (t *Tap) End() {
	switch {
	case t.over > 0:
		t.session.TooLong(t.from, t.over)
	case len(bytes.TrimSpace(t.line)) > 0:
		t.session.Message(t.from, t.line)
	}
	t.line, t.over = t.line[:0], 0
}

// Read returns the Recording in a file that a [Log] wrote. Lines of it that are none of a Log, such as a last one of
// which a part is missing, are left out; the error names them all, or is that of reading.
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

// entry records what a line of a file says.
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
		return fmt.Errorf("from %q: neither %s nor %s, and no event", e.From, clientSide, serverSide)
	}
	if line := e.line(); line != nil {
		r.message(e.Time, e.Session, from, line)
	} else {
		r.unread(e.Time, e.Session, from, fmt.Sprintf("%d bytes, too long to be kept", e.Size))
	}
	return nil
}
