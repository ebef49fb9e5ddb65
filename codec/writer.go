package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// Writer appends JSON text to one byte slice. Its first failure stays, and makes all that was written void.
//
// An object is written like this:
//
//	start := w.Begin()
//	w.KeyText(`,"name":"`, t.Name)
//	w.Key(`,"tags":`)
//	w.Texts(t.Tags)
//	w.End(start, t.Extra)
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
// The text has no line breaks and no white space, other than inside raw values, and is UTF-8. A Writer must not
// be copied.
type Writer struct {
	buf    []byte
	base   int // buf[:base] was there before
	err    *Error
	check  checker
	names  [][]byte    // scratch of End
	object uint32      // the number of their object in check.big, if there are many of them, or 0
	keys   []string    // names in the maps that are being written
	ends   map[int]int // where objects end whose names End has looked up, small ones left out
}

// NewWriter returns a Writer that appends to dst, and owns it from then on.
func NewWriter(dst []byte) *Writer {
	w := new(Writer)
	w.check.maxDepth, w.check.maxString = math.MaxInt, math.MaxInt
	w.Reset(dst)
	return w
}

// Reset makes w append to dst and forget all else.
func (w *Writer) Reset(dst []byte) {
	w.buf, w.base = dst, len(dst)
	w.names = emptied(w.names)
	w.keys = emptied(w.keys)
	if len(w.ends) > keepSlots {
		w.ends = nil
	}
	clear(w.ends)
	w.err = nil
	w.check.reset()
}

// emptied clears s and returns s[:0] for reuse. It returns nil if s has a large capacity, because
// clearing it would take longer than writing most messages.
func emptied[T any](s []T) []T {
	if cap(s) > keepSlots {
		return nil
	}
	clear(s[:cap(s)])
	return s[:0]
}

// Bytes returns dst with all that was written. After a failure it is dst alone. The slice belongs to w until
// Reset.
func (w *Writer) Bytes() []byte {
	if w.err != nil {
		return w.buf[:w.base]
	}
	return w.buf
}

// Err returns the first failure as an [*Error], or nil.
func (w *Writer) Err() error {
	if w.err == nil {
		return nil
	}
	return w.err
}

// Fail records a failure, unless there was one before. It is about the member name of the object being written,
// or, if name is empty, about the value that is due; an [*Error] leads further into that by its Pointer. A nil err
// is none.
func (w *Writer) Fail(name string, err error) {
	if err == nil || w.err != nil {
		return
	}
	// The byte that follows stands for the value that is due.
	out := append(w.buf, '0')[w.base:]
	w.err = newError(out, len(out)-1, err)
	w.err.Pointer = pointerTo(out, len(out)-1)
	w.err.writing = true
	if name != "" {
		w.err.Pointer += "/" + string(escapeToken(nil, []byte(name)))
	}
	if inner, ok := err.(*Error); ok {
		w.err.Pointer += inner.Pointer
		w.err.Err = inner.Err
	}
}

// Lit writes s as it is. It must keep the text well formed.
func (w *Writer) Lit(s string) { w.buf = append(w.buf, s...) }

// LitBytes is Lit for bytes.
func (w *Writer) LitBytes(b []byte) { w.buf = append(w.buf, b...) }

// Begin starts an object. What it returns is for the End that belongs to it.
func (w *Writer) Begin() int {
	w.buf = append(w.buf, '{')
	return len(w.buf)
}

// Key writes the name of a member of the object being written. It is given with comma, quotes and colon, such as
// `,"name":`, and escaped as Text would; in front of the first member the comma is left out.
func (w *Writer) Key(quoted string) {
	if w.buf[len(w.buf)-1] == '{' {
		quoted = quoted[1:]
	}
	w.buf = append(w.buf, quoted...)
}

