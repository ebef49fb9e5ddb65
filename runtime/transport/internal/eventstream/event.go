// Package eventstream reads and writes streams of server-sent events (WHATWG HTML, "Server-sent
// events").
package eventstream

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// Event is one block of a stream.
type Event struct {
	// Name is the kind of event. The empty string means "message", which is neither written nor
	// read.
	Name string

	// ID, in an event to be written, sets the id of the stream; the empty string leaves it
	// unchanged. In an event that was read it is the last id of the stream, including that of this
	// event.
	ID string

	// Data is the content of the event. Nil means no data line: the event only sets an id or a
	// retry. An empty Data is written as an empty data line.
	Data []byte

	// Retry is how long to wait before connecting again after the connection has ended, in whole
	// milliseconds. 0 means unset.
	Retry time.Duration
}

// Append appends e to dst. Line breaks in its data become line feeds. Line breaks in its name and
// id are removed.
func Append(dst []byte, e Event) []byte {
	dst = fields(dst, e)
	for data := e.Data; data != nil; {
		dst = append(dst, "data: "...)
		end := lineEnd(data)
		if end < 0 {
			dst = append(append(dst, data...), '\n')
			break
		}
		dst = append(append(dst, data[:end]...), '\n')
		if data[end] == '\r' && end+1 < len(data) && data[end+1] == '\n' {
			end++
		}
		data = data[end+1:]
	}
	return append(dst, '\n')
}

// AppendHead appends the part of e before its data, so that the caller can write the data without a
// copy, followed by [Tail]. ok is false if the data has line breaks; then AppendHead appends
// nothing.
func AppendHead(dst []byte, e Event) (to []byte, ok bool) {
	if lineEnd(e.Data) >= 0 {
		return dst, false
	}
	return append(fields(dst, e), "data: "...), true
}

// Tail is the text after the data of an event.
const Tail = "\n\n"

// fields appends the fields of e except its data.
func fields(dst []byte, e Event) []byte {
	if e.Name != "" && e.Name != message {
		dst = field(dst, "event: ", e.Name)
	}
	if e.ID != "" {
		dst = field(dst, "id: ", e.ID)
	}
	if e.Retry > 0 {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, e.Retry.Milliseconds(), 10)
		dst = append(dst, '\n')
	}
	return dst
}

// AppendComment appends a comment, which readers ignore. It keeps the connection alive. Line breaks
// in text are removed.
func AppendComment(dst []byte, text string) []byte {
	return append(field(dst, ": ", text), '\n')
}

// field appends a line of a name and a value. Line breaks in value are removed.
func field(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	if strings.ContainsAny(value, "\r\n\x00") {
		value = strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(value)
	}
	return append(append(dst, value...), '\n')
}

// lineEnd returns the index of the first line feed or carriage return, or -1.
func lineEnd(b []byte) int {
	end := bytes.IndexByte(b, '\n')
	if end >= 0 {
		b = b[:end]
	}
	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}
	return end
}
