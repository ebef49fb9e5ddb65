package wire_test

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/internal/scan"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

func TestIntReturnsNearestInt64(t *testing.T) {
	cases := []struct {
		text  string
		want  int64
		exact bool
	}{
		{"0", 0, true},
		{"-0", 0, true},
		{"7", 7, true},
		{"-7", -7, true},
		{"60000.0", 60000, true},
		{"6e4", 60000, true},
		{"6E+4", 60000, true},
		{"0.6e5", 60000, true},
		{"600000e-1", 60000, true},
		{"12.34e2", 1234, true},
		{"-12.340e+2", -1234, true},
		{"0.0", 0, true},
		{"0e999999999999999999999", 0, true},
		{"0.000e-999999999999999999999", 0, true},
		{"0.001e3", 1, true},
		{"999999999999999999", 999999999999999999, true},
		{"9223372036854775807", math.MaxInt64, true},
		{"-9223372036854775808", math.MinInt64, true},
		{"9223372036854775807.000", math.MaxInt64, true},
		{"9.223372036854775807e18", math.MaxInt64, true},
		{"9223372036854775808", math.MaxInt64, false},
		{"-9223372036854775809", math.MinInt64, false},
		{"9999999999999999999", math.MaxInt64, false},
		{"18446744073709551616", math.MaxInt64, false},
		{"99999999999999999999", math.MaxInt64, false},
		{"-1e400", math.MinInt64, false},
		{"1e999999999999999999999", math.MaxInt64, false},
		{"1" + strings.Repeat("0", 1000) + "e-1000", 1, true},
		{"0." + strings.Repeat("0", 999) + "1e1000", 1, true},
	}
	for _, c := range cases {
		r := newReader([]byte(c.text))
		v, exact := r.Int()
		r.End()
		if err := errorOf(r); err != nil || v != c.want || exact != c.exact {
			t.Errorf("%s: got %d, %v, %v; want %d, %v", clip(c.text), v, exact, err, c.want, c.exact)
		}
		if got, ok := codec.Number(c.text).Int(); ok != c.exact || ok && got != c.want {
			t.Errorf("Number(%s).Int: got %d, %v", clip(c.text), got, ok)
		}
		if !codec.Number(c.text).IsInteger() {
			t.Errorf("Number(%s) is no integer", clip(c.text))
		}
	}
}

func TestIntRejectsFraction(t *testing.T) {
	for _, text := range []string{"1.5", "-0.1", "1e-1", "15e-1", "0.06e1", "1e-999999999999999999999", "10.01e1", "123456789012345678901.5"} {
		r := newReader([]byte(`[` + text + `]`))
		r.Array()
		r.More()
		r.Int()
		place{jsonfault.Integer, 1, "/0"}.check(t, `[`+text+`]`, errorOf(r))
		if codec.Number(text).IsInteger() {
			t.Errorf("%s: is an integer", text)
		}
	}
}

func TestFloatReportsExactness(t *testing.T) {
	cases := []struct {
		text  string
		want  float64
		exact bool
	}{
		{"0", 0, true},
		{"-0", math.Copysign(0, -1), true},
		{"-0.0e5", math.Copysign(0, -1), true},
		{"1", 1, true},
		{"1.0", 1, true},
		{"-1.50", -1.5, true},
		{"0.1", 0.1, true},
		{"1e-1", 0.1, true},
		{"100e-3", 0.1, true},
		{"0.10000000000000000000", 0.1, true},
		{"0.1000000000000000055511151231257827", 0.1, false},
		{"9007199254740992", 9007199254740992, true},
		{"9007199254740993", 9007199254740992, false},
		{"-9007199254740993", -9007199254740992, false},
		{"123456789012345", 123456789012345, true},
		{"12345678901234567890", 12345678901234567000, false},
		{"1e22", 1e22, true},
		{"1e23", 1e23, true},
		{"1.7976931348623157e308", math.MaxFloat64, true},
		{"1e309", math.MaxFloat64, false},
		{"-1e999999999999999999999", -math.MaxFloat64, false},
		{"5e-324", 5e-324, true},
		{"4e-324", 5e-324, false},
		{"1e-400", 0, false},
		{"-1e-400", math.Copysign(0, -1), false},
		{"0e400", 0, true},
		{"3.14159265358979323846264338327950288", math.Pi, false},
	}
	for _, c := range cases {
		r := newReader([]byte(c.text))
		v, exact := r.Float()
		r.End()
		if err := errorOf(r); err != nil || math.Float64bits(v) != math.Float64bits(c.want) || exact != c.exact {
			t.Errorf("%s: got %g, %v, %v; want %g, %v", c.text, v, exact, err, c.want, c.exact)
		}
	}
}

