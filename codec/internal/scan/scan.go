package scan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// The functions in this file implement the grammar of RFC 8259 and hold no state. Together with an
// error they return the offset of the fault in place of the end.

// SkipSpace returns the offset of the first byte from i on that is not white space (section 2).
func SkipSpace(data []byte, i int) int {
	for i < len(data) && IsSpace(data[i]) {
		i++
	}
	return i
}

func IsSpace(c byte) bool { return c <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t') }

func IsDigit(c byte) bool { return c-'0' < 10 }

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// marks marks the bytes of x that are c. The lowest mark is always right; marks above it may be
// false.
func marks(x uint64, c byte) uint64 {
	x ^= ones * uint64(c)
	return (x - ones) &^ x & highs
}

// brackets marks the bytes of x that are brackets or braces, as marks does. It also marks some
// other bytes, which JSON has only in strings.
func brackets(x uint64) uint64 { return marks(x&(ones*0xD9), '['&0xD9) }

// special marks bytes of x that end a run of plain string content: quotes, backslashes and control
// characters. The lowest mark is always right; marks above it may be false.
func special(x uint64) uint64 {
	quote := x ^ ones*'"'
	slash := x ^ ones*'\\'
	return ((x-ones*0x20)&^x | (quote-ones)&^quote | (slash-ones)&^slash) & highs
}

// stop marks the bytes of x at which plain string content ends: quotes, backslashes, control
// characters and bytes beyond ASCII. The lowest mark is always right; marks above it may be false.
// It does the work of special and tests the high bits in fewer steps: among bytes below 0x80,
// subtracting one sets the high bit of zero alone.
func stop(x uint64) uint64 {
	return (x | (x - ones*0x20) | (x ^ ones*'"' - ones) | (x ^ ones*'\\' - ones)) & highs
}

// Plain is a fast path. It returns the offset of the quote that ends the string content at i, if
// the content is ASCII without escapes. For other content it returns -1.
func Plain(data []byte, i int) int {
	long := i + 64
	for i+8 <= len(data) {
		if m := stop(binary.LittleEndian.Uint64(data[i:])); m != 0 {
			return closing(data, i+bits.TrailingZeros64(m)>>3)
		}
		if i += 8; i >= long {
			i, long = plainLong(data, i), len(data)
		}
	}
	for i < len(data) && data[i]-' ' < utf8.RuneSelf-' ' && data[i] != '"' && data[i] != '\\' {
		i++
	}
	if i < len(data) {
		return closing(data, i)
	}
	return -1
}

// plainLong skips long plain content from i on, blocks or four words at a time.
func plainLong(data []byte, i int) int {
	if vectors {
		i += plainBytes(data[i:])
	}
	for i+32 <= len(data) {
		a, b := binary.LittleEndian.Uint64(data[i:]), binary.LittleEndian.Uint64(data[i+8:])
		c, d := binary.LittleEndian.Uint64(data[i+16:]), binary.LittleEndian.Uint64(data[i+24:])
		if stop(a)|stop(b)|stop(c)|stop(d) != 0 {
			break
		}
		i += 32
	}
	return i
}

// nameEnd is a fast path. It returns the offset of the quote that ends the member name whose
// content starts at i, if the name has no escapes and a colon follows directly. Otherwise, or near
// the end of the data, it returns -1. It does not check the name further.
func nameEnd(data []byte, i int) int {
	for ; i+8 <= len(data); i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		m := marks(x, '"') | marks(x, '\\')
		if m == 0 {
			continue
		}
		if i += bits.TrailingZeros64(m) >> 3; data[i] == '"' && i+1 < len(data) && data[i+1] == ':' {
			return i
		}
		break
	}
	return -1
}

// closing returns i if data[i] is a quote, and -1 otherwise.
func closing(data []byte, i int) int {
	if data[i] == '"' {
		return i
	}
	return -1
}

// String checks the string that opens with the quote at i. It returns the offset after the closing
// quote, and whether the string has escapes (section 7).
func String(data []byte, i int) (end int, escaped bool, err error) {
	start := i + 1
	end, beyond, escaped, err := scanContent(data, start)
	if beyond {
		if bad := BadUTF8(data[start:end]); bad >= 0 {
			return start + bad, escaped, jsonfault.UTF8
		}
	}
	if err == nil {
		end++
	}
	return end, escaped, err
}

