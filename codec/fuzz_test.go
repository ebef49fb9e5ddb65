package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/internal/hostile"
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
		err := Valid(data)
		var v tree
		tokens := Unmarshal(data, &v)
		if !samePlace(err, tokens) {
			t.Fatalf("raw: %v, by tokens: %v", err, tokens)
		}
		r := NewReader([]byte(`{"a":[tru`))
		r.Skip()
		r.Reset(data)
		r.Skip()
		r.End()
		if !samePlace(err, r.Err()) {
			t.Fatalf("new: %v, used before: %v", err, r.Err())
		}
		if theirs := oracle.Text(data, DefaultMaxDepth); (err == nil) != (theirs == nil) {
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
		if err := Unmarshal([]byte(out), &w); err != nil {
			t.Fatalf("%s cannot be read back: %v", out, err)
		}
		if again := mustMarshal(t, &w); again != out {
			t.Fatalf("%s became %s", out, again)
		}
	})
}

func samePlace(a, b error) bool {
	var x, y *Error
	if !errors.As(a, &x) || !errors.As(b, &y) {
		return a == nil && b == nil
	}
	return x.Offset == y.Offset && x.Line == y.Line && x.Column == y.Column && x.Pointer == y.Pointer && Code(a) == Code(b)
}

// checkPlace checks what holds for the place of every error.
func checkPlace(t *testing.T, data []byte, err error) {
	var e *Error
	if !errors.As(err, &e) || e.Err == nil || Code(err) != -32700 {
		t.Fatalf("got %v", err)
	}
	if e.Offset < 0 || e.Offset > int64(len(data)) || errors.Is(err, ErrEOF) && e.Offset != int64(len(data)) {
		t.Fatalf("offset %d of %d: %v", e.Offset, len(data), err)
	}
	line, col := Position(data, int(e.Offset))
	if e.Line != line || e.Column != col || line < 1 || col < 1 {
		t.Fatalf("offset %d is %d:%d: %v", e.Offset, line, col, err)
	}
	if e.Pointer != "" && e.Pointer[0] != '/' {
		t.Fatalf("pointer %q", e.Pointer)
	}
	// What is in front of the fault is not to blame: with anything else behind it, the fault is no earlier.
	var shorter *Error
	if errors.As(Valid(data[:e.Offset]), &shorter) && shorter.Offset < e.Offset && !errors.Is(shorter, ErrNumber) && !errors.Is(shorter, ErrUTF8) {
		t.Fatalf("%v, but before that %v", err, shorter)
	}
}

