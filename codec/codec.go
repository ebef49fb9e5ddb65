package codec

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
	r := NewReader(data, opts...)
	v.DecodeJSON(r)
	r.End()
	return r.Err()
}

// Marshal returns v as JSON text without line breaks. An error is an [*Error].
func Marshal(v Encoder) ([]byte, error) {
	out, err := Append(make([]byte, 0, 256), v)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Append appends v as JSON text without line breaks to dst and returns the longer slice. An error is an
// [*Error], and dst comes back with the length it had, though bytes between its length and its capacity may
// have changed.
func Append(dst []byte, v Encoder) ([]byte, error) {
	w := NewWriter(dst)
	v.EncodeJSON(w)
	if err := w.Err(); err != nil {
		return dst, err
	}
	return w.Bytes(), nil
}

// Valid reports whether data is one well-formed JSON value, by the rules of this package. The error is nil or
// an [*Error].
func Valid(data []byte, opts ...Option) error {
	r := NewReader(data, opts...)
	r.Skip()
	r.End()
	return r.Err()
}
