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

	"github.com/mcpwire/mcpwire/internal/tracefile"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Log writes sessions as NDJSON: an object for each message or event, with the time, the session,
// the sender, the Go type and the unchanged message. A Log and its Sessions are safe for concurrent
// use.
type Log struct{ w *tracefile.Writer }

// NewLog returns a Log that writes to w, with one Write per entry.
func NewLog(w io.Writer) *Log { return &Log{tracefile.NewWriter(w)} }

// Err returns the first write error. Entries after an error are lost.
func (l *Log) Err() error { return l.w.Err() }

// Event records an event that belongs to no session.
func (l *Log) Event(text string) { l.w.Write(func(e *tracefile.Entry) { e.Event = text }) }

// Session is one session in a Log.
type Session struct {
	log   *Log
	name  string
	types mcp.Conversation // used while the Writer of the Log makes an entry
}

// Session starts a session with the given name. "" selects a new unique name.
func (l *Log) Session(name string) *Session {
	return &Session{log: l, name: cmp.Or(name, rand.Text()[:8]), types: newConversation()}
}

// Name returns the name of the session.
func (s *Session) Name() string { return s.name }

// Event records an event of the session.
func (s *Session) Event(text string) {
	s.log.w.Write(func(e *tracefile.Entry) { e.Session, e.Event = s.name, text })
}

// Message records a message, or invalid text, that one side sent.
func (s *Session) Message(from mcp.Direction, line []byte) {
	s.log.w.Write(func(e *tracefile.Entry) {
		e.Session, e.From = s.name, tracefile.Side(from)
		m, err := s.types.DecodeFrom(from, line)
		e.Method = m.For
		switch {
		case err != nil:
			e.Error = err.Error()
		case m.Payload != nil:
			e.Type = strings.TrimPrefix(fmt.Sprintf("%T", m.Payload), "*")
		}
		e.SetLine(line)
	})
}

// TooLong records the size of a message that is too long to be recorded.
func (s *Session) TooLong(from mcp.Direction, size int64) {
	s.log.w.Write(func(e *tracefile.Entry) { e.Session, e.From, e.Size = s.name, tracefile.Side(from), size })
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
	var e tracefile.Entry
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
	case tracefile.Client:
		from = mcp.FromClient
	case tracefile.Server:
		from = mcp.FromServer
	default:
		return fmt.Errorf("from %q: want %s or %s, or an event", e.From, tracefile.Client, tracefile.Server)
	}
	if line := e.Line(); line != nil {
		r.message(e.Time, e.Session, from, line)
	} else {
		r.messageSize(e.Time, e.Session, from, fmt.Sprintf("%d bytes, too long to be kept", e.Size))
	}
	return nil
}
