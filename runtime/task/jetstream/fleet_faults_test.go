package jetstream_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/natstest"
)

var (
	faults    = flag.Int("faults", 12, "number of faults of TestFleetSurvivesFaults")
	faultSeed = flag.Uint64("faultseed", 0, "seed of TestFleetSurvivesFaults; 0 means a random one")
)

// Variables of the environment of a worker, a child process of the test.
const (
	envWorker = "JETSTREAM_TEST_WORKER" // URLs of the servers
	envLog    = "JETSTREAM_TEST_LOG"    // file of the steps that were recorded
)

// TestMain runs a worker in place of the tests if the environment asks for one.
func TestMain(m *testing.M) {
	if urls := os.Getenv(envWorker); urls != "" {
		if err := work(urls, os.Getenv(envLog)); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	faultLease = 2 * time.Second
	faultName  = "faults"
	steps      = 4 // of a task
)

// work runs the tasks of a worker until its standard input ends.
func work(urls, log string) error {
	nc, err := nats.Connect(urls, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectWait(50*time.Millisecond), nats.IgnoreDiscoveredServers())
	if err != nil {
		return err
	}
	js, err := natsjs.New(nc)
	if err != nil {
		return err
	}
	var s *jetstream.Store
	for s == nil { // the servers may be electing a leader
		if s, err = jetstream.Open(context.Background(), js, jetstream.Options{Name: faultName, Replicas: 3}); err != nil {
			time.Sleep(50 * time.Millisecond)
		}
	}
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	run := func(ctx context.Context, run *task.Run) (codec.Encoder, error) { return runSteps(ctx, run, f) }
	cfg := faultConfig(s, nil)
	cfg.Recover = func(task.Record) task.Work { return run }
	for {
		if _, err = task.New(context.Background(), cfg); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	io.Copy(io.Discard, os.Stdin)
	return nil
}

// faultConfig returns the configuration of a member that runs the given tools.
func faultConfig(s *jetstream.Store, tools []string) task.Config {
	return task.Config{
		Store: s, Member: task.Member{Tools: tools, Lease: faultLease}, Logger: slog.New(slog.DiscardHandler),
		MaxReruns: -1, ParkAfter: 300 * time.Millisecond, Limits: task.Limits{Rate: -1}, Unlimited: true,
	}
}

// runSteps records steps with random results, asks once, and returns the results and the answer. It
// logs each step after it was recorded.
func runSteps(ctx context.Context, run *task.Run, log io.Writer) (codec.Encoder, error) {
	entries, _, err := run.Journal(ctx)
	if err != nil {
		return nil, err
	}
	var results []string
	for i := range steps {
		if i == steps/2 {
			answer, err := run.Ask(ctx, "k", 1, mcp.MethodElicitationCreate, raw(`{"message":"m"}`))
			if err != nil {
				return nil, err
			}
			results = append(results, string(answer))
		}
		if i < len(entries) {
			results = append(results, string(entries[i].Result))
			continue
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		result := fmt.Sprintf("%q", rand.Text())
		if err := run.Record(ctx, task.Entry{Key: fmt.Sprint("step ", i), Occurrence: 1, Result: json.RawMessage(result)}); err != nil {
			return nil, err
		}
		fmt.Fprintf(log, "%s %s\n", run.ID(), result)
		results = append(results, result)
	}
	return raw(`{"results":[` + strings.Join(results, ",") + `]}`), nil
}

// proxy forwards connections of one worker to the servers of a cluster.
type proxy struct {
	cluster *natstest.Cluster
	urls    []string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newProxy(t *testing.T, c *natstest.Cluster, nodes int) *proxy {
	p := &proxy{cluster: c, conns: map[net.Conn]bool{}}
	for node := range nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		p.urls = append(p.urls, "nats://"+l.Addr().String())
		go func() { // ends with l
			for {
				in, err := l.Accept()
				if err != nil {
					return
				}
				go p.forward(in, node) // ends with the connection
			}
		}()
	}
	return p
}

func (p *proxy) forward(in net.Conn, node int) {
	defer in.Close()
	out, err := p.cluster.Dial("tcp", fmt.Sprintf("node-%d:4222", node))
	if err != nil {
		return
	}
	defer out.Close()
	p.mu.Lock()
	if p.cut {
		p.mu.Unlock()
		return
	}
	p.conns[in], p.conns[out] = true, true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, in)
		delete(p.conns, out)
		p.mu.Unlock()
	}()
	go func() { // ends with in or out
		defer out.Close()
		defer in.Close()
		io.Copy(out, in)
	}()
	io.Copy(in, out)
}

// set cuts the worker off or heals its connection.
func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	if cut {
		for c := range p.conns {
			c.Close()
		}
	}
}

// worker is a child process.
type worker struct {
	proxy *proxy
	cmd   *exec.Cmd
	stdin io.Closer
}

