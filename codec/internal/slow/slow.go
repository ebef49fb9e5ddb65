// Package slow has simple counterparts of the fast string code, and texts that are hard for it. It
// is for tests.
package slow

import (
	"strings"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/internal/hostile"
)

const hexDigits = "0123456789abcdefABCDEF"

// Odd has the byte sequences that the fast code for texts looks for, and some similar ones that it
// must not confuse with them.
var Odd = []string{
	`"`, `\`, "\x00", "\x1f", "\n", " ", "\x7f", "]", "#", `\"`, `\\`, `\n`, `\u0041`, `\ud83c\udf0a`, `\x`, `\ud800`, "é", "灯", "🌊", "\u0080", "\u0800", "\ud7ff",
	"\ue000", "\U00010000", "\U0010ffff", "\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe7\x81", "\xef\xbf",
	"\xf0\x8f\xbf\xbf", "\xf0\x9f\x8c", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "é\x80", "灯\xbf", "🌊\x80",
}

// EscapeShapes are endings of string content that need different amounts of room in the buffer: the
// empty string, short escapes, escaped characters of one to four bytes, and several of these after
// runs of plain text.
var EscapeShapes = []string{
	``, `\n`, `\u0041`, `\u00e9`, `\u65e5`, `\ud83d\ude00`, `é日😀`,
	`\nab\n1234567\u65e5`, `\n\u65e5\n\u65e5`, `\u65e5\u672c\u8a9e`, `\n1234567\ud83d\ude00`,
	`\n\n\n\n\n\n\n\n\u65e5`, `\n12345678\u65e5\n1234567\u65e5\n123456\u65e5`,
}

// Escape returns the text that Writer.Text writes for s.
func Escape(s string) string {
	const hex = "0123456789abcdef"
	b := []byte{'"'}
	for i := range len(s) {
		c := s[i]
		if at := strings.IndexByte("\"\\\b\f\n\r\t", c); at >= 0 {
			b = append(b, '\\', `"\bfnrt`[at])
		} else if c < ' ' {
			b = append(b, `\u00`...)
			b = append(b, hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

// String does what scan.String does, one character at a time. It returns the rule that the string
// breaks, or hostile.Taken.
func String(text string) (end int, rule hostile.Rule) {
	i := 1
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '"':
			return i + 1, hostile.Taken
		case r < ' ':
			return i, hostile.ControlChar
		case r == utf8.RuneError && n == 1:
			return i, hostile.UTF8
		case r != '\\':
			i += n
			continue
		}
		if i+1 == len(text) {
			break
		}
		if strings.IndexByte(`"\/bfnrt`, text[i+1]) >= 0 {
			i += 2
			continue
		}
		if text[i+1] != 'u' {
			return i, hostile.Escape
		}
		unit := func(at int) (v int, end bool, ok bool) {
			for _, want := range []string{`\`, "u", hexDigits, hexDigits, hexDigits, hexDigits} {
				if at == len(text) {
					return 0, true, false
				}
				d := strings.IndexByte(want, text[at])
				if d < 0 {
					return 0, false, false
				}
				if len(want) > 1 {
					if d > 15 {
						d -= 6
					}
					v = v<<4 | d
				}
				at++
			}
			return v, false, true
		}
		high, ended, ok := unit(i)
		switch {
		case ended:
			return len(text), hostile.EOF
		case !ok:
			return i, hostile.Escape
		case high < 0xD800 || high > 0xDFFF:
			i += 6
			continue
		case high >= 0xDC00:
			return i, hostile.Surrogate
		}
		low, ended, ok := unit(i + 6)
		switch {
		case ended:
			return len(text), hostile.EOF
		case !ok && strings.HasPrefix(text[i+6:], `\u`):
			return i + 6, hostile.Escape
		case !ok || low < 0xDC00 || low > 0xDFFF:
			return i, hostile.Surrogate
		}
		i += 12
	}
	return len(text), hostile.EOF
}
