package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/hostile"
)

func mustDecode(t *testing.T, text string) record {
	t.Helper()
	var v record
	if err := codec.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", clip(text), err)
	}
	return v
}

func encoded(t *testing.T, v *record) string {
	t.Helper()
	out, err := codec.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestRoundTripLosesNothing(t *testing.T) {
	for _, text := range []string{
		`{}`,
		`{"id":1,"name":"n"}`,
		`{"id":"1","name":""}`,
		`{"id":1.0,"name":"n","count":0,"ratio":0,"tags":[],"inner":{},"list":[],"free":null}`,
		`{"name":"only the name"}`,
		`{"id":1,"name":"n","count":99999999999999999999,"ratio":1e400}`,
		`{"id":1,"name":"n","count":-99999999999999999999,"ratio":0.1000000000000000000000000001}`,
		`{"id":1,"name":"n","list":[{"id":2,"name":"m","x":null},{}]}`,
		`{"id":1,"name":"n","free":{"any": [1, 2.50, "x", {}]}}`,
		`{"id":1,"name":"n","unknown":{"a":[]},"ID":2,"":0,"quo\"te":"\u0000"}`,
		`{"name":"n","count":null}`,
		`{"id":null,"name":null,"count":null,"ratio":null,"tags":null,"inner":null,"list":null}`,
	} {
		v := mustDecode(t, text)
		got := encoded(t, &v)
		if sorted(t, got) != sorted(t, text) {
			t.Errorf("%s became %s", text, got)
		}
		again := mustDecode(t, got)
		if diff := cmp.Diff(v, again); diff != "" {
			t.Errorf("%s: decoding what was encoded (-want +got):\n%s", text, diff)
		}
	}
}

// sorted returns an object's members, each as text, in the order of their names.
func sorted(t *testing.T, text string) string {
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%q", m)
}

func TestExtraKeepsOrderOfMembers(t *testing.T) {
	v := mustDecode(t, `{"z":1,"id":1,"a": [ 2 ] ,"name":"n","m":{"x":3}}`)
	var got []string
	for name, raw := range v.Extra.All() {
		got = append(got, name+"="+string(raw))
	}
	if diff := cmp.Diff([]string{"z=1", "a=[ 2 ]", `m={"x":3}`}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range v.Extra.All() {
		break // an early end is fine
	}
	if _, ok := v.Extra.Get("id"); ok {
		t.Error("a known member is there")
	}
	if raw, ok := v.Extra.Get("a"); !ok || string(raw) != "[ 2 ]" || v.Extra.Len() != 3 {
		t.Errorf("got %s, %v of %d", raw, ok, v.Extra.Len())
	}
}

func TestZeroExtraIsEmpty(t *testing.T) {
	var x wire.Extra
	if x.Len() != 0 || x.Absent(0) || x.Absent(63) {
		t.Error("a zero Extra has members, or records missing ones")
	}
	if _, ok := x.Get(""); ok {
		t.Error("it has a member")
	}
	if _, ok := x.Number(""); ok {
		t.Error("it has a number")
	}
	for name := range x.All() {
		t.Errorf("it has %q", name)
	}
	x.Delete("a")
	x.SetAbsent(0)
	if x != (wire.Extra{}) || !x.Equal(wire.Extra{}) {
		t.Error("doing nothing to it changes it")
	}
}

// Every way to change an Extra leaves a copy of the struct as it was.
func TestChangingExtraDoesNotAffectCopies(t *testing.T) {
	const text = `{"id":1,"a":1,"b":2,"count":99999999999999999999}`
	changes := map[string]func(v *record){
		"set new":      func(v *record) { v.Extra.Set("c", json.RawMessage("3")) },
		"set old":      func(v *record) { v.Extra.Set("a", json.RawMessage("3")) },
		"delete":       func(v *record) { v.Extra.Delete("a") },
		"delete last":  func(v *record) { v.Extra.Delete("b") },
		"absent":       func(v *record) { v.Extra.SetAbsent(1) },
		"absent none":  func(v *record) { v.Extra.SetAbsent(0) },
		"decode again": func(v *record) { _ = codec.Unmarshal([]byte(`{"q":1}`), v) },
		"decode into": func(v *record) { // without clearing it first
			r := newReader([]byte(`{"q":1,"r":2,"count":1e400}`))
			for r.Object(); r.More(); {
				if key := r.Key(); key == "count" {
					r.IntExact(&v.Extra, key)
				} else {
					r.Keep(&v.Extra, key)
				}
			}
			text, _ := v.Extra.Number("count")
			if errorOf(r) != nil || v.Extra.Len() != 4 || text != "1e400" {
				t.Errorf("%v, %d members", errorOf(r), v.Extra.Len())
			}
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			v := mustDecode(t, text)
			before := encoded(t, &v)
			other, third := v, v
			change(&other)
			other.Extra.Set("more", json.RawMessage("0"))
			if got := encoded(t, &v); got != before {
				t.Errorf("%s became %s", before, got)
			}
			// And the other way round.
			changed := encoded(t, &other)
			change(&v)
			v.Extra.Set("other", json.RawMessage("0"))
			if got := encoded(t, &other); got != changed {
				t.Errorf("%s became %s", changed, got)
			}
			if got := encoded(t, &third); got != before {
				t.Errorf("the third copy: %s became %s", before, got)
			}
		})
	}
}

// A Reader that has read a part of an object must not change a copy of the Extra made at that
// point.
func TestExtraCopiedDuringDecodingIsNotShared(t *testing.T) {
	r := newReader([]byte(`[{"a":1},{"b":2}]`))
	var x wire.Extra
	var copies []wire.Extra
	for r.Array(); r.More(); {
		for r.Object(); r.More(); {
			r.Keep(&x, r.Key())
		}
		copies = append(copies, x)
	}
	if copies[0].Len() != 1 || copies[1].Len() != 2 || errorOf(r) != nil {
		t.Errorf("%d and %d members, %v", copies[0].Len(), copies[1].Len(), errorOf(r))
	}
}

func TestExtraEqualIgnoresOrderAndWhiteSpace(t *testing.T) {
	decode := func(text string) wire.Extra {
		v := mustDecode(t, text)
		return v.Extra
	}
	x := decode(`{"a":{"n":[1, 2]},"b":"x y","count":1e99}`)
	for text, want := range map[string]bool{
		`{"a":{"n":[1, 2]},"b":"x y","count":1e99}`:             true,
		"{\"b\":\"x y\",\"count\":1e99,\"a\":{\"n\":\n[1,2 ]}}": true,
		`{"a":{"n":[1, 2]},"b":"xy","count":1e99}`:              false,
		`{"a":{"n":[1, 2]},"b":"x y","count":1e98}`:             false,
		`{"a":{"n":[1, 2]},"b":"x y"}`:                          false,
		`{"a":{"n":[1, 2]},"c":"x y","count":1e99}`:             false,
		`{"a":{"n":[1, 2]},"count":1e99}`:                       false,
		`{"a":{"n":[1, 2]},"b":"x y","count":1e99,"id":1}`:      false,
		`{}`: false,
	} {
		if y := decode(text); x.Equal(y) != want || y.Equal(x) != want {
			t.Errorf("%s: equal is not %v", text, want)
		}
	}
}

func TestEmptiedExtraEqualsEmptyExtra(t *testing.T) {
	var x, empty wire.Extra
	x.Set("a", json.RawMessage("1"))
	if x.Equal(empty) || empty.Equal(x) {
		t.Error("a member makes no difference")
	}
	x.Delete("a")
	if !x.Equal(empty) || !empty.Equal(x) {
		t.Error("it differs from an empty one")
	}
	x.SetAbsent(2)
	if x.Equal(empty) || empty.Equal(x) || x.Absent(0) || !x.Absent(1) {
		t.Error("a missing member makes no difference")
	}
}

func TestRejectsRepeatedUnknownMember(t *testing.T) {
	many := func(n int, last string) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range n {
			b.WriteString(hostile.NameOf(i) + ":1,")
		}
		return b.String() + last + ":2}"
	}
	for _, c := range []struct {
		text string
		place
	}{
		{`{"x":1,"x":2}`, place{codec.ErrDuplicate, 7, "/x"}},
		{`{"x":1,"\u0078":2}`, place{codec.ErrDuplicate, 7, "/x"}},
		{`{"inner":{"x":1,"y":2,"x":3}}`, place{codec.ErrDuplicate, 22, "/inner/x"}},
		{`{"count":null,"count":1}`, place{codec.ErrDuplicate, 14, "/count"}},
		{`{"count":1,"count":null}`, place{codec.ErrDuplicate, 11, "/count"}},
		{`{"free":{"x":1,"x":2}}`, place{codec.ErrDuplicate, 15, "/free/x"}},
		{many(15, `"n0007"`), place{codec.ErrDuplicate, 151, "/n0007"}},
		{many(16, `"n0000"`), place{codec.ErrDuplicate, 161, "/n0000"}},
		{many(17, `"n0016"`), place{codec.ErrDuplicate, 171, "/n0016"}},
		{many(17, `"n0000"`), place{codec.ErrDuplicate, 171, "/n0000"}},
		{many(500, `"n0499"`), place{codec.ErrDuplicate, 5001, "/n0499"}},
		{many(500, `"n0500"`), place{}},
	} {
		var v record
		c.check(t, c.text, codec.Unmarshal([]byte(c.text), &v))
	}
	// Nested and neighbouring objects may have the same names.
	inner := many(40, `"z"`)
	text := `{"list":[` + inner + `,` + inner + `],"inner":` + inner[:len(inner)-1] + `,"free":` + inner + `,"inner":` + inner + `}}`
	var v record
	if err := codec.Unmarshal([]byte(text), &v); err != nil {
		t.Error(err)
	}
}

