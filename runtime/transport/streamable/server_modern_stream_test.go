package streamable_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// respond serves modern requests with a handler until the test ends.
func respond(t *testing.T, o streamable.HandlerOptions, network func(net.Listener) net.Listener, handler session.Handler) (*testServer, responder) {
	t.Helper()
	responder := newResponder(&session.Options{Handler: handler, Limits: session.Limits{ProgressInterval: -1}})
	o.Responder = responder
	s := serveOver(t, o, newTools(), network)
	t.Cleanup(func() { responder.Close() })
	return s, responder
}

// A handler that calls runtime.Goexit ends the goroutine of package http, and so the connection. The
// client gets an answer before.
func TestModernHandlerCallsGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := respond(t, streamable.HandlerOptions{Logger: slog.New(slog.DiscardHandler)}, plain, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.Method == "custom/stream" {
				peer, _ := session.PeerFrom(ctx)
				peer.Notify(ctx, "custom/event", nil)
			}
			runtime.Goexit()
			return nil, nil
		})
		for _, method := range []string{"custom/json", "custom/stream"} {
			response := s.do("POST", modernRequest(1, method), methodHeader(method)...)
			text, _ := io.ReadAll(response.Body) // a stream ends without its last chunk
			if response.StatusCode != 200 || !strings.Contains(string(text), `"id":1,"error":{"code":-32603`) {
				t.Errorf("%s: %d %s", method, response.StatusCode, text)
			}
		}
	})
}

// The first notification makes the response a stream, which ends with the answer.
func TestModernStream(t *testing.T) {
	// Proves M-SSE-01, M-SSE-02, M-SSE-03, M-PROG-02, M-PROG-04, M-HTTP-07.
	synctest.Test(t, func(t *testing.T) {
		s := serveModern(t, streamable.HandlerOptions{})
		response := s.do("POST", modernCall(4, "progress"), callHeader("progress")...)
		text, err := io.ReadAll(response.Body)
		want := ""
		for i := range 5 {
			want += "data: " + progress(4, i+1) + "\n\n"
		}
		if want += "data: " + result(4) + "\n\n"; string(text) != want || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(want, string(text)))
		}
		for name, want := range map[string]string{
			"Content-Type": "text/event-stream", "X-Accel-Buffering": "no", "Cache-Control": "no-cache, no-transform", "Mcp-Session-Id": "",
		} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
}

// A request that takes long becomes a stream, too, so that comments keep its connection open.
func TestSlowModernRequestBecomesStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, after := range []time.Duration{0, time.Second, -1} {
			want := max(after, 0)
			if after <= 0 {
				want = streamable.DefaultStreamAfter
			}
			s := serveModern(t, streamable.HandlerOptions{Streams: streamable.Streams{After: after, KeepAlive: 10 * time.Second}})
			start := time.Now()
			time.AfterFunc(25*time.Second, func() { close(s.tools.release) })
			response := s.do("POST", modernCall(1, "wait"), callHeader("wait")...)
			if d := time.Since(start); d != want {
				t.Errorf("with %v, the stream begins after %v", after, d)
			}
			got := ""
			b := make([]byte, 1<<10)
			for err := error(nil); err == nil; {
				var n int
				n, err = response.Body.Read(b)
				if got += string(b[:n]); n > 0 {
					got += fmt.Sprint(time.Since(start), "\n")
				}
			}
			if want := fmt.Sprintf(": \n\n%v\n: \n\n%v\ndata: %s\n\n25s\n", want+10*time.Second, want+20*time.Second, result(1)); got != want {
				t.Errorf("with %v: (-want +got):\n%s", after, cmp.Diff(want, got))
			}
		}
	})
}