// Run returns the offset of the first quote, backslash or control character from i on, or the
// length of the data, and whether there may be bytes beyond ASCII before it.
func Run(data []byte, i int) (end int, beyond bool) {
	var seen uint64 // all bytes, one over the other
	long := i + longContent
	for i+8 <= len(data) {
		x := binary.LittleEndian.Uint64(data[i:])
		seen |= x
		if m := special(x); m != 0 {
			return i + bits.TrailingZeros64(m)>>3, seen&highs != 0
		}
		if i += 8; vectors && i >= long && seen&highs == 0 {
			i, long = i+plainBytes(data[i:]), len(data)
		}
	}
	for i < len(data) && data[i] >= ' ' && data[i] != '"' && data[i] != '\\' {
		seen |= uint64(data[i])
		i++
	}
	return i, seen&highs != 0
}

// scanContent checks string content, except for its encoding, and returns the offset of the closing
// quote, whether there may be bytes beyond ASCII before it, and whether there are escapes.
func scanContent(data []byte, i int) (end int, beyond, escaped bool, err error) {
	var seen uint64 // all bytes, one over the other
	long := i + longContent
	for {
		for i+8 <= len(data) {
			if vectors && i >= long {
				n, high, short := contentBlocks(data[i:], &short)
				if high {
					seen = highs
				}
				i, long, escaped = i+n, len(data), escaped || short
				continue
			}
			x := binary.LittleEndian.Uint64(data[i:])
			seen |= x
			if m := special(x); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(data) {
			return len(data), seen&highs != 0, escaped, jsonfault.EOF
		}
		switch c := data[i]; {
		case c == '"':
			return i, seen&highs != 0, escaped, nil
		case c == '\\':
			escaped = true
			if i+1 < len(data) && short[data[i+1]] != 0 {
				i += 2
			} else if i, err = scanEscape(data, i); err != nil {
				return i, seen&highs != 0, escaped, err
			} else {
				long = i + longContent // vector code stops here, and more such escapes may follow
			}
		case c < ' ':
			return i, seen&highs != 0, escaped, jsonfault.ControlChar
		default:
			seen |= uint64(c)
			i++
		}
	}
}

// longContent is the size in bytes from which on vector instructions are used.
const longContent = 64

// BadUTF8 returns the index of the first byte that is not UTF-8, or -1.
func BadUTF8(s []byte) int {
	if vectors && len(s) >= longContent && utf8Bytes(s) || utf8.Valid(s) {
		return -1
	}
	i := 0
	for {
		r, n := utf8.DecodeRune(s[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
}

// short maps the byte after a backslash to the character that the escape stands for.
var short = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// DecodeContent checks string content as scanContent does, and appends the decoded content to dst.
func DecodeContent(dst, data []byte, i int) (out []byte, end int, beyond bool, err error) {
	var seen uint64 // all bytes, one over the other
	n := len(dst)   // how much of out is text
	out = dst[:cap(dst)]
	for {
		// The loop below stops when less than 8 bytes of room are left. A character must still fit
		// then.
		if n+8+utf8.UTFMax > len(out) {
			more := make([]byte, min(2*len(out)+1024, n+len(data)-i+16))
			copy(more, out[:n])
			out = more
		}
		for i+9 <= len(data) && n+8 <= len(out) {
			x := binary.LittleEndian.Uint64(data[i:])
			binary.LittleEndian.PutUint64(out[n:], x) // later writes overwrite the excess
			seen |= x
			m := special(x)
			if m == 0 {
				i += 8
				n += 8
				continue
			}
			k := bits.TrailingZeros64(m) >> 3
			i += k
			n += k
			c := short[data[i+1]]
			if data[i] != '\\' || c == 0 {
				break
			}
			out[n] = c
			i += 2
			n++
		}
		switch {
		case i >= len(data):
			return out[:n], i, seen&highs != 0, jsonfault.EOF
		case n+utf8.UTFMax > len(out):
			continue // to make room
		}
		switch c := data[i]; {
		case c == '"':
			return out[:n], i, seen&highs != 0, nil
		case c < ' ':
			return out[:n], i, seen&highs != 0, jsonfault.ControlChar
		case c != '\\':
			seen |= uint64(c)
			out[n] = c
			i++
			n++
		case i+1 < len(data) && short[data[i+1]] != 0:
			out[n] = short[data[i+1]]
			i += 2
			n++
		default:
			r, end, err := decodeEscape(data, i)
			if err != nil {
				return out[:n], end, seen&highs != 0, err
			}
			i = end
			n += utf8.EncodeRune(out[n:], r)
		}
	}
}

// scanEscape checks the escape whose backslash is at i and returns the offset after it. The two
// escapes of a surrogate pair count as one.
func scanEscape(data []byte, i int) (end int, err error) {
	if i+1 < len(data) && short[data[i+1]] != 0 {
		return i + 2, nil
	}
	_, end, err = decodeEscape(data, i)
	return end, err
}

// decodeEscape is scanEscape for an escape that is not short. It also returns the character.
func decodeEscape(data []byte, i int) (r rune, end int, err error) {
	switch {
	case i+1 >= len(data):
		return 0, len(data), jsonfault.EOF
	case data[i+1] != 'u':
		return 0, i, jsonfault.Escape
	}
	r, n := hex4(data[i+2:])
	switch end = i + 6; {
	case n < 4 && i+2+n == len(data):
		return 0, len(data), jsonfault.EOF
	case n < 4:
		return 0, i, jsonfault.Escape
	case r < 0xD800 || r > 0xDFFF:
		return r, end, nil
	case r >= 0xDC00:
		return 0, i, jsonfault.Surrogate
	case end == len(data):
		return 0, end, jsonfault.EOF
	case data[end] != '\\':
		return 0, i, jsonfault.Surrogate
	case end+1 == len(data):
		return 0, end + 1, jsonfault.EOF
	case data[end+1] != 'u':
		return 0, i, jsonfault.Surrogate
	}
	low, n := hex4(data[end+2:])
	switch {
	case n < 4 && end+2+n == len(data):
		return 0, len(data), jsonfault.EOF
	case n < 4:
		return 0, end, jsonfault.Escape
	case low < 0xDC00 || low > 0xDFFF:
		return 0, i, jsonfault.Surrogate
	}
	return (r-0xD800)<<10 | (low - 0xDC00) + 0x10000, end + 6, nil
}

// hexValues has the values of hexadecimal digits plus one, and 0 for all other bytes.
var hexValues = [256]uint8{
	'0': 1, '1': 2, '2': 3, '3': 4, '4': 5, '5': 6, '6': 7, '7': 8, '8': 9, '9': 10,
	'a': 11, 'b': 12, 'c': 13, 'd': 14, 'e': 15, 'f': 16,
	'A': 11, 'B': 12, 'C': 13, 'D': 14, 'E': 15, 'F': 16,
}

// hex4 reads up to four hexadecimal digits and returns their value and their number.
func hex4(data []byte) (v rune, n int) {
	for n < 4 && n < len(data) {
		d := hexValues[data[n]]
		if d == 0 {
			return v, n
		}
		v = v<<4 | rune(d-1)
		n++
	}
	return v, n
}

// AppendUnescaped appends s with its escapes decoded. s must be content of a string that String
// accepts.
func AppendUnescaped(dst, s []byte) []byte {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		s = s[i:]
		if c := short[s[1]]; c != 0 {
			dst = append(dst, c)
			s = s[2:]
			continue
		}
		r, end, _ := decodeEscape(s, 0)
		dst = utf8.AppendRune(dst, r)
		s = s[end:]
	}
}

// Number checks the number that starts at i and returns the offset after it, and whether it is
// digits only, without fraction and exponent (section 6).
func Number(data []byte, i int) (end int, digits bool, err error) {
	start := i
	if data[i] == '-' {
		i++
	}
	if i < len(data) && data[i] == '0' {
		i++
		if i < len(data) && IsDigit(data[i]) {
			return start, false, jsonfault.Number
		}
	} else if i, err = scanDigits(data, i); err != nil {
		return numberFault(data, start, i)
	}
	digits = true
	if i < len(data) && data[i] == '.' {
		digits = false
		if i, err = scanDigits(data, i+1); err != nil {
			return numberFault(data, start, i)
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		digits = false
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		if i, err = scanDigits(data, i); err != nil {
			return numberFault(data, start, i)
		}
	}
	return i, digits, nil
}

// scanDigits returns the offset after the digits at i. It fails if there are none.
func scanDigits(data []byte, i int) (end int, err error) {
	start := i
	for i < len(data) && IsDigit(data[i]) {
		i++
	}
	if i == start {
		return i, jsonfault.Number
	}
	return i, nil
}

// numberFault returns the results of Number for a malformed number that starts at start and was
// read up to i. The fault is at the start of the number, or at i if the text ends there.
func numberFault(data []byte, start, i int) (int, bool, error) {
	if i == len(data) {
		return i, false, jsonfault.EOF
	}
	return start, false, jsonfault.Number
}

// Literal checks that lit is at i and returns the offset after it (section 3).
func Literal(data []byte, i int, lit string) (end int, err error) {
	rest := data[i:]
	if len(rest) >= len(lit) {
		if string(rest[:len(lit)]) == lit {
			return i + len(lit), nil
		}
	} else if string(rest) == lit[:len(rest)] {
		return len(data), jsonfault.EOF
	}
	return i, jsonfault.Literal
}
