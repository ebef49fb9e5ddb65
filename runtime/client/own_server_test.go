package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// serveOwn serves s on a network. The test ends it, unless stop does.
func serveOwn(t *testing.T, at *network, s *server.Server, o *streamable.HandlerOptions, middleware ...func(http.Handler) http.Handler) (stop func()) {
	t.Helper()
	stop = listen(at, func(s *server.Server) (http.Handler, func()) {
		h := must.Get(s.Handler(o))
		served := http.Handler(h)
		for _, m := range middleware {
			served = m(served)
		}
		return served, func() { h.Close() }
	}, s)
	t.Cleanup(stop)
	return stop
}

// dialOwn connects a client of revision 2026-07-28, or of the given revisions.
func dialOwn(t *testing.T, at *network, o client.Options, revisions ...mcp.Revision) *client.Client {
	t.Helper()
	if o.HTTP.HTTP == nil {
		o.HTTP.HTTP = at.options().HTTP.HTTP
	}
	o.Session.Revisions = revisions
	if revisions == nil {
		o.Session.Revisions = session.ModernRevisions()
	}
	c, err := client.Dial(t.Context(), "http://localhost/", &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		o.HTTP.HTTP.CloseIdleConnections()
	})
	return c
}

// callText calls a tool and returns the text of its result.
func callText(t *testing.T, c *client.Client, name string, arguments any, opts ...client.CallOption) string {
	t.Helper()
	result, err := c.CallTool(t.Context(), name, arguments, opts...)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := client.Text(result)
	return text
}

type nameForm struct {
	Name string `json:"name"`
}

// everyInput adds tools that ask for input of each kind: "sequence" one after the other, "together"
// at the same time.
func everyInput(s *server.Server, runs *atomic.Int32) {
	inputs := func(c *server.Call, id string, form *nameForm, got *[4]string) []func(context.Context) error {
		return []func(context.Context) error{
			func(ctx context.Context) error {
				action, err := server.Elicit(ctx, c, "Name?", form)
				got[0] = string(action) + " " + form.Name
				return err
			},
			func(ctx context.Context) error {
				action, err := c.ElicitURL(ctx, "Sign in", "https://shop.example/in", id)
				got[1] = string(action)
				return err
			},
			func(ctx context.Context) error {
				message, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{
					{Role: mcp.RoleUser, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "?"}}}},
				}})
				if err == nil {
					got[2] = message.Model
				}
				return err
			},
			func(ctx context.Context) error {
				roots, err := c.Roots(ctx)
				if err == nil {
					got[3] = fmt.Sprint(len(roots), " roots")
				}
				return err
			},
		}
	}
	server.AddTool(s, "sequence", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		runs.Add(1)
		var form nameForm
		var got [4]string
		for _, f := range inputs(c, "one", &form, &got) {
			if err := f(ctx); err != nil {
				return "", err
			}
		}
		return strings.Join(got[:], ", "), nil
	})
	server.AddTool(s, "together", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		runs.Add(1)
		var form nameForm
		var got [4]string
		err := c.RunAll(ctx, inputs(c, "two", &form, &got)...)
		return strings.Join(got[:], ", "), err
	})
}

// The same handlers of server and client exchange input of each kind in both kinds of revisions.
func TestEveryInputInRoundsAndSessions(t *testing.T) {
	for _, x := range []struct {
		name               string
		revisions          []mcp.Revision
		sequence, together int32 // runs of the handlers
	}{{"rounds", session.ModernRevisions(), 5, 2}, {"session", session.Revisions(), 1, 1}} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := new(network)
				var runs atomic.Int32
				s := server.New("s", "1", nil)
				everyInput(s, &runs)
				serveOwn(t, at, s, nil)
				roots := rootsOf(t, mcp.Root{URI: "file://" + filepath.ToSlash(os.TempDir())})
				var handled atomic.Int32
				c := dialOwn(t, at, client.Options{
					Input: client.Input{
						Roots: roots,
						Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
							handled.Add(1)
							return fill(f, "Ada")
						},
						OpenURL: func(_ context.Context, u *client.URLRequest) (mcp.ElicitAction, error) {
							handled.Add(1)
							if u.Host != "shop.example" {
								t.Errorf("host %q", u.Host)
							}
							return mcp.ElicitActionAccept, nil
						},
						Sample: func(context.Context, *client.SampleRequest) (*mcp.CreateMessageResult, error) {
							handled.Add(1)
							return client.Say("m", "hi"), nil
						},
					},
				}, x.revisions...)
				for tool, want := range map[string]int32{"sequence": x.sequence, "together": x.together} {
					runs.Store(0)
					handled.Store(0)
					if got := callText(t, c, tool, nil); got != "accept Ada, accept, m, 1 roots" {
						t.Errorf("%s: got %q", tool, got)
					}
					if runs.Load() != want || handled.Load() != 3 {
						t.Errorf("%s: %d runs, want %d; %d input requests handled", tool, runs.Load(), want, handled.Load())
					}
				}
			})
		})
	}
}

