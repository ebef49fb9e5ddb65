package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// statefulConn is a connection that persists the state of its session in memory.
type statefulConn struct {
	transport.Conn

	mu     sync.Mutex
	state  []byte
	writes int   // number of calls of PersistState
	err    error // returned by PersistState

	writing chan bool     // receives a value when PersistState begins, if release is not nil
	release chan struct{} // PersistState waits until it is closed; nil for no wait
}

func (k *statefulConn) Restored() (mcp.Revision, []byte, bool) { return "", nil, false }
func (k *statefulConn) PersistedState() ([]byte, bool)         { return k.state, true }
func (k *statefulConn) Suspend()                               {}

func (k *statefulConn) PersistState(_ context.Context, state []byte) error {
	if k.release != nil {
		k.writing <- true
		<-k.release
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.writes++
	if k.err == nil {
		k.state = state
	}
	return k.err
}

func (k *statefulConn) setError(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// withoutLists returns the state without the fingerprints of lists.
func (k *statefulConn) withoutLists(t *testing.T) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(k.state, &members); err != nil {
		t.Fatal(err)
	}
	if members["lists"] == nil {
		t.Errorf("state without fingerprints of lists: %s", k.state)
	}
	delete(members, "lists")
	text, _ := json.Marshal(members)
	return string(text)
}

// connectWithState opens a session over a connection with a state.
func connectWithState(t *testing.T, s *server.Server, with clientConfig, state []byte) (*testClient, *statefulConn) {
	t.Helper()
	clientConn, serverConn := inmemory.Pair(inmemory.Options{})
	k := &statefulConn{Conn: serverConn, state: state}
	return connectOver(t, s, with, clientConn, k), k
}

// newLibrary returns a server with the resources a to c, and tools that log and require a URL. It
// rejects subscriptions to one URI. Events returns the calls of Subscribe and Unsubscribe since the
// last call of events.
func newLibrary(t *testing.T, rejected string) (s *server.Server, events func() []string) {
	t.Helper()
	var mu sync.Mutex
	var list []string
	record := func(what, uri string, c *server.Call) {
		mu.Lock()
		defer mu.Unlock()
		principal := ""
		if c != nil {
			principal = " for " + c.Principal()
		}
		list = append(list, what+" "+uri+principal)
	}
	s = newServer(t, server.Options{
		Session: session.Options{Principal: "ann"},
		Hooks: server.Hooks{
			Subscribe: func(_ context.Context, c *server.Call, uri string) error {
				if c.Session() == nil {
					t.Error("Subscribe was called without a session")
				}
				if uri == rejected {
					return errors.New("rejected")
				}
				record("begin", uri, c)
				return nil
			},
			Unsubscribe: func(_ context.Context, c *server.Call, uri string) { record("end", uri, c) },
		},
	})
	for _, name := range []string{"a", "b", "c"} {
		server.AddResource(s, "test://"+name, name, readText)
	}
	server.AddTool(s, "log", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		c.Log(ctx, mcp.LoggingLevelInfo, "", "a detail")
		return "", c.Log(ctx, mcp.LoggingLevelError, "", "a fault")
	})
	server.AddTool(s, "visit", "", func(ctx context.Context, c *server.Call, in struct{ ID string }) (string, error) {
		return "", c.RequireURL(ctx, "log in", "https://example.com/", in.ID)
	})
	return s, func() []string {
		mu.Lock()
		defer mu.Unlock()
		got := list
		list = nil
		slices.Sort(got)
		return got
	}
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Subscriptions, log level and open elicitations outlast a restart of the server.
func TestSessionStateIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{"url":{}}}`)}
		s, events := newLibrary(t, "")
		c, k := connectWithState(t, s, with, nil)
		for _, uri := range []string{"test://a", "test://b", "test://c"} {
			c.expect("resources/subscribe", `{"uri":"`+uri+`"}`, `{}`)
		}
		c.expect("resources/unsubscribe", `{"uri":"test://b"}`, `{}`)
		c.expect("logging/setLevel", `{"level":"error"}`, `{}`)
		for _, id := range []string{"one", "two"} {
			c.expectError("tools/call", `{"name":"visit","arguments":{"ID":"`+id+`"}}`, server.CodeURLElicitationRequired)
		}
		if err := s.ElicitationComplete(t.Context(), "two"); err != nil {
			t.Error(err)
		}
		state := k.state
		c.Close()
		synctest.Wait()
		equal(t, "events", []string{"begin test://a for ann", "begin test://b for ann", "begin test://c for ann",
			"end test://a", "end test://b for ann", "end test://c"}, events())
		s.Close()

		s, events = newLibrary(t, "test://c")
		c, k = connectWithState(t, s, with, state)
		synctest.Wait()
		equal(t, "events after the restart", []string{"begin test://a for ann"}, events())
		for _, name := range []string{"a", "b", "c"} {
			s.ResourceUpdated("test://" + name)
		}
		if _, err := c.Call(t.Context(), "tools/call", session.Raw(`{"name":"log"}`)); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		equal(t, "updates", []string{`{"uri":"test://a"}`}, c.notifications("notifications/resources/updated"))
		equal(t, "log messages", []string{`{"data":"a fault","level":"error"}`}, sortedMembers(t, c.notifications("notifications/message")))
		for id, want := range map[string]string{"one": "ann", "two": ""} {
			if got, _ := s.ElicitationPrincipal(id); got != want {
				t.Errorf("principal of elicitation %s: got %q, want %q", id, got, want)
			}
		}
		if k.writes != 0 {
			t.Errorf("the restored state was persisted %d times, want 0", k.writes)
		}
		c.expect("resources/unsubscribe", `{"uri":"test://a"}`, `{}`)
		equal(t, "events at the end", []string{"end test://a for ann"}, events())
		c.Close()
		s.Close()
		if got := k.withoutLists(t); got != `{"elicitations":{"one":"ann"},"level":"error","principal":"ann"}` {
			t.Errorf("got state %s", got)
		}
	})
}

// sortedMembers returns JSON objects with their members sorted by name.
func sortedMembers(t *testing.T, texts []string) (sorted []string) {
	t.Helper()
	for _, text := range texts {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		out, _ := json.Marshal(v)
		sorted = append(sorted, string(out))
	}
	return sorted
}

// A request fails, and changes nothing, if its change of the state cannot be persisted.
func TestRequestFailsIfStateIsNotPersisted(t *testing.T) {
	for _, test := range []struct {
		err  error
		code int64
	}{
		{fmt.Errorf("far %w", transport.ErrTooLong), jsonrpc.CodeInvalidRequest},
		{errors.New("the disk is full"), jsonrpc.CodeInternalError},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, events := newLibrary(t, "")
			c, k := connectWithState(t, s, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{"url":{}}}`)}, nil)
			c.expect("resources/subscribe", `{"uri":"test://a"}`, `{}`)
			k.setError(test.err)
			c.expectError("resources/subscribe", `{"uri":"test://b"}`, test.code)
			c.expectError("logging/setLevel", `{"level":"error"}`, test.code)
			c.expectError("tools/call", `{"name":"visit","arguments":{"ID":"one"}}`, test.code)
			if _, ok := s.ElicitationPrincipal("one"); ok {
				t.Error("the elicitation is open")
			}
			equal(t, "events", []string{"begin test://a for ann", "begin test://b for ann", "end test://b for ann"}, events())
			s.ResourceUpdated("test://a")
			s.ResourceUpdated("test://b")
			if _, err := c.Call(t.Context(), "tools/call", session.Raw(`{"name":"log"}`)); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			equal(t, "updates", []string{`{"uri":"test://a"}`}, c.notifications("notifications/resources/updated"))
			if got := c.notifications("notifications/message"); len(got) != 2 {
				t.Errorf("log messages: %q", got)
			}
			k.setError(nil)
			c.expect("resources/subscribe", `{"uri":"test://c"}`, `{}`)
			if got := k.withoutLists(t); got != `{"principal":"ann","subscriptions":["test://a","test://c"]}` {
				t.Errorf("got state %s", got)
			}
		})
	}
}

