package streamable_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// listChanged is a message that the server sends on the standing stream.
const listChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

func (s *testServer) changeList() {
	s.t.Helper()
	if err := s.tools.last().Notify(testContext(s.t), "notifications/tools/list_changed", nil); err != nil {
		s.t.Error(err)
	}
}

// Proves HTTP-13, HTTP-16, HTTP-18, HTTP-19, HTTP-21, HTTP-33 and HTTP-34.
func TestStreamHasEventIDsAndRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Streams: streamable.Streams{Retry: 1500 * time.Millisecond}})
		id := s.openSession(initialize)
		seen := map[string]bool{}
		for n := range 3 {
			stream := s.events("POST", call(n, "progress"), "MCP-Session-Id", id)
			first, err := stream.next()
			if err != nil || first.ID == "" || first.Data == nil || len(first.Data) > 0 || first.Retry != 1500*time.Millisecond {
				t.Errorf("the first event is %+v, %v", first, err)
			}
			name, _, _ := strings.Cut(first.ID, "-")
			want := []string{progress(n, 1), progress(n, 2), progress(n, 3), progress(n, 4), progress(n, 5), result(n)}
			for i := range want {
				seen[stream.id] = true
				event, err := stream.next()
				if err != nil || string(event.Data) != want[i] || !strings.HasPrefix(event.ID, name+"-") {
					t.Errorf("event %d is %q with id %s, %v", i, event.Data, event.ID, err)
				}
			}
			seen[stream.id] = true
			if _, err := stream.next(); err != io.EOF {
				t.Errorf("after the answer: %v", err)
			}
		}
		if len(seen) != 3*7 {
			t.Errorf("%d ids, want %d", len(seen), 3*7)
		}
	})
}

// Proves LIFE-12.
func TestStreamForOlderClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initializeOld)
		stream := s.events("POST", call(1, "progress"), "MCP-Session-Id", id)
		first, err := stream.next()
		if err != nil || first.Data != nil || first.ID != "" || first.Retry == 0 {
			t.Errorf("the first event is %+v, %v", first, err)
		}
		if second, err := stream.next(); err != nil || string(second.Data) != progress(1, 1) || second.ID == "" {
			t.Errorf("the second event is %+v, %v", second, err)
		}
		batch := s.events("POST", "["+call(2, "echo")+","+initialized+","+call(3, "echo")+"]", "MCP-Session-Id", id)
		got := batch.messages()
		if len(got) != 2 || got[0] != result(2) && got[0] != result(3) || got[1] != result(2) && got[1] != result(3) || got[0] == got[1] {
			t.Errorf("a batch is answered with %q", got)
		}
		if status := s.status("POST", "["+initialized+","+initialized+"]", "MCP-Session-Id", id); status != 202 {
			t.Errorf("a batch without requests: %d", status)
		}
		if text := s.text(call(4, "poll"), "MCP-Session-Id", id); !strings.Contains(text, "not disconnected") {
			t.Errorf("a client that cannot resume the stream: %s", text)
		}
	})
}

// Proves HTTP-20, HTTP-26, HTTP-27, HTTP-30 and HTTP-31.
func TestMessagesAreSentOnTheirStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		standing := s.events("GET", "", "MCP-Session-Id", id)
		var streams []*events
		for n := range 3 {
			streams = append(streams, s.events("POST", call(n, "wait"), "MCP-Session-Id", id))
			<-s.tools.started
		}
		if text := s.events("POST", call(3, "log"), "MCP-Session-Id", id).messages(); len(text) != 4 {
			t.Errorf("a stream with log messages: %q", text)
		}
		for range 2 {
			s.changeList()
		}
		close(s.tools.release)
		for n, stream := range streams {
			if diff := cmp.Diff([]string{result(n)}, stream.messages()); diff != "" {
				t.Errorf("stream %d (-want +got):\n%s", n, diff)
			}
		}
		go s.status("DELETE", "", "MCP-Session-Id", id) // ends with the session
		if diff := cmp.Diff([]string{listChanged, listChanged}, standing.messages()); diff != "" {
			t.Errorf("the standing stream (-want +got):\n%s", diff)
		}
		synctest.Wait()
	})
}