// The limits of both sides end a tool that never has enough input.
func TestEndlessRoundsAreBounded(t *testing.T) {
	for _, x := range []struct {
		name           string
		client, server int // limits
		runs           int32
		check          func(error) bool
	}{
		{"by the client", 3, 100, 4, func(err error) bool { _, ok := errors.AsType[*client.InputError](err); return ok }},
		{"by the server", 100, 3, 4, func(err error) bool {
			return jsonrpc.CodeOf(err) == jsonrpc.CodeInternalError && strings.Contains(err.Error(), "3 rounds")
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := new(network)
				var runs atomic.Int32
				s := server.New("s", "1", &server.Options{Limits: server.Limits{Rounds: x.server}})
				server.AddTool(s, "insatiable", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
					runs.Add(1)
					for i := 0; ; i++ {
						if _, err := server.Elicit(ctx, c, fmt.Sprint(i, "?"), new(nameForm)); err != nil {
							return "", err
						}
					}
				})
				serveOwn(t, at, s, nil)
				c := dialOwn(t, at, client.Options{
					Limits: client.Limits{InputRounds: x.client, InputRequests: -1},
					Input:  client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) { return fill(f, "Ada") }},
				})
				if _, err := c.CallTool(t.Context(), "insatiable", nil); err == nil || !x.check(err) {
					t.Error(err)
				}
				if runs.Load() != x.runs {
					t.Errorf("%d runs, want %d", runs.Load(), x.runs)
				}
			})
		})
	}
}

// A user who declines or cancels gives a response. A user who fails ends the call, and the handler
// does not run again.
func TestUserRefusesInRounds(t *testing.T) {
	failure := errors.New("no terminal")
	for _, x := range []struct {
		name   string
		result *mcp.ElicitResult
		err    error
		want   string
		runs   int32
	}{
		{"decline", client.Decline(), nil, "decline", 2},
		{"cancel", client.Cancel(), nil, "cancel", 2},
		{"fail", nil, failure, "", 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := new(network)
				var runs atomic.Int32
				s := server.New("s", "1", nil)
				server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
					runs.Add(1)
					action, err := server.Elicit(ctx, c, "Name?", new(nameForm))
					return string(action), err
				})
				serveOwn(t, at, s, nil)
				c := dialOwn(t, at, client.Options{Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) { return x.result, x.err }}})
				result, err := c.CallTool(t.Context(), "ask", nil)
				if !errors.Is(err, x.err) {
					t.Error(err)
				}
				if x.err != nil {
					if e, ok := errors.AsType[*client.InputError](err); !ok || e.Method != mcp.MethodElicitationCreate {
						t.Errorf("error %v", err)
					}
				} else if text, _ := client.Text(result); text != x.want {
					t.Errorf("result %q, error %v", text, err)
				}
				synctest.Wait()
				if runs.Load() != x.runs {
					t.Errorf("%d runs, want %d", runs.Load(), x.runs)
				}
			})
		})
	}
}

// lossy is an HTTP client that damages one answer.
type lossy struct {
	next   http.RoundTripper
	mu     sync.Mutex
	damage func(next http.RoundTripper, r *http.Request) (*http.Response, error) // of the next call of a tool; nil for none
	skip   int                                                                   // calls before that one
	sent   int                                                                   // calls of tools
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Mcp-Method") != mcp.MethodToolsCall {
		return l.next.RoundTrip(r)
	}
	l.mu.Lock()
	l.sent++
	damage := l.damage
	if l.skip > 0 {
		l.skip--
		damage = nil
	} else {
		l.damage = nil
	}
	l.mu.Unlock()
	if damage == nil {
		return l.next.RoundTrip(r)
	}
	return damage(l.next, r)
}

// cutBody returns the first bytes of a body, then an error.
type cutBody struct {
	io.ReadCloser
	left int
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func cutAfter(n int) func(http.RoundTripper, *http.Request) (*http.Response, error) {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil {
			answer.Body = &cutBody{answer.Body, n}
		}
		return answer, err
	}
}

