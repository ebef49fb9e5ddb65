package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"reflect"
	"strconv"

	"github.com/mcpwire/mcpwire/codec/internal/scan"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// Reader reads JSON values from one byte slice, front to back. The first failure is final:
// afterwards every method returns a zero value and consumes nothing, and More returns false.
//
// An object is read like this, and an array with Array and More:
//
//	r.Object()
//	for name, ok := r.NextKey(); ok; name, ok = r.NextKey() {
//		switch string(name) {
//		case "name":
//			t.Name = r.Text()
//		default:
//			r.Extra(&t.Extra)
//		}
//	}
//
// Every member name must be followed by exactly one call that consumes its value. A Reader must not
// be copied.
type Reader struct {
	src    []byte // the whole text
	data   []byte // src, or empty after a failure, so that the fast paths need no check of their own
	pos    int    // everything before it is consumed
	limits Limits
	memory int    // bytes that the decoded value may still take; see memoryPerByte
	fresh  bool   // the innermost array or object was entered and More was not called yet
	frames []byte // the closing bytes of the open arrays and objects

	failure failure
	key     keyPlace
	scratch []byte // for strings with escapes
	pieces  pieces
	slabs   slabs
	extras  extras
	order   order
	check   scan.Checker
	ahead   scan.Ahead
}

// keyPlace is the position of the last member name in the text.
type keyPlace struct {
	start int
	end   int // the closing quote if NextKey found no escapes, or 0
}

// extras are the [Extra] values that the Reader is working on.
type extras struct {
	open    []owned              // those made for open objects, innermost last
	missing [missingSlots]*extra // cache of extras that record only missing members
}

// owned is an extra that the Reader made for an object that is still open. It may be changed in
// place until the Reader leaves the object.
type owned struct {
	extra  *extra
	depth  int    // how many arrays and objects were open
	text   bool   // its text was made by pieces.extend and may be extended
	object uint32 // the number of the object in check.big, or 0
}

// failure is the first failure; err is nil if there was none.
type failure struct {
	at  int
	err error
}

// NewReader returns a Reader for data; see [Reader.Reset].
func NewReader(data []byte, limits Limits) *Reader {
	r := new(Reader)
	r.Reset(data, limits)
	return r
}

func (r *Reader) setLimits(l Limits) {
	r.limits = l.orDefault()
	r.check.MaxDepth, r.check.MaxString = r.limits.Depth, r.limits.String
	r.ahead.MaxDepth = r.limits.Depth
}

// Reset makes r read data from the start within limits, and discards all other state. The data must
// not change while it is being read.
func (r *Reader) Reset(data []byte, limits Limits) {
	if r.src != nil || r.failure.err != nil {
		r.Forget()
	}
	if limits.orDefault() != r.limits {
		r.setLimits(limits)
	}
	r.begin(data)
}

// begin starts to read data, after Forget.
func (r *Reader) begin(data []byte) {
	r.src, r.data, r.pos = data, data, 0
	r.memory = freeMemory + memoryPerByte*len(data)
	r.fresh = false
	r.frames = r.frames[:0]
	r.key = keyPlace{}
	r.pieces.more = 0
	if len(data) > r.limits.Size {
		r.fail(r.limits.Size, jsonfault.Size)
	} else if len(data) > 0 && data[0] == bom[0] && bytes.HasPrefix(data, bom) {
		r.fail(0, jsonfault.BOM)
	}
}

// Forget releases the text and everything decoded from it, so that an unused Reader does not keep
// them in memory. Reset includes Forget.
func (r *Reader) Forget() {
	r.src, r.data = nil, nil
	if r.failure.err != nil {
		r.failure = failure{}
		clear(r.extras.open) // without closeExtras: the texts are incomplete, and the caller may be using the extras
		r.extras.open = r.extras.open[:0]
	}
	if r.slabs.texts != nil {
		r.slabs.texts = nil
	}
	if len(r.extras.open) > 0 {
		r.closeExtras(-1)
	}
	if cap(r.scratch) > scan.KeepScratch {
		r.scratch = nil
	}
	r.check.Reset()
	r.ahead.Reset()
}

var bom = []byte("\xEF\xBB\xBF")

// Failure returns the offset and the cause of the first failure; err is nil if there was none.
func (r *Reader) Failure() (offset int, err error) { return r.failure.at, r.failure.err }