// Notifications restart the time until the next comment. Without KeepAlive there are no comments.
func TestCommentsOfModernStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for keepAlive, want := range map[time.Duration]int{800 * time.Millisecond: 5, 1200 * time.Millisecond: 0, -1: 0} {
			s := serveModern(t, streamable.HandlerOptions{Streams: streamable.Streams{KeepAlive: keepAlive, After: 100 * time.Millisecond}})
			response := s.do("POST", modernCall(1, "slow"), callHeader("slow")...)
			text, err := io.ReadAll(response.Body)
			if got := strings.Count(string(text), ": \n\n"); got != want || err != nil {
				t.Errorf("with %v: %d comments, %v", keepAlive, got, err)
			}
		}
	})
}

// The end of the connection cancels a modern request, and nothing is sent after it. A request of a
// session continues.
func TestDisconnectCancelsModernRequest(t *testing.T) {
	// Proves M-CANC-01, M-CANC-03, M-CANC-04, M-ERA-08.
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		s, _ := respond(t, streamable.HandlerOptions{}, plain, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			peer, _ := session.PeerFrom(ctx)
			if req.Method == "custom/stream" {
				peer.Report(session.Progress{Value: 1})
			}
			<-ctx.Done()
			failed <- peer.Notify(ctx, "custom/event", nil)
			return nil, context.Cause(ctx)
		})
		for _, method := range []string{"custom/stream", "custom/json", "custom/late"} {
			ctx, cancel := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, "POST", "http://localhost/mcp", strings.NewReader(modernRequest(1, method)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Method": {method}, "Mcp-Protocol-Version": {"2026-07-28"}}
			go func() { // ends when the request is cancelled
				response, err := s.http.Do(r)
				if err == nil {
					io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
			}()
			synctest.Wait()
			if method == "custom/late" {
				time.Sleep(time.Second)
			}
			start := time.Now()
			cancel()
			if err := <-failed; err == nil || time.Since(start) > 0 {
				t.Errorf("%s: a notification after %v: %v", method, time.Since(start), err)
			}
			synctest.Wait()
		}
	})
	synctest.Test(t, func(t *testing.T) { // a session
		s := serveModern(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		stream := s.events("POST", call(1, "wait"), "MCP-Session-Id", id)
		if _, err := stream.next(); err != nil {
			t.Fatal(err)
		}
		stream.body.Close()
		time.Sleep(time.Minute)
		close(s.tools.release)
		if got := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", stream.id).messages(); len(got) != 1 || got[0] != result(1) {
			t.Errorf("the session receives %q", got)
		}
	})
}

// A client that does not read blocks only its own request, whose notifications fail after
// Timeouts.Stall. The request is then cancelled.
func TestStalledModernStream(t *testing.T) {
	for name, read := range map[string]bool{"sends": true, "waits": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, stopped := make(chan time.Duration, 1), make(chan time.Duration, 1)
				s, _ := respond(t, streamable.HandlerOptions{Timeouts: streamable.Timeouts{Stall: 5 * time.Second}, Streams: streamable.Streams{KeepAlive: time.Second}}, plain, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
					if req.Method != "custom/stream" {
						return session.Raw("{}"), nil
					}
					peer, _ := session.PeerFrom(ctx)
					start := time.Now()
					for i := 0; ; i++ {
						if err := peer.Notify(ctx, "custom/event", session.Raw(`{"text":"`+strings.Repeat("x", 1000)+`"}`)); err != nil {
							began <- time.Since(start)
							break
						}
						if i == 2 && !read { // comments continue to fill the connection
							began <- 0
							break
						}
					}
					<-ctx.Done()
					stopped <- time.Since(start)
					return nil, context.Cause(ctx)
				})
				s.do("POST", modernRequest(1, "custom/stream"), methodHeader("custom/stream")...) // never read
				if got := s.text(modernRequest(2, "custom/other"), methodHeader("custom/other")...); !strings.Contains(got, `"result":{}`) {
					t.Errorf("another request: %s", got)
				}
				if d := <-began; read && d != 5*time.Second {
					t.Errorf("the notification fails after %v", d)
				}
				if d := <-stopped; d > 20*time.Minute || d < 5*time.Second {
					t.Errorf("the request is cancelled after %v", d)
				}
			})
		})
	}
}

