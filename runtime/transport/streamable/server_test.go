package streamable_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/eventstream"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// Proves HTTP-01, HTTP-09, HTTP-11, HTTP-38, HTTP-40, HTTP-43, HTTP-44, HTTP-47 and SDK-08.
func TestSessionLifecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		response := s.do("POST", initialize)
		id := response.Header.Get("MCP-Session-Id")
		response.Body.Close()
		for _, c := range []byte(id) {
			if c < 0x21 || c > 0x7E {
				t.Errorf("session id %q", id)
			}
		}
		response = s.do("POST", initialized, "MCP-Session-Id", id)
		if response.StatusCode != 202 || response.ContentLength != 0 {
			t.Errorf("a notification is answered with %d and %d bytes", response.StatusCode, response.ContentLength)
		}
		for i := range 3 {
			if diff := cmp.Diff(result(i), s.text(call(i, "echo"), "MCP-Session-Id", id)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		stream := s.events("GET", "", "MCP-Session-Id", id)
		stream.body.Close()
		for _, test := range []struct {
			method, body, id string
			want             int
		}{
			{"POST", call(1, "echo"), "-", 400},
			{"GET", "", "-", 400},
			{"DELETE", "", "-", 400},
			{"POST", call(1, "echo"), "unknown", 404},
			{"POST", initialize, "unknown", 404},
			{"GET", "", "unknown", 404},
			{"DELETE", "", "unknown", 404},
			{"DELETE", "", id, 204},
			{"POST", call(1, "echo"), id, 404},
			{"POST", initialized, id, 404},
			{"GET", "", id, 404},
			{"DELETE", "", id, 404},
		} {
			if got := s.status(test.method, test.body, "MCP-Session-Id", test.id); got != test.want {
				t.Errorf("%s %s with session %q: %d, want %d", test.method, test.body, test.id, got, test.want)
			}
		}
	})
}

// Proves HTTP-39.
func TestSessionIDsAreUnique(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		seen := map[string]bool{}
		for range 200 {
			id := s.openSession(initialize)
			if seen[id] || len(id) < 26 {
				t.Fatalf("session id %q, seen before: %v", id, seen[id])
			}
			seen[id] = true
		}
	})
}

// Proves SDK-08.
func TestCustomSessionIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan string, 1)
		var log strings.Builder
		s := serve(t, streamable.HandlerOptions{
			Sessions: streamable.Sessions{ID: func() string { return <-next }}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Timeouts: streamable.Timeouts{Idle: time.Minute},
		})
		open := func(id string) int {
			next <- id
			return s.status("POST", initialize)
		}
		const id = "node-7.!~secret"
		next <- id
		if got := s.openSession(initialize); got != id {
			t.Errorf("session id %q", got)
		}
		for _, invalid := range []string{id, "", "a b", "é", "a\x7f", strings.Repeat("a", 129)} {
			if got := open(invalid); got != 500 {
				t.Errorf("session id %q: %d", invalid, got)
			}
		}
		if diff := cmp.Diff(result(1), s.text(call(1, "echo"), "MCP-Session-Id", id)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := open(strings.Repeat("a", 128)); got != 200 {
			t.Errorf("another session: %d", got)
		}
		time.Sleep(2 * time.Minute)
		s.stop()
		if text := log.String(); !strings.Contains(text, "session expired") || strings.Contains(text, "secret") {
			t.Errorf("logged:\n%s", text)
		}
	})
}

