// Package transporttest has a test suite for transports. The test of a transport is:
//
//	func TestConn(t *testing.T) {
//		transporttest.Run(t, func(t *testing.T, stall time.Duration, queue int) transporttest.Ends {
//			a, b := inmemory.Pair(inmemory.Options{StallTimeout: stall, MaxQueue: queue})
//			return transporttest.Ends{A: a, B: b}
//		})
//	}
package transporttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Ends holds the two ends of a connection.
type Ends struct{ A, B transport.Conn }

// Run checks that the connections of open fulfil the contract of [transport.Conn]. open is called
// once per subtest and returns the ends of a new connection. A writer of the connection must fail
// after stall without progress, and at most queue bytes may be pending. Run closes the connection.
func Run(t *testing.T, open func(t *testing.T, stall time.Duration, queue int) Ends) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, e Ends)
	}{
		{"messages arrive whole and in order", inOrder},
		{"messages of concurrent writers arrive once, in the order of each writer", manyWriters},
		{"long and unusual text arrives unchanged", unusualText},
		{"messages of a request arrive in order", ofRequest},
		{"messages written before Close arrive", arrivesBeforeClose},
		{"Close ends a concurrent Read", readEnds},
		{"Close of the other end ends a concurrent Read", readEndsByPeer},
		{"Close ends a concurrent Write", writeEnds},
		{"Write after Close fails", writeAfterClose},
		{"Close twice", closeTwice},
		{"CloseWrite leaves the other direction open", halfClose},
		{"Write waits for room until its context ends", writerWaits},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.run(t, start(t, open, time.Minute, 64<<10))
		})
	}
	t.Run("Write fails if the peer does not read", func(t *testing.T) {
		stalled(t, start(t, open, 20*time.Millisecond, 1<<10))
	})
}

func start(t *testing.T, open func(*testing.T, time.Duration, int) Ends, stall time.Duration, queue int) Ends {
	e := open(t, stall, queue)
	t.Cleanup(func() {
		e.A.Close()
		e.B.Close()
	})
	return e
}

// message returns a message with a number and a text.
func message(n int, text string) transport.Message {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings can always be marshalled
	}
	return transport.Message{Text: fmt.Appendf(nil, `{"n":%d,"text":%s}`, n, quoted)}
}

func number(t *testing.T, m transport.Message) int {
	t.Helper()
	var v struct{ N int }
	if err := json.Unmarshal(m.Text, &v); err != nil {
		t.Fatalf("%q: %v", m.Text, err)
	}
	return v.N
}

func write(t *testing.T, c transport.Conn, m transport.Message) {
	t.Helper()
	if err := c.Write(t.Context(), m); err != nil {
		t.Error(err)
	}
}

// Proves M-TRAN-01.
func inOrder(t *testing.T, e Ends) {
	const n = 2000
	var wg sync.WaitGroup
	for _, direction := range []struct{ from, to transport.Conn }{{e.A, e.B}, {e.B, e.A}} {
		wg.Go(func() {
			for i := range n {
				write(t, direction.from, message(i, strings.Repeat("x", i%300)))
			}
		})
		wg.Go(func() {
			for i := range n {
				m, err := direction.to.Read()
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(m.Text, message(i, strings.Repeat("x", i%300)).Text) {
					t.Errorf("message %d is %q", i, m.Text)
					return
				}
			}
		})
	}
	wg.Wait()
}

func manyWriters(t *testing.T, e Ends) {
	const writers, each = 50, 100
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				write(t, e.A, message(w*each+i, "text"))
			}
		})
	}
	next := make([]int, writers)
	for range writers * each {
		m, err := e.B.Read()
		if err != nil {
			t.Fatal(err)
		}
		n := number(t, m)
		if w := n / each; next[w] != n%each {
			t.Errorf("got message %d of writer %d, want %d", n%each, w, next[w])
		} else {
			next[w]++
		}
	}
	wg.Wait()
}

// Proves M-TRAN-01.
func unusualText(t *testing.T, e Ends) {
	texts := []string{"", "ä€𝄞 \u2028 \r\n \\ \" ", strings.Repeat("long ä ", 1<<19)}
	var wg sync.WaitGroup
	wg.Go(func() { // ends with the last text; Write may return after Read
		for i, text := range texts {
			write(t, e.A, message(i, text))
		}
	})
	for i, text := range texts {
		m, err := e.B.Read()
		if err != nil {
			t.Fatal(err)
		}
		if want := message(i, text); !bytes.Equal(m.Text, want.Text) {
			t.Errorf("text %d arrived with %d bytes, want %d, or differs", i, len(m.Text), len(want.Text))
		}
	}
	wg.Wait()
}

