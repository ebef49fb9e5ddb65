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
		"with room for a seal":             {append(make(json.RawMessage, 0, len(`[1;2]`)+sealSize), `[1;2]`...), ErrSyntax},
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
