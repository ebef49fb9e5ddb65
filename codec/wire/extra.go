package wire

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec/internal/scan"
)

// Extra holds the parts of an object that have no place in the fields of its Go type: unknown
// members, known members whose value the type cannot hold, the set of missing required members, and
// the text of numbers that do not fit their field. It is one pointer; the zero value is empty.
//
// An Extra may be moved to a value of another type. Encoding that value omits each member of the
// Extra that has the name of a field already written.
//
// Copies of a struct may share an Extra: a method that changes it copies the contents first, in
// time proportional to [Extra.Len]. The raw values it returns must not be changed.
//
// SetAbsent, Absent, ForMembers and Number are for generated code.
type Extra struct {
	p *extra // never changed once it may be shared; see Reader.change
}

// extra holds members with different names, in the order in which they were read or set. All of
// them are either in text and spans, where a Reader stores them, or in members.
type extra struct {
	text    []byte // as in ,"a":1,"b":[2]; never returned as a whole; names in it have no escapes
	sum     uint64 // textSum of text, once text is complete
	spans   []span // the positions of the members in text
	members []member
	numbers []numberText
	absent  uint64
	by      *Members // the members of the type it was decoded for, or nil
	known   bool     // some member may have the name of a field; it is then in members
	few     [6]span  // the first memory of spans
}

// extraSize is about the size of an extra in bytes.
const extraSize = 192

// span is the position of a member's value in extra.text. The comma of the next member is at end.
type span struct{ value, end uint32 }

type member struct {
	name string
	raw  json.RawMessage
}

// numberText is the exact text of a number in the member name.
type numberText struct {
	name, text string
}

// clone returns a copy that can be changed without effect on e. The clone of nil is empty.
func (e *extra) clone() *extra {
	if e == nil {
		return new(extra)
	}
	return &extra{
		text: e.text, sum: e.sum, spans: slices.Clone(e.spans), members: slices.Clone(e.members), numbers: slices.Clone(e.numbers),
		absent: e.absent, by: e.by, known: e.known,
	}
}

func (e *extra) len() int { return len(e.spans) + len(e.members) }

// span returns the name and the value of the i-th span. Both are part of the text.
func (e *extra) span(i int) (name, raw []byte) {
	start, s := uint32(0), e.spans[i]
	if i > 0 {
		start = e.spans[i-1].end
	}
	return e.text[start+2 : s.value-2], e.text[s.value:s.end:s.end]
}

// findIn returns the index of the member name, or -1.
func findIn[T string | []byte](e *extra, name T) int {
	for i := range e.spans {
		if n, _ := e.span(i); string(n) == string(name) {
			return i
		}
	}
	return slices.IndexFunc(e.members, func(m member) bool { return m.name == string(name) })
}

// all iterates over the members.
func (e *extra) all(yield func(string, json.RawMessage) bool) {
	for i := range e.spans {
		if name, raw := e.span(i); !yield(string(name), raw) {
			return
		}
	}
	for _, m := range e.members {
		if !yield(m.name, m.raw) {
			return
		}
	}
}

// list returns the members in a new slice with room for one more.
func (e *extra) list() []member {
	list := slices.Grow([]member(nil), e.len()+1)
	for name, raw := range e.all {
		list = append(list, member{name, raw})
	}
	return list
}

// unpack moves the members in text to e.members.
func (e *extra) unpack() {
	if len(e.spans) > 0 {
		e.members, e.text, e.spans = e.list(), nil, nil
	}
}

// Len returns how many members x holds.
func (x Extra) Len() int {
	if x.p == nil {
		return 0
	}
	return x.p.len()
}

// Get returns the value of the member name.
func (x Extra) Get(name string) (value json.RawMessage, ok bool) {
	if x.p == nil {
		return nil, false
	}
	i := findIn(x.p, name)
	switch {
	case i < 0:
		return nil, false
	case len(x.p.spans) > 0:
		_, value = x.p.span(i)
		return value, true
	}
	return x.p.members[i].raw, true
}

// Has reports whether x holds the member name.
func (x Extra) Has(name string) bool { return x.p != nil && findIn(x.p, name) >= 0 }

// Set adds the member name, or replaces its value in place. The value is not copied, and is checked
// when it is written; it must not be changed afterwards.
func (x *Extra) Set(name string, value json.RawMessage) {
	x.p = x.p.clone()
	x.p.unpack()
	x.p.known = true
	if i := findIn(x.p, name); i >= 0 {
		x.p.members[i].raw = value
		return
	}
	x.p.members = append(x.p.members, member{name, value})
}

// Delete removes the member name, if there is one.
func (x *Extra) Delete(name string) {
	if x.p == nil {
		return
	}
	i := findIn(x.p, name)
	if i < 0 {
		return
	}
	x.p = x.p.clone()
	x.p.unpack()
	x.p.members = slices.Delete(x.p.members, i, i+1)
}

// All iterates over the members in the order in which they were read or set.
func (x Extra) All() iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		if x.p == nil {
			return
		}
		x.p.all(yield)
	}
}

// SetAbsent records which required members were missing: bit i stands for the i-th required member
// of the type.
func (x *Extra) SetAbsent(bits uint64) {
	if x.p == nil && bits == 0 {
		return
	}
	x.p = x.p.clone()
	x.p.absent = bits
}

// ForMembers returns x if it was read with members, or with no Members at all. Otherwise it returns
// an empty Extra. Generated code calls it before it asks x for missing members and the text of
// numbers, which are meaningless for a value of another type. [Writer.EndExtra] handles the unknown
// members.
func (x Extra) ForMembers(members *Members) Extra {
	if x.p == nil || x.p.by == members || x.p.by == nil {
		return x
	}
	return Extra{}
}

// Absent reports whether the required member with the index bit was missing.
func (x Extra) Absent(bit uint) bool { return x.p != nil && x.p.absent&(1<<bit) != 0 }

// Number returns the exact text of the number member name, if its field cannot hold it exactly.
func (x Extra) Number(name string) (text string, ok bool) {
	if x.p == nil {
		return "", false
	}
	for _, n := range slices.Backward(x.p.numbers) { // the last one counts
		if n.name == name {
			return n.text, true
		}
	}
	return "", false
}

// Equal reports whether x and y have the same contents. It ignores the order of members and the
// white space in raw values.
func (x Extra) Equal(y Extra) bool {
	var none extra
	a, b := x.p, y.p
	if a == b {
		return true
	}
	if a == nil {
		a = &none
	}
	if b == nil {
		b = &none
	}
	byName := func(m, n member) int { return strings.Compare(m.name, n.name) }
	return a.absent == b.absent &&
		slices.EqualFunc(slices.SortedFunc(slices.Values(a.list()), byName), slices.SortedFunc(slices.Values(b.list()), byName),
			func(m, n member) bool { return m.name == n.name && sameRaw(m.raw, n.raw) }) &&
		slices.Equal(sortedNumbers(a.numbers), sortedNumbers(b.numbers))
}

func sortedNumbers(ns []numberText) []numberText {
	return slices.SortedFunc(slices.Values(ns), func(m, n numberText) int { return strings.Compare(m.name, n.name) })
}

// sameRaw reports whether a and b are equal apart from white space.
func sameRaw(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || bytes.Equal(scan.AppendCompact(nil, a), scan.AppendCompact(nil, b))
}

// IsZero reports whether x holds nothing.
func (x Extra) IsZero() bool {
	return x.p == nil || x.p.len() == 0 && len(x.p.numbers) == 0 && x.p.absent == 0
}
