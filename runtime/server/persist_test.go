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

// keeper is a connection that keeps a state.
type keeper struct {
	transport.Conn

	mu    sync.Mutex
	state []byte
	times int   // that it was given one
	err   error // what it says to that

	keeping chan bool     // gets a value when it is given one; nil for nobody
	wait    chan struct{} // closed when it may be kept; nil for at once
}

func (k *keeper) Kept() ([]byte, bool) { return k.state, true }

func (k *keeper) Keep(_ context.Context, state []byte) error {
	if k.wait != nil {
		k.keeping <- true
		<-k.wait
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.times++
	if k.err == nil {
		k.state = state
	}
	return k.err
}

func (k *keeper) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// connectKept opens a session over a connection with a state.
func connectKept(t *testing.T, s *server.Server, with side, state []byte) (*asker, *keeper) {
	t.Helper()
	here, there := inmemory.Pair(inmemory.Options{})
	k := &keeper{Conn: there, state: state}
	return connectOver(t, s, with, here, k), k
}

// library is a server with resources a to c, and tools that log and ask to open a page. Told are
// what it is told of subscriptions; refuse is one that it does not want.
func library(t *testing.T, refuse string) (s *server.Server, told func() []string) {
	t.Helper()
	var mu sync.Mutex
	var list []string
	note := func(what, uri string, c *server.Call) {
		mu.Lock()
		defer mu.Unlock()
		who := ""
		if c != nil {
			who = " for " + c.Principal()
		}
		list = append(list, what+" "+uri+who)
	}
	s = newServer(t, server.Config{
		Session: session.Config{Principal: "ann"},
		Subscribe: func(_ context.Context, c *server.Call, uri string) error {
			if c.Session() == nil {
				t.Error("there is no session")
			}
			if uri == refuse {
				return errors.New("not any more")
			}
			note("begin", uri, c)
			return nil
		},
		Unsubscribe: func(_ context.Context, c *server.Call, uri string) { note("end", uri, c) },
	})
	for _, name := range []string{"a", "b", "c"} {
		must(s.AddResource(mcp.Resource{Name: name, URI: "test://" + name}, readText))
	}
	must(server.AddTool(s, mcp.Tool{Name: "log"}, func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		c.Log(ctx, mcp.LoggingLevelInfo, "", "a detail")
		return "", c.Log(ctx, mcp.LoggingLevelError, "", "a fault")
	}))
	must(server.AddTool(s, mcp.Tool{Name: "visit"}, func(ctx context.Context, c *server.Call, in struct{ ID string }) (string, error) {
		return "", c.RequireURL("log in", "https://example.com/", in.ID)
	}))
	return s, func() []string {
		mu.Lock()
		defer mu.Unlock()
		got := list
		list = nil
		slices.Sort(got)
		return got
	}
}

func compare(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// What a client has asked for once and for all holds over the next connection of its session, too.
func TestASessionGoesOnAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opens := side{capabilities: capable(t, `{"elicitation":{"url":{}}}`)}
		s, told := library(t, "")
		c, k := connectKept(t, s, opens, nil)
		for _, uri := range []string{"test://a", "test://b", "test://c"} {
			c.expect("resources/subscribe", `{"uri":"`+uri+`"}`, `{}`)
		}
		c.expect("resources/unsubscribe", `{"uri":"test://b"}`, `{}`)
		c.expect("logging/setLevel", `{"level":"error"}`, `{}`)
		for _, id := range []string{"one", "two"} {
			c.refused("tools/call", `{"name":"visit","arguments":{"ID":"`+id+`"}}`, server.CodeURLElicitationRequired)
		}
		if err := s.ElicitationComplete(t.Context(), "two"); err != nil {
			t.Error(err)
		}
		state := k.state
		c.Close()
		synctest.Wait()
		compare(t, "told", []string{"begin test://a for ann", "begin test://b for ann", "begin test://c for ann",
			"end test://a", "end test://b for ann", "end test://c"}, told())
		s.Close()

		s, told = library(t, "test://c")
		c, k = connectKept(t, s, opens, state)
		synctest.Wait()
		compare(t, "told after the restart", []string{"begin test://a for ann"}, told())
		for _, name := range []string{"a", "b", "c"} {
			s.ResourceUpdated("test://" + name)
		}
		if _, err := c.Call(t.Context(), "tools/call", session.Raw(`{"name":"log"}`)); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		compare(t, "updates", []string{`{"uri":"test://a"}`}, c.heard("notifications/resources/updated"))
		compare(t, "log messages", []string{`{"data":"a fault","level":"error"}`}, sortedMembers(t, c.heard("notifications/message")))
		for id, want := range map[string]string{"one": "ann", "two": ""} {
			if got, _ := s.ElicitationPrincipal(id); got != want {
				t.Errorf("the page %s is for %q, want %q", id, got, want)
			}
		}
		if k.times != 0 {
			t.Errorf("what was kept was kept %d times again", k.times)
		}
		c.expect("resources/unsubscribe", `{"uri":"test://a"}`, `{}`)
		compare(t, "told of the end", []string{"end test://a for ann"}, told())
		c.Close()
		s.Close()
		if got := string(k.state); got != `{"principal":"ann","level":"error","elicitations":{"one":"ann"}}` {
			t.Errorf("kept is %s", got)
		}
	})
}