// Proves HTTP-02, HTTP-03, HTTP-08, HTTP-10, HTTP-43 and HTTP-51.
func TestServerRejectsInvalidRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Limits: streamable.Limits{Message: 1000}, Access: streamable.Access{Hosts: []string{"localhost"}}})
		id := s.openSession(initialize)
		for _, test := range []struct {
			name, method, body string
			header             []string
			want               int
		}{
			{"PUT", "PUT", "", nil, 405},
			{"PATCH", "PATCH", "", nil, 405},
			{"foreign origin", "POST", initialize, []string{"Origin", "http://evil.example.com"}, 403},
			{"foreign origin, GET", "GET", "", []string{"Origin", "http://evil.example.com"}, 403},
			{"foreign origin, DELETE", "DELETE", "", []string{"Origin", "http://evil.example.com"}, 403},
			{"foreign host name", "POST", initialize, []string{"Host", "evil.example.com"}, 403},
			{"accepting only HTML", "POST", initialize, []string{"Accept", "text/html"}, 406},
			{"accepting only JSON", "POST", initialize, []string{"Accept", "application/json"}, 406},
			{"accepting only streams", "POST", initialize, []string{"Accept", "text/event-stream"}, 406},
			{"GET without accepting streams", "GET", "", []string{"Accept", "application/json"}, 406},
			{"wrong content type", "POST", initialize, []string{"Content-Type", "text/plain"}, 415},
			{"no content type", "POST", initialize, []string{"Content-Type", "-"}, 415},
			{"too long", "POST", strings.Repeat(" ", 1001), nil, 413},
			{"empty body", "POST", "", nil, 400},
			{"incomplete JSON", "POST", `{"jsonrpc":`, nil, 400},
			{"not a message", "POST", `{}`, nil, 400},
			{"another version of JSON-RPC", "POST", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, nil, 400},
			{"an id of null", "POST", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400},
			{"two messages", "POST", initialized + initialized, nil, 400},
			{"a batch", "POST", "[" + initialized + "," + call(1, "echo") + "]", nil, 400},
			{"a notification without a session", "POST", initialized, []string{"MCP-Session-Id", "-"}, 400},
			{"a notification for an unknown session", "POST", initialized, []string{"MCP-Session-Id", "x"}, 404},
			{"a notification in an unknown revision", "POST", initialized, []string{"MCP-Protocol-Version", "1900-01-01"}, 400},
			{"a notification with invalid params", "POST", `{"jsonrpc":"2.0","method":"notifications/x","params":7}`, nil, 400},
			{"a response without a session", "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, []string{"MCP-Session-Id", "-"}, 400},
			{"a response for an unknown session", "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, []string{"MCP-Session-Id", "x"}, 404},
			{"a response with an id of null", "POST", `{"jsonrpc":"2.0","id":null,"result":{}}`, nil, 400},
			{"an unknown revision", "POST", call(1, "echo"), []string{"MCP-Protocol-Version", "1900-01-01"}, 400},
			{"GET in an unknown revision", "GET", "", []string{"MCP-Protocol-Version", "1900-01-01"}, 400},
			{"DELETE in an unknown revision", "DELETE", "", []string{"MCP-Protocol-Version", "1900-01-01"}, 400},
			{"an unknown event id", "GET", "", []string{"Last-Event-ID", "0-7"}, 400},
			{"an unknown stream", "GET", "", []string{"Last-Event-ID", "zz-1"}, 400},
			{"a malformed event id", "GET", "", []string{"Last-Event-ID", "1"}, 400},
			{"a long event id", "GET", "", []string{"Last-Event-ID", strings.Repeat("1", 200) + "-1"}, 400},
			{"a long session id", "GET", "", []string{"MCP-Session-Id", strings.Repeat("1", 200)}, 404},
			{"initialize in an open session", "POST", initialize, nil, 200},
			{"wildcards", "POST", call(2, "echo"), []string{"Accept", "*/*"}, 200},
			{"more wildcards", "POST", call(2, "echo"), []string{"Accept", "text/*;q=0.5", "Accept", "application/*, text/*"}, 200},
			{"an older revision", "POST", call(2, "echo"), []string{"MCP-Protocol-Version", "2025-06-18"}, 200},
		} {
			if got := s.status(test.method, test.body, append([]string{"MCP-Session-Id", id}, test.header...)...); got != test.want {
				t.Errorf("%s: %d, want %d", test.name, got, test.want)
			}
		}
	})
}

func TestAllowHeaderListsMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			stateless bool
			want      string
		}{{false, "GET, POST, DELETE"}, {true, "POST"}} {
			s := serve(t, streamable.HandlerOptions{Stateless: test.stateless})
			response := s.do("PUT", "")
			if got := response.Header.Get("Allow"); got != test.want {
				t.Errorf("Allow: %s", got)
			}
		}
	})
}

