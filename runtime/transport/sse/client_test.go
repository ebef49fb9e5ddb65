package sse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
)

// startServer starts a server that sends text on its stream and passes POSTs to post. The stream
// ends when end is closed.
func startServer(t *testing.T, text string, post http.HandlerFunc) (serverURL string, end chan struct{}) {
	end = make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /a/sse", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		fmt.Fprint(w, strings.ReplaceAll(text, "HOST", r.Host))
		w.(http.Flusher).Flush()
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("POST /", post)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/a/sse", end
}

func TestClientPostsToEndpoint(t *testing.T) {
	// Proves LEGACY-04.
	for _, test := range []struct{ name, event, want string }{
		{"relative to the stream", "event: endpoint\ndata: post?s=1\n\n", "/a/post?s=1"},
		{"query only", "event: endpoint\ndata: ?s=1\n\n", "/a/sse?s=1"},
		{"absolute path", ": hello\n\nretry: 10\nevent: endpoint\r\ndata: /post?s=1\r\n\r\n", "/post?s=1"},
		{"after events without data", "retry: 10\n\nid: 1\ndata:\n\nevent: endpoint\ndata: /post\n\n", "/post"},
		{"absolute URL", "event: endpoint\ndata: http://HOST/post\n\n", "/post"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := make(chan string, 10)
			u, end := startServer(t, test.event+"data: {\"a\":1}\n\nevent: other\ndata: {\"a\":2}\n\ndata: {\"a\":3}\n\n", func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got <- r.URL.String() + " " + r.Header.Get("Content-Type") + " " + string(body)
				if strings.Contains(string(body), "bad") {
					http.Error(w, "no", http.StatusBadRequest)
				}
			})
			c := dial(t, u, httpclient.Options{})
			for _, text := range []string{`{"jsonrpc":"2.0","method":"x"}`, `{"jsonrpc":"2.0","id":7,"method":"bad"}`} {
				if err := c.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff(test.want+" application/json "+text, <-got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			var messages []string
			for range 3 {
				m, err := c.Read()
				if lost, ok := errors.AsType[*transport.DeliveryError](err); ok {
					status, _ := errors.AsType[*httpclient.StatusError](lost)
					if status == nil || status.Code != 400 || lost.ID.String() != "7" {
						t.Errorf("lost: %v", lost)
					}
					continue
				}
				messages = append(messages, string(m.Text))
			}
			if diff := cmp.Diff([]string{`{"a":1}`, `{"a":3}`}, messages); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			close(end)
			if _, err := c.Read(); !errors.Is(err, transport.ErrClosed) {
				t.Errorf("Read after the end of the stream: %v", err)
			}
			if err := c.Write(t.Context(), transport.Message{Text: []byte(`{}`)}); !errors.Is(err, transport.ErrClosed) {
				t.Errorf("Write after the end of the stream: %v", err)
			}
		})
	}
}

// The query of the URL to post to identifies the session and is secret. The query of the user's URL
// may be secret, too.
func TestErrorsOmitQuery(t *testing.T) {
	for name, o := range map[string]httpclient.Options{
		"default transport":        {},
		"http.Client with headers": {Header: http.Header{"X-A": {"b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			u, _ := startServer(t, "event: endpoint\ndata: /post?s=secret\n\n", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
			c := dial(t, u+"?key=secret", o)
			if err := c.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"x"}`)}); err != nil {
				t.Error(err)
			}
			_, err := c.Read()
			if lost, ok := errors.AsType[*transport.DeliveryError](err); !ok || !strings.Contains(err.Error(), "/post: ") || strings.Contains(err.Error(), "secret") {
				t.Errorf("lost: %v, %v", lost, err)
			}
			o := o
			o.HTTP = &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
			}}}
			if _, err := sse.Dial(t.Context(), u+"?key=secret", o); err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "secret") {
				t.Errorf("an unreachable server: %v", err)
			}
		})
	}
}

// The server has the request although its response to the POST is lost. The call continues.
func TestCallSurvivesLostPostResponse(t *testing.T) {
	posted := make(chan bool, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sse", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: /post\n\n")
		w.(http.Flusher).Flush()
		<-posted
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("POST /post", func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		posted <- true
		panic(http.ErrAbortHandler)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c := dial(t, server.URL+"/sse", httpclient.Options{})
	if err := c.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","id":7,"method":"x"}`)}); err != nil {
		t.Error(err)
	}
	if m, err := c.Read(); err != nil || string(m.Text) != `{"jsonrpc":"2.0","id":7,"result":{}}` {
		t.Errorf("got %s, %v", m.Text, err)
	}
}

