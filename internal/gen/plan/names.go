package plan

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// initialisms are the words that Go names write in capitals.
var initialisms = [...]string{"API", "HTML", "HTTP", "ID", "IDs", "JSON", "JSONRPC", "MIME", "TTL", "UI", "URI", "URIs", "URL", "URLs", "UTF"}

// goName returns the exported Go name for a name in a schema. Of a name with slashes, such as a
// metadata key with its prefix, it uses the part after the last slash. A name that does not begin
// with a letter that has a capital, such as 型, gets the prefix X, which exports it.
func goName(name string) string {
	s := joined(name[strings.LastIndexByte(name, '/')+1:])
	if first, _ := utf8.DecodeRuneInString(s); !unicode.IsUpper(first) {
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
	case value[0] == '-' && s != "" && isDigit(rune(s[0])):
		return "Minus" + s
	}
	return s
}

// joined returns the words of a name as one Go word. If the name has no words, the result spells
// its characters: <= is U3CU3D.
func joined(name string) string {
	var b strings.Builder
	for _, word := range words(name) {
		b.WriteString(goWord(word))
	}
	if b.Len() == 0 {
		for _, c := range name {
			fmt.Fprintf(&b, "U%X", c)
		}
	}
	return b.String()
}

func goWord(word string) string {
	for _, in := range initialisms {
		if strings.EqualFold(word, in) {
			return in
		}
	}
	first, size := utf8.DecodeRuneInString(word)
	return string(unicode.ToUpper(first)) + word[size:]
}

// words splits a name where its case changes, and at every character other than a letter or a digit.
// A run of capitals is one word, except for its last letter if a lower-case letter follows. A
// character outside ASCII that Go identifiers cannot have is a word that spells it: 😀 is U1F600. So
// names that differ only by such characters have different Go names.
func words(name string) []string {
	var out []string
	var word []rune
	cut := func() {
		if len(word) > 0 {
			out = append(out, string(word))
		}
		word = nil
	}
	for _, c := range name {
		n := len(word)
		switch {
		case !isAlnum(c):
			cut()
			if c > unicode.MaxASCII {
				out = append(out, fmt.Sprintf("U%X", c))
			}
			continue
		case n > 0 && isUpper(c) && !isUpper(word[n-1]):
			cut()
		case n > 1 && !isUpper(c) && !isDigit(c) && isUpper(word[n-1]) && isUpper(word[n-2]):
			last := word[n-1]
			word = word[:n-1]
			cut()
			word = append(word, last)
		}
		word = append(word, c)
	}
	cut()
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

func isUpper(c rune) bool { return unicode.IsUpper(c) }
func isDigit(c rune) bool { return unicode.IsDigit(c) }
func isAlnum(c rune) bool { return unicode.IsLetter(c) || isDigit(c) }
