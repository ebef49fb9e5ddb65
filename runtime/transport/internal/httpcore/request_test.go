package httpcore

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// reader records by how many bytes a buffer passed to Read exceeds the number of bytes read so far.
type reader struct {
	text  []byte
	given int // number of bytes read so far
	most  int // largest len(p) - given
}

func (r *reader) Read(p []byte) (int, error) {
	r.most = max(r.most, len(p)-r.given)
	n := copy(p[:min(len(p), 10_000)], r.text)
	r.text = r.text[n:]
	if r.given += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func TestMemoryGrowsWithReceivedBytes(t *testing.T) {
	for _, size := range []int{0, 1, firstRead - 1, firstRead, firstRead + 1, 5*firstRead + 3} {
		want := bytes.Repeat([]byte("x"), size)
		r := &reader{text: want}
		got, err := readLength(r, size)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
		if r.most > firstRead {
			t.Errorf("%d bytes: a buffer had %d bytes more than had arrived", size, r.most)
		}
		if _, err := readLength(&reader{text: want}, size+1); err == nil {
			t.Errorf("%d bytes of %d are accepted as complete", size, size+1)
		}
	}
	r := new(reader)
	if _, err := readLength(r, 16<<20); err == nil || r.most > firstRead {
		t.Errorf("without data, a buffer has %d bytes (%v)", r.most, err)
	}
}

// A password that contains a slash makes a URL malformed.
func TestParseURLErrorOmitsSecrets(t *testing.T) {
	for _, text := range []string{"http://ann:secret/2@host/mcp", "http://ann:secret@host:x/mcp?key=secret", "ftp://ann:secret@host/"} {
		if _, err := ParseURL(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