// A client sends a call again only if the server cannot have received it. So a tool never runs
// twice, whatever happens to the connection, neither in the first round of a call nor in a later
// one.
func TestBrokenConnectionNeverRunsToolTwice(t *testing.T) {
	lostAnswer := func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil {
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	refused := func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: net.ErrClosed}
	}
	unavailable := func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody, Request: r}, nil
	}
	for _, x := range []struct {
		name   string
		damage func(http.RoundTripper, *http.Request) (*http.Response, error)
		fails  bool // the call fails, because the server may have served it
	}{
		{"answer lost", lostAnswer, true},
		{"answer cut", cutAfter(10), true},
		{"stream cut before the answer", cutAfter(60), true},
		{"connection refused", refused, false},
		{"server unavailable", unavailable, false},
	} {
		for round := range 2 {
			for _, streams := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, round %d, stream %v", x.name, round+1, streams), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						at := new(network)
						var runs, before, after atomic.Int32
						s := server.New("s", "1", &server.Options{Features: server.Features{LogLevel: mcp.LoggingLevelDebug}})
						server.AddTool(s, "order", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
							runs.Add(1)
							if streams {
								c.Log(ctx, mcp.LoggingLevelError, "", "begins")
							}
							step := func(name string, count *atomic.Int32) error {
								_, err := server.Step(ctx, c, name, func(context.Context) (int32, error) { return count.Add(1), nil })
								return err
							}
							if err := step("before", &before); err != nil {
								return "", err
							}
							if _, err := server.Elicit(ctx, c, "Name?", new(nameForm)); err != nil {
								return "", err
							}
							return "done", step("after", &after)
						})
						serveOwn(t, at, s, nil)
						asked := int32(0)
						wire := &lossy{next: at.options().HTTP.HTTP.Transport, damage: x.damage, skip: round}
						o := client.Options{Input: client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
							asked++
							return fill(f, "Ada")
						}}}
						o.HTTP.HTTP = &http.Client{Transport: wire}
						defer wire.next.(*http.Transport).CloseIdleConnections()
						c := dialOwn(t, at, o)
						if streams {
							if err := c.SetLogLevel(t.Context(), mcp.LoggingLevelDebug); err != nil {
								t.Fatal(err)
							}
						}
						result, err := c.CallTool(t.Context(), "order", nil)
						time.Sleep(time.Hour) // nothing is sent later
						wantAsked, wantAfter, wantRuns := int32(1), int32(1), int32(2)
						if x.fails {
							if lost, ok := errors.AsType[*transport.DeliveryError](err); !ok || !lost.Taken {
								t.Errorf("the call fails with %v", err)
							}
							wantAsked, wantAfter, wantRuns = int32(round), int32(round), int32(round)+1
						} else if text, _ := client.Text(result); err != nil || text != "done" {
							t.Errorf("result %q, error %v", text, err)
						}
						got, want := []int32{before.Load(), after.Load(), runs.Load(), asked}, []int32{1, wantAfter, wantRuns, wantAsked}
						if x.fails && streams { // the end of the stream may cancel the handler before its step
							got[round] = want[round]
						}
						if !slices.Equal(got, want) || before.Load() > 1 || after.Load() > 1 {
							t.Errorf("steps before and after the input, runs, input requests: %v, want %v", got, want)
						}
					})
				})
			}
		}
	}
}

// A process with the same StateKeys continues the rounds that another one has begun.
func TestServerIsReplacedBetweenRounds(t *testing.T) {
	shared, other := []byte(strings.Repeat("k", 32)), []byte(strings.Repeat("x", 32))
	for _, x := range []struct {
		name          string
		first, second [][]byte
		want          string // part of the error; "" for none
	}{
		{"same key", [][]byte{shared}, [][]byte{shared}, ""},
		{"rotated key", [][]byte{shared}, [][]byte{other, shared}, ""},
		{"other key", [][]byte{shared}, [][]byte{other}, "sealed with a key that this server does not have"},
		{"own keys of the processes", nil, nil, "sealed with a key that this server does not have"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := new(network)
				var charges, ships atomic.Int32
				start := func(keys [][]byte) (stop func()) {
					s := server.New("s", "1", &server.Options{Shared: server.Shared{StateKeys: keys}})
					server.AddTool(s, "order", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
						charge, err := server.Step(ctx, c, "charge", func(context.Context) (int32, error) { return charges.Add(1), nil })
						if err != nil {
							return "", err
						}
						var form nameForm
						if _, err := server.Elicit(ctx, c, "Name?", &form); err != nil {
							return "", err
						}
						var again nameForm
						if _, err := server.Elicit(ctx, c, "Name again?", &again); err != nil {
							return "", err
						}
						ship, err := server.Step(ctx, c, "ship", func(context.Context) (int32, error) { return ships.Add(1), nil })
						return fmt.Sprint(charge, " ", form.Name, " ", again.Name, " ", ship), err
					})
					return serveOwn(t, at, s, nil)
				}
				stop := start(x.first)
				replaced := false
				c := dialOwn(t, at, client.Options{Input: client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
					if !replaced {
						stop()
						start(x.second)
						replaced = true
					}
					return fill(f, "Ada")
				}}})
				result, err := c.CallTool(t.Context(), "order", nil)
				if x.want != "" {
					if jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams || !strings.Contains(err.Error(), x.want) || charges.Load() != 1 || ships.Load() != 0 {
						t.Errorf("%d charges, error %v", charges.Load(), err)
					}
					return
				}
				if text, _ := client.Text(result); text != "1 Ada Ada 1" {
					t.Errorf("result %q, error %v", text, err)
				}
			})
		})
	}
}

