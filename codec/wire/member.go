package wire

import (
	"strings"

	"github.com/mcpwire/mcpwire/codec/internal/scan"
)

// Members are the names of the members that a type knows, at most 64 of them, the required ones first. A Members must
// not be changed.
type Members struct {
	Names []string // in JSON, with quotes and colon, such as `"name":`
	Null  uint64   // bit i stands for Names[i]: its field can hold null
	ID    uint     // tells the types of a package apart: only for speed
}

// Object reads one object of a type that knows its members. Like the Reader, it stops at the first failure: Next
// then returns a negative number.
type Object struct {
	r       *Reader
	extra   *Extra
	members *Members
	last    int    // the member that came last, plus one
	came    uint64 // which members came: bit i stands for the i-th
	absent  uint64 // came, but with a value that leaves the field unset
	at      int    // where the value of the last member starts, or the white space before it
	depth   int    // how many arrays and objects are open
}

// Enter enters an object whose type knows members. The Object keeps in x what has no field or does not fit its field.
func (r *Reader) Enter(members *Members, x *Extra) Object {
	r.Object()
	return Object{r: r, extra: x, members: members, depth: len(r.frames)}
}

// Require records which of the first n members are missing or left their fields unset; see [Extra.Absent].
func (o *Object) Require(n int) {
	mask := uint64(1)<<n - 1
	if missing := (^o.came | o.absent) & mask; missing != 0 {
		o.r.lack(o.members, o.extra, missing)
	}
}

// lackingSlots is the number of extras in the cache that [Reader.lack] uses.
const lackingSlots = 16

// lack records in x that members are missing. Objects that lack the same members share one extra
// from a cache, because an extra may take more memory than the text of such an object.
func (r *Reader) lack(members *Members, x *Extra, missing uint64) {
	if x.p != nil {
		x.SetAbsent(missing)
		return
	}
	slot := &r.extras.lacking[(uint64(members.ID)^missing*0x9E3779B97F4A7C15>>60)%lackingSlots]
	if *slot == nil || (*slot).by != members || (*slot).absent != missing {
		*slot = &extra{by: members, absent: missing}
	}
	x.p = *slot
}

// Next goes on to the next member and returns the index of its name, whose value must then be read. For a name that
// the type does not know it returns len(Names): the value must be read with [Object.Extra]. If there is no further
// member, Next leaves the object and returns a negative number. It keeps a null whose field cannot hold one, and
// passes over it. A known name that comes again fails with ErrDuplicate.
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
		// The common case first: a first value, not null, right here.
		if b := uint64(1) << i; o.came&b == 0 && r.pos < len(r.data) && r.data[r.pos] > ' ' && r.data[r.pos] != 'n' {
			o.came |= b
			return i
		}
		if o.take(i) {
			return i
		}
	}
}

// Has reports whether the i-th member has come.
func (o *Object) Has(i int) bool { return o.came&(1<<i) != 0 }

// name returns the name of the member that Next returned, which must be a known one.
func (o *Object) name() string { return bare(o.members.Names[o.last-1]) }

// Extra reads and keeps the value of a member that the type does not know. It fails with ErrDuplicate if the object
// has had the member before.
func (o *Object) Extra() { o.r.Extra(o.extra) }

// Int reads an integer like [Reader.Int]. If it does not fit, Int keeps its text for [Writer.IntExact].
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

// order remembers what members followed others in the objects read so far. Objects of a type nearly always have theirs
// in the same order, so that a name need only be compared with the one that is to be expected.
type order [1 << 10]uint8

// after returns the place for what follows the last member of an object.
func (o *order) after(s *Object) *uint8 {
	return &o[(s.members.ID*61+uint(s.last))%uint(len(o))]
}

// has consumes the name of the next member, if it is the one that quoted has, and nothing stands in between.
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

// find returns the index of a name, or how many there are if it is none of them.
func (o *Object) find(name []byte) int {
	for i, n := range o.members.Names {
		// Few names begin alike.
		if len(name) > 0 && n[1] != name[0] && n[1] != '\\' {
			continue
		}
		if string(name) == bare(n) {
			return i
		}
	}
	return len(o.members.Names)
}

// bare takes quotes, colon and escapes off a name.
func bare(quoted string) string {
	name := quoted[1 : len(quoted)-2]
	if strings.IndexByte(name, '\\') < 0 {
		return name
	}
	return string(scan.AppendUnescaped(nil, []byte(name)))
}

// take records that the i-th member has come and reports whether its value is to be read into its field.
func (o *Object) take(i int) bool {
	b := uint64(1) << i
	if o.came&b != 0 {
		o.r.fail(o.r.key.start, scan.ErrDuplicate)
	}
	o.came |= b
	if o.members.Null&b == 0 && o.r.next() == 'n' {
		o.refuse()
		return false
	}
	return true
}

// refuse keeps the value of the member that came last, which its field cannot hold.
func (o *Object) refuse() {
	o.absent |= 1 << (o.last - 1)
	o.r.Keep(o.extra, o.name())
}

