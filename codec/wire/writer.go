package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/mcpwire/mcpwire/codec/internal/scan"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// Writer appends JSON text to one byte slice. Its first failure is final and discards everything
// written.
//
// An object is written like this:
//
//	start := w.Begin()
//	w.KeyText(`,"name":"`, t.Name)
//	w.Key(`,"tags":`)
//	w.Texts(t.Tags)
//	w.EndExtra(start, t.Extra, &members)
//
// and an array like this:
//
//	w.BeginArray()
//	for _, s := range list {
//		w.Elem()
//		w.Text(s)
//	}
//	w.EndArray()
//
// The text is UTF-8 without line breaks, and has white space only inside raw values. A Writer must
// not be copied.
type Writer struct {
	buf     []byte
	base    int   // buf[:base] is the dst given to Reset
	message bool  // WholeMessage was called
	failure Fault // Err is nil as long as nothing has failed
	check   scan.Checker
	names   [][]byte    // scratch of EndExtra: the names in the object
	object  uint32      // the object's number in check.big if it has many names, or 0
	keys    []string    // names in the maps that are being written
	ends    map[int]int // maps starts to ends, for large objects that EndExtra has written
}

// NewWriter returns a Writer that appends to dst. The Writer owns dst from then on.
func NewWriter(dst []byte) *Writer {
	w := new(Writer)
	w.check.MaxDepth, w.check.MaxString = math.MaxInt, math.MaxInt
	w.Reset(dst)
	return w
}

// Reset makes w append to dst and discards all other state.
func (w *Writer) Reset(dst []byte) {
	w.buf, w.base, w.message = dst, len(dst), false
	w.names = emptied(w.names)
	w.keys = emptied(w.keys)
	if len(w.ends) > scan.KeepSlots {
		w.ends = nil
	}
	clear(w.ends)
	w.failure = Fault{}
	w.check.Reset()
}

// emptied clears s and returns s[:0] for reuse. It returns nil if s has a large capacity, because
// clearing it would take longer than writing most messages.
func emptied[T any](s []T) []T {
	if cap(s) > scan.KeepSlots {
		return nil
	}
	clear(s[:cap(s)])
	return s[:0]
}

// Bytes returns dst with all that was written. After a failure it is dst alone. The slice belongs
// to w until Reset.
func (w *Writer) Bytes() []byte {
	if w.failure.Err != nil {
		return w.buf[:w.base]
	}
	return w.buf
}

// Detach returns all that was written, which must be one value, and a buffer for the next Reset, or
// nil. A text too large for a buffer that is kept is returned without a copy, unless that would keep
// much unused memory. [Writer.Raw] writes the text again without checking it, unless it is a whole
// message.
func (w *Writer) Detach() (text, buffer []byte) {
	text = w.buf[w.base:]
	if cap(w.buf) <= scan.KeepScratch {
		buffer = w.buf
	}
	if buffer != nil || len(text) < cap(text)/4*3 {
		text = bytes.Clone(text)
	}
	if !w.message {
		noteChecked(text)
	}
	return text, buffer
}

// WholeMessage says that what is being written will not become part of another text, so that
// [Writer.Detach] need not compute its hash for [Writer.Raw].
func (w *Writer) WholeMessage() { w.message = true }

// Failure returns the first failure. Its Err is nil if there was none.
func (w *Writer) Failure() Fault { return w.failure }

// Fault is the failure of a [Writer].
type Fault struct {
	Offset  int    // how many bytes had been written
	Pointer string // the JSON pointer of the value that could not be written
	Err     error
}

