package streamable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
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

// network is a listener whose connections break. Data to the server always arrives.
type network struct {
	net.Listener

	// limit returns the number of further bytes from the server that arrive before the connection
	// breaks. A negative number leaves an earlier limit unchanged. limit is called with each text
	// that the client has written.
	limit func(read []byte) int

	// limits returns the limit function of a connection, from the number of earlier connections. If
	// it is nil, limit is used.
	limits func(conn uint64) func(read []byte) int
	conns  atomic.Uint64

	mu   sync.Mutex
	cuts int    // number of broken connections
	sent []byte // bytes that arrived while a limit was set
}

func (n *network) Accept() (net.Conn, error) {
	c, err := n.Listener.Accept()
	if err != nil {
		return nil, err
	}
	limit := n.limit
	if n.limits != nil {
		limit = n.limits(n.conns.Add(1) - 1)
	}
	return &unreliableConn{Conn: c, n: n, limit: limit, left: -1}, nil
}

// unreliableConn is a connection of a network.
type unreliableConn struct {
	net.Conn
	n     *network
	limit func(read []byte) int
	mu    sync.Mutex
	left  int
}

func (c *unreliableConn) Read(b []byte) (int, error) {
	k, err := c.Conn.Read(b)
	if limit := c.limit(b[:k]); limit >= 0 {
		c.mu.Lock()
		c.left = limit
		c.mu.Unlock()
	}
	return k, err
}

func (c *unreliableConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	left := c.left
	if left >= len(b) {
		c.left -= len(b)
	}
	c.mu.Unlock()
	if left < 0 {
		return c.Conn.Write(b)
	}
	arriving := b[:min(left, len(b))]
	k, err := c.Conn.Write(arriving)
	c.n.mu.Lock()
	c.n.sent = append(c.n.sent, arriving[:k]...)
	if len(arriving) < len(b) {
		c.n.cuts++
	}
	c.n.mu.Unlock()
	if len(arriving) < len(b) {
		c.Conn.Close()
		return k, io.ErrClosedPipe
	}
	return k, err
}

// recorder is a connection that records the messages it reads.
type recorder struct {
	transport.Conn
	mu   sync.Mutex
	seen []string
}

func (r *recorder) Read() (transport.Message, error) {
	m, err := r.Conn.Read()
	if err == nil {
		r.mu.Lock()
		r.seen = append(r.seen, string(m.Text))
		r.mu.Unlock()
	}
	return m, err
}

// dial opens a session with the handler.
func (s *testServer) dial(cfg *session.Options) (*session.Session, *recorder, error) {
	s.t.Helper()
	c, err := streamable.Dial("http://localhost/mcp", streamable.ClientOptions{Options: httpclient.Options{HTTP: s.http}})
	if err != nil {
		s.t.Fatal(err)
	}
	r := &recorder{Conn: c}
	open, err := session.Connect(testContext(s.t), r, &mcp.InitializeRequestParams{
		ClientInfo:   mcp.Implementation{Name: "test client", Version: "1"},
		Capabilities: mcp.ClientCapabilities{Sampling: &mcp.ClientCapabilitiesSampling{}},
	}, cfg)
	return open, r, err
}

