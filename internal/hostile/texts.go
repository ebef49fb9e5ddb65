package hostile

import (
	"fmt"
	"strings"
)

// Text is a JSON value, or text that resembles one. Names follow the convention of public JSON test
// suites: every parser must accept y_ and refuse n_, and each implementation decides on i_. For
// those, the Refusal is the decision of package codec.
type Text struct {
	Name, Text string
	Refusal
}

// Texts returns the texts. The sections are those of RFC 8259.
func Texts() []Class[Text] {
	return []Class[Text]{
		{"Structure", structureTexts()},
		{"Text after the value", trailingTexts()},
		{"Literals", literalTexts()},
		{"Numbers", numberTexts()},
		{"Strings", stringTexts()},
		{"Unpaired surrogates", surrogateTexts()},
		{"Encoding", encodingTexts()},
		{"Duplicate names", repeatedTexts()},
	}
}

// structureTexts covers sections 2 to 5.
func structureTexts() []Text {
	return []Text{
		{"y_empty array", `[]`, Refusal{}},
		{"y_empty object", `{}`, Refusal{}},
		{"y_array with white space of every kind", " [\t1\n,\r\n2 ] \n", Refusal{}},
		{"y_object with white space of every kind", "\r\n{ \"a\"\t: \n1 ,\"b\":2}\t", Refusal{}},
		{"y_lone null", `null`, Refusal{}},
		{"y_lone true", `true`, Refusal{}},
		{"y_lone false", `false`, Refusal{}},
		{"y_lone string", `"a"`, Refusal{}},
		{"y_lone number", `42`, Refusal{}},
		{"y_lone negative number", `-0.1`, Refusal{}},
		{"y_nested", `{"a":[{"b":{}},[[]],null]}`, Refusal{}},
		{"y_empty name", `{"":0}`, Refusal{}},
		{"y_names that differ in case", `{"id":1,"ID":2,"Id":3}`, Refusal{}},
		{"y_same name in different objects", `[{"a":1},{"a":{"a":2}}]`, Refusal{}},
		{"y_long name", `{"` + strings.Repeat("n", 1000) + `":[]}`, Refusal{}},
		{"n_nothing", ``, Refusal{EOF, 0, ""}},
		{"n_only a space", ` `, Refusal{EOF, 1, ""}},
		{"n_only line breaks", "\n\r\n", Refusal{EOF, 3, ""}},
		{"n_comma alone", `,`, Refusal{Syntax, 0, ""}},
		{"n_colon alone", `:`, Refusal{Syntax, 0, ""}},
		{"n_closing bracket alone", `]`, Refusal{Syntax, 0, ""}},
		{"n_closing brace alone", `}`, Refusal{Syntax, 0, ""}},
		{"n_comment before the text", `/**/{}`, Refusal{Syntax, 0, ""}},
		{"n_NUL", "\x00", Refusal{Syntax, 0, ""}},
		{"n_NUL before the text", "\x00{}", Refusal{Syntax, 0, ""}},
		{"n_NUL between tokens", "[1,\x001]", Refusal{Syntax, 3, "/1"}},
		{"n_NUL for white space", "[\x00]", Refusal{Syntax, 1, "/0"}},
		{"n_form feed for white space", "[\f]", Refusal{Syntax, 1, "/0"}},
		{"n_no-break space for white space", "[\u00A0]", Refusal{Syntax, 1, "/0"}},
		{"n_zero width no-break space inside", "[\uFEFF1]", Refusal{Syntax, 1, "/0"}},
		{"n_word joiner before the text", "\u2060[]", Refusal{Syntax, 0, ""}},
		{"n_escape outside a string", `[\u000A1]`, Refusal{Syntax, 1, "/0"}},
		{"n_angle brackets", `<null>`, Refusal{Syntax, 0, ""}},
		{"n_star", `[*]`, Refusal{Syntax, 1, "/0"}},
		{"n_bare word", `[abc]`, Refusal{Syntax, 1, "/0"}},
		{"n_single quotes", `['a']`, Refusal{Syntax, 1, "/0"}},
		{"n_backtick quotes", "[`a`]", Refusal{Syntax, 1, "/0"}},
		{"n_number sign", `#{}`, Refusal{Syntax, 0, ""}},
		{"n_two commas in an array", `[1,,2]`, Refusal{Syntax, 3, "/1"}},
		{"n_comma first in an array", `[,1]`, Refusal{Syntax, 1, ""}},
		{"n_comma only in an array", `[,]`, Refusal{Syntax, 1, ""}},
		{"n_comma last in an array", `[1,]`, Refusal{Syntax, 3, "/1"}},
		{"n_comma last in an inner array", `[[],[1,]]`, Refusal{Syntax, 7, "/1/1"}},
		{"n_no comma between numbers", `[1 2]`, Refusal{Syntax, 3, ""}},
		{"n_no comma between strings", `["a""b"]`, Refusal{Syntax, 4, ""}},
		{"n_no comma between arrays", `[[][]]`, Refusal{Syntax, 3, ""}},
		{"n_colon in an array", `["a":1]`, Refusal{Syntax, 4, ""}},
		{"n_semicolon in an array", `[1;2]`, Refusal{Syntax, 2, "/0"}},
		{"n_array closed by a brace", `[1}`, Refusal{Syntax, 2, ""}},
		{"n_empty array closed by a brace", `[}`, Refusal{Syntax, 1, "/0"}},
		{"n_object closed by a bracket", `{"a":1]`, Refusal{Syntax, 6, ""}},
		{"n_empty object closed by a bracket", `{]`, Refusal{Syntax, 1, ""}},
		{"n_array not closed", `[`, Refusal{EOF, 1, ""}},
		{"n_array not closed after a value", `[1`, Refusal{EOF, 2, "/0"}},
		{"n_array not closed after a string", `["a"`, Refusal{EOF, 4, ""}},
		{"n_array not closed after a comma", `[1,`, Refusal{EOF, 3, "/1"}},
		{"n_array not closed after a comma and space", "[1,\n ", Refusal{EOF, 5, "/1"}},
		{"n_object not closed", `{`, Refusal{EOF, 1, ""}},
		{"n_object not closed after a name", `{"a"`, Refusal{EOF, 4, ""}},
		{"n_object not closed after a colon", `{"a":`, Refusal{EOF, 5, "/a"}},
		{"n_object not closed after a value", `{"a":"b"`, Refusal{EOF, 8, ""}},
		{"n_object not closed after a comma", `{"a":"b",`, Refusal{EOF, 9, ""}},
		{"n_object without colon", `{"a" 1}`, Refusal{Syntax, 5, ""}},
		{"n_object without value", `{"a":}`, Refusal{Syntax, 5, "/a"}},
		{"n_object with a name only", `{"a"}`, Refusal{Syntax, 4, ""}},
		{"n_object with two colons", `{"a"::1}`, Refusal{Syntax, 5, "/a"}},
		{"n_object with comma for colon", `{"a",1}`, Refusal{Syntax, 4, ""}},
		{"n_object with equals sign", `{"a"=1}`, Refusal{Syntax, 4, ""}},
		{"n_object with comma last", `{"a":1,}`, Refusal{Syntax, 7, ""}},
		{"n_object with comma only", `{,}`, Refusal{Syntax, 1, ""}},
		{"n_object with two commas", `{"a":1,,"b":2}`, Refusal{Syntax, 7, ""}},
		{"n_object without comma", `{"a":1 "b":2}`, Refusal{Syntax, 7, ""}},
		{"n_object with a bare name", `{a:1}`, Refusal{Syntax, 1, ""}},
		{"n_object with a number for a name", `{1:1}`, Refusal{Syntax, 1, ""}},
		{"n_object with null for a name", `{null:1}`, Refusal{Syntax, 1, ""}},
		{"n_object with an array for a name", `{[]:1}`, Refusal{Syntax, 1, ""}},
		{"n_object with a single-quoted name", `{'a':1}`, Refusal{Syntax, 1, ""}},
		{"n_object with a bad name at the end", `{"a":1,"b\x":2}`, Refusal{Escape, 9, ""}},
		{"n_object with a name that is cut off", `{"a":1,"b`, Refusal{EOF, 9, ""}},
	}
}

