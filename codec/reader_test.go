package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/internal/hostile"
)

func TestValueOfTheWrongKindIsATypeError(t *testing.T) {
	values := map[string]Kind{
		`null`: KindNull, `true`: KindBool, `-1`: KindNumber, `"a"`: KindString, `[1]`: KindArray, `{"a":1}`: KindObject,
	}
	readers := map[string]struct {
		takes Kind
		read  func(r *Reader)
	}{
		"boolean": {KindBool, func(r *Reader) { r.Bool() }},
		"string":  {KindString, func(r *Reader) { r.Text() }},
		"integer": {KindNumber, func(r *Reader) { r.Int() }},
		"number":  {KindNumber, func(r *Reader) { r.Float() }},
		"array":   {KindArray, func(r *Reader) { r.Array() }},
		"object":  {KindObject, func(r *Reader) { r.Object() }},
	}
	for text, kind := range values {
		for want, c := range readers {
			r := NewReader([]byte(`{"v": ` + text + `}`))
			r.Object()
			r.More()
			r.Key()
			c.read(r)
			var wrong *TypeError
			switch {
			case kind == c.takes && r.Failed():
				t.Errorf("%s as %s: %v", text, want, r.Err())
			case kind == c.takes:
			case !errors.As(r.Err(), &wrong) || *wrong != (TypeError{want, kind}):
				t.Errorf("%s as %s: %v", text, want, r.Err())
			default:
				place{wrong, 6, "/v"}.check(t, `{"v": `+text+`}`, r.Err())
			}
		}
	}
}

func TestReadersOfTheSameKindAgree(t *testing.T) {
	for name, read := range map[string]func(r *Reader){
		"TextBytes": func(r *Reader) { r.TextBytes() },
		"RawObject": func(r *Reader) { r.RawObject() },
		"RawArray":  func(r *Reader) { r.RawArray() },
		"Number":    func(r *Reader) { r.Number() },
		"Text":      func(r *Reader) { r.Text() },
		"Object":    func(r *Reader) { r.Object() },
		"Scalar":    func(r *Reader) { r.Scalar(ScalarString) },
	} {
		for text, want := range map[string]error{``: ErrEOF, ` `: ErrEOF, `x`: ErrSyntax, `,`: ErrSyntax, "\xff": ErrSyntax} {
			r := NewReader([]byte(text))
			read(r)
			if !errors.Is(r.Err(), want) {
				t.Errorf("%s of %q: %v", name, text, r.Err())
			}
		}
		r := NewReader([]byte(`true`))
		read(r)
		if _, ok := errors.AsType[*TypeError](r.Err()); !ok {
			t.Errorf("%s of true: %v", name, r.Err())
		}
	}
	r := NewReader([]byte(` [ {"a":1} , [ 2 ] ]`))
	r.Array()
	if r.More(); string(r.RawObject()) != `{"a":1}` {
		t.Errorf("RawObject: %v", r.Err())
	}
	if r.More(); string(r.RawArray()) != `[ 2 ]` || r.More() || r.Err() != nil {
		t.Errorf("RawArray: %v", r.Err())
	}
}

