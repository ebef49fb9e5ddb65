// Command load holds many clients over HTTP on the loopback address, client and server in one
// process, and prints the resource usage:
//
//	go run ./load -sessions 2000 -time 1m
//	go run ./load -sessions 500 -modern 2000 -rate 400 -time 1m
//
// In the first form, each client has a session with its GET stream and runs one task after another:
// it creates the task, waits for the result, and checks it.
//
// In the second form, there are clients of a revision without sessions, too, each with its
// subscription. All clients in turn call a tool, answer two input requests of a tool, and update a
// resource that they and another client are subscribed to. Meanwhile, the list of tools changes.
// They also create tasks in one bolt store: tasks with two steps, a sleep and an input request,
// which the client polls or watches, and tasks that are cancelled. A client of the other kind with
// the same principal responds to input requests, cancels, and reads the results, too; a client with
// another principal sees nothing. The command fails if a result is wrong, if a client has missed a
// change, if a step has run twice, or if the Manager has counted other tasks than the clients.
//
// The clients work at a pace that gives the total rate. Memory is the memory in use after a garbage
// collection, including stacks of goroutines, at moments when no work is in progress. The
// measurement begins when memory should not grow any further: after the first tasks have expired,
// or after each client has done all of its kinds of work. If it takes 30 seconds or more, the
// command fails if the least memory of the second half is more than a tenth above that of the
// first. In the end the command shuts everything down, and fails if goroutines are left.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
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
	samples  = 6
	taskTime = 50 * time.Millisecond // duration of a task
	ttl      = 3 * time.Second       // lifetime of a task
	opening  = 32                    // number of clients that are opened or closed concurrently
	flatTime = 30 * time.Second      // a measurement of this length fails if memory grows
)

// member is a client of the server.
type member interface {
	open(ctx context.Context, serverURL string, pool *http.Client) error
	work(ctx context.Context, n int) error // does the nth piece of work and checks its result
	close() error
}

// host is a server on the loopback address.
type host interface {
	url() string
	close(ctx context.Context) error
}

// load is what to do.
type load struct {
	host    host
	members []member
	name    string        // of the members
	unit    string        // of work
	idle    int           // HTTP connections that are kept for later requests
	rate    float64       // pieces of work per second
	settle  time.Duration // until memory should not grow any further
	length  time.Duration // of the measurement
	// verify is called after the work; it may be nil.
	verify  func(ctx context.Context) error
	working sync.RWMutex // held for reading during a piece of work
}

// patience is how long a piece of work may take, and a notification.
const patience = 2 * time.Minute

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	sessions := flags.Int("sessions", 1000, "hold this `NUMBER` of sessions")
	modern := flags.Int("modern", 0, "hold this `NUMBER` of clients without sessions, too, and mix calls, input requests and changes with the tasks")
	rate := flags.Float64("rate", 300, "create this `NUMBER` of tasks, or do this number of pieces of work, per second in total")
	length := flags.Duration("time", 5*time.Second, "measure for this `TIME`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	before := runtime.NumGoroutine()
	fmt.Fprintf(out, "at the start: %s\n", used())
	l := &load{rate: *rate, length: *length}
	var err error
	if *modern > 0 {
		err = l.mix(*sessions, *modern)
	} else {
		err = l.tasks(ctx, *sessions)
	}
	if err == nil {
		err = l.run(ctx, out)
	}
	if err != nil {
		return err
	}
	l.members, l.host, l.verify = nil, nil, nil // so that their memory is released
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines are left, want %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
	fmt.Fprintf(out, "shut down:   %s\n", used())
	return nil
}

// usage is the resource usage of the process.
type usage struct {
	memory     float64 // in megabytes
	goroutines int
}

func (u usage) String() string {
	return fmt.Sprintf("%6.1f MB, %6d goroutines", u.memory, u.goroutines)
}

// used returns the current resource usage.
func used() usage {
	for range 2 { // pools and finalizers keep memory during the first collection
		runtime.GC()
	}
	// Not the heap in use, which has what was allocated since the collection.
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(read)
	return usage{float64(read[0].Value.Uint64()+read[1].Value.Uint64()) / 1e6, runtime.NumGoroutine()}
}

// run opens the members, measures them, and closes them.
func (l *load) run(ctx context.Context, out io.Writer) (err error) {
	count := len(l.members)
	pool := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.idle}}
	defer func() {
		err = errors.Join(err, l.host.close(ctx))
		pool.CloseIdleConnections()
	}()
	defer func() { err = errors.Join(err, each(l.members, member.close)) }()
	start := time.Now()
	if err := each(l.members, func(m member) error { return m.open(ctx, l.host.url(), pool) }); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d %s: %s, opened in %.1f s\n", count, l.name, used(), time.Since(start).Seconds())

	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var done atomic.Int64
	var group sync.WaitGroup
	pace := time.Duration(float64(count) / l.rate * float64(time.Second))
	for i, m := range l.members {
		group.Go(func() { // ends with running
			if err := l.work(running, m, pace*time.Duration(i)/time.Duration(count), pace, &done); err != nil {
				stop(err)
			}
		})
	}
	grown := l.sample(running, out, &done)
	stop(nil)
	group.Wait()
	if cause := context.Cause(running); cause != context.Canceled {
		return cause
	}
	if l.verify != nil {
		grown = errors.Join(grown, l.verify(ctx))
	}
	return grown
}