func startWorker(t *testing.T, c *natstest.Cluster, log string) *worker {
	w := &worker{proxy: newProxy(t, c, 3)}
	w.cmd = exec.Command(os.Args[0])
	w.cmd.Env = append(os.Environ(), envWorker+"="+strings.Join(w.proxy.urls, ","), envLog+"="+log)
	w.cmd.Stderr = os.Stderr
	stdin, err := w.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.stdin = stdin
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *worker) kill() {
	w.cmd.Process.Kill()
	w.cmd.Wait()
	w.stdin.Close()
}

// Tasks survive random faults: the end of any server, kill -9 of any worker, and partitions. Each
// acknowledged task ends with its own results, each recorded step keeps the result that it was
// recorded with, and each answer counts once.
func TestFleetSurvivesFaults(t *testing.T) {
	seed, n := *faultSeed, *faults
	if seed == 0 {
		seed = mathrand.Uint64()
	}
	if testing.Short() {
		n = min(n, 4)
	}
	t.Logf("-faultseed %d", seed)
	random := mathrand.New(mathrand.NewPCG(seed, 0))
	log := filepath.Join(t.TempDir(), "steps")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := natstest.Run(t, 3)
	nc, link := c.ConnectLinked(t)
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, js, jetstream.Options{Name: faultName, Replicas: 3})
	front, err := task.New(t.Context(), faultConfig(s, []string{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { front.Close(context.Background()) })
	var workers []*worker
	for range 3 {
		workers = append(workers, startWorker(t, c, log))
	}
	t.Cleanup(func() {
		for _, w := range workers {
			w.kill()
		}
	})

	done := make(chan struct{})
	var mu sync.Mutex
	outcomes := map[string][]string{}
	refused := 0
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { // ends once done is closed and its latest task has ended
			for {
				select {
				case <-done:
					return
				default:
				}
				created, err := front.Create(t.Context(), task.Request{
					Principal: "alice", Method: mcp.MethodToolsCall, Name: "steps", Restartable: true,
					Work: func(context.Context, *task.Run) (codec.Encoder, error) { panic("a worker runs the task") },
				})
				if err != nil {
					mu.Lock()
					refused++
					mu.Unlock()
					time.Sleep(20 * time.Millisecond) // the front end joins the fleet again
					continue
				}
				results := finish(t, front, created.TaskID)
				mu.Lock()
				outcomes[created.TaskID] = results
				mu.Unlock()
			}
		})
	}
	for range n {
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond) // so that tasks make progress between faults
		i := random.IntN(3)
		switch random.IntN(4) {
		case 0:
			c.Kill(i)
			time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
			c.Restart(i)
		case 1:
			workers[i].kill()
			workers[i] = startWorker(t, c, log)
		case 2:
			workers[i].proxy.set(true)
			time.Sleep(time.Duration(random.Int64N(int64(2 * faultLease))))
			workers[i].proxy.set(false)
		case 3:
			link.Cut()
			time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
			link.Heal()
		}
	}
	close(done)
	group.Wait()

	recorded, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer recorded.Close()
	lines := 0
	for scanner := bufio.NewScanner(recorded); scanner.Scan(); lines++ {
		id, result, ok := strings.Cut(scanner.Text(), " ")
		results, known := outcomes[id]
		if ok && known && strings.Count(strings.Join(results, " "), result) != 1 {
			t.Errorf("task %s recorded %s, and its outcome is %v", id, result, results)
		}
	}
	for id, results := range outcomes {
		if len(results) != steps+1 || results[steps/2] != `"`+id+`"` {
			t.Errorf("task %s ends with %v", id, results)
		}
	}
	t.Logf("%d tasks with %d recorded steps, %d creations refused, %d faults", len(outcomes), lines, refused, n)
	if len(outcomes) == 0 || lines < steps*len(outcomes)/2 {
		t.Error("too few tasks have ended")
	}
}

// finish waits until a task has ended, answers its input request, and returns its results.
func finish(t *testing.T, m *task.Manager, id string) []string {
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		out, err := m.Result(ctx, "alice", id, answerID(id))
		ended := ctx.Err() != nil
		cancel()
		switch {
		case ended:
			state, failed := m.Get(t.Context(), "alice", id, nil)
			t.Errorf("task %s has not ended: %+v, %v", id, state, failed)
			return nil
		case err != nil:
			time.Sleep(20 * time.Millisecond) // the store is out of reach
			continue
		case out.Error != nil:
			t.Errorf("task %s: %v", id, out.Error)
			return nil
		}
		var result struct {
			Results []json.RawMessage `json:"results"`
		}
		if err := json.Unmarshal(out.Result, &result); err != nil {
			t.Errorf("task %s: %v in %s", id, err, out.Result)
		}
		var list []string
		for _, r := range result.Results {
			list = append(list, string(r))
		}
		return list
	}
}

// answerID is a requestor that answers each input request with the id of a task.
type answerID string

func (id answerID) Call(context.Context, string, codec.Encoder) (json.RawMessage, error) {
	return fmt.Appendf(nil, "%q", string(id)), nil
}

func (answerID) Notify(context.Context, string, codec.Encoder) error { return nil }
