package wire_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// written returns the text that f writes after "dst:".
func written(t *testing.T, f func(w *wire.Writer)) (string, error) {
	t.Helper()
	w := wire.NewWriter([]byte("dst:"))
	f(w)
	out, ok := strings.CutPrefix(string(w.Bytes()), "dst:")
	if !ok {
		t.Fatalf("the text before became %s", w.Bytes())
	}
	return out, writeError(w)
}

func TestWriterEscapesOnlyWhereRequired(t *testing.T) {
	for s, want := range map[string]string{
		"":                        `""`,
		"a":                       `"a"`,
		`say "hi"\`:               `"say \"hi\"\\"`,
		"\b\f\n\r\t":              `"\b\f\n\r\t"`,
		"\x00\x1f\v":              `"\u0000\u001f\u000b"`,
		"</script>&'/":            `"</script>&'/"`,
		"\x7f\u2028\u2029\uFEFF":  "\"\x7f\u2028\u2029\uFEFF\"",
		"0123456\"89012345\n6789": `"0123456\"89012345\n6789"`,
		"\uFFFD😀":                 "\"\uFFFD😀\"",
	} {
		got, err := written(t, func(w *wire.Writer) { w.Text(s) })
		if err != nil || got != want {
			t.Errorf("%q: got %s, %v", s, got, err)
		}
		r := newReader([]byte(got))
		if back := r.Text(); back != s || errorOf(r) != nil {
			t.Errorf("%q: read back as %q, %v", s, back, errorOf(r))
		}
	}
}

// Every byte at every position of an eight-byte word, next to every byte that could cause a borrow
// in the bit arithmetic.
func TestWriterTextAgreesWithEncodingJSON(t *testing.T) {
	for c := range 256 {
		for at := range 19 {
			for _, fill := range []byte{'a', 0x7f, 0x20, 0x21, 0x23, 0x5b, 0x5d} {
				b := []byte(strings.Repeat(string(fill), 19))
				b[at] = byte(c)
				got, err := written(t, func(w *wire.Writer) { w.Text(string(b)) })
				if c >= 0x80 {
					if !errors.Is(err, jsonfault.UTF8) || got != "" {
						t.Fatalf("%q: got %s, %v", b, got, err)
					}
				} else {
					var back string
					if json.Unmarshal([]byte(got), &back) != nil || back != string(b) || err != nil {
						t.Fatalf("%q: got %s, %v", b, got, err)
					}
				}
				// Read the unescaped bytes.
				text := append(append([]byte{'"'}, b...), '"')
				if ours, theirs := codec.Valid(text) == nil, json.Valid(text); ours != theirs && c < 0x80 || c >= 0x80 && ours {
					t.Fatalf("%q: valid %v, by encoding/json %v", text, ours, theirs)
				}
			}
		}
	}
}

func TestWriterPlacesCommas(t *testing.T) {
	got, err := written(t, func(w *wire.Writer) {
		start := w.Begin()
		w.Key(`,"a":`)
		w.BeginArray()
		w.EndArray()
		w.Key(`,"b":`)
		w.BeginArray()
		w.Elem()
		w.Int(-1)
		w.Elem()
		w.BeginArray()
		w.Elem()
		w.Null()
		w.EndArray()
		w.Elem()
		w.Text("[")
		w.Elem()
		w.Text("{")
		w.EndArray()
		w.MapKey("{")
		w.Begin()
		w.End()
		w.MapKey("c")
		w.Bool(true)
		var x wire.Extra
		x.Set("d", json.RawMessage(`"{"`))
		x.Set("e", json.RawMessage(`[]`))
		w.EndExtra(start, x, nil)
	})
	if want := `{"a":[],"b":[-1,[null],"[","{"],"{":{},"c":true,"d":"{","e":[]}`; err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestWriterPutsRawValueOnOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                                  "null",
		" 1 ":                               "1",
		"{\"a\" : [1 , 2]}":                 "{\"a\" : [1 , 2]}",
		"{\"a\" : [1 ,\n 2, \" \\n x\"]\r}": `{"a":[1,2," \n x"]}`,
		"\n\"a b\"\r\n":                     `"a b"`,
	} {
		got, err := written(t, func(w *wire.Writer) { w.Raw(json.RawMessage(in)) })
		if err != nil || got != want {
			t.Errorf("%q: got %s, %v", in, got, err)
		}
	}
	got, err := written(t, func(w *wire.Writer) {
		w.BeginArray()
		w.Elem()
		w.RawObject(nil)
		w.Elem()
		w.RawArray(json.RawMessage{})
		w.Elem()
		w.RawObject(json.RawMessage(" {\n} "))
		w.Elem()
		w.RawArray(json.RawMessage("[1]"))
		w.EndArray()
	})
	if want := `[{},[],{},[1]]`; err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestWriterFailureHasOffsetAndPointer(t *testing.T) {
	raw := func(s string) func(w *wire.Writer) { return func(w *wire.Writer) { w.Raw(json.RawMessage(s)) } }
	in := func(f func(w *wire.Writer)) func(w *wire.Writer) {
		return func(w *wire.Writer) {
			w.Begin()
			w.Key(`,"a/b":`)
			w.BeginArray()
			w.Elem()
			w.Int(0)
			w.Elem()
			f(w)
			w.EndArray()
			w.End()
		}
	}
	mine := errors.New("mine")
	for name, c := range map[string]struct {
		write func(w *wire.Writer)
		place
	}{
		"text at the top":            {func(w *wire.Writer) { w.Text("a\xff") }, place{jsonfault.UTF8, 0, ""}},
		"text inside":                {in(func(w *wire.Writer) { w.Text("a\xff") }), place{jsonfault.UTF8, 10, "/a~1b/1"}},
		"surrogate in UTF-8":         {func(w *wire.Writer) { w.Text("\xed\xa0\x80") }, place{jsonfault.UTF8, 0, ""}},
		"first element":              {func(w *wire.Writer) { w.BeginArray(); w.Elem(); w.Text("\xff") }, place{jsonfault.UTF8, 1, "/0"}},
		"infinity":                   {in(func(w *wire.Writer) { w.Float(math.Inf(-1)) }), place{jsonfault.Float, 10, "/a~1b/1"}},
		"not a number":               {func(w *wire.Writer) { w.Float(math.NaN()) }, place{jsonfault.Float, 0, ""}},
		"raw not closed":             {raw(`[1`), place{jsonfault.EOF, 2, "/0"}},
		"raw with two values":        {raw(`1 2`), place{jsonfault.Trailing, 2, ""}},
		"raw of white space":         {raw(` `), place{jsonfault.EOF, 1, ""}},
		"raw with a repeated name":   {in(raw(`{"c":1,"c":2}`)), place{codec.ErrDuplicate, 17, "/a~1b/1/c"}},
		"raw with bad UTF-8":         {raw("\"\xff\""), place{jsonfault.UTF8, 1, ""}},
		"raw that is no object":      {in(func(w *wire.Writer) { w.RawObject(json.RawMessage(`[]`)) }), place{codec.ErrType, 10, "/a~1b/1"}},
		"raw that is no array":       {in(func(w *wire.Writer) { w.RawArray(json.RawMessage(`null`)) }), place{codec.ErrType, 10, "/a~1b/1"}},
		"raw object that is nothing": {func(w *wire.Writer) { w.RawObject(json.RawMessage(`x`)) }, place{codec.ErrSyntax, 0, ""}},
		"fail about a value":         {in(func(w *wire.Writer) { w.Fail("", mine); w.Null() }), place{mine, 10, "/a~1b/1"}},
		"fail about a member":        {func(w *wire.Writer) { w.Begin(); w.Fail("x~y", mine) }, place{mine, 1, "/x~0y"}},
		"fail further in":            {in(func(w *wire.Writer) { w.Fail("", &codec.Error{Pointer: "/b/0", Err: mine}) }), place{mine, 10, "/a~1b/1/b/0"}},
		"fail further in a member":   {func(w *wire.Writer) { w.Begin(); w.Fail("x", &codec.Error{Pointer: "/y", Err: mine}) }, place{mine, 1, "/x/y"}},
		"only the first failure":     {func(w *wire.Writer) { w.Fail("", mine); w.Text("\xff") }, place{mine, 0, ""}},
		"bad name":                   {func(w *wire.Writer) { w.Begin(); w.MapKey("\xff"); w.Null() }, place{jsonfault.UTF8, 1, ""}},
		"bad extra": {func(w *wire.Writer) {
			var x wire.Extra
			x.Set("e", json.RawMessage(`{"a":}`))
			w.EndExtra(w.Begin(), x, nil)
		}, place{codec.ErrSyntax, 10, "/e/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := written(t, c.write)
			if got != "" {
				t.Errorf("it wrote %s", got)
			}
			c.check(t, strings.Repeat(" ", 100), err)
		})
	}
}

func TestAppendKeepsPrefix(t *testing.T) {
	dst := make([]byte, 3, 100)
	copy(dst, "abc")
	out, err := codec.Append(dst, codec.IntScalar(5))
	if string(out) != "abc5" || err != nil {
		t.Errorf("got %s, %v", out, err)
	}
	out, err = codec.Append(dst, codec.StringScalar("some text\xff"))
	if string(out) != "abc" || !errors.Is(err, jsonfault.UTF8) {
		t.Errorf("got %s, %v", out, err)
	}
	if out, err := codec.Marshal(codec.Scalar{}); out != nil || err == nil {
		t.Errorf("got %s, %v", out, err)
	}
}

func TestWriterIgnoresNilError(t *testing.T) {
	got, err := written(t, func(w *wire.Writer) { w.Fail("a", nil); w.Null() })
	if got != "null" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
}

// rawText is a value that is written without a check.
type rawText string

func (t rawText) EncodeJSON(w *wire.Writer) { w.Lit(string(t)) }

func TestWriterEndsObjectWithMembersOfAnother(t *testing.T) {
	for v, want := range map[string]string{
		`{}`: `{"a":1}{}`, `{ }`: `{"a":1}{}`, `{"b":2}`: `{"a":1,"b":2}{"b":2}`, `{"b":{"c":[]},"d":3}`: `{"a":1,"b":{"c":[]},"d":3}{"b":{"c":[]},"d":3}`,
	} {
		got, err := written(t, func(w *wire.Writer) {
			w.Begin()
			w.Key(`,"a":`)
			w.Int(1)
			w.EndWith(rawText(v))
			w.Begin()
			w.EndWith(rawText(v))
		})
		if err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", v, got, err, want)
		}
	}
	for _, v := range []string{``, `[]`, `1`, `"{"`} {
		_, err := written(t, func(w *wire.Writer) {
			w.Begin()
			w.EndWith(rawText(v))
		})
		if !errors.Is(err, codec.ErrType) {
			t.Errorf("%s: got %v", v, err)
		}
	}
	fault := errors.New("fault")
	_, err := written(t, func(w *wire.Writer) {
		w.Begin()
		w.Key(`,"a":`)
		w.Int(1)
		w.EndWith(failingObject{fault})
	})
	if !errors.Is(err, fault) {
		t.Errorf("got %v", err)
	}
}

type failingObject struct{ err error }

func (v failingObject) EncodeJSON(w *wire.Writer) {
	w.Begin()
	w.Key(`,"b":`)
	w.Fail("", v.err)
}