// Failed reports whether there was a failure.
func (r *Reader) Failed() bool { return r.failure.err != nil }

// Fail records a failure at an offset of the input, such as what Offset returned, unless there was
// one before. It ignores a nil err.
func (r *Reader) Fail(offset int, err error) {
	if err != nil {
		r.fail(offset, err)
	}
}

func (r *Reader) fail(at int, err error) {
	if r.failure.err != nil {
		return
	}
	r.failure = failure{at, err}
	r.data, r.pos = nil, 0
}

// take counts n bytes that the decoded value takes. If it takes too many, the next array or object
// fails.
func (r *Reader) take(n int) { r.memory -= n }

// sizeOf returns the size of a value of type T in bytes.
func sizeOf[T any]() int { return int(reflect.TypeFor[T]().Size()) }

// Offset returns the offset of the next byte that is not white space: the start of the next value.
// After a failure it returns the offset of the failure.
func (r *Reader) Offset() int {
	if r.failure.err != nil {
		return r.failure.at
	}
	r.next()
	return r.pos
}

// KeyOffset returns the offset of the member name that Key returned last.
func (r *Reader) KeyOffset() int { return r.key.start }

// End fails with ErrTrailing unless only white space is left.
func (r *Reader) End() {
	r.next()
	if r.pos < len(r.data) {
		r.fail(r.pos, jsonfault.Trailing)
	}
}

// next skips white space and returns the byte after it without consuming it, or 0 at the end of the
// text.
func (r *Reader) next() byte {
	i := r.pos
	for i < len(r.data) {
		c := r.data[i]
		if !scan.IsSpace(c) {
			r.pos = i
			return c
		}
		i++
	}
	r.pos = i
	return 0
}

// Kind returns the kind of the next value and consumes nothing but white space. It does not fail:
// if the next byte cannot start a value, it returns KindInvalid, and reading the value fails.
func (r *Reader) Kind() Kind { return kindOf(r.next()) }

// failKind fails because the next value is of the wrong kind or missing.
func (r *Reader) failKind(what string) {
	if kind := r.Kind(); kind != KindInvalid {
		r.fail(r.pos, WrongKind(what, kind))
		return
	}
	r.fail(r.pos, scan.Unexpected(r.data, r.pos, "a value"))
}

// Null returns true and consumes the next value if that is null. Otherwise it consumes nothing.
func (r *Reader) Null() bool { return r.next() == 'n' && r.literal("null") }

// Bool reads true or false.
func (r *Reader) Bool() bool {
	switch r.next() {
	case 't':
		return r.literal("true")
	case 'f':
		r.literal("false")
	default:
		r.failKind("boolean")
	}
	return false
}

// literal consumes lit. The next byte must be the first byte of lit.
func (r *Reader) literal(lit string) bool {
	end, err := scan.Literal(r.data, r.pos, lit)
	if err != nil {
		r.fail(end, err)
		return false
	}
	r.pos = end
	return true
}

// Text reads a string.
func (r *Reader) Text() string {
	// Fast path: ASCII without escapes, and no white space before it.
	if data, start := r.data, r.pos+1; start <= len(data) && data[start-1] == '"' {
		if end := scan.Plain(data, start); end >= 0 && end-start <= r.limits.String {
			r.pos = end + 1
			return r.pieces.string(data[start:end])
		}
	}
	return r.text()
}

func (r *Reader) text() string {
	text, ok := r.content("string")
	if !ok {
		return ""
	}
	return r.pieces.string(text)
}

// TextBytes reads a string like Text, without a copy. The bytes are valid until the next call on r
// and must not be changed. They are nil only after a failure.
func (r *Reader) TextBytes() []byte {
	text, _ := r.content("string")
	return text
}

// TextIs returns true and consumes the next value if it is the string want, written without escapes
// and without white space before it. Otherwise it consumes nothing.
func (r *Reader) TextIs(want string) bool {
	i := r.pos
	end := i + len(want) + 1
	if end >= len(r.data) || r.data[i] != '"' || r.data[end] != '"' || string(r.data[i+1:end]) != want {
		return false
	}
	r.pos = end + 1
	return true
}

