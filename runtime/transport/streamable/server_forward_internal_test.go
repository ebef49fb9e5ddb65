package streamable

import (
	"io"
	"strings"
	"testing"
)

// The transport looks for the end of the body after it has read all of it. If the response has begun
// by then, that is no failure: the transport would close the connection and break the response.
func TestWholeBodyOfForwardEndsWithEOF(t *testing.T) {
	const text = "text"
	for _, length := range []int64{int64(len(text)), -1} {
		b := &forwardBody{body: strings.NewReader(text), length: length}
		if got, err := io.ReadAll(io.LimitReader(b, int64(len(text)))); string(got) != text || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
		if length < 0 {
			b.Read(make([]byte, 1)) // finds the end
		}
		if whole, err := b.end(nil); !whole || err != nil {
			t.Errorf("length %d: whole %t, error %v", length, whole, err)
		}
		if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("length %d: read %d bytes after the end, error %v", length, n, err)
		}
	}
}
