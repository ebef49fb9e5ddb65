package embedding

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// response returns a Stream, and the response that it writes.
func response() (*Stream, *httptest.ResponseRecorder) {
	w := httptest.NewRecorder()
	return NewStream(w), w
}

// sdkOpens sends the header of an event stream as SDKs do.
func sdkOpens(s *Stream) {
	s.Header().Set("Content-Type", "text/event-stream")
	s.WriteHeader(http.StatusOK)
}

const (
	sent = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{\"a\":1}}\n\n"
	ack  = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true}}}`
)

func TestStream(t *testing.T) {
	params := json.RawMessage(`{"a":1}`)
	for name, row := range map[string]struct {
		sdk  func(s *Stream) // calls of the SDK while a notification is sent
		want string          // of the response
		err  string          // of Send
	}{
		"between events": {func(s *Stream) {
			sdkOpens(s)
			s.Write([]byte(": ok\n\n"))
			time.Sleep(time.Second)
			s.Write([]byte("data: 1\n\n"))
		}, sent + ": ok\n\ndata: 1\n\n", ""},
		"not inside of an event": {func(s *Stream) {
			s.Header().Set("Content-Type", "text/event-stream")
			s.Write([]byte("data: 1\n"))
			go s.Send(context.Background(), "later", nil)
			time.Sleep(time.Second)
			s.Write([]byte("\n"))
		}, sent + "data: 1\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"later\"}\n\n", ""},
		"implicit header": {func(s *Stream) {
			s.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			s.Flush()
		}, sent, ""},
		"JSON": {func(s *Stream) {
			s.Header().Set("Content-Type", "application/json")
			s.Write([]byte(`{}`))
		}, "{}", "no event stream"},
		"error": {func(s *Stream) {
			s.Header().Set("Content-Type", "text/event-stream")
			s.WriteHeader(http.StatusBadRequest)
			s.Write([]byte(`no`))
		}, "no", "no event stream"},
		"nothing": {func(s *Stream) {}, "", "has ended"},
		"opened by us, then events": {func(s *Stream) {
			s.Header().Set("Content-Type", "text/event-stream")
			s.Open()
			time.Sleep(time.Second)
			s.WriteHeader(http.StatusOK)
			s.Write([]byte("data: 1\n\n"))
		}, sent + "data: 1\n\n", ""},
		"opened by us, then JSON": {func(s *Stream) {
			s.Open()
			s.Open()
			time.Sleep(time.Second)
			s.Header().Set("Content-Type", "application/json")
			s.Header().Set("Content-Length", "2")
			s.WriteHeader(http.StatusNotFound)
			s.Write([]byte("{\n\"a\":"))
			s.Write([]byte("1}\n"))
		}, sent + "event: message\ndata: {\ndata: \"a\":1}\n\n", ""},
		"after the acknowledgment": {func(s *Stream) {
			s.Acknowledge([]string{"x"})
			sdkOpens(s)
			s.Write([]byte(": ok\n\nid: 7\nda"))
			time.Sleep(time.Second)
			s.Write([]byte("ta: " + ack + "\nretry: 1\n\ndata: 2\n"))
			time.Sleep(time.Second)
			s.Write([]byte("\n"))
		}, ": ok\n\nid: 7\ndata: " + strings.Replace(ack, `true}`, `true,"taskIds":["x"]}`, 1) + "\nretry: 1\n\ndata: 2\n\n" + sent, ""},
		"without an acknowledgment": {func(s *Stream) {
			s.Acknowledge(nil)
			sdkOpens(s)
			s.Write([]byte("data: {\"id\":1,\"error\":{}}\n\n"))
		}, "data: {\"id\":1,\"error\":{}}\n\n" + sent, ""},
		"acknowledgment that never comes": {func(s *Stream) {
			s.Acknowledge(nil)
			sdkOpens(s)
			s.Write([]byte("data: {\"method\":\"x\"}\n\ndata: "))
		}, "data: {\"method\":\"x\"}\n\ndata: ", "has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := response()
				done := make(chan error, 1)
				go func() { done <- s.Send(t.Context(), "n", params) }()
				synctest.Wait()
				row.sdk(s)
				synctest.Wait()
				s.Close()
				s.Close()
				err := <-done
				if (err != nil) != (row.err != "") || err != nil && !strings.Contains(err.Error(), row.err) {
					t.Errorf("got error %v, want %q", err, row.err)
				}
				if got := w.Body.String(); got != row.want {
					t.Errorf("got %q, want %q", got, row.want)
				}
				if _, err := s.Write([]byte("x")); err == nil || w.Body.String() != row.want {
					t.Error("the response was written after its end")
				}
			})
		})
	}
}

// The acknowledgment of a subscription that the Engine serves opens the stream.
func TestStreamIsOpenedByAcknowledgment(t *testing.T) {
	s, w := response()
	if err := s.Send(t.Context(), "notifications/subscriptions/acknowledged", json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/event-stream" || !w.Flushed || !strings.Contains(w.Body.String(), "acknowledged") {
		t.Errorf("got %v", w)
	}
}

// blocked is a ResponseWriter of a client that does not read.
type blocked struct {
	http.ResponseWriter
	until chan struct{}
}

func (b *blocked) Write(p []byte) (int, error) {
	<-b.until
	return b.ResponseWriter.Write(p)
}

func TestSendEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &blocked{httptest.NewRecorder(), make(chan struct{})}
		s := NewStream(w)
		sdkOpens(s)
		for range 3 {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, context.Canceled)
			defer cancel()
			if err := s.Send(ctx, "n", nil); err != context.Canceled {
				t.Errorf("got %v", err)
			}
		}
		close(w.until)
		s.Close()
		if got := strings.Count(w.ResponseWriter.(*httptest.ResponseRecorder).Body.String(), "data:"); got != 1 {
			t.Errorf("%d events were written, want the one that had begun", got)
		}
	})
}

// Events that an SDK writes in parts, and events of Send between them, stay intact.
func FuzzStream(f *testing.F) {
	f.Add([]byte("data: 1\n\nid: 1\ndata: 2\n\n"), uint64(1), false)
	f.Add([]byte(": ok\n\ndata: "+ack+"\n\ndata: {\"id\":1}\n\n"), uint64(2), true)
	f.Add([]byte("data: {\"method\":\"notifications/subscriptions/acknowledged\"}\n\n"), uint64(3), true)
	f.Add([]byte("data: {\"a\":\"data: x\\n\\n\"}\n\n\n\n"), uint64(4), true)
	f.Fuzz(func(t *testing.T, text []byte, seed uint64, acknowledge bool) {
		text = append(bytes.Trim(text, "\n"), "\n\n"...)
		for bytes.Contains(text, []byte("\n\n\n")) {
			text = bytes.ReplaceAll(text, []byte("\n\n\n"), []byte("\n\n"))
		}
		random := rand.New(rand.NewPCG(seed, 0))
		synctest.Test(t, func(t *testing.T) {
			s, w := response()
			if acknowledge {
				s.Acknowledge([]string{"x"})
			}
			sdkOpens(s)
			sends := 0
			for rest := text; len(rest) > 0; {
				if random.IntN(3) == 0 {
					sends++
					go s.Send(t.Context(), "n", json.RawMessage(fmt.Sprintf(`{"sent":%d}`, sends)))
				}
				n := 1 + random.IntN(len(rest))
				if written, err := s.Write(rest[:n]); written != n || err != nil {
					t.Fatalf("wrote %d of %d bytes: %v", written, n, err)
				}
				rest = rest[n:]
				synctest.Wait()
			}
			pending := s.ids != nil
			s.Close()
			synctest.Wait()
			var others []byte
			got := 0
			for event := range strings.SplitAfterSeq(w.Body.String(), "\n\n") {
				if strings.HasPrefix(event, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{\"sent\":") {
					got++
					continue
				}
				others = append(others, event...)
			}
			if !pending && got != sends {
				t.Errorf("%q: %d of %d events were sent", w.Body, got, sends)
			}
			if !acknowledge && !bytes.Equal(others, text) {
				t.Errorf("got %q, want %q", others, text)
			}
			if acknowledge && !bytes.Contains(text, []byte("acknowledged")) && !bytes.Contains(text, []byte("\\")) && !bytes.Equal(others, text) {
				t.Errorf("got %q, want %q", others, text)
			}
		})
	})
}
