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

// Member must be called for a member that the type knows, right after Key, and reports
// whether its value is to be decoded into its field. If the value is null, it is kept in x
// and the field stays unset. A repeated name fails with [ErrDuplicate].
func (r *Reader) Member(x *Extra, s *Seen, bit uint, key string) bool {
	if !r.MemberOrNull(x, s, bit, key) {
		return false
	}
	if r.next() == 'n' {
		s.absent |= 1 << bit
		r.Keep(x, key)
		return false
	}
	return true
}

// MemberOrNull is Member for a field that can hold null.
func (r *Reader) MemberOrNull(x *Extra, s *Seen, bit uint, key string) bool {
	if s.came&(1<<bit) != 0 {
		r.Duplicate(key)
		return false
	}
	s.came |= 1 << bit
	return !r.Failed()
}

// OrKeep is for a member that some revision leaves open, called after its value was decoded
// from start into field. If that failed because the value does not fit the type, OrKeep takes
// the failure back, keeps the value in x and resets field. Malformed text stays a failure.
func OrKeep[T any](r *Reader, start Mark, x *Extra, key string, field *T) {
	if r.failure.err == nil || start.failure.err != nil || r.malformed() {
		return
	}
	r.Rewind(start)
	r.Keep(x, key)
	var none T
	*field = none
}

// malformed reports whether the failure is about text that is wrong whatever type was wanted.
func (r *Reader) malformed() bool {
	return slices.ContainsFunc(malformed[:], func(m error) bool { return errors.Is(r.failure.err, m) })
}

// ConstMember reads a member that always has the string value want and therefore no field.
// Any other value is kept in x.
func (r *Reader) ConstMember(x *Extra, s *Seen, bit uint, key, want string) {
	if !r.Member(x, s, bit, key) {
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
	r.Keep(x, key)
}

// ConstIntMember is ConstMember for an integer.
func (r *Reader) ConstIntMember(x *Extra, s *Seen, bit uint, key string, want int64) {
	if !r.Member(x, s, bit, key) {
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
	r.Keep(x, key)
}

// PeekText returns the string value of the member name of the object that is next, or "" if
// the next value is no object, or has no such member, or not with a string. Nothing is
// consumed.
func (r *Reader) PeekText(name string) string {
	text, kind, _ := r.PeekMember(name)
	if kind != KindString {
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

// Put reads the value of the member key into the map at m, which it makes if need be. A
// repeated name fails with [ErrDuplicate].
func Put[T any](r *Reader, m *map[string]T, key string, read func(*Reader) T) {
	if _, ok := (*m)[key]; ok {
		r.Duplicate(key)
		return
	}
	v := read(r)
	if r.Failed() {
		return
	}
	if *m == nil {
		*m = map[string]T{}
	}
	(*m)[key] = v
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