// A notification that the client does not read fails soon after its context has ended.
func TestModernNotificationEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := make(chan time.Duration, 1)
		s, _ := respond(t, streamable.HandlerOptions{Timeouts: streamable.Timeouts{Stall: time.Hour}}, plain, func(ctx context.Context, _ *session.Request) (codec.Encoder, error) {
			limited, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			peer, _ := session.PeerFrom(ctx)
			start := time.Now()
			if err := peer.Notify(limited, "custom/event", session.Raw(`{"text":"`+strings.Repeat("x", 100<<10)+`"}`)); err == nil {
				t.Error("a notification was sent")
			}
			took <- time.Since(start)
			return nil, nil
		})
		s.do("POST", modernRequest(1, "custom/stream"), methodHeader("custom/stream")...) // never read
		if d := <-took; d < 10*time.Second || d > 12*time.Second {
			t.Errorf("it fails after %v", d)
		}
	})
}

// A large answer may take any time over a slow connection, and so may a large notification.
func TestSlowConnectionReceivesLargeModernAnswer(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream %v", stream), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				long := session.Raw(`{"text":"` + strings.Repeat("x", 400<<10) + `"}`)
				s, _ := respond(t, streamable.HandlerOptions{Streams: streamable.Streams{After: time.Hour}, Timeouts: streamable.Timeouts{Stall: 5 * time.Second}},
					func(l net.Listener) net.Listener { return slowListener{l, 20 << 10} },
					func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
						if stream {
							peer, _ := session.PeerFrom(ctx)
							if err := peer.Notify(ctx, "custom/event", long); err != nil {
								return nil, err
							}
						}
						return long, nil
					})
				start := time.Now()
				response := s.do("POST", modernRequest(1, "custom/long"), methodHeader("custom/long")...)
				text, err := io.ReadAll(response.Body)
				want, least := 1, 20*time.Second
				if stream {
					want, least = 2, 40*time.Second
				}
				if got := strings.Count(string(text), string(long)); got != want || err != nil {
					t.Errorf("%d messages in %d bytes, %v", got, len(text), err)
				}
				if d := time.Since(start); d < least {
					t.Errorf("the connection was not slow: %v", d)
				}
			})
		})
	}
}

// Without the method Flush, all messages arrive with the answer.
func TestModernStreamWithoutFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveModern(t, streamable.HandlerOptions{Logger: slog.New(slog.DiscardHandler)})
		s.wrap = func(w http.ResponseWriter) http.ResponseWriter { return noFlushWriter{w} }
		if got := s.events("POST", modernCall(1, "slow"), callHeader("slow")...).messages(); len(got) != 6 || got[5] != result(1) {
			t.Errorf("%q", got)
		}
	})
}

// waitingFor returns a Handler that reports progress once for the method custom/stream, and waits
// for its release or the end of its context. With yields, it then returns a result.
func waitingFor(release chan struct{}, started chan struct{}, yields bool) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		peer, _ := session.PeerFrom(ctx)
		if req.Method == "custom/stream" {
			peer.Report(session.Progress{Value: 1})
		}
		if yields {
			req.Internals(boundary.Caller{}).EndOnShutdown()
		}
		started <- struct{}{}
		select {
		case <-release:
			return session.Raw(`{"released":true}`), nil
		case <-ctx.Done():
			if yields {
				return session.Raw(`{"ended":true}`), nil
			}
			return nil, ctx.Err()
		}
	}
}

// lastMessage returns the last message of a response.
func lastMessage(t *testing.T, response *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.TrimPrefix(lines[len(lines)-1], "data: ")
}

