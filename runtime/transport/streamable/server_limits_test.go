package streamable_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// limited is a server with limits, and what its clients do in the sessions of a revision or
// without.
type limited struct {
	*testServer
	sessionless bool
	ids         map[string]string // of the session of each client
	calls       atomic.Int64
	more        []string // header fields
}

// post calls a tool as a client, which is a principal and an address, with size more bytes of
// arguments.
func (x *limited) post(client, tool string, size int) *http.Response {
	x.t.Helper()
	body, header := longCall(1, tool, size), append([]string{"Authorization", client, "X-Address", client}, x.more...)
	if x.sessionless {
		body = strings.Replace(body, `"_meta":{"progressToken":1}`, metaOf("2026-07-28", 1), 1)
		return x.do("POST", body, callHeader(tool, header...)...)
	}
	body = strings.Replace(body, `"id":1`, fmt.Sprintf(`"id":%d`, x.calls.Add(1)), 1) // the ids of a session differ
	return x.do("POST", body, append(header, "MCP-Session-Id", x.ids[client])...)
}

// expect calls a tool, and checks the status of the response. That of a rejected call has the code
// of an overloaded server in the revision, and asks the client to try again.
func (x *limited) expect(step, client string, size, status int) {
	x.t.Helper()
	synctest.Wait()
	r := x.post(client, "echo", size)
	text, err := io.ReadAll(r.Body)
	rejected := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	if r.StatusCode != status || rejected != strings.Contains(string(text), x.overloaded()) || rejected != (r.Header.Get("Retry-After") == "1") || err != nil {
		x.t.Errorf("%s: %d %v %.200s, %v, want %d", step, r.StatusCode, r.Header, text, err, status)
	}
}

func (x *limited) overloaded() string {
	if x.sessionless {
		return `"code":-31050`
	}
	return `"code":-32050`
}

// hold calls a tool that waits, as a client that disconnects only at the end.
func (x *limited) hold(client string, size int) {
	x.t.Helper()
	go func() { // ends with the tool
		io.Copy(io.Discard, x.post(client, "wait", size).Body)
	}()
	<-x.tools.started
}

// Each limit means the same in sessions and without them: the same clients get the same statuses.
func TestLimitsHoldInBothEras(t *testing.T) {
	const kilo = 1 << 10
	clients := []string{"203.0.113.7", "203.0.113.99", "198.51.100.1", "192.0.2.1"}
	ann, near, ben, eve := clients[0], clients[1], clients[2], clients[3] // ann and near share a network
	users := streamable.Access{Principal: byToken}
	for _, row := range []struct {
		name string
		o    streamable.HandlerOptions
		test func(x *limited)
	}{
		{"bytes of a message", streamable.HandlerOptions{Access: users, Limits: streamable.Limits{Message: 20 * kilo, Initialize: 10 * kilo}}, func(x *limited) {
			x.expect("a message that fits", ann, 15*kilo, 200)
			x.expect("a longer one", ann, 20*kilo, 413)
			time.Sleep(time.Second) // net/http closes connections of rejected bodies after a moment
		}},
		{"requests of a principal", streamable.HandlerOptions{Access: users, Limits: streamable.Limits{RequestsPerPrincipal: 2}}, func(x *limited) {
			x.hold(ann, 0)
			x.hold(ann, 0)
			x.expect("a request more", ann, 0, 429)
			x.expect("another principal", ben, 0, 200)
			close(x.tools.release)
			x.expect("afterwards", ann, 0, 200)
		}},
		{"requests of all", streamable.HandlerOptions{Access: users, Limits: streamable.Limits{Requests: 3, RequestsPerPrincipal: 2}}, func(x *limited) {
			x.hold(ann, 0)
			x.hold(ann, 0)
			x.hold(ben, 0)
			x.expect("another principal", eve, 0, 503)
			x.expect("a principal with room", ben, 0, 503)
			x.expect("a principal without room", ann, 0, 429)
			close(x.tools.release)
			x.expect("afterwards", eve, 0, 200)
		}},
		{"requests of a network", streamable.HandlerOptions{Access: streamable.Access{ClientAddress: byAddress}, Limits: streamable.Limits{Requests: 4}}, func(x *limited) {
			x.hold(ann, 0)
			x.hold(near, 0)
			x.expect("a request more", ann, 0, 429)
			x.expect("a neighbour", near, 0, 429)
			x.expect("another network", ben, 0, 200)
			close(x.tools.release)
			x.expect("afterwards", ann, 0, 200)
		}},
		{"requests in sessions and without them", streamable.HandlerOptions{Access: users, Limits: streamable.Limits{RequestsPerPrincipal: 2}}, func(x *limited) {
			x.hold(ann, 0)
			x.sessionless = !x.sessionless
			x.hold(ann, 0)
			x.expect("a request more", ann, 0, 429)
			close(x.tools.release)
			x.expect("afterwards", ann, 0, 200)
		}},
		{"bytes of requests", streamable.HandlerOptions{Access: users, Limits: streamable.Limits{Message: 50 * kilo, Initialize: 10 * kilo}}, func(x *limited) {
			for range 5 { // 200 KiB have room, apart from the first 10 KiB of each
				x.hold(ann, 45*kilo)
			}
			x.expect("a message without room", ann, 45*kilo, 429)
			x.expect("a short message", ann, 5*kilo, 200)
			x.expect("another principal", ben, 45*kilo, 200)
			close(x.tools.release)
			x.expect("afterwards", ann, 45*kilo, 200)
			time.Sleep(time.Second) // net/http closes connections of rejected bodies after a moment
		}},
		{"bytes of answers that are not read", streamable.HandlerOptions{Access: users, Limits: streamable.Limits{Message: 50 * kilo, Initialize: 10 * kilo}, Timeouts: streamable.Timeouts{Stall: time.Minute}}, func(x *limited) {
			for range 5 {
				x.post(ann, "echo", 45*kilo)
				synctest.Wait()
			}
			if text, err := io.ReadAll(x.post(ann, "echo", 15*kilo).Body); err != nil || !strings.Contains(string(text), x.overloaded()) {
				x.t.Errorf("a long answer: %.200s, %v", text, err)
			}
			x.expect("a short answer", ann, 0, 200)
			x.expect("another principal", ben, 45*kilo, 200)
			time.Sleep(2 * time.Minute) // the connections are closed after Timeouts.Stall
			x.expect("afterwards", ann, 15*kilo, 200)
		}},
		{"header", streamable.HandlerOptions{Access: users}, func(x *limited) {
			x.expect("a short header", ann, 0, 200)
			x.more = []string{"X-Long", strings.Repeat("x", 70*kilo)}
			x.expect("a long header", ann, 0, 431)
		}},
	} {
		for _, sessionless := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, sessionless %v", row.name, sessionless), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x := &limited{testServer: serveModern(t, row.o), sessionless: sessionless, ids: map[string]string{}}
					for _, client := range clients {
						x.ids[client] = x.openSession(initialize, "Authorization", client, "X-Address", client)
					}
					synctest.Wait()
					row.test(x)
				})
			})
		}
	}
}
