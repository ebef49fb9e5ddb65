package stdio_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/transporttest"
)

func TestConnKeepsTheContractOfTransports(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, stall time.Duration, queue int) transporttest.Ends {
		r1, w1, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r2, w2, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		o := stdio.Options{StallTimeout: stall, MaxQueue: queue, FlushTimeout: 50 * time.Millisecond}
		return transporttest.Ends{A: stdio.New(r1, w2, o), B: stdio.New(r2, w1, o)}
	})
}

// discard is a stream that takes everything.
type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// Proves STDIO-03.
func TestLineFeedsAndNothingElseEndMessages(t *testing.T) {
	const limit = 100
	long := strings.Repeat("x", limit)
	for _, c := range []struct{ name, in, want string }{
		{"two in one write", "{\"a\":1}\n{\"b\":2}\n", `{"a":1}|{"b":2}|EOF`},
		{"carriage returns belong to the text", "{\"a\":1}\r\n{\r}\n", "{\"a\":1}\r|{\r}|EOF"},
		{"separators of Unicode do not end a line", "\"\u2028\u2029\u0085\"\n", "\"\u2028\u2029\u0085\"|EOF"},
		{"empty lines are passed over", "\n \r\n\n{}\n\n", "{}|EOF"},
		{"the last line may lack its end", "{}\n{", "{}|{|EOF"},
		{"nothing", "", "EOF"},
		{"as long as may be", long + "\n", long + "|EOF"},
		{"too long", "{}\n" + long + "y\n{}\n", "{}|too long|{}|EOF"},
		{"much too long", strings.Repeat("x", 300_000) + "\n{}\n", "too long|{}|EOF"},
		{"too long at the end", "{}\n" + strings.Repeat("x", 70_000), "{}|too long|EOF"},
	} {
		for name, reader := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
		} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				conn := stdio.New(io.NopCloser(reader(strings.NewReader(c.in))), discard{io.Discard}, stdio.Options{MaxMessage: limit})
				defer conn.Close()
				var got []string
				for len(got) == 0 || got[len(got)-1] != "EOF" {
					m, err := conn.Read()
					switch {
					case err == io.EOF:
						got = append(got, "EOF")
					case errors.Is(err, transport.ErrTooLong):
						got = append(got, "too long")
					case err != nil:
						t.Fatal(err)
					default:
						got = append(got, string(m.Text))
					}
				}
				if diff := cmp.Diff(c.want, strings.Join(got, "|")); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Proves STDIO-04.
func TestMessagesAreWrittenWithoutLineBreaks(t *testing.T) {
	var out bytes.Buffer
	conn := stdio.New(io.NopCloser(strings.NewReader("")), discard{&out}, stdio.Options{})
	texts := []string{"{\n\t\"a\": \"b\\nc\"\n}", `{}`, "\n{\r\n}\n"}
	for _, text := range texts {
		if err := conn.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
			t.Error(err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	scanner := bufio.NewScanner(&out)
	for _, text := range texts {
		if !scanner.Scan() {
			t.Fatalf("no line for %q", text)
		}
		var got, want any
		if err := json.Unmarshal(scanner.Bytes(), &got); err != nil {
			t.Errorf("%q: %v", scanner.Text(), err)
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	if scanner.Scan() {
		t.Errorf("more: %q", scanner.Text())
	}
}

// calls counts writes.
type calls struct {
	bytes.Buffer
	n     int
	first chan struct{} // closed to let the first one go on
}

func (c *calls) Write(b []byte) (int, error) {
	if c.n++; c.n == 1 {
		<-c.first
	}
	return c.Buffer.Write(b)
}

func (c *calls) Close() error { return nil }

func TestMessagesThatWaitGoOutTogether(t *testing.T) {
	out := &calls{first: make(chan struct{})}
	conn := stdio.New(io.NopCloser(strings.NewReader("")), out, stdio.Options{})
	for range 1000 {
		if err := conn.Write(t.Context(), transport.Message{Text: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	close(out.first)
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if got := strings.Count(out.String(), "{}\n"); got != 1000 {
		t.Errorf("%d messages arrived", got)
	}
	if out.n > 2 {
		t.Errorf("it took %d writes", out.n)
	}
}

func TestWritingFailsOnceTheStreamHas(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	conn := stdio.New(io.NopCloser(strings.NewReader("")), w, stdio.Options{})
	defer conn.Close()
	for {
		if err := conn.Write(t.Context(), transport.Message{Text: []byte(`{}`)}); err != nil {
			if !errors.Is(err, transport.ErrClosed) {
				t.Errorf("got %v", err)
			}
			return
		}
	}
}