// An input request is sent on the stream of the request that is being served.
func TestInputRequestIsSentOnStreamOfRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		stream := s.events("POST", call(1, "sample"), "MCP-Session-Id", id)
		if got := stream.message(); !strings.Contains(got, "sampling/createMessage") {
			t.Errorf("the input request is %s", got)
		}
		if got := s.status("POST", `{"jsonrpc":"2.0","id":1,"result":{"model":"m"}}`, "MCP-Session-Id", id); got != 202 {
			t.Errorf("the POST of the answer has status %d", got)
		}
		if got := stream.messages(); len(got) != 1 || !strings.Contains(got[0], `{\"model\":\"m\"}`) {
			t.Errorf("the result is %s", got)
		}
	})
}

// Proves HTTP-22, HTTP-32, HTTP-36 and HTTP-37.
func TestServerResumesStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		ids := map[int][]string{} // event ids of each stream
		for n := range 2 {
			stream := s.events("POST", call(n, "progress"), "MCP-Session-Id", id)
			for {
				if _, err := stream.next(); err != nil {
					break
				}
				ids[n] = append(ids[n], stream.id)
			}
		}
		for n := range 2 {
			want := []string{progress(n, 1), progress(n, 2), progress(n, 3), progress(n, 4), progress(n, 5), result(n)}
			for i, last := range ids[n] {
				stream := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", last)
				if diff := cmp.Diff(want[i:], append([]string{}, stream.messages()...)); diff != "" {
					t.Errorf("after %s (-want +got):\n%s", last, diff)
				}
			}
		}

		// A stream that is not complete.
		stream := s.events("POST", call(2, "wait"), "MCP-Session-Id", id)
		<-s.tools.started
		if _, err := stream.next(); err != nil {
			t.Fatal(err)
		}
		stream.body.Close()
		for range 3 { // each connection breaks again
			again := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", stream.id)
			again.body.Close()
		}
		again := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", stream.id)
		s.changeList() // an event of another stream
		close(s.tools.release)
		if diff := cmp.Diff([]string{result(2)}, again.messages()); diff != "" {
			t.Errorf("the resumed stream (-want +got):\n%s", diff)
		}
		select {
		case err := <-s.tools.stopped:
			t.Errorf("cancelled: %v", err)
		default:
		}
	})
}

// Proves HTTP-28.
func TestStandingStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		s.changeList() // before a client listens
		first := s.events("GET", "", "MCP-Session-Id", id)
		if got := first.message(); got != listChanged {
			t.Errorf("the event sent before the stream was opened: %s", got)
		}
		s.changeList()
		synctest.Wait()                                     // until the event is sent
		second := s.events("GET", "", "MCP-Session-Id", id) // replaces the first connection
		if got := first.messages(); len(got) != 1 {
			t.Errorf("the first connection receives %q", got)
		}
		synctest.Wait()
		s.changeList()
		if got := second.message(); got != listChanged {
			t.Errorf("the second connection receives %s", got)
		}
		last := second.id
		second.body.Close()
		synctest.Wait()
		if got := s.text(call(1, "echo"), "MCP-Session-Id", id); got != result(1) {
			t.Errorf("a call after the disconnect: %s", got)
		}
		s.changeList()
		s.changeList()
		third := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", last)
		for i := range 2 {
			if got := third.message(); got != listChanged {
				t.Errorf("missed message %d: %s", i, got)
			}
		}
		third.body.Close()
		synctest.Wait()
		fourth := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", third.id)
		s.changeList()
		if got := fourth.message(); got != listChanged {
			t.Errorf("the next message: %s", got)
		}
	})
}