// content consumes a string and returns its decoded content: a part of the input, or of the scratch
// buffer if the string has escapes.
func (r *Reader) content(what string) (text []byte, ok bool) {
	if r.next() != '"' {
		r.failKind(what)
		return nil, false
	}
	data, start := r.data, r.pos+1
	end, beyond := scan.Run(data, start)
	text = data[start:end:end]
	var err error
	switch {
	case end == len(data):
		err = jsonfault.EOF
	case data[end] == '\\':
		rest := false
		r.scratch, end, rest, err = scan.DecodeContent(append(r.scratch[:0], text...), data, end)
		text, beyond = r.scratch, beyond || rest
	case data[end] != '"':
		err = jsonfault.ControlChar
	}
	if beyond {
		if bad := scan.BadUTF8(data[start:end]); bad >= 0 {
			end, err = start+bad, jsonfault.UTF8
		}
	}
	if err == nil && end-start > r.limits.String {
		end, err = start-1, jsonfault.StringSize
	}
	if err != nil {
		r.fail(end, err)
		return nil, false
	}
	r.pos = end + 1
	return text, true
}

// unescape decodes string content into the scratch buffer.
func (r *Reader) unescape(content []byte) []byte {
	r.scratch = scan.AppendUnescaped(r.scratch[:0], content)
	return r.scratch
}

// Number reads a number as its exact text.
func (r *Reader) Number() string {
	text, _, ok := r.number("number")
	if !ok {
		return ""
	}
	return r.pieces.string(text)
}

// Int reads an integer in the sense of JSON Schema: 7, 60000.0 and 6e4 are integers, while 1.5
// fails with codec.ErrType. If the integer does not fit, v is the nearest int64 and exact is
// false. After a failure exact is false, too.
func (r *Reader) Int() (v int64, exact bool) {
	// Fast path: few digits without white space, followed by a comma or a brace.
	if data, i := r.data, r.pos; i < len(data) && data[i]-'1' < 9 {
		for i < len(data) && scan.IsDigit(data[i]) && i-r.pos < 18 {
			v = v*10 + int64(data[i]-'0')
			i++
		}
		if i < len(data) && (data[i] == ',' || data[i] == '}') {
			r.pos = i
			return v, true
		}
	}
	text, digits, ok := r.number("integer")
	if !ok {
		return 0, false
	}
	v, exact, ok = scan.ParseInt(text, digits)
	if !ok {
		r.fail(r.pos-len(text), jsonfault.Integer)
	}
	return v, exact
}

// Float reads a number as the nearest float64, or as the largest float64 of its sign if it is out
// of range. exact reports whether the shortest decimal of v equals the number read; it is false
// after a failure.
func (r *Reader) Float() (v float64, exact bool) {
	text, digits, ok := r.number("number")
	if !ok {
		return 0, false
	}
	return scan.ParseFloat(text, digits)
}

// number consumes a number. The text is part of the input.
func (r *Reader) number(what string) (text []byte, digits, ok bool) {
	if c := r.next(); c != '-' && !scan.IsDigit(c) {
		r.failKind(what)
		return nil, false, false
	}
	start := r.pos
	end, digits, err := scan.Number(r.data, start)
	if err != nil {
		r.fail(end, err)
		return nil, false, false
	}
	r.pos = end
	return r.data[start:end:end], digits, true
}

// Scalar reads a string, a number or a boolean of one of the allowed kinds. It returns the kind,
// and the content of the string or the JSON text of the number or boolean. Another kind fails with
// codec.ErrType. If only integers are allowed, so does another number.
func (r *Reader) Scalar(allow ScalarKind) (kind ScalarKind, text string) {
	switch kind := r.Kind(); {
	case kind == KindString && allow&ScalarString != 0:
		if text, ok := r.content("string"); ok {
			return ScalarString, r.pieces.string(text)
		}
		return 0, ""
	case kind == KindBool && allow&ScalarBool != 0:
		return ScalarBool, strconv.FormatBool(r.Bool())
	case kind == KindNumber && allow&(ScalarInteger|ScalarNumber) != 0:
		return r.numberScalar(allow)
	}
	r.failKind(allow.String())
	return 0, ""
}

