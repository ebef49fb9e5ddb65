package wire

import (
	"strings"

	"github.com/mcpwire/mcpwire/codec/internal/scan"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// Members is the table of the members that a type knows: at most 64, the required ones first. It
// must not be changed.
type Members struct {
	Names []string // as JSON text with quotes and colon, such as `"name":`
	Null  uint64   // bit i is set if the field of Names[i] can hold null
	ID    uint     // differs between the types of a package; it only affects speed
}

// Object reads one object of a type that knows its members. Like the Reader, it stops at the first
// failure: Next then returns a negative number.
type Object struct {
	r       *Reader
	extra   *Extra
	members *Members
	last    int    // the index of the last member read, plus one
	seen    uint64 // bit i is set if the i-th member was read
	absent  uint64 // bit i is set if the i-th member was read but left its field unset
	at      int    // the offset of the last member's value, or of the white space before it
	depth   int    // the number of open arrays and objects
}

// Enter enters an object whose type knows members. The Object stores in x the members that have no
// field and the values that do not fit theirs.
func (r *Reader) Enter(members *Members, x *Extra) Object {
	r.Object()
	return Object{r: r, extra: x, members: members, depth: len(r.frames)}
}

// Require records which of the first n members are missing or left their fields unset; see
// [Extra.Absent].
func (o *Object) Require(n int) {
	mask := uint64(1)<<n - 1
	if missing := (^o.seen | o.absent) & mask; missing != 0 {
		o.r.recordMissing(o.members, o.extra, missing)
	}
}

// missingSlots is the number of extras in the cache that [Reader.recordMissing] uses.
const missingSlots = 16

// recordMissing records in x that members are missing. Objects with the same missing members share
// one extra from a cache, because an extra may take more memory than the text of such an object.
func (r *Reader) recordMissing(members *Members, x *Extra, missing uint64) {
	if x.p != nil {
		x.SetAbsent(missing)
		return
	}
	slot := &r.extras.missing[(uint64(members.ID)^missing*0x9E3779B97F4A7C15>>60)%missingSlots]
	if *slot == nil || (*slot).by != members || (*slot).absent != missing {
		r.take(extraSize)
		*slot = &extra{by: members, absent: missing}
	}
	x.p = *slot
}

// Next advances to the next member and returns the index of its name, whose value must then be
// read. For a name that the type does not know it returns len(Names): the value must be read with
// [Object.Extra]. If there is no further member, Next leaves the object and returns a negative
// number. A null whose field cannot hold one is stored in the Extra and skipped. A repeated name
// fails with ErrDuplicate.
func (o *Object) Next() int {
	r := o.r
	for {
		i := int(*r.order.after(o))
		if i >= len(o.members.Names) || !r.has(o.members.Names[i]) {
			if x := o.extra; x.p != nil && x.p.by != o.members && r.owned(x) != nil {
				x.p.by = o.members
			}
			name, ok := r.NextKey()
			if !ok {
				return -1
			}
			if i = o.find(name); i == len(o.members.Names) {
				o.last = i + 1
				return i
			}
			*r.order.after(o) = uint8(i)
		}
		o.last, o.at = i+1, r.pos
		// Fast path: the first value of this member, not null and without white space before it.
		if b := uint64(1) << i; o.seen&b == 0 && r.pos < len(r.data) && r.data[r.pos] > ' ' && r.data[r.pos] != 'n' {
			o.seen |= b
			return i
		}
		if o.take(i) {
			return i
		}
	}
}

// Has reports whether the i-th member was read.
func (o *Object) Has(i int) bool { return o.seen&(1<<i) != 0 }

// name returns the name of the member that Next returned, which must be a known one.
func (o *Object) name() string { return unquoted(o.members.Names[o.last-1]) }

// Extra reads the value of a member that the type does not know and stores it in the Extra. It
// fails with ErrDuplicate if the name is repeated.
func (o *Object) Extra() { o.r.Extra(o.extra) }

// Int reads an integer like [Reader.Int]. If the integer does not fit an int64, Int keeps its text
// for [Writer.IntExact].
func (o *Object) Int() int64 {
	r := o.r
	start := r.Offset()
	v, exact := r.Int()
	if !exact && !r.Failed() {
		r.keepNumber(o.extra, o.name(), string(r.data[start:r.pos]))
	}
	return v
}

// Float reads a number like [Reader.Float]. If the float64 is not exact, Float keeps the text for
// [Writer.FloatExact].
func (o *Object) Float() float64 {
	r := o.r
	start := r.Offset()
	v, exact := r.Float()
	if !exact && !r.Failed() {
		r.keepNumber(o.extra, o.name(), string(r.data[start:r.pos]))
	}
	return v
}

// NewInt is Int that returns a pointer; see [Reader.NewText].
func (o *Object) NewInt() *int64 { return slab(&o.r.slabs.ints, o.Int()) }

// NewFloat is Float that returns a pointer; see [Reader.NewText].
func (o *Object) NewFloat() *float64 { return slab(&o.r.slabs.floats, o.Float()) }

// order predicts the next member from the objects read so far. Objects of one type nearly always
// have their members in the same order, so that most names are compared with one expected name
// only.
type order [1 << 10]uint8

// after returns the slot that predicts the member after the last one read.
func (o *order) after(s *Object) *uint8 {
	return &o[(s.members.ID*61+uint(s.last))%uint(len(o))]
}

// has consumes the next member name and reports true if it equals quoted and has no white space
// around it. Otherwise it consumes nothing.
func (r *Reader) has(quoted string) bool {
	data, at := r.data, r.pos
	if !r.fresh {
		if at >= len(data) || data[at] != ',' {
			return false
		}
		at++
	}
	end := at + len(quoted)
	if end > len(data) || string(data[at:end]) != quoted || end-at > r.limits.String {
		return false
	}
	r.fresh = false
	r.key, r.pos = keyPlace{start: at}, end
	return true
}

// find returns the index of name, or len(Names) if the type does not know it.
func (o *Object) find(name []byte) int {
	for i, n := range o.members.Names {
		// Comparing the first byte excludes most names.
		if len(name) > 0 && n[1] != name[0] && n[1] != '\\' {
			continue
		}
		if string(name) == unquoted(n) {
			return i
		}
	}
	return len(o.members.Names)
}

// unquoted returns a quoted name without quotes and colon, and with its escapes decoded.
func unquoted(quoted string) string {
	name := quoted[1 : len(quoted)-2]
	if strings.IndexByte(name, '\\') < 0 {
		return name
	}
	return string(scan.AppendUnescaped(nil, []byte(name)))
}

// take records that the i-th member was read. It reports whether the value must be read into its
// field.
func (o *Object) take(i int) bool {
	b := uint64(1) << i
	if o.seen&b != 0 {
		o.r.fail(o.r.key.start, jsonfault.Duplicate)
	}
	o.seen |= b
	if o.members.Null&b == 0 && o.r.next() == 'n' {
		o.keepValue()
		return false
	}
	return true
}

// keepValue stores the value of the last member in the Extra, because its field cannot hold it.
func (o *Object) keepValue() {
	o.absent |= 1 << (o.last - 1)
	o.r.Keep(o.extra, o.name())
}

// KeepMismatch returns v, the value just read for the member that [Object.Next] returned. If
// reading v failed because the value does not fit the type, KeepMismatch clears the failure, stores
// the value in the Extra and returns the zero value. Malformed text stays a failure. KeepMismatch
// is for a member that some protocol revision allows to have any value.
func KeepMismatch[T any](o *Object, v T) T {
	if o.r.failure.err != nil && o.keepMismatch() {
		v = *new(T)
	}
	return v
}

func (o *Object) keepMismatch() bool {
	r := o.r
	if jsonfault.Malformed(r.failure.err) {
		return false
	}
	r.Rewind(Checkpoint{pos: o.at, depth: o.depth})
	r.Keep(o.extra, o.name())
	return true
}

// Const reads the value of the member that Next returned. The schema requires the string want, so
// the type has no field for it. Any other value is stored in the Extra.
func (o *Object) Const(want string) {
	r := o.r
	if r.TextIs(want) {
		return
	}
	if r.Kind() == KindString {
		m := r.Checkpoint()
		if string(r.TextBytes()) == want {
			return
		}
		r.Rewind(m)
	}
	o.keepValue()
}

// ConstInt is Const for an integer.
func (o *Object) ConstInt(want int64) {
	r := o.r
	if r.Kind() == KindNumber {
		m := r.Checkpoint()
		if v, exact := r.Int(); exact && v == want {
			return
		}
		r.Rewind(m)
	}
	o.keepValue()
}

// PeekText returns the string value of the member name of the next value, without consuming it. It
// returns nil if the next value is not an object or has no such member with a string value. The
// bytes are valid until the next call on r.
func (r *Reader) PeekText(name string) []byte {
	// Fast path: it is the first member, in ASCII without escapes or white space.
	data, i := r.data, r.pos+2
	if i < len(data) && data[i-2] == '{' && data[i-1] == '"' {
		if end := scan.Plain(data, i); end >= 0 && string(data[i:end]) == name && end+3 < len(data) && data[end+1] == ':' && data[end+2] == '"' {
			if last := scan.Plain(data, end+3); last >= 0 {
				return data[end+3 : last]
			}
		}
	}
	text, kind, _ := r.PeekMember(name)
	if kind != KindString {
		return nil
	}
	return []byte(text)
}

// PeekFirst reports whether the next value is an object whose first member, apart from _meta, is
// key. It consumes nothing.
func (r *Reader) PeekFirst(key Key) bool {
	if r.next() != '{' {
		return false
	}
	for c := r.ahead.Cursor(r.data, r.pos); c.Next(); {
		if string(c.Name) != "_meta" {
			return string(c.Name) == key.Name && key.Kinds.admits(r.data[c.Value])
		}
	}
	return false
}

// Confirm ends a speculative read of a value that began at start. It returns true if the read did
// not fail and agrees is set, and otherwise rewinds the Reader to start.
func (r *Reader) Confirm(start Checkpoint, agrees bool) bool {
	if agrees && !r.Failed() {
		return true
	}
	r.Rewind(start)
	return false
}

// EqualText reports whether s points at want.
func EqualText(s *string, want string) bool { return s != nil && *s == want }

// NewText reads a string like Text and returns a pointer to it. The New methods allocate their
// values in groups, so that optional members do not cost an allocation each. A pointer keeps its
// group in memory.
func (r *Reader) NewText() *string {
	return slab(&r.slabs.texts, r.Text())
}

// NewBool reads a boolean and returns a pointer to it; see [Reader.NewText].
func (r *Reader) NewBool() *bool { return slab(&r.slabs.bools, r.Bool()) }

// slabs holds the values that the New methods allocate. Texts of different messages are in
// different slabs, because a text keeps the strings beside it in memory.
type slabs struct {
	texts  []string
	ints   []int64
	floats []float64
	bools  []bool
}

// slab stores v in the next free slot of s and returns a pointer to it. It starts with 2 slots and
// allocates more at a time as it grows.
func slab[T any](s *[]T, v T) *T {
	if n := cap(*s); len(*s) == n {
		*s = make([]T, 0, max(2, min(4*n, 64)))
	}
	*s = append(*s, v)
	return &(*s)[len(*s)-1]
}

// PeekBool returns "true" or "false", the boolean value of the member name of the next value,
// without consuming it. It returns "" if the next value is not an object or has no such member with
// a boolean value.
func (r *Reader) PeekBool(name string) string {
	text, kind, _ := r.PeekMember(name)
	if kind != KindBool {
		return ""
	}
	return text
}

// New reads a value into a new variable with decode, and returns a pointer to it.
func New[T any](r *Reader, decode func(*T, *Reader)) *T {
	r.take(sizeOf[T]())
	v := new(T)
	decode(v, r)
	return v
}

// Read reads a value with decode and returns it.
func Read[T any](r *Reader, decode func(*T, *Reader)) T {
	var v T
	decode(&v, r)
	return v
}

// ReadInt reads an integer of a named type. It fails with ErrInteger if the integer does not fit an
// int64.
func ReadInt[T ~int64](r *Reader) T {
	at := r.Offset()
	v, exact := r.Int()
	if !exact {
		r.Fail(at, jsonfault.Integer)
	}
	return T(v)
}

// ReadOrNull reads a value, or null as nil.
func ReadOrNull[T any](r *Reader, read func(*Reader) T) *T {
	if r.Null() {
		return nil
	}
	v := read(r)
	return &v
}

// WriteOrNull writes what v points at, or null.
func WriteOrNull[T any](w *Writer, v *T, write func(*Writer, T)) {
	if v == nil {
		w.Null()
		return
	}
	write(w, *v)
}

// WriteUnion writes a variant of a union. It fails with codec.ErrNoValue if v is nil.
func WriteUnion[T encoder](w *Writer, v T) {
	if encoder(v) == nil {
		w.Fail("", jsonfault.NoValue)
		return
	}
	v.EncodeJSON(w)
}

// Put reads the value of the member whose name NextKey returned last into the map at m. It makes
// the map if it is nil. A repeated name fails with codec.ErrDuplicate.
func Put[T any](r *Reader, m *map[string]T, read func(*Reader) T) {
	name := r.lastKey()
	if _, ok := (*m)[name]; ok {
		r.fail(r.key.start, jsonfault.Duplicate)
		return
	}
	r.take(mapEntry + sizeOf[T]())
	v := read(r)
	if r.Failed() {
		return
	}
	if *m == nil {
		*m = map[string]T{}
	}
	(*m)[name] = v
}

// PeekPath reports whether the next value is an object with a value at path, where path[0] names a
// member of that object, path[1] a member of the object there, and so on. The value at the end of
// the path must be of one of the kinds. PeekPath consumes nothing.
func (r *Reader) PeekPath(kinds KindSet, path ...string) bool {
	if r.next() != '{' {
		return false
	}
	at := r.pos
	for _, name := range path {
		found := false
		if r.data[at] != '{' {
			return false
		}
		for c := r.ahead.Cursor(r.data, at); c.Next(); {
			if string(c.Name) == name {
				at, found = c.Value, true
				break
			}
		}
		if !found {
			return false
		}
	}
	return kinds.admits(r.data[at])
}
