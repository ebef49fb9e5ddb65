package codec

import (
	"bytes"
	"hash/maphash"
)

// checker walks over values without decoding them and finds every fault in them, names that appear twice
// included. It does not recurse, so depth costs heap, not stack. The zero checker is ready; maxDepth and
// maxString must be set.
type checker struct {
	maxDepth  int
	maxString int
	open      []openValue // arrays and objects entered and not yet left
	names     [][]byte    // the first names of all open objects, innermost last
	big       nameSet     // all names of objects with many
	used      bool        // some names were put in since reset
	objects   int         // counts objects that went into big, so that each has its own number
}

// openValue is an array or an object that the checker is inside of.
type openValue struct {
	close  byte
	names  int // where its names start in checker.names
	count  int // how many it has had
	object int // its number in checker.big, once it has one
}

// fewNames is how many names are compared one by one; an object with more goes to the set.
const fewNames = 16

// value checks the value at or after i, which has depth arrays and objects around it, and returns the offset
// after it, or the offset of the fault.
func (c *checker) value(data []byte, i, depth int) (end int, err error) {
	if c.open == nil {
		few := new(struct {
			open  [8]openValue
			names [fewNames][]byte
		})
		c.open, c.names = few.open[:0], few.names[:0]
	}
	c.open, c.names = c.open[:0], c.names[:0]
	for {
		i = skipSpace(data, i)
		if i >= len(data) {
			return i, ErrEOF
		}
		switch b := data[i]; b {
		case '{', '[':
			if depth+len(c.open) >= c.maxDepth {
				return i, ErrDepth
			}
			c.open = append(c.open, openValue{close: b + 2, names: len(c.names)})
			i = skipSpace(data, i+1)
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
			if i, _, err = scanString(data, i); err != nil {
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
		if i, err = c.afterValue(data, i); err != nil || len(c.open) == 0 {
			return i, err
		}
	}
}

// afterValue leaves all that closes at i and goes on to where the next value must start, if there is one.
func (c *checker) afterValue(data []byte, i int) (int, error) {
	for len(c.open) > 0 {
		top := &c.open[len(c.open)-1]
		i = skipSpace(data, i)
		switch {
		case i < len(data) && data[i] == top.close:
			i++
			c.names = c.names[:top.names]
			c.open = c.open[:len(c.open)-1]
		case i < len(data) && data[i] == ',':
			i = skipSpace(data, i+1)
			if top.close == '}' {
				return c.name(data, i)
			}
			return i, nil
		default:
			return i, unexpected(data, i, commaOr(top.close))
		}
	}
	return i, nil
}

func commaOr(close byte) string {
	if close == '}' {
		return "',' or '}'"
	}
	return "',' or ']'"
}

// name checks the member name at i and the colon after it, and that the innermost object has not had it.
func (c *checker) name(data []byte, i int) (end int, err error) {
	if i >= len(data) || data[i] != '"' {
		return i, unexpected(data, i, "a member name")
	}
	end, escaped, err := scanString(data, i)
	if err != nil {
		return end, err
	}
	name := data[i+1 : end-1]
	if len(name) > c.maxString {
		return i, ErrStringSize
	}
	if escaped {
		name = appendUnescaped(nil, name)
	}
	end = skipSpace(data, end)
	if end >= len(data) || data[end] != ':' {
		return end, unexpected(data, end, "':'")
	}
	if c.repeated(name) {
		return i, ErrDuplicate
	}
	return end + 1, nil
}

// repeated adds name to the innermost object and reports whether it was there.
func (c *checker) repeated(name []byte) bool {
	top := &c.open[len(c.open)-1]
	top.count++
	c.used = true
	if top.count <= fewNames {
		for _, n := range c.names[top.names:] {
			if bytes.Equal(n, name) {
				return true
			}
		}
		c.names = append(c.names, name)
		return false
	}
	if top.object == 0 {
		top.object = c.newObject()
		for _, n := range c.names[top.names:] {
			c.big.add(top.object, n)
		}
	}
	return !c.big.add(top.object, name)
}

// newObject returns a number that no object in c.big has.
func (c *checker) newObject() int {
	c.objects++
	return c.objects
}

// reset forgets all names, and with them the input they were part of.
func (c *checker) reset() {
	if c.used {
		clear(c.names[:cap(c.names)])
		c.used = false
	}
	c.names = c.names[:0]
	c.open = c.open[:0]
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
	object int
	hash   uint64
	name   []byte
}

// keepSlots is how many entries of a table are worth keeping from one message to the next.
const keepSlots = 1 << 10

// add puts a name of an object in and reports whether it is new.
func (s *nameSet) add(object int, name []byte) bool {
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