// trailingTexts covers section 2.
func trailingTexts() []Text {
	return []Text{
		{"n_two values", `1 2`, Refusal{Trailing, 2, ""}},
		{"n_two arrays", `[][]`, Refusal{Trailing, 2, ""}},
		{"n_trailing comma after the text", `{},`, Refusal{Trailing, 2, ""}},
		{"n_trailing bracket", `[1]]`, Refusal{Trailing, 3, ""}},
		{"n_trailing brace", `{"a":1}}`, Refusal{Trailing, 7, ""}},
		{"n_trailing quote", `{"a":1}"`, Refusal{Trailing, 7, ""}},
		{"n_trailing comment", `{"a":1}/**/`, Refusal{Trailing, 7, ""}},
		{"n_trailing line comment", "{}//\n", Refusal{Trailing, 2, ""}},
		{"n_trailing hash", `{}#`, Refusal{Trailing, 2, ""}},
		{"n_trailing NUL", "1\x00", Refusal{Trailing, 1, ""}},
		{"n_trailing semicolon", `1;`, Refusal{Trailing, 1, ""}},
		{"n_trailing no-break space", "1\u00A0", Refusal{Trailing, 1, ""}},
		{"n_trailing form feed", "1\f", Refusal{Trailing, 1, ""}},
		{"n_trailing vertical tab", "1\v", Refusal{Trailing, 1, ""}},
		{"n_trailing byte order mark", "1\uFEFF", Refusal{Trailing, 1, ""}},
		{"n_trailing byte that is not UTF-8", "1\xff", Refusal{Trailing, 1, ""}},
		{"n_number followed by a letter", `1a`, Refusal{Trailing, 1, ""}},
		{"n_minus after a number", `1-1`, Refusal{Trailing, 1, ""}},
		{"n_literal followed by a letter", `nullx`, Refusal{Trailing, 4, ""}},
	}
}

