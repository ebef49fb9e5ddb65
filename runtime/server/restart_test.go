package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

// The server that is killed is this test program. An environment variable names its file, and the
// listener is its first extra file. The test keeps the listener open, so that no other process can
// take the port, and connections wait for the next server.
const (
	fileEnv    = "MCPWIRE_TEST_FILE"
	tasksEnv   = "MCPWIRE_TEST_TASKS" // names the file of serveTasks
	listenerFD = 3
)

func TestMain(m *testing.M) {
	if file := os.Getenv(fileEnv); file != "" {
		fmt.Fprintln(os.Stderr, serveNewsServer(file))
		os.Exit(1)
	}
	if file := os.Getenv(tasksEnv); file != "" {
		if err := serveTasks(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveNewsServer serves until it is killed.
func serveNewsServer(file string) error {
	events, err := boltstore.Open(file, boltstore.Options{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var readers []string
	s := server.New("news", "1", &server.Options{
		Hooks: server.Hooks{Subscribe: func(_ context.Context, c *server.Call, uri string) error {
			mu.Lock()
			defer mu.Unlock()
			readers = append(readers, c.Principal()+" of "+uri)
			return nil
		}},
	})
	server.AddTemplate(s, "news://{name}", "news", readText)
	server.AddTool(s, "publish", "", func(ctx context.Context, c *server.Call, in struct{ URI string }) (string, error) {
		s.ResourceUpdated(in.URI)
		c.Log(ctx, mcp.LoggingLevelInfo, "", "published "+in.URI)
		return "", c.Log(ctx, mcp.LoggingLevelAlert, "", "alert about "+in.URI)
	})
	server.AddTool(s, "readers", "", func(context.Context, *server.Call, struct{}) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(readers, ", "), nil
	})
	listener, err := net.FileListener(os.NewFile(listenerFD, "listener"))
	if err != nil {
		return err
	}
	return http.Serve(listener, must(s.Handler(&streamable.HandlerOptions{
		Sessions: streamable.Sessions{Store: events},
		Streams:  streamable.Streams{Retry: 10 * time.Millisecond},
		Access:   streamable.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }},
	})))
}

// startNewsServer starts the server in a child process, and returns the function that kills it.
func startNewsServer(t *testing.T, listener *os.File, file string) (kill func()) {
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

// notificationRecorder sends the notifications that it receives to channels.
type notificationRecorder struct {
	mcp.UnimplementedClientNotificationHandler
	updated, logged chan string
}

func (r notificationRecorder) ResourceUpdated(_ context.Context, p *mcp.ResourceUpdatedNotificationParams) error {
	r.updated <- p.URI
	return nil
}

func (r notificationRecorder) LoggingMessage(_ context.Context, p *mcp.LoggingMessageNotificationParams) error {
	r.logged <- string(p.Data)
	return nil
}

// After a server is killed and started again, it restores its sessions: the client does not repeat
// the handshake, its subscriptions or its log level.
func TestSessionSurvivesServerRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot inherit a listener")
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
	kill := startNewsServer(t, socket, file)
	recorder := notificationRecorder{updated: make(chan string, 10), logged: make(chan string, 10)}
	o := client.Options{Notifications: recorder}
	o.HTTP.Header = http.Header{"Authorization": {"ann"}}
	o.HTTP.Retries.Delay = time.Millisecond
	o.Session.Hooks.Reopened = func(*mcp.InitializeResult) { t.Error("the session was lost") }
	o.Session.Revisions = session.Revisions()
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
	// check updates all resources, and waits for the notifications. The client always subscribes to
	// the last one.
	check := func(when string, want ...string) {
		t.Helper()
		for _, name := range []string{"sports", "today", "weather"} {
			call("publish", map[string]string{"URI": "news://" + name})
			if got := <-recorder.logged; got != `"alert about news://`+name+`"` {
				t.Errorf("%s: logged %s", when, got)
			}
		}
		for _, uri := range want {
			if got := <-recorder.updated; got != uri {
				t.Errorf("%s: got an update of %s, want %s", when, got, uri)
			}
		}
	}
	noError := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	restart := func() {
		t.Helper()
		kill()
		kill = startNewsServer(t, socket, file)
		for range 10 { // requests on a connection to the first server are lost
			if c.Ping(t.Context()) == nil {
				return
			}
		}
		t.Fatal("the session was not restored")
	}
	for _, name := range []string{"sports", "today", "weather"} {
		noError(c.Subscribe(t.Context(), "news://"+name))
	}
	noError(c.Unsubscribe(t.Context(), "news://sports"))
	noError(c.SetLogLevel(t.Context(), mcp.LoggingLevelAlert))
	check("before", "news://today", "news://weather")
	restart()
	check("after a restart", "news://today", "news://weather")
	noError(c.Unsubscribe(t.Context(), "news://today"))
	if got := call("readers", nil); got != "ann of news://today, ann of news://weather" {
		t.Errorf("readers after a restart: %s", got)
	}
	restart()
	check("after another restart", "news://weather")
	noError(c.Unsubscribe(t.Context(), "news://sports")) // waits until Subscribe was called for all restored subscriptions
	if got := call("readers", nil); got != "ann of news://weather" {
		t.Errorf("readers after another restart: %s", got)
	}
}

// A call that arrives between Server.Shutdown and Handler.Shutdown is served by the next server.
func TestCallDuringShutdownIsServedByNextServer(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	start := func(name string) (*server.Server, *streamable.Handler) {
		s := server.New(name, "1", nil)
		server.AddTool(s, "slow", "", func(context.Context, *server.Call, struct{}) (string, error) {
			close(started)
			<-release
			return name, nil
		})
		server.AddTool(s, "quick", "", func(context.Context, *server.Call, struct{}) (string, error) {
			return name, nil
		})
		return s, must(s.Handler(nil))
	}
	first, firstHandler := start("first")
	var current atomic.Pointer[streamable.Handler]
	current.Store(firstHandler)
	rejected := make(chan struct{}, 1000)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		current.Load().ServeHTTP(&statusWriter{w, rejected}, r)
	}))
	defer web.Close()
	c, err := client.Dial(t.Context(), web.URL, &client.Options{Session: session.Options{Revisions: session.Revisions()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(tool string) string {
		result, err := c.CallTool(t.Context(), tool, nil)
		if err != nil {
			t.Errorf("%s: %v", tool, err)
			return ""
		}
		return result.Content[0].(*mcp.TextContent).Text
	}
	var calls sync.WaitGroup
	calls.Go(func() {
		if got := call("slow"); got != "first" {
			t.Errorf("the running call was served by %q", got)
		}
	})
	<-started
	down := make(chan struct{})
	go func() {
		defer close(down)
		first.Shutdown(t.Context())
		firstHandler.Shutdown(t.Context())
	}()
	calls.Go(func() {
		got := call("quick")
		for got == "first" { // Shutdown has not begun
			got = call("quick")
		}
		if got != "second" {
			t.Errorf("the call during the shutdown was served by %q", got)
		}
	})
	<-rejected
	close(release)
	<-down
	second, secondHandler := start("second")
	defer second.Close()
	defer secondHandler.Close()
	current.Store(secondHandler)
	calls.Wait()
}

// statusWriter reports responses with status 503.
type statusWriter struct {
	http.ResponseWriter
	unavailable chan<- struct{}
}

func (w *statusWriter) WriteHeader(status int) {
	if status == http.StatusServiceUnavailable {
		w.unavailable <- struct{}{}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
