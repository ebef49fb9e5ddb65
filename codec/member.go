package codec

import (
	"errors"
	"slices"
	"strings"
)

// Members are the names of the members that a type knows, at most 64 of them, the required ones first. A Members must
// not be changed.
type Members struct {
	Names []string // in JSON, with quotes and colon, such as `"name":`
	Null  uint64   // bit i stands for Names[i]: its field can hold null
	ID    uint     // tells the types of a package apart: only for speed
}

// Seen is how far the decoder of an object has come, and which of the members that its type knows it has met.
type Seen struct {
	members *Members
	last    int    // the member that came last, plus one
	came    uint64 // which members came: bit i stands for the i-th
	absent  uint64 // came, but with a value that leaves the field unset
	at      int    // where the value of the last member starts, or the white space before it
	depth   int    // how many arrays and objects are open
}

// Enter enters an object whose type knows members. [Reader.Member] leads through it.
func (r *Reader) Enter(members *Members) Seen {
	r.Object()
	return Seen{members: members, depth: len(r.frames)}
}

// Require records in x which of the first n members of s are missing or left their fields unset.
func (r *Reader) Require(s *Seen, x *Extra, n int) {
	mask := uint64(1)<<n - 1
	if missing := (^s.came | s.absent) & mask; missing != 0 {
		r.lack(s.members, x, missing)
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
	slot := &r.lacking[(uint64(members.ID)^missing*0x9E3779B97F4A7C15>>60)%lackingSlots]
	if *slot == nil || (*slot).by != members || (*slot).absent != missing {
		*slot = &extra{by: members, absent: missing}
	}
	x.p = *slot
}

// Member goes on to the next member of an object and returns the index of its name, whose value is then to be read.
// For a name that the type does not know it returns len(Names): the value is to be read with Extra or [Put]. If there
// is no further member, it leaves the object and returns a negative number. A null whose field cannot hold one is kept
// in x and passed over. A known name that comes again fails with [ErrDuplicate].
func (r *Reader) Member(s *Seen, x *Extra) int {
	for {
		i := int(*r.order.after(s))
		if i >= len(s.members.Names) || !r.has(s.members.Names[i]) {
			if x.p != nil && x.p.by != s.members && r.owned(x) != nil {
				x.p.by = s.members
			}
			name, ok := r.NextKey()
			if !ok {
				return -1
			}
			if i = s.find(name); i == len(s.members.Names) {
				s.last = i + 1
				return i
			}
			*r.order.after(s) = uint8(i)
		}
		s.last, s.at = i+1, r.pos
		// The common case first: a first value, not null, right here.
		if b := uint64(1) << i; s.came&b == 0 && r.pos < len(r.data) && r.data[r.pos] > ' ' && r.data[r.pos] != 'n' {
			s.came |= b
			return i
		}
		if r.take(s, x, i) {
			return i
		}
	}
}

// order remembers what members followed others in the objects read so far. Objects of a type nearly always have theirs
// in the same order, so that a name need only be compared with the one that is to be expected.
type order [1 << 10]uint8

// after returns the place for what follows the last member of an object.
func (o *order) after(s *Seen) *uint8 {
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
	if end > len(data) || string(data[at:end]) != quoted || end-at > r.lim.str {
		return false
	}
	r.fresh = false
	r.keyAt, r.keyEnd, r.pos = at, 0, end
	return true
}

// find returns the index of a name, or how many there are if it is none of them.
func (s *Seen) find(name []byte) int {
	for i, n := range s.members.Names {
		// Few names begin alike.
		if len(name) > 0 && n[1] != name[0] && n[1] != '\\' {
			continue
		}
		if string(name) == bare(n) {
			return i
		}
	}
	return len(s.members.Names)
}

// bare takes quotes, colon and escapes off a name.
func bare(quoted string) string {
	name := quoted[1 : len(quoted)-2]
	if strings.IndexByte(name, '\\') < 0 {
		return name
	}
	return string(appendUnescaped(nil, []byte(name)))
}

// take notes that the i-th member has come and reports whether its value is to be read into its field.
func (r *Reader) take(s *Seen, x *Extra, i int) bool {
	b := uint64(1) << i
	if s.came&b != 0 {
		r.fail(r.keyAt, ErrDuplicate)
	}
	s.came |= b
	if s.members.Null&b == 0 && r.next() == 'n' {
		r.refuse(s, x)
		return false
	}
	return true
}

// refuse keeps in x the value of the member that came last, which its field cannot hold.
func (r *Reader) refuse(s *Seen, x *Extra) {
	i := s.last - 1
	s.absent |= 1 << i
	r.Keep(x, bare(s.members.Names[i]))
}

// OrKeep is for a member that some revision leaves open. It returns v, the value that was just read
// for the member that Member returned. If reading failed because the value does not fit the type,
// OrKeep takes the failure back, keeps the value in x and returns the zero value. Malformed text
// stays a failure.
func OrKeep[T any](r *Reader, s *Seen, x *Extra, v T) T {
	if r.failure.err != nil && r.orKeep(s, x) {
		v = *new(T)
	}
	return v
}

func (r *Reader) orKeep(s *Seen, x *Extra) bool {
	if r.malformed() {
		return false
	}
	r.Rewind(Mark{pos: s.at, depth: s.depth})
	r.Keep(x, bare(s.members.Names[s.last-1]))
	return true
}

// malformed reports whether the failure is about text that is wrong whatever type was wanted.
func (r *Reader) malformed() bool {
	return slices.ContainsFunc(malformed[:], func(m error) bool { return errors.Is(r.failure.err, m) })
}

// Const reads the value of the member that Member returned and that always is the string want, so that there is no
// field for it. Any other value is kept in x.
func (r *Reader) Const(s *Seen, x *Extra, want string) {
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
	r.refuse(s, x)
}

// ConstInt is Const for an integer.
func (r *Reader) ConstInt(s *Seen, x *Extra, want int64) {
	if r.Kind() == KindNumber {
		m := r.Mark()
		if v, exact := r.Int(); exact && v == want {
			return
		}
		r.Rewind(m)
	}
	r.refuse(s, x)
}

// PeekText returns the string value of the member name of the object that is next, or
// nothing if the next value is no object, or has no such member, or not with a string. Nothing
// is consumed. The bytes may be looked at until the next call on r.
func (r *Reader) PeekText(name string) []byte {
	// The common case first: it is the first member, in ASCII without escapes or white space.
	data, i := r.data, r.pos+2
	if i < len(data) && data[i-2] == '{' && data[i-1] == '"' {
		if end := plain(data, i); end >= 0 && string(data[i:end]) == name && end+3 < len(data) && data[end+1] == ':' && data[end+2] == '"' {
			if last := plain(data, end+3); last >= 0 {
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
	for c := r.cursor(r.pos); c.next(); {
		if string(c.name) != "_meta" {
			return string(c.name) == key.Name && key.Kinds.admits(r.data[c.value])
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
	return slab(&r.texts, r.Text())
}

// NewBool reads a boolean and returns a pointer to it; see [Reader.NewText].
func (r *Reader) NewBool() *bool { return slab(&r.bools, r.Bool()) }

// NewInt reads an integer like IntExact and returns a pointer to it; see [Reader.NewText].
func (r *Reader) NewInt(x *Extra, name string) *int64 {
	return slab(&r.ints, r.IntExact(x, name))
}

// NewFloat reads a number like FloatExact and returns a pointer to it; see [Reader.NewText].
func (r *Reader) NewFloat(x *Extra, name string) *float64 {
	return slab(&r.floats, r.FloatExact(x, name))
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
		r.Fail(at, ErrInteger)
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
func WriteUnion[T Encoder](w *Writer, v T) {
	if Encoder(v) == nil {
		w.Fail("", ErrNoValue)
		return
	}
	v.EncodeJSON(w)
}

// Put reads the value of the member whose name NextKey returned last into the map at m, which
// it makes if need be. A repeated name fails with [ErrDuplicate].
func Put[T any](r *Reader, m *map[string]T, read func(*Reader) T) {
	name := r.again()
	if _, ok := (*m)[name]; ok {
		r.fail(r.keyAt, ErrDuplicate)
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
		for c := r.cursor(at); c.next(); {
			if string(c.name) == name {
				at, found = c.value, true
				break
			}
		}
		if !found {
			return false
		}
	}
	return kinds.admits(r.data[at])
}