// Fail records a failure, unless there was one before. The pointer of the failure is that of the
// member name of the object being written or, if name is empty, that of the value to be written
// next. If err has a method JSONPointer, as *codec.Error has, the result extends the pointer, and
// the error that err wraps becomes the cause. Fail ignores a nil err.
func (w *Writer) Fail(name string, err error) {
	if err == nil || w.failure.Err != nil {
		return
	}
	// The appended byte stands for the value to be written next.
	out := append(w.buf, '0')[w.base:]
	w.failure = Fault{Offset: len(out) - 1, Pointer: scan.PointerTo(out, len(out)-1), Err: err}
	if name != "" {
		w.failure.Pointer += "/" + string(scan.EscapeToken(nil, []byte(name)))
	}
	if inner, ok := err.(interface {
		JSONPointer() string
		Unwrap() error
	}); ok {
		w.failure.Pointer += inner.JSONPointer()
		w.failure.Err = inner.Unwrap()
	}
}

// Lit writes s unchanged. It must keep the text well formed.
func (w *Writer) Lit(s string) { w.buf = append(w.buf, s...) }

// LitBytes is Lit for bytes.
func (w *Writer) LitBytes(b []byte) { w.buf = append(w.buf, b...) }

// Begin starts an object. EndExtra needs the result; End does not.
func (w *Writer) Begin() int {
	w.buf = append(w.buf, '{')
	return len(w.buf)
}

// Key writes the name of a member of the object being written. quoted has the comma, the quotes and
// the colon, such as `,"name":`, and is escaped like the output of Text. The comma is omitted
// before the first member.
func (w *Writer) Key(quoted string) {
	if w.buf[len(w.buf)-1] == '{' {
		quoted = quoted[1:]
	}
	w.buf = append(w.buf, quoted...)
}

// KeyText writes the name of a member, as Key does, and a string as its value. The name comes with
// the quote that opens the string, such as `,"name":"`.
func (w *Writer) KeyText(quoted, s string) {
	buf := w.buf
	if buf[len(buf)-1] == '{' {
		quoted = quoted[1:]
	}
	buf = append(buf, quoted...)
	if text, ok := scan.AppendPlain(buf, s); ok {
		w.buf = append(text, '"')
		return
	}
	w.buf = buf[:len(buf)-1]
	w.Text(s)
}

// MapKey writes the name of a member that is not known in advance, such as the key of a map.
func (w *Writer) MapKey(name string) {
	w.comma('{')
	w.Text(name)
	w.buf = append(w.buf, ':')
}

// comma writes a comma, unless the last byte is open.
func (w *Writer) comma(open byte) {
	if w.buf[len(w.buf)-1] != open {
		w.buf = append(w.buf, ',')
	}
}

// End ends the object.
func (w *Writer) End() { w.buf = append(w.buf, '}') }

// EndWith writes the members of the object that v encodes, and ends the object being written. Their
// names must differ from those that the object has. EndWith fails with codec.ErrType if v is not an
// object.
func (w *Writer) EndWith(v interface{ EncodeJSON(w *Writer) }) {
	at := len(w.buf)
	v.EncodeJSON(w)
	switch {
	case w.failure.Err != nil:
	case len(w.buf) == at || w.buf[at] != '{':
		w.buf = w.buf[:at]
		w.Fail("", WrongKind(KindObject.String(), KindInvalid))
	case scan.SkipSpace(w.buf, at+1) == len(w.buf)-1: // no members
		w.buf = append(w.buf[:at], '}')
	case w.buf[at-1] == '{':
		clear(w.ends) // the members move
		w.buf = append(w.buf[:at], w.buf[at+1:]...)
	default:
		w.buf[at] = ','
	}
}

// EndExtra writes the members of x and ends the object, where start is what its Begin returned. It
// omits a member of x whose name the object already has. EndExtra does not compare names if x was
// read with the same members, holds only unknown members and was not changed since. Nil members
// stand for an object without a table.
func (w *Writer) EndExtra(start int, x Extra, members *Members) {
	if x.p != nil && x.p.len() > 0 && w.failure.Err == nil {
		w.extra(start, x.p, x.p.known || x.p.by != members)
	}
	w.buf = append(w.buf, '}')
}

