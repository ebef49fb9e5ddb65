package codec

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"
)

// Extra is what an object held beyond the fields of its Go type: unknown members, known members whose value the
// type cannot hold, which required members were missing, and the text of numbers that do not fit their field. It
// is one pointer; the zero value is empty.
//
// Copies of a struct share it without harm: whatever changes an Extra copies the contents first, which takes
// time in proportion to [Extra.Len]. The raw values it hands out belong to it and must not be changed.
type Extra struct {
	p *extra // never changed once it may be shared; see Reader.own
}

type extra struct {
	members []member // in the order they came, no name twice
	numbers []numberText
	absent  uint64
	known   bool      // some member may have the name of a field
	few     [1]member // where members begin
}

type member struct {
	name string
	raw  json.RawMessage
}

// numberText is the exact text of a number in the member name.
type numberText struct {
	name, text string
}

// clone returns a copy that shares nothing which a change could touch; of nil it is an empty one.
func (e *extra) clone() *extra {
	if e == nil {
		return new(extra)
	}
	return &extra{members: slices.Clone(e.members), numbers: slices.Clone(e.numbers), absent: e.absent, known: e.known}
}

func (e *extra) find(name string) int {
	return slices.IndexFunc(e.members, func(m member) bool { return m.name == name })
}

// Len returns how many members x holds.
func (x Extra) Len() int {
	if x.p == nil {
		return 0
	}
	return len(x.p.members)
}

// Get returns the member name.
func (x Extra) Get(name string) (value json.RawMessage, ok bool) {
	if x.p == nil {
		return nil, false
	}
	if i := x.p.find(name); i >= 0 {
		return x.p.members[i].raw, true
	}
	return nil, false
}

// Has reports whether x holds the member name.
func (x Extra) Has(name string) bool { return x.p != nil && x.p.find(name) >= 0 }

// Set adds the member name, or replaces its value in place. The value is kept as it is and checked when it is
// written; it must not be changed afterwards.
func (x *Extra) Set(name string, value json.RawMessage) {
	x.p = x.p.clone()
	x.p.known = true
	if i := x.p.find(name); i >= 0 {
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
	i := x.p.find(name)
	if i < 0 {
		return
	}
	x.p = x.p.clone()
	x.p.members = slices.Delete(x.p.members, i, i+1)
}

// All goes over the members in the order they came.
func (x Extra) All() iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		if x.p == nil {
			return
		}
		for _, m := range x.p.members {
			if !yield(m.name, m.raw) {
				return
			}
		}
	}
}

// SetAbsent records which required members were missing: bit i stands for the i-th required member of the type.
func (x *Extra) SetAbsent(bits uint64) {
	if x.p == nil && bits == 0 {
		return
	}
	x.p = x.p.clone()
	x.p.absent = bits
}

// Absent reports whether the required member with that number was missing.
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

// Equal reports whether both hold the same, whatever the order of members and the white space in raw values.
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
		slices.EqualFunc(slices.SortedFunc(slices.Values(a.members), byName), slices.SortedFunc(slices.Values(b.members), byName),
			func(m, n member) bool { return m.name == n.name && sameRaw(m.raw, n.raw) }) &&
		slices.Equal(sortedNumbers(a.numbers), sortedNumbers(b.numbers))
}

func sortedNumbers(ns []numberText) []numberText {
	return slices.SortedFunc(slices.Values(ns), func(m, n numberText) int { return strings.Compare(m.name, n.name) })
}

// sameRaw compares raw values but for white space.
func sameRaw(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || bytes.Equal(appendCompact(nil, a), appendCompact(nil, b))
}

// IsZero reports whether x holds nothing.
func (x Extra) IsZero() bool {
	return x.p == nil || len(x.p.members) == 0 && len(x.p.numbers) == 0 && x.p.absent == 0
}