// Proves HTTP-14, HTTP-16 and HTTP-29.
func TestServerEndsConnectionsWithRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Streams: streamable.Streams{MaxConnection: 10 * time.Second, Retry: 3 * time.Second}})
		id := s.openSession(initialize)
		stream := s.events("POST", call(1, "poll"), "MCP-Session-Id", id)
		<-s.tools.started
		checkDisconnect(t, stream)
		again := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", stream.id)
		start := time.Now()
		checkDisconnect(t, again)
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("held for %v", d)
		}
		close(s.tools.release)
		last := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", stream.id)
		if diff := cmp.Diff([]string{result(1)}, last.messages()); diff != "" {
			t.Errorf("in the end (-want +got):\n%s", diff)
		}
		standing := s.events("GET", "", "MCP-Session-Id", id)
		checkDisconnect(t, standing)
		s.changeList()
		if got := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", standing.id).message(); got != listChanged {
			t.Errorf("the next message of the standing stream: %s", got)
		}
	})
}

// checkDisconnect checks that a connection ends with a retry, and sends no message before it.
func checkDisconnect(t *testing.T, e *events) {
	t.Helper()
	retry := time.Duration(0)
	for {
		event, err := e.next()
		if err != nil {
			if err != io.EOF || retry != 3*time.Second {
				t.Errorf("retry %v, %v", retry, err)
			}
			return
		}
		if len(event.Data) > 0 {
			t.Errorf("event %q", event.Data)
		}
		if retry = event.Retry; e.id == "" {
			t.Error("the connection has no event id")
		}
	}
}

func TestIdleConnectionGetsComments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Streams: streamable.Streams{KeepAlive: 10 * time.Second}})
		response := s.do("GET", "", "MCP-Session-Id", s.openSession(initialize))
		b := make([]byte, 1<<10)
		response.Body.Read(b) // the first event
		for range 3 {
			start := time.Now()
			n, err := response.Body.Read(b)
			if err != nil || string(b[:n]) != ": \n\n" || time.Since(start) != 10*time.Second {
				t.Errorf("after %v: %q, %v", time.Since(start), b[:n], err)
			}
		}
	})
}

// A client without a standing stream is not pinged, and its session continues.
func TestOnlyClientsWithStandingStreamArePinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := newTools()
		tools.configure = func(cfg *session.Options) { cfg.Timeouts.KeepAlive = 10 * time.Second }
		s := serveOver(t, streamable.HandlerOptions{}, tools, func(l net.Listener) net.Listener { return l })
		id := s.openSession(initialize)
		time.Sleep(time.Minute)
		if got := s.status("POST", call(1, "echo"), "MCP-Session-Id", id); got != http.StatusOK {
			t.Errorf("after a minute: %d", got)
		}
		messages := s.events("GET", "", "MCP-Session-Id", id).messages() // until the session ends
		if len(messages) == 0 || messages[0] != `{"jsonrpc":"2.0","id":1,"method":"ping"}` {
			t.Errorf("messages %q", messages)
		}
		if err := tools.last().Wait(); err != session.ErrUnresponsive {
			t.Errorf("the session ends with %v", err)
		}
	})
}

// The session answers requests with very long ids without an id. Such an answer belongs to no stream.
func TestRequestWithLongIDIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		session := s.openSession(initialize)
		for _, id := range []string{`"` + strings.Repeat("x", 1025) + `"`, strings.Repeat("1", 1025)} {
			if got := s.status("POST", `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/list"}`, "MCP-Session-Id", session); got != http.StatusBadRequest {
				t.Errorf("status %d", got)
			}
		}
	})
}

func TestCancelledRequestEndsItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		for n, streamed := range []bool{true, false} {
			cancel := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, n)
			done := make(chan []string)
			go func() { // ends with the stream
				done <- s.events("POST", call(n, "wait"), "MCP-Session-Id", id).messages()
			}()
			<-s.tools.started
			if streamed {
				time.Sleep(time.Second)
			}
			if got := s.status("POST", cancel, "MCP-Session-Id", id); got != 202 {
				t.Errorf("cancel: %d", got)
			}
			if got := <-done; len(got) > 0 {
				t.Errorf("the stream has the messages %q", got)
			}
			<-s.tools.stopped
		}
	})
}

