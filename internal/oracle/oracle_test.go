package oracle

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	for _, tt := range []struct {
		name, want, got string
		at              string // JSON pointer to the difference; "=" for none
	}{
		{"the same number written in many ways", `[60000, 6e4, 60000.0, 0.5, -0, 0.05e1]`, `[6e4, 60000.0, 60000, 5e-1, 0, 0.50]`, "="},
		{"exponents with a sign or leading zeros", `[1e10, 100]`, `[1E+010, 10000e-02]`, "="},
		{"members in another order", `{"a":1,"b":[{}]}`, ` {"b" : [ {} ], "\u0061":1.0}`, "="},
		{"one digit in thirty", `{"n":[123456789012345678901234567890]}`, `{"n":[123456789012345678901234567891]}`, "/n/0:"},
		{"digits that a float64 rounds away", `0.1`, `0.1000000000000000055511151231257827`, ":"},
		{"a number and its text", `{"n":5}`, `{"n":"5"}`, "/n:"},
		{"sign", `1`, `-1`, ":"},
		{"huge exponents", `[1e99999999999999999999, -0e99999999999999999999]`, `[10e99999999999999999998, 0]`, "="},
		{"huge exponents that differ", `1e99999999999999999999`, `1e99999999999999999998`, ":"},
		{"exponent", `1e300`, `1e301`, ":"},
		{"null and no member", `{"a":null}`, `{}`, `: member "a" is missing`},
		{"one more member", `{}`, `{"a":null}`, `: unexpected member "a"`},
		{"one item more", `[1]`, `[1,1]`, ":"},
		{"empty list and empty object", `[]`, `{}`, ":"},
		{"text after the value", `1`, `1 1`, "got: text after"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Diff([]byte(tt.want), []byte(tt.got))
			if tt.at == "=" && d != "" || tt.at != "=" && (d == "" || !strings.HasPrefix(d, tt.at)) {
				t.Errorf("got %q, want a difference at %q", d, tt.at)
			}
		})
	}
}

func TestFormatsAreAnnotations(t *testing.T) {
	for _, src := range []string{
		`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"A":{"type":"string","format":"uri"}}}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{"A":{"type":"string","format":"uri"}}}`,
	} {
		s, err := Compile([]byte(src))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate("A", []byte(`"no uri at all"`)); err != nil {
			t.Errorf("%s: %v", src, err)
		}
		if s.Validate("A", []byte(`1`)) == nil {
			t.Errorf("%s admits a number", src)
		}
	}
}

func TestText(t *testing.T) {
	for _, tt := range []struct {
		text string
		ok   bool
	}{
		{` {"a":[1.5e-7,-0,true,null,"x\n\u00e9\ud83d\ude00\\ud800€",{"a":{}}]} `, true},
		{`"\\\\"`, true}, {`"\\\ud83d\ude00\\"`, true}, {`"\ud83d\ude00\ud83d\ude00"`, true},
		{`"\ud83d"`, false}, {`"\ud83dx\ude00"`, false}, {`"\ude00\ud83d"`, false}, {`"\ude00"`, false}, {`"\ud83d\ud83d\ude00"`, false},
		{`"\ud83d\n"`, false}, {`"\ud83d\u0041"`, false}, {`{"\ud83d":1}`, false}, {`["\ud83d","\ude00"]`, false},
		{"\"\xff\"", false}, {"\"\xed\xa0\x80\"", false}, {"\xef\xbb\xbf1", false},
		{`{"a":1,"a":1}`, false}, {`{"a":{"b":1,"\u0062":2}}`, false}, {`[{"a":1},{"a":1}]`, true}, {`{"a":{"a":1}}`, true}, {`{"":1,"":2}`, false},
		{`[[[[]]]]`, true}, {`[[[[[]]]]]`, false}, {`{"a":[{"a":[1]}]}`, true}, {`{"a":[{"a":[{}]}]}`, false},
		{`1 2`, false}, {``, false}, {`[1,]`, false}, {`01`, false}, {`nul`, false},
	} {
		if err := Text([]byte(tt.text), 4); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.text, err)
		}
	}
}