func TestFieldWinsOverExtraMemberOfSameName(t *testing.T) {
	v := mustDecode(t, `{"id":1,"name":"n","count":null,"inner":null}`)
	v.Count = new(int64(5))
	if got, want := encoded(t, &v), `{"id":1,"name":"n","count":5,"inner":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	v.Extra.Set("id", json.RawMessage("2"))
	v.Extra.Set("nam", json.RawMessage("3"))
	if got, want := encoded(t, &v), `{"id":1,"name":"n","count":5,"inner":null,"nam":3}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestChangedNumberLosesOriginalText(t *testing.T) {
	v := mustDecode(t, `{"id":1,"name":"n","count":99999999999999999999,"ratio":1e-400}`)
	if text, ok := v.Extra.Number("count"); !ok || text != "99999999999999999999" {
		t.Errorf("kept %q, %v", text, ok)
	}
	*v.Count--
	*v.Ratio = 0.5
	if got, want := encoded(t, &v), `{"id":1,"name":"n","count":9223372036854775806,"ratio":0.5}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	v.Count, v.Ratio = nil, nil
	if got, want := encoded(t, &v), `{"id":1,"name":"n"}`; got != want {
		t.Errorf("without the fields: got %s, want %s", got, want)
	}
}

// TestUnknownMembersOfNestedObjectsStayApart decodes objects with unknown members of all sizes.
// Between these are known members that also keep raw text, and nested objects with unknown members.
func TestUnknownMembersOfNestedObjectsStayApart(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	type want struct {
		names  []string
		values map[string]string
	}
	var object func(depth int) (text string, w want, inner *want)
	object = func(depth int) (string, want, *want) {
		w := want{values: map[string]string{}}
		var inner *want
		var parts []string
		n := random.IntN(25)
		known := map[int]string{}
		if n > 3 {
			known[random.IntN(n)] = `"free":[` + strings.Repeat("1,", random.IntN(300)) + `1]`
			known[random.IntN(n)] = `"count":99999999999999999999`
			if depth > 0 {
				text, in, _ := object(depth - 1)
				known[random.IntN(n)] = `"inner":` + text
				inner = &in
			}
		}
		for i := range n {
			if known[i] != "" {
				parts = append(parts, known[i])
				continue
			}
			name := fmt.Sprintf("x%d%s", i, strings.Repeat("-", random.IntN(40)))
			value := []string{"1", "null", `"` + strings.Repeat("v", random.IntN(400)) + `"`, "[1, 2]", "[\n3\n]", `{"a":{}}`}[random.IntN(6)]
			head := `"` + name + `":`
			switch random.IntN(40) {
			case 0:
				name, head = name+"é", `"`+name+"é\": "
			case 1:
				name, head = name+`"`, `"`+name+`\"" :`
			}
			w.names = append(w.names, name)
			w.values[name] = value
			parts = append(parts, head+value)
		}
		if inner != nil && !strings.Contains(strings.Join(parts, ","), `"inner"`) {
			inner = nil
		}
		return "{" + strings.Join(parts, ",") + "}", w, inner
	}
	check := func(x wire.Extra, w want) {
		t.Helper()
		var names []string
		for name, raw := range x.All() {
			names = append(names, name)
			got, ok := x.Get(name)
			if !ok || !x.Has(name) || string(raw) != w.values[name] || string(got) != w.values[name] || cap(raw) > len(raw) {
				t.Fatalf("%q is %s and %s, want %s", name, raw, got, w.values[name])
			}
		}
		if !slices.Equal(names, w.names) || x.Len() != len(names) || x.Has("x") || x.Has("") {
			t.Fatalf("got %q, want %q", names, w.names)
		}
	}
	for range 500 {
		text, outer, inner := object(2)
		for _, opts := range [][]codec.Option{nil, {codec.NoCopy()}} {
			var v record
			if err := codec.Unmarshal([]byte(text), &v, opts...); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			check(v.Extra, outer)
			if inner != nil {
				check(v.Inner.Extra, *inner)
			}
			out := encoded(t, &v)
			var again record
			if err := codec.Unmarshal([]byte(out), &again); err != nil || !again.Extra.Equal(v.Extra) || strings.Contains(out, "\n") {
				t.Fatalf("%s became %s, %v", text, out, err)
			}
			if inner != nil && !again.Inner.Extra.Equal(v.Inner.Extra) {
				t.Fatalf("%s became %s", text, out)
			}
			again.Extra.Set("x", json.RawMessage("true"))
			if outer.names = append(outer.names, "x"); !strings.HasSuffix(encoded(t, &again), `"x":true}`) || again.Extra.Len() != v.Extra.Len()+1 {
				t.Fatalf("%s with one more is %s", out, encoded(t, &again))
			}
			outer.names = outer.names[:len(outer.names)-1]
			check(v.Extra, outer)
		}
	}
}

func TestWriterChecksChangedMember(t *testing.T) {
	v := mustDecode(t, `{"id":1,"name":"n","a":1,"b":[2]}`)
	raw, _ := v.Extra.Get("b")
	raw[1] = ','
	if _, err := codec.Marshal(&v); !errors.Is(err, codec.ErrSyntax) {
		t.Errorf("got %v", err)
	}
	raw[1] = '3'
	if got := encoded(t, &v); got != `{"id":1,"name":"n","a":1,"b":[3]}` {
		t.Error(got)
	}
}