// sample prints the resource usage at intervals. It returns an error if memory has grown.
func (l *load) sample(ctx context.Context, out io.Writer, done *atomic.Int64) error {
	if !sleep(ctx, l.settle) {
		return nil
	}
	start, before := time.Now(), done.Load()
	least := [2]float64{math.Inf(1), math.Inf(1)} // memory in each half of the samples
	for i := range samples {
		if i > 0 && !sleep(ctx, l.length/(samples-1)) {
			return nil
		}
		l.working.Lock() // what a busy machine has not finished does not count
		now := used()
		l.working.Unlock()
		half := &least[2*i/samples]
		*half = min(*half, now.memory)
		fmt.Fprintf(out, "after %5.1f s: %s, %d %s\n", time.Since(start).Seconds(), now, done.Load()-before, l.unit)
	}
	if l.length >= flatTime && least[1] > 1.1*least[0] {
		return fmt.Errorf("memory has grown from %.1f MB to %.1f MB", least[0], least[1])
	}
	return nil
}

// work does the work of a member until the context ends, the first piece after a delay. A piece
// that has begun is finished.
func (l *load) work(ctx context.Context, m member, after, pace time.Duration, done *atomic.Int64) error {
	for n := 0; sleep(ctx, after); n++ {
		start := time.Now()
		l.working.RLock()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		err := m.work(limited, n)
		cancel()
		l.working.RUnlock()
		if err != nil {
			return err
		}
		done.Add(1)
		after = max(0, pace-time.Since(start))
	}
	return nil
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

// each calls a function for all members, for some of them concurrently.
func each(members []member, do func(member) error) error {
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	var next atomic.Int64
	for range opening {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(members)); i = next.Add(1) - 1 {
				if err := do(members[i]); err != nil {
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

// tasks sets the load of sessions that run tasks.
func (l *load) tasks(ctx context.Context, count int) error {
	s, err := newServer(ctx)
	if err != nil {
		return err
	}
	for range count {
		l.members = append(l.members, new(user))
	}
	l.host, l.name, l.unit, l.idle, l.settle = s, "sessions", "tasks", count, 2*ttl
	return nil
}

// user is a client with a session that runs tasks.
type user struct {
	session *session.Session // nil if not open
	tasks   *requestor.Tasks
}

func (u *user) open(ctx context.Context, serverURL string, pool *http.Client) error {
	conn, err := streamable.Dial(serverURL, streamable.ClientOptions{Options: httpclient.Options{HTTP: pool}})
	if err != nil {
		return err
	}
	cfg := new(session.Options)
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

// work runs one task.
func (u *user) work(ctx context.Context, n int) error {
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

func serve(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	return mcp.DispatchServer(ctx, tools{}, req.Revision(), req.Method, req.Params)
}

func newServer(ctx context.Context) (*server, error) {
	manager, err := task.New(ctx, task.Options{Store: memory.New(), Limits: task.Limits{Tasks: -1, Bytes: -1, Rate: -1}})
	if err != nil {
		return nil, err
	}
	handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
		cfg := &session.Options{Handler: serve}
		receiver.Attach(cfg, receiver.Options{Manager: manager})
		session.Serve(conn, &mcp.InitializeResult{
			Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}, Tasks: receiver.ServerCapabilities(true)},
			ServerInfo:   mcp.Implementation{Name: "server", Version: "1"},
		}, cfg)
	}, streamable.HandlerOptions{
		Sessions: streamable.Sessions{Store: streamable.NewMemoryStore(streamable.MemoryOptions{MaxBytes: 1 << 20})}, // full when the measurement begins
		Limits:   streamable.Limits{Sessions: 100_000, Requests: 100_000},
	})
	return &server{manager, handler, httptest.NewServer(handler)}, nil
}

func (s *server) url() string { return s.http.URL }

func (s *server) close(ctx context.Context) error {
	err := errors.Join(s.handler.Shutdown(ctx), s.manager.Close(ctx))
	s.http.Close()
	return err
}

type tools struct{ mcp.UnimplementedServerHandler }

func (tools) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	if !sleep(ctx, taskTime) {
		return nil, context.Cause(ctx)
	}
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: string(p.Arguments)}}}, nil
}
