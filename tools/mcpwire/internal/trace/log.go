package trace

import (
	"bufio"
	"bytes"
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
	Time   time.Time `json:"time"`
	Event  string    `json:"event,omitempty"`
	From   string    `json:"from,omitempty"`   // clientSide or serverSide
	Method string    `json:"method,omitempty"` // that is called or answered
	Type   string    `json:"type,omitempty"`   // of the params or the result, in Go
	Error  string    `json:"error,omitempty"`  // why it was not understood
	Size   int       `json:"size,omitempty"`   // bytes of a line that is too long to be kept

	// The line, in one of three ways: as it is if that is JSON, as a text, or in base64 if it is not UTF-8.
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

// Log writes a conversation as NDJSON, an object for each message or event, with the time, who sent it, the Go type
// it has, and the message as it was. Its methods may be called by several goroutines.
type Log struct {
	mu   sync.Mutex // held while an entry is written: the order in the file is that of the conversation
	w    io.Writer
	kept mcp.Conversation
	err  error // the first one
}

// NewLog returns a Log that writes to w, one Write for an entry.
func NewLog(w io.Writer) *Log { return &Log{w: w} }

// Err returns the first error of writing. What follows on one is lost.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Event records something that happened beside the messages.
func (l *Log) Event(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(entry{Time: time.Now(), Event: text}, nil)
}

// message records a line that one side sent.
func (l *Log) message(from mcp.Direction, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := entry{Time: time.Now(), From: side(from)}
	m, err := l.kept.DecodeFrom(from, line)
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
	case json.Valid(line):
		raw = line
	default:
		e.Text = string(line)
	}
	l.write(e, raw)
}

// tooLong records a line that was not kept.
func (l *Log) tooLong(from mcp.Direction, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(entry{Time: time.Now(), From: side(from), Size: size}, nil)
}

// write writes an entry, with a message to the byte as it was, which encoding/json would make compact.
func (l *Log) write(e entry, message []byte) {
	if l.err != nil {
		return
	}
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
	log  *Log
	from mcp.Direction
	to   io.Writer
	line []byte // begun and not ended
	over int    // bytes of it that were dropped
}

// Tap returns a Tap for what one side sends to the other, which to leads to.
func (l *Log) Tap(from mcp.Direction, to io.Writer) *Tap { return &Tap{log: l, from: from, to: to} }

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
		t.over += len(t.line) + len(p)
		t.line = nil
		return
	}
	t.line = append(t.line, p...)
}

// End records a last line that has no end, if there is one.
func (t *Tap) End() {
	switch {
	case t.over > 0:
		t.log.tooLong(t.from, t.over)
	case len(bytes.TrimSpace(t.line)) > 0:
		t.log.message(t.from, t.line)
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
	if e.Event != "" {
		r.Event(e.Time, e.Event)
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
		r.Message(e.Time, from, line)
	} else {
		r.unread(e.Time, from, fmt.Sprintf("%d bytes, too long to be kept", e.Size))
	}
	return nil
}