// extra writes the members of x. If known is set, it omits those that the object already has.
func (w *Writer) extra(start int, x *extra, known bool) {
	if text := x.text; !known && len(text) > 0 && x.sum == textSum(text) && scan.OnOneLine(text) {
		if w.buf[len(w.buf)-1] == '{' {
			text = text[1:]
		}
		w.buf = append(w.buf, text...)
		return
	}
	w.names, w.object = w.names[:0], 0
	if known {
		w.lookUpNames(start)
	}
	for name, raw := range x.all {
		before := len(w.buf)
		w.MapKey(name)
		if w.written(bytes.TrimPrefix(w.buf[before:], []byte{','})) {
			w.buf = w.buf[:before]
			continue
		}
		w.Raw(raw)
	}
	if known && len(w.buf)-start > scan.SmallValue {
		if w.ends == nil {
			w.ends = make(map[int]int)
		}
		w.ends[start-1] = len(w.buf) + 1
	}
}

// written reports whether w.names has name, which is given in quotes and with its colon.
func (w *Writer) written(name []byte) bool {
	if w.object != 0 {
		return !w.check.AddName(w.object, name[:len(name)-1])
	}
	for _, n := range w.names {
		if len(name) == len(n)+1 && bytes.HasPrefix(name, n) {
			return true
		}
	}
	return false
}

// lookUpNames puts the names, in quotes, of the object that is being written into w.names. Its
// members start at start.
func (w *Writer) lookUpNames(start int) {
	for i := start; i < len(w.buf); {
		end, _ := scan.SkipString(w.buf, i)
		w.names = append(w.names, w.buf[i:end])
		i = w.after(end+1) + 1 // after the comma
	}
	if len(w.names) > scan.FewNames {
		w.object = w.check.NewObject()
		for _, n := range w.names {
			w.check.AddName(w.object, n)
		}
	}
}

// after returns the offset after the value written at i. It skips nested objects in w.ends, so that
// the bytes of deeply nested objects are not scanned once per level.
func (w *Writer) after(i int) int {
	for depth := 0; i < len(w.buf) && (depth > 0 || w.buf[i] != ','); i++ {
		switch w.buf[i] {
		case '"':
			end, _ := scan.SkipString(w.buf, i)
			i = end - 1
		case '{', '[':
			if end, ok := w.ends[i]; ok {
				i = end - 1
			} else {
				depth++
			}
		case '}', ']':
			depth--
		}
	}
	return i
}

// BeginArray starts an array.
func (w *Writer) BeginArray() { w.buf = append(w.buf, '[') }

// Elem must be called before every element of an array.
func (w *Writer) Elem() { w.comma('[') }

// EndArray ends an array.
func (w *Writer) EndArray() { w.buf = append(w.buf, ']') }

// Null writes null.
func (w *Writer) Null() { w.buf = append(w.buf, "null"...) }

// Bool writes true or false.
func (w *Writer) Bool(b bool) { w.buf = strconv.AppendBool(w.buf, b) }

// Int writes an integer.
func (w *Writer) Int(v int64) {
	if v < 0 || v >= 1e8 {
		w.buf = strconv.AppendInt(w.buf, v, 10)
		return
	}
	var digits [8]byte // faster than strconv for small integers
	i, n := len(digits)-1, uint32(v)
	for ; n >= 10; i-- {
		digits[i] = '0' + byte(n%10)
		n /= 10
	}
	digits[i] = '0' + byte(n)
	w.buf = append(w.buf, digits[i:]...)
}

// Float writes the shortest number that is read back as v, in the form that encoding/json uses. It
// fails with codec.ErrNoValue if v is infinite or not a number.
func (w *Writer) Float(v float64) {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		w.Fail("", jsonfault.Float)
		return
	}
	// As in ECMAScript: an exponent only for very small and very large numbers, and without a
	// leading zero.
	if abs := math.Abs(v); abs == 0 || 1e-6 <= abs && abs < 1e21 {
		w.buf = strconv.AppendFloat(w.buf, v, 'f', -1, 64)
		return
	}
	w.buf = strconv.AppendFloat(w.buf, v, 'e', -1, 64)
	if n := len(w.buf); string(w.buf[n-4:n-1]) == "e-0" {
		w.buf[n-2] = w.buf[n-1]
		w.buf = w.buf[:n-1]
	}
}