// A call that is cancelled ends its handler on the server. One that is cancelled while the user is
// asked is not sent again.
func TestCancelCallOfOwnServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := new(network)
		var runs, ended atomic.Int32
		s := server.New("s", "1", nil)
		server.AddTool(s, "wait", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			runs.Add(1)
			<-ctx.Done()
			ended.Add(1)
			return "", ctx.Err()
		})
		server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			runs.Add(1)
			_, err := server.Elicit(ctx, c, "Name?", new(nameForm))
			return "", err
		})
		serveOwn(t, at, s, nil)
		cause := errors.New("changed my mind")
		var asked atomic.Int32
		c := dialOwn(t, at, client.Options{Input: client.Input{Fill: func(ctx context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
			asked.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}}})
		for tool, wantAsked := range map[string]int32{"wait": 0, "ask": 1} {
			runs.Store(0)
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error)
			go func() { // ends with the call
				_, err := c.CallTool(ctx, tool, nil)
				done <- err
			}()
			synctest.Wait()
			time.Sleep(time.Minute / 2)
			cancel(cause)
			if err := <-done; !errors.Is(err, cause) {
				t.Errorf("%s: %v", tool, err)
			}
			time.Sleep(time.Hour)
			if runs.Load() != 1 || asked.Load() != wantAsked || ended.Load() != 1-wantAsked {
				t.Errorf("%s: %d runs, asked %d times, %d ended", tool, runs.Load(), asked.Load(), ended.Load())
			}
			ended.Store(0)
			asked.Store(0)
		}
	})
}

// Progress and log messages arrive on the stream of their call, also in a later round, and before
// the result.
func TestProgressAndLogsOfRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := new(network)
		s := server.New("s", "1", &server.Options{Features: server.Features{LogLevel: mcp.LoggingLevelDebug}})
		server.AddTool(s, "work", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			c.Log(ctx, mcp.LoggingLevelError, "", "begins")
			c.Progress(1, 3, "begins")
			if _, err := server.Elicit(ctx, c, "Name?", new(nameForm)); err != nil {
				return "", err
			}
			c.Progress(2, 3, "continues")
			c.Log(ctx, mcp.LoggingLevelDebug, "", "detail")
			c.Log(ctx, mcp.LoggingLevelWarning, "", "continues")
			return "done", nil
		})
		serveOwn(t, at, s, nil)
		events := reader{updated: make(chan string, 10), logged: make(chan string, 10)}
		c := dialOwn(t, at, client.Options{Notifications: events, Input: client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
			return fill(f, "Ada")
		}}})
		if err := c.SetLogLevel(t.Context(), mcp.LoggingLevelWarning); err != nil {
			t.Fatal(err)
		}
		var progress []string
		if got := callText(t, c, "work", nil, client.OnProgress(func(p session.Progress) { progress = append(progress, fmt.Sprint(p.Value, " ", p.Message)) })); got != "done" {
			t.Errorf("result %q", got)
		}
		synctest.Wait()
		var logged []string
		for len(events.logged) > 0 {
			logged = append(logged, <-events.logged)
		}
		if diff := cmp.Diff([]string{`"begins"`, `"begins"`, `"continues"`}, logged); diff != "" {
			t.Errorf("logs (-want +got):\n%s", diff)
		}
		// A report may be missed, but not the last of a round.
		if n := len(progress); n < 2 || progress[0] != "1 begins" || progress[n-1] != "2 continues" {
			t.Errorf("progress %q", progress)
		}
	})
}
