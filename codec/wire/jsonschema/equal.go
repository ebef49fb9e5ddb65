package jsonschema

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// equals reports whether the value at i equals the JSON value in text. It compares numbers by
// value, strings by their decoded content, and objects regardless of the order of members.
func equals(data []byte, i int, text string) bool {
	switch {
	case data[i] != '"' && text[0] != '"':
		return same(data, i, []byte(text), 0)
	case data[i] != text[0]:
		return false
	}
	end := skipString(data, i)
	switch {
	case string(data[i:end]) == text:
		return true
	case strings.IndexByte(text, '\\') < 0:
		return order(data[i+1:end-1], text[1:len(text)-1]) == 0
	}
	return sameString(data[i:end], []byte(text))
}

// same reports whether the values at a[i] and b[j] are equal.
func same(a []byte, i int, b []byte, j int) bool {
	if number := a[i] < 'A' && a[i] != '"'; number {
		return b[j] < 'A' && b[j] != '"' &&
			parseNumber(a[i:skipNumber(a, i)]).compare(parseNumber(b[j:skipNumber(b, j)])) == 0
	}
	if a[i] != b[j] {
		return false
	}
	switch a[i] {
	case '"':
		return sameString(a[i:skipString(a, i)], b[j:skipString(b, j)])
	case '[':
		i, j = space(a, i+1), space(b, j+1)
		for a[i] != ']' && b[j] != ']' {
			if !same(a, i, b, j) {
				return false
			}
			i, j = next(a, skip(a, i)), next(b, skip(b, j))
		}
		return a[i] == b[j]
	case '{':
		return members(a, i) == members(b, j) && contains(a, i, b, j)
	}
	return true // true, false and null differ in the first byte
}

// sameString reports whether two strings, given with their quotes, have the same decoded content.
func sameString(a, b []byte) bool {
	a, b = a[1:len(a)-1], b[1:len(b)-1]
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		var r, s rune
		r, i = char(a, i)
		if s, j = char(b, j); r != s {
			return false
		}
	}
	return i == len(a) && j == len(b)
}

// contains reports whether the object at a[i] has all members of the one at b[j].
func contains(a []byte, i int, b []byte, j int) bool {
	for j = space(b, j+1); b[j] != '}'; {
		name := j
		j = skipString(b, j)
		value := colon(b, j)
		at := space(a, i+1)
		for {
			if a[at] == '}' {
				return false
			}
			end := skipString(a, at)
			if sameString(a[at:end], b[name:j]) {
				if !same(a, colon(a, end), b, value) {
					return false
				}
				break
			}
			at = next(a, skip(a, colon(a, end)))
		}
		j = next(b, skip(b, value))
	}
	return true
}

// members returns the number of members of the object at i.
func members(data []byte, i int) (n int) {
	for i = space(data, i+1); data[i] != '}'; n++ {
		i = next(data, skip(data, colon(data, skipString(data, i))))
	}
	return n
}

// colon returns the offset of the value after a member name that ends at i.
func colon(data []byte, i int) int { return space(data, space(data, i)+1) }

// next returns the offset of the next item or member after one that ends at i, or of the byte that
// closes the array or object.
func next(data []byte, i int) int {
	i = space(data, i)
	if data[i] == ',' {
		i = space(data, i+1)
	}
	return i
}

// content returns the decoded content of a JSON string, given without its quotes.
func content(text []byte) []byte {
	if !escaped(text) {
		return text
	}
	var out []byte
	for i := 0; i < len(text); {
		var r rune
		r, i = char(text, i)
		out = utf8.AppendRune(out, r)
	}
	return out
}

// canonical appends to out a text that is equal for equal values, and returns the offset after the
// value at i. Numbers are their digits and exponent, and members are sorted.
func canonical(out, data []byte, i int) ([]byte, int) {
	switch data[i] {
	case '"':
		end := skipString(data, i)
		return strconv.AppendQuote(out, string(content(data[i+1:end-1]))), end
	case '[':
		out = append(out, '[')
		for i = space(data, i+1); data[i] != ']'; {
			out, i = canonical(out, data, i)
			out = append(out, ',')
			i = next(data, i)
		}
		return append(out, ']'), i + 1
	case '{':
		var members []string
		for i = space(data, i+1); data[i] != '}'; {
			var member []byte
			member, i = canonical(nil, data, i)
			member, i = canonical(append(member, ':'), data, colon(data, i))
			members = append(members, string(member))
			i = next(data, i)
		}
		slices.Sort(members)
		return append(append(append(out, '{'), strings.Join(members, ",")...), '}'), i + 1
	case 't', 'f', 'n':
		return append(out, data[i]), skip(data, i)
	}
	end := skipNumber(data, i)
	n := parseNumber(data[i:end])
	if n.sign() < 0 {
		out = append(out, '-')
	}
	out = append(append(append(out, n.whole...), n.frac...), 'e')
	if n.digits() > 0 {
		out = strconv.AppendInt(out, n.exp, 10)
	}
	return out, end
}
