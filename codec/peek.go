package codec

import (
	"encoding/binary"
	"math/bits"
)

// This file looks ahead without checking and without failing: whatever is wrong with the text is found when it
// is read.

// peek remembers what looking ahead has found out, so that unions inside unions do not make the same bytes be
// walked over again at every level.
type peek struct {
	ends map[int]int // where arrays and objects that start at an offset end, small ones left out
	open []int       // scratch: starts of those being walked over
}

// smallValue is the size up to which walking again is cheaper than remembering.
const smallValue = 256

func (p *peek) reset() {
	if len(p.ends) > keepSlots {
		p.ends = nil
	}
	if len(p.ends) > 0 {
		clear(p.ends)
	}
}

// PeekMember looks for the member name in the next value without consuming it. If the next value is no object or
// has no such member, ok is false. Otherwise kind is the kind of the member's value, and text is what a string
// says or how a number or a boolean is written; it is empty for all else.
func (r *Reader) PeekMember(name string) (text string, kind Kind, ok bool) {
	if r.next() != '{' {
		return "", KindInvalid, false
	}
	for c := r.cursor(r.pos); c.next(); {
		if string(c.name) == name {
			return r.peekScalar(c.value)
		}
	}
	return "", KindInvalid, false
}

func (r *Reader) peekScalar(at int) (text string, kind Kind, ok bool) {
	switch kind = kindOf(r.data[at]); kind {
	case KindInvalid:
		return "", kind, false
	case KindString:
		end, escaped, err := scanString(r.data, at)
		switch {
		case err != nil:
			return "", KindInvalid, false
		case escaped:
			return string(r.unescape(r.data[at+1 : end-1])), kind, true
		}
		return r.pieces.string(r.data[at+1 : end-1]), kind, true
	case KindNumber, KindBool:
		return r.pieces.string(r.data[at:skipWord(r.data, at)]), kind, true
	}
	return "", kind, true
}

// KindSet is a set of kinds: bit k stands for the [Kind] k. The zero value stands for every kind but
// null.
type KindSet uint16

// admits reports whether the kind of a value with the first byte c is in the set.
func (s KindSet) admits(c byte) bool {
	kind := kindOf(c)
	return s == 0 && kind != KindNull || s&(1<<kind) != 0
}

// Key is a member by which the types of a union are told apart. An object has it if it has a member
// with that name whose value is of one of the kinds.
type Key struct {
	Name  string
	Kinds KindSet
}

// PeekKeys returns which of the keys the next value has, without consuming it: bit i of the result
// stands for keys[i]. Keys from the 65th on are ignored. If the next value is not an object, the
// result is 0.
func (r *Reader) PeekKeys(keys ...Key) (found uint64) {
	if r.next() != '{' {
		return 0
	}
	for c := r.cursor(r.pos); c.next(); {
		for i, key := range keys {
			if string(c.name) == key.Name {
				if key.Kinds.admits(r.data[c.value]) {
					found |= 1 << i
				}
				break
			}
		}
	}
	return found
}

// cursor goes over the members of an object or the elements of an array.
type cursor struct {
	r     *Reader
	begun bool
	name  []byte // of the member, escapes decoded; valid until next
	value int    // offset of the value
	start int
}

// cursor returns a cursor in front of the array or object that starts at i.
func (r *Reader) cursor(i int) cursor { return cursor{r: r, start: i} }

// next goes on to the next member or element, if there is one as far as one can see without checking.
func (c *cursor) next() bool {
	data := c.r.data
	i := c.start + 1
	if c.begun {
		i = skipSpace(data, c.r.after(c.value))
		if i >= len(data) || data[i] != ',' {
			return false
		}
		i++
	}
	c.begun = true
	i = skipSpace(data, i)
	if data[c.start] == '{' {
		if i >= len(data) || data[i] != '"' {
			return false
		}
		if end := nameEnd(data, i+1); end >= 0 {
			c.name = data[i+1 : end]
			i = end + 1
		} else {
			end, escaped, err := scanString(data, i)
			if err != nil {
				return false
			}
			c.name = data[i+1 : end-1]
			if escaped {
				c.name = c.r.unescape(c.name)
			}
			i = skipSpace(data, end)
		}
		if i >= len(data) || data[i] != ':' {
			return false
		}
		i = skipSpace(data, i+1)
	}
	c.value = i
	return i < len(data) && kindOf(data[i]) != KindInvalid
}

// after returns the offset after the value that starts at i, as far as one can see without checking.
func (r *Reader) after(i int) int {
	switch r.data[i] {
	case '"':
		end, _ := skipString(r.data, i)
		return end
	case '{', '[':
		return r.peek.after(r.data, i, r.lim.depth)
	}
	return skipWord(r.data, i)
}

// after is Reader.after for an array or an object. For a value nested deeper than maxDepth it
// returns len(data): reading the value will fail, and storing the position of each bracket would
// take far more memory than the text.
func (p *peek) after(data []byte, i, maxDepth int) int {
	p.open = p.open[:0]
	for i < len(data) {
		if i+8 <= len(data) {
			x := binary.LittleEndian.Uint64(data[i:])
			m := marks(x, '"') | brackets(x)
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) >> 3
		}
		switch data[i] {
		case '"':
			i, _ = skipString(data, i)
			continue
		case '{', '[':
			if end, ok := p.ends[i]; ok {
				i = end
			} else if len(p.open) >= maxDepth {
				i = len(data)
				continue
			} else {
				p.open = append(p.open, i)
				i++
			}
		case '}', ']':
			i++
			p.remember(i)
		default:
			i++
			continue
		}
		if len(p.open) == 0 {
			return i
		}
	}
	for len(p.open) > 0 {
		p.remember(i)
	}
	return i
}

// remember notes that the innermost open value ends at i.
func (p *peek) remember(i int) {
	last := len(p.open) - 1
	start := p.open[last]
	p.open = p.open[:last]
	if i-start <= smallValue {
		return
	}
	if p.ends == nil {
		p.ends = make(map[int]int)
	}
	p.ends[start] = i
}
