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
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/transporttest"
)

// Proves TRANS-01.
func TestConnKeepsTransportContract(t *testing.T) {
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

// discard is a stream that discards all bytes.
type discard struct{ io.Writer }

func (discard) Close() error { return nil }

// Proves STDIO-03.
func TestOnlyLineFeedsEndMessages(t *testing.T) {
	const limit = 100
	long := strings.Repeat("x", limit)
	for _, c := range []struct{ name, in, want string }{
		{"two messages at once", "{\"a\":1}\n{\"b\":2}\n", `{"a":1}|{"b":2}|EOF`},
		{"carriage returns are text", "{\"a\":1}\r\n{\r}\n", "{\"a\":1}\r|{\r}|EOF"},
		{"Unicode separators do not end a line", "\"\u2028\u2029\u0085\"\n", "\"\u2028\u2029\u0085\"|EOF"},
		{"empty lines are skipped", "\n \r\n\n{}\n\n", "{}|EOF"},
		{"last line without line feed", "{}\n{", "{}|{|EOF"},
		{"empty input", "", "EOF"},
		{"maximum length", long + "\n", long + "|EOF"},
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

// Proves STDIO-04, M-STDIO-01.
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
		t.Errorf("an unexpected line: %q", scanner.Text())
	}
}

// writeCounter counts writes. The first one blocks.
type writeCounter struct {
	bytes.Buffer
	n       int
	release chan struct{} // closed to unblock the first write
}

func (c *writeCounter) Write(b []byte) (int, error) {
	if c.n++; c.n == 1 {
		<-c.release
	}
	return c.Buffer.Write(b)
}

func (c *writeCounter) Close() error { return nil }

func TestPendingMessagesAreWrittenTogether(t *testing.T) {
	synctest.Test(t, pendingMessagesAreWrittenTogether)
}

func pendingMessagesAreWrittenTogether(t *testing.T) {
	out := &writeCounter{release: make(chan struct{})}
	conn := stdio.New(io.NopCloser(strings.NewReader("")), out, stdio.Options{})
	for range 1000 {
		if err := conn.Write(t.Context(), transport.Message{Text: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	close(out.release)
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

func TestWriteFailsAfterStreamFails(t *testing.T) {
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

// A peer that has stopped reading answers no pending request: the connection ends after the write.
func TestReadFailsAfterFailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, peer := io.Pipe()
		closed, out := io.Pipe()
		closed.Close()
		c := stdio.New(in, out, stdio.Options{})
		defer c.Close()
		go peer.Write([]byte("{}\n")) // ends when the line is read
		if err := c.Write(t.Context(), transport.Message{Text: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(); err != nil {
			t.Errorf("a line from before: %v", err)
		}
		start := time.Now()
		if _, err := c.Read(); !errors.Is(err, transport.ErrClosed) || time.Since(start) > time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// An answer that is too long fails its call. A request that is too long is rejected with its id.
func TestOverlongMessageIsIdentifiedByHeadOrTail(t *testing.T) {
	const limit = 5000
	long := strings.Repeat("x", limit)
	for _, c := range []struct {
		name, line   string
		lost, reject codec.Scalar
	}{
		{"a response", `{"jsonrpc":"2.0","id":7,"result":{"text":"` + long + `"}}`, codec.IntScalar(7), codec.Scalar{}},
		{"a response with its id as a string", `{"id":"seven","jsonrpc":"2.0","result":{"text":"` + long + `"}}`, codec.StringScalar("seven"), codec.Scalar{}},
		{"an error", `{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"` + long + `"}}`, codec.IntScalar(7), codec.Scalar{}},
		{"a response with its id last", `{"jsonrpc":"2.0","result":{"text":"` + long + `"},"id":7}`, codec.IntScalar(7), codec.Scalar{}},
		{"a response with its result first", `{"result":{"text":"` + long + `"},"jsonrpc":"2.0","id":"seven"}`, codec.StringScalar("seven"), codec.Scalar{}},
		{"a response without an id", `{"jsonrpc":"2.0","result":{"text":"` + long + `","id":7}}`, codec.Scalar{}, codec.Scalar{}},
		{"a request with its id last", `{"jsonrpc":"2.0","method":"x","params":{"text":"` + long + `"},"id":7}`, codec.Scalar{}, codec.IntScalar(7)},
		{"a request", `{"jsonrpc":"2.0","id":7,"method":"x","params":{"text":"` + long + `"}}`, codec.Scalar{}, codec.IntScalar(7)},
		{"a notification", `{"jsonrpc":"2.0","method":"x","params":{"text":"` + long + `"}}`, codec.Scalar{}, codec.Scalar{}},
		{"not a message", long + long, codec.Scalar{}, codec.Scalar{}},
	} {
		for name, reader := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
		} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				conn := stdio.New(io.NopCloser(reader(strings.NewReader(c.line+"\n{}\n"))), discard{io.Discard}, stdio.Options{MaxMessage: limit})
				defer conn.Close()
				_, err := conn.Read()
				if !errors.Is(err, transport.ErrTooLong) || !strings.Contains(err.Error(), "MaxMessage (5000 bytes)") {
					t.Errorf("got %v", err)
				}
				if lost, ok := errors.AsType[*transport.DeliveryError](err); ok != !c.lost.IsZero() || ok && lost.ID != c.lost {
					t.Errorf("got %#v, want a DeliveryError for the answer to %v", err, c.lost)
				}
				if rejected, ok := errors.AsType[*transport.MessageError](err); ok != c.lost.IsZero() || ok && rejected.ID != c.reject {
					t.Errorf("got %#v, want a MessageError for %v", err, c.reject)
				}
				if m, err := conn.Read(); err != nil || string(m.Text) != "{}" {
					t.Errorf("the next message: %q, %v", m.Text, err)
				}
			})
		}
	}
}

// trickle is a stream that accepts rate bytes per second. With rate 0, it blocks until it is
// closed.
type trickle struct {
	rate   int
	got    int
	closed chan struct{}
}

func (s *trickle) Write(b []byte) (int, error) {
	if s.rate == 0 {
		<-s.closed
		return 0, io.ErrClosedPipe
	}
	time.Sleep(time.Duration(len(b)) * time.Second / time.Duration(s.rate))
	s.got += len(b)
	return len(b), nil
}

func (s *trickle) Close() error {
	close(s.closed)
	return nil
}

func TestSlowPeerReceivesAllMessages(t *testing.T) {
	for _, rate := range []int{200, 10_000, 100_000} {
		synctest.Test(t, func(t *testing.T) {
			out := &trickle{rate: rate, closed: make(chan struct{})}
			conn := stdio.New(io.NopCloser(strings.NewReader("")), out, stdio.Options{MaxQueue: 1 << 10, FlushTimeout: time.Hour})
			for range 4 {
				if err := conn.Write(t.Context(), transport.Message{Text: []byte(strings.Repeat("x", 40*rate))}); err != nil {
					t.Fatalf("after %d bytes: %v", out.got, err)
				}
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			if want := 4 * (40*rate + 1); out.got != want {
				t.Errorf("%d of %d bytes arrived", out.got, want)
			}
		})
	}
}

func TestPeerThatDoesNotReadEndsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := stdio.New(io.NopCloser(strings.NewReader("")), &trickle{closed: make(chan struct{})}, stdio.Options{MaxQueue: 1 << 10})
		start := time.Now()
		var err error
		for err == nil {
			err = conn.Write(t.Context(), transport.Message{Text: []byte(strings.Repeat("x", 1000))})
		}
		if err != transport.ErrStalled || time.Since(start) != transport.DefaultStallTimeout {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		conn.Close()
	})
}

// stuck is a stream whose Close does not end a concurrent Write.
type stuck struct{ release chan struct{} }

func (s stuck) Write(b []byte) (int, error) {
	<-s.release
	return len(b), nil
}

func (stuck) Close() error { return nil }

func TestCloseDoesNotWaitForStuckWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := stuck{make(chan struct{})}
		conn := stdio.New(io.NopCloser(strings.NewReader("")), out, stdio.Options{})
		if err := conn.Write(t.Context(), transport.Message{Text: []byte(`{}`)}); err != nil {
			t.Error(err)
		}
		start := time.Now()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		close(out.release)
	})
}
