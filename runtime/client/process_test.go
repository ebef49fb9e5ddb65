package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// childEnv makes the test binary a server over stdio: "own" is a server of this module; "modern"
// and "fragile", which ends on any message before initialize, are not.
const childEnv = "MCPWIRE_TEST_CHILD"

func serveChild(kind string) {
	if kind == "own" {
		serveOwnChild()
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	opened := false
	for lines.Scan() {
		m, err := jsonrpc.ParseReceived(lines.Bytes())
		if err != nil {
			os.Exit(3)
		}
		result := `{"resultType":"complete","content":[{"type":"text","text":"` + fmt.Sprint(os.Getpid()) + `"}]}`
		switch {
		case m.Method == mcp.MethodInitialize && kind == "fragile":
			opened = true
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
		case kind == "fragile" && !opened, strings.Contains(string(m.Params), `"die"`):
			os.Exit(2)
		case m.Method == mcp.MethodServerDiscover:
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{"subscribe":true}},"ttlMs":0,"cacheScope":"public"}`
		case m.Method == mcp.MethodSubscriptionsListen:
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"resourceSubscriptions":["a:1"]}}}`+"\n", m.ID)
			continue
		}
		if m.Kind == jsonrpc.KindRequest {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
		}
	}
}

// serveOwnChild serves a tool that asks for input, one that ends the process, and a resource.
func serveOwnChild() {
	s := server.New("own", "1", &server.Options{Shared: server.Shared{StateKeys: [][]byte{[]byte(strings.Repeat("k", 32))}}})
	server.AddTool(s, "order", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		charged, err := server.Step(ctx, c, "charge", func(context.Context) (int, error) { return os.Getpid(), nil })
		if err != nil {
			return "", err
		}
		if _, err := server.Elicit(ctx, c, "Name?", new(nameForm)); err != nil {
			return "", err
		}
		return fmt.Sprint(charged, " ", os.Getpid()), nil
	})
	server.AddTool(s, "die", "", func(context.Context, *server.Call, struct{}) (string, error) {
		os.Exit(2)
		return "", nil
	})
	server.AddTool(s, "pid", "", func(context.Context, *server.Call, struct{}) (int, error) { return os.Getpid(), nil })
	server.AddTool(s, "add", "", func(context.Context, *server.Call, struct{}) (string, error) {
		err := server.AddTool(s, "added", "", nothing).Err()
		return "", err
	})
	server.AddResource(s, "a:1", "a", noContent)
	if s.Run(context.Background(), stdio.Server(stdio.Options{})) != nil {
		os.Exit(1)
	}
}

// command connects to a child process of a kind.
func command(t *testing.T, kind string, o client.Options) *client.Client {
	t.Helper()
	o.Session.Revisions = append(session.ModernRevisions(), session.Revisions()...)
	c, err := client.Command(t.Context(), stdio.Command{Path: os.Args[0], Env: append(stdio.DefaultEnv(), childEnv+"="+kind)}, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// pid returns the process that serves a call.
func pid(t *testing.T, c *client.Client) string {
	t.Helper()
	result, err := c.CallTool(t.Context(), "pid", nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := client.Text(result)
	return text
}

func TestCommandStartsFragileServerAgain(t *testing.T) {
	c := command(t, "fragile", client.Options{})
	if c.Session().Traits().Sessionless || pid(t, c) == "" {
		t.Errorf("modern %v", c.Session().Traits().Sessionless)
	}
}

// Proves M-STDIO-07, M-SUBS-17.
func TestCommandRestartsModernServer(t *testing.T) {
	changes := &updates{uris: make(chan string, 10)}
	c := command(t, "modern", client.Options{Notifications: changes})
	if !c.Session().Traits().Sessionless {
		t.Fatal("session is not modern")
	}
	if err := c.Subscribe(t.Context(), "a:1"); err != nil {
		t.Fatal(err)
	}
	first := pid(t, c)
	_, err := c.CallTool(t.Context(), "die", nil)
	if lost, ok := errors.AsType[*transport.DeliveryError](err); !ok || !lost.Taken {
		t.Errorf("the call of a server that has ended fails with %v", err)
	}
	if second := pid(t, c); second == first {
		t.Error("the process has not been replaced")
	}
	if uri := <-changes.uris; uri != "a:1" { // after the subscription was restored
		t.Errorf("reported %q", uri)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A server over stdio ends while the user is asked. The process that replaces it goes on with the
// call, does not repeat its step, and knows the subscriptions.
func TestOwnServerProcessIsReplacedBetweenRounds(t *testing.T) {
	changes := &updates{uris: make(chan string, 10), lists: make(chan bool, 10)}
	var c *client.Client
	c = command(t, "own", client.Options{Notifications: changes, Input: client.Input{Fill: func(ctx context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
		_, err := c.CallTool(ctx, "die", nil)
		if lost, ok := errors.AsType[*transport.DeliveryError](err); !ok || !lost.Taken {
			t.Errorf("the call of a server that has ended fails with %v", err)
		}
		return fill(f, "Ada")
	}}})
	if !c.Session().Traits().Sessionless {
		t.Fatal("session is not modern")
	}
	if err := c.Subscribe(t.Context(), "a:1"); err != nil {
		t.Fatal(err)
	}
	first := pid(t, c)
	charged, finished, _ := strings.Cut(callText(t, c, "order", nil), " ")
	if second := pid(t, c); charged != first || finished != second || first == second {
		t.Errorf("charged by %s, finished by %s; the processes are %s and %s", charged, finished, first, second)
	}
	if uri := <-changes.uris; uri != "a:1" {
		t.Errorf("reported %q", uri)
	}
	<-changes.lists // may have changed while there was no process
	callText(t, c, "add", nil)
	<-changes.lists
}

// updates receives the resources that have changed.
type updates struct {
	mcp.UnimplementedClientNotificationHandler
	uris  chan string
	lists chan bool // a value for each change of the list of tools; nil for none
}

func (u *updates) ToolListChanged(context.Context, *mcp.NotificationParams) error {
	if u.lists != nil {
		u.lists <- true
	}
	return nil
}

func (u *updates) ResourceUpdated(_ context.Context, p *mcp.ResourceUpdatedNotificationParams) error {
	u.uris <- p.URI
	return nil
}
