package split

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestDocuments(t *testing.T) {
	for _, test := range []struct {
		name string
		in   string
		want []Document
	}{
		{"one per line", "{}\n[1]\n", []Document{{[]byte("{}"), 1, 1}, {[]byte("[1]"), 2, 1}}},
		{"several on a line", `{} {"a":1}`, []Document{{[]byte("{}"), 1, 1}, {[]byte(`{"a":1}`), 1, 4}}},
		{"one over several lines", "\n  {\n \"a\": [\n1]\n}\n", []Document{{[]byte("{\n \"a\": [\n1]\n}"), 2, 3}}},
		{"scalars end with their line", "1 \r\n\"a b\"\n", []Document{{[]byte("1"), 1, 1}, {[]byte(`"a b"`), 2, 1}}},
		{"brackets in strings do not count", `{"a":"}\"]"}[]`, []Document{{[]byte(`{"a":"}\"]"}`), 1, 1}, {[]byte("[]"), 1, 13}}},
		{"a string that a line break cuts ends there", "{\"a\":\"b\n{}\n", []Document{{[]byte(`{"a":"b`), 1, 1}, {[]byte("{}"), 2, 1}}},
		{"an object cut off does not take the next line along", "{\"a\":{\n{\"b\":1}\n", []Document{{[]byte(`{"a":{`), 1, 1}, {[]byte(`{"b":1}`), 2, 1}}},
		{"objects in a list may start in the first column", "[\n{\"b\":1},\n{\"c\":2}\n]", []Document{{[]byte("[\n{\"b\":1},\n{\"c\":2}\n]"), 1, 1}}},
		{"an element of an object may have a line of its own", "{\"a\":[\n{\"b\":1}\n]}\n{}", []Document{{[]byte("{\"a\":[\n{\"b\":1}\n]}"), 1, 1}, {[]byte("{}"), 4, 1}}},
		{"a closing bracket too many is a document", "{}}\n{}", []Document{{[]byte("{}"), 1, 1}, {[]byte("}"), 1, 3}, {[]byte("{}"), 2, 1}}},
		{"the last one may be cut off", `{"a":`, []Document{{[]byte(`{"a":`), 1, 1}}},
		{"nothing", " \n\t\n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(test.in), iotest.OneByteReader(strings.NewReader(test.in))} {
				var got []Document
				s := NewScanner(r, 1<<20)
				for {
					d, err := s.Next()
					if err == io.EOF {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, d)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}
		})
	}
}

func TestLimit(t *testing.T) {
	s := NewScanner(strings.NewReader("[1,2,3]"), 4)
	if _, err := s.Next(); !errors.Is(err, ErrTooLong) {
		t.Errorf("got %v, want ErrTooLong", err)
	}
}

func TestPosition(t *testing.T) {
	d := Document{Text: []byte("{\n \"a\":1}"), Line: 3, Column: 5}
	for _, test := range []struct{ offset, line, column int }{{0, 3, 5}, {1, 3, 6}, {3, 4, 2}} {
		if l, c := d.Position(test.offset); l != test.line || c != test.column {
			t.Errorf("offset %d is at %d:%d, want %d:%d", test.offset, l, c, test.line, test.column)
		}
	}
}
