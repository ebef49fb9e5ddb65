package stdio

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/doubling"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// chunks reads text in pieces of the given sizes, repeatedly, or all at once if there are none.
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

// FuzzLines checks that the messages of a stream are those of its lines for any division into
// chunks, and that a line that is too long does not affect others.
func FuzzLines(f *testing.F) {
	for _, c := range hostile.All(hostile.Messages()) {
		f.Add([]byte(c.Text+"\n"+c.Text), []byte{0, 3}, uint16(1000), byte(9))
	}
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\r\n\n{}\n \n{\"jsonrpc\":\"2.0\",\"method\":\"long\",\"params\":{}}\n[]"), []byte{7, 0, 200}, uint16(40), byte(0))
	f.Add(bytes.Repeat([]byte("[1,\n"), 30), []byte{255, 1}, uint16(3), byte(1))
	f.Add(bytes.Repeat([]byte("\xff"), 70), []byte{255}, uint16(50), byte(0))
	f.Fuzz(func(t *testing.T, text, sizes []byte, max uint16, buffer byte) {
		type parsed struct {
			Message jsonrpc.Message
			Long    bool
			Err     string
		}
		var got, want []parsed
		add := func(to *[]parsed, line []byte, long bool) {
			p := parsed{Long: long}
			if !long {
				var err error
				if p.Message, err = jsonrpc.Parse(line); err != nil {
					p.Err = err.Error()
				}
			}
			*to = append(*to, p)
		}
		whole := bytes.Split(text, []byte{'\n'})
		if last := len(whole) - 1; len(whole[last]) == 0 {
			whole = whole[:last] // there is no line after the last line feed
		}
		for _, line := range whole {
			add(&want, line, len(line) > int(max))
		}
		l := &lines{bufio.NewReaderSize(&chunks{text: text, sizes: sizes}, int(buffer)), int(max)}
		for {
			line, err := l.next()
			if err == io.EOF {
				break
			}
			if err != nil && !errors.Is(err, transport.ErrTooLong) {
				t.Fatal(err)
			}
			add(&got, line, err != nil)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("in chunks (-lines +stream):\n%s", diff)
		}
	})
}

// The time to read a line grows in proportion to its length, even if it arrives byte by byte.
func TestReadTimeIsLinearInLineLength(t *testing.T) {
	for name, max := range map[string]int{"as long as allowed": 1 << 30, "too long": 100} {
		t.Run(name, func(t *testing.T) {
			doubling.Check(t, func(n int) func() {
				text := strings.Repeat("x", 8*n) + "\n"
				return func() {
					l := &lines{bufio.NewReaderSize(iotest.OneByteReader(strings.NewReader(text)), 16), max}
					for _, err := l.next(); err != io.EOF; _, err = l.next() {
					}
				}
			})
		})
	}
}
