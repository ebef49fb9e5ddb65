//go:build unix

package tasks

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.etcd.io/bbolt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	author "github.com/mcpwire/mcpwire/runtime/client"
	front "github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	wire "github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// Benchmarks of tasks. Run each separately, with the -benchtime in its comment:
//
//	go test -run '^$' -bench TaskCycle -benchtime 9x
//
// A cycle creates a task, runs it, and fetches its result. "author" is what the README shows:
// StartTool and Result of a client, and a server whose tool is a Go function. "manager" is the
// runtime alone, as another SDK would embed it. "session" has a client, a server and all messages over an in-memory
// connection, including the notification of the task's end. "extension" is the same for a task of the
// Tasks extension in revision 2026-07-28: the result comes with tasks/get, which the caller repeats
// until it is there; "extension-polls" is how often. In "extension-once", the caller sends tasks/get
// once, after the end of the task. "extension-author" is what the README shows: the client subscribes
// to the task, and the server pushes its result. mcp-go also runs in one process, over
// its in-process transport, which calls the handlers of server and client directly. "http" and
// "mcp-go-http" are client and server in one process over Streamable HTTP on the loopback address,
// with two POSTs per cycle. "http-listening" also has the GET stream, on which the server reports
// the status of each task; mcp-go does not report it.

const concurrent = 64

var unlimited = task.Limits{Tasks: -1, Bytes: -1, Rate: -1}

func newManager(b *testing.B, store task.Store, ttl time.Duration) *task.Manager {
	b.Helper()
	m, err := task.New(context.Background(), task.Options{Store: store, Limits: unlimited, TTL: task.TTL{Default: ttl}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		m.Close(context.Background())
		store.Close()
	})
	return m
}

func boltStore(b *testing.B) task.Store {
	b.Helper()
	s, err := bolt.Open(filepath.Join(b.TempDir(), "tasks"))
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// contestant runs cycles: it creates a task, runs it, and fetches its result.
type contestant struct {
	name  string
	cycle func() error
}

const (
	longTurn  = 3 * time.Second
	shortTurn = 500 * time.Millisecond // with -short
	keeping   = 2 * time.Second        // lifetime of tasks in memory: many expire in the turn that created them
)

// turn returns the length of a turn.
func turn() time.Duration {
	if testing.Short() {
		return shortTurn
	}
	return longTurn
}

// mallocs returns the number of allocations of the process so far.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// contest lets the contestants take b.N turns each, with the given number of concurrent callers.
// Other load of the machine affects all of them. Ratios are relative to the last contestant of the
// same round, which is the peer. The metrics are medians and, for ratios, also the minimum and the
// maximum. The least processor time depends least on other load. After each turn, tasks in memory expire and garbage is collected, so that no contestant
// pays for another one.
func contest(b *testing.B, rest time.Duration, list ...contestant) {
	b.Helper()
	rates, costs, allocs := make([][]float64, len(list)), make([][]float64, len(list)), make([][]float64, len(list))
	ratios, savings := make([][]float64, len(list)), make([][]float64, len(list))
	for range b.N {
		for i, c := range list {
			before := mallocs()
			n, took, spent := take(b, c.cycle)
			rates[i] = append(rates[i], n/took.Seconds())
			costs[i] = append(costs[i], float64(spent)/n/1e3)
			allocs[i] = append(allocs[i], float64(mallocs()-before)/n)
			time.Sleep(rest)
			runtime.GC()
		}
		for i := range list {
			ratios[i] = append(ratios[i], last(rates[i])/last(rates[len(list)-1]))
			savings[i] = append(savings[i], last(costs[len(list)-1])/last(costs[i]))
		}
	}
	b.ReportMetric(0, "ns/op") // meaningless for all contestants together
	for i, c := range list {
		b.ReportMetric(median(rates[i]), c.name+"-cycles/s")
		b.ReportMetric(median(costs[i]), c.name+"-cpu-µs")
		b.ReportMetric(slices.Min(costs[i]), c.name+"-cpu-least-µs")
		b.ReportMetric(median(allocs[i]), c.name+"-allocs")
		if i < len(list)-1 {
			b.ReportMetric(median(ratios[i]), c.name+"-times")
			b.ReportMetric(slices.Min(ratios[i]), c.name+"-times-least")
			b.ReportMetric(slices.Max(ratios[i]), c.name+"-times-most")
			b.ReportMetric(median(savings[i]), c.name+"-cpu-times")
			b.ReportMetric(slices.Min(savings[i]), c.name+"-cpu-times-least")
			b.ReportMetric(slices.Max(savings[i]), c.name+"-cpu-times-most")
		}
	}
}

// take runs f for a turn and returns the number of runs, the elapsed time and the processor time.
func take(b *testing.B, f func() error) (n float64, took, spent time.Duration) {
	var count atomic.Int64
	length := turn()
	start, before := time.Now(), processor()
	var group sync.WaitGroup
	for range concurrent {
		group.Go(func() {
			for time.Since(start) < length {
				if err := f(); err != nil {
					b.Error(err)
					return
				}
				count.Add(1)
			}
		})
	}
	group.Wait()
	return float64(count.Load()), time.Since(start), processor() - before
}

func last(list []float64) float64 { return list[len(list)-1] }

func median[T float64 | time.Duration](list []T) T {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

var done = &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: "done"}}}