func (r *Reader) numberScalar(allow ScalarKind) (kind ScalarKind, text string) {
	// Fast path: a few digits.
	if data, i := r.data, r.pos; data[i] != '0' {
		for i < len(data) && scan.IsDigit(data[i]) {
			i++
		}
		if i > r.pos && i < len(data) && (data[i] == ',' || data[i] == '}') {
			text := data[r.pos:i]
			r.pos = i
			return ScalarInteger, r.pieces.string(text)
		}
	}
	number, digits, ok := r.number("number")
	if !ok {
		return 0, ""
	}
	kind = ScalarInteger
	if !scan.IsInteger(number, digits) {
		kind = ScalarNumber
		if allow&ScalarNumber == 0 {
			r.fail(r.pos-len(number), jsonfault.Integer)
			return 0, ""
		}
	}
	return kind, r.pieces.string(number)
}

// Raw reads any value as checked JSON text, without the white space around it. The text is a copy,
// or part of the input if [Limits].NoCopy is set. It is nil only after a failure.
func (r *Reader) Raw() json.RawMessage {
	raw := r.RawBytes()
	if raw == nil || r.limits.NoCopy {
		return raw
	}
	return r.pieces.raw(raw)
}

// RawBytes is Raw without the copy: the bytes are always part of the input.
func (r *Reader) RawBytes() []byte {
	r.next()
	start := r.pos
	r.Skip()
	if r.Failed() {
		return nil
	}
	return r.data[start:r.pos:r.pos]
}

// RawObject is Raw for an object.
func (r *Reader) RawObject() json.RawMessage {
	if r.next() != '{' {
		r.failKind("object")
		return nil
	}
	return r.Raw()
}

// RawArray is Raw for an array.
func (r *Reader) RawArray() json.RawMessage {
	if r.next() != '[' {
		r.failKind("array")
		return nil
	}
	return r.Raw()
}

// Skip consumes any value and checks it like Raw.
func (r *Reader) Skip() {
	// Fast path, as in Text.
	if data, start := r.data, r.pos+1; start <= len(data) && data[start-1] == '"' {
		if end := scan.Plain(data, start); end >= 0 && end-start <= r.limits.String {
			r.pos = end + 1
			return
		}
	} else if start <= len(data) && data[start-1]-'1' < 9 {
		for start < len(data) && scan.IsDigit(data[start]) {
			start++
		}
		if start < len(data) && (data[start] == ',' || data[start] == '}') {
			r.pos = start
			return
		}
	}
	if r.Failed() {
		return
	}
	end, err := r.check.Value(r.data, r.pos, len(r.frames))
	if err != nil {
		r.fail(end, err)
		return
	}
	r.pos = end
}

// Object enters an object. Read its members with More and Key, or with NextKey.
func (r *Reader) Object() { r.enter('{', "object") }

// Array enters an array. Read its elements with More.
func (r *Reader) Array() { r.enter('[', "array") }

func (r *Reader) enter(open byte, what string) {
	if r.next() != open {
		r.failKind(what)
		return
	}
	n := len(r.frames)
	switch {
	case n >= r.limits.Depth:
		r.fail(r.pos, jsonfault.Depth)
		return
	case r.memory < 0:
		r.fail(r.pos, jsonfault.Memory)
		return
	}
	r.pos++
	r.frames = append(r.frames, open+2)
	r.fresh = true
}

// NextKey advances to the next member of an object and returns its name, to compare with the names
// that the decoder knows. If there is no further member, it leaves the object and ok is false.
// Escapes are decoded, but the name is not checked further: the value of an unknown name must be
// read with Extra or [Put], which check it. The bytes are valid until the next call on r and must
// not be changed.
func (r *Reader) NextKey() (name []byte, ok bool) {
	// Fast path: no white space and no escapes.
	data, i := r.data, r.pos
	if i+1 < len(data) {
		switch {
		case r.fresh:
			i--
		case data[i] == '}' && len(r.frames) > 0:
			r.pos++
			r.leave()
			return nil, false
		case data[i] != ',':
			i = len(data)
		}
		if i+1 < len(data) && data[i+1] == '"' {
			if j := scan.Plain(data, i+2); j >= 0 && j+1 < len(data) && data[j+1] == ':' && j-i-2 <= r.limits.String {
				r.fresh = false
				r.key, r.pos = keyPlace{i + 1, j}, j+2
				return data[i+2 : j : j], true
			}
		}
	}
	if !r.More() {
		return nil, false
	}
	return r.KeyBytes(), true
}

