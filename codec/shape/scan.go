package shape

import "unicode/utf8"

// The functions in this file walk over text that is known to be well-formed: they
// find ends and decode, and check nothing. Text that is not may make them panic, but
// not loop.

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

// unescape appends string content to dst with its escapes decoded.
func unescape(dst, content []byte) []byte {
	for i := 0; i < len(content); i++ {
		if content[i] != '\\' {
			dst = append(dst, content[i])
			continue
		}
		i++
		switch c := content[i]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex(content[i+1 : i+5])
			i += 4
			if 0xD800 <= r && r < 0xDC00 { // the other half follows
				r = (r-0xD800)<<10 | (hex(content[i+3:i+7]) - 0xDC00) + 0x10000
				i += 6
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func hex(digits []byte) (r rune) {
	for _, c := range digits {
		switch {
		case c <= '9':
			r = r<<4 | rune(c-'0')
		default:
			r = r<<4 | rune(c|0x20-'a'+10)
		}
	}
	return r
}

// codePoints returns the length of string content.
func codePoints(content []byte) (n int) {
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case c == '\\':
			i++
			if content[i] == 'u' {
				if r := hex(content[i+1 : i+5]); 0xD800 <= r && r < 0xDC00 {
					i += 6
				}
				i += 4
			}
			n++
		case utf8.RuneStart(c):
			n++
		}
	}
	return n
}
