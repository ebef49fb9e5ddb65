package streamable_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
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

// While a server restarts, a proxy may answer in its place. Without the standing stream, the host
// would miss the server's notifications from then on.
func TestStandingStreamSurvivesAnswersOfProxy(t *testing.T) {
	page := func(status int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
		}
	}
	for name, reject := range map[string]func(http.ResponseWriter){
		"502": page(502), "521": page(521), "522": page(522), "530": page(530), "page": page(200),
		"redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://elsewhere.example/down")
			w.WriteHeader(http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				var gets atomic.Int32 // used by the server's goroutines
				f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
					if r.Method != http.MethodGet {
						return false
					}
					switch gets.Add(1) {
					case 1:
						stream(w)("data:\n\n")
					case 2, 3:
						reject(w)
					default:
						stream(w)("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
						<-r.Context().Done()
					}
					return true
				}
				changed := make(chan struct{})
				f.connect(f.options(), &session.Options{Handler: func(context.Context, *session.Request) (codec.Encoder, error) {
					close(changed)
					return nil, nil
				}})
				select {
				case <-changed:
				case <-time.After(time.Minute):
					t.Errorf("no notification after %d attempts to open the stream", gets.Load())
				}
			})
		})
	}
}
