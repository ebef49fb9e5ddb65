package sse_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
)

// slowWriter is an http.ResponseWriter whose client accepts rate bytes per second.
type slowWriter struct {
	*httptest.ResponseRecorder
	rate     int
	mu       sync.Mutex
	deadline time.Time // guarded by mu
}

func (w *slowWriter) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return nil
}

func (w *slowWriter) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(len(b)) * time.Second / time.Duration(w.rate))
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.deadline.IsZero() && time.Now().After(w.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return w.ResponseRecorder.Write(b)
}

// text returns what the client has received.
func (w *slowWriter) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Body.String()
}

// A message that takes longer than Timeouts.Stall to send is not a stall while bytes are accepted.
// Later messages wait for it.
func TestSlowStreamReceivesAllMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan transport.Conn, 1)
		h := sse.NewHandler(func(_ *http.Request, c transport.Conn) { conns <- c },
			sse.HandlerOptions{Timeouts: sse.Timeouts{Stall: 5 * time.Second, Flush: time.Hour}, Limits: sse.Limits{Queue: 1000}, KeepAlive: time.Hour})
		w := &slowWriter{ResponseRecorder: httptest.NewRecorder(), rate: 20 << 10}
		done := make(chan struct{})
		go func() { // ends with Close
			defer close(done)
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		}()
		c := <-conns
		texts := []string{strings.Repeat("x", 400<<10), strings.Repeat("y", 1000), strings.Repeat("z", 1000)}
		for _, text := range texts {
			if err := c.Write(context.Background(), transport.Message{Text: []byte(text)}); err != nil {
				t.Errorf("%.1s: %v", text, err)
			}
		}
		c.Close()
		<-done
		for _, text := range texts {
			if !strings.Contains(w.text(), "data: "+text+"\n") {
				t.Errorf("%.1s has not arrived", text)
			}
		}
	})
}

// stalledWriter is an http.ResponseWriter that behaves like that of net/http when its client reads
// nothing: the context of the request ends before a write fails.
type stalledWriter struct {
	*httptest.ResponseRecorder
	cancel context.CancelFunc
}

func (w *stalledWriter) Write(b []byte) (int, error) {
	if !strings.Contains(string(b), "event: message") {
		return w.ResponseRecorder.Write(b)
	}
	w.cancel()
	time.Sleep(time.Second) // all that the end of the context starts comes first
	return 0, os.ErrDeadlineExceeded
}

func TestStallIsNotReportedAsDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan transport.Conn, 1)
		h := sse.NewHandler(func(_ *http.Request, c transport.Conn) { conns <- c }, sse.HandlerOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // ends because the write fails
			defer close(done)
			h.ServeHTTP(&stalledWriter{httptest.NewRecorder(), cancel}, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		}()
		c := <-conns
		defer c.Close()
		if err := c.Write(context.Background(), transport.Message{Text: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		<-done
		if err := c.Write(context.Background(), transport.Message{Text: []byte("{}")}); !errors.Is(err, transport.ErrStalled) {
			t.Errorf("got %v, want %v", err, transport.ErrStalled)
		}
	})
}

