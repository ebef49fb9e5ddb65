package wire_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

func TestScalarKeepsItsTextAndType(t *testing.T) {
	cases := []struct {
		text string
		kind wire.ScalarKind
	}{
		{`""`, wire.ScalarString},
		{`"7"`, wire.ScalarString},
		{`"true"`, wire.ScalarString},
		{`"é\n"`, wire.ScalarString},
		{`7`, wire.ScalarInteger},
		{`-0`, wire.ScalarInteger},
		{`7.0`, wire.ScalarInteger},
		{`70e-1`, wire.ScalarInteger},
		{`1e3`, wire.ScalarInteger},
		{`99999999999999999999999`, wire.ScalarInteger},
		{`7.5`, wire.ScalarNumber},
		{`1e-3`, wire.ScalarNumber},
		{`true`, wire.ScalarBool},
		{`false`, wire.ScalarBool},
	}
	seen := map[codec.Scalar]string{}
	for _, c := range cases {
		var s codec.Scalar
		if err := codec.Unmarshal([]byte(c.text), &s); err != nil || s.Kind() != c.kind || s.IsZero() {
			t.Errorf("%s: got %v of kind %v, %v", c.text, s, s.Kind(), err)
		}
		if out, err := codec.Marshal(s); err != nil || string(out) != c.text {
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
		var u codec.Scalar
		if err := json.Unmarshal([]byte(c.text), &u); err != nil || u != s {
			t.Errorf("%s: encoding/json reads %v, %v", c.text, u, err)
		}
	}
}

func TestScalarConvertsToItsOwnTypeOnly(t *testing.T) {
	number := func(n codec.Number) codec.Scalar {
		s, err := codec.NumberScalar(n)
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
		n         codec.Number
		isNumber  bool
		b, isBool bool
	}
	for s, want := range map[codec.Scalar]values{
		{}:                             {},
		codec.StringScalar("7"):        {text: "7", isText: true},
		codec.StringScalar(""):         {isText: true},
		codec.IntScalar(-7):            {i: -7, isInt: true, n: "-7", isNumber: true},
		number("6e4"):                  {i: 60000, isInt: true, n: "6e4", isNumber: true},
		number("1.5"):                  {n: "1.5", isNumber: true},
		number("9223372036854775808"):  {n: "9223372036854775808", isNumber: true},
		codec.BoolScalar(true):         {b: true, isBool: true},
		codec.BoolScalar(false):        {isBool: true},
		codec.StringScalar("true"):     {text: "true", isText: true},
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

func TestReadScalarRejectsOtherKinds(t *testing.T) {
	cases := []struct {
		text  string
		allow wire.ScalarKind
		want  string // of ErrType, or empty for ErrInteger
		got   wire.Kind
	}{
		{`true`, wire.ScalarString | wire.ScalarInteger, "string or integer", wire.KindBool},
		{`null`, wire.ScalarString | wire.ScalarInteger, "string or integer", wire.KindNull},
		{`{}`, wire.ScalarString | wire.ScalarNumber | wire.ScalarBool, "string or number or boolean", wire.KindObject},
		{`[]`, wire.ScalarBool, "boolean", wire.KindArray},
		{`"1"`, wire.ScalarInteger, "integer", wire.KindString},
		{`1`, wire.ScalarString, "string", wire.KindNumber},
		{`1`, 0, "nothing", wire.KindNumber},
		{`1.5`, wire.ScalarString | wire.ScalarInteger, "", 0},
	}
	for _, c := range cases {
		r := newReader([]byte(c.text))
		if s := codec.ReadScalar(r, c.allow); !s.IsZero() {
			t.Errorf("%s: got %v", c.text, s)
		}
		if c.want == "" {
			if !errors.Is(errorOf(r), jsonfault.Integer) {
				t.Errorf("%s: %v", c.text, errorOf(r))
			}
		} else if !isKind(errorOf(r), c.want, c.got) {
			t.Errorf("%s: %v", c.text, errorOf(r))
		}
	}
	r := newReader([]byte(`7`))
	if s := codec.ReadScalar(r, wire.ScalarNumber); s != codec.IntScalar(7) || errorOf(r) != nil {
		t.Errorf("an integer where numbers are allowed: %v, %v", s, errorOf(r))
	}
}

func TestZeroScalarCannotBeWritten(t *testing.T) {
	_, err := codec.Marshal(codec.Scalar{})
	place{codec.ErrNoValue, 0, ""}.check(t, "", err)
	if got := (codec.Scalar{}).String(); got != "" {
		t.Errorf("as a string: %q", got)
	}
	_, err = codec.Marshal(codec.StringScalar("a\xff"))
	place{jsonfault.UTF8, 0, ""}.check(t, "", err)
	if got := codec.StringScalar("a\xff").String(); got != `"a\xff"` {
		t.Errorf("as a string: %s", got)
	}
	for _, n := range []codec.Number{"", "x", "01", "1 "} {
		if s, err := codec.NumberScalar(n); !errors.Is(err, jsonfault.Number) || !s.IsZero() {
			t.Errorf("NumberScalar(%q): %v, %v", n, s, err)
		}
	}
}
