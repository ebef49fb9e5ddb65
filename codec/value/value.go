package value

import (
	"encoding/json"
	"strings"

	engine "github.com/goccy/go-json/v2"

	"github.com/mcpwire/mcpwire/codec"
)

// Value is a Go value of any type as a [codec.Value]. It may be used from many goroutines at once if the Go value
// may.
type Value struct{ v any }

// Of returns v for package codec. To be decoded into, v must be a pointer that is not nil.
func Of(v any) Value { return Value{v} }

// Decode decodes text into what v points to, as [codec.Unmarshal] does with [Of], and fails as that does. But it trusts
// that the text is well formed and within the limits, and so is faster by what that check costs. Only text that package
// codec has read may be given to it, such as a raw value in a message that was decoded.
func Decode(text json.RawMessage, v any) error {
	if decode(text, v) == nil {
		return nil
	}
	return codec.Unmarshal(text, Of(v)) // which can say what is wrong, and where
}

// decode lets the engine decode, in both forms that integers can have.
func decode(text []byte, v any) error {
	err := engine.Unmarshal(text, v, reading)
	if err != nil && otherForm(err) {
		err = engine.Unmarshal(plainIntegers(text), v, reading)
	}
	return err
}

// DecodeJSON reads the next value. A value of the wrong kind fails with a [codec.TypeError], a fraction where an
// integer is due with [codec.ErrInteger], a number out of range with [ErrRange]; what a method of the type, or one
// of package time or base64, says of its text is passed on. After a failure the Go value may be partly set.
func (x Value) DecodeJSON(r *codec.Reader) {
	start := r.Offset()
	text := r.RawBytes()
	if r.Failed() {
		return
	}
	if err := decode(text, x.v); err != nil {
		at, cause := fault(text, err)
		r.Fail(start+at, cause)
	}
}

// EncodeJSON writes the value. It fails with [codec.ErrUTF8] for a string and [codec.ErrFloat] for a float that JSON
// cannot express, with [codec.ErrDuplicate] for keys of a map that are written alike, and with what a method of a type
// fails with.
//
// What the engine writes is well formed, raw values and what methods return included, so it is not checked again.
func (x Value) EncodeJSON(w *codec.Writer) {
	if err := engine.MarshalWrite(sink{w}, x.v, writing); err != nil {
		w.Fail("", unwritten(err))
	}
}

// sink passes what is written on to a Writer.
type sink struct{ w *codec.Writer }

func (s sink) Write(text []byte) (int, error) {
	s.w.LitBytes(text)
	return len(text), nil
}

// plainIntegers returns text with integers that are written with a fraction or an exponent, such as 1.0, in digits.
// Those beyond an int64 stay as they are.
func plainIntegers(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		end := i + 1
		switch c := text[i]; {
		case c == '"':
			for ; text[end] != '"'; end++ {
				if text[end] == '\\' {
					end++
				}
			}
			end++
		case c == '-' || '0' <= c && c <= '9':
			for end < len(text) && strings.IndexByte("+-.0123456789Ee", text[end]) >= 0 {
				end++
			}
			if n, ok := plainInteger(text[i:end]); ok {
				out = append(out, n...)
				i = end
				continue
			}
		}
		out = append(out, text[i:end]...)
		i = end
	}
	return out
}
