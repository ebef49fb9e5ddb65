package codec

import (
	"errors"
	"slices"
)

// Seen records, while an object is decoded, which of the members that its type knows have
// come. A member is known by its bit; the required members have the lowest bits.
type Seen struct {
	came   uint64
	absent uint64 // came, but with a value that leaves the field unset
}

// Require notes in x which of the first n members have not come, or left their fields unset.
func (s *Seen) Require(x *Extra, n int) {
	mask := uint64(1)<<n - 1
	if missing := (^s.came | s.absent) & mask; missing != 0 {
		x.SetAbsent(missing)
	}
}

// Member must be called for a member that the type knows, right after its name was read, and
// reports whether its value is to be decoded into its field. If the value is null, it is kept
// in x and the field stays unset. A repeated name fails with [ErrDuplicate].
func (r *Reader) Member(x *Extra, s *Seen, bit uint, name string) bool {
	// The common case, small enough to be inlined: a first value, not null, right here.
	if b := uint64(1) << bit; s.came&b == 0 && r.pos < len(r.data) && r.data[r.pos] > ' ' && r.data[r.pos] != 'n' {
		s.came |= b
		return true
	}
	return r.member(x, s, bit, name)
}

func (r *Reader) member(x *Extra, s *Seen, bit uint, name string) bool {
	if !r.MemberOrNull(s, bit) {
		return false
	}
	if r.next() == 'n' {
		s.absent |= 1 << bit
		r.Keep(x, name)
		return false
	}
	return true
}

// MemberOrNull is Member for a field that can hold null.
func (r *Reader) MemberOrNull(s *Seen, bit uint) bool {
	b := uint64(1) << bit
	if s.came&b != 0 {
		r.fail(r.keyAt, ErrDuplicate)
		return false
	}
	s.came |= b
	return !r.Failed()
}

// Place is where a value starts, for [OrKeep].
type Place struct{ pos, depth int }

// Place returns the present place.
func (r *Reader) Place() Place { return Place{r.pos, len(r.frames)} }

// OrKeep is for a member that some revision leaves open, called after its value was decoded
// from start into field. If that failed because the value does not fit the type, OrKeep takes
// the failure back, keeps the value in x and resets field. Malformed text stays a failure.
func OrKeep[T any](r *Reader, start Place, x *Extra, name string, field *T) {
	if r.failure.err != nil && r.orKeep(start, x, name) {
		*field = *new(T)
	}
}

func (r *Reader) orKeep(start Place, x *Extra, name string) bool {
	if r.malformed() {
		return false
	}
	r.Rewind(Mark{pos: start.pos, depth: start.depth})
	r.Keep(x, name)
	return true
}

// malformed reports whether the failure is about text that is wrong whatever type was wanted.
func (r *Reader) malformed() bool {
	return slices.ContainsFunc(malformed[:], func(m error) bool { return errors.Is(r.failure.err, m) })
}

// ConstMember reads a member that always has the string value want and therefore no field.
// Any other value is kept in x.
func (r *Reader) ConstMember(x *Extra, s *Seen, bit uint, name, want string) {
	if !r.Member(x, s, bit, name) {
		return
	}
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
	s.absent |= 1 << bit
	r.Keep(x, name)
}

// ConstIntMember is ConstMember for an integer.
func (r *Reader) ConstIntMember(x *Extra, s *Seen, bit uint, name string, want int64) {
	if !r.Member(x, s, bit, name) {
		return
	}
	if r.Kind() == KindNumber {
		m := r.Mark()
		if v, exact := r.Int(); exact && v == want {
			return
		}
		r.Rewind(m)
	}
	s.absent |= 1 << bit
	r.Keep(x, name)
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

// Leads reports whether the object that is next has the member name before all others but _meta. Nothing is
// consumed.
func (r *Reader) Leads(name string) bool {
	if r.next() != '{' {
		return false
	}
	for c := r.cursor(r.pos); c.next(); {
		if string(c.name) != "_meta" {
			return string(c.name) == name
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

// slab puts v in the next free place of s and returns a pointer to it. The first place is made alone, and more of
// them at once.
func slab[T any](s *[]T, v T) *T {
	if n := cap(*s); len(*s) == n {
		*s = make([]T, 0, max(1, min(4*n, 64)))
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

// PeekPath reports whether the object that is next has the member path[0], that one, if it
// is an object, the member path[1], and so on. Nothing is consumed.
func (r *Reader) PeekPath(path ...string) bool {
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
	return true
}
