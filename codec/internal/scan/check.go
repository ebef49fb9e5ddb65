package scan

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"

	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// Checker checks values without decoding them. It detects every kind of malformed text, including
// repeated names. It does not recurse, so depth costs heap, not stack. The caller must set MaxDepth
// and MaxString; the other fields are ready when zero.
type Checker struct {
	MaxDepth  int
	MaxString int
	open      []openValue // arrays and objects entered and not yet left
	names     []nameAt    // the first names of all open objects, innermost last
	big       nameSet     // all names of objects with many names or with escapes in names
	objects   uint32      // the number of objects in big, and the number of the last one
}

// openValue is an array or an object that the Checker is inside of.
type openValue struct {
	close  byte
	names  uint32 // where its names start in Checker.names
	count  uint32 // how many names were read
	object uint32 // its number in Checker.big, or 0
}

// nameAt is the position of a member name without escapes in the text.
type nameAt struct {
	mark       uint64 // names with different marks differ
	start, end int
}

// FewNames is the number of names up to which the names of an object are compared one by one. Those
// of a larger object are in a set.
const FewNames = 16

// Value checks the value at or after i, which is inside of depth arrays and objects. It returns the
// offset after the value, or the offset of the fault.
func (c *Checker) Value(data []byte, i, depth int) (end int, err error) {
	c.open, c.names = c.open[:0], c.names[:0]
	for {
		if i >= len(data) || data[i] <= ' ' {
			if i = SkipSpace(data, i); i >= len(data) {
				return i, jsonfault.EOF
			}
		}
		switch b := data[i]; b {
		case '{', '[':
			if depth+len(c.open) >= c.MaxDepth {
				return i, jsonfault.Depth
			}
			c.open = append(c.open, openValue{close: b + 2, names: uint32(len(c.names))})
			if i++; i >= len(data) || data[i] <= ' ' {
				i = SkipSpace(data, i)
			}
			if i < len(data) && data[i] == b+2 {
				break // the loop below leaves it
			}
			if b == '{' {
				if i, err = c.name(data, i); err != nil {
					return i, err
				}
			}
			continue
		case '"':
			start := i
			if last := Plain(data, i+1); last >= 0 {
				i = last + 1
			} else if i, _, err = String(data, i); err != nil {
				return i, err
			}
			if i-start-2 > c.MaxString {
				return start, jsonfault.StringSize
			}
		case 't':
			i, err = Literal(data, i, "true")
		case 'f':
			i, err = Literal(data, i, "false")
		case 'n':
			i, err = Literal(data, i, "null")
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			i, _, err = Number(data, i)
		default:
			err = Unexpected(data, i, "a value")
		}
		if err != nil {
			return i, err
		}
		// Leave all arrays and objects that end here, and advance to the next value if there is
		// one.
		for {
			n := len(c.open) - 1
			if n < 0 {
				return i, nil
			}
			if i < len(data) && data[i] <= ' ' {
				i = SkipSpace(data, i)
			}
			top := &c.open[n]
			if i >= len(data) || data[i] != ',' && data[i] != top.close {
				return i, Unexpected(data, i, CommaOr(top.close))
			}
			if i++; data[i-1] == ',' {
				if top.close == '}' {
					if i, err = c.name(data, i); err != nil {
						return i, err
					}
				}
				break
			}
			c.names = c.names[:top.names]
			c.open = c.open[:n]
		}
	}
}

func CommaOr(close byte) string {
	if close == '}' {
		return "',' or '}'"
	}
	return "',' or ']'"
}

// name checks the member name at or after i and the colon after it, and fails with jsonfault.Duplicate if
// the innermost object already has the name.
func (c *Checker) name(data []byte, i int) (end int, err error) {
	if i < len(data) && data[i] <= ' ' {
		i = SkipSpace(data, i)
	}
	if i >= len(data) || data[i] != '"' {
		return i, Unexpected(data, i, "a member name")
	}
	start, last, escaped := i+1, -1, false
	var mark uint64
	if start+8 <= len(data) {
		x := binary.LittleEndian.Uint64(data[start:])
		if m := stop(x); m != 0 {
			last = closing(data, start+bits.TrailingZeros64(m)>>3)
			mark = shortMark(x, last-start)
		} else if last = Plain(data, start+8); last >= 0 {
			mark = longMark(x, data, last, last-start)
		}
	}
	if last < 0 {
		if last, escaped, err = String(data, i); err != nil {
			return last, err
		}
		last--
		mark = nameMark(data[start:last])
	}
	if last-start > c.MaxString {
		return i, jsonfault.StringSize
	}
	end = last + 1
	if end >= len(data) || data[end] != ':' {
		if end = SkipSpace(data, end); end >= len(data) || data[end] != ':' {
			return end, Unexpected(data, end, "':'")
		}
	}
	top := &c.open[len(c.open)-1]
	top.count++
	if top.object != 0 || top.count > FewNames || escaped {
		if c.repeated(top, data, start, last, escaped) {
			return i, jsonfault.Duplicate
		}
		return end + 1, nil
	}
	for _, n := range c.names[top.names:] {
		if n.mark == mark && bytes.Equal(data[n.start:n.end], data[start:last]) {
			return i, jsonfault.Duplicate
		}
	}
	c.names = append(c.names, nameAt{mark, start, last})
	return end + 1, nil
}

