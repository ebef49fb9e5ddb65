package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec/internal/scan"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

func TestWrongKindFailsWithErrType(t *testing.T) {
	values := map[string]wire.Kind{
		`null`: wire.KindNull, `true`: wire.KindBool, `-1`: wire.KindNumber, `"a"`: wire.KindString, `[1]`: wire.KindArray, `{"a":1}`: wire.KindObject,
	}
	readers := map[string]struct {
		takes wire.Kind
		read  func(r *wire.Reader)
	}{
		"boolean": {wire.KindBool, func(r *wire.Reader) { r.Bool() }},
		"string":  {wire.KindString, func(r *wire.Reader) { r.Text() }},
		"integer": {wire.KindNumber, func(r *wire.Reader) { r.Int() }},
		"number":  {wire.KindNumber, func(r *wire.Reader) { r.Float() }},
		"array":   {wire.KindArray, func(r *wire.Reader) { r.Array() }},
		"object":  {wire.KindObject, func(r *wire.Reader) { r.Object() }},
	}
	for text, kind := range values {
		for want, c := range readers {
			r := newReader([]byte(`{"v": ` + text + `}`))
			r.Object()
			r.More()
			r.Key()
			c.read(r)
			switch {
			case kind == c.takes && r.Failed():
				t.Errorf("%s as %s: %v", text, want, errorOf(r))
			case kind == c.takes:
			case !isKind(errorOf(r), want, kind):
				t.Errorf("%s as %s: %v", text, want, errorOf(r))
			default:
				place{codec.ErrType, 6, "/v"}.check(t, `{"v": `+text+`}`, errorOf(r))
			}
		}
	}
}

func TestReadMethodsOfSameKindAgree(t *testing.T) {
	for name, read := range map[string]func(r *wire.Reader){
		"TextBytes": func(r *wire.Reader) { r.TextBytes() },
		"RawObject": func(r *wire.Reader) { r.RawObject() },
		"RawArray":  func(r *wire.Reader) { r.RawArray() },
		"Number":    func(r *wire.Reader) { r.Number() },
		"Text":      func(r *wire.Reader) { r.Text() },
		"Object":    func(r *wire.Reader) { r.Object() },
		"Scalar":    func(r *wire.Reader) { codec.ReadScalar(r, wire.ScalarString) },
	} {
		for text, want := range map[string]error{``: jsonfault.EOF, ` `: jsonfault.EOF, `x`: codec.ErrSyntax, `,`: codec.ErrSyntax, "\xff": codec.ErrSyntax} {
			r := newReader([]byte(text))
			read(r)
			if !errors.Is(errorOf(r), want) {
				t.Errorf("%s of %q: %v", name, text, errorOf(r))
			}
		}
		r := newReader([]byte(`true`))
		read(r)
		if !errors.Is(errorOf(r), codec.ErrType) {
			t.Errorf("%s of true: %v", name, errorOf(r))
		}
	}
	r := newReader([]byte(` [ {"a":1} , [ 2 ] ]`))
	r.Array()
	if r.More(); string(r.RawObject()) != `{"a":1}` {
		t.Errorf("RawObject: %v", errorOf(r))
	}
	if r.More(); string(r.RawArray()) != `[ 2 ]` || r.More() || errorOf(r) != nil {
		t.Errorf("RawArray: %v", errorOf(r))
	}
}

