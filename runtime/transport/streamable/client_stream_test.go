package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// connection describes one connection of a stream: a rejection or events. ANSWER in the text is
// replaced with the answer.
type connection struct {
	status int // default 200
	header http.Header
	text   string
}

// serve writes the response of the connection.
func (c connection) serve(w http.ResponseWriter, answer string) {
	for name, values := range c.header {
		w.Header()[name] = values
	}
	if c.status != 0 {
		w.WriteHeader(c.status)
		return
	}
	send := stream(w)
	send("%s", strings.ReplaceAll(c.text, "ANSWER", answer))
}

func TestClientResumesStreamOfRequest(t *testing.T) {
	// Proves HTTP-13, HTTP-15, HTTP-17, HTTP-35 and HTTP-37.
	const primed = "id: a1\nretry: 500\ndata: \n\n"
	for _, test := range []struct {
		name        string
		connections []connection // consecutive connections of one call
		// GETs, each with the time since the previous request, or "+" for a random time.
		want  []string
		fails error
	}{
		{"after the server's delay",
			[]connection{{text: primed}, {text: "id: a2\ndata: ANSWER\n\n"}},
			[]string{"500ms a1"}, nil},
		{"repeatedly, for a server that closes each connection",
			[]connection{{text: primed}, {text: primed}, {text: "id: a2\ndata:\n\n"}, {text: "retry: 2000\n\n"}, {text: "data: ANSWER\n\n"}},
			[]string{"500ms a1", "500ms a1", "500ms a2", "2s a2"}, nil},
		{"after connections without events",
			[]connection{{text: primed}, {status: 503}, {text: ""}, {text: "data: ANSWER\n\n"}},
			[]string{"500ms a1", "+ a1", "+ a1"}, nil},
		{"from the last complete event",
			[]connection{{text: primed + "id: a2\ndata: ANSWER\n"}, {text: "id: a2\ndata: ANSWER\n\n"}},
			[]string{"500ms a1"}, nil},
		{"after Retry-After",
			[]connection{{text: primed}, {status: 429, header: http.Header{"Retry-After": {"7"}}}, {text: "data: ANSWER\n\n"}},
			[]string{"500ms a1", "7s a1"}, nil},
		{"after the minimum delay",
			[]connection{{text: "id: a1\nretry: 1\ndata:\n\n"}, {text: "data: ANSWER\n\n"}},
			[]string{"100ms a1"}, nil},
		{"not without an event id",
			[]connection{{text: "retry: 500\n\n"}}, nil, httpclient.ErrCut},
		{"not after a permanent rejection",
			[]connection{{text: primed}, {status: 405}}, []string{"500ms a1"}, &httpclient.StatusError{}},
		{"at most Retries.Max times",
			[]connection{{text: primed}, {status: 500}, {status: 502}, {status: 503}, {status: 504}, {text: ""}, {text: "data: ANSWER\n\n"}},
			[]string{"500ms a1", "+ a1", "+ a1", "+ a1", "+ a1"}, httpclient.ErrCut},
		{"not with another content type",
			[]connection{{text: primed}, {status: 200}}, []string{"500ms a1"}, httpclient.ErrContent},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				var got []string
				var last time.Time
				var asked jsonrpc.Message
				next := 0
				f.call = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
					asked, last = m, time.Now()
					next++
					test.connections[0].serve(w, response(m, `{"tools":[]}`))
				}
				f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
					id := r.Header.Get("Last-Event-Id")
					if r.Method != "GET" || id == "" {
						return false
					}
					d := time.Since(last)
					last = time.Now()
					want := ""
					if len(got) < len(test.want) {
						want, _, _ = strings.Cut(test.want[len(got)], " ")
					}
					if asked, err := time.ParseDuration(want); want == "+" || err == nil && d >= asked && d <= asked*6/5 {
						got = append(got, want+" "+id)
					} else {
						got = append(got, fmt.Sprint(d, " ", id))
					}
					next++
					test.connections[next-1].serve(w, response(asked, `{"tools":[]}`))
					return true
				}
				s := f.connect(f.options(), nil)
				_, err := mcp.ToServer{Caller: s.With(session.Timeout(0))}.ListTools(t.Context(), nil)
				switch want := test.fails.(type) {
				case nil:
					if err != nil {
						t.Error(err)
					}
				case *httpclient.StatusError:
					if _, ok := errors.AsType[*httpclient.StatusError](err); !ok {
						t.Errorf("got %v, want a status", err)
					}
				default:
					if !errors.Is(err, want) {
						t.Errorf("got %v, want %v", err, want)
					}
				}
				check(t, "resumptions", test.want, got)
				if posts := f.takeLog(); strings.Count(strings.Join(posts, "\n"), "POST tools/list") != 1 {
					t.Errorf("the request was sent again: %q", posts)
				}
			})
		})
	}
}

func TestRetryDelayDoublesWithEachFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		var at []time.Time
		f.call = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) {
			at = append(at, time.Now())
			stream(w)("id: 1\ndata:\n\n")
		}
		f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
			if r.Header.Get("Last-Event-Id") == "" {
				return false
			}
			at = append(at, time.Now())
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		o := f.options()
		o.Retries.Delay, o.Retries.MaxDelay, o.Retries.Max = time.Second, 10*time.Second, 7
		s := f.connect(o, nil)
		_, err := s.With(session.Timeout(0)).Call(t.Context(), "tools/list", nil)
		if lost, ok := errors.AsType[*transport.DeliveryError](err); !ok || !errors.Is(lost, httpclient.ErrCut) {
			t.Errorf("got %v", err)
		}
		for i, most := range []time.Duration{1, 2, 4, 8, 10, 10, 10} {
			most *= time.Second
			if d := at[i+1].Sub(at[i]); d < most/2 || d > most {
				t.Errorf("attempt %d follows after %v, want between %v and %v", i+1, d, most/2, most)
			}
		}
		if len(at) != 8 {
			t.Errorf("%d attempts, want 7", len(at)-1)
		}
	})
}