// A connection breaks after each possible number of bytes of the answer to a call. If the first
// event has arrived, the client receives all others, once and in order. Otherwise the call fails
// with a DeliveryError. The tool runs once.
//
// Proves HTTP-22, HTTP-32 and HTTP-37.
func TestCutOfAnswerAtEveryByte(t *testing.T) {
	resumed, complete := 0, false
	for cut := 0; !complete; cut++ {
		synctest.Test(t, func(t *testing.T) {
			var n *network
			s := serveOver(t, streamable.HandlerOptions{}, newTools(), cutAnswer(&n, cut))
			c, seen, err := s.dial(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			before := len(seen.seen)
			raw, err := c.Call(testContext(t), "tools/call", session.Raw(`{"name":"progress","arguments":{},"_meta":{"progressToken":"p"}}`))
			var sent []byte
			sent, complete = n.arrived()
			firstEvent := bytes.Contains(sent, []byte("data: \n\n"))
			if got := s.tools.calls.Load(); got != 1 {
				t.Errorf("cut after %d bytes: the tool ran %d times", cut, got)
			}
			if !firstEvent {
				if _, ok := errors.AsType[*transport.DeliveryError](err); !ok {
					t.Errorf("cut after %d bytes: %s, %v", cut, raw, err)
				}
				return
			}
			resumed++
			if err != nil {
				t.Errorf("cut after %d bytes: %v", cut, err)
				return
			}
			seen.mu.Lock()
			defer seen.mu.Unlock()
			var want []string
			for i := range 5 {
				want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d,"progressToken":"p"}}`, i+1))
			}
			want = append(want, `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"{}"}]}}`)
			if diff := cmp.Diff(want, seen.seen[before:]); diff != "" {
				t.Errorf("cut after %d bytes (-want +got):\n%s", cut, diff)
			}
		})
		if t.Failed() {
			return
		}
	}
	if resumed < 500 {
		t.Errorf("%d answers were resumed", resumed)
	}
}

// cutAnswer returns a network whose connections break after cut bytes of the answer to a call.
func cutAnswer(n **network, cut int) func(net.Listener) net.Listener {
	return func(l net.Listener) net.Listener {
		*n = &network{Listener: l, limit: func(read []byte) int {
			if bytes.Contains(read, []byte(`"tools/call"`)) {
				return cut
			}
			return -1
		}}
		return *n
	}
}

// arrived returns the part of an answer that has arrived, and whether it is complete.
func (n *network) arrived() (sent []byte, complete bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent, n.cuts == 0
}

// If a server streams every answer from the start, an answer is not lost once its first event has
// arrived.
func TestCutOfStreamedAnswerAtEveryByte(t *testing.T) {
	for cut, complete := 0, false; !complete; cut++ {
		synctest.Test(t, func(t *testing.T) {
			var n *network
			s := serveOver(t, streamable.HandlerOptions{Streams: streamable.Streams{After: -1}}, newTools(), cutAnswer(&n, cut))
			c, _, err := s.dial(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			raw, err := c.Call(testContext(t), "tools/call", session.Raw(`{"name":"echo","arguments":{"n":1}}`))
			var sent []byte
			sent, complete = n.arrived()
			_, lost := errors.AsType[*transport.DeliveryError](err)
			firstEvent := bytes.Contains(sent, []byte("data: \n\n"))
			if lost == firstEvent || firstEvent && (err != nil || !strings.Contains(string(raw), `{\"n\":1}`)) {
				t.Errorf("cut after %d bytes: %s, %v", cut, raw, err)
			}
			// The call may have been cancelled before the tool ran.
			if got := s.tools.calls.Load(); got > 1 || firstEvent && got < 1 {
				t.Errorf("cut after %d bytes: the tool ran %d times", cut, got)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// A JSON answer is lost with its connection. If it was the answer that names a new task, the client
// finds the task in the list.
func TestTaskWithLostAnswerIsListed(t *testing.T) {
	found := 0
	for cut, complete := 0, false; !complete; cut++ {
		synctest.Test(t, func(t *testing.T) {
			manager, err := task.New(context.Background(), task.Options{Store: memory.New()})
			if err != nil {
				t.Fatal(err)
			}
			defer manager.Close(context.Background())
			o := newTools()
			o.tasks = receiver.ServerCapabilities(true)
			o.configure = func(cfg *session.Options) { receiver.Attach(cfg, receiver.Options{Manager: manager}) }
			var n *network
			s := serveOver(t, streamable.HandlerOptions{}, o, cutAnswer(&n, cut))
			cfg := &session.Options{}
			tasks := requestor.Attach(cfg)
			c, _, err := s.dial(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			h, err := tasks.CallTool(testContext(t), c, &mcp.CallToolRequestParams{Name: "echo", Arguments: []byte(`{"n":1}`)})
			if _, complete = n.arrived(); !complete {
				if lost, ok := errors.AsType[*transport.DeliveryError](err); !ok || !lost.Taken {
					t.Errorf("cut after %d bytes: %v", cut, err)
					return
				}
				for state, err := range requestor.List(testContext(t), c) {
					if err != nil {
						t.Fatal(err)
					}
					found++
					h = tasks.AttachTool(c, state.TaskID)
				}
			}
			if h == nil {
				t.Errorf("cut after %d bytes: no task", cut)
				return
			}
			result, err := h.Result(testContext(t))
			if err != nil || result.Content[0].(*mcp.TextContent).Text != `{"n":1}` || o.calls.Load() != 1 {
				t.Errorf("cut after %d bytes: %+v, %v; the tool ran %d times", cut, result, err, o.calls.Load())
			}
		})
		if t.Failed() {
			return
		}
	}
	if found < 200 {
		t.Errorf("%d tasks were found in the list", found)
	}
}

// Tasks work over connections that break repeatedly: every task that the client knows has one
// result, progress only increases, and a tool runs at most once per call.
func TestTasksOverUnreliableConnections(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %#x", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { tasksOverUnreliableConnections(t, seed) })
		})
	}
}

