package eventstream

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/internal/overlong"
)

// message is the default name of an event. Events without a name field have it.
const message = "message"

// maxName is the maximum size of the name or id of an event in bytes. Longer ones are ignored.
const maxName = 4 << 10

// Reader reads the events of a stream. It holds little more than the data of one event, and less
// while it waits for one.
type Reader struct {
	r    io.Reader
	max  int
	id   string // the last id of the stream
	line []byte // collects the chunks of a line
	tail []byte // the end of an overlong line

	begun bool // the byte order mark was handled
	// The last line ended with a carriage return. A line feed that follows belongs to it.
	skipLF bool

	buf   []byte         // read and not yet used; a part of large or small
	full  bool           // the last read has filled the buffer
	err   error          // returned after buf is used
	large *[4 << 10]byte // nil while little data arrives
	small [256]byte
}

// Pools of released memory.
var (
	readers = sync.Pool{New: func() any { return new(Reader) }}
	buffers = sync.Pool{New: func() any { return new([4 << 10]byte) }}
)

// NewReader returns a Reader of r for events with at most maxData bytes of data.
func NewReader(r io.Reader, maxData int) *Reader {
	reader := readers.Get().(*Reader)
	reader.r, reader.max = r, maxData
	return reader
}

// Release makes the memory of the Reader available to others. The Reader must not be used
// afterwards. Calling Release is optional.
func (r *Reader) Release() {
	r.shrink()
	*r = Reader{}
	readers.Put(r)
}

// shrink releases the large buffer.
func (r *Reader) shrink() {
	if r.large != nil {
		buffers.Put(r.large)
		r.large = nil
	}
}

// maxEmpty is how many reads in a row may return no data.
const maxEmpty = 100

// fill reads if buf is empty. It takes the large buffer after a read that has filled the small one.
// It releases it after a read that has not filled it: all available data has been read, and the
// next read may wait for a long time.
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

// block is an event that is being read.
type block struct {
	Event
	newID      string
	hasID, any bool
	hasData    bool
	long       bool   // the data is too long
	head, tail []byte // of data that is too long
}

// Next returns the next event. The caller owns its data. An event without data is returned if it
// has an id, a name or a retry. An incomplete event at the end of the stream is dropped. The error
// is [io.EOF] at the end, the error of the underlying reader, or, for an event that is too long, an
// error of package overlong, which wraps [transport.ErrTooLong]. After the latter, the event has
// its id and reading can continue.
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
			return b.Event, overlong.NewError(b.head, b.tail, r.max)
		}
		return b.Event, nil
	}
}

// take processes a line of r that is not empty. long means that line is only the beginning.
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

// maxRetry limits the delay that a peer can ask for.
const maxRetry = 24 * time.Hour

// digits parses a number of milliseconds.
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

// begin skips a byte order mark. The beginning of an incomplete one is put into line.
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

// readLine returns the next line without its end, valid until the next call. If the line is too
// long, it returns the beginning and long is true. It drops a line without an end.
func (r *Reader) readLine() (line []byte, long bool, err error) {
	r.line = r.line[:0]
	if cap(r.line) > 64<<10 {
		r.line = nil // grown for one long line
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

// chunk returns the available part of the current line, valid until the next call. end reports
// whether the line ends there.
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
