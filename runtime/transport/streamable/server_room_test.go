package streamable_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// logLength is the length in bytes of the messages of serveLogs.
const logLength = 100 << 10

// serveLogs serves calls whose handlers each send one long message during the call, named after the
// tool. The returned channel receives the errors of Notify. The context of the tool "timeout" ends
// after one second.
func serveLogs(t *testing.T, o streamable.HandlerOptions) (*testServer, chan error) {
	t.Helper()
	sent := make(chan error, 100)
	tools := newTools()
	tools.configure = func(cfg *session.Options) {
		cfg.Handler = func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.Method != "tools/call" {
				return nil, nil
			}
			var p mcp.CallToolRequestParams
			if err := codec.Unmarshal(req.Params, &p); err != nil {
				return nil, err
			}
			if p.Name == "timeout" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Second)
				defer cancel()
			}
			peer, _ := session.PeerFrom(ctx)
			sent <- peer.Notify(ctx, "notifications/message", &mcp.LoggingMessageNotificationParams{
				Level: "info", Data: []byte(`"` + p.Name + strings.Repeat("x", logLength) + `"`),
			})
			return nil, nil
		}
	}
	o.Streams.After = -1
	o.Limits.Queue = logLength * 5 / 2
	return serveOver(t, o, tools, plain), sent
}

// logsOf returns the names of the tools whose messages are on a stream.
func logsOf(stream *events) (names []string) {
	for _, m := range stream.messages() {
		if _, rest, ok := strings.Cut(m, `"data":"`); ok {
			names = append(names, strings.TrimRight(strings.Split(rest, `"`)[0], "x"))
		}
	}
	return names
}

// Messages during calls wait for room before they are queued for a connection. The limit applies to
// all connections of a session together.
func TestMessagesDuringCallsWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sent := serveLogs(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		var streams []*events
		for n := range 20 {
			streams = append(streams, s.events("POST", call(n+1, "a"), "MCP-Session-Id", id))
		}
		synctest.Wait()
		if n := len(sent); n != 2 {
			t.Errorf("%d messages have room, want 2", n)
		}
		var reading sync.WaitGroup
		for i, stream := range streams {
			reading.Go(func() {
				if diff := cmp.Diff([]string{"a"}, logsOf(stream)); diff != "" {
					t.Errorf("stream %d (-want +got):\n%s", i, diff)
				}
			})
		}
		reading.Wait()
		for range streams {
			if err := <-sent; err != nil {
				t.Error(err)
			}
		}
	})
}

// If no other message is pending, a message of any length has room.
func TestMessageMayExceedMaxQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Limits: streamable.Limits{Queue: 10}, Streams: streamable.Streams{After: -1}})
		id := s.openSession(initialize)
		want := []string{progress(1, 1), progress(1, 2), progress(1, 3), progress(1, 4), progress(1, 5), result(1)}
		if diff := cmp.Diff(want, s.events("POST", call(1, "progress"), "MCP-Session-Id", id).messages()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Messages that wait for room on one stream keep their order.
func TestWaitingMessagesKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sent := serveLogs(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		standing := s.events("GET", "", "MCP-Session-Id", id)
		var want []string
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			data := name
			if name != "e" { // the short message "e" would have room before others
				data += strings.Repeat("x", logLength)
			}
			go func() { // ends when the message has room
				sent <- s.tools.last().Notify(context.Background(), "notifications/message",
					&mcp.LoggingMessageNotificationParams{Level: "info", Data: []byte(`"` + data + `"`)})
			}()
			synctest.Wait()
			want = append(want, name)
		}
		if n := len(sent); n != 2 {
			t.Errorf("%d messages have room, want 2", n)
		}
		var got []string
		for range want {
			_, rest, _ := strings.Cut(standing.message(), `"data":"`)
			got = append(got, strings.TrimRight(strings.Split(rest, `"`)[0], "x"))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for range want {
			if err := <-sent; err != nil {
				t.Error(err)
			}
		}
	})
}

// noDeadlineWriter is an http.ResponseWriter without support for write deadlines.
type noDeadlineWriter struct{ w http.ResponseWriter }

func (u noDeadlineWriter) Header() http.Header         { return u.w.Header() }
func (u noDeadlineWriter) WriteHeader(status int)      { u.w.WriteHeader(status) }
func (u noDeadlineWriter) Write(b []byte) (int, error) { return u.w.Write(b) }
func (u noDeadlineWriter) Flush()                      { u.w.(http.Flusher).Flush() }

// A message stops waiting for room when its call or its session ends, or if the client accepts no
// data.
func TestWaitForRoomEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		tool string
		end  func(s *testServer, id string)
		want error
	}{
		{"context ended", "timeout", func(*testServer, string) { time.Sleep(time.Second) }, context.DeadlineExceeded},
		{"session ended", "a", func(s *testServer, id string) { s.status("DELETE", "", "MCP-Session-Id", id) }, session.ErrClosed},
		{"client stalled", "a", func(*testServer, string) { time.Sleep(10 * time.Second) }, transport.ErrStalled},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, sent := serveLogs(t, streamable.HandlerOptions{Timeouts: streamable.Timeouts{Stall: 10 * time.Second}})
				s.wrap = func(w http.ResponseWriter) http.ResponseWriter { return noDeadlineWriter{w} }
				id := s.openSession(initialize)
				for i, tool := range []string{"a", "a", test.tool} {
					s.events("POST", call(i+1, tool), "MCP-Session-Id", id)
					synctest.Wait()
				}
				for range 2 {
					if err := <-sent; err != nil {
						t.Error(err)
					}
				}
				if len(sent) > 0 {
					t.Fatal("the third message does not wait")
				}
				test.end(s, id)
				synctest.Wait()
				select {
				case err := <-sent:
					if !errors.Is(err, test.want) {
						t.Errorf("the error is %v, want %v", err, test.want)
					}
				default:
					t.Error("the message still waits")
				}
			})
		})
	}
}

// A message that follows the answer to its request does not wait for the stream of the batch, which
// the client may have stopped reading.
func TestMessageAfterAnswerDoesNotWaitForItsBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := newTools()
		sent := make(chan time.Duration, 1)
		tools.configure = func(cfg *session.Options) {
			cfg.Handler = func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				switch {
				case req.Method != "tools/call":
				case strings.Contains(string(req.Params), `"long"`):
					peer, _ := session.PeerFrom(ctx)
					for range 3 {
						peer.Notify(ctx, "notifications/message", &mcp.LoggingMessageNotificationParams{Level: "info", Data: []byte(`"` + strings.Repeat("x", logLength) + `"`)})
					}
				default:
					go func() { // ends once the message is sent
						time.Sleep(time.Second)
						start := time.Now()
						req.Session.Notify(context.WithoutCancel(ctx), "notifications/message", &mcp.LoggingMessageNotificationParams{Level: "info", Data: []byte(`"late"`)})
						sent <- time.Since(start)
					}()
				}
				return nil, nil
			}
		}
		s := serveOver(t, streamable.HandlerOptions{Limits: streamable.Limits{Queue: logLength * 5 / 2}, Streams: streamable.Streams{After: -1}}, tools, plain)
		id := s.openSession(initializeOld)
		s.do("POST", "["+call(1, "long")+","+call(2, "late")+"]", "MCP-Session-Id", id) // not read
		if d := <-sent; d > 0 {
			t.Errorf("the message has waited for %v", d)
		}
	})
}