// lastKey rewinds to the member name that NextKey returned, and reads and checks it.
func (r *Reader) lastKey() string {
	if r.Failed() {
		return ""
	}
	if r.key.end > 0 {
		return r.pieces.string(r.data[r.key.start+1 : r.key.end])
	}
	r.pos = r.key.start
	return r.pieces.string(r.KeyBytes())
}

// More advances to the next member or element and returns true. If there is none, it leaves the
// array or object and returns false.
func (r *Reader) More() bool {
	c := r.next()
	n := len(r.frames) - 1
	if n < 0 || r.Failed() {
		return false
	}
	fresh := r.fresh
	r.fresh = false
	switch {
	case c == r.frames[n]:
		r.pos++
		r.leave()
		return false
	case fresh && r.pos < len(r.data):
		return true
	case !fresh && c == ',':
		r.pos++
		if r.next(); r.pos < len(r.data) {
			return true
		}
	}
	r.fail(r.pos, scan.Unexpected(r.data, r.pos, scan.CommaOr(r.frames[n])))
	return false
}

// leave leaves the innermost array or object.
func (r *Reader) leave() {
	r.frames = r.frames[:len(r.frames)-1]
	if n := len(r.extras.open); n > 0 && r.extras.open[n-1].depth > len(r.frames) {
		r.closeExtras(len(r.frames))
	}
}

// Key reads the name of the next member and the colon after it. It must follow a More that returned
// true.
func (r *Reader) Key() string {
	start, end, escaped := r.name()
	if escaped {
		return r.pieces.string(r.unescape(r.data[start:end]))
	}
	return r.pieces.string(r.data[start:end])
}

// KeyBytes reads a member name like Key, without a copy. The bytes are valid until the next call on
// r and must not be changed.
func (r *Reader) KeyBytes() []byte {
	start, end, escaped := r.name()
	if escaped {
		return r.unescape(r.data[start:end])
	}
	return r.data[start:end:end]
}

// name consumes a member name and its colon. The name is data[start:end]; both are 0 after a
// failure.
func (r *Reader) name() (start, end int, escaped bool) {
	if r.next() != '"' {
		r.fail(r.pos, scan.Unexpected(r.data, r.pos, "a member name"))
		return 0, 0, false
	}
	start = r.pos
	end, escaped, err := scan.String(r.data, start)
	if err == nil && end-start-2 > r.limits.String {
		end, err = start, jsonfault.StringSize
	}
	if err != nil {
		r.fail(end, err)
		return 0, 0, false
	}
	r.key = keyPlace{start: start}
	r.pos = end
	if r.next() != ':' {
		r.fail(r.pos, scan.Unexpected(r.data, r.pos, "':'"))
		return 0, 0, false
	}
	r.pos++
	return start + 1, end - 1, escaped
}

// FailDuplicate fails with ErrDuplicate at the member name that Key returned last.
func (r *Reader) FailDuplicate() { r.fail(r.key.start, jsonfault.Duplicate) }

// Extra reads the value of the unknown member whose name NextKey returned last, and stores it in x.
// It fails with ErrDuplicate if x has that name already.
func (r *Reader) Extra(x *Extra) {
	start, end := r.key.start, r.key.end
	if end == 0 || r.limits.NoCopy || r.Failed() {
		r.keep(x, r.lastKey())
		return
	}
	// The name has no escapes. Append the member to the text of the earlier ones, comma included.
	name := r.data[start+1 : end]
	if repeated(r, x, name) {
		r.fail(start, jsonfault.Duplicate)
		return
	}
	raw := r.RawBytes()
	if raw == nil {
		return
	}
	o := r.change(x)
	e := o.extra
	if len(e.members) > 0 || len(e.text)+len(name)+len(raw) > math.MaxInt32-4 {
		e.unpack()
		e.members = append(e.members, member{r.pieces.string(name), r.pieces.raw(raw)})
		return
	}
	if e.spans == nil {
		e.spans = e.few[:0]
	}
	from, text := len(e.text), r.data[start-1:r.pos]
	if r.pos-len(raw) > end+2 { // white space after the colon
		r.scratch = append(append(r.scratch[:0], r.data[start-1:end+2]...), raw...)
		text = r.scratch
	}
	e.text, o.text = r.pieces.extend(e.text, o.text, text), true
	e.text[from] = ',' // it may be a brace or white space
	e.spans = append(e.spans, span{uint32(len(e.text) - len(raw)), uint32(len(e.text))})
	if len(r.frames) == 0 {
		r.closeExtras(-1)
	}
}

