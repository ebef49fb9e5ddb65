package scan

import (
	"encoding/binary"
	"math/bits"
)

// Ahead looks at members of objects and elements of arrays before they are read, without checking
// them. It caches the ends of large values, so that nested unions do not scan the same bytes once
// per level. MaxDepth must be set.
type Ahead struct {
	MaxDepth int
	ends     map[int]int // maps starts to ends, for large arrays and objects
	open     []int       // scratch: starts of the arrays and objects being skipped
	scratch  []byte      // for names with escapes
}

// SmallValue is the size in bytes up to which scanning a value again is cheaper than storing its
// end.
const SmallValue = 256

// Reset discards what is stored about the text.
func (p *Ahead) Reset() {
	if len(p.ends) > KeepSlots {
		p.ends = nil
	}
	if len(p.ends) > 0 {
		clear(p.ends)
	}
	if cap(p.scratch) > KeepScratch {
		p.scratch = nil
	}
}

// Remembered returns the number of stored ends.
func (p *Ahead) Remembered() int { return len(p.ends) }

// Cursor iterates over the members of an object or the elements of an array.
type Cursor struct {
	Name  []byte // of the member, escapes decoded; valid until Next
	Value int    // offset of the value

	ahead *Ahead
	data  []byte
	begun bool
	start int
	end   int // after the value; 0 if it is not known
}

// Cursor returns a Cursor in front of the array or object that starts at i.
func (p *Ahead) Cursor(data []byte, i int) Cursor { return Cursor{ahead: p, data: data, start: i} }

// Next advances to the next member or element and reports whether it found one. It does not check
// the text.
func (c *Cursor) Next() bool {
	data := c.data
	i := c.start + 1
	if c.begun {
		i = SkipSpace(data, c.End())
		if i >= len(data) || data[i] != ',' {
			return false
		}
		i++
	}
	c.begun = true
	i = SkipSpace(data, i)
	if data[c.start] == '{' {
		if i >= len(data) || data[i] != '"' {
			return false
		}
		if end := nameEnd(data, i+1); end >= 0 {
			c.Name = data[i+1 : end]
			i = end + 1
		} else {
			end, escaped, err := String(data, i)
			if err != nil {
				return false
			}
			c.Name = data[i+1 : end-1]
			if escaped {
				c.ahead.scratch = AppendUnescaped(c.ahead.scratch[:0], c.Name)
				c.Name = c.ahead.scratch
			}
			i = SkipSpace(data, end)
		}
		if i >= len(data) || data[i] != ':' {
			return false
		}
		i = SkipSpace(data, i+1)
	}
	c.Value, c.end = i, 0
	return i < len(data) && StartsValue(data[i])
}

// End returns the offset after the value, without checking the value.
func (c *Cursor) End() int {
	if c.end == 0 {
		c.end = c.ahead.after(c.data, c.Value)
	}
	return c.end
}

// after returns the offset after the value that starts at i, without checking the value.
func (p *Ahead) after(data []byte, i int) int {
	switch data[i] {
	case '"':
		end, _ := SkipString(data, i)
		return end
	case '{', '[':
		return p.afterOpen(data, i)
	}
	return SkipWord(data, i)
}

// afterOpen is after for an array or an object. For a value nested deeper than MaxDepth it
// returns len(data): reading the value will fail, and storing the position of each bracket would
// take far more memory than the text.
func (p *Ahead) afterOpen(data []byte, i int) int {
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
			i, _ = SkipString(data, i)
			continue
		case '{', '[':
			if end, ok := p.ends[i]; ok {
				i = end
			} else if len(p.open) >= p.MaxDepth {
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

// remember stores that the innermost open value ends at i.
func (p *Ahead) remember(i int) {
	last := len(p.open) - 1
	start := p.open[last]
	p.open = p.open[:last]
	if i-start <= SmallValue {
		return
	}
	if p.ends == nil {
		p.ends = make(map[int]int)
	}
	p.ends[start] = i
}

// StartsValue reports whether a value may start with c.
func StartsValue(c byte) bool {
	switch c {
	case '{', '[', '"', 't', 'f', 'n', '-':
		return true
	}
	return IsDigit(c)
}
