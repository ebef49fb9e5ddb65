package streamable_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// The connections of all sessions of a principal whose answers are not read have a limit together, and
// so have their streams.
func TestServerLimitsConnectionsOfAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Limits: streamable.Limits{SessionsPerPrincipal: 2, RequestsPerPrincipal: 3, Streams: 3}, Access: streamable.Access{Principal: byToken}, Timeouts: streamable.Timeouts{Stall: time.Minute}})
		headers := s.sessionsOf("ann", 2)
		for i := range 4 {
			s.do("POST", longCall(10+i, "echo", 8<<10), headers[i/2]...) // never read
		}
		s.events("GET", "", headers[1]...)
		synctest.Wait()
		if got := s.status("POST", call(1, "echo"), headers[0]...); got != http.StatusTooManyRequests {
			t.Errorf("a request more: %d", got)
		}
		if got := s.status("GET", "", headers[0]...); got != http.StatusTooManyRequests {
			t.Errorf("a stream more: %d", got)
		}
		if got := s.status("POST", call(1, "echo"), s.sessionsOf("ben", 1)[0]...); got != http.StatusOK {
			t.Errorf("another principal: %d", got)
		}
		time.Sleep(2 * time.Minute) // the connections are closed after Timeouts.Stall
		if got := s.status("POST", call(1, "echo"), headers[0]...); got != http.StatusOK {
			t.Errorf("afterwards: %d", got)
		}
	})
}

// longCall returns a request for a tool with n more bytes of arguments, which the tool "echo" returns.
func longCall(id int, tool string, n int) string {
	return strings.Replace(call(id, tool), `"arguments":{`, `"arguments":{"x":"`+strings.Repeat("x", n)+`",`, 1)
}

// sessionsOf opens n sessions for a principal, and returns their headers.
func (s *testServer) sessionsOf(principal string, n int) (headers [][]string) {
	for range n {
		id := s.openSession(initialize, "Authorization", principal)
		headers = append(headers, []string{"Authorization", principal, "MCP-Session-Id", id})
	}
	return headers
}

// A principal that does not read long answers in any of its sessions is not sent further ones,
// neither as JSON nor as an event. Short answers, and those of other principals, are sent.
func TestServerLimitsUnreadAnswersOfAllSessions(t *testing.T) {
	for name, o := range map[string]streamable.HandlerOptions{"JSON": {}, "events": {Streams: streamable.Streams{After: -1}}, "stateless": {Stateless: true}} {
		synctest.Test(t, func(t *testing.T) {
			o.Limits.Message, o.Limits.Initialize, o.Timeouts.Stall, o.Access.Principal = 50<<10, 10<<10, time.Minute, byToken
			s := serve(t, o)
			headers := [][]string{{"Authorization", "ann"}, {"Authorization", "ann"}, {"Authorization", "ann"}, {"Authorization", "ben"}}
			if !o.Stateless {
				headers = append(s.sessionsOf("ann", 3), s.sessionsOf("ben", 1)...)
			}
			answer := func(i int, body string) string {
				text, err := io.ReadAll(s.do("POST", body, headers[i]...).Body)
				if err != nil {
					t.Error(err)
				}
				return string(text)
			}
			const dropped = `"error":{"code":-32050,"message":"overloaded: the answer was dropped`
			for i := range 5 { // 200 KiB have room, and the last answer that does may be longer
				s.do("POST", longCall(10+i, "echo", 45<<10), headers[i%2]...) // never read
				synctest.Wait()
			}
			if got := answer(2, longCall(1, "echo", 15<<10)); !strings.Contains(got, `"id":1,`+dropped) {
				t.Errorf("%s: a long answer: %.200s", name, got)
			}
			if got := answer(2, call(2, "echo")); !strings.Contains(got, result(2)) {
				t.Errorf("%s: a short answer: %.200s", name, got)
			}
			if got := answer(3, longCall(3, "echo", 15<<10)); strings.Contains(got, dropped) {
				t.Errorf("%s: another principal: %.200s", name, got)
			}
			time.Sleep(2 * time.Minute) // the connections are closed after Timeouts.Stall
			if got := answer(2, longCall(4, "echo", 15<<10)); strings.Contains(got, dropped) {
				t.Errorf("%s: afterwards: %.200s", name, got)
			}
		})
	}
}

