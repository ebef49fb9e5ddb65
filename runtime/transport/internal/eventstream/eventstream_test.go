package eventstream

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

// read returns the events of a stream, and the error at its end.
func read(r *Reader) (events []Event, err error) {
	for {
		e, err := r.Next()
		var rejected *transport.MessageError
		switch {
		case errors.As(err, &rejected):
			e.Name = "too long"
		case err != nil:
			return events, err
		}
		events = append(events, e)
	}
}

func TestRead(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     []Event
	}{
		{"empty stream", "", nil},
		{"data", "data: a\n\n", []Event{{Data: []byte("a")}}},
		{"no space after the colon", "data:a\n\n", []Event{{Data: []byte("a")}}},
		{"one space is removed", "data:  a\n\n", []Event{{Data: []byte(" a")}}},
		{"several lines", "data: a\ndata:\ndata: b\n\n", []Event{{Data: []byte("a\n\nb")}}},
		{"all line endings", "data: a\r\ndata: b\rdata: c\n\r\ndata: d\r\r", []Event{{Data: []byte("a\nb\nc")}, {Data: []byte("d")}}},
		{"a colon in the data", "data: {\"a\":1}\n\n", []Event{{Data: []byte(`{"a":1}`)}}},
		{"id and empty data", "id: 7\ndata:\n\n", []Event{{ID: "7", Data: []byte{}}}},
		{"id only", "id: 7\n\n", []Event{{ID: "7"}}},
		{"id persists", "id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
			[]Event{{ID: "7", Data: []byte("a")}, {ID: "7", Data: []byte("b")}, {Data: []byte("c")}}},
		{"id with NUL is ignored", "id: a\x00b\ndata: a\n\n", []Event{{Data: []byte("a")}}},
		{"id of an incomplete event is ignored", "id: 1\ndata: a\n\nid: 2\ndata: b\n", []Event{{ID: "1", Data: []byte("a")}}},
		{"names", "event: endpoint\ndata: /x\n\nevent: message\ndata: a\n\n",
			[]Event{{Name: "endpoint", Data: []byte("/x")}, {Data: []byte("a")}}},
		{"retry", "retry: 1500\n\nretry: 1s\n\nretry: -1\n\nretry:\n\n", []Event{{Retry: 1500 * time.Millisecond}}},
		{"retry has a limit", "retry: 99999999999999999999999\n\n", []Event{{Retry: maxRetry}}},
		{"comments and unknown fields", ": hello\n\nfoo: bar\ndata\n\n:\n\n", []Event{{Data: []byte{}}}},
		{"a byte order mark", "\xEF\xBB\xBFdata: a\n\n", []Event{{Data: []byte("a")}}},
		{"half a byte order mark", "\xEF\xBBdata: a\n\ndata: b\n\n", []Event{{Data: []byte("b")}}},
		{"maximum length", "data: 0123456789abcdef\n\n", []Event{{Data: []byte("0123456789abcdef")}}},
		{"maximum length in two lines", "data: 01234567\ndata: 9abcdef\n\n", []Event{{Data: []byte("01234567\n9abcdef")}}},
		{"too long", "id: 1\ndata: 0123456789abcdefg\n\ndata: b\n\n", []Event{{Name: "too long", ID: "1"}, {ID: "1", Data: []byte("b")}}},
		{"too long in two lines", "data: 012345678\ndata: 9abcdef\ndata: x\n\ndata: b\n\n", []Event{{Name: "too long"}, {Data: []byte("b")}}},
		{"far too long", "data: " + strings.Repeat("x", 20<<10) + "\n\ndata: b\n\n", []Event{{Name: "too long"}, {Data: []byte("b")}}},
		{"overlong id is ignored", "id: " + strings.Repeat("x", maxName+1) + "\ndata: a\n\n", []Event{{Data: []byte("a")}}},
		{"long comment", ":" + strings.Repeat("x", 20<<10) + "\ndata: b\n\n", []Event{{Data: []byte("b")}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(test.in), iotest.OneByteReader(strings.NewReader(test.in))} {
				got, err := read(NewReader(r, 16))
				if diff := cmp.Diff(test.want, got); diff != "" || err != io.EOF {
					t.Errorf("%q (-want +got):\n%s, %v", test.in, diff, err)
				}
			}
		})
	}
}

