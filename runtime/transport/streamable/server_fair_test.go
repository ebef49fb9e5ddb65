package streamable_test

import (
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// byAddress returns the field X-Address as the address of the client.
func byAddress(r *http.Request) netip.Addr {
	a, _ := netip.ParseAddr(r.Header.Get("X-Address"))
	return a
}

// Clients without a principal have the limits of one for each network, so that one stranger takes
// neither all places of modern requests nor all sessions.
func TestStrangersCannotTakeAllPlaces(t *testing.T) {
	const eve, mallory, ann = "203.0.113.7", "203.0.113.99", "198.51.100.1" // eve and mallory share a network
	synctest.Test(t, func(t *testing.T) {
		s := serveModern(t, streamable.HandlerOptions{Limits: streamable.Limits{Sessions: 3, Requests: 3}, Access: streamable.Access{ClientAddress: byAddress}})
		done := make(chan string, 3)
		begin := func(from string) {
			go func() { done <- s.text(modernCall(1, "wait"), callHeader("wait", "X-Address", from)...) }() // ends when the tool is released
			<-s.tools.started
		}
		begin(eve)
		begin(mallory)
		if status := s.status("POST", modernCall(2, "echo"), callHeader("echo", "X-Address", eve)...); status != 429 {
			t.Errorf("one network has more than its share: status %d", status)
		}
		begin(ann)
		close(s.tools.release)
		for range 3 {
			if got := <-done; got != result(1) {
				t.Errorf("got %s", got)
			}
		}
		id := s.openSession(initialize, "X-Address", ann)
		for range 5 {
			s.openSession(initialize, "X-Address", eve)
		}
		if got := s.text(call(3, "echo"), "MCP-Session-Id", id, "X-Address", ann); got != result(3) {
			t.Errorf("the session of another network: %s", got)
		}
		if got := s.text(call(4, "echo"), "MCP-Session-Id", id, "X-Address", eve); got != result(4) {
			t.Errorf("a client that has moved to another network: %s", got)
		}
	})
}

// Clients whose network is unknown share the limits of all, because a proxy may be between them and
// the server.
func TestUnknownNetworksShareAllPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveModern(t, streamable.HandlerOptions{Limits: streamable.Limits{Sessions: 3, SessionsPerPrincipal: 2, RequestsPerPrincipal: 2}})
		var ids []string
		for range 3 {
			ids = append(ids, s.openSession(initialize))
		}
		for _, id := range ids {
			if got := s.text(call(3, "echo"), "MCP-Session-Id", id); got != result(3) {
				t.Errorf("got %s", got)
			}
		}
	})
}
