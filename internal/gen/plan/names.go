package plan

import (
	"strings"
	"unicode"
)

// initialisms are the words that Go names write in capitals.
var initialisms = [...]string{"API", "HTML", "HTTP", "ID", "IDs", "JSON", "JSONRPC", "MIME", "TTL", "UI", "URI", "URIs", "URL", "URLs", "UTF"}

// goName returns the exported Go name for a name in a schema. Of a name with slashes, such as a
// metadata key with its prefix, it uses the part after the last slash.
func goName(name string) string {
	s := joined(name[strings.LastIndexByte(name, '/')+1:])
	if s == "" || !unicode.IsLetter(rune(s[0])) {
		return "X" + s
	}
	return s
}

// valueName returns the part of an enum constant's Go name after the name of its type.
func valueName(value string) string {
	s := joined(value)
	switch {
	case value == "":
		return "Empty"
	case s == "":
		return "X"
	case value[0] == '-' && isDigit(value[1]):
		return "Minus" + s
	}
	return s
}

// joined returns the words of a name as one Go word.
func joined(name string) string {
	var b strings.Builder
	for _, word := range words(name) {
		b.WriteString(goWord(word))
	}
	return b.String()
}

func goWord(word string) string {
	for _, in := range initialisms {
		if strings.EqualFold(word, in) {
			return in
		}
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

// words splits a name where its case changes, and at every character other than an ASCII letter or
// digit. A run of capitals is one word, except for its last letter if a lower-case letter follows.
func words(name string) []string {
	var out []string
	start := 0
	cut := func(end int) {
		if end > start {
			out = append(out, name[start:end])
		}
		start = end
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case !isAlnum(c):
			cut(i)
			start = i + 1
		case i > start && isUpper(c) && !isUpper(name[i-1]):
			cut(i)
		case i > start+1 && !isUpper(c) && !isDigit(c) && isUpper(name[i-1]) && isUpper(name[i-2]):
			cut(i - 1)
		}
	}
	cut(len(name))
	// A plural initialism reads as one word: URIs, not UR + Is.
	for i := 0; i+1 < len(out); i++ {
		for _, in := range initialisms {
			if out[i]+out[i+1] == in {
				out[i] = in
				out = append(out[:i+1], out[i+2:]...)
				break
			}
		}
	}
	return out
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlnum(c byte) bool { return isUpper(c) || isDigit(c) || 'a' <= c && c <= 'z' }
