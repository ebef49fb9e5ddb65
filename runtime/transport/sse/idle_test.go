package sse_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
)

// deadlineRecorder is a ResponseWriter that records the write deadline.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	mu       sync.Mutex
	deadline time.Time
}

func (w *deadlineRecorder) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return nil
}

func (w *deadlineRecorder) writeDeadline() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deadline
}

// HTTP/2 resets a stream when its write deadline passes, even if nothing is being written.
func TestIdleStreamHasNoWriteDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sse.NewHandler(func(*http.Request, transport.Conn) {}, sse.HandlerOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
		done := make(chan struct{})
		go func() { // ends with ctx
			defer close(done)
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		}()
		for range 3 {
			synctest.Wait()
			if deadline := w.writeDeadline(); !deadline.IsZero() {
				t.Errorf("an idle stream has the write deadline %v", deadline)
			}
			time.Sleep(time.Minute) // includes keep-alive comments
		}
		cancel()
		<-done
	})
}
