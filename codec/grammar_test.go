package codec

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// grammarCases are texts and what becomes of them. The names follow the habit of the public JSON parsing test
// suites: y_ must be accepted by everyone, n_ must be refused by everyone, i_ is left to the implementation, and
// what stands here is our choice. Where a case has no error, the text is accepted.
var grammarCases = []struct {
	name, text string
	place
}{
	// Structure (RFC 8259, sections 2 to 5).
	{"y_empty array", `[]`, place{}},
	{"y_empty object", `{}`, place{}},
	{"y_array with white space of every kind", " [\t1\n,\r\n2 ] \n", place{}},
	{"y_object with white space of every kind", "\r\n{ \"a\"\t: \n1 ,\"b\":2}\t", place{}},
	{"y_lone null", `null`, place{}},
	{"y_lone true", `true`, place{}},
	{"y_lone false", `false`, place{}},
	{"y_lone string", `"a"`, place{}},
	{"y_lone number", `42`, place{}},
	{"y_lone negative number", `-0.1`, place{}},
	{"y_nested", `{"a":[{"b":{}},[[]],null]}`, place{}},
	{"y_empty name", `{"":0}`, place{}},
	{"y_names that differ in case", `{"id":1,"ID":2,"Id":3}`, place{}},
	{"y_same name in different objects", `[{"a":1},{"a":{"a":2}}]`, place{}},
	{"y_long name", `{"` + strings.Repeat("n", 1000) + `":[]}`, place{}},
	{"n_nothing", ``, place{ErrEOF, 0, ""}},
	{"n_only a space", ` `, place{ErrEOF, 1, ""}},
	{"n_only line breaks", "\n\r\n", place{ErrEOF, 3, ""}},
	{"n_two values", `1 2`, place{ErrTrailing, 2, ""}},
	{"n_two arrays", `[][]`, place{ErrTrailing, 2, ""}},
	{"n_trailing comma after the text", `{},`, place{ErrTrailing, 2, ""}},
	{"n_trailing bracket", `[1]]`, place{ErrTrailing, 3, ""}},
	{"n_trailing brace", `{"a":1}}`, place{ErrTrailing, 7, ""}},
	{"n_trailing quote", `{"a":1}"`, place{ErrTrailing, 7, ""}},
	{"n_trailing comment", `{"a":1}/**/`, place{ErrTrailing, 7, ""}},
	{"n_trailing line comment", "{}//\n", place{ErrTrailing, 2, ""}},
	{"n_trailing hash", `{}#`, place{ErrTrailing, 2, ""}},
	{"n_trailing NUL", "1\x00", place{ErrTrailing, 1, ""}},
	{"n_trailing semicolon", `1;`, place{ErrTrailing, 1, ""}},
	{"n_trailing no-break space", "1\u00A0", place{ErrTrailing, 1, ""}},
	{"n_trailing form feed", "1\f", place{ErrTrailing, 1, ""}},
	{"n_trailing vertical tab", "1\v", place{ErrTrailing, 1, ""}},
	{"n_trailing byte order mark", "1\uFEFF", place{ErrTrailing, 1, ""}},
	{"n_trailing byte that is not UTF-8", "1\xff", place{ErrTrailing, 1, ""}},
	{"n_number that goes on as a word", `1a`, place{ErrTrailing, 1, ""}},
	{"n_minus after a number", `1-1`, place{ErrTrailing, 1, ""}},
	{"n_literal that goes on", `nullx`, place{ErrTrailing, 4, ""}},
	{"n_comma alone", `,`, place{ErrSyntax, 0, ""}},
	{"n_colon alone", `:`, place{ErrSyntax, 0, ""}},
	{"n_closing bracket alone", `]`, place{ErrSyntax, 0, ""}},
	{"n_closing brace alone", `}`, place{ErrSyntax, 0, ""}},
	{"n_comment before the text", `/**/{}`, place{ErrSyntax, 0, ""}},
	{"n_NUL", "\x00", place{ErrSyntax, 0, ""}},
	{"n_NUL before the text", "\x00{}", place{ErrSyntax, 0, ""}},
	{"n_NUL between tokens", "[1,\x001]", place{ErrSyntax, 3, "/1"}},
	{"n_NUL for white space", "[\x00]", place{ErrSyntax, 1, "/0"}},
	{"n_form feed for white space", "[\f]", place{ErrSyntax, 1, "/0"}},
	{"n_no-break space for white space", "[\u00A0]", place{ErrSyntax, 1, "/0"}},
	{"n_zero width no-break space inside", "[\uFEFF1]", place{ErrSyntax, 1, "/0"}},
	{"n_word joiner before the text", "\u2060[]", place{ErrSyntax, 0, ""}},
	{"n_escape outside a string", `[\u000A1]`, place{ErrSyntax, 1, "/0"}},
	{"n_angle brackets", `<null>`, place{ErrSyntax, 0, ""}},
	{"n_star", `[*]`, place{ErrSyntax, 1, "/0"}},
	{"n_bare word", `[abc]`, place{ErrSyntax, 1, "/0"}},
	{"n_single quotes", `['a']`, place{ErrSyntax, 1, "/0"}},
	{"n_backtick quotes", "[`a`]", place{ErrSyntax, 1, "/0"}},
	{"n_number sign", `#{}`, place{ErrSyntax, 0, ""}},
	{"n_two commas in an array", `[1,,2]`, place{ErrSyntax, 3, "/1"}},
	{"n_comma first in an array", `[,1]`, place{ErrSyntax, 1, ""}},
	{"n_comma only in an array", `[,]`, place{ErrSyntax, 1, ""}},
	{"n_comma last in an array", `[1,]`, place{ErrSyntax, 3, "/1"}},
	{"n_comma last in an inner array", `[[],[1,]]`, place{ErrSyntax, 7, "/1/1"}},
	{"n_no comma between numbers", `[1 2]`, place{ErrSyntax, 3, ""}},
	{"n_no comma between strings", `["a""b"]`, place{ErrSyntax, 4, ""}},
	{"n_no comma between arrays", `[[][]]`, place{ErrSyntax, 3, ""}},
	{"n_colon in an array", `["a":1]`, place{ErrSyntax, 4, ""}},
	{"n_semicolon in an array", `[1;2]`, place{ErrSyntax, 2, "/0"}},
	{"n_array closed by a brace", `[1}`, place{ErrSyntax, 2, ""}},
	{"n_empty array closed by a brace", `[}`, place{ErrSyntax, 1, "/0"}},
	{"n_object closed by a bracket", `{"a":1]`, place{ErrSyntax, 6, ""}},
	{"n_empty object closed by a bracket", `{]`, place{ErrSyntax, 1, ""}},
	{"n_array not closed", `[`, place{ErrEOF, 1, ""}},
	{"n_array not closed after a value", `[1`, place{ErrEOF, 2, "/0"}},
	{"n_array not closed after a string", `["a"`, place{ErrEOF, 4, ""}},
	{"n_array not closed after a comma", `[1,`, place{ErrEOF, 3, "/1"}},
	{"n_array not closed after a comma and space", "[1,\n ", place{ErrEOF, 5, "/1"}},
	{"n_object not closed", `{`, place{ErrEOF, 1, ""}},
	{"n_object not closed after a name", `{"a"`, place{ErrEOF, 4, ""}},
	{"n_object not closed after a colon", `{"a":`, place{ErrEOF, 5, "/a"}},
	{"n_object not closed after a value", `{"a":"b"`, place{ErrEOF, 8, ""}},
	{"n_object not closed after a comma", `{"a":"b",`, place{ErrEOF, 9, ""}},
	{"n_object without colon", `{"a" 1}`, place{ErrSyntax, 5, ""}},
	{"n_object without value", `{"a":}`, place{ErrSyntax, 5, "/a"}},
	{"n_object with a name only", `{"a"}`, place{ErrSyntax, 4, ""}},
	{"n_object with two colons", `{"a"::1}`, place{ErrSyntax, 5, "/a"}},
	{"n_object with comma for colon", `{"a",1}`, place{ErrSyntax, 4, ""}},
	{"n_object with equals sign", `{"a"=1}`, place{ErrSyntax, 4, ""}},
	{"n_object with comma last", `{"a":1,}`, place{ErrSyntax, 7, ""}},
	{"n_object with comma only", `{,}`, place{ErrSyntax, 1, ""}},
	{"n_object with two commas", `{"a":1,,"b":2}`, place{ErrSyntax, 7, ""}},
	{"n_object without comma", `{"a":1 "b":2}`, place{ErrSyntax, 7, ""}},
	{"n_object with a bare name", `{a:1}`, place{ErrSyntax, 1, ""}},
	{"n_object with a number for a name", `{1:1}`, place{ErrSyntax, 1, ""}},
	{"n_object with null for a name", `{null:1}`, place{ErrSyntax, 1, ""}},
	{"n_object with an array for a name", `{[]:1}`, place{ErrSyntax, 1, ""}},
	{"n_object with a single-quoted name", `{'a':1}`, place{ErrSyntax, 1, ""}},
	{"n_object with a bad name at the end", `{"a":1,"b\x":2}`, place{ErrEscape, 9, ""}},
	{"n_object with a name that is cut off", `{"a":1,"b`, place{ErrEOF, 9, ""}},

	// Literals.
	{"n_literal in capitals", `[True]`, place{ErrSyntax, 1, "/0"}},
	{"n_literal that ends wrong", `[nul]`, place{ErrLiteral, 1, "/0"}},
	{"n_literal with a wrong letter", `[fallse]`, place{ErrLiteral, 1, "/0"}},
	{"n_literal in mixed case", `[tRUE]`, place{ErrLiteral, 1, "/0"}},
	{"n_literal cut off", `[tru`, place{ErrEOF, 4, "/0"}},
	{"n_literal cut off at once", `n`, place{ErrEOF, 1, ""}},
	{"n_undefined", `[undefined]`, place{ErrSyntax, 1, "/0"}},

	// Numbers (section 6).
	{"y_zero", `[0]`, place{}},
	{"y_minus zero", `[-0]`, place{}},
	{"y_minus zero with fraction and exponent", `[-0.0e-0]`, place{}},
	{"y_exponent with plus", `[1E+2]`, place{}},
	{"y_exponent with leading zeros", `[1e0002]`, place{}},
	{"y_zero with exponent", `[0e+1]`, place{}},
	{"y_fraction with trailing zeros", `[1.500]`, place{}},
	{"y_close to zero", `[-0.` + strings.Repeat("0", 70) + `1]`, place{}},
	{"i_too large for float64", `[1e400]`, place{}},
	{"i_too small for float64", `[-1e-400]`, place{}},
	{"i_exponent beyond all bounds", `[1e` + strings.Repeat("9", 100) + `]`, place{}},
	{"i_integer of a thousand digits", `[` + strings.Repeat("7", 1000) + `]`, place{}},
	{"n_minus alone", `[-]`, place{ErrNumber, 1, "/0"}},
	{"n_minus at the end", `-`, place{ErrEOF, 1, ""}},
	{"n_two minuses", `[--1]`, place{ErrNumber, 1, "/0"}},
	{"n_plus", `[+1]`, place{ErrSyntax, 1, "/0"}},
	{"n_minus and space", `[- 1]`, place{ErrNumber, 1, "/0"}},
	{"n_leading zero", `[012]`, place{ErrNumber, 1, "/0"}},
	{"n_two zeros", `[00]`, place{ErrNumber, 1, "/0"}},
	{"n_minus and leading zero", `[-012]`, place{ErrNumber, 1, "/0"}},
	{"n_point without digits after it", `[1.]`, place{ErrNumber, 1, "/0"}},
	{"n_point at the end", `1.`, place{ErrEOF, 2, ""}},
	{"n_point without digits before it", `[.5]`, place{ErrSyntax, 1, "/0"}},
	{"n_minus and point", `[-.5]`, place{ErrNumber, 1, "/0"}},
	{"n_two points", `[1.2.3]`, place{ErrSyntax, 4, "/0"}},
	{"n_exponent after a bare point", `[0.e1]`, place{ErrNumber, 1, "/0"}},
	{"n_exponent without digits", `[1e]`, place{ErrNumber, 1, "/0"}},
	{"n_exponent at the end", `1E+`, place{ErrEOF, 3, ""}},
	{"n_exponent with two signs", `[1e+-2]`, place{ErrNumber, 1, "/0"}},
	{"n_exponent with fraction", `[1e2.5]`, place{ErrSyntax, 4, "/0"}},
	{"n_two exponents", `[1e2e3]`, place{ErrSyntax, 4, "/0"}},
	{"n_space in a number", `[1 000]`, place{ErrSyntax, 3, ""}},
	{"n_underscore in a number", `[1_000]`, place{ErrSyntax, 2, "/0"}},
	{"n_hexadecimal", `[0x1F]`, place{ErrSyntax, 2, "/0"}},
	{"n_NaN", `[NaN]`, place{ErrSyntax, 1, "/0"}},
	{"n_minus NaN", `[-NaN]`, place{ErrNumber, 1, "/0"}},
	{"n_Infinity", `[Infinity]`, place{ErrSyntax, 1, "/0"}},
	{"n_minus Infinity", `[-Infinity]`, place{ErrNumber, 1, "/0"}},
	{"n_full-width digit", `[１]`, place{ErrSyntax, 1, "/0"}},
	{"n_expression", `[1+2]`, place{ErrSyntax, 2, "/0"}},
	{"n_number with suffix", `[1.2a-3]`, place{ErrSyntax, 4, "/0"}},
	{"n_bad byte in a number", "[0\xe5]", place{ErrSyntax, 2, "/0"}},

	// Strings (section 7).
	{"y_all short escapes", `["\"\\\/\b\f\n\r\t"]`, place{}},
	{"y_escaped NUL", `["\u0000"]`, place{}},
	{"y_escaped backslash before u", `["\\u0041"]`, place{}},
	{"y_escapes with digits in both cases", `["\uaBcD\uAbCd"]`, place{}},
	{"y_surrogate pair", `["\ud83d\ude00"]`, place{}},
	{"y_last surrogate pair", `["\uDBFF\uDFFF"]`, place{}},
	{"y_escaped noncharacters", `["\uFDD0\uFFFE\uFFFF"]`, place{}},
	{"y_noncharacters", "[\"\uFDD0\uFFFF\U0010FFFF\"]", place{}},
	{"y_DEL", "[\"\x7f\"]", place{}},
	{"y_line and paragraph separators", "[\"\u2028\u2029\"]", place{}},
	{"y_byte order mark inside a string", "[\"\uFEFF\"]", place{}},
	{"y_comment in a string", `["a/*b*/c//#"]`, place{}},
	{"y_replacement character", "[\"\uFFFD\"]", place{}},
	{"y_every length of UTF-8", "[\"$£€𐍈\"]", place{}},
	{"n_string not closed", `["abc`, place{ErrEOF, 5, "/0"}},
	{"n_quote alone", `"`, place{ErrEOF, 1, ""}},
	{"n_string ends in a backslash", `["a\`, place{ErrEOF, 4, "/0"}},
	{"n_string ends in an escaped quote", `["a\"]`, place{ErrEOF, 6, "/0"}},
	{"n_string ends in half an escape", `["\u00`, place{ErrEOF, 6, "/0"}},
	{"n_string ends after a high surrogate", `["\ud800`, place{ErrEOF, 8, "/0"}},
	{"n_string ends in the low surrogate", `["\ud800\`, place{ErrEOF, 9, "/0"}},
	{"n_string ends in the digits of the low surrogate", `["\ud800\udc`, place{ErrEOF, 12, "/0"}},
	{"n_tab in a string", "[\"a\tb\"]", place{ErrControlChar, 3, "/0"}},
	{"n_line break in a string", "[\"a\nb\"]", place{ErrControlChar, 3, "/0"}},
	{"n_NUL in a string", "[\"\x00\"]", place{ErrControlChar, 2, "/0"}},
	{"n_last control character in a string", "[\"a long enough string\x1f\"]", place{ErrControlChar, 22, "/0"}},
	{"n_control character in a name", "{\"a\x01\":1}", place{ErrControlChar, 3, ""}},
	{"n_unknown escape", `["\x00"]`, place{ErrEscape, 2, "/0"}},
	{"n_escape in capitals", `["\U0041"]`, place{ErrEscape, 2, "/0"}},
	{"n_escaped single quote", `["\'"]`, place{ErrEscape, 2, "/0"}},
	{"n_escaped zero", `["\0"]`, place{ErrEscape, 2, "/0"}},
	{"n_escaped line break", "[\"\\\n\"]", place{ErrEscape, 2, "/0"}},
	{"n_escaped emoji", "[\"\\🌀\"]", place{ErrEscape, 2, "/0"}},
	{"n_escape with three digits", `["\u00A"]`, place{ErrEscape, 2, "/0"}},
	{"n_escape with a bad digit", `["\u00g1"]`, place{ErrEscape, 2, "/0"}},
	{"n_escape with a sign", `["\u+123"]`, place{ErrEscape, 2, "/0"}},
	{"n_escape in braces", `["\u{41}"]`, place{ErrEscape, 2, "/0"}},
	{"n_bad escape where a low surrogate should be", `["\ud800\u12x4"]`, place{ErrEscape, 8, "/0"}},
	{"i_high surrogate alone", `["\ud800"]`, place{ErrSurrogate, 2, "/0"}},
	{"i_high surrogate and text", `["\ud800abc"]`, place{ErrSurrogate, 2, "/0"}},
	{"i_high surrogate and another escape", `["\ud800\n"]`, place{ErrSurrogate, 2, "/0"}},
	{"i_high surrogate and an escape that is none", `["a\ud800\u0041"]`, place{ErrSurrogate, 3, "/0"}},
	{"i_two high surrogates", `["\ud800\ud800\udc00"]`, place{ErrSurrogate, 2, "/0"}},
	{"i_low surrogate alone", `["\udc00"]`, place{ErrSurrogate, 2, "/0"}},
	{"i_surrogates the wrong way round", `["\udc00\ud800"]`, place{ErrSurrogate, 2, "/0"}},
	{"i_lone surrogate in a name", `{"\udfff":1}`, place{ErrSurrogate, 2, ""}},

	// Encoding (section 8).
	{"i_byte order mark", "\uFEFF{}", place{ErrBOM, 0, ""}},
	{"i_byte order mark alone", "\uFEFF", place{ErrBOM, 0, ""}},
	{"n_half a byte order mark", "\xef\xbb{}", place{ErrSyntax, 0, ""}},
	{"n_UTF-16, little end first", "\xff\xfe[\x00]\x00", place{ErrSyntax, 0, ""}},
	{"n_UTF-16, big end first, without mark", "\x00[\x00]", place{ErrSyntax, 0, ""}},
	{"n_UTF-16, little end first, without mark", "[\x00\"\x00", place{ErrSyntax, 1, "/0"}},
	{"i_byte that is never UTF-8", "[\"\xff\"]", place{ErrUTF8, 2, "/0"}},
	{"i_continuation byte alone", "[\"\x80\"]", place{ErrUTF8, 2, "/0"}},
	{"i_Latin-1", "[\"caf\xe9\"]", place{ErrUTF8, 5, "/0"}},
	{"i_overlong in two bytes", "[\"\xc0\xaf\"]", place{ErrUTF8, 2, "/0"}},
	{"i_overlong in three bytes", "[\"\xe0\x80\xaf\"]", place{ErrUTF8, 2, "/0"}},
	{"i_overlong in four bytes", "[\"\xf0\x80\x80\xaf\"]", place{ErrUTF8, 2, "/0"}},
	{"i_overlong in six bytes", "[\"\xfc\x83\xbf\xbf\xbf\xbf\"]", place{ErrUTF8, 2, "/0"}},
	{"i_overlong NUL", "[\"\xc0\x80\"]", place{ErrUTF8, 2, "/0"}},
	{"i_surrogate in UTF-8", "[\"\xed\xa0\x80\"]", place{ErrUTF8, 2, "/0"}},
	{"i_beyond U+10FFFF", "[\"\xf4\xbf\xbf\xbf\"]", place{ErrUTF8, 2, "/0"}},
	{"i_UTF-8 cut off by the quote", "[\"€\xe2\x82\"]", place{ErrUTF8, 5, "/0"}},
	{"i_UTF-8 cut off by the end", "[\"\xe2\x82", place{ErrUTF8, 2, "/0"}},
	{"i_bad byte in a name", "{\"a\xff\":1}", place{ErrUTF8, 3, ""}},
	{"i_bad byte far into a string", `["` + strings.Repeat("0123456789", 10) + "\xff\"]", place{ErrUTF8, 102, "/0"}},

	// Repeated names (section 4).
	{"i_repeated name", `{"a":1,"a":1}`, place{ErrDuplicate, 7, "/a"}},
	{"i_repeated name, escaped", `{"a":1,"\u0061":2}`, place{ErrDuplicate, 7, "/a"}},
	{"i_repeated name, escaped first", `{"\u0061":1,"a":2}`, place{ErrDuplicate, 12, "/a"}},
	{"i_repeated empty name", `{"":1,"":2}`, place{ErrDuplicate, 6, "/"}},
	{"i_repeated name far inside", `{"x":[0,{"y":{"b":1,"c":2,"b":3}}]}`, place{ErrDuplicate, 26, "/x/1/y/b"}},
	{"i_repeated name around an inner object", `{"a":{"b":1},"a":2}`, place{ErrDuplicate, 13, "/a"}},
	{"i_repeated name with signs of the pointer", `{"a/b~c":1,"a/b~c":2}`, place{ErrDuplicate, 11, "/a~1b~0c"}},
	{"i_repeated name among many", manyNames(100, 50), place{ErrDuplicate, 1 + 99*10, "/n0050"}},
	{"i_repeated first name among many", manyNames(17, 0), place{ErrDuplicate, 1 + 16*10, "/n0000"}},
}

// manyNames returns an object with n members, the last but one of which has the name of member again.
func manyNames(n, again int) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n - 1 {
		b.WriteString(nameOf(i) + ":1,")
	}
	b.WriteString(nameOf(again) + `:1,"z":0}`)
	return b.String()
}

func nameOf(i int) string {
	const digits = "0123456789"
	return string([]byte{'"', 'n', digits[i/1000%10], digits[i/100%10], digits[i/10%10], digits[i%10], '"'})
}

func TestTextIsAcceptedOrRefusedAtItsFault(t *testing.T) {
	for _, c := range grammarCases {
		t.Run(c.name, func(t *testing.T) {
			c.check(t, c.text, Valid([]byte(c.text)))

			// Token by token it is the same.
			var v tree
			c.check(t, c.text, Unmarshal([]byte(c.text), &v))

			// encoding/json agrees but where we are stricter.
			if accepted, theirs := c.err == nil, json.Valid([]byte(c.text)); accepted != theirs && !stricter(c.err) {
				t.Errorf("accepted: %v, by encoding/json: %v", accepted, theirs)
			}
		})
	}
}

// stricter reports whether an error is for text that encoding/json lets pass.
func stricter(err error) bool {
	for _, e := range []error{ErrUTF8, ErrSurrogate, ErrDuplicate, ErrDepth, ErrSize, ErrStringSize} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Every prefix of a good text ends early, unless it is a good text itself.
func TestTextThatIsCutOffEndsEarly(t *testing.T) {
	const text = ` {"a":[1.5e-7,-0,true,false,null,"x\n\u00e9\ud83d\ude00€"],"b":{"c":{}},"d":[[]]} `
	end := strings.LastIndexByte(text, '}') + 1
	for n := range end {
		err := Valid([]byte(text[:n]))
		if strings.HasSuffix(text[:n], "\xe2") || strings.HasSuffix(text[:n], "\xe2\x82") {
			if !errors.Is(err, ErrUTF8) {
				t.Errorf("%q: %v", text[:n], err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, ErrEOF) || e.Offset != int64(n) {
			t.Errorf("%q: %v", text[:n], err)
		}
	}
	for n := end; n <= len(text); n++ {
		if err := Valid([]byte(text[:n])); err != nil {
			t.Errorf("%q: %v", text[:n], err)
		}
	}
}
