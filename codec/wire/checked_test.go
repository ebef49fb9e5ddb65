package wire_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// The Writer does not check a raw value again only if it still has the text that was read.
func TestWriterChecksChangedRawValue(t *testing.T) {
	read := func(text string, opts ...codec.Option) json.RawMessage {
		raw := newReader([]byte(text), opts...).Raw()
		if string(raw) != text {
			t.Fatalf("read %s as %s", text, raw)
		}
		return raw
	}
	long := `["` + strings.Repeat("x", 2*wire.SmallCopy) + `"]`
	for name, c := range map[string]struct {
		raw json.RawMessage
		err error
	}{
		"a byte written":                   {func() json.RawMessage { r := read(`[1,2]`); r[2] = 'x'; return r }(), codec.ErrSyntax},
		"a byte written in a long one":     {func() json.RawMessage { r := read(long); r[5] = '\n'; return r }(), jsonfault.ControlChar},
		"a name written twice":             {func() json.RawMessage { r := read(`{"a":1,"b":2}`); r[8] = 'a'; return r }(), codec.ErrDuplicate},
		"cut":                              {read(`[1,2]`)[:4], jsonfault.EOF},
		"cut in front":                     {read(`[1,2]`)[1:], jsonfault.Trailing},
		"appended to, where there is room": {append(read(`[1,2]`), ']'), jsonfault.Trailing},
		"appended to, the former value":    {func() json.RawMessage { r := read(`[1,2]`); _ = append(r, "01234567"...); r[2] = ';'; return r }(), codec.ErrSyntax},
		"with NoCopy":                      {func() json.RawMessage { r := read(`[1,2]`, codec.NoCopy()); r[2] = ';'; return r }(), codec.ErrSyntax},
		"with room behind it":              {append(make(json.RawMessage, 0, 100), `[1;2]`...), codec.ErrSyntax},
		"marshalled, and a byte written":   {func() json.RawMessage { r, _ := codec.Number("12").MarshalJSON(); r[0] = '-'; r[1] = '-'; return r }(), jsonfault.Number},
	} {
		w := wire.NewWriter(nil)
		w.Raw(c.raw)
		if !errors.Is(writeError(w), c.err) {
			t.Errorf("%s: %s was written, %v", name, c.raw, writeError(w))
		}
	}
}

// Appending to a raw value, or changing it, does not affect other raw values from the same text.
func TestRawValuesDoNotShareMemory(t *testing.T) {
	r := newReader([]byte(`[[1],[2],[3]]`))
	var raws []json.RawMessage
	for r.Array(); r.More(); {
		raws = append(raws, r.Raw())
	}
	_ = append(raws[0], "###############"...)
	copy(raws[1][:cap(raws[1])], "###########")
	if string(raws[0]) != "[1]" || string(raws[2]) != "[3]" {
		t.Errorf("became %s", raws)
	}
	w := wire.NewWriter(nil)
	if w.Raw(raws[2]); writeError(w) != nil || string(w.Bytes()) != "[3]" {
		t.Errorf("wrote %s, %v", w.Bytes(), writeError(w))
	}
}

// Writing a raw value does not read its spare capacity, which another goroutine may be writing to.
func TestConcurrentAppendToRawValue(t *testing.T) {
	var x wire.Extra
	r := newReader([]byte(`{"a":["a text of some length","and another"],"b":["a text of some length","and more"],"c":"the end of it, at last"}`))
	r.Object()
	r.NextKey()
	first := r.Raw()
	r.NextKey()
	r.Extra(&x)
	r.NextKey()
	second := r.Raw()
	r.More()
	third, _ := x.Get("b")
	marshalled, err := codec.Marshal(codec.StringScalar("a text of some length, too"))
	if r.End(); errorOf(r) != nil || err != nil {
		t.Fatal(errorOf(r), err)
	}
	for _, raw := range []json.RawMessage{first, second, third, marshalled} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = append(raw, '\n') // with -race, an access to the same memory by w.Raw fails the test
		}()
		w := wire.NewWriter(nil)
		w.Raw(raw)
		<-done
		if writeError(w) != nil || string(w.Bytes()) != string(raw) {
			t.Errorf("wrote %s, %v", w.Bytes(), writeError(w))
		}
	}
}

// wasChecked compares the whole text, not its address.
func TestWasCheckedComparesWholeText(t *testing.T) {
	for n := range 100 {
		text := []byte(strings.Repeat("7", n))
		wire.NoteChecked(text)
		if got, want := wire.WasChecked([]byte(string(text))), n > wire.FewBytes; got != want {
			t.Fatalf("%d bytes: wasChecked returns %t, want %t", n, got, want)
		}
		for i := range text {
			text[i] = '-'
			if wire.WasChecked(text) {
				t.Fatalf("%d bytes, changed at %d: wasChecked returns true", n, i)
			}
			text[i] = '7'
		}
		if n > 0 && wire.WasChecked(text[:n-1:n-1]) != wire.WasChecked([]byte(strings.Repeat("7", n-1))) {
			t.Fatalf("%d bytes, cut by one: wasChecked differs from that of an equal text", n)
		}
	}
}

// A message is never part of another text, so its hash would only displace others.
func TestMarshalRecordsAllButMessages(t *testing.T) {
	e := &jsonrpc.Error{Code: -32603, Message: "the disk of the archive is full"}
	m := jsonrpc.NewErrorResponse(codec.IntScalar(7), e)
	for _, c := range []struct {
		value codec.Encoder
		want  bool
	}{{&m, false}, {e, true}} {
		text, err := codec.Marshal(c.value)
		if got := wire.WasChecked(text); err != nil || got != c.want {
			t.Errorf("%s, %v: recorded %t, want %t", text, err, got, c.want)
		}
	}
}
