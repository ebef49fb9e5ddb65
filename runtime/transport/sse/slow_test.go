package sse_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
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
	deadline time.Time
}

func (w *slowWriter) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	return nil
}

func (w *slowWriter) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(len(b)) * time.Second / time.Duration(w.rate))
	if !w.deadline.IsZero() && time.Now().After(w.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return w.ResponseRecorder.Write(b)
}

// A message that takes longer than StallTimeout to send is not a stall while bytes are accepted.
// Later messages wait for it.
func TestSlowStreamReceivesAllMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan transport.Conn, 1)
		h := sse.NewHandler(func(_ *http.Request, c transport.Conn) { conns <- c },
			sse.HandlerOptions{StallTimeout: 5 * time.Second, MaxQueue: 1000, KeepAlive: time.Hour, FlushTimeout: time.Hour})
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
			if !strings.Contains(w.Body.String(), "data: "+text+"\n") {
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
