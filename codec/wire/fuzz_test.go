package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/internal/scan"
	"github.com/mcpwire/mcpwire/codec/internal/slow"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/internal/oracle"
)

func addTexts(f *testing.F) {
	for _, c := range hostile.All(hostile.Texts()) {
		f.Add([]byte(c.Text))
	}
	for _, h := range adversarial {
		f.Add([]byte(h.text(34)))
	}
	f.Add([]byte(`{"id":1e3,"name":"n","count":99999999999999999999,"ratio":0.10000000000000000001,"tags":["\u0041"],"inner":{"name":null},"list":[{}],"free":[ 1 ],"x":{}}`))
}

// FuzzReader checks that reading raw, reading by tokens and a strict reference agree on every text.
func FuzzReader(f *testing.F) {
	addTexts(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := slices.Clone(data)
		err := codec.Valid(data)
		var v tree
		tokens := codec.Unmarshal(data, &v)
		if !samePlace(err, tokens) {
			t.Fatalf("raw: %v, by tokens: %v", err, tokens)
		}
		r := newReader([]byte(`{"a":[tru`))
		r.Skip()
		r.Again(data)
		r.Skip()
		r.End()
		if !samePlace(err, errorOf(r)) {
			t.Fatalf("new: %v, used before: %v", err, errorOf(r))
		}
		if theirs := oracle.Text(data, wire.DefaultDepth); (err == nil) != (theirs == nil) {
			t.Fatalf("got %v, want %v", err, theirs)
		}
		if !bytes.Equal(data, whole) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			checkPlace(t, data, err)
			return
		}

		checkSame(t, data, &v)
		checkPlaces(t, data)

		out := mustMarshal(t, &v)
		for i := range data {
			data[i] = '#'
		}
		if again := mustMarshal(t, &v); again != out {
			t.Fatalf("%s became %s with the input", out, again)
		}
		var w tree
		if err := codec.Unmarshal([]byte(out), &w); err != nil {
			t.Fatalf("%s cannot be read back: %v", out, err)
		}
		if again := mustMarshal(t, &w); again != out {
			t.Fatalf("%s became %s", out, again)
		}
	})
}

func samePlace(a, b error) bool {
	var x, y *codec.Error
	if !errors.As(a, &x) || !errors.As(b, &y) {
		return a == nil && b == nil
	}
	return x.Offset == y.Offset && x.Line == y.Line && x.Column == y.Column && x.Pointer == y.Pointer && codec.Code(a) == codec.Code(b)
}

// checkPlace checks the rules for the place of every error.
func checkPlace(t *testing.T, data []byte, err error) {
	var e *codec.Error
	if !errors.As(err, &e) || e.Err == nil || codec.Code(err) != -32700 {
		t.Fatalf("got %v", err)
	}
	if e.Offset < 0 || e.Offset > int64(len(data)) || errors.Is(err, jsonfault.EOF) && e.Offset != int64(len(data)) {
		t.Fatalf("offset %d of %d: %v", e.Offset, len(data), err)
	}
	line, col := codec.Position(data, int(e.Offset))
	if e.Line != line || e.Column != col || line < 1 || col < 1 {
		t.Fatalf("offset %d is %d:%d: %v", e.Offset, line, col, err)
	}
	if e.Pointer != "" && e.Pointer[0] != '/' {
		t.Fatalf("pointer %q", e.Pointer)
	}
	// The text before the fault has no fault of its own: if the text is cut there, no earlier fault
	// appears.
	var shorter *codec.Error
	if errors.As(codec.Valid(data[:e.Offset]), &shorter) && shorter.Offset < e.Offset && !errors.Is(shorter, jsonfault.Number) && !errors.Is(shorter, jsonfault.UTF8) {
		t.Fatalf("%v, but before that %v", err, shorter)
	}
}