func tasksOverUnreliableConnections(t *testing.T, seed uint64) {
	var n *network
	o := newTools()
	created := runTasksOver(t, o, func(l net.Listener) net.Listener {
		n = &network{Listener: l, limits: func(conn uint64) func([]byte) int {
			random := rand.New(rand.NewPCG(seed, conn)) // independent of other connections
			return func(read []byte) int {              // called by one goroutine
				if !bytes.HasPrefix(read, []byte("POST")) && !bytes.HasPrefix(read, []byte("GET")) || random.IntN(3) == 0 {
					return -1
				}
				return int(random.ExpFloat64() * 600)
			}
		}}
		return n
	})
	if got := int(o.calls.Load()); got > created {
		t.Errorf("tools ran %d times, for %d calls", got, created)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cuts == 0 {
		t.Error("no connection broke")
	}
}

// runTasksOver runs six tasks at once over a network and checks their results and progress. It
// returns the number of attempts to create a task.
func runTasksOver(t *testing.T, o *tools, network func(net.Listener) net.Listener) (created int) {
	manager, err := task.New(context.Background(), task.Options{Store: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close(context.Background())
	o.tasks = receiver.ServerCapabilities(true)
	o.configure = func(cfg *session.Options) { receiver.Attach(cfg, receiver.Options{Manager: manager}) }
	s := serveOver(t, streamable.HandlerOptions{Streams: streamable.Streams{KeepAlive: 5 * time.Second}}, o, network)
	cfg := &session.Options{Handler: func(context.Context, *session.Request) (codec.Encoder, error) {
		return session.Raw(`{"role":"assistant","model":"m","content":{"type":"text","text":"answer"}}`), nil
	}}
	tasks := requestor.Attach(cfg)
	var c *session.Session
	for {
		var err error
		if c, _, err = s.dial(cfg); err == nil {
			break
		}
		time.Sleep(time.Second)
	}
	defer c.Close()

	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 6 {
		tool := []string{"slow", "sample"}[i%2]
		h, tries := createTask(ctx, t, tasks, c, tool, i)
		created += tries
		var values []float64
		wg.Go(func() {
			for p := range h.Progress(ctx) {
				values = append(values, p.Value)
			}
			if !slices.IsSorted(values) || len(slices.Compact(slices.Clone(values))) != len(values) {
				t.Errorf("task %d: progress %v", i, values)
			}
		})
		wg.Go(func() {
			result, err := h.Result(ctx)
			if err != nil {
				t.Errorf("task %d: %v", i, err)
				return
			}
			got := result.Content[0].(*mcp.TextContent).Text
			if want := map[string]string{"slow": fmt.Sprintf(`{"n":%d}`, i), "sample": `"text":"answer"`}[tool]; !strings.Contains(got, want) {
				t.Errorf("task %d: result %q, want %q", i, got, want)
			}
		})
	}
	wg.Wait()
	return created
}

// createTask creates a task, and returns the number of attempts. An attempt fails if the answer is
// lost before its first event.
func createTask(ctx context.Context, t *testing.T, tasks *requestor.Tasks, c *session.Session, tool string, n int) (h *requestor.Handle[*mcp.CallToolResult], tries int) {
	t.Helper()
	for {
		tries++
		h, err := tasks.CallTool(ctx, c, &mcp.CallToolRequestParams{Name: tool, Arguments: fmt.Appendf(nil, `{"n":%d}`, n)}, requestor.Progress())
		if err == nil {
			return h, tries
		}
		if _, lost := errors.AsType[*transport.DeliveryError](err); !lost {
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != session.CodeOverloaded {
				t.Fatalf("creating task %d: %v", n, err)
			}
		}
	}
}