// checkSame compares v with what encoding/json makes of the text.
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
			same = v.kind == KindNull
		case bool:
			same = v.kind == KindBool && v.text == "true" == token
		case json.Number:
			same = v.kind == KindNumber && v.text == token.String()
		case string:
			same = v.kind == KindString && v.text == token
		case json.Delim:
			same = v.kind == KindArray && token == '[' || v.kind == KindObject && token == '{'
			for i := range v.values {
				if v.kind == KindObject {
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

// checkPlaces checks that for every value of a good text, its offset and its pointer lead to each other, and that
// looking ahead finds what is there.
func checkPlaces(t *testing.T, data []byte) {
	r := NewReader(data)
	checked := 0
	var walk func(pointer []byte)
	walk = func(pointer []byte) {
		at := r.Offset()
		if checked++; checked < 100 {
			if got := pointerTo(data, at); got != string(pointer) {
				t.Fatalf("%d: pointer %q, want %q", at, got, pointer)
			}
			if got, ok := Locate(data, string(pointer)); !ok || got != at {
				t.Fatalf("%q: offset %d, %v, want %d", pointer, got, ok, at)
			}
		}
		switch r.Kind() {
		case KindArray:
			i := 0
			for r.Array(); r.More(); i++ {
				walk(append(append(pointer[:len(pointer):len(pointer)], '/'), Number(IntScalar(int64(i)).String())...))
			}
		case KindObject:
			before := r.Mark()
			var names []string
			var kinds []Kind
			for r.Object(); r.More(); {
				key := r.Key()
				names, kinds = append(names, key), append(kinds, r.Kind())
				walk(escapeToken(append(pointer[:len(pointer):len(pointer)], '/'), []byte(key)))
			}
			after := r.Mark()
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
			var all []Key
			for i, kind := range kinds[:len(names)] {
				ofKind |= 1 << i
				if kind != KindNull {
					want |= 1 << i
				}
				all = append(all, Key{names[i], 1 << kind})
			}
			if found := r.PeekKeys(keys(names...)...); found != want {
				t.Fatalf("peek of %q: %b", names, found)
			}
			if found := r.PeekKeys(all...); found != ofKind {
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
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
}

// FuzzRoundTrip checks that a type with unknown members, missing members and numbers of any size loses nothing.
func FuzzRoundTrip(f *testing.F) {
	addTexts(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var v record
		if err := Unmarshal(data, &v); err != nil {
			if v := Valid(data); v != nil && Code(err) == -32700 && !samePlace(v, err) {
				t.Fatalf("raw: %v, as a type: %v", v, err)
			}
			return
		}
		var want, got tree
		if err := Unmarshal(data, &want); err != nil {
			t.Fatalf("as a tree: %v", err)
		}
		out := mustMarshal(t, &v)
		if strings.ContainsAny(out, "\r\n") {
			t.Fatalf("line break in %q", out)
		}
		if err := Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s cannot be read: %v", out, err)
		}
		if !sameTree(&want, &got) {
			t.Fatalf("%s became %s", data, out)
		}
		var w record
		if err := Unmarshal([]byte(out), &w); err != nil {
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
	case KindNumber:
		return newDecimal([]byte(a.text)).equal(newDecimal([]byte(b.text)))
	case KindObject:
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
	case KindArray:
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
		_, _, ok := Number(text).scan()
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
	for i, shape := range escapeShapes {
		f.Add(shape+strings.Repeat(" word"+shape, 20), uint16(i))
	}
	f.Fuzz(func(t *testing.T, s string, capacity uint16) {
		for _, text := range []string{s, `"` + s, `"` + s + `"`, `"12345` + s + `6789"`} {
			if text == "" || text[0] != '"' {
				continue
			}
			end, _, err := scanString([]byte(text), 0)
			slowEnd, slowErr := slowString(text)
			if end != slowEnd || err != slowErr {
				t.Fatalf("%q: got %d, %v, want %d, %v", text, end, err, slowEnd, slowErr)
			}
			if err != nil {
				continue
			}
			r := NewReader([]byte(text[:end]))
			r.scratch = make([]byte, 0, capacity%512)
			var theirs string
			if got := r.Text(); json.Unmarshal([]byte(text[:end]), &theirs) != nil || got != theirs {
				t.Fatalf("%q: got %q, by encoding/json %q", text, got, theirs)
			}
		}

		w := NewWriter(nil)
		w.Text(s)
		if utf8.ValidString(s) != (w.Err() == nil) {
			t.Fatalf("%q: %v", s, w.Err())
		}
		if w.Err() != nil {
			return
		}
		var theirs string
		r := NewReader(w.Bytes())
		if got := r.Text(); got != s || r.Err() != nil || json.Unmarshal(w.Bytes(), &theirs) != nil || theirs != s {
			t.Fatalf("%q was written as %s, and read back as %q, %v", s, w.Bytes(), got, r.Err())
		}
	})
}

// slowString is scanString one character at a time.
func slowString(text string) (end int, err error) {
	i := 1
	for i < len(text) {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '"':
			return i + 1, nil
		case r < ' ':
			return i, ErrControlChar
		case r == utf8.RuneError && n == 1:
			return i, ErrUTF8
		case r != '\\':
			i += n
			continue
		}
		if i+1 == len(text) {
			break
		}
		if strings.IndexByte(`"\/bfnrt`, text[i+1]) >= 0 {
			i += 2
			continue
		}
		if text[i+1] != 'u' {
			return i, ErrEscape
		}
		unit := func(at int) (v int, end bool, ok bool) {
			for _, want := range []string{`\`, "u", hexDigits, hexDigits, hexDigits, hexDigits} {
				if at == len(text) {
					return 0, true, false
				}
				d := strings.IndexByte(want, text[at])
				if d < 0 {
					return 0, false, false
				}
				if len(want) > 1 {
					if d > 15 {
						d -= 6
					}
					v = v<<4 | d
				}
				at++
			}
			return v, false, true
		}
		high, ended, ok := unit(i)
		switch {
		case ended:
			return len(text), ErrEOF
		case !ok:
			return i, ErrEscape
		case high < 0xD800 || high > 0xDFFF:
			i += 6
			continue
		case high >= 0xDC00:
			return i, ErrSurrogate
		}
		low, ended, ok := unit(i + 6)
		switch {
		case ended:
			return len(text), ErrEOF
		case !ok && strings.HasPrefix(text[i+6:], `\u`):
			return i + 6, ErrEscape
		case !ok || low < 0xDC00 || low > 0xDFFF:
			return i, ErrSurrogate
		}
		i += 12
	}
	return len(text), ErrEOF
}

const hexDigits = "0123456789abcdefABCDEF"