// The delay between connections increases while the server sends no message.
func TestClientPollsMoreSlowlyWithoutMessages(t *testing.T) {
	const polling = "retry: 1\nid: a\ndata:\n\n"
	for _, standing := range []bool{false, true} {
		t.Run(fmt.Sprint("standing stream: ", standing), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				var gets atomic.Int32 // used by the server's goroutines
				f.call = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) { stream(w)(polling) }
				f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
					if r.Method != "GET" {
						return false
					}
					gets.Add(1)
					stream(w)(polling)
					return true
				}
				o := f.options()
				o.NoListen = !standing
				s := f.connect(o, nil)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if standing {
					<-ctx.Done()
				} else if _, err := s.With(session.Timeout(0)).Call(ctx, "tools/list", nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the call to wait for its answer", err)
				}
				if gets.Load() < 120 || gets.Load() > 260 { // every 15 to 30 seconds
					t.Errorf("the client has connected %d times in an hour", gets.Load())
				}
			})
		})
	}
}

func TestUnansweredResumptionIsAbandoned(t *testing.T) {
	for name, serve := range map[string]func(w http.ResponseWriter, r *http.Request){
		"no headers": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"rejection with an endless body": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				var gets atomic.Int32 // used by the server's goroutines
				f.call = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) { stream(w)("id: a\ndata:\n\n") }
				f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
					if r.Method != "GET" {
						return false
					}
					gets.Add(1)
					serve(w, r)
					return true
				}
				o := f.options()
				o.NoListen, o.Retries.Max = true, 3
				s := f.connect(o, nil)
				if _, err := s.With(session.Timeout(0)).Call(t.Context(), "tools/list", nil); !errors.Is(err, httpclient.ErrCut) {
					t.Errorf("got %v", err)
				}
				if gets.Load() != 3 {
					t.Errorf("%d attempts, want 3", gets.Load())
				}
			})
		})
	}
}

func TestClientListensOnStandingStream(t *testing.T) {
	// Proves HTTP-24 and HTTP-28.
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		steps := []connection{
			{text: "id: x1\nretry: 1000\ndata: " + logLine("one") + "\n\n"},
			{text: "id: x2\ndata: " + logLine("two") + "\n\n"},
			{status: http.StatusBadRequest}, // the server has dropped the event
			{text: "data: " + logLine("three") + "\n\n"},
			{status: http.StatusMethodNotAllowed},
		}
		f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
			if r.Method != "GET" {
				return false
			}
			step := steps[0]
			steps = steps[1:]
			step.serve(w, "")
			return true
		}
		logs := make(chan string, 10)
		s := f.connect(f.options(), &session.Options{Handler: sessiontest.ClientHandler(mcp.UnimplementedClientHandler{}, logger{logs: logs})})
		for _, want := range []string{`"one"`, `"two"`, `"three"`} {
			if got := <-logs; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		time.Sleep(time.Hour)
		var gets []string
		for _, line := range f.takeLog() {
			if strings.HasPrefix(line, "GET") {
				gets = append(gets, line)
			}
		}
		check(t, "the streams", []string{
			"GET s1 2025-11-25 x1", "GET s1 2025-11-25 x2", "GET s1 2025-11-25", "GET s1 2025-11-25",
		}, gets)
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("the session without a stream: %v", err)
		}
	})
}

// A client cannot send an event id with a control character back. It opens the standing stream
// without it, and does not resume the stream of a request.
func TestEventIDWithControlCharacterIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.call = func(w http.ResponseWriter, _ *http.Request, _ jsonrpc.Message) { stream(w)("id: a\x01\ndata:\n\n") }
		var gets atomic.Int32 // used by the server's goroutines
		f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
			if r.Method != http.MethodGet {
				return false
			}
			send := stream(w)
			send("id: a\x7f\ndata: %s\n\n", logLine(fmt.Sprint(gets.Add(1))))
			if gets.Load() > 1 {
				<-r.Context().Done()
			}
			return true
		}
		logs := make(chan string, 10)
		s := f.connect(f.options(), &session.Options{Handler: sessiontest.ClientHandler(mcp.UnimplementedClientHandler{}, logger{logs: logs})})
		for _, want := range []string{`"1"`, `"2"`} {
			if got := <-logs; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		begun := time.Now()
		_, err := s.With(session.Timeout(0)).Call(t.Context(), "tools/list", nil)
		if !errors.Is(err, httpclient.ErrCut) || time.Since(begun) > time.Second {
			t.Errorf("got %v after %v, want %v at once", err, time.Since(begun), httpclient.ErrCut)
		}
	})
}

// logLine returns a log message of a server.
func logLine(text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q}}`, text)
}

// logger is a client that passes on the log messages of a server.
type logger struct {
	mcp.UnimplementedClientNotificationHandler
	logs chan string
}

func (l logger) LoggingMessage(_ context.Context, p *mcp.LoggingMessageNotificationParams) error {
	l.logs <- string(p.Data)
	return nil
}