// checkSame compares v with the tokens that encoding/json reads from the text.
func checkSame(t *testing.T, data []byte, v *tree) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var walk func(v *tree)
	walk = func(v *tree) {
		token, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		same := false
		switch token := token.(type) {
		case nil:
			same = v.kind == wire.KindNull
		case bool:
			same = v.kind == wire.KindBool && v.text == "true" == token
		case json.Number:
			same = v.kind == wire.KindNumber && v.text == token.String()
		case string:
			same = v.kind == wire.KindString && v.text == token
		case json.Delim:
			same = v.kind == wire.KindArray && token == '[' || v.kind == wire.KindObject && token == '{'
			for i := range v.values {
				if v.kind == wire.KindObject {
					if name, err := d.Token(); err != nil || name != any(v.names[i]) {
						t.Fatalf("name %q, by encoding/json %v, %v", v.names[i], name, err)
					}
				}
				walk(&v.values[i])
			}
			if end, err := d.Token(); err != nil || end != token+2 {
				t.Fatalf("end of %v, by encoding/json %v, %v", token, end, err)
			}
		}
		if !same {
			t.Fatalf("%v %q, by encoding/json %v", v.kind, v.text, token)
		}
	}
	walk(v)
	if _, err := d.Token(); err != io.EOF {
		t.Fatalf("after the text: %v", err)
	}
}

// checkPlaces checks that for every value of a good text, its offset and its pointer lead to each
// other, and that peeking finds each member.
func checkPlaces(t *testing.T, data []byte) {
	r := newReader(data)
	checked := 0
	var walk func(pointer []byte)
	walk = func(pointer []byte) {
		at := r.Offset()
		if checked++; checked < 100 {
			if got := scan.PointerTo(data, at); got != string(pointer) {
				t.Fatalf("%d: pointer %q, want %q", at, got, pointer)
			}
			if got, ok := codec.Locate(data, string(pointer)); !ok || got != at {
				t.Fatalf("%q: offset %d, %v, want %d", pointer, got, ok, at)
			}
		}
		switch r.Kind() {
		case wire.KindArray:
			i := 0
			for r.Array(); r.More(); i++ {
				walk(append(append(pointer[:len(pointer):len(pointer)], '/'), codec.Number(codec.IntScalar(int64(i)).String())...))
			}
		case wire.KindObject:
			before := r.Checkpoint()
			var names []string
			var kinds []wire.Kind
			for r.Object(); r.More(); {
				key := r.Key()
				names, kinds = append(names, key), append(kinds, r.Kind())
				walk(scan.EscapeToken(append(pointer[:len(pointer):len(pointer)], '/'), []byte(key)))
			}
			after := r.Checkpoint()
			r.Rewind(before)
			if len(names) > 20 {
				names = names[:20]
			}
			for i, name := range names {
				if _, kind, ok := r.PeekMember(name); !ok || kind != kinds[i] {
					t.Fatalf("peek of %q: %v, %v, want %v", name, kind, ok, kinds[i])
				}
			}
			var want, ofKind uint64
			var all []wire.Key
			for i, kind := range kinds[:len(names)] {
				ofKind |= 1 << i
				if kind != wire.KindNull {
					want |= 1 << i
				}
				all = append(all, wire.Key{names[i], 1 << kind})
			}
			// The key in front, which no object has, makes PeekKeys look for all others.
			none := wire.Key{Name: "\xff"}
			if found := r.PeekKeys(append([]wire.Key{none}, keys(names...)...)...); found != want<<1 {
				t.Fatalf("peek of %q: %b", names, found)
			}
			if found := r.PeekKeys(append([]wire.Key{none}, all...)...); found != ofKind<<1 {
				t.Fatalf("peek of %q of kinds %v: %b", names, kinds, found)
			}
			if found := r.PeekKeys(all...); found&1 != ofKind&1 || found&^ofKind != 0 {
				t.Fatalf("peek of %q of kinds %v: %b", names, kinds, found)
			}
			for i := range all {
				all[i].Kinds = ^all[i].Kinds
			}
			if found := r.PeekKeys(all...); found != 0 {
				t.Fatalf("peek of %q of other kinds than %v: %b", names, kinds, found)
			}
			r.Rewind(after)
		default:
			r.Skip()
		}
	}
	walk(nil)
	r.End()
	if errorOf(r) != nil {
		t.Fatal(errorOf(r))
	}
}