func literalTexts() []Text {
	return []Text{
		{"n_literal in capitals", `[True]`, Refusal{Syntax, 1, "/0"}},
		{"n_literal that ends wrong", `[nul]`, Refusal{Literal, 1, "/0"}},
		{"n_literal with a wrong letter", `[fallse]`, Refusal{Literal, 1, "/0"}},
		{"n_literal in mixed case", `[tRUE]`, Refusal{Literal, 1, "/0"}},
		{"n_literal cut off", `[tru`, Refusal{EOF, 4, "/0"}},
		{"n_literal cut off at once", `n`, Refusal{EOF, 1, ""}},
		{"n_undefined", `[undefined]`, Refusal{Syntax, 1, "/0"}},
	}
}

// numberTexts covers section 6.
func numberTexts() []Text {
	return []Text{
		{"y_zero", `[0]`, Refusal{}},
		{"y_minus zero", `[-0]`, Refusal{}},
		{"y_minus zero with fraction and exponent", `[-0.0e-0]`, Refusal{}},
		{"y_exponent with plus", `[1E+2]`, Refusal{}},
		{"y_exponent with leading zeros", `[1e0002]`, Refusal{}},
		{"y_zero with exponent", `[0e+1]`, Refusal{}},
		{"y_fraction with trailing zeros", `[1.500]`, Refusal{}},
		{"y_close to zero", `[-0.` + strings.Repeat("0", 70) + `1]`, Refusal{}},
		{"i_too large for float64", `[1e400]`, Refusal{}},
		{"i_too small for float64", `[-1e-400]`, Refusal{}},
		{"i_exponent beyond all bounds", `[1e` + strings.Repeat("9", 100) + `]`, Refusal{}},
		{"i_integer of a thousand digits", `[` + strings.Repeat("7", 1000) + `]`, Refusal{}},
		{"n_minus alone", `[-]`, Refusal{Number, 1, "/0"}},
		{"n_minus at the end", `-`, Refusal{EOF, 1, ""}},
		{"n_two minuses", `[--1]`, Refusal{Number, 1, "/0"}},
		{"n_plus", `[+1]`, Refusal{Syntax, 1, "/0"}},
		{"n_minus and space", `[- 1]`, Refusal{Number, 1, "/0"}},
		{"n_leading zero", `[012]`, Refusal{Number, 1, "/0"}},
		{"n_two zeros", `[00]`, Refusal{Number, 1, "/0"}},
		{"n_minus and leading zero", `[-012]`, Refusal{Number, 1, "/0"}},
		{"n_point without digits after it", `[1.]`, Refusal{Number, 1, "/0"}},
		{"n_point at the end", `1.`, Refusal{EOF, 2, ""}},
		{"n_point without digits before it", `[.5]`, Refusal{Syntax, 1, "/0"}},
		{"n_minus and point", `[-.5]`, Refusal{Number, 1, "/0"}},
		{"n_two points", `[1.2.3]`, Refusal{Syntax, 4, "/0"}},
		{"n_exponent after a bare point", `[0.e1]`, Refusal{Number, 1, "/0"}},
		{"n_exponent without digits", `[1e]`, Refusal{Number, 1, "/0"}},
		{"n_exponent at the end", `1E+`, Refusal{EOF, 3, ""}},
		{"n_exponent with two signs", `[1e+-2]`, Refusal{Number, 1, "/0"}},
		{"n_exponent with fraction", `[1e2.5]`, Refusal{Syntax, 4, "/0"}},
		{"n_two exponents", `[1e2e3]`, Refusal{Syntax, 4, "/0"}},
		{"n_space in a number", `[1 000]`, Refusal{Syntax, 3, ""}},
		{"n_underscore in a number", `[1_000]`, Refusal{Syntax, 2, "/0"}},
		{"n_hexadecimal", `[0x1F]`, Refusal{Syntax, 2, "/0"}},
		{"n_NaN", `[NaN]`, Refusal{Syntax, 1, "/0"}},
		{"n_minus NaN", `[-NaN]`, Refusal{Number, 1, "/0"}},
		{"n_Infinity", `[Infinity]`, Refusal{Syntax, 1, "/0"}},
		{"n_minus Infinity", `[-Infinity]`, Refusal{Number, 1, "/0"}},
		{"n_full-width digit", `[１]`, Refusal{Syntax, 1, "/0"}},
		{"n_expression", `[1+2]`, Refusal{Syntax, 2, "/0"}},
		{"n_number with suffix", `[1.2a-3]`, Refusal{Syntax, 4, "/0"}},
		{"n_bad byte in a number", "[0\xe5]", Refusal{Syntax, 2, "/0"}},
	}
}

