package eventstream

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/internal/overlong"
)

// message is the name of events that have none.
const message = "message"

// maxName is how many bytes the name or the id of an event may have; a longer one counts as none.
const maxName = 4 << 10

// Reader reads the events of a stream. It holds little more than the data of one event, and less while it waits for one.
type Reader struct {
	r    io.Reader
	max  int
	id   string // the last that was given
	line []byte // collects a line that comes in parts
	tail []byte // the end of a line that is too long

	begun  bool // something was read
	skipLF bool // the last line ended with a carriage return: a line feed now belongs to it

	buf   []byte         // what was read and not yet used: a part of large, or of small
	full  bool           // the last read has filled it
	err   error          // what comes behind buf
	large *[4 << 10]byte // nil while little comes
	small [256]byte
}

// What readers have released.
var (
	readers = sync.Pool{New: func() any { return new(Reader) }}
	buffers = sync.Pool{New: func() any { return new([4 << 10]byte) }}
)

// NewReader returns a Reader of r for events whose data have at most maxData bytes.
func NewReader(r io.Reader, maxData int) *Reader {
	reader := readers.Get().(*Reader)
	reader.r, reader.max = r, maxData
	return reader
}

// Release lets others use the memory of a Reader, which must not be used any more. It need not be called.
func (r *Reader) Release() {
	r.shrink()
	*r = Reader{}
	readers.Put(r)
}

// shrink gives the large buffer away.
func (r *Reader) shrink() {
	if r.large != nil {
		buffers.Put(r.large)
		r.large = nil
	}
}

// maxEmpty is how many reads in a row may bring nothing.
const maxEmpty = 100

// fill reads if nothing is left. It takes the large buffer once the small one was full, and gives it back when that was
// not: all that was there has been read, and the next read may wait for long.
func (r *Reader) fill() error {
	for range maxEmpty {
		switch {
		case len(r.buf) > 0:
			return nil
		case r.err != nil:
			return r.err
		case !r.full:
			r.shrink()
		case r.large == nil:
			r.large = buffers.Get().(*[4 << 10]byte)
		}
		room := r.small[:]
		if r.large != nil {
			room = r.large[:]
		}
		n, err := r.r.Read(room)
		r.buf, r.full, r.err = room[:n], n == len(room), err
	}
	return io.ErrNoProgress
}

// block is an event while it is read.
type block struct {
	Event
	newID      string
	hasID, any bool
	hasData    bool
	long       bool   // its data are too long
	head, tail []byte // of data that are too long
}

// Next returns the next event, whose data belong to the caller. It is also an event if it has no data, but an id, a
// name or a retry. What follows the last complete event is dropped. The error is [io.EOF] at the end, that of the
// underlying reader if that fails, and that of package overlong, which wraps [transport.ErrTooLong], if the event is too
// long: reading can go on after that, and the event has its id.
func (r *Reader) Next() (Event, error) {
	var b block
	for {
		line, long, err := r.readLine()
		if err != nil {
			return Event{ID: r.id}, err
		}
		if len(line) > 0 || long {
			b.take(line, long, r)
			continue
		}
		if !b.any {
			continue // an empty line between events
		}
		if b.hasID {
			r.id = b.newID
		}
		b.ID = r.id
		if b.long {
			b.Data = nil
			return b.Event, overlong.Refusal(b.head, b.tail, r.max)
		}
		return b.Event, nil
	}
}

// take takes a line of r that is not empty. A line that is too long is only the beginning of it.
func (b *block) take(line []byte, long bool, r *Reader) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		b.any = true
		b.addData(value, long, r)
	case "event":
		b.any = true
		b.Name = ""
		if !long && len(value) <= maxName && string(value) != message {
			b.Name = string(value)
		}
	case "id":
		if !long && len(value) <= maxName && bytes.IndexByte(value, 0) < 0 {
			b.any, b.hasID, b.newID = true, true, string(value)
		}
	case "retry":
		if ms, ok := digits(value); ok && !long {
			b.any = true
			b.Retry = ms
		}
	}
}

// addData adds a line of data.
func (b *block) addData(value []byte, long bool, r *Reader) {
	if b.long || long || len(b.Data)+1+len(value) > r.max+1 {
		if !b.long {
			b.head = overlong.Head(append(b.Data, value[:min(len(value), overlong.Part)]...))
			b.tail = overlong.AppendTail(nil, b.Data)
		}
		if long {
			value = r.tail
		}
		b.tail = overlong.AppendTail(b.tail, value)
		b.long, b.Data = true, nil
		return
	}
	if !b.hasData {
		b.hasData = true
		b.Data = append([]byte{}, value...)
		return
	}
	b.Data = append(append(b.Data, '\n'), value...)
}

// maxRetry keeps what a peer asks for within reason.
const maxRetry = 24 * time.Hour

// digits reads a number of milliseconds.
func digits(value []byte) (d time.Duration, ok bool) {
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		d = min(d*10+time.Duration(c-'0')*time.Millisecond, maxRetry)
	}
	return d, len(value) > 0
}

const byteOrderMark = "\xEF\xBB\xBF"

// begin passes over a byte order mark. The beginning of one is left in line.
func (r *Reader) begin() error {
	r.begun = true
	for i := range len(byteOrderMark) {
		if err := r.fill(); err != nil {
			return err
		}
		if r.buf[0] != byteOrderMark[i] {
			r.line = append(r.line, byteOrderMark[:i]...)
			return nil
		}
		r.buf = r.buf[1:]
	}
	return nil
}

// readLine returns the next line without its end; it is good until the next call. Of a line that is too long it
// returns the beginning. A line without an end is dropped.
func (r *Reader) readLine() (line []byte, long bool, err error) {
	r.line = r.line[:0]
	if cap(r.line) > 64<<10 {
		r.line = nil // was needed for one long line
	}
	if !r.begun {
		if err := r.begin(); err != nil {
			return nil, false, err
		}
	}
	limit := max(r.max, maxName) + len("data: ")
	for {
		chunk, end, err := r.chunk()
		if err != nil {
			return nil, false, err
		}
		switch {
		case end && len(r.line) == 0 && !long && len(chunk) <= limit:
			return chunk, false, nil
		case !long && len(r.line)+len(chunk) > limit:
			long = true
			r.tail = overlong.AppendTail(r.tail[:0], r.line)
		}
		if !long || len(r.line) == 0 {
			r.line = append(r.line, chunk...)
		}
		if long {
			r.tail = overlong.AppendTail(r.tail, chunk)
		}
		if end {
			return r.line, long, nil
		}
	}
}

// chunk returns what is there of the current line, good until the next call; end says that it is the rest of it.
func (r *Reader) chunk() (chunk []byte, end bool, err error) {
	for {
		if err := r.fill(); err != nil {
			return nil, false, err
		}
		if r.skipLF {
			r.skipLF = false
			if r.buf[0] == '\n' {
				r.buf = r.buf[1:]
				continue
			}
		}
		chunk = r.buf
		i := lineEnd(chunk)
		if i < 0 {
			r.buf = nil
			return chunk, false, nil
		}
		r.skipLF = chunk[i] == '\r'
		r.buf = chunk[i+1:]
		return chunk[:i], true, nil
	}
}
