package jsonschema

import (
	"cmp"
	"unicode/utf8"
)

// The functions in this file walk over text that is known to be well-formed. They find the ends of
// values and decode strings, but check nothing. Other text may make them panic, but not loop
// forever.

// space returns the offset of the first byte from i on that is not white space.
func space(data []byte, i int) int {
	for data[i] <= ' ' {
		i++
	}
	return i
}

// skip returns the offset after the value at i.
func skip(data []byte, i int) int {
	switch data[i] {
	case '"':
		return skipString(data, i)
	case '{', '[':
		for depth := 0; ; {
			switch data[i] {
			case '"':
				i = skipString(data, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	case 't', 'n':
		return i + 4
	case 'f':
		return i + 5
	}
	return skipNumber(data, i)
}

func skipString(data []byte, i int) int {
	for i++; ; i++ {
		switch data[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
}

func skipNumber(data []byte, i int) int {
	for i < len(data) {
		switch c := data[i]; {
		case '0' <= c && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			i++
		default:
			return i
		}
	}
	return i
}

// escaped reports whether there is an escape in string content.
func escaped(content []byte) bool {
	for _, c := range content {
		if c == '\\' {
			return true
		}
	}
	return false
}

// char returns the character at i of string content, its escape decoded, and the
// offset after it.
func char(content []byte, i int) (r rune, end int) {
	if content[i] != '\\' {
		r, size := utf8.DecodeRune(content[i:])
		return r, i + size
	}
	switch c := content[i+1]; c {
	case 'b':
		r = '\b'
	case 'f':
		r = '\f'
	case 'n':
		r = '\n'
	case 'r':
		r = '\r'
	case 't':
		r = '\t'
	case 'u':
		r = hex(content[i+2 : i+6])
		if 0xD800 <= r && r < 0xDC00 { // the other half follows
			low := hex(content[i+8 : i+12])
			return (r-0xD800)<<10 | (low - 0xDC00) + 0x10000, i + 12
		}
		return r, i + 6
	default:
		r = rune(c)
	}
	return r, i + 2
}

// order compares the decoded string content with s, as strings.Compare does.
func order(content []byte, s string) int {
	if !escaped(content) {
		switch { // these conversions do not allocate; one for a function call does
		case string(content) == s:
			return 0
		case string(content) < s:
			return -1
		}
		return 1
	}
	i, j := 0, 0
	for i < len(content) && j < len(s) {
		a, end := char(content, i)
		b, size := utf8.DecodeRuneInString(s[j:])
		if a != b { // UTF-8 keeps the order of characters
			return cmp.Compare(a, b)
		}
		i, j = end, j+size
	}
	return cmp.Compare(len(content)-i, len(s)-j)
}

func hex(digits []byte) (r rune) {
	for _, c := range digits {
		if c <= '9' {
			r = r<<4 | rune(c-'0')
		} else {
			r = r<<4 | rune(c|0x20-'a'+10)
		}
	}
	return r
}

// codePoints returns the length of the decoded string content in code points.
func codePoints(content []byte) (n int) {
	for i := 0; i < len(content); n++ {
		_, i = char(content, i)
	}
	return n
}