// The messages of all sessions of a principal that are being received or served have four times
// Limits.Message, apart from Limits.Initialize bytes of each. A request counts until it is
// answered, also without a connection, or until its session ends.
func TestServerLimitsRequestBytesOfAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Limits: streamable.Limits{Message: 50 << 10, Initialize: 10 << 10}, Access: streamable.Access{Principal: byToken}})
		headers := s.sessionsOf("ann", 3)
		send := func(i, id int) { // the client disconnects while the tool waits
			response := s.do("POST", longCall(id, "wait", 45<<10), headers[i]...)
			if response.StatusCode != http.StatusOK {
				t.Fatalf("request %d: %d", id, response.StatusCode)
			}
			<-s.tools.started
			response.Body.Close()
			synctest.Wait()
		}
		status := func(i, size int) int { return s.status("POST", longCall(1, "echo", size), headers[i]...) }
		for id := range 5 { // 175 KiB
			send(id%2, 10+id)
		}
		if got := status(2, 45<<10); got != http.StatusTooManyRequests {
			t.Errorf("a message without room: %d", got)
		}
		if got := status(2, 5<<10); got != http.StatusOK {
			t.Errorf("a short message: %d", got)
		}
		ben := s.sessionsOf("ben", 1)[0]
		if got := s.status("POST", longCall(1, "echo", 45<<10), ben...); got != http.StatusOK {
			t.Errorf("another principal: %d", got)
		}
		if got := s.status("DELETE", "", headers[0]...); got != http.StatusNoContent {
			t.Errorf("DELETE: %d", got)
		}
		if got := status(2, 45<<10); got != http.StatusOK {
			t.Errorf("after the end of a session: %d", got)
		}
		send(2, 20)
		send(2, 21)
		send(2, 22)
		if got := status(2, 45<<10); got != http.StatusTooManyRequests {
			t.Errorf("a message without room again: %d", got)
		}
		close(s.tools.release)
		synctest.Wait()
		for range 5 {
			if got := status(2, 45<<10); got != http.StatusOK {
				t.Errorf("after the answers: %d", got)
			}
		}
		time.Sleep(time.Second) // net/http closes connections of rejected bodies after a moment
	})
}

// The requests of all sessions of a principal that are not answered have a limit together, also those
// whose client has disconnected.
func TestServerLimitsRequestsOfAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Limits: streamable.Limits{SessionsPerPrincipal: 3, RequestsPerPrincipal: 3, Streams: 3}, Access: streamable.Access{Principal: byToken}})
		headers := s.sessionsOf("ann", 3)
		status := func(i, id int) int { return s.status("POST", call(id, "echo"), headers[i]...) }
		for id := range 3 {
			response := s.do("POST", call(10+id, "wait"), headers[id%2]...)
			if response.StatusCode != http.StatusOK {
				t.Fatalf("request %d: %d", id, response.StatusCode)
			}
			<-s.tools.started
			response.Body.Close()
		}
		if got := status(2, 1); got != http.StatusTooManyRequests {
			t.Errorf("one request more: %d", got)
		}
		if got := s.status("POST", call(1, "echo"), s.sessionsOf("ben", 1)[0]...); got != http.StatusOK {
			t.Errorf("another principal: %d", got)
		}
		cancel := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, 10)
		if got := s.status("POST", cancel, headers[0]...); got != http.StatusAccepted {
			t.Errorf("a cancellation: %d", got)
		}
		synctest.Wait()
		if got := status(2, 2); got != http.StatusOK {
			t.Errorf("after the cancellation: %d", got)
		}
		if got := s.status("DELETE", "", headers[1]...); got != http.StatusNoContent {
			t.Errorf("DELETE: %d", got)
		}
		batch := func(n int) int {
			old := strings.Replace(initialize, "2025-11-25", "2025-03-26", 1)
			id := s.openSession(old, "Authorization", "ann")
			var calls []string
			for id := range n {
				calls = append(calls, call(id+1, "echo"))
			}
			return s.status("POST", "["+strings.Join(calls, ",")+"]", "Authorization", "ann", "MCP-Session-Id", id)
		}
		if got := batch(2); got != http.StatusOK {
			t.Errorf("a batch that fits: %d", got)
		}
		if got := batch(3); got != http.StatusTooManyRequests {
			t.Errorf("a batch with one request more: %d", got)
		}
		close(s.tools.release)
	})
}

