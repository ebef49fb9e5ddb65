package codec

import (
	"bytes"
	"encoding/json"
	"math"
)

// Kind is what a JSON value is.
type Kind byte

// The kinds of values. KindInvalid is no value: the text has ended, or no value starts like that.
const (
	KindInvalid Kind = iota
	KindNull
	KindBool
	KindNumber
	KindString
	KindArray
	KindObject
)

// String returns the kind's name, such as "object".
func (k Kind) String() string {
	switch k {
	case KindNull:
		return "null"
	case KindBool:
		return "boolean"
	case KindNumber:
		return "number"
	case KindString:
		return "string"
	case KindArray:
		return "array"
	case KindObject:
		return "object"
	}
	return "invalid"
}

// kindOf returns the kind of the value that starts with c.
func kindOf(c byte) Kind {
	switch c {
	case '{':
		return KindObject
	case '[':
		return KindArray
	case '"':
		return KindString
	case 't', 'f':
		return KindBool
	case 'n':
		return KindNull
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return KindNumber
	}
	return KindInvalid
}

// Reader reads JSON values from one byte slice, front to back. Its first failure stays: afterwards every method
// returns a zero value and consumes nothing, and More returns false.
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
// Every member name must be followed by exactly one call that consumes its value. A Reader must not be copied.
type Reader struct {
	src  []byte // the whole input
	data []byte // src, or empty once reading has failed, so that the hot paths need not ask
	pos  int    // everything in front of it is consumed
	lim  limits

	fresh   bool   // the innermost array or object was entered and More was not called yet
	pooled  bool   // belongs to the pool of Unmarshal
	options bool   // lim is not the default
	frames  []byte // what closes the arrays and objects entered and not yet left

	failure failure
	err     *Error // failure with its place, once somebody asked

	keyAt   int    // where the last member name starts
	keyEnd  int    // its closing quote, if NextKey saw that it is plain, or 0
	scratch []byte // for strings with escapes
	pieces  pieces
	mine    []owned // the Extras made for open objects, innermost last
	check   checker
	peek    peek
	order   order
	lacking [lackingSlots]*extra // cache of extras that hold nothing but missing members

	// Where the New methods put what they read. Texts are never shared between messages: one that stays in use
	// keeps what the others point at.
	texts  []string
	ints   []int64
	floats []float64
	bools  []bool
}

// owned is an extra that the Reader made for an object that is still open. It may be changed in
// place until the Reader leaves the object.
type owned struct {
	extra  *extra
	depth  int    // how many arrays and objects were open
	text   bool   // its text was made by pieces.extend and may be extended
	object uint32 // the number of the object in check.big, or 0
}

// failure is the first thing that went wrong: err is nil as long as nothing has.
type failure struct {
	at  int
	err error
}

// NewReader returns a Reader for data, which must not change while it is being read.
func NewReader(data []byte, opts ...Option) *Reader {
	r := new(Reader)
	r.setOptions(opts)
	r.Reset(data)
	return r
}

func (r *Reader) setOptions(opts []Option) {
	r.options = len(opts) > 0
	r.lim.set(opts)
	r.check.maxDepth, r.check.maxString = r.lim.depth, r.lim.str
}

// Reset makes r read data from its start. The options stay, all else is forgotten, and nothing keeps the former
// input alive.
func (r *Reader) Reset(data []byte) {
	r.forget()
	r.begin(data)
}

// begin starts to read data, after forget.
func (r *Reader) begin(data []byte) {
	r.src, r.data, r.pos = data, data, 0
	r.fresh = false
	r.frames = r.frames[:0]
	r.keyAt, r.keyEnd = 0, 0
	r.pieces.more = 0
	if len(data) > r.lim.size {
		r.fail(r.lim.size, ErrSize)
	} else if len(data) > 0 && data[0] == bom[0] && bytes.HasPrefix(data, bom) {
		r.fail(0, ErrBOM)
	}
}