// FuzzRoundTrip checks that a type with unknown members, missing members and numbers of any size
// loses nothing.
func FuzzRoundTrip(f *testing.F) {
	addTexts(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var v record
		if err := codec.Unmarshal(data, &v); err != nil {
			if v := codec.Valid(data); v != nil && codec.Code(err) == -32700 && !samePlace(v, err) {
				t.Fatalf("raw: %v, as a type: %v", v, err)
			}
			return
		}
		var want, got tree
		if err := codec.Unmarshal(data, &want); err != nil {
			t.Fatalf("as a tree: %v", err)
		}
		out := mustMarshal(t, &v)
		if strings.ContainsAny(out, "\r\n") {
			t.Fatalf("line break in %q", out)
		}
		if err := codec.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s cannot be read: %v", out, err)
		}
		if !sameTree(&want, &got) {
			t.Fatalf("%s became %s", data, out)
		}
		var w record
		if err := codec.Unmarshal([]byte(out), &w); err != nil {
			t.Fatalf("%s cannot be read back: %v", out, err)
		}
		if again := mustMarshal(t, &w); again != out {
			t.Fatalf("%s became %s", out, again)
		}
	})
}

// sameTree compares values: members in any order, numbers by value.
func sameTree(a, b *tree) bool {
	if a.kind != b.kind || len(a.values) != len(b.values) {
		return false
	}
	switch a.kind {
	case wire.KindNumber:
		return scan.SameNumber([]byte(a.text), []byte(b.text))
	case wire.KindObject:
		byName := map[string]*tree{}
		for i := range b.values {
			byName[b.names[i]] = &b.values[i]
		}
		for i := range a.values {
			if other, ok := byName[a.names[i]]; !ok || !sameTree(&a.values[i], other) {
				return false
			}
		}
		return true
	case wire.KindArray:
		for i := range a.values {
			if !sameTree(&a.values[i], &b.values[i]) {
				return false
			}
		}
	}
	return a.text == b.text
}

// FuzzNumber checks numbers against math/big.
func FuzzNumber(f *testing.F) {
	for _, text := range []string{"0", "-0.0e-0", "9007199254740993", "1e23", "0.1000000000000000055511151231257827", "9223372036854775808", "92233720368547758.07e2", "5e-324", "2.2250738585072011e-308", "1.7976931348623159e308"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		end, _, err := scan.Number([]byte(text+" "), 0)
		ok := err == nil && end == len(text) && text != ""
		if theirs := json.Valid([]byte(text)) && strings.Trim(text, "-0123456789.eE+") == ""; ok != theirs {
			t.Fatalf("a number: %v, by encoding/json %v", ok, theirs)
		}
		if ok && len(text) < 5000 {
			checkNumber(t, text)
		}
	})
}

// FuzzString compares the scanner, which looks at eight bytes at a time, with one that looks at
// single bytes. It also checks that written strings are read back unchanged. The Reader decodes
// escapes into a buffer of the given capacity.
func FuzzString(f *testing.F) {
	for i, c := range hostile.All(hostile.Texts()) {
		f.Add(c.Text, uint16(i))
	}
	for i, shape := range slow.EscapeShapes {
		f.Add(shape+strings.Repeat(" word"+shape, 20), uint16(i))
	}
	f.Fuzz(func(t *testing.T, s string, capacity uint16) {
		for _, text := range []string{s, `"` + s, `"` + s + `"`, `"12345` + s + `6789"`} {
			if text == "" || text[0] != '"' {
				continue
			}
			end, _, err := scan.String([]byte(text), 0)
			slowEnd, slowErr := slowString(text)
			if end != slowEnd || err != slowErr {
				t.Fatalf("%q: got %d, %v, want %d, %v", text, end, err, slowEnd, slowErr)
			}
			if err != nil {
				continue
			}
			r := newReader([]byte(text[:end]))
			r.SetScratch(int(capacity % 512))
			var theirs string
			if got := r.Text(); json.Unmarshal([]byte(text[:end]), &theirs) != nil || got != theirs {
				t.Fatalf("%q: got %q, by encoding/json %q", text, got, theirs)
			}
		}

		w := wire.NewWriter(nil)
		w.Text(s)
		if utf8.ValidString(s) != (writeError(w) == nil) {
			t.Fatalf("%q: %v", s, writeError(w))
		}
		if writeError(w) != nil {
			return
		}
		var theirs string
		r := newReader(w.Bytes())
		if got := r.Text(); got != s || errorOf(r) != nil || json.Unmarshal(w.Bytes(), &theirs) != nil || theirs != s {
			t.Fatalf("%q was written as %s, and read back as %q, %v", s, w.Bytes(), got, errorOf(r))
		}
	})
}
