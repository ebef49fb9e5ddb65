package codec

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestScalarKeepsItsTextAndType(t *testing.T) {
	cases := []struct {
		text string
		kind ScalarKind
	}{
		{`""`, ScalarString},
		{`"7"`, ScalarString},
		{`"true"`, ScalarString},
		{`"é\n"`, ScalarString},
		{`7`, ScalarInteger},
		{`-0`, ScalarInteger},
		{`7.0`, ScalarInteger},
		{`70e-1`, ScalarInteger},
		{`1e3`, ScalarInteger},
		{`99999999999999999999999`, ScalarInteger},
		{`7.5`, ScalarNumber},
		{`1e-3`, ScalarNumber},
		{`true`, ScalarBool},
		{`false`, ScalarBool},
	}
	seen := map[Scalar]string{}
	for _, c := range cases {
		var s Scalar
		if err := Unmarshal([]byte(c.text), &s); err != nil || s.Kind() != c.kind || s.IsZero() {
			t.Errorf("%s: got %v of kind %v, %v", c.text, s, s.Kind(), err)
		}
		if out, err := Marshal(s); err != nil || string(out) != c.text {
			t.Errorf("%s: wrote %s, %v", c.text, out, err)
		}
		if s.String() != c.text {
			t.Errorf("%s: as a string %s", c.text, s)
		}
		if other, ok := seen[s]; ok {
			t.Errorf("%s equals %s", c.text, other)
		}
		seen[s] = c.text
		if out, err := json.Marshal([]any{s}); err != nil || string(out) != "["+c.text+"]" {
			t.Errorf("%s: encoding/json writes %s, %v", c.text, out, err)
		}
		var u Scalar
		if err := json.Unmarshal([]byte(c.text), &u); err != nil || u != s {
			t.Errorf("%s: encoding/json reads %v, %v", c.text, u, err)
		}
	}
}

func TestScalarGivesItsValueInItsOwnTypeOnly(t *testing.T) {
	number := func(n Number) Scalar {
		s, err := NumberScalar(n)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	type values struct {
		text      string
		isText    bool
		i         int64
		isInt     bool
		n         Number
		isNumber  bool
		b, isBool bool
	}
	for s, want := range map[Scalar]values{
		{}:                             {},
		StringScalar("7"):              {text: "7", isText: true},
		StringScalar(""):               {isText: true},
		IntScalar(-7):                  {i: -7, isInt: true, n: "-7", isNumber: true},
		number("6e4"):                  {i: 60000, isInt: true, n: "6e4", isNumber: true},
		number("1.5"):                  {n: "1.5", isNumber: true},
		number("9223372036854775808"):  {n: "9223372036854775808", isNumber: true},
		BoolScalar(true):               {b: true, isBool: true},
		BoolScalar(false):              {isBool: true},
		StringScalar("true"):           {text: "true", isText: true},
		number("-9223372036854775808"): {i: -1 << 63, isInt: true, n: "-9223372036854775808", isNumber: true},
	} {
		var got values
		got.text, got.isText = s.Text()
		got.i, got.isInt = s.Int()
		got.n, got.isNumber = s.Number()
		got.b, got.isBool = s.Bool()
		if got != want {
			t.Errorf("%v: got %+v, want %+v", s, got, want)
		}
	}
}

func TestScalarOfAKindThatIsNotAllowedIsRefused(t *testing.T) {
	cases := []struct {
		text  string
		allow ScalarKind
		want  string // of the TypeError, or empty for ErrInteger
		got   Kind
	}{
		{`true`, ScalarString | ScalarInteger, "string or integer", KindBool},
		{`null`, ScalarString | ScalarInteger, "string or integer", KindNull},
		{`{}`, ScalarString | ScalarNumber | ScalarBool, "string or number or boolean", KindObject},
		{`[]`, ScalarBool, "boolean", KindArray},
		{`"1"`, ScalarInteger, "integer", KindString},
		{`1`, ScalarString, "string", KindNumber},
		{`1`, 0, "nothing", KindNumber},
		{`1.5`, ScalarString | ScalarInteger, "", 0},
	}
	for _, c := range cases {
		r := NewReader([]byte(c.text))
		if s := r.Scalar(c.allow); !s.IsZero() {
			t.Errorf("%s: got %v", c.text, s)
		}
		var wrong *TypeError
		if c.want == "" {
			if !errors.Is(r.Err(), ErrInteger) {
				t.Errorf("%s: %v", c.text, r.Err())
			}
		} else if !errors.As(r.Err(), &wrong) || *wrong != (TypeError{c.want, c.got}) {
			t.Errorf("%s: %v", c.text, r.Err())
		}
	}
	r := NewReader([]byte(`7`))
	if s := r.Scalar(ScalarNumber); s != IntScalar(7) || r.Err() != nil {
		t.Errorf("an integer where numbers are allowed: %v, %v", s, r.Err())
	}
}

func TestScalarWithoutValueCannotBeWritten(t *testing.T) {
	_, err := Marshal(Scalar{})
	place{ErrNoValue, 0, ""}.check(t, "", err)
	if got := (Scalar{}).String(); got != "" {
		t.Errorf("as a string: %q", got)
	}
	_, err = Marshal(StringScalar("a\xff"))
	place{ErrUTF8, 0, ""}.check(t, "", err)
	if got := StringScalar("a\xff").String(); got != `"a\xff"` {
		t.Errorf("as a string: %s", got)
	}
	for _, n := range []Number{"", "x", "01", "1 "} {
		if s, err := NumberScalar(n); !errors.Is(err, ErrNumber) || !s.IsZero() {
			t.Errorf("NumberScalar(%q): %v, %v", n, s, err)
		}
	}
}