// An answer that is too long fails its request at once, at any position of its id.
func TestOverlongAnswerFailsItsCall(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for _, answer := range []string{
		`{"jsonrpc":"2.0","id":7,"result":{"x":"` + long + `"}}`,
		`{"result":{"x":"` + long + `"},"jsonrpc":"2.0","id":7}`,
	} {
		posted := make(chan bool, 1)
		mux := http.NewServeMux()
		mux.HandleFunc("GET /sse", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: endpoint\ndata: /post\n\n")
			w.(http.Flusher).Flush()
			<-posted
			fmt.Fprintf(w, "data: %s\n\n", answer)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		mux.HandleFunc("POST /post", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			posted <- true
		})
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		c := dial(t, server.URL+"/sse", httpclient.Options{Limits: httpclient.Limits{Message: 5000}})
		if err := c.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","id":7,"method":"x"}`)}); err != nil {
			t.Error(err)
		}
		_, err := c.Read()
		if lost, ok := errors.AsType[*transport.DeliveryError](err); !ok || lost.ID != codec.IntScalar(7) || !errors.Is(err, transport.ErrTooLong) {
			t.Errorf("%.20s: got %v", answer, err)
		}
	}
}

func TestClientRepeatsInitializedUntilAccepted(t *testing.T) {
	const ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	posts, taken := 0, make(chan bool, 1)
	u, _ := startServer(t, "event: endpoint\ndata: /post\n\n", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != ready {
			t.Errorf("got %s", body)
		}
		switch posts++; posts {
		case 1:
			panic(http.ErrAbortHandler)
		case 2, 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 4:
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		default:
			taken <- true
		}
	})
	c := dial(t, u, httpclient.Options{Retries: httpclient.Retries{Delay: time.Millisecond, MaxDelay: time.Millisecond}})
	if err := c.Write(t.Context(), transport.Message{Text: []byte(ready)}); err != nil {
		t.Error(err)
	}
	<-taken
}

func TestDialFails(t *testing.T) {
	for _, test := range []struct {
		name, stream string
		want         error
	}{
		{"another event first", "data: {}\n\n", sse.ErrEndpoint},
		{"endpoint on another host", "event: endpoint\ndata: http://elsewhere.example/post\n\n", sse.ErrEndpoint},
		{"endpoint with another scheme", "event: endpoint\ndata: https://HOST/post\n\n", sse.ErrEndpoint},
		{"malformed endpoint", "event: endpoint\ndata: http://[/\n\n", sse.ErrEndpoint},
		{"no event", "", context.DeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			u, _ := startServer(t, test.stream, http.NotFound)
			timeout := time.Minute // longer than the other failures take
			if test.want == context.DeadlineExceeded {
				timeout = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			if _, err := sse.Dial(ctx, u, httpclient.Options{}); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	t.Run("rejected with a status", func(t *testing.T) {
		u, _ := startServer(t, "", http.NotFound)
		_, err := sse.Dial(t.Context(), u+"/other", httpclient.Options{})
		if status, ok := errors.AsType[*httpclient.StatusError](err); !ok || status.Code/100 != 4 {
			t.Errorf("got %v", err)
		}
	})
	for _, u := range []string{"", "server.example", "ftp://server.example/", "http:///x", ":"} {
		if _, err := sse.Dial(t.Context(), u, httpclient.Options{}); err == nil {
			t.Errorf("%q is accepted as a URL", u)
		}
	}
}

func TestClientSendsNegotiatedRevision(t *testing.T) {
	got := make(chan string, 10)
	initialized := `{"jsonrpc":"2.0","id":"h","result":{"protocolVersion":"2024-11-05"}}`
	answers := make(chan bool)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sse", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: /post\n\n")
		w.(http.Flusher).Flush()
		<-answers
		fmt.Fprintf(w, "data: %s\n\n", initialized)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("POST /post", func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("MCP-Protocol-Version")
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c := dial(t, server.URL+"/sse", httpclient.Options{})
	for _, text := range []string{`{"jsonrpc":"2.0","id":"h","method":"initialize"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`} {
		m, err := jsonrpc.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
			t.Error(err)
		}
		want := ""
		if m.Kind == jsonrpc.KindNotification {
			want = "2024-11-05"
		}
		if version := <-got; version != want {
			t.Errorf("%s is sent with %q, want %q", m.Method, version, want)
		}
		if want == "" {
			close(answers)
			if _, err := c.Read(); err != nil {
				t.Error(err)
			}
		}
	}
}