func TestKindHasAName(t *testing.T) {
	var names []string
	for k := KindInvalid; k <= KindObject+1; k++ {
		names = append(names, k.String())
	}
	if diff := cmp.Diff([]string{"invalid", "null", "boolean", "number", "string", "array", "object", "invalid"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEscapesAreDecoded(t *testing.T) {
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
		r := NewReader([]byte(text))
		if got := r.Text(); got != want || r.Err() != nil {
			t.Errorf("%s: got %q, %v", text, got, r.Err())
		}
		r.Reset([]byte(text))
		if got := r.TextBytes(); string(got) != want || got == nil || r.Err() != nil {
			t.Errorf("%s as bytes: got %q, %v", text, got, r.Err())
		}
		r.Reset([]byte(`{` + text + `:1}`))
		r.Object()
		r.More()
		if got := r.Key(); got != want {
			t.Errorf("%s as a name: got %q, %v", text, got, r.Err())
		}
		r.Reset([]byte(`{` + text + `:1}`))
		r.Object()
		r.More()
		if got := r.KeyBytes(); string(got) != want {
			t.Errorf("%s as the bytes of a name: got %q, %v", text, got, r.Err())
		}
		var theirs string
		if json.Unmarshal([]byte(text), &theirs) != nil || theirs != want {
			t.Errorf("%s: encoding/json has %q", text, theirs)
		}
	}
}

func TestFirstFailureStaysAndStopsEverything(t *testing.T) {
	r := NewReader([]byte(`{"a":[1,2],"b":{"c":3}}`))
	r.Object()
	r.More()
	r.Key()
	r.Text() // fails
	want := r.Err()
	var x Extra
	r.Fail(3, io.EOF)
	r.Duplicate("a")
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
	if r.Null() || r.Bool() || r.Text() != "" || r.TextBytes() != nil || i != 0 || exact || f != 0 || r.Number() != "" || !r.Scalar(ScalarString).IsZero() ||
		raw != nil || rawObject != nil || rawArray != nil || r.Key() != "" || len(r.KeyBytes()) != 0 || r.Kind() != KindInvalid || peeked ||
		r.PeekKeys(Key{Name: "a"}) != 0 || r.More() || x.Len() != 0 || r.IntExact(&x, "a") != 0 || r.FloatExact(&x, "a") != 0 || r.Texts() != nil || DecodeList[tree](r) != nil || DecodeMap[tree](r) != nil {
		t.Error("something came after a failure")
	}
	r.Skip()
	r.End()
	if _, ok := x.Number("a"); ok || r.Err() != want || r.Offset() != 5 {
		t.Errorf("got %v at %d, want %v", r.Err(), r.Offset(), want)
	}
	place{errors.Unwrap(want), 5, "/a"}.check(t, `{"a":[1,2],"b":{"c":3}}`, want)
}

func TestFailPointsAtTheOffsetItIsGiven(t *testing.T) {
	const text = "{\"a\":\n[true,{\"b/~\":  \"x\"}]}"
	mine := errors.New("mine")
	for _, c := range []place{
		{mine, 0, ""}, {mine, 1, "/a"}, {mine, 6, "/a"}, {mine, 7, "/a/0"}, {mine, 12, "/a/1"}, {mine, 13, "/a/1/b~1~0"}, {mine, 21, "/a/1/b~1~0"},
		{mine, 24, "/a/1"}, {mine, 26, ""}, {mine, int64(len(text)), ""},
	} {
		r := NewReader([]byte(text))
		r.Fail(int(c.offset), nil)
		r.Fail(int(c.offset), mine)
		c.check(t, text, r.Err())
	}
}

func TestOffsetIsWhereTheNextValueStarts(t *testing.T) {
	r := NewReader([]byte(`  { "a" :  [ 1 ] , "b":2}  `))
	var got []int
	got = append(got, r.Offset())
	for r.Object(); r.More(); {
		r.Key()
		got = append(got, r.KeyOffset(), r.Offset())
		r.Skip()
	}
	got = append(got, r.Offset())
	if diff := cmp.Diff([]int{2, 4, 11, 19, 23, 27}, got); diff != "" || r.Err() != nil {
		t.Errorf("%v (-want +got):\n%s", r.Err(), diff)
	}
}

func TestRawKeepsTheTextAsItCame(t *testing.T) {
	for text, want := range map[string]string{
		` {"a" : [1.0e0, "\u0041"]} ,`: `{"a" : [1.0e0, "\u0041"]}`,
		`[ ] `:                         `[ ]`,
		"\t\"x\"]":                     `"x"`,
		`-0.0,`:                        `-0.0`,
	} {
		for _, opts := range [][]Option{nil, {NoCopy()}} {
			r := NewReader([]byte(text), opts...)
			if got := r.Raw(); string(got) != want || r.Err() != nil || cap(got) > len(want)+64 {
				t.Errorf("%q: got %q, %v", text, got, r.Err())
			}
			data := []byte(text)
			r = NewReader(data, opts...)
			got := r.RawBytes()
			if string(got) != want || r.Err() != nil || cap(got) != len(want) {
				t.Errorf("%q: got the bytes %q, %v", text, got, r.Err())
			}
			clear(data)
			if strings.Trim(string(got), "\x00") != "" {
				t.Errorf("%q: the bytes are a copy", text)
			}
		}
	}
}

// Whatever was decoded stays the same when the input is written over.
func TestDecodedValuesDoNotChangeWithTheInput(t *testing.T) {
	const text = `{"id":"idé","name":"plain","tags":["a","b\n","c"],"count":99999999999999999999,"ratio":1e-400,` +
		`"inner":{"id":1e3,"name":"escaped\u0041","x":null},"free":{"raw":["x"]},"unknown":"value","u\u0041":[1]}`
	data := []byte(text)
	var v record
	if err := Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	var n Number
	var kind tree
	if err := Unmarshal(data, &kind); err != nil {
		t.Fatal(err)
	}
	r := NewReader([]byte(`[12.50]`))
	r.Array()
	r.More()
	n = r.Number()
	want, wantTree := encoded(t, &v), mustMarshal(t, &kind)
	for _, b := range [][]byte{data, r.src} {
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

func mustMarshal(t *testing.T, v Encoder) string {
	t.Helper()
	out, err := Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestNoCopySharesRawValuesAndNothingElse(t *testing.T) {
	data := []byte(`{"id":"i","name":"n","tags":["t"],"free":[1,2],"extra":[3]}`)
	var v record
	if err := Unmarshal(data, &v, NoCopy()); err != nil {
		t.Fatal(err)
	}
	extra, _ := v.Extra.Get("extra")
	for i := range data {
		data[i] = '7'
	}
	if v.ID != StringScalar("i") || v.Name != "n" || v.Tags[0] != "t" {
		t.Errorf("strings became %v, %q, %q", v.ID, v.Name, v.Tags)
	}
	if string(v.Free) != "77777" || string(extra) != "777" {
		t.Errorf("raw values are copies: %s, %s", v.Free, extra)
	}
	if grown := append(v.Free, "xyz"...); bytes.Contains(data, []byte("xyz")) || string(grown) != "77777xyz" {
		t.Error("appending to a raw value writes into the input")
	}
}

func TestLimitsHoldAtTheirEdge(t *testing.T) {
	for _, c := range hostile.Limits() {
		t.Run(c.Name, func(t *testing.T) {
			var opts []Option
			if c.MaxDepth != 0 {
				opts = append(opts, MaxDepth(c.MaxDepth))
			}
			if c.MaxSize != 0 {
				opts = append(opts, MaxSize(c.MaxSize))
			}
			if c.MaxString != 0 {
				opts = append(opts, MaxString(c.MaxString))
			}
			text := c.Text.Text
			want := placeOf(c.Refusal)
			want.check(t, text, Valid([]byte(text), opts...))
			var v tree
			want.check(t, text, Unmarshal([]byte(text), &v, opts...))
			r := NewReader([]byte(text), opts...) // and half by tokens, half raw
			if r.Kind() == KindArray {
				for r.Array(); r.More(); {
					r.Raw()
				}
				r.End()
				want.check(t, text, r.Err())
			}
			// Options stay.
			r.Reset([]byte(text))
			r.Skip()
			r.End()
			want.check(t, text, r.Err())
		})
	}
}

func TestCodeTellsMalformedTextFromTheWrongShape(t *testing.T) {
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
		if got := Code(Unmarshal([]byte(text), new(record))); got != want {
			t.Errorf("%s: %d, want %d", clip(text), got, want)
		}
	}
	if got := Code(io.EOF); got != 0 {
		t.Errorf("foreign error: %d", got)
	}
	if _, err := Marshal(StringScalar("\xff")); Code(err) != 0 {
		t.Errorf("error from writing: %d", Code(err))
	}
	if !errors.Is(ErrEOF, io.ErrUnexpectedEOF) {
		t.Error("ErrEOF is not io.ErrUnexpectedEOF")
	}
	// Two meanings never compare equal.
	for i, a := range malformed {
		for j, b := range malformed {
			if i != j && errors.Is(a, b) {
				t.Errorf("%v is %v", a, b)
			}
		}
	}
}

func TestErrorReadsWell(t *testing.T) {
	err := Valid([]byte("{\n \"a\": tru\n}"))
	if got, want := err.Error(), "json: /a: malformed literal (line 2, column 7, offset 8)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	err = Unmarshal([]byte(`7`), new(record))
	if got, want := err.Error(), "json: want object, got number (line 1, column 1, offset 0)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestErrorTextIsShortForLongMemberNames(t *testing.T) {
	long := strings.Repeat("~é", 10_000)
	err := Valid([]byte(`{"` + long + `":tru}`))
	if text := err.Error(); len(text) > 1200 || !utf8.ValidString(text) || !strings.HasSuffix(text, "…: malformed literal (line 1, column 30005, offset 30004)") {
		t.Errorf("got %d bytes, ending in %q", len(text), text[max(0, len(text)-80):])
	}
	if e, ok := errors.AsType[*Error](err); !ok || e.Pointer != "/"+strings.ReplaceAll(long, "~", "~0") {
		t.Error("the Pointer field is cut")
	}
}

func TestRewindGoesBackAsIfNothingHadHappened(t *testing.T) {
	const text = `{"a":[{"b":[1,2]},"x"],"c":3}`
	r := NewReader([]byte(text))
	r.Object()
	r.More()
	r.Key()
	start := r.Mark()
	for range 3 {
		for r.Array(); r.More(); { // fails at the second element
			for r.Object(); r.More(); {
				r.Key()
				inner := r.Mark()
				r.Text()
				if !r.Failed() {
					t.Fatal("an array was read as a string")
				}
				r.Rewind(inner)
				if r.Failed() || r.Err() != nil {
					t.Fatal(r.Err())
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
	r.Array() // and back out of something half read
	r.More()
	r.Object()
	r.Rewind(start)
	r.Skip()
	if !r.More() || r.Key() != "c" {
		t.Error("the next member is gone")
	}
	failed := Mark{}
	r.Text()
	failed = r.Mark()
	want := r.Err()
	r.Rewind(failed)
	if r.Err() != want {
		t.Error("a mark taken after the failure forgets it")
	}
}

func TestRewindLetsAnObjectBeReadTwice(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{`)
	for i := range 100 {
		text.WriteString(hostile.NameOf(i) + ":1,")
	}
	text.WriteString(`"z":1}`)
	r := NewReader([]byte(text.String()))
	m := r.Mark()
	var x, y Extra
	r.Raw()
	r.Rewind(m)
	for r.Object(); r.More(); {
		r.Keep(&x, r.Key())
	}
	r.Rewind(m)
	for r.Object(); r.More(); {
		r.Keep(&y, r.Key())
	}
	if r.Err() != nil || x.Len() != 101 || !x.Equal(y) {
		t.Errorf("%v: %d and %d members", r.Err(), x.Len(), y.Len())
	}
}

// Each kind of state is set up by a first message and must be gone for the second.
func TestReaderThatIsUsedAgainForgetsTheMessageBefore(t *testing.T) {
	many := hostile.ManyNames(2000, 1999) // many names, and the last one not repeated
	many = strings.Replace(many, `"n1999":1,"z":0`, `"y":1,"z":0`, 1)
	firsts := map[string]string{
		"a good one":        `{"id":1,"name":"n"}`,
		"one that fails":    "{\n\n\"a\":[1,{\"b\":\"\\x\"}]}",
		"one that is open":  `{"inner":{"inner":{"list":[{"id":`,
		"one that is deep":  `{"free":` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + `}`,
		"one of many names": many,
		"one in raw":        `{"free":` + many + `}`,
		"one with escapes":  `{"name":"` + strings.Repeat(`\n`, 100000) + `"}`,
		"one with BOM":      "\uFEFF{}",
		"one of many peeks": `{"list":[` + strings.Repeat(`{"unknown":[`+strings.Repeat("1,", smallValue)+`1]},`, 2*keepSlots) + `{}]}`,
		"a large one":       `{"name":"` + strings.Repeat(`x`, 100000) + `"}`,
	}
	for name, first := range firsts {
		t.Run(name, func(t *testing.T) {
			r := NewReader(nil)
			for range 2 {
				r.Reset([]byte(first))
				r.PeekMember("id") // fills the memory of peeks
				var v record
				v.DecodeJSON(r)
				r.End()
				fresh := Unmarshal([]byte(first), new(record))
				if diff := cmp.Diff(message(fresh), message(r.Err())); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}

				const second = `{"name":"m","id":2,"n0000":[],"inner":{"n0000":1,"x\n":{"n0000":2}}}`
				r.Reset([]byte(second))
				if text, kind, ok := r.PeekMember("id"); text != "2" || kind != KindNumber || !ok {
					t.Errorf("peeked %q, %v, %v", text, kind, ok)
				}
				v.DecodeJSON(r)
				r.End()
				if r.Err() != nil {
					t.Fatal(r.Err())
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

func TestReaderThatWasResetLetsGoOfTheInput(t *testing.T) {
	r := NewReader([]byte(hostile.ManyNames(100, 0)))
	r.Skip()
	r.Reset(nil)
	for _, s := range r.check.big.slots {
		if s.name != nil {
			t.Fatal("a name is still in the set")
		}
	}
	if r.src != nil || r.data != nil {
		t.Error("the input is still there")
	}
}

func TestWriterThatIsUsedAgainForgetsTheMessageBefore(t *testing.T) {
	w := NewWriter(nil)
	for range 2 {
		w.Reset([]byte("a"))
		w.Begin()
		w.Key(`,"x":`)
		w.BeginArray()
		w.Elem()
		w.Text("\xff")
		if e, ok := errors.AsType[*Error](w.Err()); !ok || e.Pointer != "/x/0" || e.Offset != 6 {
			t.Errorf("got %v", w.Err())
		}
		w.Reset([]byte("b"))
		var x Extra
		x.Set("x", json.RawMessage("1"))
		start := w.Begin()
		w.End(start, x)
		if string(w.Bytes()) != `b{"x":1}` || w.Err() != nil {
			t.Errorf("got %s, %v", w.Bytes(), w.Err())
		}
	}
}

// After one large object, each Reset of the Writer would clear as much memory again.
func TestWriterKeepsNoLongListFromOneMessageToTheNext(t *testing.T) {
	names := map[string]int{}
	for i := range 2 * keepSlots {
		names[strconv.Itoa(i)] = i
	}
	var x Extra
	x.Set("unknown", []byte("1"))
	w := NewWriter(nil)
	for range 2 {
		start := w.Begin()
		WriteMembers(w, names, func(w *Writer, v int) { w.Int(int64(v)) })
		w.End(start, x)
		if err := Valid(w.Bytes()); err != nil {
			t.Fatal(err)
		}
		w.Reset(nil)
		if len(w.keys)+len(w.names) > 0 || cap(w.keys) > keepSlots || cap(w.names) > keepSlots {
			t.Errorf("the Writer keeps capacity for %d and %d names", cap(w.keys), cap(w.names))
		}
	}
}

func TestListsAndMapsOfDecodersComeBackAsTheyWere(t *testing.T) {
	for _, text := range []string{`[]`, `[1]`, `["a",2,3.5,true]`} {
		r := NewReader([]byte(text))
		list := DecodeList[Scalar](r)
		w := NewWriter(nil)
		EncodeList(w, list)
		if list == nil || r.Err() != nil || string(w.Bytes()) != text {
			t.Errorf("%s: got %s, %v", text, w.Bytes(), r.Err())
		}
	}
	for text, want := range map[string]string{`{}`: `{}`, `{"b":1,"a":"x","":true}`: `{"":true,"a":"x","b":1}`} {
		r := NewReader([]byte(text))
		m := DecodeMap[Scalar](r)
		w := NewWriter(nil)
		EncodeMap(w, m)
		if m == nil || r.Err() != nil || string(w.Bytes()) != want {
			t.Errorf("%s: got %s, %v", text, w.Bytes(), r.Err())
		}
	}
	r := NewReader([]byte(`{"a":1,"b":2,"a":3}`))
	DecodeMap[Scalar](r)
	place{ErrDuplicate, 13, "/a"}.check(t, `{"a":1,"b":2,"a":3}`, r.Err())
	r = NewReader([]byte(`["a",1]`))
	if list := r.Texts(); list != nil || !r.Failed() {
		t.Errorf("got %q, %v", list, r.Err())
	}
}

// Strings come from blocks; wherever those end, each string is the right one.
func TestStringsAreRightWhereverBlocksEnd(t *testing.T) {
	for _, size := range []int{1, 7, 100, pieceSize - 1, pieceSize, pieceSize + 1, 3 * pieceSize} {
		var want []string
		for i := range 3*pieceSize/size + 5 {
			want = append(want, strings.Repeat(string(rune('a'+i%26)), size))
		}
		w := NewWriter(nil)
		w.Texts(want)
		r := NewReader(w.Bytes())
		if diff := cmp.Diff(want, r.Texts()); diff != "" || r.Err() != nil {
			t.Errorf("of %d bytes: %v (-want +got):\n%s", size, r.Err(), diff)
		}
	}
}
