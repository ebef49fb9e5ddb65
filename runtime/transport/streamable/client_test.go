package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// check compares the requests that a server has logged.
func check(t *testing.T, name string, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestClientPostsEachMessageWithHeaders(t *testing.T) {
	// Proves HTTP-06, HTTP-07, HTTP-08, HTTP-12, HTTP-24, HTTP-42, HTTP-46, HTTP-48 and HTTP-49.
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.revision = "2025-06-18"
		pong := make(chan bool)
		f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
			if m.Method == "tools/list" {
				f.answer(w, m, `{"tools":[]}`)
				return
			}
			send := stream(w)
			send("data: %s\n\n", `{"jsonrpc":"2.0","id":"ask","method":"ping"}`)
			<-pong
			send("data: %s\n\n", response(m, `{"content":[]}`))
		}
		f.other = func(_ http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			if m.Kind == jsonrpc.KindResponse {
				pong <- true
			}
			return false
		}
		s := f.connect(f.options(), nil)
		peer := mcp.ToServer{Caller: s}
		if _, err := peer.ListTools(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if _, err := peer.CallTool(t.Context(), &mcp.CallToolRequestParams{Name: "t"}); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		check(t, "requests", []string{
			"POST tools/list s1 2025-06-18",
			"POST tools/call s1 2025-06-18",
			`POST {"jsonrpc":"2.0","id":"ask","result":{}} s1 2025-06-18`,
			"DELETE s1 2025-06-18",
		}, f.takeLog())
	})
}

func TestClientHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		c := f.dial(f.options())
		s, err := session.Connect(t.Context(), c, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		check(t, "requests", []string{
			"POST initialize",
			"POST notifications/initialized s1 2025-11-25",
			"GET s1 2025-11-25",
		}, f.takeLog())
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		check(t, "requests", []string{"DELETE s1 2025-11-25"}, f.takeLog())
		if err := c.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"x"}`)}); err != transport.ErrClosed {
			t.Errorf("writing to a closed connection: %v", err)
		}
	})
}

// The server may send nothing before it has received notifications/initialized.
func TestClientRepeatsInitializedUntilAccepted(t *testing.T) {
	for _, test := range []struct {
		status   int   // 0 breaks the connection
		rejected int32 // number of rejected attempts
		waits    bool
	}{
		{0, 1, true}, {0, 20, false}, {429, 2, true}, {500, 1, true}, {502, 5, true}, {503, 20, false}, {400, 1, false}, {413, 3, false},
	} {
		t.Run(fmt.Sprint(test.status, " ", test.rejected), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				var posts atomic.Int32 // used by the server's goroutines
				f.other = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
					if m.Method != "notifications/initialized" {
						return false
					}
					if posts.Add(1) > test.rejected {
						return false
					}
					if test.status == 0 {
						panic(http.ErrAbortHandler)
					}
					w.WriteHeader(test.status)
					return true
				}
				o := f.options()
				o.NoListen = true
				s, err := session.Connect(t.Context(), f.dial(o), nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if accepted := posts.Load() > test.rejected; accepted != test.waits {
					t.Errorf("%d posts when Connect returns", posts.Load())
				}
				time.Sleep(time.Hour)
				if want := test.rejected + 1; posts.Load() != want {
					t.Errorf("%d posts, want %d", posts.Load(), want)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A server that shuts down has not received the requests that it rejects.
func TestClientRepeatsRequestWhileServerIsUnavailable(t *testing.T) {
	for _, test := range []struct {
		name     string
		after    string // Retry-After
		rejected int    // number of rejected attempts
		timeout  time.Duration
		posts    int
		took     time.Duration // at least
		accepted bool
	}{
		{"accepted at last", "2", 3, time.Minute, 4, 6 * time.Second, true},
		{"never accepted", "2", 100, time.Minute, 6, 10 * time.Second, false},
		{"long delay", "3600", 100, time.Minute, 1, 0, false},
		{"timeout", "2", 100, 3 * time.Second, 2, 3 * time.Second, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				s := f.connect(f.options(), nil)
				posts := 0
				f.call = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) {
					if posts++; posts > test.rejected {
						f.answer(w, m, `{"tools":[]}`)
						return
					}
					w.Header().Set("Retry-After", test.after)
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				begin := time.Now()
				_, err := s.With(session.Timeout(test.timeout)).Call(t.Context(), "tools/list", nil)
				if accepted := err == nil; accepted != test.accepted {
					t.Errorf("got %v", err)
				}
				if took := time.Since(begin); took < test.took || test.took == 0 && took > 0 {
					t.Errorf("the call took %v", took)
				}
				time.Sleep(time.Minute)
				if posts != test.posts {
					t.Errorf("%d posts, want %d", posts, test.posts)
				}
			})
		})
	}
}

func TestCloseEndsRepetitionOfInitialized(t *testing.T) {
	reject := func(f *fakeServer, status int) {
		f.other = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			if m.Method == "notifications/initialized" {
				w.WriteHeader(status)
			}
			return m.Method == "notifications/initialized"
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		reject(f, http.StatusForbidden)
		f.connect(f.options(), nil) // the cleanup closes it; a remaining goroutine fails the test
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		reject(f, http.StatusServiceUnavailable)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := session.Connect(ctx, f.dial(f.options()), nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
