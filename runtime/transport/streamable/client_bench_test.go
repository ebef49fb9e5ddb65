package streamable_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// echoServer answers every request, as JSON or as a stream, with as little work as possible.
func echoServer(b *testing.B, events bool) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			b.Error(err)
		}
		m, err := jsonrpc.Parse(body, codec.NoCopy())
		if err != nil || m.Kind != jsonrpc.KindRequest {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := `{"content":[{"type":"text","text":"hello"}]}`
		if m.Method == "initialize" {
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
		}
		if events {
			w.Header()["Content-Type"] = []string{"text/event-stream"}
			fmt.Fprintf(w, "id: 1\ndata:\n\nid: 2\ndata: %s\n\n", response(m, result))
			return
		}
		w.Header()["Content-Type"] = []string{"application/json"}
		fmt.Fprint(w, response(m, result))
	}))
	b.Cleanup(server.Close)
	return server.URL
}

func BenchmarkClient(b *testing.B) {
	params := session.Raw(`{"name":"greet","arguments":{"name":"world"}}`)
	for _, kind := range []string{"JSON", "stream"} {
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d", kind, callers), func(b *testing.B) {
				c, err := streamable.Dial(echoServer(b, kind == "stream"), streamable.ClientOptions{})
				if err != nil {
					b.Fatal(err)
				}
				s, err := session.Connect(b.Context(), c, nil, nil)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				b.ReportAllocs()
				inParallel(b, callers, func() error {
					_, err := s.Call(b.Context(), "tools/call", params)
					return err
				})
			})
		}
	}
}

// BenchmarkPlain measures the same exchange with net/http alone.
func BenchmarkPlain(b *testing.B) {
	text := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"world"}}}`)
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			serverURL := echoServer(b, false)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			inParallel(b, callers, func() error {
				resp, err := client.Post(serverURL, "application/json", bytes.NewReader(text))
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				_, err = io.Copy(io.Discard, resp.Body)
				return err
			})
		})
	}
}

// inParallel distributes the calls of a benchmark over callers goroutines.
func inParallel(b *testing.B, callers int, call func() error) {
	left := make(chan struct{})
	done := make(chan bool)
	for range callers {
		go func() { // ends when left is closed
			defer func() { done <- true }()
			for range left {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	for range callers {
		<-done
	}
}
