// Command load holds many sessions with tasks over HTTP on the loopback address, client and server
// in one process, and prints the resource usage:
//
//	go run ./load -sessions 2000 -time 1m
//
// Each session has its GET stream and runs one task after another, at a pace that gives the total
// rate: it creates the task, waits for the result, and checks it. Memory is the memory in use after
// a garbage collection, including stacks of goroutines. The measurement begins after the first
// tasks have expired, so that memory should not grow any further. In the end the command shuts
// everything down, and fails if goroutines are left.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil && err != flag.ErrHelp {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

const (
	samples = 6
	work    = 50 * time.Millisecond // duration of a task
	ttl     = 3 * time.Second       // lifetime of a task
	opening = 32                    // number of sessions that are opened or closed concurrently
)

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	sessions := flags.Int("sessions", 1000, "hold this `NUMBER` of sessions")
	rate := flags.Float64("rate", 300, "create this `NUMBER` of tasks per second in total")
	length := flags.Duration("time", 5*time.Second, "measure for this `TIME`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	before := runtime.NumGoroutine()
	fmt.Fprintf(out, "at the start: %s\n", used())
	if err := load(ctx, out, *sessions, *rate, *length); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines are left, want %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
	fmt.Fprintf(out, "shut down:   %s\n", used())
	return nil
}

// used returns the current resource usage of the process as text.
func used() string {
	for range 3 { // pools and finalizers keep memory during the first collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return fmt.Sprintf("%6.1f MB, %6d goroutines", float64(m.HeapAlloc+m.StackInuse)/1e6, runtime.NumGoroutine())
}

// load opens sessions, measures them, and closes them.
func load(ctx context.Context, out io.Writer, count int, rate float64, length time.Duration) (err error) {
	s, err := newServer(ctx)
	if err != nil {
		return err
	}
	pool := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: count}}
	defer func() {
		err = errors.Join(err, s.close(ctx))
		pool.CloseIdleConnections()
	}()
	users := make([]*user, count)
	defer func() { err = errors.Join(err, each(users, (*user).close)) }()
	start := time.Now()
	if err := each(users, func(u *user) error { return u.open(ctx, s.http.URL, pool) }); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d sessions: %s, opened in %.1f s\n", count, used(), time.Since(start).Seconds())

	running, stop := context.WithCancelCause(ctx)
	var tasks atomic.Int64
	var group sync.WaitGroup
	pace := time.Duration(float64(count) / rate * float64(time.Second))
	for i, u := range users {
		group.Go(func() { // ends with running
			if err := u.runTasks(running, pace*time.Duration(i)/time.Duration(count), pace, &tasks); err != nil {
				stop(err)
			}
		})
	}
	sample(running, out, length, &tasks)
	stop(nil)
	group.Wait()
	if cause := context.Cause(running); cause != context.Canceled {
		return cause
	}
	return nil
}

// sample prints the resource usage at intervals, after the first tasks have expired.
func sample(ctx context.Context, out io.Writer, length time.Duration, tasks *atomic.Int64) {
	if !sleep(ctx, 2*ttl) {
		return
	}
	start, first := time.Now(), tasks.Load()
	for i := range samples {
		if i > 0 && !sleep(ctx, length/(samples-1)) {
			return
		}
		fmt.Fprintf(out, "after %5.1f s: %s, %d tasks\n", time.Since(start).Seconds(), used(), tasks.Load()-first)
	}
}

// sleep waits for the given time. It returns false if the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// each calls a function for all users, for some of them concurrently. It creates users that are
// nil.
func each(users []*user, do func(*user) error) error {
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	var next atomic.Int64
	for range opening {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(users)); i = next.Add(1) - 1 {
				if users[i] == nil {
					users[i] = new(user)
				}
				if err := do(users[i]); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// user is a client with a session.
type user struct {
	session *session.Session // nil if not open
	tasks   *requestor.Tasks
}

func (u *user) open(ctx context.Context, serverURL string, pool *http.Client) error {
	conn, err := streamable.Dial(serverURL, streamable.ClientOptions{Options: httpclient.Options{HTTP: pool}})
	if err != nil {
		return err
	}
	cfg := new(session.Config)
	u.tasks = requestor.Attach(cfg)
	u.session, err = session.Connect(ctx, conn, &mcp.InitializeRequestParams{ClientInfo: mcp.Implementation{Name: "client", Version: "1"}}, cfg)
	return err
}

func (u *user) close() error {
	if u.session == nil {
		return nil
	}
	return u.session.Close()
}

// runTasks runs tasks until the context ends, the first after a delay.
func (u *user) runTasks(ctx context.Context, after, pace time.Duration, tasks *atomic.Int64) error {
	for n := 0; sleep(ctx, after); n++ {
		start := time.Now()
		err := u.task(ctx, n)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		tasks.Add(1)
		after = max(0, pace-time.Since(start))
	}
	return nil
}

// task runs one task.
func (u *user) task(ctx context.Context, n int) error {
	given := fmt.Appendf(nil, `{"n":%d}`, n)
	h, err := u.tasks.CallTool(ctx, u.session, &mcp.CallToolRequestParams{Name: "echo", Arguments: given}, requestor.TTL(ttl))
	if err != nil {
		return err
	}
	result, err := h.Result(ctx)
	if err != nil {
		return err
	}
	if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != string(given) {
		return fmt.Errorf("task %d: wrong result %v", n, result.Content[0])
	}
	return nil
}

// server serves a tool on the loopback address.
type server struct {
	manager *task.Manager
	handler *streamable.Handler
	http    *httptest.Server
}

func newServer(ctx context.Context) (*server, error) {
	manager, err := task.New(ctx, task.Config{Store: memory.New(), Limits: task.Limits{Tasks: -1, Bytes: -1, Rate: -1}})
	if err != nil {
		return nil, err
	}
	handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
		cfg := &session.Config{Handler: session.ServerHandler(tools{}, nil)}
		receiver.Attach(cfg, receiver.Options{Manager: manager})
		session.Serve(conn, &mcp.InitializeResult{
			Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}, Tasks: receiver.ServerCapabilities(true)},
			ServerInfo:   mcp.Implementation{Name: "server", Version: "1"},
		}, cfg)
	}, streamable.HandlerOptions{
		Store:       streamable.NewMemoryStore(streamable.MemoryOptions{MaxBytes: 1 << 20}), // full when the measurement begins
		MaxSessions: 100_000,
	})
	return &server{manager, handler, httptest.NewServer(handler)}, nil
}

func (s *server) close(ctx context.Context) error {
	err := errors.Join(s.handler.Shutdown(ctx), s.manager.Close(ctx))
	s.http.Close()
	return err
}

type tools struct{ mcp.UnimplementedServerHandler }

func (tools) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	if !sleep(ctx, work) {
		return nil, context.Cause(ctx)
	}
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: string(p.Arguments)}}}, nil
}