// The messages that wait for the connections of all sessions of a principal have a limit together.
// Above it, each session has room for Limits.Initialize bytes, or for one message. Nothing is
// dropped.
func TestServerLimitsQueuesOfAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, sent := serveLogs(t, streamable.HandlerOptions{Limits: streamable.Limits{Message: 50 << 10, Initialize: 10 << 10}, Timeouts: streamable.Timeouts{Stall: time.Minute}, Access: streamable.Access{Principal: byToken}})
		var streams []*events
		send := func(headers []string, want int) {
			t.Helper()
			for id := range 2 {
				streams = append(streams, s.events("POST", call(1+id, "a"), headers...))
				synctest.Wait()
			}
			if got := len(sent); got != want {
				t.Errorf("%d messages have room, want %d", got, want)
			}
		}
		headers := s.sessionsOf("ann", 3)
		send(headers[0], 2) // 200 KiB
		send(headers[1], 3)
		send(headers[2], 4)
		send(s.sessionsOf("ben", 1)[0], 6)
		var reading sync.WaitGroup
		for i, stream := range streams {
			reading.Go(func() {
				if got := logsOf(stream); len(got) != 1 {
					t.Errorf("stream %d: %d messages", i, len(got))
				}
			})
		}
		reading.Wait()
		for range streams {
			if err := <-sent; err != nil {
				t.Error(err)
			}
		}
		streams = nil
		send(headers[1], 2)
	})
}

// Many short answers to a batch may be pending on one connection, so they count like long ones.
func TestServerLimitsUnreadAnswersToBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Limits: streamable.Limits{Message: 50 << 10, Initialize: 10 << 10}, Timeouts: streamable.Timeouts{Stall: time.Minute}, Access: streamable.Access{Principal: byToken}})
		batch := func(from string) *http.Response {
			id := s.openSession(initializeOld, "Authorization", from)
			var calls []string
			for id := range 5 {
				calls = append(calls, longCall(id+1, "echo", 9<<10))
			}
			return s.do("POST", "["+strings.Join(calls, ",")+"]", "Authorization", from, "MCP-Session-Id", id)
		}
		answer := func(from string) string {
			text, err := io.ReadAll(batch(from).Body)
			if err != nil {
				t.Error(err)
			}
			return string(text)
		}
		for range 6 { // 200 KiB have room
			batch("ann") // never read
			synctest.Wait()
		}
		const dropped = `"error":{"code":-32050,"message":"overloaded: the answer was dropped`
		if got := strings.Count(answer("ann"), dropped); got != 5 {
			t.Errorf("%d answers dropped, want 5", got)
		}
		if got := answer("ben"); strings.Contains(got, dropped) {
			t.Errorf("another principal: %.200s", got)
		}
		time.Sleep(2 * time.Minute) // the connections are closed after Timeouts.Stall
		if got := answer("ann"); strings.Contains(got, dropped) {
			t.Errorf("afterwards: %.200s", got)
		}
	})
}

// The notifications that wait for the handlers of all sessions of a principal count like messages
// that are being served.
func TestServerLimitsPendingNotificationsOfAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tools := newTools()
		var handled atomic.Int64
		tools.configure = func(cfg *session.Options) {
			cfg.Handler = func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if strings.HasPrefix(req.Method, "notifications/x") {
					handled.Add(1)
					select {
					case <-tools.release:
					case <-ctx.Done():
					}
				}
				return nil, nil
			}
		}
		s := serveOver(t, streamable.HandlerOptions{Limits: streamable.Limits{Message: 50 << 10, Initialize: 10 << 10}, Access: streamable.Access{Principal: byToken}}, tools, plain)
		headers := s.sessionsOf("ann", 3)
		status := func(headers []string, size int) int {
			defer synctest.Wait()
			return s.status("POST", `{"jsonrpc":"2.0","method":"notifications/x","params":{"x":"`+strings.Repeat("x", size)+`"}}`, headers...)
		}
		for i := range 4 { // 200 KiB have room, after 10 KiB of each session
			if got := status(headers[0], 45<<10); got != http.StatusAccepted {
				t.Fatalf("notification %d: %d", i, got)
			}
		}
		if got := status(headers[1], 45<<10); got != http.StatusTooManyRequests {
			t.Errorf("a notification without room: %d", got)
		}
		if got := status(headers[1], 1<<10); got != http.StatusAccepted {
			t.Errorf("a short one: %d", got)
		}
		if got := status(s.sessionsOf("ben", 1)[0], 45<<10); got != http.StatusAccepted {
			t.Errorf("another principal: %d", got)
		}
		if got := s.status("DELETE", "", headers[0]...); got != http.StatusNoContent {
			t.Errorf("DELETE: %d", got)
		}
		for i := range 4 {
			if got := status(headers[2], 45<<10); got != http.StatusAccepted {
				t.Errorf("notification %d after the end of a session: %d", i, got)
			}
		}
		close(tools.release)
		synctest.Wait()
		if got := status(headers[2], 45<<10); got != http.StatusAccepted || handled.Load() != 1+1+1+5 { // those of the ended session were dropped
			t.Errorf("afterwards: %d, %d were handled", got, handled.Load())
		}
		time.Sleep(time.Second) // net/http closes connections of rejected bodies after a moment
	})
}

