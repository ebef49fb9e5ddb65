// Package tracefile has the format of recorded sessions: NDJSON, an object for each message or
// event. Package tap of the runtime and the command "mcpwire record" write it, and "mcpwire trace"
// reads it.
package tracefile

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/mcp"
)

// The names of the sides in a file.
const (
	Client = "client"
	Server = "server"
)

// Side returns the name of the side that sends messages of a direction.
func Side(from mcp.Direction) string {
	if from == mcp.FromClient {
		return Client
	}
	return Server
}

// Entry is a line of a file: an event, or a line that one side sent.
type Entry struct {
	Time    time.Time `json:"time"`
	Session string    `json:"session,omitempty"` // name of the session; "" for an event that belongs to none
	Event   string    `json:"event,omitempty"`
	From    string    `json:"from,omitempty"`   // Client or Server
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

// SetLine sets the form of a line that one side sent. The entry refers to line.
func (e *Entry) SetLine(line []byte) {
	switch {
	case !utf8.Valid(line):
		e.Bytes = line
	case bytes.IndexByte(line, '\n') < 0 && json.Valid(line):
		e.Message = line
	default:
		e.Text = string(line)
	}
}

// Line returns the sent line, or nil if the entry does not contain it.
func (e *Entry) Line() []byte {
	switch {
	case e.Message != nil:
		return e.Message
	case e.Text != "":
		return []byte(e.Text)
	}
	return e.Bytes
}

// Writer writes entries, with one Write for each. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex // held while an entry is made and written, so that the file has their order
	w   io.Writer
	err error // the first error
}

// NewWriter returns a Writer that writes to w. It does not close w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Err returns the first write error. Entries after an error are lost.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Write writes the entry that fill sets, with the current time. Calls of fill do not overlap. Write
// keeps the bytes of the message, which encoding/json would reformat.
func (w *Writer) Write(fill func(e *Entry)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var e Entry
	fill(&e)
	if w.err != nil {
		return
	}
	e.Time = time.Now()
	message := e.Message
	e.Message = nil
	text, err := json.Marshal(e)
	if err == nil {
		if message != nil {
			text = append(text[:len(text)-1], `,"message":`...)
			text = append(append(text, message...), '}')
		}
		_, err = w.w.Write(append(text, '\n'))
	}
	w.err = err
}