// Proves HTTP-25, HTTP-33, HTTP-47, HTTP-50 and SDK-07.
func TestStatelessServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Stateless: true})
		response := s.do("POST", initialize)
		if id, ok := response.Header["Mcp-Session-Id"]; response.StatusCode != 200 || ok {
			t.Errorf("initialize: status %d, session %q", response.StatusCode, id)
		}
		for _, test := range []struct {
			method, body string
			want         int
		}{
			{"POST", initialized, 202},
			{"POST", `{"jsonrpc":"2.0","method":"notifications/custom"}`, 202},
			{"POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, 400},
			{"GET", "", 405},
			{"DELETE", "", 405},
			{"POST", `{"jsonrpc":"2.0","id":1,"method":"unknown"}`, 200},
		} {
			if got := s.status(test.method, test.body); got != test.want {
				t.Errorf("%s %s: %d, want %d", test.method, test.body, got, test.want)
			}
		}
		if diff := cmp.Diff(result(7), s.text(call(7, "echo"))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		waiting := s.events("POST", call(7, "wait")) // another client uses the same id
		if diff := cmp.Diff(result(7), s.text(call(7, "echo"))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		close(s.tools.release)
		if diff := cmp.Diff([]string{result(7)}, waiting.messages()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		want := []string{progress(8, 1), progress(8, 2), progress(8, 3), progress(8, 4), progress(8, 5), result(8)}
		stream := s.events("POST", call(8, "progress"))
		if diff := cmp.Diff(want, stream.messages()); diff != "" || stream.id != "" {
			t.Errorf("last id %q, (-want +got):\n%s", stream.id, diff)
		}
		if got := s.text(call(9, "sample")); !strings.Contains(got, "sampling") || !strings.Contains(got, "error") {
			t.Errorf("an input request to a client without a session: %s", got)
		}
		synctest.Wait()
		s.tools.mu.Lock()
		defer s.tools.mu.Unlock()
		for i, open := range s.tools.sessions {
			select {
			case <-open.Done():
			default:
				t.Errorf("session %d is still open", i)
			}
		}
	})
}

// A request continues for Linger after its client has disconnected, because the connection may have
// broken. It does not continue longer, because the client can neither cancel the request nor resume
// the stream.
//
// Proves HTTP-22.
func TestStatelessRequestContinuesForLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Stateless: true, Limits: streamable.Limits{Requests: 3}, Timeouts: streamable.Timeouts{Linger: 10 * time.Second}})
		for range 3 {
			stream := s.events("POST", call(1, "wait")) // the stream opens after Streams.After
			<-s.tools.started
			stream.body.Close()
		}
		time.Sleep(8 * time.Second)
		synctest.Wait()
		select {
		case err := <-s.tools.stopped:
			t.Errorf("cancelled: %v", err)
		default:
		}
		s.tools.release <- struct{}{} // one request is answered
		synctest.Wait()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if len(s.tools.stopped) != 2 {
			t.Errorf("%d requests were cancelled, want 2", len(s.tools.stopped))
		}
		if got := s.status("POST", call(2, "echo")); got != 200 {
			t.Errorf("a request after Linger: %d", got)
		}
	})
}

// A batch counts towards Limits.Streams with each of its requests, although it has one stream.
func TestBatchCountsAsItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Limits: streamable.Limits{Streams: 4}})
		id := s.openSession(initializeOld)
		batch := func(first, n int) string {
			calls := make([]string, n)
			for i := range calls {
				calls[i] = call(first+i, "wait")
			}
			return "[" + strings.Join(calls, ",") + "]"
		}
		if got := s.status("POST", batch(0, 5), "MCP-Session-Id", id); got != 429 {
			t.Errorf("a batch that is too large: %d", got)
		}
		stream := s.events("POST", batch(0, 3), "MCP-Session-Id", id)
		if got := s.status("POST", batch(3, 2), "MCP-Session-Id", id); got != 429 {
			t.Errorf("a request too many: %d", got)
		}
		last := s.events("POST", batch(3, 1), "MCP-Session-Id", id)
		close(s.tools.release)
		if got := len(stream.messages()) + len(last.messages()); got != 4 {
			t.Errorf("%d answers", got)
		}
	})
}