// Proves TRANS-01.
func TestReadSplitCharacters(t *testing.T) {
	const text = `{"text":"ÅÄÖ 漢字 🙂"}`
	for cut := range len(text) {
		stream := Append(nil, Event{ID: "1", Data: []byte(text)})
		r := NewReader(io.MultiReader(strings.NewReader(string(stream[:cut])), strings.NewReader(string(stream[cut:]))), 1<<10)
		if e, err := r.Next(); err != nil || string(e.Data) != text {
			t.Fatalf("cut at %d: %q, %v", cut, e.Data, err)
		}
	}
}

func TestNextReturnsErrorOfStream(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 16)
	got, err := read(r)
	if diff := cmp.Diff([]Event{{Data: []byte("a")}}, got); diff != "" || err != broken {
		t.Errorf("(-want +got):\n%s, %v", diff, err)
	}
}

// Next returns an event as soon as it is complete. It does not wait for a line feed after the last
// carriage return.
func TestNextDoesNotWaitForLineFeed(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	r := NewReader(in, 16)
	for i := range 3 {
		go fmt.Fprintf(out, "data: %d\r\n\r", i)
		if e, err := r.Next(); err != nil || string(e.Data) != fmt.Sprint(i) {
			t.Fatalf("%q, %v", e.Data, err)
		}
	}
}

func TestAppend(t *testing.T) {
	for _, test := range []struct {
		name string
		in   Event
		want string
	}{
		{"retry only", Event{Retry: time.Second}, "retry: 1000\n\n"},
		{"empty data", Event{ID: "1", Data: []byte{}}, "id: 1\ndata: \n\n"},
		{"data", Event{Data: []byte("a")}, "data: a\n\n"},
		{"all fields", Event{Name: "x", ID: "i", Data: []byte("a"), Retry: 1500 * time.Millisecond}, "event: x\nid: i\nretry: 1500\ndata: a\n\n"},
		{"the default name", Event{Name: "message", Data: []byte("a")}, "data: a\n\n"},
		{"line breaks", Event{Data: []byte("a\nb\r\nc\rd\n")}, "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
		{"line breaks in name and id", Event{Name: "x\ny", ID: "1\r\n2\x00", Data: []byte("a")}, "event: xy\nid: 12\ndata: a\n\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, string(Append(nil, test.in))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := string(AppendComment(nil, "still\nhere")); got != ": stillhere\n\n" {
		t.Errorf("comment %q", got)
	}
}

// Written events are read unchanged, except that their line breaks become line feeds.
func FuzzRoundTrip(f *testing.F) {
	f.Add("endpoint", "1.2", []byte(`{"a":1}`), uint16(100))
	f.Add("", "", []byte("a\r\n\rb\n"), uint16(0))
	f.Fuzz(func(t *testing.T, name, id string, data []byte, retry uint16) {
		data = append([]byte{}, data...)
		if strings.ContainsAny(name+id, "\r\n\x00") || len(name) > maxName || len(id) > maxName || name == message {
			t.Skip()
		}
		want := Event{Name: name, ID: id, Retry: time.Duration(retry) * time.Millisecond,
			Data: []byte(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data)))}
		stream := AppendComment(Append(AppendComment(nil, "x"), Event{Name: name, ID: id, Data: data, Retry: want.Retry}), "y")
		got, err := read(NewReader(strings.NewReader(string(stream)), len(data)))
		if diff := cmp.Diff([]Event{want}, got); diff != "" || err != io.EOF {
			t.Errorf("%q (-want +got):\n%s, %v", stream, diff, err)
		}
	})
}

// A Reader returns the same events for any division of the stream into reads. They equal those of
// simpleRead.
func FuzzRead(f *testing.F) {
	f.Add([]byte("id: 1\ndata: a\n\nevent: x\r\ndata: b\rdata: c\r\r: y\n\nretry: 5\n\n"))
	f.Add([]byte("\xEF\xBB\xBFdata:a\n\n\n\ndata\n\nid\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		const limit = 64
		want := simpleRead(stream, limit)
		for _, r := range []io.Reader{strings.NewReader(string(stream)), iotest.OneByteReader(strings.NewReader(string(stream)))} {
			got, err := read(NewReader(r, limit))
			if diff := cmp.Diff(want, got); diff != "" || err != io.EOF {
				t.Errorf("%q (-want +got):\n%s, %v", stream, diff, err)
			}
		}
	})
}

