package streamable_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

func TestCloseDeletesSession(t *testing.T) {
	// Proves HTTP-46.
	for _, test := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request)
		id     bool
		most   time.Duration
		want   []string
	}{
		{"200", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }, true, 0, []string{"DELETE s1 2025-11-25"}},
		{"405", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(405) }, true, 0, []string{"DELETE s1 2025-11-25"}},
		{"500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, true, 0, []string{"DELETE s1 2025-11-25"}},
		{"no response", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, true, time.Second, []string{"DELETE s1 2025-11-25"}},
		{"no session id", nil, false, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				f.noID = !test.id
				f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
					if r.Method != "DELETE" {
						return false
					}
					test.answer(w, r)
					return true
				}
				s := f.connect(f.options(), nil)
				start := time.Now()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if d := time.Since(start); d > test.most {
					t.Errorf("Close took %v, want at most %v", d, test.most)
				}
				check(t, "requests", test.want, f.takeLog())
			})
		})
	}
}

func TestCloseEndsAllExchanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.call = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
			if m.Method == "tools/list" { // never answered
				<-r.Context().Done()
				return
			}
			send := stream(w)
			send("id: 1\ndata: %s\n\n", `{"jsonrpc":"2.0","id":"q","method":"ping"}`)
			<-r.Context().Done()
		}
		f.other = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
			if r.Method != "DELETE" {
				<-r.Context().Done()
			}
			return r.Method != "DELETE"
		}
		c := f.dial(f.options())
		for _, text := range []string{
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`,
			`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
			`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`,
			`{"jsonrpc":"2.0","id":"x","result":{}}`,
		} {
			if err := c.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		done := make(chan error)
		go func() {
			done <- c.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"hangs"}`)})
		}()
		synctest.Wait()
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("Close took %v", d)
		}
		if err := <-done; err != transport.ErrClosed {
			t.Errorf("a blocked Write ends with %v", err)
		}
		if _, err := c.Read(); err != transport.ErrClosed {
			t.Errorf("Read after Close: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// In a network outage, no message is accepted or rejected. The session continues afterwards.
func TestClientOutlivesNetworkOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		s := f.connect(f.options(), &session.Options{})
		var outage atomic.Bool
		f.other = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
			if outage.Load() && r.Method == "POST" {
				<-r.Context().Done()
			}
			return false
		}
		outage.Store(true)
		for range 5 {
			start := time.Now()
			if err := s.Notify(t.Context(), "notifications/roots/list_changed", nil); err != nil || time.Since(start) != transport.DefaultStallTimeout {
				t.Errorf("got %v after %v", err, time.Since(start))
			}
		}
		outage.Store(false)
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestClientLimitsPendingMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		o := f.options()
		o.Limits.Queue = 1000
		unblock := make(chan bool)
		real := f.client.Transport
		o.HTTP = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			select {
			case <-unblock:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			return real.RoundTrip(r)
		})}
		c := f.dial(o)
		write := func(id string) chan error {
			done := make(chan error, 1)
			go func() {
				done <- c.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)})
			}()
			synctest.Wait()
			return done
		}
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			if done := write(id); len(done) != 1 {
				t.Errorf("request %s waits for room", id)
			}
		}
		late := write("6")
		if len(late) != 0 {
			t.Error("request 6 did not wait for room")
		}
		unblock <- true
		synctest.Wait()
		if len(late) != 1 {
			t.Error("a request that was sent did not free its room")
		}
		start := time.Now()
		if err := <-write("7"); err != transport.ErrStalled || time.Since(start) != transport.DefaultStallTimeout {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		c.Close()
	})
}

func TestClientFallsBackToSSE(t *testing.T) {
	// Proves LEGACY-05, LEGACY-06, LEGACY-07 and SDK-20.
	for status, falls := range map[int]bool{400: true, 404: true, 405: true, 401: false, 403: false, 406: false, 415: false, 500: false, 501: false} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				answers := make(chan string, 10)
				f.initialize = func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == "/post" {
						answers <- `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"old","version":"1"}}}`
						w.WriteHeader(http.StatusAccepted)
					} else {
						w.WriteHeader(status)
					}
					return true
				}
				f.noID = true
				f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
					if r.Method != "GET" {
						return false
					}
					send := stream(w)
					send("event: endpoint\ndata: post\n\n")
					for {
						select {
						case text := <-answers:
							send("event: message\ndata: %s\n\n", text)
						case <-r.Context().Done():
							return true
						}
					}
				}
				f.call = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
					answers <- response(m, `{}`)
					w.WriteHeader(http.StatusAccepted)
				}
				s, err := session.Connect(t.Context(), f.dial(f.options()), &mcp.InitializeRequestParams{}, nil)
				if !falls {
					if err == nil {
						t.Error("connected")
					}
					check(t, "requests", []string{"POST initialize"}, f.takeLog())
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Ping(t.Context()); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				check(t, "requests", []string{
					"POST initialize", "GET", "POST initialize",
					"POST notifications/initialized 2024-11-05", "POST ping 2024-11-05",
				}, f.takeLog())
			})
		})
	}
}

func TestFailedFallbackReturnsFirstStatus(t *testing.T) {
	for _, get := range []connection{{status: 404}, {text: "data: {}\n\n"}, {text: ""}, {text: "event: endpoint\ndata: http://elsewhere.example/\n\n"}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeServer(t)
			f.noID = true
			f.initialize = func(w http.ResponseWriter, _ *http.Request) bool {
				http.Error(w, "the key is missing", http.StatusBadRequest)
				return true
			}
			f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
				get.serve(w, "")
				return true
			}
			_, err := session.Connect(t.Context(), f.dial(f.options()), nil, nil)
			status, ok := errors.AsType[*httpclient.StatusError](err)
			if !ok || status.Code != 400 || !strings.Contains(err.Error(), "the key is missing") {
				t.Errorf("got %v", err)
			}
		})
	}
}