// Shutdown waits for modern requests. If its context ends first, they are answered with an error.
func TestShutdownWithModernRequests(t *testing.T) {
	for name, test := range map[string]struct {
		released, yields, first bool // first: the Responder is shut down before the handler
		err                     error
		want                    string
	}{
		"released":             {released: true, want: `"result":{"released":true}`},
		"released, Responder":  {released: true, first: true, want: `"result":{"released":true}`},
		"abandoned":            {err: context.DeadlineExceeded, want: `"error":{"code":-31051,`},
		"abandoned, Responder": {first: true, err: context.DeadlineExceeded, want: `"error":{"code":-31051,`},
		"yields":               {yields: true, err: context.DeadlineExceeded, want: `"error":{"code":-31051,`},
		"yields, Responder":    {yields: true, first: true, want: `"result":{"ended":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release, started := make(chan struct{}), make(chan struct{}, 2)
				s, responder := respond(t, streamable.HandlerOptions{Streams: streamable.Streams{After: time.Hour}}, plain, waitingFor(release, started, test.yields))
				answers := make(chan string, 2)
				for _, method := range []string{"custom/json", "custom/stream"} {
					go func() { // ends with the response
						answers <- lastMessage(t, s.do("POST", modernRequest(1, method), methodHeader(method)...))
					}()
					<-started
				}
				if test.released {
					time.AfterFunc(5*time.Second, func() { close(release) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				s.handler.Drain()
				done := make(chan error, 1)
				go func() { // ends with the requests
					var err error
					if test.first {
						err = responder.Shutdown(ctx)
					}
					if e := s.handler.Shutdown(ctx); err == nil {
						err = e
					}
					done <- err
				}()
				synctest.Wait()
				response := s.do("POST", modernRequest(2, "custom/json"), methodHeader("custom/json")...)
				if text := lastMessage(t, response); response.StatusCode != 503 || response.Header.Get("Retry-After") != "1" || !strings.Contains(text, `-31051`) {
					t.Errorf("another request: %d %v %s", response.StatusCode, response.Header, text)
				}
				if err := <-done; err != test.err {
					t.Errorf("the error is %v", err)
				}
				for range 2 {
					if got := <-answers; !strings.Contains(got, `"id":1,`+test.want) {
						t.Errorf("the answer is %s", got)
					}
				}
			})
		})
	}
}

// Close answers modern requests with an error at once, also of handlers that ignore their context,
// and interrupts writes to clients that do not read.
func TestCloseWithModernRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, started := make(chan struct{}), make(chan struct{}, 3)
		s, _ := respond(t, streamable.HandlerOptions{Timeouts: streamable.Timeouts{Stall: time.Hour}, Streams: streamable.Streams{After: time.Hour}}, plain, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			started <- struct{}{}
			switch req.Method {
			case "custom/deaf":
				<-release
			case "custom/stalled":
				peer, _ := session.PeerFrom(ctx)
				err := peer.Notify(ctx, "custom/event", session.Raw(`{"text":"`+strings.Repeat("x", 100<<10)+`"}`))
				if err == nil {
					t.Error("a notification was sent")
				}
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		answers := make(chan string, 2)
		for _, method := range []string{"custom/json", "custom/deaf"} {
			go func() { // ends with the response
				response := s.do("POST", modernRequest(1, method), methodHeader(method)...)
				text, err := io.ReadAll(response.Body)
				if err != nil {
					t.Error(err)
				}
				answers <- fmt.Sprint(response.StatusCode, response.Header.Get("Retry-After"), string(text))
			}()
		}
		s.do("POST", modernRequest(1, "custom/stalled"), methodHeader("custom/stalled")...) // never read
		for range 3 {
			<-started
		}
		synctest.Wait()
		start := time.Now()
		s.handler.Close()
		if d := time.Since(start); d != time.Second {
			t.Errorf("Close took %v", d)
		}
		for range 2 {
			if got := <-answers; !strings.Contains(got, `"id":1,"error":{"code":-31051,`) || !strings.HasPrefix(got, "5031") {
				t.Errorf("the answer is %s", got)
			}
		}
		close(release)
	})
}