// OrKeep is for a member that some revision leaves open. It returns v, the value that was just read for the member
// that [Object.Next] returned. If reading failed because the value does not fit the type, OrKeep takes the failure
// back, keeps the value and returns the zero value. Malformed text stays a failure.
func OrKeep[T any](o *Object, v T) T {
	if o.r.failure.err != nil && o.orKeep() {
		v = *new(T)
	}
	return v
}

func (o *Object) orKeep() bool {
	r := o.r
	if scan.Malformed(r.failure.err) {
		return false
	}
	r.Rewind(Mark{pos: o.at, depth: o.depth})
	r.Keep(o.extra, o.name())
	return true
}

// Const reads the value of the member that Next returned and that always is the string want, so that there is no
// field for it. It keeps any other value.
func (o *Object) Const(want string) {
	r := o.r
	if r.TextIs(want) {
		return
	}
	if r.Kind() == KindString {
		m := r.Mark()
		if string(r.TextBytes()) == want {
			return
		}
		r.Rewind(m)
	}
	o.refuse()
}

// ConstInt is Const for an integer.
func (o *Object) ConstInt(want int64) {
	r := o.r
	if r.Kind() == KindNumber {
		m := r.Mark()
		if v, exact := r.Int(); exact && v == want {
			return
		}
		r.Rewind(m)
	}
	o.refuse()
}

// PeekText returns the string value of the member name of the object that is next, or
// nothing if the next value is no object, or has no such member, or not with a string. Nothing
// is consumed. The bytes may be looked at until the next call on r.
func (r *Reader) PeekText(name string) []byte {
	// The common case first: it is the first member, in ASCII without escapes or white space.
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

// Leads reports whether the next value is an object in which key comes before all other members but
// _meta. It consumes nothing.
func (r *Reader) Leads(key Key) bool {
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

// BornOut is for a value that was read from start on by guessing its type. It reports whether the value agrees with
// that and there was no failure; otherwise the Reader is back at start.
func (r *Reader) BornOut(start Mark, agrees bool) bool {
	if agrees && !r.Failed() {
		return true
	}
	r.Rewind(start)
	return false
}

// Is reports whether s points at want.
func Is(s *string, want string) bool { return s != nil && *s == want }

// NewText reads a string like Text and returns a pointer to it. What the New methods return
// for one message lies together in memory, so that optional members do not cost an allocation
// each; as long as one is in use, a few neighbours are kept, too.
func (r *Reader) NewText() *string {
	return slab(&r.slabs.texts, r.Text())
}

// NewBool reads a boolean and returns a pointer to it; see [Reader.NewText].
func (r *Reader) NewBool() *bool { return slab(&r.slabs.bools, r.Bool()) }

// slabs are where the New methods put values. Texts are never shared between messages: one that stays in use keeps what
// the others point at.
type slabs struct {
	texts  []string
	ints   []int64
	floats []float64
	bools  []bool
}

// slab puts v in the next free place of s and returns a pointer to it. The first places are few, and more of them are
// made at once later.
func slab[T any](s *[]T, v T) *T {
	if n := cap(*s); len(*s) == n {
		*s = make([]T, 0, max(2, min(4*n, 64)))
	}
	*s = append(*s, v)
	return &(*s)[len(*s)-1]
}

// PeekBool returns how the member name of the object that is next is written, "true" or
// "false", or "" if the next value is no object, or has no such member, or not with a boolean.
// Nothing is consumed.
func (r *Reader) PeekBool(name string) string {
	text, kind, _ := r.PeekMember(name)
	if kind != KindBool {
		return ""
	}
	return text
}

// New reads a value into a new variable of its type.
func New[T any](r *Reader, decode func(*T, *Reader)) *T {
	v := new(T)
	decode(v, r)
	return v
}

// Read reads a value of a type that decodes into a variable, and returns it.
func Read[T any](r *Reader, decode func(*T, *Reader)) T {
	var v T
	decode(&v, r)
	return v
}

// ReadInt reads an integer of a named type. It fails with [ErrInteger] where the integer
// does not fit.
func ReadInt[T ~int64](r *Reader) T {
	at := r.Offset()
	v, exact := r.Int()
	if !exact {
		r.Fail(at, scan.ErrInteger)
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

// WriteUnion writes a variant of a union. It fails with [ErrNoValue] if v is nil.
func WriteUnion[T encoder](w *Writer, v T) {
	if encoder(v) == nil {
		w.Fail("", scan.ErrNoValue)
		return
	}
	v.EncodeJSON(w)
}

// Put reads the value of the member whose name NextKey returned last into the map at m, which
// it makes if need be. A repeated name fails with [ErrDuplicate].
func Put[T any](r *Reader, m *map[string]T, read func(*Reader) T) {
	name := r.again()
	if _, ok := (*m)[name]; ok {
		r.fail(r.key.start, scan.ErrDuplicate)
		return
	}
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
