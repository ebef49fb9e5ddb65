package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

// The server that is killed is this test program, told by its environment which file to use. It is
// given the listener as its first extra file: the test keeps that open, so that the port is never
// free and connections wait for the next server.
const (
	fileEnv    = "MCPWIRE_TEST_FILE"
	listenerFD = 3
)

func TestMain(m *testing.M) {
	if file := os.Getenv(fileEnv); file != "" {
		fmt.Fprintln(os.Stderr, serveNews(file))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveNews serves until it is killed.
func serveNews(file string) error {
	events, err := boltstore.Open(file, boltstore.Options{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var readers []string
	s, err := server.New(server.Config{
		Info: mcp.Implementation{Name: "news", Version: "1"},
		Subscribe: func(_ context.Context, c *server.Call, uri string) error {
			mu.Lock()
			defer mu.Unlock()
			readers = append(readers, c.Principal()+" of "+uri)
			return nil
		},
	})
	if err != nil {
		return err
	}
	must(s.AddTemplate(mcp.ResourceTemplate{Name: "news", URITemplate: "news://{name}"}, readText))
	must(server.AddTool(s, mcp.Tool{Name: "publish"}, func(ctx context.Context, c *server.Call, in struct{ URI string }) (string, error) {
		s.ResourceUpdated(in.URI)
		c.Log(ctx, mcp.LoggingLevelInfo, "", "published "+in.URI)
		return "", c.Log(ctx, mcp.LoggingLevelAlert, "", "everybody reads "+in.URI)
	}))
	must(server.AddTool(s, mcp.Tool{Name: "readers"}, func(context.Context, *server.Call, struct{}) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(readers, ", "), nil
	}))
	listener, err := net.FileListener(os.NewFile(listenerFD, "listener"))
	if err != nil {
		return err
	}
	return http.Serve(listener, streamable.NewHandler(func(_ *http.Request, conn transport.Conn) { s.Serve(conn) }, streamable.HandlerOptions{
		Store:     events,
		Retry:     10 * time.Millisecond,
		Principal: func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil },
	}))
}

// startNews starts the server in a process of its own, and returns what kills it.
func startNews(t *testing.T, listener *os.File, file string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fileEnv+"="+file)
	cmd.ExtraFiles = []*os.File{listener}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	t.Cleanup(kill)
	return kill
}

// reader notes what it is told.
type reader struct {
	mcp.UnimplementedClientNotificationHandler
	updated, logged chan string
}

func (r reader) ResourceUpdated(_ context.Context, p *mcp.ResourceUpdatedNotificationParams) error {
	r.updated <- p.URI
	return nil
}

func (r reader) LoggingMessage(_ context.Context, p *mcp.LoggingMessageNotificationParams) error {
	r.logged <- string(p.Data)
	return nil
}

// A server that is killed and started again goes on with a session as if nothing had happened: the
// client does not even notice, and need not ask again.
func TestASessionSurvivesItsServer(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be given a listener")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	file := filepath.Join(t.TempDir(), "events.db")
	kill := startNews(t, socket, file)
	told := reader{updated: make(chan string, 10), logged: make(chan string, 10)}
	o := client.Options{Notifications: told}
	o.HTTP.Header = http.Header{"Authorization": {"ann"}}
	o.HTTP.RetryDelay = time.Millisecond
	o.HTTP.Renewed = func(json.RawMessage) { t.Error("the session was lost") }
	c, err := client.Dial(t.Context(), "http://"+listener.Addr().String(), &o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(tool string, arguments any) string {
		t.Helper()
		result, err := c.CallTool(t.Context(), tool, arguments)
		if err != nil {
			t.Fatal(err)
		}
		return result.Content[0].(*mcp.TextContent).Text
	}
	// check has all resources updated, and waits for what comes of that: the last one is always
	// subscribed to.
	check := func(when string, want ...string) {
		t.Helper()
		for _, name := range []string{"sports", "today", "weather"} {
			call("publish", map[string]string{"URI": "news://" + name})
			if got := <-told.logged; got != `"everybody reads news://`+name+`"` {
				t.Errorf("%s: logged %s", when, got)
			}
		}
		for _, uri := range want {
			if got := <-told.updated; got != uri {
				t.Errorf("%s: told of an update of %s, want %s", when, got, uri)
			}
		}
	}
	ask := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	restart := func() {
		t.Helper()
		kill()
		kill = startNews(t, socket, file)
		for range 10 { // what goes out on a connection to the first server is lost
			if c.Ping(t.Context()) == nil {
				return
			}
		}
		t.Fatal("the session does not go on")
	}
	for _, name := range []string{"sports", "today", "weather"} {
		ask(c.Subscribe(t.Context(), "news://"+name))
	}
	ask(c.Unsubscribe(t.Context(), "news://sports"))
	ask(c.SetLogLevel(t.Context(), mcp.LoggingLevelAlert))
	check("before", "news://today", "news://weather")
	restart()
	check("after a restart", "news://today", "news://weather")
	ask(c.Unsubscribe(t.Context(), "news://today"))
	if got := call("readers", nil); got != "ann of news://today, ann of news://weather" {
		t.Errorf("readers after a restart: %s", got)
	}
	restart()
	check("after another one", "news://weather")
	ask(c.Unsubscribe(t.Context(), "news://sports")) // comes behind what the author is told
	if got := call("readers", nil); got != "ann of news://weather" {
		t.Errorf("readers after another restart: %s", got)
	}
}
