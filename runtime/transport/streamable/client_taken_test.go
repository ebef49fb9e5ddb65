package streamable_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// The error of a lost request says whether the server may have received it: a host that sends such a
// request again could have its effect twice.
func TestLostRequestSaysWhetherServerHasIt(t *testing.T) {
	const begun = "id: 1\ndata:\n\n"
	for _, test := range []struct {
		name           string
		serve          func(w http.ResponseWriter, m jsonrpc.Message)
		resume         int  // the status of an attempt to resume the stream; 0 if there is no server any more
		taken, refused bool // of the error
	}{
		{"resumption rejected", func(w http.ResponseWriter, _ jsonrpc.Message) { stream(w)(begun) }, http.StatusBadRequest, true, false},
		{"no resumption", func(w http.ResponseWriter, _ jsonrpc.Message) { stream(w)(begun) }, http.StatusMethodNotAllowed, true, false},
		{"server gone", func(w http.ResponseWriter, _ jsonrpc.Message) { stream(w)(begun) }, 0, true, false},
		{"answer too long", func(w http.ResponseWriter, m jsonrpc.Message) {
			stream(w)("data: %s\n\n", response(m, `{"x":"`+strings.Repeat("x", 5000)+`"}`))
		}, 0, true, false},
		{"gateway timeout", func(w http.ResponseWriter, _ jsonrpc.Message) { w.WriteHeader(http.StatusGatewayTimeout) }, 0, true, false},
		{"server failed", func(w http.ResponseWriter, _ jsonrpc.Message) { w.WriteHeader(http.StatusInternalServerError) }, 0, true, false},
		{"connection of a gateway lost", func(w http.ResponseWriter, _ jsonrpc.Message) { w.WriteHeader(http.StatusServiceUnavailable) }, 0, true, false},
		{"unavailable", func(w http.ResponseWriter, _ jsonrpc.Message) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, 0, false, false},
		{"not implemented", func(w http.ResponseWriter, _ jsonrpc.Message) { w.WriteHeader(http.StatusNotImplemented) }, 0, false, true},
		{"rejected", func(w http.ResponseWriter, _ jsonrpc.Message) { w.WriteHeader(http.StatusForbidden) }, 0, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) { test.serve(w, m) }
				f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
					if r.Method == http.MethodGet {
						w.WriteHeader(test.resume)
						return true
					}
					return false
				}
				o := f.options()
				o.NoListen, o.Limits.Message = true, 4000
				if transport := f.client.Transport; test.resume == 0 {
					o.HTTP = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
						if r.Method == http.MethodGet {
							return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
						}
						return transport.RoundTrip(r)
					})}
				}
				_, err := f.connect(o, nil).With(session.Timeout(0)).Call(t.Context(), "tools/call", nil)
				lost, ok := errors.AsType[*transport.DeliveryError](err)
				if !ok || lost.Taken != test.taken || lost.Refused != test.refused {
					t.Errorf("got %+v, want Taken %v, Refused %v", err, test.taken, test.refused)
				}
			})
		})
	}
}
