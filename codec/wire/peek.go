package wire

import "github.com/mcpwire/mcpwire/codec/internal/scan"

// The functions in this file look ahead without checking the text and without failing. Faults are
// found when the text is read.

// PeekMember looks for the member name in the next value without consuming it. If the next value is
// not an object or has no such member, ok is false. Otherwise kind is the kind of the member's
// value, and text is the content of a string or the JSON text of a number or a boolean. For other
// kinds text is empty.
func (r *Reader) PeekMember(name string) (text string, kind Kind, ok bool) {
	if r.next() != '{' {
		return "", KindInvalid, false
	}
	for c := r.ahead.Cursor(r.data, r.pos); c.Next(); {
		if string(c.Name) == name {
			return r.peekScalar(c.Value)
		}
	}
	return "", KindInvalid, false
}

// PeekRaw returns the value of the member name of the next value without consuming it: a part of
// the text, unchecked. If the next value is not an object or has no such member, ok is false.
func (r *Reader) PeekRaw(name string) (value []byte, ok bool) {
	if r.next() != '{' {
		return nil, false
	}
	for c := r.ahead.Cursor(r.data, r.pos); c.Next(); {
		if string(c.Name) == name {
			end := c.End()
			return r.data[c.Value:end:end], true
		}
	}
	return nil, false
}

// PeekRaws is PeekRaw for several members: it sets values[i] to the value of the member names[i]. It
// leaves values[i] unchanged if there is no such member. It takes the same time as PeekRaw for the
// last of them.
func (r *Reader) PeekRaws(names []string, values [][]byte) {
	if r.next() != '{' {
		return
	}
	missing := len(names)
	for c := r.ahead.Cursor(r.data, r.pos); missing > 0 && c.Next(); {
		for i, name := range names {
			if string(c.Name) == name && values[i] == nil {
				end := c.End()
				values[i] = r.data[c.Value:end:end]
				missing--
				break
			}
		}
	}
}

func (r *Reader) peekScalar(at int) (text string, kind Kind, ok bool) {
	switch kind = kindOf(r.data[at]); kind {
	case KindInvalid:
		return "", kind, false
	case KindString:
		end, escaped, err := scan.String(r.data, at)
		switch {
		case err != nil:
			return "", KindInvalid, false
		case escaped:
			return string(r.unescape(r.data[at+1 : end-1])), kind, true
		}
		return r.pieces.string(r.data[at+1 : end-1]), kind, true
	case KindNumber, KindBool:
		return r.pieces.string(r.data[at:scan.SkipWord(r.data, at)]), kind, true
	}
	return "", kind, true
}

// KindSet is a set of kinds: bit k stands for the [Kind] k. The zero value stands for every kind
// but null.
type KindSet uint16

// admits reports whether the kind of a value with the first byte c is in the set.
func (s KindSet) admits(c byte) bool {
	kind := kindOf(c)
	return s == 0 && kind != KindNull || s&(1<<kind) != 0
}

// Key is a member that distinguishes the types of a union. An object has the key if it has a member
// with that name and the member's value is of one of the kinds.
type Key struct {
	Name  string
	Kinds KindSet
}

// PeekKeys returns which of the keys the next value has, without consuming it: bit i of the result
// stands for keys[i]. Once it finds keys[0], it looks no further, so that it need not skip a large
// value of that member: other bits may then be missing. Keys from the 65th on are ignored. If the
// next value is not an object, the result is 0.
func (r *Reader) PeekKeys(keys ...Key) (found uint64) {
	if r.next() != '{' {
		return 0
	}
	for c := r.ahead.Cursor(r.data, r.pos); c.Next(); {
		for i, key := range keys {
			if string(c.Name) == key.Name {
				if key.Kinds.admits(r.data[c.Value]) {
					found |= 1 << i
				}
				break
			}
		}
		if found&1 != 0 {
			break
		}
	}
	return found
}