// sortedMembers returns objects with their members in order.
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

// A wish that would be lost in a restart is not granted.
func TestWhatCannotBeKeptIsRefused(t *testing.T) {
	for _, test := range []struct {
		err  error
		code int64
	}{
		{fmt.Errorf("far %w", transport.ErrTooLong), jsonrpc.CodeInvalidRequest},
		{errors.New("the disk is full"), jsonrpc.CodeInternalError},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, told := library(t, "")
			c, k := connectKept(t, s, side{capabilities: capable(t, `{"elicitation":{"url":{}}}`)}, nil)
			c.expect("resources/subscribe", `{"uri":"test://a"}`, `{}`)
			k.fail(test.err)
			c.refused("resources/subscribe", `{"uri":"test://b"}`, test.code)
			c.refused("logging/setLevel", `{"level":"error"}`, test.code)
			c.refused("tools/call", `{"name":"visit","arguments":{"ID":"one"}}`, test.code)
			if _, ok := s.ElicitationPrincipal("one"); ok {
				t.Error("the page is expected to be opened")
			}
			compare(t, "told", []string{"begin test://a for ann", "begin test://b for ann", "end test://b for ann"}, told())
			s.ResourceUpdated("test://a")
			s.ResourceUpdated("test://b")
			if _, err := c.Call(t.Context(), "tools/call", session.Raw(`{"name":"log"}`)); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			compare(t, "updates", []string{`{"uri":"test://a"}`}, c.heard("notifications/resources/updated"))
			if got := c.heard("notifications/message"); len(got) != 2 {
				t.Errorf("log messages: %q", got)
			}
			k.fail(nil)
			c.expect("resources/subscribe", `{"uri":"test://c"}`, `{}`)
			if got := string(k.state); got != `{"principal":"ann","subscriptions":["test://a","test://c"]}` {
				t.Errorf("kept is %s", got)
			}
		})
	}
}

// Wishes that come while others are being kept are kept together, and are not granted before.
func TestWishesAreKeptTogether(t *testing.T) {
	begun := make(chan string, 21)
	s := newServer(t, server.Config{Subscribe: func(_ context.Context, _ *server.Call, uri string) error {
		begun <- uri
		return nil
	}})
	must(s.AddTemplate(mcp.ResourceTemplate{Name: "many", URITemplate: "many://{n}"}, readText))
	c, k := connectKept(t, s, side{}, nil)
	k.wait, k.keeping = make(chan struct{}), make(chan bool, 21)
	granted := make(chan bool, 21)
	subscribe := func(n int) {
		c.expect("resources/subscribe", fmt.Sprintf(`{"uri":"many://%d"}`, n), `{}`)
		granted <- true
	}
	go subscribe(0) // ends when it is granted, like the others
	<-begun
	<-k.keeping
	for n := range 20 {
		go subscribe(n + 1)
	}
	for range 20 {
		<-begun
	}
	if len(granted) > 0 {
		t.Error("granted before they are kept")
	}
	close(k.wait)
	for range 21 {
		<-granted
	}
	var state struct{ Subscriptions []string }
	if err := json.Unmarshal(k.state, &state); err != nil || len(state.Subscriptions) != 21 {
		t.Errorf("%d are kept, %v", len(state.Subscriptions), err)
	}
	if k.times != 2 {
		t.Errorf("they were kept in %d parts", k.times)
	}
}

// A session that ends while the author is told of its subscriptions ends those that the author
// knows of.
func TestASessionEndsWhileItsSubscriptionsAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, ended []string
		s := newServer(t, server.Config{
			Subscribe: func(ctx context.Context, _ *server.Call, uri string) error {
				begun = append(begun, uri)
				if uri == "test://b" {
					<-ctx.Done()
				}
				return nil
			},
			Unsubscribe: func(_ context.Context, _ *server.Call, uri string) { ended = append(ended, uri) },
		})
		c, _ := connectKept(t, s, side{}, []byte(`{"subscriptions":["test://a","test://b","test://c"]}`))
		synctest.Wait()
		go c.Call(t.Context(), "resources/unsubscribe", session.Raw(`{"uri":"test://a"}`)) // which has to wait; ends with the session
		synctest.Wait()
		c.Close()
		s.Close()
		slices.Sort(ended)
		compare(t, "begun", []string{"test://a", "test://b"}, begun)
		compare(t, "ended", []string{"test://a", "test://b"}, ended)
	})
}

// A state that means nothing is as good as none.
func TestAStateThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, told := library(t, "")
		for _, state := range []string{``, `{`, `{"subscriptions":{}}`, `{"level":"loud"}`, `null`} {
			c, k := connectKept(t, s, side{}, []byte(state))
			if _, err := c.Call(t.Context(), "tools/call", session.Raw(`{"name":"log"}`)); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if got := c.heard("notifications/message"); len(got) != 2 {
				t.Errorf("with %q: log messages: %q", state, got)
			}
			c.expect("logging/setLevel", `{"level":"error"}`, `{}`)
			if got := string(k.state); got != `{"level":"error"}` {
				t.Errorf("with %q: kept is %s", state, got)
			}
		}
		compare(t, "told", []string(nil), told())
	})
}
