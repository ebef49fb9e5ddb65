package streamable_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// Many servers lose the messages that they send before the standing stream is open. The client
// therefore opens it before it sends further requests.
func TestRequestsWaitForStandingStream(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusMethodNotAllowed} {
		var mu sync.Mutex
		var got []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			got = append(got, r.Method)
			mu.Unlock()
			switch {
			case r.Method == http.MethodGet && status == http.StatusOK:
				w.Header().Set("Content-Type", "text/event-stream")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			case r.Method == http.MethodGet:
				w.WriteHeader(status)
			case strings.Contains(string(body), `"initialize"`):
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)
			case strings.Contains(string(body), `"ping"`):
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":2,"result":{}}`)
			default:
				w.WriteHeader(http.StatusAccepted)
			}
		}))
		conn, err := streamable.Dial(s.URL, streamable.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := session.Connect(t.Context(), conn, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		mu.Lock()
		if want := []string{"POST", "POST", "GET", "POST"}; !slices.Equal(got, want) {
			t.Errorf("status %d: got %q, want %q", status, got, want)
		}
		mu.Unlock()
		c.Close()
		s.Close()
	}
}