// If very many messages of a principal are being received at once, with and without sessions, the
// first bytes of the others count, too.
func TestServerLimitsShortMessagesBeingReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Limits: streamable.Limits{Message: 50 << 10, Initialize: 10 << 10, SessionsPerPrincipal: 2, RequestsPerPrincipal: 2, Streams: 2}, Access: streamable.Access{Principal: byToken}})
		session := s.sessionsOf("ann", 1)[0][3]
		blocked, end := io.Pipe() // blocks the bodies after their text
		var sending sync.WaitGroup
		for i := range 29 { // 4 are free, and the others have 200 KiB
			r, err := http.NewRequestWithContext(testContext(t), "POST", "http://localhost/mcp", io.MultiReader(strings.NewReader(strings.Repeat(" ", 8<<10)), blocked))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"ann"}}
			if i%2 == 0 {
				r.Header.Set("MCP-Session-Id", session)
			}
			sending.Go(func() { // ends with the body
				if response, err := s.http.Do(r); err == nil {
					response.Body.Close()
				}
			})
			synctest.Wait()
		}
		if got := s.status("POST", initialize, "Authorization", "ann"); got != http.StatusTooManyRequests {
			t.Errorf("one message more: %d", got)
		}
		if got := s.status("POST", initialize, "Authorization", "ben"); got != http.StatusOK {
			t.Errorf("another principal: %d", got)
		}
		end.Close()
		sending.Wait()
		if got := s.status("POST", initialize, "Authorization", "ann"); got != http.StatusOK {
			t.Errorf("afterwards: %d", got)
		}
		time.Sleep(time.Second) // net/http closes connections of rejected bodies after a moment
	})
}

// A long answer for which requests that are being served leave no room fails the request of the server
// at once, so that the handler that waits for it does not keep its own room. A short one has room.
func TestServerFailsRequestWhoseAnswerHasNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Limits: streamable.Limits{Message: 50 << 10, Initialize: 10 << 10}, Access: streamable.Access{Principal: byToken}})
		headers := s.sessionsOf("ann", 1)[0]
		var streams []*events
		for id := range 6 { // 200 KiB, after 10 KiB of each
			size := 44 << 10
			if id == 5 {
				size = 39 << 10
			}
			streams = append(streams, s.events("POST", longCall(10+id, "sample", size), headers...))
		}
		answer := func(stream *events, size int) int {
			t.Helper()
			_, rest, ok := strings.Cut(stream.message(), `"id":`)
			if !ok {
				t.Fatal("no request")
			}
			id, _, _ := strings.Cut(rest, ",")
			return s.status("POST", `{"jsonrpc":"2.0","id":`+id+`,"result":{"x":"`+strings.Repeat("x", size)+`"}}`, headers...)
		}
		if got := answer(streams[0], 15<<10); got != http.StatusTooManyRequests {
			t.Errorf("an answer without room: %d", got)
		}
		if got := streams[0].message(); !strings.Contains(got, "too many bytes are being received") {
			t.Errorf("its request: %.200s", got)
		}
		if got := answer(streams[1], 5<<10); got != http.StatusAccepted {
			t.Errorf("a short answer: %d", got)
		}
		if got := streams[1].message(); !strings.Contains(got, `"result"`) {
			t.Errorf("its request: %.200s", got)
		}
		if got := answer(streams[2], 15<<10); got != http.StatusAccepted {
			t.Errorf("an answer that has room again: %d", got)
		}
		time.Sleep(time.Second) // net/http closes connections of rejected bodies after a moment
	})
}