// Changes made while the state is being written are written together, and their requests succeed
// only after that.
func TestConcurrentChangesArePersistedTogether(t *testing.T) {
	subscribing := make(chan string, 21)
	s := newServer(t, server.Options{Hooks: server.Hooks{Subscribe: func(_ context.Context, _ *server.Call, uri string) error {
		subscribing <- uri
		return nil
	}}})
	server.AddTemplate(s, "many://{n}", "many", readText)
	c, k := connectWithState(t, s, clientConfig{}, nil)
	k.release, k.writing = make(chan struct{}), make(chan bool, 21)
	done := make(chan bool, 21)
	subscribe := func(n int) {
		c.expect("resources/subscribe", fmt.Sprintf(`{"uri":"many://%d"}`, n), `{}`)
		done <- true
	}
	go subscribe(0) // ends when the state is persisted, like the others
	<-subscribing
	<-k.writing
	for n := range 20 {
		go subscribe(n + 1)
	}
	for range 20 {
		<-subscribing
	}
	if len(done) > 0 {
		t.Error("a request succeeded before its change was persisted")
	}
	close(k.release)
	for range 21 {
		<-done
	}
	var state struct{ Subscriptions []string }
	if err := json.Unmarshal(k.state, &state); err != nil || len(state.Subscriptions) != 21 {
		t.Errorf("got %d subscriptions in the state, %v, want 21", len(state.Subscriptions), err)
	}
	if k.writes != 3 {
		t.Errorf("the state was written %d times, want once for the handshake and 2 times for the changes", k.writes)
	}
}

