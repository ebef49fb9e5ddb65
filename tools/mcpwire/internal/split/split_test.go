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
		{"brackets in strings are ignored", `{"a":"}\"]"}[]`, []Document{{[]byte(`{"a":"}\"]"}`), 1, 1}, {[]byte("[]"), 1, 13}}},
		{"an unterminated string ends with its line", "{\"a\":\"b\n{}\n", []Document{{[]byte(`{"a":"b`), 1, 1}, {[]byte("{}"), 2, 1}}},
		{"an incomplete object does not include the next line", "{\"a\":{\n{\"b\":1}\n", []Document{{[]byte(`{"a":{`), 1, 1}, {[]byte(`{"b":1}`), 2, 1}}},
		{"elements of a list may start in the first column", "[\n{\"b\":1},\n{\"c\":2}\n]", []Document{{[]byte("[\n{\"b\":1},\n{\"c\":2}\n]"), 1, 1}}},
		{"a nested element may start in the first column", "{\"a\":[\n{\"b\":1}\n]}\n{}", []Document{{[]byte("{\"a\":[\n{\"b\":1}\n]}"), 1, 1}, {[]byte("{}"), 4, 1}}},
		{"a surplus closing bracket is a document", "{}}\n{}", []Document{{[]byte("{}"), 1, 1}, {[]byte("}"), 1, 3}, {[]byte("{}"), 2, 1}}},
		{"the last document may be incomplete", `{"a":`, []Document{{[]byte(`{"a":`), 1, 1}}},
		{"no documents", " \n\t\n", nil},
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

func TestNextRejectsLongDocument(t *testing.T) {
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