// stringTexts covers section 7.
func stringTexts() []Text {
	return []Text{
		{"y_all short escapes", `["\"\\\/\b\f\n\r\t"]`, Refusal{}},
		{"y_escaped NUL", `["\u0000"]`, Refusal{}},
		{"y_escaped backslash before u", `["\\u0041"]`, Refusal{}},
		{"y_escapes with digits in both cases", `["\uaBcD\uAbCd"]`, Refusal{}},
		{"y_surrogate pair", `["\ud83d\ude00"]`, Refusal{}},
		{"y_last surrogate pair", `["\uDBFF\uDFFF"]`, Refusal{}},
		{"y_escaped noncharacters", `["\uFDD0\uFFFE\uFFFF"]`, Refusal{}},
		{"y_noncharacters", "[\"\uFDD0\uFFFF\U0010FFFF\"]", Refusal{}},
		{"y_DEL", "[\"\x7f\"]", Refusal{}},
		{"y_line and paragraph separators", "[\"\u2028\u2029\"]", Refusal{}},
		{"y_byte order mark inside a string", "[\"\uFEFF\"]", Refusal{}},
		{"y_comment in a string", `["a/*b*/c//#"]`, Refusal{}},
		{"y_replacement character", "[\"\uFFFD\"]", Refusal{}},
		{"y_every length of UTF-8", "[\"$£€𐍈\"]", Refusal{}},
		{"n_string not closed", `["abc`, Refusal{EOF, 5, "/0"}},
		{"n_quote alone", `"`, Refusal{EOF, 1, ""}},
		{"n_string ends in a backslash", `["a\`, Refusal{EOF, 4, "/0"}},
		{"n_string ends in an escaped quote", `["a\"]`, Refusal{EOF, 6, "/0"}},
		{"n_string ends in half an escape", `["\u00`, Refusal{EOF, 6, "/0"}},
		{"n_string ends after a high surrogate", `["\ud800`, Refusal{EOF, 8, "/0"}},
		{"n_string ends in the low surrogate", `["\ud800\`, Refusal{EOF, 9, "/0"}},
		{"n_string ends in the digits of the low surrogate", `["\ud800\udc`, Refusal{EOF, 12, "/0"}},
		{"n_tab in a string", "[\"a\tb\"]", Refusal{ControlChar, 3, "/0"}},
		{"n_line break in a string", "[\"a\nb\"]", Refusal{ControlChar, 3, "/0"}},
		{"n_NUL in a string", "[\"\x00\"]", Refusal{ControlChar, 2, "/0"}},
		{"n_last control character in a string", "[\"a long enough string\x1f\"]", Refusal{ControlChar, 22, "/0"}},
		{"n_control character in a name", "{\"a\x01\":1}", Refusal{ControlChar, 3, ""}},
		{"n_unknown escape", `["\x00"]`, Refusal{Escape, 2, "/0"}},
		{"n_escape in capitals", `["\U0041"]`, Refusal{Escape, 2, "/0"}},
		{"n_escaped single quote", `["\'"]`, Refusal{Escape, 2, "/0"}},
		{"n_escaped zero", `["\0"]`, Refusal{Escape, 2, "/0"}},
		{"n_escaped line break", "[\"\\\n\"]", Refusal{Escape, 2, "/0"}},
		{"n_escaped emoji", "[\"\\🌀\"]", Refusal{Escape, 2, "/0"}},
		{"n_escape with three digits", `["\u00A"]`, Refusal{Escape, 2, "/0"}},
		{"n_escape with a bad digit", `["\u00g1"]`, Refusal{Escape, 2, "/0"}},
		{"n_escape with a sign", `["\u+123"]`, Refusal{Escape, 2, "/0"}},
		{"n_escape in braces", `["\u{41}"]`, Refusal{Escape, 2, "/0"}},
		{"n_bad escape where a low surrogate should be", `["\ud800\u12x4"]`, Refusal{Escape, 8, "/0"}},
	}
}

// surrogateTexts covers section 8.2.
func surrogateTexts() []Text {
	return []Text{
		{"i_high surrogate alone", `["\ud800"]`, Refusal{Surrogate, 2, "/0"}},
		{"i_high surrogate and text", `["\ud800abc"]`, Refusal{Surrogate, 2, "/0"}},
		{"i_high surrogate and another escape", `["\ud800\n"]`, Refusal{Surrogate, 2, "/0"}},
		{"i_high surrogate and the escape of a letter", `["a\ud800\u0041"]`, Refusal{Surrogate, 3, "/0"}},
		{"i_two high surrogates", `["\ud800\ud800\udc00"]`, Refusal{Surrogate, 2, "/0"}},
		{"i_low surrogate alone", `["\udc00"]`, Refusal{Surrogate, 2, "/0"}},
		{"i_surrogates the wrong way round", `["\udc00\ud800"]`, Refusal{Surrogate, 2, "/0"}},
		{"i_lone surrogate in a name", `{"\udfff":1}`, Refusal{Surrogate, 2, ""}},
	}
}

// encodingTexts covers section 8.
func encodingTexts() []Text {
	return []Text{
		{"i_byte order mark", "\uFEFF{}", Refusal{BOM, 0, ""}},
		{"i_byte order mark alone", "\uFEFF", Refusal{BOM, 0, ""}},
		{"n_half a byte order mark", "\xef\xbb{}", Refusal{Syntax, 0, ""}},
		{"n_UTF-16, little end first", "\xff\xfe[\x00]\x00", Refusal{Syntax, 0, ""}},
		{"n_UTF-16, big end first, without mark", "\x00[\x00]", Refusal{Syntax, 0, ""}},
		{"n_UTF-16, little end first, without mark", "[\x00\"\x00", Refusal{Syntax, 1, "/0"}},
		{"i_byte that is never UTF-8", "[\"\xff\"]", Refusal{UTF8, 2, "/0"}},
		{"i_continuation byte alone", "[\"\x80\"]", Refusal{UTF8, 2, "/0"}},
		{"i_Latin-1", "[\"caf\xe9\"]", Refusal{UTF8, 5, "/0"}},
		{"i_overlong in two bytes", "[\"\xc0\xaf\"]", Refusal{UTF8, 2, "/0"}},
		{"i_overlong in three bytes", "[\"\xe0\x80\xaf\"]", Refusal{UTF8, 2, "/0"}},
		{"i_overlong in four bytes", "[\"\xf0\x80\x80\xaf\"]", Refusal{UTF8, 2, "/0"}},
		{"i_overlong in six bytes", "[\"\xfc\x83\xbf\xbf\xbf\xbf\"]", Refusal{UTF8, 2, "/0"}},
		{"i_overlong NUL", "[\"\xc0\x80\"]", Refusal{UTF8, 2, "/0"}},
		{"i_surrogate in UTF-8", "[\"\xed\xa0\x80\"]", Refusal{UTF8, 2, "/0"}},
		{"i_beyond U+10FFFF", "[\"\xf4\xbf\xbf\xbf\"]", Refusal{UTF8, 2, "/0"}},
		{"i_UTF-8 cut off by the quote", "[\"€\xe2\x82\"]", Refusal{UTF8, 5, "/0"}},
		{"i_UTF-8 cut off by the end", "[\"\xe2\x82", Refusal{UTF8, 2, "/0"}},
		{"i_bad byte in a name", "{\"a\xff\":1}", Refusal{UTF8, 3, ""}},
		{"i_bad byte far into a string", `["` + strings.Repeat("0123456789", 10) + "\xff\"]", Refusal{UTF8, 102, "/0"}},
	}
}

// repeatedTexts covers section 4.
func repeatedTexts() []Text {
	return []Text{
		{"i_repeated name", `{"a":1,"a":1}`, Refusal{Duplicate, 7, "/a"}},
		{"i_repeated name, escaped", `{"a":1,"\u0061":2}`, Refusal{Duplicate, 7, "/a"}},
		{"i_repeated name, escaped first", `{"\u0061":1,"a":2}`, Refusal{Duplicate, 12, "/a"}},
		{"i_repeated empty name", `{"":1,"":2}`, Refusal{Duplicate, 6, "/"}},
		{"i_repeated name far inside", `{"x":[0,{"y":{"b":1,"c":2,"b":3}}]}`, Refusal{Duplicate, 26, "/x/1/y/b"}},
		{"i_repeated name around an inner object", `{"a":{"b":1},"a":2}`, Refusal{Duplicate, 13, "/a"}},
		{"i_repeated name with signs of the pointer", `{"a/b~c":1,"a/b~c":2}`, Refusal{Duplicate, 11, "/a~1b~0c"}},
		{"i_repeated name among many", ManyNames(100, 50), Refusal{Duplicate, 1 + 99*10, "/n0050"}},
		{"i_repeated first name among many", ManyNames(17, 0), Refusal{Duplicate, 1 + 16*10, "/n0000"}},
	}
}

// ManyNames returns an object with n members. The last but one has the same name as member again.
func ManyNames(n, again int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n - 1 {
		b.WriteString(NameOf(i) + ":1,")
	}
	b.WriteString(NameOf(again) + `:1,"z":0}`)
	return b.String()
}

// NameOf returns the name of a member, in quotes: six bytes for i below ten thousand.
func NameOf(i int) string { return fmt.Sprintf(`"n%04d"`, i) }