// forget lets go of the input and of what was made from it.
func (r *Reader) forget() {
	r.src, r.data = nil, nil
	if r.failure.err != nil {
		r.failure, r.err = failure{}, nil
		clear(r.mine) // without letGo: the texts are incomplete, and the caller may be using the extras
		r.mine = r.mine[:0]
	}
	if r.texts != nil {
		r.texts = nil
	}
	r.letGo(-1)
	if cap(r.scratch) > keepScratch {
		r.scratch = nil
	}
	r.check.reset()
	r.peek.reset()
}

// keepScratch is how large a scratch buffer is worth keeping from one message to the next.
const keepScratch = 256 << 10

var bom = []byte("\xEF\xBB\xBF")

// Err returns the first failure as an [*Error], or nil.
func (r *Reader) Err() error {
	if r.failure.err == nil {
		return nil
	}
	if r.err == nil {
		at := r.failure.at
		r.err = newError(r.src, at, r.failure.err)
		if r.failure.err != ErrSize { // else nothing was read, and the path to there may be of any length
			r.err.Pointer = pointerTo(r.src, at)
		}
	}
	return r.err
}

// Failed reports whether there was a failure. Unlike Err it does not work out where.
func (r *Reader) Failed() bool { return r.failure.err != nil }

// Fail records a failure at an offset of the input, such as what Offset returned, unless there was one before.
// A nil err is none.
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

// Offset returns the offset of the next byte that is not white space: where the next value starts, when one is
// due. After a failure it is the offset of that.
func (r *Reader) Offset() int {
	if r.failure.err != nil {
		return r.failure.at
	}
	r.next()
	return r.pos
}

// KeyOffset returns the offset of the member name that Key returned last.
func (r *Reader) KeyOffset() int { return r.keyAt }

// End demands that nothing but white space is left; otherwise it fails with [ErrTrailing].
func (r *Reader) End() {
	r.next()
	if r.pos < len(r.data) {
		r.fail(r.pos, ErrTrailing)
	}
}

// next skips white space and returns the byte after it, which stays, or 0 if the text has ended.
func (r *Reader) next() byte {
	i := r.pos
	for i < len(r.data) {
		c := r.data[i]
		if !isSpace(c) {
			r.pos = i
			return c
		}
		i++
	}
	r.pos = i
	return 0
}

// Kind returns the kind of the next value and consumes nothing but white space. It does not fail: if no value is
// next, it returns KindInvalid, and reading the value fails.
func (r *Reader) Kind() Kind { return kindOf(r.next()) }

// want fails because the next value is not what it should be.
func (r *Reader) want(what string) {
	if kind := r.Kind(); kind != KindInvalid {
		r.fail(r.pos, &TypeError{Want: what, Got: kind})
		return
	}
	r.fail(r.pos, unexpected(r.data, r.pos, "a value"))
}

// Null consumes a null and returns true, if that is next; otherwise it consumes nothing.
func (r *Reader) Null() bool { return r.next() == 'n' && r.literal("null") }

// Bool reads true or false.
func (r *Reader) Bool() bool {
	switch r.next() {
	case 't':
		return r.literal("true")
	case 'f':
		r.literal("false")
	default:
		r.want("boolean")
	}
	return false
}

// literal consumes lit, whose first byte is next.
func (r *Reader) literal(lit string) bool {
	end, err := scanLiteral(r.data, r.pos, lit)
	if err != nil {
		r.fail(end, err)
		return false
	}
	r.pos = end
	return true
}

