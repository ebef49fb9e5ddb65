package codec

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// checker walks over values without decoding them and finds every fault in them, names that appear twice
// included. It does not recurse, so depth costs heap, not stack. The zero checker is ready; maxDepth and
// maxString must be set.
type checker struct {
	maxDepth  int
	maxString int
	open      []openValue // arrays and objects entered and not yet left
	names     []nameAt    // the first names of all open objects, innermost last
	big       nameSet     // all names of objects with many
	objects   uint32      // counts objects that went into big, so that each has its own number
}

// openValue is an array or an object that the checker is inside of.
type openValue struct {
	close  byte
	names  uint32 // where its names start in checker.names
	count  uint32 // how many it has had
	object uint32 // its number in checker.big, once it has one
}

// nameAt is a member name by its place in the text, where it stands without escapes.
type nameAt struct {
	mark       uint64 // different marks, different names
	start, end int
}

// fewNames is how many names are compared one by one; an object with more goes to the set.
const fewNames = 16

// value checks the value at or after i, which has depth arrays and objects around it, and returns the offset
// after it, or the offset of the fault.
func (c *checker) value(data []byte, i, depth int) (end int, err error) {
	c.open, c.names = c.open[:0], c.names[:0]
	for {
		if i >= len(data) || data[i] <= ' ' {
			if i = skipSpace(data, i); i >= len(data) {
				return i, ErrEOF
			}
		}
		switch b := data[i]; b {
		case '{', '[':
			if depth+len(c.open) >= c.maxDepth {
				return i, ErrDepth
			}
			c.open = append(c.open, openValue{close: b + 2, names: uint32(len(c.names))})
			if i++; i >= len(data) || data[i] <= ' ' {
				i = skipSpace(data, i)
			}
			if i < len(data) && data[i] == b+2 {
				break // it is left below
			}
			if b == '{' {
				if i, err = c.name(data, i); err != nil {
					return i, err
				}
			}
			continue
		case '"':
			start := i
			if last := plain(data, i+1); last >= 0 {
				i = last + 1
			} else if i, _, err = scanString(data, i); err != nil {
				return i, err
			}
			if i-start-2 > c.maxString {
				return start, ErrStringSize
			}
		case 't':
			i, err = scanLiteral(data, i, "true")
		case 'f':
			i, err = scanLiteral(data, i, "false")
		case 'n':
			i, err = scanLiteral(data, i, "null")
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			i, _, err = scanNumber(data, i)
		default:
			err = unexpected(data, i, "a value")
		}
		if err != nil {
			return i, err
		}
		// Leave all that ends here, and go on to the next value if there is one.
		for {
			n := len(c.open) - 1
			if n < 0 {
				return i, nil
			}
			if i < len(data) && data[i] <= ' ' {
				i = skipSpace(data, i)
			}
			top := &c.open[n]
			if i >= len(data) || data[i] != ',' && data[i] != top.close {
				return i, unexpected(data, i, commaOr(top.close))
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

func commaOr(close byte) string {
	if close == '}' {
		return "',' or '}'"
	}
	return "',' or ']'"
}

// name checks the member name at or after i and the colon after it, and that the innermost object has not had it.
func (c *checker) name(data []byte, i int) (end int, err error) {
	if i < len(data) && data[i] <= ' ' {
		i = skipSpace(data, i)
	}
	if i >= len(data) || data[i] != '"' {
		return i, unexpected(data, i, "a member name")
	}
	escaped := false
	last := plain(data, i+1)
	if last < 0 {
		if last, escaped, err = scanString(data, i); err != nil {
			return last, err
		}
		last--
	}
	if last-i-1 > c.maxString {
		return i, ErrStringSize
	}
	end = last + 1
	if end >= len(data) || data[end] != ':' {
		if end = skipSpace(data, end); end >= len(data) || data[end] != ':' {
			return end, unexpected(data, end, "':'")
		}
	}
	if c.repeated(data, i+1, last, escaped) {
		return i, ErrDuplicate
	}
	return end + 1, nil
}

// repeated adds the name between start and end to the innermost object and reports whether it was there.
func (c *checker) repeated(data []byte, start, end int, escaped bool) bool {
	top := &c.open[len(c.open)-1]
	top.count++
	if top.object == 0 && top.count <= fewNames && !escaped {
		name := nameAt{nameMark(data, start, end), start, end}
		for _, n := range c.names[top.names:] {
			if n.mark == name.mark && bytes.Equal(data[n.start:n.end], data[start:end]) {
				return true
			}
		}
		c.names = append(c.names, name)
		return false
	}
	if top.object == 0 {
		top.object = c.newObject()
		for _, n := range c.names[top.names:] {
			c.big.add(top.object, data[n.start:n.end])
		}
	}
	name := data[start:end]
	if escaped {
		name = appendUnescaped(nil, name)
	}
	return !c.big.add(top.object, name)
}

// nameMark is a number made of the length of a name and the bytes it starts and ends with.
func nameMark(data []byte, start, end int) uint64 {
	n := end - start
	if n >= 8 {
		return binary.LittleEndian.Uint64(data[start:]) ^ binary.LittleEndian.Uint64(data[end-8:])<<1 ^ uint64(n)
	}
	var first uint64
	if start+8 <= len(data) {
		first = binary.LittleEndian.Uint64(data[start:])
	} else {
		for i, b := range data[start:end] {
			first |= uint64(b) << (8 * i)
		}
	}
	return first<<(8*(8-n)) ^ uint64(n)
}

// newObject returns a number that no object in c.big has.
func (c *checker) newObject() uint32 {
	c.objects++
	return c.objects
}

// reset forgets all names, and with them the input they were part of.
func (c *checker) reset() {
	if cap(c.open) > keepSlots {
		c.open, c.names = nil, nil
	}
	c.big.reset()
	c.objects = 0
}

// nameSet holds the names of many objects at once. Its hash is seeded, so that nobody can choose names that
// collide.
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

// keepSlots is how many entries of a table are worth keeping from one message to the next.
const keepSlots = 1 << 10

// add puts a name of an object in and reports whether it is new.
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
	if len(s.slots) > keepSlots {
		s.slots = nil
		return
	}
	clear(s.slots)
}
