package codec

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// Raw values that were read are trusted only as long as they are what was read.
func TestRawValueThatWasChangedIsCheckedAgain(t *testing.T) {
	read := func(text string, opts ...Option) json.RawMessage {
		raw := NewReader([]byte(text), opts...).Raw()
		if string(raw) != text {
			t.Fatalf("read %s as %s", text, raw)
		}
		return raw
	}
	long := `["` + strings.Repeat("x", 2*smallCopy) + `"]`
	for name, c := range map[string]struct {
		raw json.RawMessage
		err error
	}{
		"a byte written":                   {func() json.RawMessage { r := read(`[1,2]`); r[2] = 'x'; return r }(), ErrSyntax},
		"a byte written in a long one":     {func() json.RawMessage { r := read(long); r[5] = '\n'; return r }(), ErrControlChar},
		"a name written twice":             {func() json.RawMessage { r := read(`{"a":1,"b":2}`); r[8] = 'a'; return r }(), ErrDuplicate},
		"cut":                              {read(`[1,2]`)[:4], ErrEOF},
		"cut in front":                     {read(`[1,2]`)[1:], ErrTrailing},
		"appended to, where there is room": {append(read(`[1,2]`), ']'), ErrTrailing},
		"appended to, the former value":    {func() json.RawMessage { r := read(`[1,2]`); _ = append(r, "01234567"...); r[2] = ';'; return r }(), ErrSyntax},
		"with NoCopy":                      {func() json.RawMessage { r := read(`[1,2]`, NoCopy()); r[2] = ';'; return r }(), ErrSyntax},
		"with room behind it":              {append(make(json.RawMessage, 0, 100), `[1;2]`...), ErrSyntax},
		"marshalled, and a byte written":   {func() json.RawMessage { r, _ := Marshal(Number("12")); r[0] = '-'; r[1] = '-'; return r }(), ErrNumber},
	} {
		w := NewWriter(nil)
		w.Raw(c.raw)
		if !errors.Is(w.Err(), c.err) {
			t.Errorf("%s: %s was written, %v", name, c.raw, w.Err())
		}
	}
}

// A raw value may be appended to and written over: those that were read beside it stay as they are.
func TestRawValuesDoNotShareMemoryWithEachOther(t *testing.T) {
	r := NewReader([]byte(`[[1],[2],[3]]`))
	var raws []json.RawMessage
	for r.Array(); r.More(); {
		raws = append(raws, r.Raw())
	}
	_ = append(raws[0], "###############"...)
	copy(raws[1][:cap(raws[1])], "###########")
	if string(raws[0]) != "[1]" || string(raws[2]) != "[3]" {
		t.Errorf("became %s", raws)
	}
	w := NewWriter(nil)
	if w.Raw(raws[2]); w.Err() != nil || string(w.Bytes()) != "[3]" {
		t.Errorf("wrote %s, %v", w.Bytes(), w.Err())
	}
}

// Writing a raw value does not read its spare capacity, which another goroutine may be writing to.
func TestRawValueMayBeAppendedToWhileItIsWritten(t *testing.T) {
	var x Extra
	r := NewReader([]byte(`{"a":["a text of some length","and another"],"b":["a text of some length","and more"],"c":"the end of it, at last"}`))
	r.Object()
	r.NextKey()
	first := r.Raw()
	r.NextKey()
	r.Extra(&x)
	r.NextKey()
	second := r.Raw()
	r.More()
	third, _ := x.Get("b")
	marshalled, err := Marshal(StringScalar("a text of some length, too"))
	if r.End(); r.Err() != nil || err != nil {
		t.Fatal(r.Err(), err)
	}
	for _, raw := range []json.RawMessage{first, second, third, marshalled} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = append(raw, '\n') // with -race, an access to the same memory by w.Raw fails the test
		}()
		w := NewWriter(nil)
		w.Raw(raw)
		<-done
		if w.Err() != nil || string(w.Bytes()) != string(raw) {
			t.Errorf("wrote %s, %v", w.Bytes(), w.Err())
		}
	}
}

// wasChecked compares the whole text, not its address.
func TestCheckedTextsAreKnownByTheirText(t *testing.T) {
	for n := range 100 {
		text := []byte(strings.Repeat("7", n))
		noteChecked(text)
		if got, want := wasChecked([]byte(string(text))), n > fewBytes; got != want {
			t.Fatalf("%d bytes: wasChecked returns %t, want %t", n, got, want)
		}
		for i := range text {
			text[i] = '-'
			if wasChecked(text) {
				t.Fatalf("%d bytes, changed at %d: wasChecked returns true", n, i)
			}
			text[i] = '7'
		}
		if n > 0 && wasChecked(text[:n-1:n-1]) != wasChecked([]byte(strings.Repeat("7", n-1))) {
			t.Fatalf("%d bytes, cut by one: wasChecked differs from that of an equal text", n)
		}
	}
}
