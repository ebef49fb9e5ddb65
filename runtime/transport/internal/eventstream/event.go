// Package eventstream reads and writes streams of server-sent events (WHATWG HTML, "Server-sent events"), as both sides of the
// HTTP transports need it.
package eventstream

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// Event is one block of a stream.
type Event struct {
	// Name is the kind of event. The empty string means "message", as which it is never written or read.
	Name string

	// ID is, of an event that is written, the id that it gives to the stream; the empty string gives none. Of an
	// event that was read it is the last id that the stream was given, up to and including this event.
	ID string

	// Data is what the event carries. Nil means that it has no line of data, which makes it set an id or a retry
	// and no more; an event with an empty one does the same, and is still an event.
	Data []byte

	// Retry is how long to wait before connecting again when the connection ends, in whole milliseconds; 0 says
	// nothing.
	Retry time.Duration
}

// Append appends e to dst. Line breaks within its data are kept, as line feeds; those within its name and id are left
// out, for they cannot be written.
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

// AppendHead appends what stands in front of the data of e, for data that need not be copied; ok is false if they have
// line breaks, for which it cannot be done. [Tail] stands behind them.
func AppendHead(dst []byte, e Event) (to []byte, ok bool) {
	if lineEnd(e.Data) >= 0 {
		return dst, false
	}
	return append(fields(dst, e), "data: "...), true
}

// Tail is what stands behind the data of an event.
const Tail = "\n\n"

// fields appends the fields of e other than its data.
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

// AppendComment appends a comment, which readers pass over: it shows that the connection is alive. Line breaks in text
// are left out.
func AppendComment(dst []byte, text string) []byte {
	return append(field(dst, ": ", text), '\n')
}

// field appends a line of a name and a value that cannot have line breaks.
func field(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	if strings.ContainsAny(value, "\r\n\x00") {
		value = strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(value)
	}
	return append(append(dst, value...), '\n')
}

// lineEnd is the index of the first line feed or carriage return, or -1.
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