// KeyText writes the name of a member, as Key does, and a string as its value. The name comes with the quote that
// opens the string, such as `,"name":"`.
func (w *Writer) KeyText(quoted, s string) {
	buf := w.buf
	if buf[len(buf)-1] == '{' {
		quoted = quoted[1:]
	}
	buf = append(buf, quoted...)
	if text, ok := appendPlain(buf, s); ok {
		w.buf = append(text, '"')
		return
	}
	w.buf = buf[:len(buf)-1]
	w.Text(s)
}

// MapKey writes the name of a member, from a map with names that are not known before.
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

// End writes the members of x and ends the object, where start is what its Begin returned. A member of x whose
// name the object has already is left out: what was written counts.
func (w *Writer) End(start int, x Extra) { w.EndOf(start, x, nil) }

// EndOf ends the object like [Writer.End], where members are those of the object's type. It does not
// compare names if x was read with the same members, because then x has none that a field writes.
func (w *Writer) EndOf(start int, x Extra, members *Members) {
	if x.p != nil && x.p.len() > 0 && w.err == nil {
		w.extra(start, x.p, x.p.known || x.p.by != members)
	}
	w.buf = append(w.buf, '}')
}

// extra writes the members of x. If known is set, it leaves out those that the object already has.
func (w *Writer) extra(start int, x *extra, known bool) {
	if text := x.text; !known && len(text) > 0 && x.sum == textSum(text) && onOneLine(text) {
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
	if known && len(w.buf)-start > smallValue {
		if w.ends == nil {
			w.ends = make(map[int]int)
		}
		w.ends[start-1] = len(w.buf) + 1
	}
}

// written reports whether w.names has a name, which is given with its colon.
func (w *Writer) written(name []byte) bool {
	if w.object != 0 {
		return !w.check.big.add(w.object, name[:len(name)-1])
	}
	for _, n := range w.names {
		if len(name) == len(n)+1 && bytes.HasPrefix(name, n) {
			return true
		}
	}
	return false
}

// lookUpNames puts the names, in quotes, of the object that is being written into w.names. Its members start at
// start.
func (w *Writer) lookUpNames(start int) {
	for i := start; i < len(w.buf); {
		end, _ := skipString(w.buf, i)
		w.names = append(w.names, w.buf[i:end])
		i = w.after(end+1) + 1 // behind the comma
	}
	if len(w.names) > fewNames {
		w.object = w.check.newObject()
		for _, n := range w.names {
			w.check.big.add(w.object, n)
		}
	}
}

// after returns the offset after the value that was written at i. What is inside of it has been walked over at most
// once before, or an object inside an object inside an object would be, again and again.
func (w *Writer) after(i int) int {
	for depth := 0; i < len(w.buf) && (depth > 0 || w.buf[i] != ','); i++ {
		switch w.buf[i] {
		case '"':
			end, _ := skipString(w.buf, i)
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

// Elem must be called in front of every element of an array.
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
	var digits [8]byte // most integers are small, and strconv is made for all
	i, n := len(digits)-1, uint32(v)
	for ; n >= 10; i-- {
		digits[i] = '0' + byte(n%10)
		n /= 10
	}
	digits[i] = '0' + byte(n)
	w.buf = append(w.buf, digits[i:]...)
}

// Float writes the shortest number that is read back as v, in the form that encoding/json uses. It fails with
// [ErrFloat] if v is infinite or not a number.
func (w *Writer) Float(v float64) {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		w.Fail("", ErrFloat)
		return
	}
	// As ECMAScript has it: an exponent only for what is very small or very large, and with no leading zero.
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

// IntExact writes the value of the member name: the text that [Reader.IntExact] kept in x, if v is still what it
// returned for that, and v otherwise.
func (w *Writer) IntExact(v int64, x Extra, name string) {
	if text, ok := x.Number(name); ok {
		if kept, _, ok := parseInt([]byte(text), false); ok && kept == v {
			w.Lit(text)
			return
		}
	}
	w.Int(v)
}

// FloatExact writes the value of the member name: the text that [Reader.FloatExact] kept in x, if v is still
// what it returned for that, and v otherwise.
func (w *Writer) FloatExact(v float64, x Extra, name string) {
	if text, ok := x.Number(name); ok {
		if kept, _ := parseFloat([]byte(text), false); math.Float64bits(kept) == math.Float64bits(v) {
			w.Lit(text)
			return
		}
	}
	w.Float(v)
}

// Number writes the text of a number as it is. It fails with [ErrNoValue] if that is empty, and with [ErrNumber]
// if it is no JSON number.
func (w *Writer) Number(n Number) {
	_, _, ok := n.scan()
	switch {
	case n == "":
		w.Fail("", ErrNoValue)
	case !ok:
		w.Fail("", ErrNumber)
	default:
		w.Lit(string(n))
	}
}

// Scalar writes a scalar. It fails with [ErrNoValue] for the zero value.
func (w *Writer) Scalar(s Scalar) {
	switch s.kind {
	case 0:
		w.Fail("", ErrNoValue)
	case ScalarString:
		w.Text(s.text)
	default:
		w.Lit(s.text)
	}
}

// Raw writes a raw value, or null if it is empty. It checks the value as [Valid] does, without limits
// on depth and size. It skips that check if a [Reader] without [NoCopy], or [Marshal], recently made
// a value with the same text. The offset of a fault in the value counts from the start of the output.
// White space inside it is kept, unless it contains line breaks: then all white space is removed.
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
	if i := skipSpace(m, 0); i < len(m) {
		if got := kindOf(m[i]); got != want && got != KindInvalid {
			w.Fail("", &TypeError{Want: want.String(), Got: got})
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
	end, err := w.check.value(m, 0, 0)
	if err == nil {
		value := m[skipSpace(m, 0):end]
		if end = skipSpace(m, end); end < len(m) {
			err = ErrTrailing
		} else {
			w.line(value)
		}
	}
	if err != nil && w.err == nil {
		w.Fail("", err)
		w.err.Offset += int64(end)
		w.err.Column += end
		w.err.Pointer += pointerTo(m, end)
	}
}

// line writes a raw value on one line.
func (w *Writer) line(value []byte) {
	if onOneLine(value) {
		w.buf = append(w.buf, value...)
	} else {
		w.buf = appendCompact(w.buf, value)
	}
}

func onOneLine(value []byte) bool {
	return bytes.IndexByte(value, '\n') < 0 && bytes.IndexByte(value, '\r') < 0
}

// appendCompact appends a raw value without the white space outside its strings.
func appendCompact(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		if isSpace(raw[i]) {
			i++
			continue
		}
		end := i + 1
		if raw[i] == '"' {
			end, _ = skipString(raw, i)
		}
		dst = append(dst, raw[i:end]...)
		i = end
	}
	return dst
}

// Text writes a string. Only what RFC 8259, section 7 demands is escaped: quote, backslash and control
// characters. It fails with [ErrUTF8] if s is not UTF-8.
func (w *Writer) Text(s string) {
	var ok bool
	if w.buf, ok = appendText(w.buf, s); !ok {
		w.Fail("", ErrUTF8)
	}
}

// appendText appends s in quotes; ok is false, and nothing is appended, if s is not UTF-8.
func appendText(dst []byte, s string) (out []byte, ok bool) {
	if out, ok = appendPlain(append(dst, '"'), s); ok {
		return append(out, '"'), true
	}
	beyond := false
	if out, beyond = appendEscaped(append(dst, '"'), s); beyond && !(vectors && len(s) >= longContent && utf8Text(s) || utf8.ValidString(s)) {
		return dst, false
	}
	return append(out, '"'), true
}

// longText is the size from which on looking at a text first and copying it then is faster than both at once.
const longText = 128

// appendPlain appends s, if that is ASCII and has nothing to escape. Otherwise ok is false, and nothing is appended.
func appendPlain(dst []byte, s string) (out []byte, ok bool) {
	n := len(dst)
	if cap(dst)-n < len(s)+8 || len(s) > longText {
		if !isPlain(s) {
			return dst, false
		}
		return append(dst, s...), true
	}
	out = dst[:n+len(s)]
	if len(s) < 8 {
		for i := range len(s) {
			if escapes[s[i]] != 0 || s[i] >= utf8.RuneSelf {
				return dst, false
			}
			out[n+i] = s[i]
		}
		return out, true
	}
	last := load64(s[len(s)-8:])
	if stop(last) != 0 {
		return dst, false
	}
	binary.LittleEndian.PutUint64(out[len(out)-8:], last)
	for to := out[n:]; len(s) > 8 && len(to) > 8; s, to = s[8:], to[8:] {
		x := load64(s[:8])
		binary.LittleEndian.PutUint64(to, x)
		if stop(x) != 0 {
			return dst, false
		}
	}
	return out, true
}

// isPlain reports whether s is written as it is: ASCII, with nothing to escape.
func isPlain(s string) bool {
	i := 0
	if vectors {
		i = plainText(s)
	}
	for ; i+32 <= len(s); i += 32 {
		p := s[i : i+32]
		if stop(load64(p[:8]))|stop(load64(p[8:16]))|stop(load64(p[16:24]))|stop(load64(p[24:])) != 0 {
			return false
		}
	}
	for ; i+8 <= len(s); i += 8 {
		if stop(load64(s[i:i+8])) != 0 {
			return false
		}
	}
	for ; i < len(s); i++ {
		if escapes[s[i]] != 0 || s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// appendEscaped appends s with what must be escaped escaped, and tells whether it has bytes beyond ASCII.
func appendEscaped(dst []byte, s string) (out []byte, beyond bool) {
	var seen uint64 // all bytes, one over the other
	n := len(dst)   // how much of out is text
	out = dst[:cap(dst)]
	for i := 0; ; {
		if len(out)-n < mostOfWord {
			out = append(out[:n], make([]byte, mostOfWord+(len(s)-i)*9/8)...)
			out = out[:cap(out)]
		}
		if vectors && len(s)-i > longText {
			written, read, high := escapeBlocks(out[n:], s[i:], &escapes)
			n, i = n+written, i+read
			if high {
				seen = highs
			}
		}
		for i+8 <= len(s) && n+mostOfWord <= len(out) {
			x := load64(s[i : i+8])
			binary.LittleEndian.PutUint64(out[n:], x) // what is too much will be written over
			seen |= x
			m := special(x)
			if m == 0 {
				i += 8
				n += 8
				continue
			}
			k := bits.TrailingZeros64(m) >> 3
			n += k
			e := escapes[byte(x>>(8*k))]
			binary.LittleEndian.PutUint64(out[n:], e)
			n += int(e >> 56)
			i += k + 1
		}
		switch {
		case i == len(s):
			return out[:n], seen&highs != 0
		case len(out)-n < mostOfWord:
			continue
		}
		seen |= uint64(s[i])
		out[n] = s[i]
		if e := escapes[s[i]]; e != 0 {
			binary.LittleEndian.PutUint64(out[n:], e)
			n += int(e >> 56)
		} else {
			n++
		}
		i++
	}
}

// mostOfWord is how much room a word takes whose last byte is escaped.
const mostOfWord = 8 + 8

// escapes has what stands for each character that must be escaped: its bytes in order, and how many in the topmost
// byte. Whatever else is 0.
var escapes = func() (table [256]uint64) {
	for c := range byte(' ') {
		const hex = "0123456789abcdef"
		table[c] = escape(`\u00` + string(hex[c>>4]) + string(hex[c&15]))
	}
	for c, s := range map[byte]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`} {
		table[c] = escape(s)
	}
	return table
}()

func escape(s string) uint64 {
	var text [8]byte
	copy(text[:], s)
	return binary.LittleEndian.Uint64(text[:]) | uint64(len(s))<<56
}

// load64 is binary.LittleEndian.Uint64 for a string.
func load64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