// Text reads a string.
func (r *Reader) Text() string {
	// The common case first: no white space in front, ASCII without escapes.
	if data, start := r.data, r.pos+1; start <= len(data) && data[start-1] == '"' {
		if end := plain(data, start); end >= 0 && end-start <= r.lim.str {
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

// TextBytes reads a string as Text does, without a copy: the bytes may be looked at until the next call on r, and
// must not be changed. They are nil after a failure only.
func (r *Reader) TextBytes() []byte {
	text, _ := r.content("string")
	return text
}

// TextIs consumes the next value, if it is the string want, written without escapes and without white space in front
// of it, and otherwise nothing.
func (r *Reader) TextIs(want string) bool {
	i := r.pos
	end := i + len(want) + 1
	if end >= len(r.data) || r.data[i] != '"' || r.data[end] != '"' || string(r.data[i+1:end]) != want {
		return false
	}
	r.pos = end + 1
	return true
}

// content consumes a string and returns what it says: a part of the input, or of the scratch buffer if there were
// escapes.
func (r *Reader) content(what string) (text []byte, ok bool) {
	if r.next() != '"' {
		r.want(what)
		return nil, false
	}
	data, start := r.data, r.pos+1
	end, beyond := scanRun(data, start)
	text = data[start:end:end]
	var err error
	switch {
	case end == len(data):
		err = ErrEOF
	case data[end] == '\\':
		rest := false
		r.scratch, end, rest, err = decodeContent(append(r.scratch[:0], text...), data, end)
		text, beyond = r.scratch, beyond || rest
	case data[end] != '"':
		err = ErrControlChar
	}
	if beyond {
		if bad := badUTF8(data[start:end]); bad >= 0 {
			end, err = start+bad, ErrUTF8
		}
	}
	if err == nil && end-start > r.lim.str {
		end, err = start-1, ErrStringSize
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
	r.scratch = appendUnescaped(r.scratch[:0], content)
	return r.scratch
}

// Number reads a number as its exact text.
func (r *Reader) Number() Number {
	text, _, ok := r.number("number")
	if !ok {
		return ""
	}
	return Number(r.pieces.string(text))
}

// Int reads an integer in the sense of JSON Schema: 7, 60000.0 and 6e4 are integers, while 1.5 fails with
// [ErrInteger]. What does not fit becomes the nearest int64, and exact is false. It is also false after a
// failure.
func (r *Reader) Int() (v int64, exact bool) {
	// The common case first: few digits, no white space in front, the end of the value behind.
	if data, i := r.data, r.pos; i < len(data) && data[i]-'1' < 9 {
		for i < len(data) && isDigit(data[i]) && i-r.pos < 18 {
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
	v, exact, ok = parseInt(text, digits)
	if !ok {
		r.fail(r.pos-len(text), ErrInteger)
	}
	return v, exact
}

// Float reads a number as the nearest float64, or the largest of its sign where it is out of range. If the
// shortest decimal for v is not the very number that was read, exact is false. It is also false after a
// failure.
func (r *Reader) Float() (v float64, exact bool) {
	text, digits, ok := r.number("number")
	if !ok {
		return 0, false
	}
	return parseFloat(text, digits)
}

// IntExact is Int for the value of the member name, as returned by Key: where the integer does not fit, x keeps
// its text, for [Writer.IntExact].
func (r *Reader) IntExact(x *Extra, name string) int64 {
	start := r.Offset()
	v, exact := r.Int()
	if !exact && !r.Failed() {
		r.keepNumber(x, name, string(r.data[start:r.pos]))
	}
	return v
}

// FloatExact is Float for the value of the member name, as returned by Key: where the float64 is not exact, x
// keeps its text, for [Writer.FloatExact].
func (r *Reader) FloatExact(x *Extra, name string) float64 {
	start := r.Offset()
	v, exact := r.Float()
	if !exact && !r.Failed() {
		r.keepNumber(x, name, string(r.data[start:r.pos]))
	}
	return v
}

// number consumes a number. The text is part of the input.
func (r *Reader) number(what string) (text []byte, digits, ok bool) {
	if c := r.next(); c != '-' && !isDigit(c) {
		r.want(what)
		return nil, false, false
	}
	start := r.pos
	end, digits, err := scanNumber(r.data, start)
	if err != nil {
		r.fail(end, err)
		return nil, false, false
	}
	r.pos = end
	return r.data[start:end:end], digits, true
}

// Scalar reads a value of one of the allowed kinds. Another kind fails with a [*TypeError], and a number that is
// no integer, where only integers are allowed, with [ErrInteger].
func (r *Reader) Scalar(allow ScalarKind) Scalar {
	switch kind := r.Kind(); {
	case kind == KindString && allow&ScalarString != 0:
		return r.stringScalar()
	case kind == KindBool && allow&ScalarBool != 0:
		return BoolScalar(r.Bool())
	case kind == KindNumber && allow&(ScalarInteger|ScalarNumber) != 0:
		return r.numberScalar(allow)
	}
	r.want(allow.String())
	return Scalar{}
}

func (r *Reader) stringScalar() Scalar {
	text, ok := r.content("string")
	if !ok {
		return Scalar{}
	}
	return Scalar{ScalarString, r.pieces.string(text)}
}

func (r *Reader) numberScalar(allow ScalarKind) Scalar {
	// The common case first: a few digits.
	if data, i := r.data, r.pos; data[i] != '0' {
		for i < len(data) && isDigit(data[i]) {
			i++
		}
		if i > r.pos && i < len(data) && (data[i] == ',' || data[i] == '}') {
			text := data[r.pos:i]
			r.pos = i
			return Scalar{ScalarInteger, r.pieces.string(text)}
		}
	}
	text, digits, ok := r.number("number")
	if !ok {
		return Scalar{}
	}
	from := r.pos - len(text)
	kind := ScalarInteger
	if !digits && !newDecimal(text).integer() {
		kind = ScalarNumber
		if allow&ScalarNumber == 0 {
			r.fail(from, ErrInteger)
			return Scalar{}
		}
	}
	return Scalar{kind, r.pieces.string(text)}
}

// Raw reads any value as checked JSON text, without the white space around it. The text is a copy, or part of
// the input with [NoCopy]; it is nil after a failure only.
func (r *Reader) Raw() json.RawMessage {
	raw := r.RawBytes()
	if raw == nil || r.lim.noCopy {
		return raw
	}
	return r.pieces.raw(raw)
}

// RawBytes is Raw without the copy: the bytes are part of the input, whatever the options are.
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
		r.want("object")
		return nil
	}
	return r.Raw()
}

// RawArray is Raw for an array.
func (r *Reader) RawArray() json.RawMessage {
	if r.next() != '[' {
		r.want("array")
		return nil
	}
	return r.Raw()
}

// Skip consumes any value, and checks it as Raw does.
func (r *Reader) Skip() {
	// The common case first, as in Text.
	if data, start := r.data, r.pos+1; start <= len(data) && data[start-1] == '"' {
		if end := plain(data, start); end >= 0 && end-start <= r.lim.str {
			r.pos = end + 1
			return
		}
	} else if start <= len(data) && data[start-1]-'1' < 9 {
		for start < len(data) && isDigit(data[start]) {
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
	end, err := r.check.value(r.data, r.pos, len(r.frames))
	if err != nil {
		r.fail(end, err)
		return
	}
	r.pos = end
}

// Object enters an object. More and Key lead through it.
func (r *Reader) Object() { r.enter('{', "object") }

// Array enters an array. More leads through it.
func (r *Reader) Array() { r.enter('[', "array") }

func (r *Reader) enter(open byte, what string) {
	if r.next() != open {
		r.want(what)
		return
	}
	n := len(r.frames)
	if n >= r.lim.depth {
		r.fail(r.pos, ErrDepth)
		return
	}
	r.pos++
	r.frames = append(r.frames, open+2)
	r.fresh = true
}

// NextKey goes on to the next member of an object and returns its name, for comparing it with names that the
// decoder knows. If there is no further member, it leaves the object and ok is false. Escapes are decoded, but
// nothing else about the name is checked: what is no known name must be read with Extra or [Put], which look again.
// The bytes may be looked at until the next call on r, and must not be changed.
func (r *Reader) NextKey() (name []byte, ok bool) {
	// The common case first: no white space, and a quote with a colon behind ends the name.
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
			if j := plain(data, i+2); j >= 0 && j+1 < len(data) && data[j+1] == ':' && j-i-2 <= r.lim.str {
				r.fresh = false
				r.keyAt, r.keyEnd, r.pos = i+1, j, j+2
				return data[i+2 : j : j], true
			}
		}
	}
	if !r.More() {
		return nil, false
	}
	return r.KeyBytes(), true
}

// again goes back to the member name that NextKey returned and reads it in full.
func (r *Reader) again() string {
	if r.Failed() {
		return ""
	}
	if r.keyEnd > 0 {
		return r.pieces.string(r.data[r.keyAt+1 : r.keyEnd])
	}
	r.pos = r.keyAt
	return r.pieces.string(r.KeyBytes())
}

// More goes on to the next member or element and reports whether there is one. If there is none, it leaves the
// array or object.
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
	r.fail(r.pos, unexpected(r.data, r.pos, commaOr(r.frames[n])))
	return false
}

// leave leaves the innermost array or object.
func (r *Reader) leave() {
	r.frames = r.frames[:len(r.frames)-1]
	if n := len(r.mine); n > 0 && r.mine[n-1].depth > len(r.frames) {
		r.letGo(len(r.frames))
	}
}

// Key reads the name of the next member and the colon after it. It must follow a More that returned true.
func (r *Reader) Key() string {
	start, end, escaped := r.key()
	if escaped {
		return r.pieces.string(r.unescape(r.data[start:end]))
	}
	return r.pieces.string(r.data[start:end])
}

// KeyBytes reads a member name as Key does, without a copy: the bytes may be looked at until the next call on r,
// and must not be changed.
func (r *Reader) KeyBytes() []byte {
	start, end, escaped := r.key()
	if escaped {
		return r.unescape(r.data[start:end])
	}
	return r.data[start:end:end]
}

// key consumes a member name and its colon. The name stands between start and end; both are 0 after a failure.
func (r *Reader) key() (start, end int, escaped bool) {
	if r.next() != '"' {
		r.fail(r.pos, unexpected(r.data, r.pos, "a member name"))
		return 0, 0, false
	}
	start = r.pos
	end, escaped, err := scanString(r.data, start)
	if err == nil && end-start-2 > r.lim.str {
		end, err = start, ErrStringSize
	}
	if err != nil {
		r.fail(end, err)
		return 0, 0, false
	}
	r.keyAt, r.keyEnd = start, 0
	r.pos = end
	if r.next() != ':' {
		r.fail(r.pos, unexpected(r.data, r.pos, "':'"))
		return 0, 0, false
	}
	r.pos++
	return start + 1, end - 1, escaped
}

// Duplicate fails with [ErrDuplicate] at the member name that Key returned last. It is for decoders, which see
// repeated names of the members they know.
func (r *Reader) Duplicate(key string) { r.fail(r.keyAt, ErrDuplicate) }

// Extra reads the value of the member whose name NextKey returned last and which the type does not know, and keeps
// it in x. It fails with [ErrDuplicate] if this object has put that name into an Extra before.
func (r *Reader) Extra(x *Extra) {
	start, end := r.keyAt, r.keyEnd
	if end == 0 || r.lim.noCopy || r.Failed() {
		r.keep(x, r.again())
		return
	}
	// The common case: a name without escapes. The member is copied behind those that came before, nearly always just
	// as it is, comma included.
	name := r.data[start+1 : end]
	if repeated(r, x, name) {
		r.fail(start, ErrDuplicate)
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
	if r.pos-len(raw) > end+2 { // white space behind the colon
		r.scratch = append(append(r.scratch[:0], r.data[start-1:end+2]...), raw...)
		text = r.scratch
	}
	e.text, o.text = r.pieces.extend(e.text, o.text, text), true
	e.text[from] = ',' // not a brace, or white space
	e.spans = append(e.spans, span{uint32(len(e.text) - len(raw)), uint32(len(e.text))})
	if len(r.frames) == 0 {
		r.letGo(-1)
	}
}

// Keep reads the value of the member name, whose name was read last, and keeps it in x: for a member that the type
// knows and whose value it cannot hold, such as an unexpected null or a constant with another value. See
// [Writer.End] for how it is written again.
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
		r.fail(r.keyAt, ErrDuplicate)
		return
	}
	if raw := r.Raw(); raw != nil {
		e := r.change(x).extra
		e.unpack()
		if e.members == nil {
			e.members = make([]member, 0, 6) // where there is one, there are more
		}
		e.members = append(e.members, member{name, raw})
	}
}

// keepNumber keeps the text of a number that a field cannot hold exactly.
func (r *Reader) keepNumber(x *Extra, name, text string) {
	e := r.change(x).extra
	e.numbers = append(e.numbers, numberText{name, text})
}

// change returns the contents of x for changing in place. It copies them first, unless this Reader
// made them for the object it is in: they may be shared with other copies of x. The result is valid
// until the next call.
func (r *Reader) change(x *Extra) *owned {
	depth := len(r.frames)
	if o := r.owned(x); o != nil && depth > 0 {
		return o
	}
	r.letGo(depth - 1)
	x.p = x.p.clone()
	r.mine = append(r.mine, owned{extra: x.p, depth: depth})
	return &r.mine[len(r.mine)-1]
}

// owned returns the entry of x in r.mine if x belongs to the current object, or nil.
func (r *Reader) owned(x *Extra) *owned {
	if n := len(r.mine); n > 0 && r.mine[n-1].extra == x.p && r.mine[n-1].depth == len(r.frames) {
		return &r.mine[n-1]
	}
	return nil
}

// letGo removes the Extras of objects deeper than depth from r.mine, and sets the sums of their
// texts. They are not changed in place any more.
func (r *Reader) letGo(depth int) {
	n := len(r.mine)
	for n > 0 && r.mine[n-1].depth > depth {
		n--
		if o := &r.mine[n]; o.text {
			o.extra.sum = textSum(o.extra.text)
		}
	}
	clear(r.mine[n:])
	r.mine = r.mine[:n]
}

// repeated reports whether x has a member with that name. If there are many, it asks the set of names instead of looking
// through them, so that a decode stays linear.
func repeated[T string | []byte](r *Reader, x *Extra, name T) bool {
	if x.Len() < fewNames || len(r.frames) == 0 {
		return x.p != nil && findIn(x.p, name) >= 0
	}
	o := r.change(x)
	if o.object == 0 {
		o.object = r.check.newObject()
		for name := range o.extra.all {
			r.check.big.add(o.object, []byte(name))
		}
	}
	return !r.check.big.add(o.object, []byte(name))
}

// Mark is a place in the input to go back to.
type Mark struct {
	pos     int
	depth   int
	fresh   bool
	failure failure
}

// Mark returns the present place. It is good until the array or object it is in ends, or Reset.
func (r *Reader) Mark() Mark { return Mark{r.pos, len(r.frames), r.fresh, r.failure} }

// Rewind goes back to m and forgets a failure since. What was put into an [Extra] since stays there.
func (r *Reader) Rewind(m Mark) {
	if m.failure.err != nil {
		return
	}
	r.data, r.pos, r.fresh = r.src, m.pos, m.fresh
	r.frames = r.frames[:m.depth]
	r.letGo(m.depth)
	r.failure, r.err = failure{}, nil
}
