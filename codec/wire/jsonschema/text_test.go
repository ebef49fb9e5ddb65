package jsonschema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec"
)

// Numbers compare as in math/big. The texts write the same number in many ways.
func TestNumbersCompareExactly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	digits := func(least int) string {
		var s strings.Builder
		for range least + rng.IntN(4) {
			s.WriteByte("0001259"[rng.IntN(7)])
		}
		return s.String()
	}
	text := func() string {
		s := strings.TrimLeft(digits(0), "0")
		if s == "" {
			s = "0"
		}
		if rng.IntN(2) == 0 {
			s = "-" + s
		}
		if rng.IntN(2) == 0 {
			s += "." + digits(1)
		}
		if rng.IntN(2) == 0 {
			s += []string{"e", "E+", "e-"}[rng.IntN(3)] + digits(1)[:1]
		}
		return s
	}
	rat := func(s string) *big.Rat {
		r, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("not a number: %s", s)
		}
		return r
	}
	equal := 0
	for range 200_000 {
		a, b := text(), text()
		want := rat(a).Cmp(rat(b))
		if want == 0 {
			equal++
		}
		if got := parseNumber([]byte(a)).compare(parseNumber([]byte(b))); got != want {
			t.Fatalf("compare %s with %s: got %d, want %d", a, b, got, want)
		}
		if got, want := isInteger([]byte(a)), rat(a).IsInt(); got != want {
			t.Fatalf("%s is an integer: got %t", a, got)
		}
	}
	if equal < 1000 {
		t.Errorf("only %d pairs were equal", equal)
	}
}

func TestHugeExponents(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"1e99999999999999999999", "1", 1},
		{"-1e99999999999999999999", "1", -1},
		{"1e-99999999999999999999", "0", 1},
		{"1e-99999999999999999999", "1e-3", -1},
		{"0e99999999999999999999", "-0", 0},
		{"10e1000000", "1e1000001", 0},
		{"0." + strings.Repeat("0", 5000) + "1e5001", "1.0", 0},
	} {
		if got := parseNumber([]byte(test.a)).compare(parseNumber([]byte(test.b))); got != test.want {
			t.Errorf("compare %.30s with %.30s: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

// FuzzText compares how this package reads well-formed strings and values with encoding/json.
func FuzzText(f *testing.F) {
	for _, seed := range [][2]string{
		{`"a\u0062\n\ud83d\ude00é"`, `"ab\n😀é"`}, {`[1.0,{"a":null,"b":[]}]`, `[1,{"b":[],"\u0061":null}]`}, {`{"a":1}`, `{"a":1,"b":2}`},
		{`"\u00e9"`, `"z"`}, {`true`, `false`}, {`-0`, `0.0`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if len(a)+len(b) > 1000 || codec.Valid(a) != nil || codec.Valid(b) != nil {
			return
		}
		if end := skip(a, space(a, 0)); strings.TrimSpace(string(a[end:])) != "" {
			t.Fatalf("skip stops at %d of %s", end, a)
		}
		var compact strings.Builder
		if err := json.NewEncoder(&compact).Encode(json.RawMessage(b)); err != nil {
			t.Fatal(err)
		}
		va, sa := generic(t, a)
		vb, sb := generic(t, b)
		if sa && sb { // few enough digits for float64
			if got, want := equals(a, space(a, 0), strings.TrimSpace(compact.String())), va == vb; got != want {
				t.Fatalf("%s equals %s: got %t", a, b, got)
			}
		}
		var x, y string
		if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil || a[space(a, 0)] != '"' {
			return
		}
		content := a[space(a, 0)+1:]
		content = content[:strings.LastIndexByte(string(content), '"')]
		if got, want := order(content, y), cmp.Compare(x, y); got != want {
			t.Fatalf("order of %s and %q: got %d, want %d", a, y, got, want)
		}
		if got, want := codePoints(content), utf8.RuneCountInString(x); got != want {
			t.Fatalf("%d code points in %s, want %d", got, a, want)
		}
	})
}

// generic returns a text that is the same for equal values. It returns false if that does not hold
// for a number in the value.
func generic(t *testing.T, text []byte) (string, bool) {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return "", false // a float64 cannot represent the number
	}
	simple := true
	run := 0
	for _, c := range text {
		if '0' <= c && c <= '9' || c == '.' || c|0x20 == 'e' {
			run++
		} else {
			run = 0
		}
		simple = simple && run < 15
	}
	zero := func(f float64) float64 { return f + 0 } // no negative zero
	var norm func(v any) any
	norm = func(v any) any {
		switch v := v.(type) {
		case float64:
			return zero(v)
		case []any:
			for i := range v {
				v[i] = norm(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = norm(v[k])
			}
		}
		return v
	}
	return fmt.Sprintf("%#v", norm(v)), simple && !strings.ContainsAny(string(text), "eE")
}

// FuzzCheck checks random text against a table with all kinds of nodes. The check must not panic,
// and must refuse malformed text exactly as package codec does.
func FuzzCheck(f *testing.F) {
	table := &Table{Nodes: []Node{
		{}, {Types: Never},
		{Types: Integer, Bounds: []Bound{{Minimum, "-5"}, {ExclusiveMaximum, "1e3"}}},
		{Types: String, Bounds: []Bound{{MinLength, "1"}, {MaxLength, "5"}}},
		{Enum: []string{`"a"`, `[1,{"b":2.0}]`, `{"a":"\n"}`}},
		{Types: Object, Props: []Prop{{Name: "k", Node: 8, Required: true}, {Name: "t", Node: 4}}, Rest: 8, Names: 3},
		{Types: Object, Props: []Prop{{Name: "k", Node: 2}, {Name: "u", Node: 8, Required: true}}, Rest: None},
		{Types: Array, Items: 8, Bounds: []Bound{{MaxItems, "3"}}},
		{Union: []Variant{{Node: 2, Kinds: Integer}, {Node: 3, Kinds: String}, {Node: 5, Kinds: Object, Tags: []string{`"a"`}}, {Node: 6, Kinds: Object}, {Node: 7, Kinds: Array}, {Node: 9}}, Tag: "t"},
		{All: []int32{4, 10}, Not: 2},
		{Union: []Variant{{Node: 7}, {Node: 4}}, Exact: true},
	}}
	for _, seed := range []string{
		`{"k":[1,2.5,"abc",{"u":7,"k":-9},["",null]],"t":"a"}`, `[1,{"b":2}]`, `{"u":{"u":{"k":{"t":"b"}}}}`, `{"a":"\n"}`, `{"":1`, "[[[[[[",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := table.Check(8, data)
		bad := codec.Valid(data)
		if faults, ok := err.(Faults); ok {
			for i, e := range faults {
				if i > 0 && e.Offset < faults[i-1].Offset {
					t.Fatalf("faults are not in order:\n%v", err)
				}
				if at, ok := codec.Locate(data, e.Pointer); bad == nil && (!ok || at < 0) {
					t.Fatalf("no value at %q: %v", e.Pointer, e)
				}
			}
		} else if err != nil {
			t.Fatalf("%T is not Faults", err)
		}
		if bad != nil && (err == nil || err.(Faults)[0].Error() != bad.Error()) {
			t.Fatalf("got %v, want %v", err, bad)
		}
	})
}