// Keep reads the value of the member whose name was read last, and stores it in x under name. It is
// for a known member whose field cannot hold the value, such as an unexpected null. See
// [Writer.EndExtra] for how it is written again.
func (r *Reader) Keep(x *Extra, name string) {
	r.keep(x, name)
	if !r.Failed() {
		x.p.known = true // keep has made it this Reader's own
	}
}

func (r *Reader) keep(x *Extra, name string) {
	if r.Failed() {
		return
	}
	if repeated(r, x, name) {
		r.fail(r.key.start, jsonfault.Duplicate)
		return
	}
	if raw := r.Raw(); raw != nil {
		e := r.change(x).extra
		e.unpack()
		if e.members == nil {
			e.members = make([]member, 0, 6) // most objects with one such member have more
		}
		e.members = append(e.members, member{name, raw})
	}
}

// keepNumber keeps the text of a number that a field cannot hold exactly.
func (r *Reader) keepNumber(x *Extra, name, text string) {
	e := r.change(x).extra
	e.numbers = append(e.numbers, numberText{name, text})
}

// change returns the contents of x, which may then be changed in place. It copies them first unless
// this Reader made them for the current object, because copies of x may share them. The result is
// valid until the next call.
func (r *Reader) change(x *Extra) *owned {
	depth := len(r.frames)
	if o := r.owned(x); o != nil && depth > 0 {
		return o
	}
	r.closeExtras(depth - 1)
	r.take(extraSize)
	x.p = x.p.clone()
	r.extras.open = append(r.extras.open, owned{extra: x.p, depth: depth})
	return &r.extras.open[len(r.extras.open)-1]
}

// owned returns the entry of x in r.extras.open if x belongs to the current object, or nil.
func (r *Reader) owned(x *Extra) *owned {
	if n := len(r.extras.open); n > 0 && r.extras.open[n-1].extra == x.p && r.extras.open[n-1].depth == len(r.frames) {
		return &r.extras.open[n-1]
	}
	return nil
}

// closeExtras removes the Extras of objects deeper than depth from r.extras.open, and sets the sums
// of their texts. After that, nothing changes them in place.
func (r *Reader) closeExtras(depth int) {
	n := len(r.extras.open)
	for n > 0 && r.extras.open[n-1].depth > depth {
		n--
		if o := &r.extras.open[n]; o.text {
			o.extra.sum = textSum(o.extra.text)
		}
	}
	clear(r.extras.open[n:])
	r.extras.open = r.extras.open[:n]
}

// repeated reports whether x has a member with that name. For many members it uses a set of names,
// so that decoding takes linear time.
func repeated[T string | []byte](r *Reader, x *Extra, name T) bool {
	if x.Len() < scan.FewNames || len(r.frames) == 0 {
		return x.p != nil && findIn(x.p, name) >= 0
	}
	o := r.change(x)
	if o.object == 0 {
		o.object = r.check.NewObject()
		for name := range o.extra.all {
			r.check.AddName(o.object, []byte(name))
		}
	}
	return !r.check.AddName(o.object, []byte(name))
}

// Checkpoint is a position in the input for [Reader.Rewind].
type Checkpoint struct {
	pos     int
	depth   int
	fresh   bool
	failure failure
	memory  int // 0 leaves the count as it is
}

// Checkpoint returns the current position. It is valid until the Reader leaves the array or object
// around it, or until Reset.
func (r *Reader) Checkpoint() Checkpoint {
	return Checkpoint{r.pos, len(r.frames), r.fresh, r.failure, r.memory}
}

// Rewind returns to m and clears a failure that happened since. Members stored in an [Extra] since
// stay there.
func (r *Reader) Rewind(m Checkpoint) {
	if m.failure.err != nil {
		return
	}
	r.data, r.pos, r.fresh = r.src, m.pos, m.fresh
	r.frames = r.frames[:m.depth]
	r.closeExtras(m.depth)
	r.memory = cmp.Or(m.memory, r.memory)
	r.failure = failure{}
}