// A principal that does not read answers on any of its connections is not sent further ones, apart
// from the first 64 KiB of each connection.
func TestServerLimitsUnreadAnswersOfAllConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan transport.Conn, 1)
		h := sse.NewHandler(func(_ *http.Request, c transport.Conn) { conns <- c }, sse.HandlerOptions{
			Limits: sse.Limits{Message: 50 << 10}, Timeouts: sse.Timeouts{Stall: time.Minute}, KeepAlive: time.Hour,
			Access: sse.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get("X-From"), nil }},
		})
		var serving sync.WaitGroup
		type connection struct {
			transport.Conn
			requests map[int64]transport.Reply
		}
		// All requests are received before any is answered.
		connect := func(from string, rate int, ids ...int64) (connection, *slowWriter) {
			w, r := &slowWriter{ResponseRecorder: httptest.NewRecorder(), rate: rate}, httptest.NewRequest("GET", "/", nil)
			r.Header.Set("X-From", from)
			serving.Go(func() { h.ServeHTTP(w, r) }) // ends with Close
			c := connection{<-conns, map[int64]transport.Reply{}}
			time.Sleep(time.Second) // the endpoint is written
			_, endpoint, _ := strings.Cut(strings.TrimSpace(w.text()), "data: ")
			for _, id := range ids {
				post := httptest.NewRequest("POST", endpoint, strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, id)))
				post.Header = http.Header{"X-From": {from}, "Content-Type": {"application/json"}}
				h.ServeHTTP(httptest.NewRecorder(), post)
				m, err := c.Read()
				if err != nil {
					t.Fatal(err)
				}
				c.requests[id] = m.Reply
			}
			return c, w
		}
		answer := func(c connection, id int64, size int) {
			text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"text":"%s"}}`, id, strings.Repeat("x", size))
			if err := c.requests[id].Answer(t.Context(), []byte(text), nil); err != nil {
				t.Error(err)
			}
		}
		short := make([]int64, 25)
		for i := range short {
			short[i] = int64(20 + i)
		}
		one, _ := connect("ann", 4<<10, append(short, 10, 11, 12)...)
		two, second := connect("ann", 1<<30, 2, 3, 5, 7, 8)
		three, _ := connect("ann", 4<<10, 50)
		other, third := connect("ben", 1<<30, 4)
		if err := one.Write(t.Context(), transport.Message{Text: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()            // the first answers become pending while this is written
		for id := range int64(3) { // 200 KiB have room
			answer(one, 10+id, 100<<10)
		}
		answer(two, 2, 100<<10)
		answer(two, 3, 60<<10)
		answer(other, 4, 100<<10)
		time.Sleep(time.Hour) // all is written
		answer(two, 5, 100<<10)
		time.Sleep(time.Second)
		for _, id := range short { // they count, too
			answer(one, id, 10<<10)
		}
		answer(three, 50, 100<<10)
		answer(two, 7, 100<<10)
		one.Close() // does not wait until they are written
		answer(two, 8, 100<<10)
		time.Sleep(time.Second)
		h.Close()
		serving.Wait()
		if got := second.text(); !strings.Contains(got, `"id":2,"error":{"code":-32050`) || !strings.Contains(got, `"id":3,"result"`) || !strings.Contains(got, `"id":5,"result"`) || !strings.Contains(got, `"id":7,"error"`) || !strings.Contains(got, `"id":8,"result"`) {
			t.Errorf("the second connection: %d bytes, %.300s", len(got), got)
		}
		if got := third.text(); !strings.Contains(got, `"id":4,"result"`) {
			t.Errorf("another principal: %.300s", got)
		}
	})
}

// While a principal has filled the room for unread messages, those that are not answers wait for
// each of its connections that has more than 64 KiB. They arrive, and the connection does not end.
func TestNotificationsWaitWhileTheRoomIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan transport.Conn, 1)
		h := sse.NewHandler(func(_ *http.Request, c transport.Conn) { conns <- c }, sse.HandlerOptions{
			Limits: sse.Limits{Message: 50 << 10}, Timeouts: sse.Timeouts{Stall: time.Minute}, KeepAlive: time.Hour,
		})
		var serving sync.WaitGroup
		connect := func() (transport.Conn, *slowWriter) {
			w := &slowWriter{ResponseRecorder: httptest.NewRecorder(), rate: 4 << 10}
			serving.Go(func() { h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)) }) // ends with Close
			return <-conns, w
		}
		write := func(c transport.Conn, size int) (took time.Duration) {
			start := time.Now()
			if err := c.Write(t.Context(), transport.Message{Text: []byte(strings.Repeat("x", size))}); err != nil {
				t.Error(err)
			}
			return time.Since(start)
		}
		one, _ := connect()
		two, second := connect()
		synctest.Wait()
		for range 3 {
			write(one, 100<<10)
		}
		if took := write(two, 60<<10) + write(two, 40<<10) + write(two, 20<<10); took != 0 {
			t.Errorf("64 KiB wait for %v", took)
		}
		if took := write(two, 40<<10); took == 0 {
			t.Error("more than 64 KiB do not wait")
		}
		time.Sleep(time.Hour)
		h.Close()
		serving.Wait()
		if got := strings.Count(second.text(), "x"); got < 160<<10 {
			t.Errorf("%d bytes have arrived", got)
		}
	})
}

// deadlineWriter is an http.ResponseWriter whose SetWriteDeadline takes long to end writes. A message
// that is being written fails earlier, because the client has disconnected.
type deadlineWriter struct {
	*httptest.ResponseRecorder
	using atomic.Int32 // number of calls of SetWriteDeadline that have not returned
}

func (w *deadlineWriter) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() && !t.After(time.Now()) {
		w.using.Add(1)
		defer w.using.Add(-1)
		time.Sleep(time.Minute)
	}
	return nil
}

func (w *deadlineWriter) Write(b []byte) (int, error) {
	if !strings.Contains(string(b), "event: message") {
		return w.ResponseRecorder.Write(b)
	}
	time.Sleep(10 * time.Second)
	return 0, errors.New("connection reset")
}

// Package http reuses the writer of a response after the handler has returned: over HTTP/2, its use
// would then end the process.
func TestClosedStreamDoesNotUseWriterAfterReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan transport.Conn, 1)
		h := sse.NewHandler(func(_ *http.Request, c transport.Conn) { conns <- c }, sse.HandlerOptions{Timeouts: sse.Timeouts{Flush: time.Second}})
		w := &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}
		done := make(chan int32)
		go func() { // ends with Close
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			done <- w.using.Load()
		}()
		c := <-conns
		if err := c.Write(t.Context(), transport.Message{Text: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		go c.Close() // ends with the stream
		if using := <-done; using != 0 {
			t.Error("the writer is still in use")
		}
		time.Sleep(time.Hour)
	})
}

// abortingWriter is an http.ResponseWriter of a wrapper that ends the request with a panic.
type abortingWriter struct{ *httptest.ResponseRecorder }

func (abortingWriter) Write([]byte) (int, error) { panic(http.ErrAbortHandler) }

func TestPanicOfWriterEndsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan transport.Conn, 1)
		h := sse.NewHandler(func(_ *http.Request, c transport.Conn) { conns <- c }, sse.HandlerOptions{})
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("the handler did not panic")
			}
			if _, err := (<-conns).Read(); !errors.Is(err, transport.ErrClosed) {
				t.Errorf("got %v, want %v", err, transport.ErrClosed)
			}
		}()
		h.ServeHTTP(abortingWriter{httptest.NewRecorder()}, httptest.NewRequest("GET", "/", nil))
	})
}

// An owner that closes a new connection at once, such as that of a server that has shut down, does
// not wait for the stream, which has not begun.
func TestConnectionClosedByItsOpenerIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sse.NewHandler(func(_ *http.Request, c transport.Conn) { c.Close() }, sse.HandlerOptions{Limits: sse.Limits{Streams: 1}})
		defer h.Close()
		for range 2 { // the first one leaves its place
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			if w.Code != http.StatusInternalServerError {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		}
	})
}

// Messages that wait until their session reads count for the limit of those that a principal sends.
func TestServerLimitsMessagesThatWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan transport.Conn, 1)
		h := sse.NewHandler(func(_ *http.Request, c transport.Conn) { conns <- c }, sse.HandlerOptions{
			Limits: sse.Limits{Message: 300 << 10, Queue: 1000}, Timeouts: sse.Timeouts{Stall: time.Minute}, KeepAlive: time.Hour,
			Access: sse.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get("X-From"), nil }},
		})
		stream := &slowWriter{ResponseRecorder: httptest.NewRecorder(), rate: 1 << 30}
		get := httptest.NewRequest("GET", "/", nil)
		get.Header.Set("X-From", "ann")
		go h.ServeHTTP(stream, get) // ends with Close
		c := <-conns
		time.Sleep(time.Second) // the endpoint is written
		_, to, _ := strings.Cut(stream.text(), "data: ")
		status := make(chan int, 10)
		for range 7 { // the first one is in the queue, and 1200 KiB have room for five more, apart from 64 KiB of each
			r := httptest.NewRequest("POST", strings.TrimSpace(to), strings.NewReader(strings.Repeat(" ", 290<<10)))
			r.Header = http.Header{"Content-Type": {"application/json"}, "X-From": {"ann"}}
			go func() { // ends when the message is accepted or rejected
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				status <- w.Code
			}()
			synctest.Wait()
		}
		if len(status) != 2 {
			t.Fatalf("%d messages are answered, want 2", len(status))
		}
		if first, last := <-status, <-status; first != http.StatusAccepted || last != http.StatusTooManyRequests {
			t.Errorf("status %d for a message with room, and %d for the last one", first, last)
		}
		for range 6 {
			if _, err := c.Read(); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			if got := <-status; got != http.StatusAccepted {
				t.Errorf("status %d for a message that waited", got)
			}
		}
		c.Close()
	})
}