// A client may stop reading the stream of a request that it has cancelled. The stream therefore
// ends at once, and later messages of the handler are sent on the standing stream.
func TestMessagesAfterCancellationUseStandingStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := newTools()
		finish := make(chan bool)
		log := func(ctx context.Context, text string) {
			peer, _ := session.PeerFrom(ctx)
			err := peer.Notify(context.WithoutCancel(ctx), "notifications/message", &mcp.LoggingMessageNotificationParams{Level: "info", Data: []byte(text)})
			if err != nil {
				t.Error(err)
			}
		}
		tools.configure = func(cfg *session.Options) {
			cfg.Handler = func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if req.Method != "tools/call" {
					return nil, nil
				}
				peer, _ := session.PeerFrom(ctx)
				log(ctx, "1")
				// Blocks until ctx ends.
				peer.Call(ctx, "sampling/createMessage", session.Raw(`{"messages":[],"maxTokens":1}`))
				if err := peer.Report(session.Progress{Value: 1}); err != session.ErrProgressOver {
					t.Errorf("progress after the cancellation: %v", err)
				}
				log(ctx, "2")
				<-finish
				return nil, nil
			}
		}
		s := serveOver(t, streamable.HandlerOptions{}, tools, func(l net.Listener) net.Listener { return l })
		id := s.openSession(initialize)
		standing := s.events("GET", "", "MCP-Session-Id", id)
		stream := s.events("POST", call(7, "any"), "MCP-Session-Id", id)
		logged := func(text string) string {
			return `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":` + text + `,"level":"info"}}`
		}
		if got := stream.message(); got != logged("1") {
			t.Errorf("before the cancellation: %s", got)
		}
		request := stream.message()
		if got := s.status("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, "MCP-Session-Id", id); got != 202 {
			t.Errorf("cancel: %d", got)
		}
		if got := stream.messages(); len(got) > 0 {
			t.Errorf("the cancelled stream continues with %q", got)
		}
		if got := standing.message(); !strings.Contains(got, "notifications/cancelled") || !strings.Contains(request, `"id":1,`) || !strings.Contains(got, `"requestId":1`) {
			t.Errorf("the input request %s is cancelled with %s", request, got)
		}
		if got := standing.message(); got != logged("2") {
			t.Errorf("the next log message: %s", got)
		}
		close(finish)
		s.changeList()
		if got := standing.message(); got != listChanged {
			t.Errorf("when the handler has returned: %s", got)
		}
	})
}

func TestEndOfSessionAnswersRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		got := make(chan string)
		go func() { got <- s.text(call(1, "wait"), "MCP-Session-Id", id) }() // ends with the session
		<-s.tools.started
		if status := s.status("DELETE", "", "MCP-Session-Id", id); status != 204 {
			t.Errorf("delete: %d", status)
		}
		if want := fmt.Sprintf(`"code":%d`, session.CodeClosing); !strings.Contains(<-got, want) {
			t.Errorf("the answer does not have %s", want)
		}
		<-s.tools.stopped
	})
}

// A client that reads nothing uses at most Limits.Queue bytes, and does not block other sessions.
func TestStalledConnectionIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{
			Limits: streamable.Limits{Queue: 10 << 10}, Timeouts: streamable.Timeouts{Stall: 5 * time.Second},
			Sessions: streamable.Sessions{Store: streamable.NewMemoryStore(streamable.MemoryOptions{MaxSessionBytes: 20 << 10})},
		})
		stalled := s.openSession(initialize)
		sender := s.tools.last()
		s.do("GET", "", "MCP-Session-Id", stalled) // never read
		other := s.openSession(initialize)
		ctx, start := testContext(t), time.Now()
		for range 1000 {
			if err := sender.Notify(ctx, "notifications/tools/list_changed", nil); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(start); d > 6*time.Second {
			t.Errorf("the sender was blocked for %v", d)
		}
		if got := s.text(call(1, "echo"), "MCP-Session-Id", other); got != result(1) {
			t.Errorf("another session: %s", got)
		}
		if got := s.text(call(1, "echo"), "MCP-Session-Id", stalled); got != result(1) {
			t.Errorf("the session: %s", got)
		}
		left := s.events("GET", "", "MCP-Session-Id", stalled, "Last-Event-ID", "0-0")
		n := 0
		go func() { // ends with the test
			time.Sleep(time.Second)
			s.status("DELETE", "", "MCP-Session-Id", stalled)
		}()
		n = len(left.messages())
		if n < 50 || n > 20<<10/len(listChanged) {
			t.Errorf("%d messages are left", n)
		}
		synctest.Wait()
	})
}