// repeated adds the name between start and end to the set of names of top, the innermost object. It
// reports whether the object already had the name.
func (c *Checker) repeated(top *openValue, data []byte, start, end int, escaped bool) bool {
	if top.object == 0 {
		top.object = c.NewObject()
		for _, n := range c.names[top.names:] {
			c.AddName(top.object, data[n.start:n.end])
		}
	}
	name := data[start:end]
	if escaped {
		name = AppendUnescaped(nil, name)
	}
	return !c.AddName(top.object, name)
}

// nameMark returns a number computed from the length of a name and its first and last bytes.
func nameMark(name []byte) uint64 {
	if len(name) >= 8 {
		return longMark(binary.LittleEndian.Uint64(name), name, len(name), len(name))
	}
	var x uint64
	for i, b := range name {
		x |= uint64(b) << (8 * i)
	}
	return shortMark(x, len(name))
}

// shortMark is nameMark for a name of n < 8 bytes. They are the lowest bytes of x.
func shortMark(x uint64, n int) uint64 { return x<<(8*(8-n)) ^ uint64(n) }

// longMark is nameMark for a name of n >= 8 bytes. The first of them are x, and the last ones end at
// the offset end of data.
func longMark(x uint64, data []byte, end, n int) uint64 {
	return x ^ binary.LittleEndian.Uint64(data[end-8:])<<1 ^ uint64(n)
}

// NewObject returns a number that no object in c.big has.
func (c *Checker) NewObject() uint32 {
	c.objects++
	return c.objects
}

// AddName adds name to the object with the given number, which is from [Checker.NewObject]. It
// reports whether the name is new in that object.
func (c *Checker) AddName(object uint32, name []byte) bool { return c.big.add(object, name) }

// Reset discards all names, because they keep the input in memory.
func (c *Checker) Reset() {
	if cap(c.open) > KeepSlots {
		c.open, c.names = nil, nil
	}
	c.big.reset()
	c.objects = 0
}

// nameSet holds the names of many objects at once. Its hash is seeded, so that a peer cannot choose
// names that collide.
type nameSet struct {
	seed  maphash.Seed
	slots []nameSlot // a power of two, at most half of them taken
	taken int
}

// nameSlot is free if object is 0.
type nameSlot struct {
	object uint32
	hash   uint64
	name   []byte
}

// add adds a name of an object and reports whether it is new.
func (s *nameSet) add(object uint32, name []byte) bool {
	if 2*s.taken >= len(s.slots) {
		s.grow()
	}
	// The multiplier spreads the numbers of objects with equal names.
	hash := maphash.Bytes(s.seed, name) + uint64(object)*0x9E3779B97F4A7C15
	for i := hash; ; i++ {
		slot := &s.slots[i&uint64(len(s.slots)-1)]
		if slot.object == 0 {
			*slot = nameSlot{object, hash, name}
			s.taken++
			return true
		}
		if slot.hash == hash && slot.object == object && bytes.Equal(slot.name, name) {
			return false
		}
	}
}

func (s *nameSet) grow() {
	if s.slots == nil {
		s.seed = maphash.MakeSeed()
	}
	old := s.slots
	s.slots = make([]nameSlot, max(64, 2*len(old)))
	for _, o := range old {
		if o.object == 0 {
			continue
		}
		i := o.hash
		for s.slots[i&uint64(len(s.slots)-1)].object != 0 {
			i++
		}
		s.slots[i&uint64(len(s.slots)-1)] = o
	}
}

func (s *nameSet) reset() {
	if s.taken == 0 {
		return
	}
	s.taken = 0
	if len(s.slots) > KeepSlots {
		s.slots = nil
		return
	}
	clear(s.slots)
}

// HoldsNames reports whether c.big refers to any name.
func (c *Checker) HoldsNames() bool {
	for _, s := range c.big.slots {
		if s.name != nil {
			return true
		}
	}
	return false
}
