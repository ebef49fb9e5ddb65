package codec

import (
	"encoding/json"
	"sync"

	"github.com/mcpwire/mcpwire/codec/wire"
)

// Decoder is a type that decodes itself. DecodeJSON reads the next value of r and overwrites the
// former contents of the Decoder. It reports a failure with [wire.Reader.Fail].
type Decoder interface {
	DecodeJSON(r *wire.Reader)
}

// Encoder is a type that encodes itself. EncodeJSON writes one JSON value to w. It reports a
// failure with [wire.Writer.Fail].
type Encoder interface {
	EncodeJSON(w *wire.Writer)
}

// Value is both an Encoder and a Decoder, as every generated type is by its pointer.
type Value interface {
	Encoder
	Decoder
}

// readers and writers hold Readers and Writers that are not in use. They keep no reference to a
// text.
var (
	readers = sync.Pool{New: func() any { return new(reader) }}
	writers = sync.Pool{New: func() any { return &scratchWriter{Writer: wire.NewWriter(nil)} }}
)

// reader is a Reader with limits that options may set without an allocation.
type reader struct {
	wire.Reader
	limits wire.Limits
}

// scratchWriter is a Writer with a reusable buffer.
type scratchWriter struct {
	*wire.Writer
	scratch []byte
}

// borrow returns a Reader for data from the pool.
func borrow(data []byte, opts []Option) *reader {
	r := readers.Get().(*reader)
	r.limits = wire.Limits{}
	for _, o := range opts {
		o(&r.limits)
	}
	r.Reset(data, r.limits)
	return r
}

// release puts r, which has read data, back into the pool and returns its failure as an *Error, or
// nil.
func release(r *reader, data []byte) error {
	err := failure(&r.Reader, data)
	r.Forget()
	readers.Put(r)
	return err
}

// Unmarshal decodes data, which must be exactly one JSON value, into v. An error is an [*Error]; v
// may then be partly filled. Unless [NoCopy] is among the options, v shares no memory with data
// afterwards.
func Unmarshal(data []byte, v Decoder, opts ...Option) error {
	r := borrow(data, opts)
	v.DecodeJSON(&r.Reader)
	r.End()
	return release(r, data)
}

// UnmarshalFunc is like [Unmarshal], but decodes by calling read and returns its result, such as a
// variant of a union. After an error it returns the zero value.
func UnmarshalFunc[T any](data []byte, read func(*wire.Reader) T, opts ...Option) (T, error) {
	r := borrow(data, opts)
	v := read(&r.Reader)
	r.End()
	err := release(r, data)
	if err != nil {
		v = *new(T)
	}
	return v, err
}

// ReadPart calls read with a Reader for part, a value from a text that was checked before, such as
// the params of a received message. The length of part is not limited. Raw values share the memory
// of part, as with [NoCopy]. An error is an [*Error]. read need not consume all of part.
func ReadPart(part []byte, read func(r *wire.Reader)) error {
	r := readers.Get().(*reader)
	r.Reset(part, wire.Limits{Size: max(len(part), wire.DefaultSize), NoCopy: true})
	read(&r.Reader)
	return release(r, part)
}

// Member returns the value of the member name of object, which must have been checked before. ok is
// false if there is no such member or object is not a JSON object. The value shares the memory of
// object.
func Member(object []byte, name string) (value json.RawMessage, ok bool) {
	ReadPart(object, func(r *wire.Reader) { value, ok = r.PeekRaw(name) })
	return value, ok
}

// Marshal returns v as JSON text without line breaks. An error is an [*Error].
func Marshal(v Encoder) ([]byte, error) { return MarshalFunc(v.EncodeJSON) }

// MarshalFunc is like [Marshal], but encodes by calling write, which writes one JSON value.
func MarshalFunc(write func(w *wire.Writer)) ([]byte, error) {
	w := writers.Get().(*scratchWriter)
	if w.scratch == nil {
		w.scratch = make([]byte, 0, 512) // room for most messages
	}
	w.Reset(w.scratch[:0])
	write(w.Writer)
	var text []byte
	err := writeFailure(w.Writer)
	if err == nil {
		text, w.scratch = w.Detach()
	}
	w.Reset(nil)
	writers.Put(w)
	return text, err
}

// Append appends v as JSON text without line breaks to dst and returns the longer slice. On failure
// it returns an [*Error] and dst with its original length; bytes between length and capacity may
// have changed.
func Append(dst []byte, v Encoder) ([]byte, error) {
	w := writers.Get().(*scratchWriter)
	w.Reset(dst)
	v.EncodeJSON(w.Writer)
	text, err := w.Bytes(), writeFailure(w.Writer)
	w.Reset(nil)
	writers.Put(w)
	if err != nil {
		return dst, err
	}
	return text, nil
}

// Valid checks that data is one well-formed JSON value by the rules of this package. It returns nil
// or an [*Error].
func Valid(data []byte, opts ...Option) error {
	r := borrow(data, opts)
	r.Skip()
	r.End()
	return release(r, data)
}