// simpleRead is a simple implementation of Reader for a stream in memory.
func simpleRead(stream []byte, limit int) (events []Event) {
	text := strings.TrimPrefix(string(stream), "\xEF\xBB\xBF")
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
	id := ""
	var e Event
	var data []string
	hasField, newID := false, id
	for _, line := range lines[:len(lines)-1] {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && hasField:
			id = newID
			e.ID = id
			if data != nil {
				e.Data = []byte(strings.Join(data, "\n"))
			}
			if len(e.Data) > limit {
				e.Data, e.Name = nil, "too long"
			}
			events = append(events, e)
			e, data, hasField = Event{}, nil, false
		case name == "data":
			data, hasField = append(data, value), true
		case name == "event":
			hasField = true
			if e.Name = value; value == message || len(value) > maxName {
				e.Name = ""
			}
		case name == "id" && len(value) <= maxName && !strings.Contains(value, "\x00"):
			newID, hasField = value, true
		case name == "retry" && value != "" && strings.Trim(value, "0123456789") == "":
			hasField = true
			e.Retry = maxRetry
			if d, err := time.ParseDuration(value + "ms"); err == nil && d < maxRetry {
				e.Retry = d
			}
		}
	}
	return events
}

func BenchmarkRead(b *testing.B) {
	stream := string(Append(nil, Event{ID: "1.1", Data: []byte(strings.Repeat("x", 200))}))
	r := NewReader(endless{stream, new(int)}, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

// endless repeats a text.
type endless struct {
	text string
	at   *int
}

func (r endless) Read(b []byte) (int, error) {
	n := copy(b, r.text[*r.at:])
	*r.at = (*r.at + n) % len(r.text)
	return n, nil
}

// readerFunc is an [io.Reader].
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A Reader that waits for data holds no large buffer.
func TestWaitingReaderHoldsNoLargeBuffer(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	rest := Append(Append(nil, Event{Data: []byte(long)}), Event{Data: []byte("a")})
	var r *Reader
	most := 0
	r = NewReader(readerFunc(func(p []byte) (int, error) {
		most = max(most, len(p))
		if len(rest) == 0 {
			if r.large != nil || len(p) > len(r.small) {
				t.Errorf("the Reader waits with a buffer of %d bytes", len(p))
			}
			return 0, io.EOF
		}
		n := copy(p, rest)
		rest = rest[n:]
		return n, nil
	}), len(long))
	got, err := read(r)
	if diff := cmp.Diff([]Event{{Data: []byte(long)}, {Data: []byte("a")}}, got); diff != "" || err != io.EOF {
		t.Errorf("(-want +got):\n%s, %v", diff, err)
	}
	if most <= len(r.small) {
		t.Errorf("the largest read was of %d bytes", most)
	}
}

// A Reader that is reused has no state of its previous stream.
func TestReusedReaderHasNoOldState(t *testing.T) {
	for range 3 {
		r := NewReader(strings.NewReader("id: 1\ndata: a\r\n\rdata: "+strings.Repeat("x", 1000)), 16)
		if e, err := r.Next(); err != nil || e.ID != "1" || string(e.Data) != "a" {
			t.Fatalf("%+v, %v", e, err)
		}
		r.Release()
		r = NewReader(strings.NewReader("\n\xEF\xBB\xBFdata: no mark\n\ndata: b\n\n"), 16)
		got, err := read(r)
		if diff := cmp.Diff([]Event{{Data: []byte("b")}}, got); diff != "" || err != io.EOF {
			t.Errorf("(-want +got):\n%s, %v", diff, err)
		}
		r.Release()
	}
}

func TestNextFailsAfterEmptyReads(t *testing.T) {
	r := NewReader(readerFunc(func([]byte) (int, error) { return 0, nil }), 16)
	if _, err := r.Next(); err != io.ErrNoProgress {
		t.Errorf("got %v, want %v", err, io.ErrNoProgress)
	}
}

func TestAppendHead(t *testing.T) {
	for _, e := range []Event{{Data: []byte("x")}, {Name: "n", ID: "7", Data: []byte("{}"), Retry: time.Second}, {ID: "1", Data: []byte{}}} {
		head, ok := AppendHead([]byte("before"), e)
		if got, want := string(head)+string(e.Data)+Tail, "before"+string(Append(nil, e)); got != want || !ok {
			t.Errorf("%q, %v, want %q", got, ok, want)
		}
	}
	for _, data := range []string{"a\nb", "a\r", "\n"} {
		if head, ok := AppendHead(nil, Event{ID: "1", Data: []byte(data)}); ok || len(head) > 0 {
			t.Errorf("%q: %q, %v", data, head, ok)
		}
	}
}
