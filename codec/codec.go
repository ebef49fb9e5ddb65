package codec

import (
	"bytes"
	"sync"
)

// GeneratedVersion1 is mentioned by generated code that needs this version of the package. When a later
// version of the package no longer fits, the name goes away and the mismatch is a compile error.
const GeneratedVersion1 = true

// Decoder is a value that reads itself from the next value of r. It overwrites what it held before. It reports
// trouble through r, see [Reader.Fail].
type Decoder interface {
	DecodeJSON(r *Reader)
}

// Encoder is a value that writes itself as one JSON value to w. It reports trouble through w, see
// [Writer.Fail].
type Encoder interface {
	EncodeJSON(w *Writer)
}

// Value is both an Encoder and a Decoder, as every generated type is by its pointer.
type Value interface {
	Encoder
	Decoder
}

// Unmarshal decodes data, which must be one JSON value and nothing more, into v. An error is an [*Error]; v is
// then only partly filled. Unless [NoCopy] is among the options, v shares no memory with data afterwards.
func Unmarshal(data []byte, v Decoder, opts ...Option) error {
	r := Borrow(data, opts...)
	v.DecodeJSON(r)
	r.End()
	return r.Release()
}

// UnmarshalFunc is [Unmarshal] for a value that read returns, such as a variant of a union. After an error it is
// the zero value.
func UnmarshalFunc[T any](data []byte, read func(*Reader) T, opts ...Option) (T, error) {
	r := Borrow(data, opts...)
	v := read(r)
	r.End()
	err := r.Release()
	if err != nil {
		v = *new(T)
	}
	return v, err
}

// readers holds Readers that are not in use. They keep nothing of what they have read.
var readers = sync.Pool{New: func() any { return NewReader(nil) }}

// Borrow is [NewReader] for a Reader that is only needed for a while: it comes from a pool and goes back there with
// [Reader.Release].
func Borrow(data []byte, opts ...Option) *Reader {
	r := readers.Get().(*Reader)
	if r.options || len(opts) > 0 {
		r.setOptions(opts)
	}
	r.begin(data)
	r.pooled = true
	return r
}

// Borrow borrows a Reader for data that has the options of r.
func (r *Reader) Borrow(data []byte) *Reader {
	other := readers.Get().(*Reader)
	if r.options || other.options {
		other.options, other.lim = r.options, r.lim
		other.check.maxDepth, other.check.maxString = r.lim.depth, r.lim.str
	}
	other.begin(data)
	other.pooled = true
	return other
}

// Release ends the use of a Reader that Borrow returned, and returns what Err does. Nothing else may be called on
// it afterwards.
func (r *Reader) Release() error {
	err := r.Err()
	if r.pooled {
		r.pooled = false
		r.forget()
		readers.Put(r)
	}
	return err
}

// Marshal returns v as JSON text without line breaks. An error is an [*Error].
func Marshal(v Encoder) ([]byte, error) {
	w := writers.Get().(*Writer)
	w.Reset(w.buf[:0])
	v.EncodeJSON(w)
	var text []byte
	err := w.Err()
	if err == nil {
		text = bytes.Clone(w.buf)
		noteChecked(text)
	}
	if cap(w.buf) > keepScratch {
		w.buf = nil
	}
	writers.Put(w)
	return text, err
}

// writers holds Writers that are not in use.
var writers = sync.Pool{New: func() any { return NewWriter(nil) }}

// Append appends v as JSON text without line breaks to dst and returns the longer slice. An error is an
// [*Error], and dst comes back with the length it had, though bytes between its length and its capacity may
// have changed.
func Append(dst []byte, v Encoder) ([]byte, error) {
	w := writers.Get().(*Writer)
	own := w.buf
	w.Reset(dst)
	v.EncodeJSON(w)
	text, err := w.Bytes(), w.Err()
	w.Reset(own[:0])
	writers.Put(w)
	if err != nil {
		return dst, err
	}
	return text, nil
}

// Valid reports whether data is one well-formed JSON value, by the rules of this package. The error is nil or
// an [*Error].
func Valid(data []byte, opts ...Option) error {
	r := Borrow(data, opts...)
	r.Skip()
	r.End()
	return r.Release()
}
