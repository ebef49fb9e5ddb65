package streamable

import (
	"net/http"

	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// Protect returns a handler that passes to next the requests that a [Handler] with these Origins
// and Hosts admits, and rejects the others with status 403: those of foreign web pages, and those
// for foreign host names (MCP transports, "Security Warning"). It answers preflight requests of
// admitted pages. It ignores the other options. Use it for other endpoints of the same server, or
// in front of a Handler.
func Protect(next http.Handler, o HandlerOptions) http.Handler {
	g := &guard.Guard{Origins: o.Access.Origins, Hosts: o.Access.Hosts, Methods: "GET, POST, DELETE", Logger: o.Logger}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := g.Admit(w, r); ok {
			next.ServeHTTP(w, r)
		}
	})
}
