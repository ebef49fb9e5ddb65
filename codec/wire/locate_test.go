package wire_test

import (
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/internal/scan"
	"github.com/mcpwire/mcpwire/codec/wire"
)

func TestPositionCountsLinesAndBytes(t *testing.T) {
	const text = "ab\ncé\r\n\n d"
	for _, c := range []struct{ offset, line, col int }{
		{-1, 1, 1}, {0, 1, 1}, {1, 1, 2}, {2, 1, 3}, {3, 2, 1}, {4, 2, 2}, {6, 2, 4}, {7, 2, 5}, {8, 3, 1}, {9, 4, 1}, {10, 4, 2}, {11, 4, 3}, {99, 4, 3},
	} {
		if line, col := codec.Position([]byte(text), c.offset); line != c.line || col != c.col {
			t.Errorf("%d: got %d:%d, want %d:%d", c.offset, line, col, c.line, c.col)
		}
	}
}

func TestLocateFollowsPointer(t *testing.T) {
	// The examples of RFC 6901, section 5, and some more.
	const text = ` {"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,"o":{"p":[[],[{"q":9}]]}, "~1":10}`
	for pointer, want := range map[string]string{
		"":             `{"foo"`,
		"/foo":         `["bar"`,
		"/foo/0":       `"bar"`,
		"/foo/1":       `"baz"`,
		"/":            `0`,
		"/a~1b":        `1`,
		"/c%d":         `2`,
		"/e^f":         `3`,
		"/g|h":         `4`,
		"/i\\j":        `5`,
		"/k\"l":        `6`,
		"/ ":           `7`,
		"/m~0n":        `8`,
		"/o/p/1/0/q":   `9`,
		"/o/p/0":       `[]`,
		"/~01":         `10`,
		"foo":          "",
		"/foo/2":       "",
		"/foo/-":       "",
		"/foo/00":      "",
		"/foo/+1":      "",
		"/foo/":        "",
		"/foo/0/x":     "",
		"/nothing":     "",
		"/foo/bar":     "",
		"/o/p/1/0/q/r": "",
		"//":           "",
	} {
		offset, ok := codec.Locate([]byte(text), pointer)
		if ok != (want != "") || ok && !strings.HasPrefix(text[offset:], want) {
			t.Errorf("%q: got %d, %v, want %q", pointer, offset, ok, want)
		}
		if ok && scan.PointerTo([]byte(text), offset) != pointer {
			t.Errorf("%q: PointerTo returns %q", pointer, scan.PointerTo([]byte(text), offset))
		}
	}
	for _, text := range []string{"", " ", "{", `{"a"`, `{"a":`, "[", "[,", "]", "\xff"} {
		if offset, ok := codec.Locate([]byte(text), "/a"); ok {
			t.Errorf("%q: got %d", text, offset)
		}
	}
}

// The test inserts a fault at every value and name of a document with all kinds of values. The
// error must point to it.
func TestReaderReportsPlantedFaultAtItsOffset(t *testing.T) {
	const text = "{ \"a\" : [ 1 , { \"b\" : \"x\\n\" } ,\r\n [ [ ] , { } , true ] ] ,\n\t\"c/d\":{\"e~\":{\"\":null,\"\\u0066\":-1.5}}, \"g\" : false }"
	type spot struct {
		offset  int
		pointer string
		name    bool
	}
	var spots []spot
	var walk func(r *wire.Reader, pointer string)
	walk = func(r *wire.Reader, pointer string) {
		spots = append(spots, spot{r.Offset(), pointer, false})
		switch r.Kind() {
		case wire.KindObject:
			for r.Object(); r.More(); {
				key := r.Key()
				inner := pointer + "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
				spots = append(spots, spot{r.KeyOffset(), inner, true})
				walk(r, inner)
			}
		case wire.KindArray:
			i := 0
			for r.Array(); r.More(); i++ {
				walk(r, pointer+"/"+string(rune('0'+i)))
			}
		default:
			r.Skip()
		}
	}
	r := newReader([]byte(text))
	walk(r, "")
	if errorOf(r) != nil || len(spots) != 21 {
		t.Fatalf("%v, %d spots", errorOf(r), len(spots))
	}
	for _, s := range spots {
		if got := scan.PointerTo([]byte(text), s.offset); got != s.pointer {
			t.Errorf("%d: got %q, want %q", s.offset, got, s.pointer)
		}
		data := []byte(text)
		data[s.offset] = '!'
		want := s.pointer
		if s.name { // the fault breaks the name, so the error points to the object
			want = want[:strings.LastIndexByte(want, '/')]
		}
		place{codec.ErrSyntax, int64(s.offset), want}.check(t, string(data), codec.Valid(data))
		if !s.name {
			if at, ok := codec.Locate([]byte(text), s.pointer); !ok || at != s.offset {
				t.Errorf("%q: located at %d, %v, want %d", s.pointer, at, ok, s.offset)
			}
		}
	}
}
