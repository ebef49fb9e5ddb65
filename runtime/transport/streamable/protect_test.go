package streamable_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

func TestProtectRejectsForeignOriginsAndHosts(t *testing.T) {
	served := 0
	h := streamable.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }), streamable.HandlerOptions{
		Access: streamable.Access{Origins: []string{"https://app.example.com"}},
	})
	for _, test := range []struct {
		host, origin string
		status       int
	}{
		{"localhost:9000", "", 200},
		{"localhost:9000", "http://localhost:5173", 200},
		{"localhost:9000", "https://app.example.com", 200},
		{"localhost:9000", "https://evil.example.com", 403},
		{"localhost:9000", "null", 403},
		{"evil.example.com", "", 403},
	} {
		r := httptest.NewRequest("POST", "http://"+test.host+"/", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9000}))
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		before, w := served, httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.status || (served > before) != (test.status == 200) {
			t.Errorf("host %s, origin %q: got %d", test.host, test.origin, w.Code)
		}
	}
}