func atOnce(context.Context, *task.Run) (codec.Encoder, error) { return done, nil }

func cycle(m *task.Manager, owner string) error {
	created, err := m.Create(context.Background(), task.Request{Principal: owner, Method: "tools/call", Params: json.RawMessage(`{"name":"t"}`), Work: atOnce})
	if err != nil {
		return err
	}
	out, err := m.Result(context.Background(), owner, created.TaskID, nil)
	if err == nil && out.Error != nil {
		err = out.Error
	}
	return err
}

// BenchmarkTaskCycle needs -benchtime, such as 9x for nine rounds.
func BenchmarkTaskCycle(b *testing.B) {
	plain := func(context.Context, *session.Request) (codec.Encoder, error) { return done, nil }
	plainMCPGo := func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		return mcpgo.NewToolResultText("done"), nil
	}
	over := func(name string, s *session.Session) contestant {
		peer := mcp.ToServer{Caller: s}
		return contestant{name, func() error {
			return sessionCycle(peer, &mcp.CallToolRequestParams{Name: "t", Task: new(mcp.TaskMetadata)})
		}}
	}
	alone := func(m *task.Manager) contestant { return contestant{"manager", func() error { return cycle(m, "o") }} }
	peer := func(name string, c *client.Client) contestant {
		return contestant{name, func() error {
			id, err := createMCPGo(c, keeping.Milliseconds())
			if err == nil {
				_, err = resultMCPGo(c, id)
			}
			return err
		}}
	}
	const rest = keeping + keeping/10
	written := func(name string, c *author.Client) contestant {
		return contestant{name, func() error { return authorCycle(c) }}
	}
	b.Run("memory", func(b *testing.B) {
		var polls, cycles atomic.Int64
		_, subscriber := serveExtension(b, memory.New(), keeping, authorDone)
		contest(b, rest,
			contestant{"extension", extensionCycle(connectExtension(b, memory.New(), keeping), &polls, &cycles)},
			contestant{"extension-once", extensionOnce(b, memory.New(), keeping)},
			written("extension-author", subscriber),
			written("author", connectAuthor(b, authorServer(b, authorDone))),
			over("session", connect(b, newManager(b, memory.New(), keeping), plain)),
			alone(newManager(b, memory.New(), keeping)),
			peer("mcp-go", connectMCPGo(b, plainMCPGo)))
		b.ReportMetric(float64(polls.Load())/float64(cycles.Load()), "extension-polls")
	})
	b.Run("http", func(b *testing.B) {
		contest(b, rest,
			written("author", connectAuthorHTTP(b, authorServer(b, authorDone), true)),
			written("author-listening", connectAuthorHTTP(b, authorServer(b, authorDone), false)),
			over("http", connectHTTP(b, newManager(b, memory.New(), keeping), plain)),
			over("http-listening", connectHTTPListening(b, newManager(b, memory.New(), keeping), plain)),
			peer("mcp-go-http", connectMCPGoHTTP(b, plainMCPGo)))
	})
	b.Run("bolt", func(b *testing.B) {
		contest(b, 0,
			over("session", connect(b, newManager(b, boltStore(b), time.Hour), plain)),
			alone(newManager(b, boltStore(b), time.Hour)),
			contestant{"bbolt", rawBolt(b, 150, 250)})
	})
	b.Run("bolt-extension", func(b *testing.B) {
		var polls, cycles atomic.Int64
		contest(b, 0,
			contestant{"extension", extensionCycle(connectExtension(b, boltStore(b), time.Hour), &polls, &cycles)},
			contestant{"extension-once", extensionOnce(b, boltStore(b), time.Hour)},
			contestant{"bbolt", rawBolt(b, 360, 160)}) // the params of a running task have the _meta of the request
		b.ReportMetric(float64(polls.Load())/float64(cycles.Load()), "extension-polls")
	})
}

// BenchmarkTaskStep measures a [front.Step] of a durable task beside one write to the store, which
// adds the same entry to the journal of a record. A cycle is a task with 50 steps, and as many
// writes. It needs -benchtime, such as 5x for five rounds.
func BenchmarkTaskStep(b *testing.B) {
	const steps = 50
	for _, x := range []struct {
		name string
		open func(*testing.B) task.Store
		ttl  time.Duration
		rest time.Duration
	}{
		{"memory", func(*testing.B) task.Store { return memory.New() }, keeping, keeping + keeping/10},
		{"bolt", boltStore, time.Hour, 0},
	} {
		b.Run(x.name, func(b *testing.B) {
			s := front.New("s", "1", &front.Options{Tasks: task.Options{Store: x.open(b), Limits: unlimited, TTL: task.TTL{Default: x.ttl}}})
			err := front.AddTool(s, "t", "", func(ctx context.Context, c *front.Call, _ struct{}) (string, error) {
				for i := range steps {
					if _, err := front.Step(ctx, c, "step", func(context.Context) (int, error) { return i, nil }); err != nil {
						return "", err
					}
				}
				return "done", nil
			}, front.Durable()).Err()
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { s.Close() })
			c := connectAuthor(b, s)
			store := x.open(b)
			b.Cleanup(func() { store.Close() })
			contest(b, x.rest,
				contestant{"steps", func() error { return authorCycle(c) }},
				contestant{"writes", func() error { return journalCycle(store, x.ttl, steps) }})
		})
	}
}

