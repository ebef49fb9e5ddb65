package loopback

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// outcome is the result of Wait.
type outcome struct {
	query url.Values
	err   error
}

// handler receives redirects.
type handler struct {
	path, port string
	accept     func(state string) bool
	outcome    chan outcome // buffers one
	requests   atomic.Int32
	received   atomic.Bool // whether a redirect was accepted
}

var noLog = log.New(io.Discard, "", 0)

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	if h.requests.Add(1) > maxRequests {
		h.end(outcome{err: errTooManyRequests})
	}
	query, ok := h.redirected(r)
	if !ok || h.received.Swap(true) {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, page("This request does not belong to a login"))
		return
	}
	text := "You are logged in"
	if query.Has("error") {
		text = "The login has failed"
	}
	io.WriteString(w, page(text))
	h.end(outcome{query: query})
}

// end makes Wait return. Only the first call has an effect.
func (h *handler) end(o outcome) {
	select {
	case h.outcome <- o:
	default:
	}
}

// redirected returns the query of r if it is the redirect of this authorization. It compares the
// host, because another site can give a domain name the address of this machine (DNS rebinding).
func (h *handler) redirected(r *http.Request) (query url.Values, ok bool) {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = r.Host, "80"
	}
	_, own := loopbackAddress(strings.Trim(host, "[]"))
	if r.Method != http.MethodGet || r.URL.Path != h.path || !own || port != h.port {
		return nil, false
	}
	return accepted(r.URL.RawQuery, h.accept)
}

// accepted parses the query of a redirect. ok is false if the query is malformed, repeats a
// parameter, or belongs to another authorization.
func accepted(raw string, accept func(state string) bool) (query url.Values, ok bool) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, false
	}
	for _, values := range query {
		if len(values) != 1 {
			return nil, false
		}
	}
	return query, accept(query.Get("state"))
}

func page(text string) string {
	return "<!doctype html><html lang=en><title>" + text + "</title><p>" + text + ". You can close this page.</p></html>\n"
}