// Answers that a client does not read count towards the limits of the session, on any number of
// connections. Requests above the limits are rejected.
func TestUnreadAnswersCountTowardsLimits(t *testing.T) {
	for name, after := range map[string]time.Duration{"JSON": time.Hour, "stream": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tools := newTools()
				tools.configure = func(cfg *session.Options) { cfg.Limits.Bytes = 100 << 10 }
				s := serveOver(t, streamable.HandlerOptions{Streams: streamable.Streams{After: after}, Limits: streamable.Limits{Queue: 20 << 10}}, tools,
					func(l net.Listener) net.Listener { return l })
				id := s.openSession(initialize)
				long := func(n int) string {
					return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"long":"%s"}}}`,
						n, strings.Repeat("x", 10<<10))
				}
				var responses []*http.Response
				for n := range 50 {
					responses = append(responses, s.do("POST", long(n), "MCP-Session-Id", id))
					synctest.Wait()
				}
				served, rejected := 0, 0
				for _, response := range responses {
					text, err := io.ReadAll(response.Body)
					switch {
					case err != nil:
						t.Error(err)
					case strings.Contains(string(text), `"result"`):
						served++
					case strings.Contains(string(text), `"code":-32050`):
						rejected++
					}
				}
				if served < 3 || served > 20 || served+rejected != len(responses) {
					t.Errorf("%d calls were served, and %d rejected", served, rejected)
				}
				synctest.Wait() // the session stops counting an answer after it was written
				text, err := io.ReadAll(s.do("POST", long(99), "MCP-Session-Id", id).Body)
				if err != nil || !strings.Contains(string(text), `"result"`) {
					t.Errorf("a call after all answers were read: %.100s, %v", text, err)
				}
			})
		})
	}
}

// addressStore is a store that records the addresses of the texts of long events.
type addressStore struct {
	streamable.EventStore
	at sync.Map // keys are of type *byte: the first byte of each text
}

func (s *addressStore) Append(ctx context.Context, session, stream string, e streamable.Event) error {
	if len(e.Text) > 100<<10 {
		s.at.Store(&e.Text[0], true)
	}
	return s.EventStore.Append(ctx, session, stream, e)
}

// copyCounter is an http.ResponseWriter that counts writes of the store's own copy of a text.
type copyCounter struct {
	http.ResponseWriter
	store *addressStore
	n     *atomic.Int32
}

func (w copyCounter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w copyCounter) Write(b []byte) (int, error) {
	if len(b) > 0 {
		if _, ok := w.store.at.Load(&b[0]); ok {
			w.n.Add(1)
		}
	}
	return w.ResponseWriter.Write(b)
}

// Connections that resume a stream write a long message from the memory of the store, without a
// copy for each connection.
func TestServerDoesNotCopyLongEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &addressStore{EventStore: streamable.NewMemoryStore(streamable.MemoryOptions{})}
		var n atomic.Int32
		s := serve(t, streamable.HandlerOptions{Streams: streamable.Streams{After: -1}, Sessions: streamable.Sessions{Store: store}})
		s.wrap = func(w http.ResponseWriter) http.ResponseWriter { return copyCounter{w, store, &n} }
		id := s.openSession(initialize)
		long := strings.Repeat("x", 200<<10)
		first := s.events("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"long":"`+long+`"}}}`,
			"MCP-Session-Id", id)
		event, err := first.next()
		if err != nil {
			t.Fatal(err)
		}
		want := first.message()
		if !strings.Contains(want, long) {
			t.Errorf("the first connection receives %.100s", want)
		}
		for range 3 {
			again := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", event.ID)
			if got := again.messages(); len(got) != 1 || got[0] != want {
				t.Errorf("a resumed connection receives %.100q", got)
			}
		}
		if n.Load() != 4 {
			t.Errorf("%d of 4 connections wrote the text of the store", n.Load())
		}
	})
}

