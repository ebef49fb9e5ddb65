package scan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// AppendText appends s in quotes; ok is false, and nothing is appended, if s is not UTF-8.
func AppendText(dst []byte, s string) (out []byte, ok bool) {
	if out, ok = AppendPlain(append(dst, '"'), s); ok {
		return append(out, '"'), true
	}
	beyond := false
	if out, beyond = appendEscaped(append(dst, '"'), s); beyond && !(vectors && len(s) >= longContent && utf8Text(s) || utf8.ValidString(s)) {
		return dst, false
	}
	return append(out, '"'), true
}

// longText is the size in bytes above which checking a text first and copying it afterwards is
// faster than doing both in one pass.
const longText = 128

// AppendPlain appends s if it is ASCII and has nothing to escape. Otherwise ok is false, and
// nothing is appended.
func AppendPlain(dst []byte, s string) (out []byte, ok bool) {
	n := len(dst)
	if cap(dst)-n < len(s)+8 || len(s) > longText {
		if !isPlain(s) {
			return dst, false
		}
		return append(dst, s...), true
	}
	out = dst[:n+len(s)]
	if len(s) < 8 {
		for i := range len(s) {
			if escapes[s[i]] != 0 || s[i] >= utf8.RuneSelf {
				return dst, false
			}
			out[n+i] = s[i]
		}
		return out, true
	}
	last := load64(s[len(s)-8:])
	if stop(last) != 0 {
		return dst, false
	}
	binary.LittleEndian.PutUint64(out[len(out)-8:], last)
	for to := out[n:]; len(s) > 8 && len(to) > 8; s, to = s[8:], to[8:] {
		x := load64(s[:8])
		binary.LittleEndian.PutUint64(to, x)
		if stop(x) != 0 {
			return dst, false
		}
	}
	return out, true
}

// isPlain reports whether s is written as it is: ASCII, with nothing to escape.
func isPlain(s string) bool {
	i := 0
	if vectors {
		i = plainText(s)
	}
	for ; i+32 <= len(s); i += 32 {
		p := s[i : i+32]
		if stop(load64(p[:8]))|stop(load64(p[8:16]))|stop(load64(p[16:24]))|stop(load64(p[24:])) != 0 {
			return false
		}
	}
	for ; i+8 <= len(s); i += 8 {
		if stop(load64(s[i:i+8])) != 0 {
			return false
		}
	}
	for ; i < len(s); i++ {
		if escapes[s[i]] != 0 || s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// appendEscaped appends s, escaped where JSON requires it, and reports whether s has bytes beyond
// ASCII.
func appendEscaped(dst []byte, s string) (out []byte, beyond bool) {
	var seen uint64 // all bytes, combined with |
	n := len(dst)   // out[:n] is the text
	out = dst[:cap(dst)]
	for i := 0; ; {
		if len(out)-n < mostOfWord {
			out = append(out[:n], make([]byte, mostOfWord+(len(s)-i)*9/8)...)
			out = out[:cap(out)]
		}
		if vectors && len(s)-i > longText {
			written, read, high := escapeBlocks(out[n:], s[i:], &escapes)
			n, i = n+written, i+read
			if high {
				seen = highs
			}
		}
		for i+8 <= len(s) && n+mostOfWord <= len(out) {
			x := load64(s[i : i+8])
			binary.LittleEndian.PutUint64(out[n:], x) // later writes overwrite the excess
			seen |= x
			m := special(x)
			if m == 0 {
				i += 8
				n += 8
				continue
			}
			k := bits.TrailingZeros64(m) >> 3
			n += k
			e := escapes[byte(x>>(8*k))]
			binary.LittleEndian.PutUint64(out[n:], e)
			n += int(e >> 56)
			i += k + 1
		}
		switch {
		case i == len(s):
			return out[:n], seen&highs != 0
		case len(out)-n < mostOfWord:
			continue
		}
		seen |= uint64(s[i])
		out[n] = s[i]
		if e := escapes[s[i]]; e != 0 {
			binary.LittleEndian.PutUint64(out[n:], e)
			n += int(e >> 56)
		} else {
			n++
		}
		i++
	}
}

// mostOfWord is the room needed to write one word: 8 bytes for the word and 8 for an escape.
const mostOfWord = 8 + 8

// escapes has the escape of each character that must be escaped: its bytes in order, and their
// number in the topmost byte. The entries of other characters are 0.
var escapes = func() (table [256]uint64) {
	for c := range byte(' ') {
		const hex = "0123456789abcdef"
		table[c] = escape(`\u00` + string(hex[c>>4]) + string(hex[c&15]))
	}
	for c, s := range map[byte]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`} {
		table[c] = escape(s)
	}
	return table
}()

func escape(s string) uint64 {
	var text [8]byte
	copy(text[:], s)
	return binary.LittleEndian.Uint64(text[:]) | uint64(len(s))<<56
}

// load64 is binary.LittleEndian.Uint64 for a string.
func load64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func OnOneLine(value []byte) bool {
	return bytes.IndexByte(value, '\n') < 0 && bytes.IndexByte(value, '\r') < 0
}

// AppendCompact appends a raw value without the white space outside its strings.
func AppendCompact(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		if IsSpace(raw[i]) {
			i++
			continue
		}
		end := i + 1
		if raw[i] == '"' {
			end, _ = SkipString(raw, i)
		}
		dst = append(dst, raw[i:end]...)
		i = end
	}
	return dst
}