func TestKindString(t *testing.T) {
	var names []string
	for k := wire.KindInvalid; k <= wire.KindObject+1; k++ {
		names = append(names, k.String())
	}
	if diff := cmp.Diff([]string{"invalid", "null", "boolean", "number", "string", "array", "object", "invalid"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReaderDecodesEscapes(t *testing.T) {
	for text, want := range map[string]string{
		`""`:                         "",
		`"\"\\\/\b\f\n\r\t"`:         "\"\\/\b\f\n\r\t",
		`"\u0000\u0041\u00e9\u20AC"`: "\x00Aé€",
		`"\ud83d\ude00\uDBFF\udfff"`: "😀\U0010FFFF",
		`"\\u0041"`:                  `\u0041`,
		`"é\né"`:                     "é\né",
		`"\uFFFD\uFFFF"`:             "\uFFFD\uFFFF",
		`"a/b"`:                      "a/b",
		`"a string without escapes"`: "a string without escapes",
	} {
		r := newReader([]byte(text))
		if got := r.Text(); got != want || errorOf(r) != nil {
			t.Errorf("%s: got %q, %v", text, got, errorOf(r))
		}
		r.Again([]byte(text))
		if got := r.TextBytes(); string(got) != want || got == nil || errorOf(r) != nil {
			t.Errorf("%s as bytes: got %q, %v", text, got, errorOf(r))
		}
		r.Again([]byte(`{` + text + `:1}`))
		r.Object()
		r.More()
		if got := r.Key(); got != want {
			t.Errorf("%s as a name: got %q, %v", text, got, errorOf(r))
		}
		r.Again([]byte(`{` + text + `:1}`))
		r.Object()
		r.More()
		if got := r.KeyBytes(); string(got) != want {
			t.Errorf("%s as the bytes of a name: got %q, %v", text, got, errorOf(r))
		}
		var theirs string
		if json.Unmarshal([]byte(text), &theirs) != nil || theirs != want {
			t.Errorf("%s: encoding/json has %q", text, theirs)
		}
	}
}

func TestFirstFailureIsFinal(t *testing.T) {
	r := newReader([]byte(`{"a":[1,2],"b":{"c":3}}`))
	r.Object()
	r.More()
	r.Key()
	r.Text() // fails
	want := errorOf(r)
	var x wire.Extra
	r.Fail(3, io.EOF)
	r.FailDuplicate()
	r.Keep(&x, "a")
	r.Keep(&x, "a")
	for r.Object(); r.More(); {
		t.Fatal("a member after a failure")
	}
	for r.Array(); r.More(); {
		t.Fatal("an element after a failure")
	}
	i, exact := r.Int()
	f, _ := r.Float()
	raw, rawObject, rawArray := r.Raw(), r.RawObject(), r.RawArray()
	_, _, peeked := r.PeekMember("a")
	if r.Null() || r.Bool() || r.Text() != "" || r.TextBytes() != nil || i != 0 || exact || f != 0 || r.Number() != "" || !codec.ReadScalar(r, wire.ScalarString).IsZero() ||
		raw != nil || rawObject != nil || rawArray != nil || r.Key() != "" || len(r.KeyBytes()) != 0 || r.Kind() != wire.KindInvalid || peeked ||
		r.PeekKeys(wire.Key{Name: "a"}) != 0 || r.More() || x.Len() != 0 || r.IntExact(&x, "a") != 0 || r.FloatExact(&x, "a") != 0 || wire.ReadTexts[string](r) != nil || wire.DecodeList[tree](r) != nil || wire.DecodeMap[tree](r) != nil {
		t.Error("a method returned a value after a failure")
	}
	r.Skip()
	r.End()
	if _, ok := x.Number("a"); ok || message(errorOf(r)) != message(want) || r.Offset() != 5 {
		t.Errorf("got %v at %d, want %v", errorOf(r), r.Offset(), want)
	}
	place{errors.Unwrap(want), 5, "/a"}.check(t, `{"a":[1,2],"b":{"c":3}}`, want)
}

func TestFailKeepsOffset(t *testing.T) {
	const text = "{\"a\":\n[true,{\"b/~\":  \"x\"}]}"
	mine := errors.New("mine")
	for _, c := range []place{
		{mine, 0, ""}, {mine, 1, "/a"}, {mine, 6, "/a"}, {mine, 7, "/a/0"}, {mine, 12, "/a/1"}, {mine, 13, "/a/1/b~1~0"}, {mine, 21, "/a/1/b~1~0"},
		{mine, 24, "/a/1"}, {mine, 26, ""}, {mine, int64(len(text)), ""},
	} {
		r := newReader([]byte(text))
		r.Fail(int(c.offset), nil)
		r.Fail(int(c.offset), mine)
		c.check(t, text, errorOf(r))
	}
}

func TestOffsetIsStartOfNextValue(t *testing.T) {
	r := newReader([]byte(`  { "a" :  [ 1 ] , "b":2}  `))
	var got []int
	got = append(got, r.Offset())
	for r.Object(); r.More(); {
		r.Key()
		got = append(got, r.KeyOffset(), r.Offset())
		r.Skip()
	}
	got = append(got, r.Offset())
	if diff := cmp.Diff([]int{2, 4, 11, 19, 23, 27}, got); diff != "" || errorOf(r) != nil {
		t.Errorf("%v (-want +got):\n%s", errorOf(r), diff)
	}
}

func TestRawKeepsExactText(t *testing.T) {
	for text, want := range map[string]string{
		` {"a" : [1.0e0, "\u0041"]} ,`: `{"a" : [1.0e0, "\u0041"]}`,
		`[ ] `:                         `[ ]`,
		"\t\"x\"]":                     `"x"`,
		`-0.0,`:                        `-0.0`,
	} {
		for _, opts := range [][]codec.Option{nil, {codec.NoCopy()}} {
			r := newReader([]byte(text), opts...)
			if got := r.Raw(); string(got) != want || errorOf(r) != nil || cap(got) > len(want)+64 {
				t.Errorf("%q: got %q, %v", text, got, errorOf(r))
			}
			data := []byte(text)
			r = newReader(data, opts...)
			got := r.RawBytes()
			if string(got) != want || errorOf(r) != nil || cap(got) != len(want) {
				t.Errorf("%q: got the bytes %q, %v", text, got, errorOf(r))
			}
			clear(data)
			if strings.Trim(string(got), "\x00") != "" {
				t.Errorf("%q: the bytes are a copy", text)
			}
		}
	}
}

// Decoded values do not change when the input is overwritten.
func TestDecodedValuesSurviveOverwrittenInput(t *testing.T) {
	const text = `{"id":"idé","name":"plain","tags":["a","b\n","c"],"count":99999999999999999999,"ratio":1e-400,` +
		`"inner":{"id":1e3,"name":"escaped\u0041","x":null},"free":{"raw":["x"]},"unknown":"value","u\u0041":[1]}`
	data := []byte(text)
	var v record
	if err := codec.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	var n codec.Number
	var kind tree
	if err := codec.Unmarshal(data, &kind); err != nil {
		t.Fatal(err)
	}
	r := newReader([]byte(`[12.50]`))
	r.Array()
	r.More()
	n = codec.Number(r.Number())
	want, wantTree := encoded(t, &v), mustMarshal(t, &kind)
	for _, b := range [][]byte{data, r.Source()} {
		for i := range b {
			b[i] = '#'
		}
	}
	if got := encoded(t, &v); got != want {
		t.Errorf("%s became %s", want, got)
	}
	if got := mustMarshal(t, &kind); got != wantTree {
		t.Errorf("%s became %s", wantTree, got)
	}
	if n != "12.50" {
		t.Errorf("the number became %s", n)
	}
	if pointer, _ := v.Extra.Get("unknown"); string(pointer) != `"value"` {
		t.Errorf("the unknown member became %s", pointer)
	}
}

func mustMarshal(t *testing.T, v codec.Encoder) string {
	t.Helper()
	out, err := codec.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestNoCopySharesOnlyRawValues(t *testing.T) {
	data := []byte(`{"id":"i","name":"n","tags":["t"],"free":[1,2],"extra":[3]}`)
	var v record
	if err := codec.Unmarshal(data, &v, codec.NoCopy()); err != nil {
		t.Fatal(err)
	}
	extra, _ := v.Extra.Get("extra")
	for i := range data {
		data[i] = '7'
	}
	if v.ID != codec.StringScalar("i") || v.Name != "n" || v.Tags[0] != "t" {
		t.Errorf("strings became %v, %q, %q", v.ID, v.Name, v.Tags)
	}
	if string(v.Free) != "77777" || string(extra) != "777" {
		t.Errorf("raw values are copies: %s, %s", v.Free, extra)
	}
	if grown := append(v.Free, "xyz"...); bytes.Contains(data, []byte("xyz")) || string(grown) != "77777xyz" {
		t.Error("appending to a raw value writes into the input")
	}
}

func TestLimitsAreInclusive(t *testing.T) {
	for _, c := range hostile.Limits() {
		t.Run(c.Name, func(t *testing.T) {
			var opts []codec.Option
			if c.MaxDepth != 0 {
				opts = append(opts, codec.MaxDepth(c.MaxDepth))
			}
			if c.MaxSize != 0 {
				opts = append(opts, codec.MaxSize(c.MaxSize))
			}
			if c.MaxString != 0 {
				opts = append(opts, codec.MaxString(c.MaxString))
			}
			text := c.Text.Text
			want := placeOf(c.Refusal)
			want.check(t, text, codec.Valid([]byte(text), opts...))
			var v tree
			want.check(t, text, codec.Unmarshal([]byte(text), &v, opts...))
			r := newReader([]byte(text), opts...) // half by tokens, half raw
			if r.Kind() == wire.KindArray {
				for r.Array(); r.More(); {
					r.Raw()
				}
				r.End()
				want.check(t, text, errorOf(r))
			}
			// Again keeps the options.
			r.Again([]byte(text))
			r.Skip()
			r.End()
			want.check(t, text, errorOf(r))
		})
	}
}

func TestCodeDistinguishesMalformedTextFromWrongShape(t *testing.T) {
	for text, want := range map[string]int{
		`{"id":1,"name":"n"}`:              0,
		`{"id":1`:                          -32700,
		`{"id":01}`:                        -32700,
		`{"id":1} x`:                       -32700,
		"{\"id\":\"\xff\"}":                -32700,
		`{"id":"\ud800"}`:                  -32700,
		`{"x":1,"x":2}`:                    -32700,
		strings.Repeat("[", 600):           -32602, // the array is seen first
		`{"x":` + strings.Repeat("[", 600): -32700,
		`{"id":1.5}`:                       -32602,
		`{"id":true}`:                      -32602,
		`[]`:                               -32602,
	} {
		if got := codec.Code(codec.Unmarshal([]byte(text), new(record))); got != want {
			t.Errorf("%s: %d, want %d", clip(text), got, want)
		}
	}
	if got := codec.Code(io.EOF); got != 0 {
		t.Errorf("foreign error: %d", got)
	}
	if _, err := codec.Marshal(codec.StringScalar("\xff")); codec.Code(err) != 0 {
		t.Errorf("error from writing: %d", codec.Code(err))
	}
	if !errors.Is(jsonfault.EOF, io.ErrUnexpectedEOF) {
		t.Error("EOF is not io.ErrUnexpectedEOF")
	}
	// A cause wraps its class, and no other cause.
	syntax := []error{
		jsonfault.BOM, jsonfault.ControlChar, jsonfault.Escape, jsonfault.Number, jsonfault.Literal,
		jsonfault.EOF, jsonfault.Trailing, jsonfault.UTF8, jsonfault.Surrogate,
	}
	limits := []error{jsonfault.Depth, jsonfault.Size, jsonfault.StringSize, jsonfault.Memory}
	all := append(slices.Concat(syntax, limits), codec.ErrDuplicate)
	for i, a := range all {
		if errors.Is(a, codec.ErrSyntax) != slices.Contains(syntax, a) || errors.Is(a, codec.ErrLimit) != slices.Contains(limits, a) {
			t.Errorf("%v is of another class", a)
		}
		for j, b := range all {
			if i != j && errors.Is(a, b) {
				t.Errorf("%v is %v", a, b)
			}
		}
	}
}

func TestErrorText(t *testing.T) {
	err := codec.Valid([]byte("{\n \"a\": tru\n}"))
	if got, want := err.Error(), "json: /a: malformed literal (line 2, column 7, offset 8)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	err = codec.Unmarshal([]byte(`7`), new(record))
	if got, want := err.Error(), "json: want object, got number (line 1, column 1, offset 0)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestErrorShortensLongPointer(t *testing.T) {
	long := strings.Repeat("~é", 10_000)
	err := codec.Valid([]byte(`{"` + long + `":tru}`))
	if text := err.Error(); len(text) > 1200 || !utf8.ValidString(text) || !strings.HasSuffix(text, "…: malformed literal (line 1, column 30005, offset 30004)") {
		t.Errorf("got %d bytes, ending in %q", len(text), text[max(0, len(text)-80):])
	}
	if e, ok := errors.AsType[*codec.Error](err); !ok || e.Pointer != "/"+strings.ReplaceAll(long, "~", "~0") {
		t.Error("the Pointer field is cut")
	}
}

func TestRewindRestoresState(t *testing.T) {
	const text = `{"a":[{"b":[1,2]},"x"],"c":3}`
	r := newReader([]byte(text))
	r.Object()
	r.More()
	r.Key()
	start := r.Checkpoint()
	for range 3 {
		for r.Array(); r.More(); { // fails at the second element
			for r.Object(); r.More(); {
				r.Key()
				inner := r.Checkpoint()
				r.Text()
				if !r.Failed() {
					t.Fatal("an array was read as a string")
				}
				r.Rewind(inner)
				if r.Failed() || errorOf(r) != nil {
					t.Fatal(errorOf(r))
				}
				r.Skip()
			}
		}
		if !r.Failed() {
			t.Fatal("a string was read as an object")
		}
		r.Rewind(start)
	}
	if raw := r.Raw(); string(raw) != `[{"b":[1,2]},"x"]` {
		t.Errorf("got %s", raw)
	}
	r.Rewind(start)
	r.Array() // rewind out of an array that was read in part
	r.More()
	r.Object()
	r.Rewind(start)
	r.Skip()
	if !r.More() || r.Key() != "c" {
		t.Error("the next member is not found")
	}
	failed := wire.Checkpoint{}
	r.Text()
	failed = r.Checkpoint()
	want := errorOf(r)
	r.Rewind(failed)
	if message(errorOf(r)) != message(want) {
		t.Error("rewinding to a checkpoint made after the failure clears it")
	}
}

func TestObjectCanBeReadAgainAfterRewind(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{`)
	for i := range 100 {
		text.WriteString(hostile.NameOf(i) + ":1,")
	}
	text.WriteString(`"z":1}`)
	r := newReader([]byte(text.String()))
	m := r.Checkpoint()
	var x, y wire.Extra
	r.Raw()
	r.Rewind(m)
	for r.Object(); r.More(); {
		r.Keep(&x, r.Key())
	}
	r.Rewind(m)
	for r.Object(); r.More(); {
		r.Keep(&y, r.Key())
	}
	if errorOf(r) != nil || x.Len() != 101 || !x.Equal(y) {
		t.Errorf("%v: %d and %d members", errorOf(r), x.Len(), y.Len())
	}
}

// A first message sets each kind of state, which must be reset before the second.
func TestReusedReaderKeepsNoState(t *testing.T) {
	many := hostile.ManyNames(2000, 1999) // many names, and the last one not repeated
	many = strings.Replace(many, `"n1999":1,"z":0`, `"y":1,"z":0`, 1)
	firsts := map[string]string{
		"valid":                     `{"id":1,"name":"n"}`,
		"invalid":                   "{\n\n\"a\":[1,{\"b\":\"\\x\"}]}",
		"not closed":                `{"inner":{"inner":{"list":[{"id":`,
		"deeply nested":             `{"free":` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + `}`,
		"many names":                many,
		"many names in a raw value": `{"free":` + many + `}`,
		"escapes":                   `{"name":"` + strings.Repeat(`\n`, 100000) + `"}`,
		"byte order mark":           "\uFEFF{}",
		"many peeks":                `{"list":[` + strings.Repeat(`{"unknown":[`+strings.Repeat("1,", scan.SmallValue)+`1]},`, 2*scan.KeepSlots) + `{}]}`,
		"large":                     `{"name":"` + strings.Repeat(`x`, 100000) + `"}`,
	}
	for name, first := range firsts {
		t.Run(name, func(t *testing.T) {
			r := newReader(nil)
			for range 2 {
				r.Again([]byte(first))
				r.PeekMember("id") // fills the cache of ends
				var v record
				v.DecodeJSON(r)
				r.End()
				fresh := codec.Unmarshal([]byte(first), new(record))
				if diff := cmp.Diff(message(fresh), message(errorOf(r))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}

				const second = `{"name":"m","id":2,"n0000":[],"inner":{"n0000":1,"x\n":{"n0000":2}}}`
				r.Again([]byte(second))
				if text, kind, ok := r.PeekMember("id"); text != "2" || kind != wire.KindNumber || !ok {
					t.Errorf("peeked %q, %v, %v", text, kind, ok)
				}
				v.DecodeJSON(r)
				r.End()
				if errorOf(r) != nil {
					t.Fatal(errorOf(r))
				}
				if diff := cmp.Diff(mustDecode(t, second), v); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestResetReaderReleasesInput(t *testing.T) {
	r := newReader([]byte(hostile.ManyNames(100, 0)))
	r.Skip()
	r.Again(nil)
	if r.KeepsNames() {
		t.Fatal("a name is still in the set")
	}
	if r.Source() != nil {
		t.Error("the Reader still refers to the input")
	}
}

func TestReusedWriterKeepsNoState(t *testing.T) {
	w := wire.NewWriter(nil)
	for range 2 {
		w.Reset([]byte("a"))
		w.Begin()
		w.Key(`,"x":`)
		w.BeginArray()
		w.Elem()
		w.Text("\xff")
		if e, ok := errors.AsType[*codec.Error](writeError(w)); !ok || e.Pointer != "/x/0" || e.Offset != 6 {
			t.Errorf("got %v", writeError(w))
		}
		w.Reset([]byte("b"))
		var x wire.Extra
		x.Set("x", json.RawMessage("1"))
		start := w.Begin()
		w.EndExtra(start, x, nil)
		if string(w.Bytes()) != `b{"x":1}` || writeError(w) != nil {
			t.Errorf("got %s, %v", w.Bytes(), writeError(w))
		}
	}
}

// After one large object, each Reset of the Writer would clear as much memory again.
func TestReusedWriterReleasesLongList(t *testing.T) {
	names := map[string]int{}
	for i := range 2 * scan.KeepSlots {
		names[strconv.Itoa(i)] = i
	}
	var x wire.Extra
	x.Set("unknown", []byte("1"))
	w := wire.NewWriter(nil)
	for range 2 {
		start := w.Begin()
		wire.WriteMembers(w, names, func(w *wire.Writer, v int) { w.Int(int64(v)) })
		w.EndExtra(start, x, nil)
		if err := codec.Valid(w.Bytes()); err != nil {
			t.Fatal(err)
		}
		w.Reset(nil)
		if names, capacity := w.Kept(); names > 0 || capacity > scan.KeepSlots {
			t.Errorf("the Writer keeps %d names and capacity for %d", names, capacity)
		}
	}
}

func TestListsAndMapsSurviveRoundTrip(t *testing.T) {
	for _, text := range []string{`[]`, `[1]`, `["a",2,3.5,true]`} {
		r := newReader([]byte(text))
		list := wire.DecodeList[codec.Scalar](r)
		w := wire.NewWriter(nil)
		wire.EncodeList(w, list)
		if list == nil || errorOf(r) != nil || string(w.Bytes()) != text {
			t.Errorf("%s: got %s, %v", text, w.Bytes(), errorOf(r))
		}
	}
	for text, want := range map[string]string{`{}`: `{}`, `{"b":1,"a":"x","":true}`: `{"":true,"a":"x","b":1}`} {
		r := newReader([]byte(text))
		m := wire.DecodeMap[codec.Scalar](r)
		w := wire.NewWriter(nil)
		wire.EncodeMap(w, m)
		if m == nil || errorOf(r) != nil || string(w.Bytes()) != want {
			t.Errorf("%s: got %s, %v", text, w.Bytes(), errorOf(r))
		}
	}
	r := newReader([]byte(`{"a":1,"b":2,"a":3}`))
	wire.DecodeMap[codec.Scalar](r)
	place{codec.ErrDuplicate, 13, "/a"}.check(t, `{"a":1,"b":2,"a":3}`, errorOf(r))
	r = newReader([]byte(`["a",1]`))
	if list := wire.ReadTexts[string](r); list != nil || !r.Failed() {
		t.Errorf("got %q, %v", list, errorOf(r))
	}
}

// Strings are parts of blocks. Each string is right wherever its block ends.
func TestStringsAtBlockBoundaries(t *testing.T) {
	for _, size := range []int{1, 7, 100, wire.PieceSize - 1, wire.PieceSize, wire.PieceSize + 1, 3 * wire.PieceSize} {
		var want []string
		for i := range 3*wire.PieceSize/size + 5 {
			want = append(want, strings.Repeat(string(rune('a'+i%26)), size))
		}
		w := wire.NewWriter(nil)
		wire.EncodeListFunc(w, want, (*wire.Writer).Text)
		r := newReader(w.Bytes())
		if diff := cmp.Diff(want, wire.ReadTexts[string](r)); diff != "" || errorOf(r) != nil {
			t.Errorf("of %d bytes: %v (-want +got):\n%s", size, errorOf(r), diff)
		}
	}
}