// When calls that wait for their client have reached the limit, the server still accepts the
// answers.
func TestServerAcceptsAnswersAtLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Limits: streamable.Limits{Streams: 4}})
		id := s.openSession(initialize)
		standing := s.events("GET", "", "MCP-Session-Id", id)
		defer standing.body.Close()
		synctest.Wait() // the exchanges of the handshake count until they have ended
		var streams []*events
		for n := range 3 {
			stream := s.events("POST", call(n, "sample"), "MCP-Session-Id", id)
			stream.message()
			streams = append(streams, stream)
		}
		if got := s.status("POST", call(9, "echo"), "MCP-Session-Id", id); got != 429 {
			t.Errorf("a request too many: %d", got)
		}
		for n := range 2 {
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"model":"m"}}`, n+1)
			if got := s.status("POST", answer, "MCP-Session-Id", id); got != 202 {
				t.Errorf("an answer: %d", got)
			}
		}
		if got := s.status("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, "MCP-Session-Id", id); got != 202 {
			t.Errorf("a cancellation: %d", got)
		}
		for n, want := range []int{1, 1, 0} {
			if got := streams[n].messages(); len(got) != want {
				t.Errorf("call %d got %q", n, got)
			}
		}
	})
}

// When other principals open sessions, the principal with the most sessions loses an idle one.
func TestPrincipalWithMostSessionsLosesIdleOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Limits: streamable.Limits{Sessions: 5, SessionsPerPrincipal: 4},
			Access: streamable.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }}})
		open := func(principal string) string {
			time.Sleep(time.Second)
			return s.openSession(initialize, "Authorization", principal)
		}
		check := func(id, principal string, want int) {
			t.Helper()
			if got := s.status("POST", call(1, "echo"), "MCP-Session-Id", id, "Authorization", principal); got != want {
				t.Errorf("a session of %s: %d, want %d", principal, got, want)
			}
		}
		ann := open("ann")
		var mallory []string
		for range 6 {
			mallory = append(mallory, open("mallory"))
		}
		check(mallory[0], "mallory", 404) // above Limits.SessionsPerPrincipal
		check(mallory[1], "mallory", 404)
		check(mallory[2], "mallory", 200)
		time.Sleep(time.Second)
		bob := open("bob") // above Limits.Sessions: mallory has most, and mallory[3] is idle longest
		check(mallory[3], "mallory", 404)
		check(ann, "ann", 200)
		check(bob, "bob", 200)

		// Sessions in use are not ended.
		for _, id := range []string{mallory[2], mallory[4], mallory[5]} {
			stream := s.events("GET", "", "MCP-Session-Id", id, "Authorization", "mallory")
			defer stream.body.Close()
		}
		if got := s.status("POST", initialize, "Authorization", "carol"); got != 503 {
			t.Errorf("a session above Limits.Sessions: %d", got)
		}
	})
}

// The message that opens a session is stored with it. Its size is therefore limited.
func TestServerLimitsSizeOfInitialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		long := strings.Replace(initialize, `"name":"c"`, `"name":"`+strings.Repeat("c", 1<<20)+`"`, 1)
		before := heap()
		for range 50 {
			if got := s.status("POST", long); got != 413 {
				t.Errorf("an initialize of 1 MiB: %d", got)
			}
		}
		s.openSession(strings.Replace(initialize, `"name":"c"`, `"name":"`+strings.Repeat("c", 60<<10)+`"`, 1))
		s.http.CloseIdleConnections()
		synctest.Wait()
		if held := heap() - before; held > 4<<20 {
			t.Errorf("the server holds %d bytes", held)
		}
		time.Sleep(time.Second) // net/http closes connections of rejected bodies after a moment
	})
}

// Incomplete messages hold at most Limits.Initialize without a session, and four times
// Limits.Message within a session, apart from Limits.Initialize bytes of each.
func TestServerLimitsIncompleteMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Limits: streamable.Limits{Message: 200 << 10, Initialize: 10 << 10}, Timeouts: streamable.Timeouts{Read: time.Minute}})
		id := s.openSession(initialize)
		blocked, end := io.Pipe() // blocks all bodies after their text
		status := make(chan int, 10)
		post := func(session string) {
			body := io.MultiReader(strings.NewReader(strings.Repeat(" ", 150<<10)), blocked)
			r, err := http.NewRequestWithContext(t.Context(), "POST", "http://localhost/mcp", body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {"application/json"}}
			if session != "" {
				r.Header.Set("MCP-Session-Id", session)
			}
			go func() { // ends with the answer
				response, err := s.http.Do(r)
				if err != nil {
					t.Error(err)
					status <- 0
					return
				}
				response.Body.Close()
				status <- response.StatusCode
			}()
		}
		post("")
		if got := <-status; got != http.StatusRequestEntityTooLarge {
			t.Errorf("without a session: %d", got)
		}
		for range 6 { // 840 KiB in total
			post(id)
			synctest.Wait() // two bodies that reach the limit together may both be rejected
		}
		if got := <-status; got != http.StatusTooManyRequests {
			t.Errorf("the sixth: %d", got)
		}
		synctest.Wait()
		if len(status) > 0 {
			t.Errorf("another body was rejected: %d", <-status)
		}
		if got := s.status("POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "MCP-Session-Id", id); got != http.StatusOK {
			t.Errorf("a message while the bodies are pending: %d", got)
		}
		end.Close()
		for range 5 {
			if got := <-status; got != http.StatusBadRequest {
				t.Errorf("an empty message: %d", got)
			}
		}
		time.Sleep(time.Second) // net/http closes connections of rejected bodies after a moment
	})
}

// An open function or a Sessions.ID that panics fails its request and leaves nothing behind.
func TestServerSurvivesPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := true
		s := &testServer{t: t, tools: newTools()}
		s.handler = streamable.NewHandler(func(r *http.Request, conn transport.Conn) {
			if panics {
				panic("no")
			}
			s.tools.open(r, conn)
		}, streamable.HandlerOptions{Limits: streamable.Limits{Sessions: 1}, Logger: slog.New(slog.DiscardHandler)})
		s.serveHTTP(plain)
		for range 3 {
			if got := s.status("POST", initialize); got != 500 {
				t.Errorf("open panics: %d", got)
			}
		}
		panics = false
		s.openSession(initialize)

		other := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{ID: func() string { panic("no") }}, Logger: slog.New(slog.DiscardHandler)})
		if got := other.status("POST", initialize); got != 500 {
			t.Errorf("SessionID panics: %d", got)
		}
	})
}

// The time to serve or reject a batch with long ids grows in proportion to its length.
func TestServerServesBatchWithManyIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initializeOld)
		var batch []string
		for n := range 300 {
			batch = append(batch, strings.Replace(call(n, "echo"), fmt.Sprintf(`"id":%d`, n), fmt.Sprintf(`"id":"%s-%d"`, strings.Repeat("x", 1000), n), 1))
		}
		stream := s.events("POST", "["+strings.Join(batch, ",")+"]", "MCP-Session-Id", id)
		if got := stream.messages(); len(got) != 300 {
			t.Errorf("%d answers", len(got))
		}
		batch[299] = batch[0]
		if got := s.status("POST", "["+strings.Join(batch, ",")+"]", "MCP-Session-Id", id); got != 400 {
			t.Errorf("with the same id twice: %d", got)
		}
		if got := s.events("POST", "["+strings.Join(batch[:299], ",")+"]", "MCP-Session-Id", id).messages(); len(got) != 299 {
			t.Errorf("the next batch: %d answers", len(got))
		}
	})
}

// Proves HTTP-09 and HTTP-44.
func TestNotificationsAndResponsesGetStatus202(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		for _, body := range []string{
			initialized, `{"jsonrpc":"2.0","id":7,"result":{}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}`,
		} {
			response := s.do("POST", body, "MCP-Session-Id", id)
			text, err := io.ReadAll(response.Body)
			if response.StatusCode != 202 || len(text) > 0 || err != nil {
				t.Errorf("%s is answered with %d and %q, %v", body, response.StatusCode, text, err)
			}
		}
		if got := s.status("GET", "body", "MCP-Session-Id", id); got != 400 {
			t.Errorf("a GET with a body: %d", got)
		}
		time.Sleep(streamable.DefaultIdleTimeout * 2)
		for _, method := range []string{"POST", "GET", "DELETE"} {
			body := map[string]string{"POST": call(1, "echo")}[method]
			if got := s.status(method, body, "MCP-Session-Id", id); got != 404 {
				t.Errorf("%s of an expired session: %d", method, got)
			}
		}
	})
}

// Proves HTTP-52.
func TestSessionBelongsToItsPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Access: streamable.Access{Principal: func(r *http.Request) (string, error) {
			if name := r.Header.Get("Authorization"); name != "" {
				return name, nil
			}
			return "", http.ErrNoCookie
		}}})
		id := s.openSession(initialize, "Authorization", "ann")
		if got := s.text(call(1, "principal"), "MCP-Session-Id", id, "Authorization", "ann"); !strings.Contains(got, `"text":"ann"`) {
			t.Errorf("the answer for ann is %s", got)
		}
		// Proves HTTP-05.
		for _, test := range []struct {
			principal string
			want      int
		}{{"bob", 404}, {"-", 401}} {
			for _, method := range []string{"POST", "GET", "DELETE"} {
				body := ""
				if method == "POST" {
					body = call(1, "principal")
				}
				if got := s.status(method, body, "MCP-Session-Id", id, "Authorization", test.principal); got != test.want {
					t.Errorf("%s by %s: %d, want %d", method, test.principal, got, test.want)
				}
			}
		}
	})
}

func TestIdleSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Timeouts: streamable.Timeouts{Idle: time.Minute}})
		idle, busy, listening := s.openSession(initialize), s.openSession(initialize), s.openSession(initialize)
		stream := s.events("POST", call(1, "wait"), "MCP-Session-Id", busy)
		stream.body.Close() // the handler continues
		standing := s.events("GET", "", "MCP-Session-Id", listening)
		go io.Copy(io.Discard, standing.body) // ends with the session
		time.Sleep(40 * time.Second)
		if got := s.status("POST", call(2, "echo"), "MCP-Session-Id", idle); got != 200 {
			t.Errorf("a session idle for 40 seconds: %d", got)
		}
		time.Sleep(40 * time.Second)
		if got := s.status("POST", call(2, "echo"), "MCP-Session-Id", idle); got != 200 {
			t.Errorf("a session used 40 seconds ago: %d", got)
		}
		time.Sleep(80 * time.Second)
		for id, want := range map[string]int{idle: 404, busy: 200, listening: 200} {
			if got := s.status("POST", call(3, "echo"), "MCP-Session-Id", id); got != want {
				t.Errorf("after IdleTimeout: %d, want %d", got, want)
			}
		}
		close(s.tools.release)
	})
}

func TestServerLimitsSessionsAndStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Limits: streamable.Limits{Sessions: 2, Streams: 3}, Access: streamable.Access{Principal: byToken}})
		a, b := s.openSession(initialize), s.openSession(initialize, "Authorization", "ben")
		held := []*events{s.events("GET", "", "MCP-Session-Id", a), s.events("GET", "", "MCP-Session-Id", b, "Authorization", "ben")}
		response := s.do("POST", initialize)
		if response.StatusCode != 503 || response.Header.Get("Retry-After") == "" {
			t.Errorf("a session above Limits.Sessions: %d, header %v", response.StatusCode, response.Header)
		}
		for _, stream := range held {
			stream.body.Close()
		}
		synctest.Wait()
		var streams []*events
		for i := range 3 {
			streams = append(streams, s.events("POST", call(i, "wait"), "MCP-Session-Id", a))
		}
		if got := s.status("POST", call(3, "echo"), "MCP-Session-Id", a); got != 429 {
			t.Errorf("a stream above MaxStreams: %d", got)
		}
		if got := s.status("POST", call(3, "echo"), "MCP-Session-Id", b, "Authorization", "ben"); got != 200 {
			t.Errorf("another session: %d", got)
		}
		close(s.tools.release)
		for i, stream := range streams {
			if diff := cmp.Diff([]string{result(i)}, stream.messages()); diff != "" {
				t.Errorf("stream %d (-want +got):\n%s", i, diff)
			}
		}
		if got := s.status("POST", call(3, "echo"), "MCP-Session-Id", a); got != 200 {
			t.Errorf("after the streams have ended: %d", got)
		}
		if got := s.status("DELETE", "", "MCP-Session-Id", b, "Authorization", "ben"); got != 204 {
			t.Errorf("delete: %d", got)
		}
		s.openSession(initialize)
	})
}

// Without sessions, Limits.Requests limits the requests that are served at once.
func TestStatelessServerLimitsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{Stateless: true, Limits: streamable.Limits{Requests: 1}, Streams: streamable.Streams{After: -1}})
		stream := s.events("POST", call(1, "wait"))
		<-s.tools.started
		if got := s.status("POST", call(2, "echo")); got != 429 {
			t.Errorf("a request above Limits.Requests: %d", got)
		}
		close(s.tools.release)
		if diff := cmp.Diff([]string{result(1)}, stream.messages()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		synctest.Wait()
		if got := s.status("POST", call(2, "echo")); got != 200 {
			t.Errorf("a request after the answer: %d", got)
		}
	})
}

// The messages pending for a session that reads nothing are limited by Limits.Queue.
//
// Proves HTTP-10.
func TestServerLimitsPendingMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan transport.Conn, 1)
		handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) { conns <- conn },
			streamable.HandlerOptions{Limits: streamable.Limits{Queue: 1000}, Timeouts: streamable.Timeouts{Stall: time.Second}})
		defer handler.Close()
		post := func(text string, header ...string) *httptest.ResponseRecorder {
			r := httptest.NewRequest("POST", "/", strings.NewReader(text))
			r.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w
		}
		opened := make(chan *httptest.ResponseRecorder, 1)
		go func() { opened <- post(initialize) }() // ends with the answer below
		conn := <-conns
		m, err := conn.Read()
		if err != nil {
			t.Fatal(err)
		}
		err = m.Reply.Answer(m.Context, []byte(
			`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		id := (<-opened).Header().Get("MCP-Session-Id")
		var got []int
		for range 20 {
			w := post(initialized, "MCP-Session-Id", id)
			if got = append(got, w.Code); w.Code == 429 {
				break
			}
		}
		if len(got) < 2 || got[0] != 202 || got[len(got)-1] != 429 {
			t.Errorf("answered with %d", got)
		}
	})
}

func TestServerRejectsRequestIDInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		stream := s.events("POST", call(1, "wait"), "MCP-Session-Id", id)
		if got := s.status("POST", call(1, "echo"), "MCP-Session-Id", id); got != 400 {
			t.Errorf("the same id: %d", got)
		}
		close(s.tools.release)
		if diff := cmp.Diff([]string{result(1)}, stream.messages()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(result(1), s.text(call(1, "echo"), "MCP-Session-Id", id)); diff != "" {
			t.Errorf("the same id again (-want +got):\n%s", diff)
		}
	})
}

func TestServerShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{})
		id := s.openSession(initialize)
		standing := s.events("GET", "", "MCP-Session-Id", id)
		stream := s.events("POST", call(1, "wait"), "MCP-Session-Id", id)
		<-s.tools.started
		done := make(chan error)
		go func() { done <- s.handler.Shutdown(testContext(t)) }() // ends with the shutdown
		synctest.Wait()
		if got := s.status("POST", initialize); got != 503 {
			t.Errorf("a new session: %d", got)
		}
		if got := s.status("POST", call(2, "echo"), "MCP-Session-Id", id); got != 503 {
			t.Errorf("a new request: %d", got)
		}
		close(s.tools.release)
		if diff := cmp.Diff([]string{result(1)}, stream.messages()); diff != "" {
			t.Errorf("the request that was being served (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string(nil), standing.messages()); diff != "" {
			t.Errorf("the standing stream (-want +got):\n%s", diff)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.handler.Shutdown(testContext(t)); err != nil {
			t.Errorf("the second Shutdown: %v", err)
		}
	})
}

