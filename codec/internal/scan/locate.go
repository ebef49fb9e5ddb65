package scan

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Position returns the line and the column of the byte at an offset, both counted from 1. An offset
// beyond the end counts as the end.
func Position(data []byte, offset int) (line, col int) {
	data = data[:min(max(offset, 0), len(data))]
	return bytes.Count(data, []byte{'\n'}) + 1, len(data) - bytes.LastIndexByte(data, '\n')
}

// Locate returns the offset of the value that a JSON pointer (RFC 6901) leads to; ok is false if
// there is none. The text should be well formed; if a name appears twice, the first counts.
func Locate(data []byte, pointer string) (offset int, ok bool) {
	ahead := Ahead{MaxDepth: math.MaxInt}
	i := SkipSpace(data, 0)
	if pointer != "" {
		if pointer[0] != '/' {
			return 0, false
		}
		for token := range strings.SplitSeq(pointer[1:], "/") {
			if i, ok = ahead.child(data, i, unescapeToken(token)); !ok {
				return 0, false
			}
		}
	}
	return i, i < len(data)
}

// child returns the offset of the member or element that token names in the value at i.
func (p *Ahead) child(data []byte, i int, token string) (at int, ok bool) {
	if i >= len(data) || data[i] != '{' && data[i] != '[' {
		return 0, false
	}
	array := data[i] == '['
	n := 0
	for c := p.Cursor(data, i); c.Next(); n++ {
		if array && strconv.Itoa(n) == token || !array && string(c.Name) == token {
			return c.Value, true
		}
	}
	return 0, false
}

// step is an array or an object on the path to an offset.
type step struct {
	object bool
	due    bool   // a name or a value comes next: it was just entered, or a comma was read
	inside bool   // the offset is in a member or element of it, not between two
	name   []byte // of the current member, between its quotes
	index  int    // of the current element
}

// PointerTo returns the JSON pointer of the value at offset, or of the member whose name is there.
// Between values it returns the pointer of the array or object around offset. The text before
// offset should be well formed.
func PointerTo(data []byte, offset int) string {
	var path []step
	top := &step{} // stands for the whole text and adds no token
	root := top
	enter := func() { // a name or a value begins
		if top.due && !top.object {
			top.inside = true
		}
		top.due = false
	}
	leave := func() { top.inside = false } // a value has ended
	i := 0
walk:
	for i < offset && i < len(data) {
		switch c := data[i]; c {
		case ' ', '\t', '\n', '\r':
			i++
		case '{', '[':
			enter()
			path = append(path, step{object: c == '{', due: true})
			top = &path[len(path)-1]
			i++
		case '}', ']':
			if len(path) > 0 {
				path = path[:len(path)-1]
			}
			top = root
			if len(path) > 0 {
				top = &path[len(path)-1]
			}
			leave()
			i++
		case ',':
			top.index++
			top.due = true
			top.inside = !top.object
			i++
		case ':':
			top.inside = true
			i++
		case '"':
			end, closed := SkipString(data, i)
			name := top.object && !top.inside
			enter()
			if end > offset || !closed {
				break walk
			}
			if name {
				top.name = data[i+1 : end-1]
			} else {
				leave()
			}
			i = end
		default:
			enter()
			if i = SkipWord(data, i); i > offset || i == len(data) {
				break walk
			}
			leave()
		}
	}
	if i == offset && i < len(data) {
		switch c := data[i]; {
		case top.object && top.due && c == '"':
			if end, closed := SkipString(data, i); closed {
				top.name = data[i+1 : end-1]
				top.inside = true
			}
		case !top.object && c != ']' && c != ',':
			enter()
		}
	}
	var p []byte
	for _, s := range path {
		if !s.inside {
			break
		}
		p = append(p, '/')
		if s.object {
			p = appendToken(p, s.name)
		} else {
			p = strconv.AppendInt(p, int64(s.index), 10)
		}
	}
	return string(p)
}

// appendToken appends a member name as a token of a JSON pointer. The name may have JSON escapes.
func appendToken(dst, name []byte) []byte {
	if bytes.IndexByte(name, '\\') >= 0 {
		quoted := append(append([]byte{'"'}, name...), '"')
		if end, _, err := String(quoted, 0); err == nil && end == len(quoted) {
			name = AppendUnescaped(nil, name)
		}
	}
	return EscapeToken(dst, name)
}

// EscapeToken appends a member name as a token of a JSON pointer.
func EscapeToken(dst, name []byte) []byte {
	for _, c := range name {
		switch c {
		case '~':
			dst = append(dst, "~0"...)
		case '/':
			dst = append(dst, "~1"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// unescapeToken reverses EscapeToken.
func unescapeToken(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// The functions below find the end of strings, numbers and literals without checking them. They are
// for text that is checked before or afterwards.

// SkipString returns the offset after the string that starts at i, and whether the string has a
// closing quote.
func SkipString(data []byte, i int) (end int, closed bool) {
	long := i + longContent
	for i++; i < len(data); {
		if vectors && i >= long {
			n, _, _ := contentBlocks(data[i:], &short)
			i += n
			long = i + longContent // contentBlocks may have stopped at an escape
			continue
		}
		if i+8 <= len(data) {
			x := binary.LittleEndian.Uint64(data[i:])
			m := marks(x, '"') | marks(x, '\\')
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) >> 3
		}
		switch data[i] {
		case '"':
			return i + 1, true
		case '\\':
			i++
		}
		i++
	}
	return len(data), false
}

// SkipWord returns the offset after the number or literal that starts at i. The result is always
// greater than i.
func SkipWord(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case ' ', '\t', '\n', '\r', ',', ':', '[', ']', '{', '}', '"':
			return i
		}
	}
	return i
}
