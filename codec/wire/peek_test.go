package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec/internal/scan"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

func TestPeekMemberConsumesNothing(t *testing.T) {
	const text = ` {"a":{"type":"inner","x":[{"type":1}]},"s":"te\"xt","esc\u0061pe":"\u0041","n":-1.50e3,"t":true,"f":false,"z":null,"l":[1],"type":"outer","type":"again"} `
	r := newReader([]byte(text))
	for _, c := range []struct {
		name, text string
		kind       wire.Kind
		ok         bool
	}{
		{"type", "outer", wire.KindString, true},
		{"s", `te"xt`, wire.KindString, true},
		{"escape", "A", wire.KindString, true},
		{"n", "-1.50e3", wire.KindNumber, true},
		{"t", "true", wire.KindBool, true},
		{"f", "false", wire.KindBool, true},
		{"z", "", wire.KindNull, true},
		{"l", "", wire.KindArray, true},
		{"a", "", wire.KindObject, true},
		{"x", "", wire.KindInvalid, false},
		{"Type", "", wire.KindInvalid, false},
		{"", "", wire.KindInvalid, false},
	} {
		if got, kind, ok := r.PeekMember(c.name); got != c.text || kind != c.kind || ok != c.ok || r.Offset() != 1 {
			t.Errorf("%q: got %q, %v, %v", c.name, got, kind, ok)
		}
	}
	if got := r.PeekKeys(keys("x", "type", "escape", "nothing", "a")...); got != 0b10110 {
		t.Errorf("got %b", got)
	}
	if got := r.PeekKeys(); got != 0 {
		t.Errorf("got %b for no names", got)
	}
	if r.Failed() {
		t.Error(errorOf(r))
	}
	r.Skip()
	place{codec.ErrDuplicate, int64(strings.LastIndex(text, `"type"`)), "/type"}.check(t, text, errorOf(r))
}

// PeekRaws finds the same values as PeekRaw, whatever the order of the names.
func TestPeekRawsEqualsPeekRaw(t *testing.T) {
	names := []string{"z", "escape", "a", "missing", "s", "l"}
	for _, text := range []string{
		` {"a":{"a":1,"s":[{"s":2}]},"s":"te\"xt","esc\u0061pe":-1.5,"l": [1, {"l":2}] ,"z":null,"a":"again"} `,
		`{"z":1,"y":2}`, `{}`, `[{"a":1}]`, `null`, ``, `{"a":`, `{"b":[}],"a":1}`, `{"s":"x","a"`,
	} {
		r := newReader([]byte(text))
		values := make([][]byte, len(names))
		r.PeekRaws(names, values)
		for i, name := range names {
			if want, ok := r.PeekRaw(name); string(values[i]) != string(want) || ok != (values[i] != nil) {
				t.Errorf("%s: %q: got %q, want %q, %v", text, name, values[i], want, ok)
			}
		}
		if r.Failed() {
			t.Errorf("%s: %v", text, errorOf(r))
		}
	}
}

func TestPeekFindsNothingOutsideObject(t *testing.T) {
	for _, text := range []string{``, ` `, `null`, `[{"a":1}]`, `"a"`, `{}`, `{`, `x`, `{"b":1}`, `{"a"`, `{"a":`, `{"a":}`, `{"a" 1}`, `{a:1}`, `{"a":,`, `{"b":[}],"a":1}`, `{"b":"`, `{"\x":1,"a":1}`, `{"a":"\x"}`, `{"a":"`, `{1`} {
		r := newReader([]byte(text))
		if got, kind, ok := r.PeekMember("a"); got != "" || kind != wire.KindInvalid || ok {
			t.Errorf("%s: got %q, %v", text, got, kind)
		}
		if r.Failed() {
			t.Errorf("%s: %v", text, errorOf(r))
		}
		// Reading the text finds the fault.
		r.Skip()
		r.End()
		if valid := codec.Valid([]byte(text)); (errorOf(r) == nil) != (valid == nil) {
			t.Errorf("%s: %v, want %v", text, errorOf(r), valid)
		}
	}
}

func TestPeekIgnoresLaterFaults(t *testing.T) {
	for _, text := range []string{`{"a":1`, `{"a":1,`, `{"a":1 "b"}`, `{"a":1]`, `{"b":[01,tru],"a":1}`, "{\"b\":\"\xff\x00\",\"a\":1}", `{"b":"\x","a":1`} {
		r := newReader([]byte(text))
		if got, kind, ok := r.PeekMember("a"); got != "1" || kind != wire.KindNumber || !ok || r.Failed() {
			t.Errorf("%s: got %q, %v, %v", text, got, kind, errorOf(r))
		}
		if got := r.PeekKeys(wire.Key{Name: "a"}); got != 1 {
			t.Errorf("%s: keys %b", text, got)
		}
	}
}

// Peeking finds values inside of values that were peeked into before, in any order.
func TestPeekInsidePeekedValues(t *testing.T) {
	const depth = 40
	pad := strings.Repeat(" ", scan.SmallValue)
	text := strings.Repeat(`{"pad":[`+pad+`{"deep":[{}]}],"in":`, depth) + "0" + strings.Repeat(`,"type":"t"}`, depth)
	r := newReader([]byte(text))
	start := r.Checkpoint()
	for range 2 {
		for range depth {
			if got, _, _ := r.PeekMember("type"); got != "t" {
				t.Fatalf("got %q", got)
			}
			r.Object()
			for r.More() && r.Key() != "in" {
				if got, _, _ := r.PeekMember("type"); got != "" {
					t.Fatalf("got %q in an array", got)
				}
				r.Skip()
			}
		}
		if v, _ := r.Int(); v != 0 || errorOf(r) != nil {
			t.Fatal(errorOf(r))
		}
		r.Rewind(start)
	}
}

// keys returns a Key for each name, with the empty KindSet.
func keys(names ...string) (list []wire.Key) {
	for _, name := range names {
		list = append(list, wire.Key{Name: name})
	}
	return list
}

// Peeking skips brackets before they are read, and therefore needs a depth limit of its own.
func TestPeekStopsAtMaxDepth(t *testing.T) {
	const depth = 8
	open := strings.Repeat("[", 100*scan.SmallValue)
	for _, text := range []string{`{"x":` + open, `{"y":[1],"x":` + open + `,"a":1}`, `{"x":{"in":{"x":` + open} {
		r := newReader([]byte(text), codec.MaxDepth(depth))
		if _, _, ok := r.PeekMember("a"); ok {
			t.Errorf("%.20s: a member behind a value that is nested too deeply was found", text)
		}
		if n := r.Ends(); n > depth {
			t.Errorf("%.20s: %d ends are stored", text, n)
		}
		if r.Skip(); !errors.Is(errorOf(r), jsonfault.Depth) {
			t.Errorf("%.20s: got %v", text, errorOf(r))
		}
	}
	r := newReader([]byte(`{"x":`+strings.Repeat("[", depth-1)+strings.Repeat("]", depth-1)+`,"a":1}`), codec.MaxDepth(depth))
	if got, _, _ := r.PeekMember("a"); got != "1" {
		t.Errorf("got %q behind a value of the greatest depth", got)
	}
}
