package server_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// memoryBus is a [server.Bus] in memory.
type memoryBus struct {
	mu        sync.Mutex
	receivers map[int]func([]byte)
	next      int
	sent      []string
	publish   func() error // called by Publish; may be nil
}

func (b *memoryBus) Publish(_ context.Context, message []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.publish != nil {
		if err := b.publish(); err != nil {
			return err
		}
	}
	b.sent = append(b.sent, string(message))
	for _, receive := range b.receivers {
		receive(message)
	}
	return nil
}

func (b *memoryBus) Subscribe(receive func([]byte)) (stop func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.receivers == nil {
		b.receivers = map[int]func([]byte){}
	}
	b.next++
	n := b.next
	b.receivers[n] = receive
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.receivers, n)
	}, nil
}

// Changes at one server reach the sessions and the subscriptions of the others, once.
func TestBus(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		bus := &memoryBus{}
		var servers []*server.Server
		for range 2 {
			s := newServer(t, server.Options{Shared: server.Shared{Bus: bus}, Hooks: server.Hooks{Subscribe: func(context.Context, *server.Call, string) error { return nil }}})
			server.AddTool(s, "hi", "", sayHi)
			server.AddPrompt(s, "p", "", givePrompt)
			server.AddResource(s, "x:one", "one", readText)
			servers = append(servers, s)
		}
		if len(bus.sent) > 0 {
			t.Errorf("features that were added before the start: %q", bus.sent)
		}
		var sessions []*testClient
		var listens []*modernClient
		for _, s := range servers {
			c := connect(t, s, clientConfig{})
			c.expect("resources/subscribe", `{"uri":"x:one"}`, `{}`)
			sessions = append(sessions, c)
			m := connectModern(t, s)
			m.listen(`1`, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x:one"]}`)
			listens = append(listens, m)
		}
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			for i := range servers {
				var lines []string
				for _, method := range want {
					lines = append(lines, strings.ReplaceAll(method, " ", " of 1 "))
					if !strings.Contains(method, " ") {
						lines[len(lines)-1] += " of 1"
					}
					name, _, _ := strings.Cut(method, " ")
					if n := len(sessions[i].notifications("notifications/" + name)); n != 1 {
						t.Errorf("%s: session of server %d received %d %s", when, i, n, method)
					}
					sessions[i].forget("notifications/" + name)
				}
				// Changes that come at the same time have no order.
				got := listens[i].take()
				slices.SortFunc(got, func(a, b string) int { return strings.Compare(part(a, "method"), part(b, "method")) })
				slices.Sort(lines)
				listens[i].expectMessages(got, lines...)
			}
		}
		tool := server.AddTool(servers[1], "new", "", sayHi)
		expect("tool added", "tools/list_changed")
		servers[0].ListChanged(mcp.MethodNotificationsPromptsListChanged)
		expect("prompts", "prompts/list_changed")
		servers[0].ListChanged(mcp.MethodNotificationsResourcesListChanged)
		expect("resources", "resources/list_changed")
		servers[1].ResourceUpdated("x:one")
		expect("update", `resources/updated "x:one"`)
		servers[0].ResourceUpdated("x:two")
		expect("update without a subscription")
		for _, m := range []string{
			"", "{", `{"from":"x","method":"notifications/message"}`, `{"from":"x","method":"notifications/resources/updated"}`,
			`{"from":"x","method":"notifications/tools/list_changed","uri":"x:one"}`,
		} {
			bus.Publish(t.Context(), []byte(m))
		}
		expect("invalid messages")
		for _, receive := range bus.receivers {
			receive(nil)
		}
		expect("lost messages", "prompts/list_changed", "resources/list_changed", "tools/list_changed", `resources/updated "x:one"`)

		for name, publish := range map[string]func() error{
			"fails":  func() error { return errors.New("no connection") },
			"panics": func() error { panic("no") },
		} {
			bus.publish = publish
			servers[0].ListChanged(mcp.MethodNotificationsPromptsListChanged)
			synctest.Wait()
			for i, want := range []int{1, 0} {
				if n := len(sessions[i].notifications("notifications/prompts/list_changed")); n != want {
					t.Errorf("Publish %s: session of server %d received %d", name, i, n)
				}
				sessions[i].forget("notifications/prompts/list_changed")
			}
			listens[0].take()
		}
		bus.publish = nil
		tool.Remove()
		servers[0].Close()
		servers[0].Close()
		if len(bus.receivers) != 1 {
			t.Errorf("%d subscribers after Close", len(bus.receivers))
		}
	})
}

// failingBus fails to subscribe the first time.
type failingBus struct {
	memoryBus
	failed bool
}

func (b *failingBus) Subscribe(receive func([]byte)) (func(), error) {
	if !b.failed {
		b.failed = true
		return nil, errors.New("no connection")
	}
	return b.memoryBus.Subscribe(receive)
}

func TestStartFailsWithoutBus(t *testing.T) {
	s := server.New("s", "1", &server.Options{Shared: server.Shared{Bus: &failingBus{}}, Logger: slog.New(slog.DiscardHandler)})
	defer s.Close()
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("Start: %v", err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Errorf("Start again: %v", err)
	}
}

// forget drops the received notifications of a method.
func (c *testClient) forget(method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notices = slices.DeleteFunc(c.notices, func(n notice) bool { return n.Method == method })
}
