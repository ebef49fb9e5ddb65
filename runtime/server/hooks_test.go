package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// failing is a connection whose Read fails after a signal.
type failing struct {
	transport.Conn
	fail chan struct{}
}

func (c failing) Read() (transport.Message, error) {
	type read struct {
		transport.Message
		error
	}
	result := make(chan read, 1)
	go func() { // ends with the connection
		m, err := c.Conn.Read()
		result <- read{m, err}
	}()
	select {
	case r := <-result:
		return r.Message, r.error
	case <-c.fail:
		return transport.Message{}, errors.New("cable cut")
	}
}

func TestHooksOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		names := map[*session.Session]string{}
		s := newServer(t, server.Config{
			SessionOpened: func(s *session.Session) {
				names[s] = fmt.Sprint(len(names) + 1)
				events = append(events, "opened "+names[s])
				panic("does not matter")
			},
			SessionClosed: func(s *session.Session, cause error) {
				events = append(events, fmt.Sprintf("closed %s: %v", names[s], cause))
			},
		})
		first := connect(t, s, clientConfig{})
		clientConn, serverConn := inmemory.Pair(inmemory.Options{})
		fail := make(chan struct{})
		connectOver(t, s, clientConfig{}, clientConn, failing{serverConn, fail})
		close(fail)
		synctest.Wait()
		first.Close()
		synctest.Wait()
		connect(t, s, clientConfig{})
		s.Close() // waits for the functions
		want := []string{"opened 1", "opened 2", "closed 2: cable cut", "closed 1: <nil>", "opened 3", "closed 3: <nil>"}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestHooksOfNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roots := `{"roots":[{"uri":"file:///a"}]}`
		var events []string
		describe := func(event string) func(context.Context, *server.Call) {
			return func(ctx context.Context, c *server.Call) {
				list, err := c.Roots(ctx)
				events = append(events, fmt.Sprintf("%s: %s %v %v", event, c.ClientInfo().Name, list[0].URI, err))
			}
		}
		s := newServer(t, server.Config{Initialized: describe("initialized"), RootsChanged: describe("roots")})
		c := connect(t, s, clientConfig{
			capabilities: clientCapabilities(t, `{"roots":{"listChanged":true}}`),
			handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
				if req.Method != "roots/list" {
					return nil, jsonrpc.MethodNotFound(req.Method)
				}
				return session.Raw(roots), nil
			},
		})
		synctest.Wait()
		if err := c.Notify(t.Context(), "notifications/initialized", nil); err != nil { // a second time
			t.Fatal(err)
		}
		synctest.Wait()
		roots = strings.Replace(roots, "/a", "/b", 1)
		if err := c.Notify(t.Context(), "notifications/roots/list_changed", nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want := []string{"initialized: client file:///a <nil>", "roots: client file:///b <nil>"}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestLoggersOutsideOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Config{})
		one := connect(t, s, clientConfig{})
		own := s.SessionLogger(s.Sessions()[0], "own")
		two := connect(t, s, clientConfig{})
		two.expect("logging/setLevel", `{"level":"error"}`, `{}`)

		all := s.Logger("all")
		all.With("k", 1).Warn("w")
		all.Error("e")
		own.Error("only one")
		if all.Enabled(t.Context(), slog.LevelDebug) || !all.Enabled(t.Context(), slog.LevelInfo) {
			t.Error("the level is not that of the most verbose session")
		}
		synctest.Wait()
		const message = "notifications/message"
		failed := `{"level":"error","logger":"all","data":{"msg":"e"}}`
		want := []string{`{"level":"warning","logger":"all","data":{"k":1,"msg":"w"}}`, failed, `{"level":"error","logger":"own","data":{"msg":"only one"}}`}
		equalJSON(t, "first client", "["+strings.Join(want, ",")+"]", "["+strings.Join(one.notifications(message), ",")+"]")
		equalJSON(t, "second client", "["+failed+"]", "["+strings.Join(two.notifications(message), ",")+"]")

		sess := s.Sessions()[0]
		one.Close()
		two.Close()
		synctest.Wait()
		for name, log := range map[string]*slog.Logger{"session that has ended": own, "closed session": s.SessionLogger(sess, ""), "nil session": s.SessionLogger(nil, "")} {
			log.Error(name) // does nothing
		}
	})
}

// Messages are queued until the handshake is complete, up to a limit.
func TestPendingLogMessagesAreLimited(t *testing.T) {
	for name, test := range map[string]struct{ sent, length, want int }{"number": {1500, 1, 1000}, "bytes": {10, 300 << 10, 3}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s *server.Server
				s = newServer(t, server.Config{LogRate: -1, SessionOpened: func(sess *session.Session) {
					log := s.SessionLogger(sess, "")
					for range test.sent {
						log.Info(strings.Repeat("x", test.length))
					}
				}})
				c := connect(t, s, clientConfig{})
				synctest.Wait()
				if got := len(c.notifications("notifications/message")); got != test.want {
					t.Errorf("received %d messages, want %d", got, test.want)
				}
				s.Logger("").Info("later")
				synctest.Wait()
				if got := c.notifications("notifications/message"); len(got) != test.want+1 || !strings.Contains(got[test.want], "later") {
					t.Errorf("%d messages in the end", len(got))
				}
			})
		})
	}
}

func TestLoggersNeedCapability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Config{Capabilities: func(c *mcp.ServerCapabilities) { c.Logging = nil }})
		c := connect(t, s, clientConfig{})
		s.Logger("").Error("x")
		synctest.Wait()
		if got := c.notifications("notifications/message"); len(got) != 0 {
			t.Errorf("received %v", got)
		}
	})
}