func ofRequest(t *testing.T, e Ends) {
	write(t, e.A, transport.Message{Text: []byte(`{"jsonrpc":"2.0","id":1,"method":"x"}`)})
	m, err := e.B.Read()
	if err != nil {
		t.Fatal(err)
	}
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	if reply := m.Reply; reply != nil {
		err = errors.Join(reply.Send(t.Context(), message(1, "").Text), reply.Answer(t.Context(), []byte(answer), nil))
	} else {
		err = errors.Join(e.B.Write(t.Context(), message(1, "")), e.B.Write(t.Context(), transport.Message{Text: []byte(answer)}))
	}
	if err != nil {
		t.Error(err)
	}
	if m, err := e.A.Read(); err != nil || number(t, m) != 1 {
		t.Fatalf("got %.40q, %v", m.Text, err)
	}
	if m, err := e.A.Read(); err != nil || string(m.Text) != answer {
		t.Errorf("got %.40q, %v, want the answer", m.Text, err)
	}
}

func arrivesBeforeClose(t *testing.T, e Ends) {
	for i := range 10 {
		write(t, e.A, message(i, "text"))
	}
	closed := make(chan error)
	go func() { closed <- e.A.Close() }()
	for i := range 10 {
		m, err := e.B.Read()
		if err != nil {
			t.Fatal(err)
		}
		if n := number(t, m); n != i {
			t.Errorf("got message %d, want %d", n, i)
		}
	}
	if _, err := e.B.Read(); !isClosed(err) {
		t.Errorf("after the last message: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// isClosed reports whether an error of Read means that the other end was closed.
func isClosed(err error) bool { return err == io.EOF || errors.Is(err, transport.ErrClosed) }

func readEnds(t *testing.T, e Ends) {
	got := make(chan error)
	go func() {
		_, err := e.A.Read()
		got <- err
	}()
	if err := e.A.Close(); err != nil {
		t.Error(err)
	}
	if err := <-got; !errors.Is(err, transport.ErrClosed) {
		t.Errorf("got %v, want %v", err, transport.ErrClosed)
	}
}

func readEndsByPeer(t *testing.T, e Ends) {
	got := make(chan error)
	go func() {
		_, err := e.A.Read()
		got <- err
	}()
	if err := e.B.Close(); err != nil {
		t.Error(err)
	}
	if err := <-got; !isClosed(err) {
		t.Errorf("got %v", err)
	}
}

// fill writes until ctx ends or a write fails.
func fill(ctx context.Context, c transport.Conn) error {
	for i := 0; ; i++ {
		if err := c.Write(ctx, message(i, strings.Repeat("x", 1000))); err != nil {
			return err
		}
	}
}

func writeEnds(t *testing.T, e Ends) {
	got := make(chan error)
	go func() { got <- fill(t.Context(), e.A) }()
	e.A.Close()
	if err := <-got; !errors.Is(err, transport.ErrClosed) {
		t.Errorf("got %v, want %v", err, transport.ErrClosed)
	}
}

func writeAfterClose(t *testing.T, e Ends) {
	e.A.Close()
	if err := e.A.Write(t.Context(), message(1, "")); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("got %v, want %v", err, transport.ErrClosed)
	}
}

func closeTwice(t *testing.T, e Ends) {
	for range 2 {
		for _, c := range []transport.Conn{e.A, e.B} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func halfClose(t *testing.T, e Ends) {
	a, ok := transport.As[transport.HalfCloser](e.A)
	if !ok {
		t.Skip("the connection is not a HalfCloser")
	}
	write(t, a, message(1, strings.Repeat("x", 100_000)))
	closed := make(chan error)
	go func() { closed <- errors.Join(a.CloseWrite(), a.CloseWrite()) }() // ends when B has read
	if m, err := e.B.Read(); err != nil || number(t, m) != 1 {
		t.Fatalf("got %.40q, %v", m.Text, err)
	}
	if _, err := e.B.Read(); err != io.EOF {
		t.Errorf("after the last message: %v, want %v", err, io.EOF)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := a.Write(t.Context(), message(2, "")); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("writing to the closed direction: %v, want %v", err, transport.ErrClosed)
	}
	for i := range 10 {
		write(t, e.B, message(i, "text"))
		if m, err := a.Read(); err != nil || number(t, m) != i {
			t.Fatalf("got %.40q, %v, want message %d", m.Text, err, i)
		}
	}
	if err := e.B.Close(); err != nil {
		t.Error(err)
	}
	if _, err := a.Read(); !isClosed(err) {
		t.Errorf("after the other end was closed: %v", err)
	}
}

func writerWaits(t *testing.T, e Ends) {
	cause := errors.New("timeout of the test")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, cause)
	defer cancel()
	if err := fill(ctx, e.A); err != cause {
		t.Fatalf("got %v, want %v", err, cause)
	}
	written := make(chan struct{})
	go func() { // ends when B is closed, or has read the message
		defer close(written)
		write(t, e.A, message(-1, ""))
	}()
	for {
		m, err := e.B.Read()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(m.Text, []byte(strconv.Itoa(-1))) {
			<-written
			return
		}
	}
}

func stalled(t *testing.T, e Ends) {
	if err := fill(t.Context(), e.A); !errors.Is(err, transport.ErrStalled) {
		t.Errorf("got %v, want %v", err, transport.ErrStalled)
	}
}
