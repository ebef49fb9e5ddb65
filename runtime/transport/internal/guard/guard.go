// Package guard is what stands in front of the HTTP transports: which requests are let in, on whose authority, and how
// the others are refused (MCP transports, "Security Warning").
package guard

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Guard decides about requests. It must not be changed while it is in use.
type Guard struct {
	// Origins are the origins of web pages elsewhere that may use the server, such as "https://app.example.com";
	// "*" stands for all. Their browsers are told so (CORS).
	Origins []string

	// Hosts are the names by which the server is called, without a port. If there are none, a connection that
	// comes in over a loopback address must call the server by a loopback name; others may use any.
	Hosts []string

	// Methods are the HTTP methods of the endpoint, such as "GET, POST".
	Methods string

	// Principal returns the principal of a request. If it is nil, all requests have the same
	// principal.
	Principal func(*http.Request) (string, error)

	// Logger receives the panics of Principal.
	Logger *slog.Logger
}

// Admit lets a request in, with a context that has the values of the request's and the principal, and no end. Otherwise
// it has answered: with 204 to the preflight request of a browser that may go on, with 403 to a request of a
// foreign page or for a foreign name, and with 401 to one without a principal.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request) (ctx context.Context, ok bool) {
	if !g.host(r) {
		Refuse(w, http.StatusForbidden, jsonrpc.CodeInvalidRequest, "the server is not called "+printable(r.Host))
		return nil, false
	}
	if origins := r.Header["Origin"]; len(origins) > 0 {
		if len(origins) > 1 || !g.origin(r, origins[0]) {
			Refuse(w, http.StatusForbidden, jsonrpc.CodeInvalidRequest, "origin not allowed: "+printable(origins[0]))
			return nil, false
		}
		g.share(w, origins[0])
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			w.WriteHeader(http.StatusNoContent)
			return nil, false
		}
	} else if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" && !slices.Contains(g.Origins, "*") {
		// An image or a link of another page: the browser does not name the origin of those.
		Refuse(w, http.StatusForbidden, jsonrpc.CodeInvalidRequest, "the request of another site has no origin")
		return nil, false
	}
	ctx = context.WithoutCancel(r.Context())
	if g.Principal == nil {
		return ctx, true
	}
	principal, err := g.principal(r)
	if err != nil {
		g.refusePrincipal(w, err)
		return nil, false
	}
	return transport.WithPrincipal(ctx, principal), true
}

func (g *Guard) principal(r *http.Request) (principal string, err error) {
	defer boundary.Catch(&err)
	return g.Principal(r)
}

// refusePrincipal answers a request whose principal is not known because of err.
func (g *Guard) refusePrincipal(w http.ResponseWriter, err error) {
	if boundary.Report(boundary.Logger(g.Logger), "Principal panicked", err) {
		Refuse(w, http.StatusInternalServerError, jsonrpc.CodeInternalError, "internal error: the principal is not known")
		return
	}
	challenge := "Bearer"
	if e, ok := errors.AsType[*transport.ChallengeError](err); ok && e.Challenge != "" {
		challenge = e.Challenge
	}
	w.Header().Set("WWW-Authenticate", challenge)
	Refuse(w, http.StatusUnauthorized, jsonrpc.CodeInvalidRequest, "not authorized: "+boundary.ErrorText(err))
}

// host reports whether a request calls the server by a name that it has. A page can make its own name lead to the
// address of a server that is not public (DNS rebinding), but it cannot make the browser call the server by
// another name than that of the page.
func (g *Guard) host(r *http.Request) bool {
	name := hostname(r.Host)
	if len(g.Hosts) > 0 {
		return slices.ContainsFunc(g.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
	}
	return !overLoopback(r) || isLoopback(name)
}

// origin reports whether a page of that origin may use the server: one that is listed, one that the server itself
// delivers, under a name that is surely its own, and on a loopback connection one of the same machine.
func (g *Guard) origin(r *http.Request, origin string) bool {
	if slices.ContainsFunc(g.Origins, func(o string) bool { return o == "*" || strings.EqualFold(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	if overLoopback(r) && isLoopback(u.Hostname()) {
		return true
	}
	if !strings.EqualFold(u.Host, r.Host) || u.Scheme != "https" && overTLS(r) {
		return false
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil || len(g.Hosts) > 0 // an address needs no name that could be changed
}

// share tells the browser what a page may do.
func (g *Guard) share(w http.ResponseWriter, origin string) {
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Methods", g.Methods)
	h.Set("Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, MCP-Session-Id")
	h.Set("Access-Control-Expose-Headers", "MCP-Session-Id, WWW-Authenticate")
	h.Set("Access-Control-Max-Age", "600")
}

// overTLS reports whether the client has used TLS, as far as that is known: it may have used it with a proxy in front of
// the server. A page that anybody on the way can change must not speak for one that came over TLS.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// overLoopback reports whether a request came in over a loopback address.
func overLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && isLoopback(hostname(addr.String()))
}

// isLoopback reports whether a name or an address means the same machine.
func isLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// hostname takes the port and the brackets away.
func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// printable is a text of the peer as it may be shown: its beginning, without characters that are not.
func printable(s string) string {
	if len(s) > 100 {
		s = s[:100]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