// If a session ends while its subscriptions are restored, Unsubscribe is called for each
// subscription for which Subscribe was called, and for no other.
func TestSessionEndsDuringRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var subscribed, unsubscribed []string
		s := newServer(t, server.Options{
			Hooks: server.Hooks{
				Subscribe: func(ctx context.Context, _ *server.Call, uri string) error {
					subscribed = append(subscribed, uri)
					if uri == "test://b" {
						<-ctx.Done()
					}
					return nil
				},
				Unsubscribe: func(_ context.Context, _ *server.Call, uri string) { unsubscribed = append(unsubscribed, uri) },
			},
		})
		c, _ := connectWithState(t, s, clientConfig{}, []byte(`{"subscriptions":["test://a","test://b","test://c"]}`))
		synctest.Wait()
		go c.Call(t.Context(), "resources/unsubscribe", session.Raw(`{"uri":"test://a"}`)) // waits for the restored subscriptions; ends with the session
		synctest.Wait()
		c.Close()
		s.Close()
		slices.Sort(unsubscribed)
		equal(t, "subscribed", []string{"test://a", "test://b"}, subscribed)
		equal(t, "unsubscribed", []string{"test://a", "test://b"}, unsubscribed)
	})
}

// A session with an invalid state opens as if it had none.
func TestInvalidStateIsDiscarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, events := newLibrary(t, "")
		for _, state := range []string{``, `{`, `{"subscriptions":{}}`, `{"level":"loud"}`, `null`} {
			c, k := connectWithState(t, s, clientConfig{}, []byte(state))
			if _, err := c.Call(t.Context(), "tools/call", session.Raw(`{"name":"log"}`)); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if got := c.notifications("notifications/message"); len(got) != 2 {
				t.Errorf("with %q: log messages: %q", state, got)
			}
			c.expect("logging/setLevel", `{"level":"error"}`, `{}`)
			if got := k.withoutLists(t); got != `{"level":"error"}` {
				t.Errorf("with %q: got state %s", state, got)
			}
		}
		equal(t, "events", []string(nil), events())
	})
}