// A session whose server sends messages before it answers initialize works like any other.
func TestMessageBeforeAnswerToInitialize(t *testing.T) {
	for _, test := range []struct {
		name, answer string
		status       int // of a later request
	}{
		{"result", `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`, 200},
		{"error", `{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}`, 404},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"starting"}}`
				s := &testServer{t: t, handler: streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
					go func() { // ends with the session
						defer conn.Close()
						for {
							m, err := conn.Read()
							if err != nil {
								return
							}
							m.Reply.Send(t.Context(), []byte(log))
							m.Reply.Answer(t.Context(), []byte(test.answer), nil)
						}
					}()
				}, streamable.HandlerOptions{})}
				s.serveHTTP(plain)
				response := s.do("POST", initialize)
				stream := &events{t: t, body: response.Body, r: eventstream.NewReader(response.Body, 1<<20)}
				if diff := cmp.Diff([]string{log, test.answer}, stream.messages()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				synctest.Wait()
				standing := s.do("GET", "", "MCP-Session-Id", response.Header.Get("MCP-Session-Id"))
				if standing.StatusCode != test.status {
					t.Fatalf("the standing stream: status %d, want %d", standing.StatusCode, test.status)
				}
				if test.status != 200 {
					return
				}
				if event, err := eventstream.NewReader(standing.Body, 1<<20).Next(); err != nil || event.ID == "" {
					t.Errorf("the stream begins with %+v, %v, without an event id", event, err)
				}
			})
		})
	}
}
