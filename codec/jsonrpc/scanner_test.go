package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/hostile"
)

// scanned is what a Scanner returns: lines, and errors in their place.
type scanned struct {
	Lines []string
	End   string // the last error
}

const tooLong = "(too long)"

func scan(r io.Reader, max int) (got scanned) {
	s := NewScanner(r, max)
	for {
		line, err := s.Next()
		switch {
		case err == nil:
			got.Lines = append(got.Lines, string(line))
		case errors.Is(err, codec.ErrSize):
			got.Lines = append(got.Lines, tooLong)
		default:
			got.End = err.Error()
			return got
		}
	}
}

func TestScanner(t *testing.T) {
	long := strings.Repeat("x", 3*scanBuffer)
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		r    io.Reader
		max  int
		want scanned
	}{
		{"lines", strings.NewReader("a\nb c\nd"), 0, scanned{[]string{"a", "b c", "d"}, "EOF"}},
		{"nothing", strings.NewReader(""), 0, scanned{nil, "EOF"}},
		{"blank lines", strings.NewReader("\n \t\r\n\na\r\n\n"), 0, scanned{[]string{"a\r"}, "EOF"}},
		{"no line feed but others", strings.NewReader("a\rb\u2028c\x00d\x85e\n"), 0, scanned{[]string{"a\rb\u2028c\x00d\x85e"}, "EOF"}},
		{"longer than the buffer", strings.NewReader("a\n" + long + "\nb\n" + long), 0, scanned{[]string{"a", long, "b", long}, "EOF"}},
		{"as long as allowed", strings.NewReader("abc\nde"), 3, scanned{[]string{"abc", "de"}, "EOF"}},
		{"too long by one", strings.NewReader("abcd\nde\nabcd"), 3, scanned{[]string{tooLong, "de", tooLong}, "EOF"}},
		{"too long by far", strings.NewReader("a\n" + long + "\n" + long + "b\nc"), 9, scanned{[]string{"a", tooLong, tooLong, "c"}, "EOF"}},
		{"too long over buffers", strings.NewReader(long + "\nb"), 2 * scanBuffer, scanned{[]string{tooLong, "b"}, "EOF"}},
		{"blank, but too long", strings.NewReader("    \nb"), 3, scanned{[]string{tooLong, "b"}, "EOF"}},
		{"one byte at a time", iotest.OneByteReader(strings.NewReader("ab\n\ncdef\ng")), 3, scanned{[]string{"ab", tooLong, "g"}, "EOF"}},
		{"the last bytes together with the end", iotest.DataErrReader(strings.NewReader("a\nb")), 0, scanned{[]string{"a", "b"}, "EOF"}},
		{"a stream that breaks", io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 0, scanned{[]string{"a"}, "broken"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, scan(c.r, c.max)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A line that is too long is reported before it ends, which it may never do.
func TestScannerReportsALongLineAtOnce(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	go func() { // ends when r is closed, if not before
		for {
			if _, err := w.Write(bytes.Repeat([]byte{'['}, scanBuffer)); err != nil {
				return
			}
		}
	}()
	s := NewScanner(r, 100_000)
	_, err := s.Next()
	var e *codec.Error
	if !errors.As(err, &e) || e.Offset != 100_000 || CodeOf(err) != CodeParseError {
		t.Errorf("got %v", err)
	}
}

// After an error the end stays the end.
func TestScannerAtItsEnd(t *testing.T) {
	s := NewScanner(strings.NewReader("a"), 0)
	for _, want := range []error{nil, io.EOF, io.EOF} {
		if _, err := s.Next(); err != want {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

// chunks reads text in pieces of the given sizes, again and again, or all at once if there are none.
type chunks struct {
	text  []byte
	sizes []byte
	i     int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := len(c.text)
	if len(c.sizes) > 0 {
		n = int(c.sizes[c.i%len(c.sizes)]) + 1
		c.i++
	}
	n = copy(p, c.text[:min(n, len(c.text))])
	c.text = c.text[n:]
	return n, nil
}

// FuzzScanner checks that a stream has the same messages however it is cut into chunks, those that its lines have,
// and that they stay what they are while the stream goes on.
func FuzzScanner(f *testing.F) {
	for _, c := range hostile.All(hostile.Messages()) {
		f.Add([]byte(c.Text+"\n"+c.Text), []byte{0, 3}, uint16(0), byte(9))
	}
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\r\n\n{}\n \n{\"jsonrpc\":\"2.0\",\"method\":\"long\",\"params\":{}}\n[]"), []byte{7, 0, 200}, uint16(40), byte(0))
	f.Add(bytes.Repeat([]byte("[1,\n"), 30), []byte{255, 1}, uint16(3), byte(1))
	f.Add(bytes.Repeat([]byte("\xff"), 70), []byte{255}, uint16(50), byte(0))
	f.Fuzz(func(t *testing.T, text, sizes []byte, max uint16, buffer byte) {
		type parsed struct {
			Message Message
			Err     string
		}
		var got, want []parsed
		add := func(to *[]parsed, line []byte, err error) {
			var p parsed
			if err == nil {
				p.Message, err = Parse(line)
			}
			if err != nil {
				p.Err = err.Error()
			}
			*to = append(*to, p)
		}
		limit := int(max)
		if limit == 0 {
			limit = codec.DefaultMaxSize
		}
		for line := range bytes.SplitSeq(text, []byte{'\n'}) {
			switch {
			case len(line) > limit:
				add(&want, nil, &codec.Error{Offset: int64(limit), Line: 1, Column: limit + 1, Err: codec.ErrSize})
			case len(bytes.Trim(line, " \t\r")) > 0:
				add(&want, line, nil)
			}
		}
		s := newScanner(&chunks{text: text, sizes: sizes}, int(max), int(buffer))
		for {
			line, err := s.Next()
			if err == io.EOF {
				break
			}
			add(&got, line, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("in chunks (-lines +stream):\n%s", diff)
		}
	})
}