// checkNumber compares scan.ParseInt and scan.ParseFloat with slow counterparts that use math/big.
func checkNumber(t *testing.T, text string) {
	t.Helper()
	_, exp, _ := strings.Cut(strings.ToLower(text), "e")
	if n, err := strconv.Atoi(exp); exp != "" && (err != nil || n > 2000 || n < -2000) {
		return // too much for math/big
	}
	rat, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%s: math/big refuses it", text)
	}
	_, digits, err := scan.Number([]byte(text), 0)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	v, exact, ok := scan.ParseInt([]byte(text), digits)
	if ok != rat.IsInt() {
		t.Errorf("%s: integer: %v", text, ok)
	} else if ok && (exact != rat.Num().IsInt64() || exact && v != rat.Num().Int64()) {
		t.Errorf("%s: int64 %d, %v", text, v, exact)
	}
	f, exact := scan.ParseFloat([]byte(text), digits)
	shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64))
	if want := shortest.Cmp(rat) == 0; exact != want {
		t.Errorf("%s: float64 %g, exact %v, want %v", text, f, exact, want)
	}
}

func TestNumbersAgreeWithBigArithmetic(t *testing.T) {
	for _, mantissa := range []string{
		"0", "1", "9", "10", "15", "100", "123456789", "4503599627370497", "9007199254740993", "999999999999999", "9999999999999999",
		"9223372036854775807", "9223372036854775808", "18446744073709551615", "100000000000000000000", "179769313486231580793728971405301",
	} {
		for _, fraction := range []string{"", ".0", ".5", ".000", ".001", ".250", ".12345678901234567890"} {
			for _, exp := range []string{"", "e0", "E+1", "e-1", "e3", "e-3", "e18", "e19", "e20", "e-19", "e-20", "e22", "e23", "e290", "e308", "e309", "e-308", "e-323", "e-324", "e-325", "e-400"} {
				checkNumber(t, mantissa+fraction+exp)
				checkNumber(t, "-"+mantissa+fraction+exp)
			}
		}
	}
}

func TestWriterWritesIntegersOfAllSizes(t *testing.T) {
	list := []int64{math.MinInt64, -1, 0, math.MaxInt64}
	for v := int64(1); v <= 1e18; v *= 10 {
		list = append(list, v-1, v, v+1, 7*v)
	}
	for _, v := range list {
		got, err := written(t, func(w *wire.Writer) { w.Int(v) })
		if want := strconv.FormatInt(v, 10); err != nil || got != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}

func TestWriterFormatsFloatsLikeEncodingJSON(t *testing.T) {
	for _, v := range []float64{
		0, math.Copysign(0, -1), 1, -1, 0.1, 1e-6, 9.99e-7, 1e-7, 1e-9, 1e-10, 1e20, 1e21, -1e21, 1e100, math.MaxFloat64, 5e-324, math.Pi, 1 << 53,
	} {
		w := wire.NewWriter(nil)
		w.Float(v)
		want, err := json.Marshal(v)
		if err != nil || writeError(w) != nil || string(w.Bytes()) != string(want) {
			t.Errorf("got %s, %v, want %s, %v", w.Bytes(), writeError(w), want, err)
		}
	}
}

func TestNumberKeepsItsText(t *testing.T) {
	for _, text := range []string{"1.0", "1e3", "-0", "0.10", "123456789012345678901234567890", "1E+400"} {
		var n codec.Number
		if err := n.UnmarshalJSON([]byte(text)); err != nil || string(n) != text {
			t.Errorf("%s: got %s, %v", text, n, err)
		}
		if out, err := n.MarshalJSON(); err != nil || string(out) != text {
			t.Errorf("%s: wrote %s, %v", text, out, err)
		}
		var std []codec.Number
		if err := json.Unmarshal([]byte("["+text+"]"), &std); err != nil || std[0] != n {
			t.Errorf("%s: encoding/json read %s, %v", text, std, err)
		}
		if out, err := json.Marshal([]codec.Number{n}); err != nil || string(out) != "["+text+"]" {
			t.Errorf("%s: encoding/json wrote %s, %v", text, out, err)
		}
	}
}

func TestWriterRejectsInvalidNumber(t *testing.T) {
	for text, want := range map[codec.Number]error{"": codec.ErrNoValue, " 1": jsonfault.Number, "1 ": jsonfault.Number, "01": jsonfault.Number, "1,2": jsonfault.Number, "NaN": jsonfault.Number, "-": jsonfault.Number, "1\n": jsonfault.Number} {
		_, err := text.MarshalJSON()
		place{want, 0, ""}.check(t, "", err)
		if _, ok := text.Int(); ok {
			t.Errorf("%q: has an int64", text)
		}
		if _, ok := text.Float(); ok {
			t.Errorf("%q: has a float64", text)
		}
		if text.IsInteger() {
			t.Errorf("%q: is an integer", text)
		}
	}
}

func TestNumberFloat(t *testing.T) {
	for text, want := range map[codec.Number]float64{"1.5": 1.5, "-0.1": -0.1, "6e4": 60000, "9007199254740993": 9007199254740992, "1e-400": 0} {
		if got, ok := text.Float(); got != want || !ok {
			t.Errorf("%s: got %g, %v", text, got, ok)
		}
	}
	if got, ok := codec.Number("1e400").Float(); got != 0 || ok {
		t.Errorf("out of range: got %g, %v", got, ok)
	}
}