// journalCycle makes the same writes to a store as a durable task with steps.
func journalCycle(store task.Store, ttl time.Duration, steps int) error {
	now := time.Now().UTC().Truncate(time.Microsecond)
	r, err := store.Create(context.Background(), task.Record{
		ID: fmt.Sprintf("%016x%016x", mcpGoID.Add(1), now.UnixNano()), Status: mcp.TaskStatusWorking, Created: now, Updated: now, TTL: ttl,
		Method: "tools/call", Params: json.RawMessage(`{"name":"t"}`), Restartable: true, Durable: new(task.Durable),
	})
	for i := 0; i < steps && err == nil; i++ {
		d := *r.Durable
		d.Entries = []task.Entry{{Kind: 1, Key: "step", Occurrence: i + 1, Result: strconv.AppendInt(nil, int64(i), 10)}}
		d.Recorded++
		r.Durable = &d
		r, err = store.Update(context.Background(), r)
	}
	if err != nil {
		return err
	}
	r.Status, r.Params, r.Durable, r.Result = mcp.TaskStatusCompleted, nil, nil, json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`)
	_, err = store.Update(context.Background(), r)
	return err
}

// extensionOnce is extensionCycle with one request for the state, after the end of the task.
func extensionOnce(b *testing.B, store task.Store, ttl time.Duration) func() error {
	s, c := serveExtension(b, store, ttl, authorDone)
	return func() error {
		raw, err := c.Session().Call(context.Background(), mcp.MethodToolsCall, &mcp.CallToolRequestParams{Name: "t"})
		if err != nil {
			return err
		}
		var created tasks.CreateTaskResult
		if err := codec.Unmarshal(raw, &created); err != nil {
			return err
		}
		if _, err := s.Tasks().Result(context.Background(), "", created.TaskID, nil); err != nil {
			return err
		}
		raw, err = c.Session().Call(context.Background(), tasks.MethodTasksGet, &tasks.GetTaskRequestParams{TaskID: created.TaskID})
		if err != nil {
			return err
		}
		result, ok := codec.Member(raw, "result")
		if !ok {
			return fmt.Errorf("no result: %s", raw)
		}
		return codec.Unmarshal(result, new(mcp.CallToolResult))
	}
}

// connectExtension connects a client in revision 2026-07-28 to a server whose tool becomes a task at
// once.
func connectExtension(b *testing.B, store task.Store, ttl time.Duration) *session.Session {
	_, c := serveExtension(b, store, ttl, authorDone)
	return c.Session()
}

// serveExtension connects a client in revision 2026-07-28 to a server whose tool becomes a task at
// once. All callers share the client, so more notifications than by default may be pending.
func serveExtension(b *testing.B, store task.Store, ttl time.Duration, tool front.ToolFunc[struct{}, string]) (*front.Server, *author.Client) {
	b.Helper()
	s := front.New("s", "1", &front.Options{Tasks: task.Options{Store: store, Limits: unlimited, TTL: task.TTL{Default: ttl}}})
	front.AddTool(s, "t", "", tool, front.Tasks(receiver.Support{After: -1}))
	b.Cleanup(func() { s.Close() })
	here, there := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(there); err != nil {
		b.Fatal(err)
	}
	c, err := author.Connect(context.Background(), here, &author.Options{Session: session.Options{Revisions: session.ModernRevisions(), Limits: session.Limits{Notifications: 1 << 20}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return s, c
}

// extensionCycle returns a cycle of a task of the Tasks extension, and counts requests for its state.
func extensionCycle(s *session.Session, polls, cycles *atomic.Int64) func() error {
	return func() error {
		cycles.Add(1)
		raw, err := s.Call(context.Background(), mcp.MethodToolsCall, &mcp.CallToolRequestParams{Name: "t"})
		if err != nil {
			return err
		}
		var created tasks.CreateTaskResult
		if err := codec.Unmarshal(raw, &created); err != nil {
			return err
		}
		for {
			polls.Add(1)
			raw, err := s.Call(context.Background(), tasks.MethodTasksGet, &tasks.GetTaskRequestParams{TaskID: created.TaskID})
			if err != nil {
				return err
			}
			if status, _ := codec.Member(raw, "status"); string(status) == `"completed"` {
				var done tasks.GetTaskResultCompleted
				if err := codec.Unmarshal(raw, &done); err != nil {
					return err
				}
				result, _ := codec.Member(raw, "result")
				return codec.Unmarshal(result, new(mcp.CallToolResult))
			}
			runtime.Gosched()
		}
	}
}

// authorDone is the tool of the server that an author writes.
func authorDone(context.Context, *front.Call, struct{}) (string, error) { return "done", nil }

// authorServer returns a server with a tool that can be called as a task.
func authorServer(b *testing.B, tool front.ToolFunc[struct{}, string]) *front.Server {
	b.Helper()
	s := front.New("s", "1", &front.Options{Tasks: task.Options{Store: memory.New(), Limits: unlimited, TTL: task.TTL{Default: keeping}}})
	front.AddTool(s, "t", "", tool, front.Tasks(receiver.Support{}))
	b.Cleanup(func() { s.Close() })
	return s
}

func connectAuthor(b *testing.B, s *front.Server) *author.Client {
	b.Helper()
	here, there := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(there); err != nil {
		b.Fatal(err)
	}
	c, err := author.Connect(context.Background(), here, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

func connectAuthorHTTP(b *testing.B, s *front.Server, noListen bool) *author.Client {
	b.Helper()
	handler := must.Get(s.Handler(nil))
	web := httptest.NewServer(handler)
	b.Cleanup(web.Close)
	b.Cleanup(func() { handler.Close() })
	o := &author.Options{HTTP: streamable.ClientOptions{NoListen: noListen}}
	o.HTTP.HTTP = pooled(b)
	c, err := author.Dial(context.Background(), web.URL, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

func authorCycle(c *author.Client) error {
	h, err := c.StartTool(context.Background(), "t", nil)
	if err != nil {
		return err
	}
	_, err = h.Result(context.Background())
	return err
}

// taskServer serves a tool that can be called as a task.
func taskServer(m *task.Manager, tool session.Handler) sessiontest.Side {
	side := sessiontest.Side{Server: mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools), Tasks: receiver.ServerCapabilities(true)}}
	side.Config.Handler = func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if req.IsNotification() {
			return nil, nil
		}
		return tool(ctx, req)
	}
	receiver.Attach(&side.Config, receiver.Options{Manager: m})
	return side
}

func connect(b *testing.B, m *task.Manager, tool session.Handler) *session.Session {
	b.Helper()
	var client sessiontest.Side
	client.Config.Handler = sessiontest.Methods(nil, nil)
	c, _ := sessiontest.Pair(b, client, taskServer(m, tool))
	return c
}

// pooled returns an HTTP client that keeps a connection for every caller.
func pooled(b *testing.B) *http.Client {
	pool := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4 * concurrent}}
	b.Cleanup(pool.CloseIdleConnections)
	return pool
}

func connectHTTP(b *testing.B, m *task.Manager, tool session.Handler) *session.Session {
	b.Helper()
	return dialHTTP(b, m, tool, streamable.ClientOptions{NoListen: true})
}

func connectHTTPListening(b *testing.B, m *task.Manager, tool session.Handler) *session.Session {
	b.Helper()
	return dialHTTP(b, m, tool, streamable.ClientOptions{})
}

func dialHTTP(b *testing.B, m *task.Manager, tool session.Handler, o streamable.ClientOptions) *session.Session {
	b.Helper()
	o.HTTP = pooled(b)
	side := taskServer(m, tool)
	handler := streamable.NewHandler(func(_ *http.Request, conn wire.Conn) {
		session.Serve(conn, &mcp.InitializeResult{Capabilities: side.Server, ServerInfo: mcp.Implementation{Name: "s", Version: "1"}}, &side.Config)
	}, streamable.HandlerOptions{})
	server := httptest.NewServer(handler)
	b.Cleanup(server.Close)
	b.Cleanup(func() { handler.Close() })
	conn, err := streamable.Dial(server.URL, o)
	if err != nil {
		b.Fatal(err)
	}
	c, err := session.Connect(context.Background(), conn, &mcp.InitializeRequestParams{ClientInfo: mcp.Implementation{Name: "c", Version: "1"}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

func sessionCycle(peer mcp.ToServer, params *mcp.CallToolRequestParams) error {
	outcome, err := peer.CallTool(context.Background(), params)
	if err != nil {
		return err
	}
	raw, err := peer.Caller.Call(context.Background(), "tasks/result", &mcp.GetTaskPayloadRequestParams{TaskID: outcome.(*mcp.CreateTaskResult).Task.TaskID})
	if err != nil {
		return err
	}
	return codec.Unmarshal(raw, new(mcp.CallToolResult))
}

func serverMCPGo(tool server.ToolHandlerFunc) *server.MCPServer {
	s := server.NewMCPServer("s", "1", server.WithTaskCapabilities(true, true, true))
	s.AddTool(mcpgo.NewTool("t", mcpgo.WithTaskSupport(mcpgo.TaskSupportOptional)), tool)
	return s
}

func connectMCPGo(b *testing.B, tool server.ToolHandlerFunc) *client.Client {
	b.Helper()
	c, err := client.NewInProcessClient(serverMCPGo(tool))
	if err != nil {
		b.Fatal(err)
	}
	return openMCPGo(b, c)
}

func connectMCPGoHTTP(b *testing.B, tool server.ToolHandlerFunc) *client.Client {
	b.Helper()
	s := httptest.NewServer(server.NewStreamableHTTPServer(serverMCPGo(tool)))
	b.Cleanup(s.Close)
	c, err := client.NewStreamableHttpClient(s.URL, transport.WithHTTPBasicClient(pooled(b)))
	if err != nil {
		b.Fatal(err)
	}
	return openMCPGo(b, c)
}

func openMCPGo(b *testing.B, c *client.Client) *client.Client {
	b.Helper()
	b.Cleanup(func() { c.Close() })
	if err := c.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	var hello mcpgo.InitializeRequest
	hello.Params.ProtocolVersion = "2025-11-25"
	hello.Params.ClientInfo = mcpgo.Implementation{Name: "c", Version: "1"}
	if _, err := c.Initialize(context.Background(), hello); err != nil {
		b.Fatal(err)
	}
	return c
}

var mcpGoID atomic.Int64

// createMCPGo sends the request itself, because the client's CallTool does not support tasks.
func createMCPGo(c *client.Client, ttl int64) (string, error) {
	resp, err := c.GetTransport().SendRequest(context.Background(), transport.JSONRPCRequest{
		JSONRPC: "2.0", ID: mcpgo.NewRequestId(1e9 + mcpGoID.Add(1)), Method: "tools/call",
		Params: map[string]any{"name": "t", "task": map[string]any{"ttl": ttl}},
	})
	if err != nil {
		return "", err
	}
	var created mcpgo.CreateTaskResult
	if err := json.Unmarshal(resp.Result, &created); err != nil {
		return "", err
	}
	if created.Task.TaskId == "" {
		return "", fmt.Errorf("no task: %s, %v", resp.Result, resp.Error)
	}
	return created.Task.TaskId, nil
}

func resultMCPGo(c *client.Client, id string) (*mcpgo.TaskResultResult, error) {
	var q mcpgo.TaskResultRequest
	q.Params.TaskId = id
	return c.TaskResult(context.Background(), q)
}

// rawBolt makes the same writes as a cycle: the record and its three index entries, then the record
// with its result. The record has the given sizes. The callers share transactions by bbolt's own Batch.
func rawBolt(b *testing.B, created, ended int) func() error {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "raw"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.MaxBatchSize = concurrent
	db.MaxBatchDelay = time.Millisecond // faster than the default of 10 ms
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"tasks", "ids", "owners", "expiry"} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	var next atomic.Uint64
	record, outcome := make([]byte, created), make([]byte, ended)
	return func() error {
		key := binary.BigEndian.AppendUint64(nil, next.Add(1))
		id := fmt.Appendf(nil, "%x", key[4:])
		slices.Reverse(id)
		id = append(id, "0123456789abcdef01"...)
		err := db.Batch(func(tx *bbolt.Tx) error {
			return errors.Join(
				tx.Bucket([]byte("tasks")).Put(key, record),
				tx.Bucket([]byte("ids")).Put(id, key),
				tx.Bucket([]byte("owners")).Put(append(make([]byte, 16), key...), nil),
				tx.Bucket([]byte("expiry")).Put(append(make([]byte, 8), key...), nil),
			)
		})
		if err != nil {
			return err
		}
		return db.Batch(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("tasks")).Put(key, outcome) })
	}
}

// waker is a contestant whose wake-ups are measured. once runs a cycle, and waiting reports that
// its work may end.
type waker struct {
	name    string
	once    func() error
	waiting func() bool
}

// BenchmarkTaskWake measures the time from the end of the work to the result at a blocked caller.
// It needs -benchtime, such as 5000x for 5000 wake-ups of each contestant; the contestants
// alternate. The metrics are the median, p99, and the ratio of the median to that of the last
// contestant: overall, and its minimum and maximum over tenths of the wake-ups.
func BenchmarkTaskWake(b *testing.B) {
	var start time.Time // the end of the work
	release := make(chan bool)
	work := func() { <-release; start = time.Now() }
	// measure waits for settle once waiting is true, so that all goroutines are blocked.
	measure := func(b *testing.B, settle time.Duration, list ...waker) {
		times := make([][]time.Duration, len(list))
		for range b.N {
			for i, w := range list {
				failed := make(chan error, 1)
				var at time.Time
				go func() {
					err := w.once()
					at = time.Now()
					failed <- err
				}()
				for !w.waiting() {
					runtime.Gosched()
				}
				time.Sleep(settle)
				release <- true
				if err := <-failed; err != nil {
					b.Fatal(err)
				}
				times[i] = append(times[i], at.Sub(start))
			}
		}
		b.ReportMetric(0, "ns/op") // meaningless for all contestants together
		theirs := times[len(list)-1]
		for i, w := range list {
			b.ReportMetric(float64(median(times[i]))/1e3, w.name+"-p50-µs")
			sorted := slices.Sorted(slices.Values(times[i]))
			b.ReportMetric(float64(sorted[len(sorted)*99/100])/1e3, w.name+"-p99-µs")
			if i == len(list)-1 {
				break
			}
			b.ReportMetric(float64(median(times[i]))/float64(median(theirs)), w.name+"-times")
			var ratios []float64
			part := max(1, b.N/10)
			for at := 0; at+part <= b.N; at += part {
				ratios = append(ratios, float64(median(times[i][at:at+part]))/float64(median(theirs[at:at+part])))
			}
			b.ReportMetric(slices.Min(ratios), w.name+"-times-least")
			b.ReportMetric(slices.Max(ratios), w.name+"-times-most")
		}
	}
	tool := func(context.Context, *session.Request) (codec.Encoder, error) { work(); return done, nil }
	toolMCPGo := func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		work()
		return mcpgo.NewToolResultText("done"), nil
	}
	over := func(b *testing.B, name string, connect func(*testing.B, *task.Manager, session.Handler) *session.Session) waker {
		m := newManager(b, memory.New(), time.Hour)
		peer := mcp.ToServer{Caller: connect(b, m, tool)}
		return waker{name, func() error {
			return sessionCycle(peer, &mcp.CallToolRequestParams{Name: "t", Task: new(mcp.TaskMetadata)})
		}, func() bool { return m.Stats().Waiting == 1 }}
	}
	peer := func(b *testing.B, name string, connect func(*testing.B, server.ToolHandlerFunc) *client.Client) waker {
		c := connect(b, toolMCPGo)
		var created atomic.Bool
		return waker{name, func() error {
			id, err := createMCPGo(c, 3_600_000)
			created.Store(true)
			if err == nil {
				_, err = resultMCPGo(c, id)
			}
			return err
		}, func() bool { return created.CompareAndSwap(true, false) }}
	}
	written := func(b *testing.B, connect func(*testing.B, *front.Server) *author.Client) waker {
		s := authorServer(b, func(context.Context, *front.Call, struct{}) (string, error) { work(); return "done", nil })
		c := connect(b, s)
		return waker{"author", func() error { return authorCycle(c) }, func() bool { return s.Tasks().Stats().Waiting == 1 }}
	}
	b.Run("memory", func(b *testing.B) {
		m := newManager(b, memory.New(), time.Hour)
		alone := waker{"manager", func() error {
			created, err := m.Create(context.Background(), task.Request{Method: "tools/call", Work: func(context.Context, *task.Run) (codec.Encoder, error) { work(); return done, nil }})
			if err == nil {
				_, err = m.Result(context.Background(), "", created.TaskID, nil)
			}
			return err
		}, func() bool { return m.Stats().Waiting == 1 }}
		measure(b, 50*time.Microsecond, written(b, connectAuthor), over(b, "session", connect), alone, peer(b, "mcp-go", connectMCPGo))
	})
	b.Run("push", func(b *testing.B) { // the subscription opens while the work runs
		_, c := serveExtension(b, memory.New(), time.Hour, func(context.Context, *front.Call, struct{}) (string, error) { work(); return "done", nil })
		measure(b, 5*time.Millisecond, waker{"push", func() error { return authorCycle(c) }, func() bool { return true }}, peer(b, "mcp-go", connectMCPGo))
	})
	b.Run("http", func(b *testing.B) { // all goroutines are blocked only after a while
		withoutListening := func(b *testing.B, s *front.Server) *author.Client { return connectAuthorHTTP(b, s, true) }
		measure(b, 2*time.Millisecond, written(b, withoutListening), over(b, "http", connectHTTP), peer(b, "mcp-go-http", connectMCPGoHTTP))
	})
}

const serverEnv = "MCPWIRE_BENCH_SERVER"

// TestMain makes this program a server on standard input and output if its environment says so.
func TestMain(m *testing.M) {
	switch name := os.Getenv(serverEnv); name {
	case "":
		os.Exit(m.Run())
	case "1":
	default:
		if err := serveStdio(context.Background(), name); err != nil && !errors.Is(err, io.EOF) {
			panic(err)
		}
		return
	}
	manager, err := task.New(context.Background(), task.Options{Store: memory.New(), Limits: unlimited})
	if err != nil {
		panic(err)
	}
	cfg := &session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if _, ok := task.FromContext(ctx); ok {
			time.Sleep(2 * time.Millisecond) // let the caller block
		}
		return &mcp.CallToolResult{Content: []mcp.ContentBlock{}, StructuredContent: strconv.AppendInt(nil, time.Now().UnixNano(), 10)}, nil
	}}
	receiver.Attach(cfg, receiver.Options{Manager: manager})
	session.Serve(stdio.Server(stdio.Options{}), &mcp.InitializeResult{
		Capabilities: mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools), Tasks: receiver.ServerCapabilities(true)},
	}, cfg).Wait()
}

// BenchmarkTaskWakeStdio measures the same with the server in a separate process: the clock time
// from the end of the work to the result at the caller and, for comparison, the round trip of a
// plain call.
func BenchmarkTaskWakeStdio(b *testing.B) {
	conn, err := stdio.Start(stdio.Command{Path: os.Args[0], Env: append(stdio.DefaultEnv(), serverEnv+"=1"), Stderr: os.Stderr})
	if err != nil {
		b.Fatal(err)
	}
	s, err := session.Connect(context.Background(), conn, new(mcp.InitializeRequestParams), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	peer := mcp.ToServer{Caller: s}
	var wake, plain []time.Duration
	for b.Loop() {
		outcome, err := peer.CallTool(context.Background(), &mcp.CallToolRequestParams{Name: "t", Task: new(mcp.TaskMetadata)})
		if err != nil {
			b.Fatal(err)
		}
		raw, err := s.Call(context.Background(), "tasks/result", &mcp.GetTaskPayloadRequestParams{TaskID: outcome.(*mcp.CreateTaskResult).Task.TaskID})
		now := time.Now()
		var result mcp.CallToolResult
		if err == nil {
			err = codec.Unmarshal(raw, &result)
		}
		if err != nil {
			b.Fatal(err)
		}
		ended, err := strconv.ParseInt(string(result.StructuredContent), 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		wake = append(wake, now.Sub(time.Unix(0, ended)))

		time.Sleep(2 * time.Millisecond) // let both processes become idle, as before a wake-up
		start := time.Now()
		if _, err := peer.CallTool(context.Background(), &mcp.CallToolRequestParams{Name: "t"}); err != nil {
			b.Fatal(err)
		}
		plain = append(plain, time.Since(start))
	}
	slices.Sort(wake)
	slices.Sort(plain)
	b.ReportMetric(float64(wake[len(wake)/2])/1e3, "wake-p50-µs")
	b.ReportMetric(float64(plain[len(plain)/2])/1e3, "round-trip-p50-µs")
}

// BenchmarkTaskTenThousandWaiters blocks ten thousand callers on one task and measures the time
// until the last one has the result.
func BenchmarkTaskTenThousandWaiters(b *testing.B) {
	for name, open := range map[string]func(*testing.B) task.Store{"memory": func(*testing.B) task.Store { return memory.New() }, "bolt": boltStore} {
		b.Run(name, func(b *testing.B) {
			m := newManager(b, open(b), time.Hour)
			var spent time.Duration
			var times []time.Duration
			for range b.N {
				release := make(chan bool)
				created, err := m.Create(context.Background(), task.Request{Method: "tools/call", Work: func(context.Context, *task.Run) (codec.Encoder, error) { <-release; return done, nil }})
				if err != nil {
					b.Fatal(err)
				}
				var group sync.WaitGroup
				for range 10_000 {
					group.Go(func() {
						if out, err := m.Result(context.Background(), "", created.TaskID, nil); err != nil || out.Result == nil {
							b.Error(err)
						}
					})
				}
				for m.Stats().Waiting < 10_000 {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(10 * time.Millisecond)
				start, before := time.Now(), processor()
				close(release)
				group.Wait()
				times = append(times, time.Since(start))
				spent += processor() - before
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2])/1e6, "median-ms")
			b.ReportMetric(float64(times[len(times)-1])/1e6, "worst-ms")
			b.ReportMetric(float64(spent)/float64(b.N)/1e6, "cpu-ms/op")
		})
	}
}

// processor returns the processor time of the process.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// goroutines makes the runtime allocate the descriptors of goroutines for the work of n tasks, so
// that they are not counted as memory of the tasks.
func goroutines(n int) {
	stop := make(chan bool)
	var group sync.WaitGroup
	for range n {
		group.Go(func() { <-stop })
	}
	close(stop)
	group.Wait()
}

func heap() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// BenchmarkTaskMemory measures the heap of a hundred thousand tasks: live ones whose work is
// blocked, without stacks of goroutines, and finished ones with a small result.
func BenchmarkTaskMemory(b *testing.B) {
	const n = 100_000
	b.Run("mcpwire", func(b *testing.B) {
		for range b.N {
			m := newManager(b, memory.New(), time.Hour)
			release := make(chan bool)
			goroutines(n)
			before := heap()
			for range n {
				_, err := m.Create(context.Background(), task.Request{Principal: "o", Method: "tools/call", Work: func(context.Context, *task.Run) (codec.Encoder, error) { <-release; return done, nil }})
				if err != nil {
					b.Fatal(err)
				}
			}
			live := heap()
			close(release)
			for m.Stats().Running > 0 {
				time.Sleep(time.Millisecond)
			}
			b.ReportMetric(float64(live-before)/n, "B/live")
			b.ReportMetric(float64(heap()-before)/n, "B/finished")
		}
	})
	b.Run("mcp-go", func(b *testing.B) {
		for range b.N {
			release := make(chan bool)
			c := connectMCPGo(b, func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
				<-release
				return mcpgo.NewToolResultText("done"), nil
			})
			goroutines(n)
			before := heap()
			for range n {
				if _, err := createMCPGo(c, 3_600_000); err != nil {
					b.Fatal(err)
				}
			}
			live := heap()
			close(release)
			time.Sleep(2 * time.Second)
			b.ReportMetric(float64(live-before)/n, "B/live")
			b.ReportMetric(float64(heap()-before)/n, "B/finished")
		}
	})
}

// BenchmarkTaskList reads a page of 50 out of many tasks, in the middle.
func BenchmarkTaskList(b *testing.B) {
	for _, size := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("memory/%d", size), func(b *testing.B) { listTasks(b, memory.New(), size) })
		b.Run(fmt.Sprintf("bolt/%d", size), func(b *testing.B) { listTasks(b, boltStore(b), size) })
	}
	b.Run("mcp-go/10000", func(b *testing.B) {
		c := connectMCPGo(b, func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText("done"), nil
		})
		for range 10_000 {
			if _, err := createMCPGo(c, 3_600_000); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.ListTasksByPage(context.Background(), mcpgo.ListTasksRequest{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func listTasks(b *testing.B, store task.Store, size int) {
	m := newManager(b, store, 24*time.Hour)
	var group sync.WaitGroup
	for range concurrent {
		group.Go(func() {
			for range size / concurrent {
				now := time.Now().UTC().Truncate(time.Microsecond)
				_, err := store.Create(context.Background(), task.Record{
					ID: fmt.Sprintf("%016x%016x", mcpGoID.Add(1), now.UnixNano()), Owner: "o", Status: mcp.TaskStatusCompleted,
					Created: now, Updated: now, TTL: 24 * time.Hour, Method: "tools/call", Result: json.RawMessage(`{"content":[]}`),
				})
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	cursor := ""
	for range size / 50 / 2 {
		_, next, err := m.List(context.Background(), "o", cursor)
		if err != nil {
			b.Fatal(err)
		}
		cursor = next
		if size > 100_000 && cursor != "" {
			break // far enough to have a cursor; reading half a million tasks takes too long
		}
	}
	b.ReportAllocs()
	before, n := processor(), 0
	for b.Loop() {
		n++
		tasks, _, err := m.List(context.Background(), "o", cursor)
		if err != nil || len(tasks) != 50 {
			b.Fatal(len(tasks), err)
		}
	}
	b.ReportMetric(float64(processor()-before)/float64(n)/1e3, "cpu-µs/op")
}

// BenchmarkTaskExpiry creates a million tasks that expire soon, and measures the longest read of
// another task meanwhile and the growth of the heap. Reads of a task of a second, otherwise unused
// Manager show the share that is due to busy processors. The metrics of the Go runtime show the
// longest stop of all goroutines. BenchmarkLockHold in runtime/task/memory measures how long the store
// holds its lock.
func BenchmarkTaskExpiry(b *testing.B) {
	for range b.N {
		m, apart := newManager(b, memory.New(), time.Hour), newManager(b, memory.New(), time.Hour)
		stop := make(chan bool)
		var group sync.WaitGroup
		var beside, elsewhere []time.Duration
		group.Go(func() { beside = look(b, m, stop) })
		group.Go(func() { elsewhere = look(b, apart, stop) })
		var peak uint64
		group.Go(func() { peak = highest(stop) })
		before, stops := heap(), stopped()
		for i := range 1_000_000 {
			// Limit concurrent work as on a server that is not overloaded: the benchmark measures
			// the effect of tasks, not of goroutines.
			for i%64 == 0 && m.Stats().Running > 0 {
				runtime.Gosched()
			}
			_, err := m.Create(context.Background(), task.Request{Principal: "o", Method: "tools/call", Task: &mcp.TaskMetadata{TTL: new(int64(100))}, Work: atOnce})
			if err != nil {
				b.Fatal(err)
			}
		}
		for m.Stats().Expired < 1_000_000 {
			time.Sleep(time.Millisecond)
		}
		close(stop)
		group.Wait()
		report := func(name string, times []time.Duration) {
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*999/1000])/1e6, name+"p99.9-ms")
			b.ReportMetric(float64(times[len(times)-1])/1e6, name+"longest-ms")
		}
		report("", beside)
		report("elsewhere-", elsewhere)
		b.ReportMetric(longest(stops, stopped())*1e3, "stop-longest-ms")
		b.ReportMetric(float64(peak)/(1<<20), "peak-MB")
		b.ReportMetric((float64(heap())-float64(before))/(1<<20), "left-MB")
	}
}

// look reads a task of a Manager every millisecond until stop is closed, and returns the durations.
func look(b *testing.B, m *task.Manager, stop <-chan bool) (times []time.Duration) {
	bystander, err := m.Create(context.Background(), task.Request{Method: "tools/call", Work: atOnce})
	if err != nil {
		b.Error(err)
	}
	for {
		select {
		case <-stop:
			return times
		case <-time.After(time.Millisecond):
		}
		start := time.Now()
		if _, err := m.Get(context.Background(), "", bystander.TaskID, nil); err != nil {
			b.Error(err)
		}
		times = append(times, time.Since(start))
	}
}

// highest returns the maximum size of the heap until stop is closed.
func highest(stop <-chan bool) (peak uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}} // reading it does not stop other goroutines
	for {
		select {
		case <-stop:
			return peak
		case <-time.After(100 * time.Millisecond):
		}
		metrics.Read(sample)
		peak = max(peak, sample[0].Value.Uint64())
	}
}

// stopped returns the histogram of garbage collection pauses.
func stopped() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64Histogram()
}

// longest returns the upper bound of the longest time in a histogram, in seconds.
func longest(before, after *metrics.Float64Histogram) (seconds float64) {
	for i, n := range after.Counts {
		if n > before.Counts[i] {
			seconds = after.Buckets[i+1]
		}
	}
	return seconds
}

// BenchmarkStepReplay measures the time that a handler with 1,000 steps takes to pass them when it
// runs again after a restart of the server.
func BenchmarkStepReplay(b *testing.B) {
	const steps = 1000
	file := filepath.Join(b.TempDir(), "tasks")
	var took, spent time.Duration
	for range b.N {
		recorded, replayed := make(chan bool, 1), make(chan bool, 1)
		open := func(again bool) (*front.Server, func()) {
			store, err := bolt.Open(file)
			if err != nil {
				b.Fatal(err)
			}
			s := front.New("s", "1", &front.Options{Tasks: task.Options{Store: store}})
			front.AddTool(s, "t", "", func(ctx context.Context, c *front.Call, _ struct{}) (string, error) {
				start, before := time.Now(), processor()
				for i := range steps {
					n, err := front.Step(ctx, c, "step", func(context.Context) (int, error) {
						if again {
							return 0, errors.New("a step ran again")
						}
						return i, nil
					})
					if err != nil || n != i {
						b.Error(n, err)
						break
					}
				}
				if again {
					took, spent = took+time.Since(start), spent+processor()-before
					replayed <- true
					return "done", nil
				}
				recorded <- true
				<-ctx.Done()
				return "", context.Cause(ctx)
			}, front.Durable())
			if err := s.Start(context.Background()); err != nil {
				b.Fatal(err)
			}
			return s, func() { s.Close(); store.Close() }
		}
		s, end := open(false)
		here, there := inmemory.Pair(inmemory.Options{})
		if _, err := s.Serve(there); err != nil {
			b.Fatal(err)
		}
		c, err := author.Connect(context.Background(), here, &author.Options{Session: session.Options{Revisions: session.Revisions()}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.StartTool(context.Background(), "t", nil); err != nil {
			b.Fatal(err)
		}
		<-recorded
		end()
		c.Close()
		_, end = open(true)
		<-replayed
		end()
	}
	b.ReportMetric(float64(took)/float64(b.N)/1e6, "ms/replay")
	b.ReportMetric(float64(spent)/float64(b.N)/1e6, "cpu-ms/replay")
}