// IntExact writes the value of the member name: the text that [Object.Int] kept in x if v is
// unchanged since, and v otherwise.
func (w *Writer) IntExact(v int64, x Extra, name string) {
	if text, ok := x.Number(name); ok {
		if kept, _, ok := scan.ParseInt([]byte(text), false); ok && kept == v {
			w.Lit(text)
			return
		}
	}
	w.Int(v)
}

// FloatExact writes the value of the member name: the text that [Object.Float] kept in x if v is
// unchanged since, and v otherwise.
func (w *Writer) FloatExact(v float64, x Extra, name string) {
	if text, ok := x.Number(name); ok {
		if kept, _ := scan.ParseFloat([]byte(text), false); math.Float64bits(kept) == math.Float64bits(v) {
			w.Lit(text)
			return
		}
	}
	w.Float(v)
}

// Number writes the text of a number as it is. It fails with ErrNoValue if n is empty, and with
// ErrNumber if n is not a JSON number.
func (w *Writer) Number(n string) {
	if n == "" {
		w.Fail("", jsonfault.NoValue)
		return
	}
	text := []byte(n)
	if end, _, err := scan.Number(text, 0); err != nil || end < len(text) {
		w.Fail("", jsonfault.Number)
		return
	}
	w.Lit(n)
}

// Raw writes a raw value, or null if it is empty. It checks the value as codec.Valid does, without
// limits on depth and size. It skips that check if a [Reader] without NoCopy, or codec.Marshal,
// recently made a value with the same text. The offset of a fault in the value counts from the
// start of the output. White space inside it is kept, unless it contains line breaks: then all
// white space is removed.
func (w *Writer) Raw(m json.RawMessage) {
	if len(m) == 0 {
		w.Null()
		return
	}
	w.raw(m)
}

// RawObject is Raw for an object; if m is empty, it writes {}.
func (w *Writer) RawObject(m json.RawMessage) { w.rawKind(m, KindObject, "{}") }

// RawArray is Raw for an array; if m is empty, it writes [].
func (w *Writer) RawArray(m json.RawMessage) { w.rawKind(m, KindArray, "[]") }

func (w *Writer) rawKind(m json.RawMessage, want Kind, empty string) {
	if len(m) == 0 {
		w.Lit(empty)
		return
	}
	if i := scan.SkipSpace(m, 0); i < len(m) {
		if got := kindOf(m[i]); got != want && got != KindInvalid {
			w.Fail("", WrongKind(want.String(), got))
			return
		}
	}
	w.raw(m)
}

func (w *Writer) raw(m []byte) {
	if wasChecked(m) {
		w.line(m)
		return
	}
	end, err := w.check.Value(m, 0, 0)
	if err == nil {
		value := m[scan.SkipSpace(m, 0):end]
		if end = scan.SkipSpace(m, end); end < len(m) {
			err = jsonfault.Trailing
		} else {
			w.line(value)
		}
	}
	if err != nil && w.failure.Err == nil {
		w.Fail("", err)
		w.failure.Offset += end
		w.failure.Pointer += scan.PointerTo(m, end)
	}
}

// line writes a raw value on one line.
func (w *Writer) line(value []byte) {
	if scan.OnOneLine(value) {
		w.buf = append(w.buf, value...)
	} else {
		w.buf = scan.AppendCompact(w.buf, value)
	}
}

// Text writes a string. It escapes only the characters that RFC 8259, section 7 requires: quote,
// backslash and control characters. It fails with codec.ErrSyntax if s is not UTF-8.
func (w *Writer) Text(s string) {
	var ok bool
	if w.buf, ok = scan.AppendText(w.buf, s); !ok {
		w.Fail("", jsonfault.UTF8)
	}
}