// slowListener is a listener whose connections send rate bytes per second.
type slowListener struct {
	net.Listener
	rate int
}

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &slowConn{Conn: c, rate: l.rate}, err
}

// slowConn is a connection whose writes take time. They fail if a deadline passes meanwhile.
type slowConn struct {
	net.Conn
	rate     int
	deadline atomic.Pointer[time.Time]
}

func (c *slowConn) SetWriteDeadline(t time.Time) error {
	c.deadline.Store(&t)
	return nil
}

func (c *slowConn) Write(b []byte) (int, error) {
	time.Sleep(time.Duration(len(b)) * time.Second / time.Duration(c.rate))
	if t := c.deadline.Load(); t != nil && !t.IsZero() && time.Now().After(*t) {
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Write(b)
}

// A large answer may take any time over a slow connection. Only a connection that accepts no data
// is closed.
func TestSlowConnectionReceivesLargeAnswer(t *testing.T) {
	for name, after := range map[string]time.Duration{"JSON": time.Hour, "stream": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serveOver(t, streamable.HandlerOptions{Streams: streamable.Streams{After: after}, Timeouts: streamable.Timeouts{Stall: 5 * time.Second}}, newTools(),
					func(l net.Listener) net.Listener { return slowListener{l, 20 << 10} })
				id := s.openSession(initialize)
				long := strings.Repeat("x", 400<<10)
				body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"long":"` + long + `"}}}`
				start := time.Now()
				response := s.do("POST", body, "MCP-Session-Id", id)
				text, err := io.ReadAll(response.Body)
				if err != nil || !strings.Contains(string(text), long) {
					t.Errorf("%d bytes have arrived, %v", len(text), err)
				}
				if d := time.Since(start); d < 20*time.Second {
					t.Errorf("the connection was not slow: %v", d)
				}
			})
		})
	}
}

// noFlushWriter is an http.ResponseWriter without the methods Flush and Unwrap.
type noFlushWriter struct{ http.ResponseWriter }

// If the writer cannot flush, each connection ends after its first messages, and clients resume the
// stream for the next ones.
func TestWriterWithoutFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := serve(t, streamable.HandlerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		s.wrap = func(w http.ResponseWriter) http.ResponseWriter { return noFlushWriter{w} }
		id := s.openSession(initialize)
		first := s.events("POST", call(1, "slow"), "MCP-Session-Id", id)
		got, last := first.messages(), first.id
		for range 5 { // at most five connections
			if len(got) == 6 {
				break
			}
			next := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", last)
			got, last = append(got, next.messages()...), next.id
		}
		want := []string{progress(1, 1), progress(1, 2), progress(1, 3), progress(1, 4), progress(1, 5), result(1)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n := strings.Count(log.String(), "stream not flushed"); n != 1 {
			t.Errorf("warned %d times:\n%s", n, &log)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Stateless: true, Logger: slog.New(slog.DiscardHandler)})
		s.wrap = func(w http.ResponseWriter) http.ResponseWriter { return noFlushWriter{w} }
		want := []string{progress(1, 1), progress(1, 2), progress(1, 3), progress(1, 4), progress(1, 5), result(1)}
		if diff := cmp.Diff(want, s.events("POST", call(1, "slow")).messages()); diff != "" {
			t.Errorf("stateless (-want +got):\n%s", diff)
		}
	})
}

// A message without a stream is rejected, and the session continues.
func TestStatelessServerHasNoStandingStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Stateless: true})
		stream := s.events("POST", call(1, "wait"))
		<-s.tools.started
		if err := s.tools.last().Notify(context.Background(), "notifications/tools/list_changed", nil); err == nil {
			t.Error("a message that belongs to no request was accepted")
		}
		close(s.tools.release)
		if diff := cmp.Diff([]string{result(1)}, stream.messages()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
