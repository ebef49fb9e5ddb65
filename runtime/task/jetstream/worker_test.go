package jetstream_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
)

// Variables of the environment of a worker, a child process of the test.
const (
	envWorker = "JETSTREAM_TEST_WORKER" // URLs of the servers
	envLog    = "JETSTREAM_TEST_LOG"    // file of the steps that were recorded
	envLease  = "JETSTREAM_TEST_LEASE"  // faultLease if unset
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
	if lease, err := time.ParseDuration(os.Getenv(envLease)); err == nil {
		cfg.Member.Lease = lease
	}
	cfg.Recovery.Recover = func(r task.Record) task.Work {
		if r.Name == "sleep" {
			return runSleep
		}
		return run
	}
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
func faultConfig(s *jetstream.Store, tools []string) task.Options {
	return task.Options{
		Store: s, Member: task.Member{Tools: tools, Lease: faultLease}, Logger: slog.New(slog.DiscardHandler),
		Recovery: task.Recovery{MaxReruns: -1, ParkAfter: 300 * time.Millisecond}, Limits: task.Limits{Rate: -1}, TTL: task.TTL{Unlimited: true},
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
			answer, err := run.Ask(ctx, task.InputRequest{Method: mcp.MethodElicitationCreate, Key: "k", Occurrence: 1}, raw(`{"message":"m"}`))
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

// startWorker starts a worker and returns a function that kills it.
func startWorker(t *testing.T, c *natstest.Cluster, log string, env ...string) (kill func()) {
	t.Helper()
	urls, _ := c.Listen()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), env...), envWorker+"="+urls, envLog+"="+log)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		cmd.Process.Kill()
		cmd.Wait()
		stdin.Close()
	}
}

// finish waits until a task has ended, answers its input request, and returns its results.
func finish(t *testing.T, m *task.Manager, id string) (list []string) {
	t.Helper()
	out := ended(t, m, id, answerID(id))
	if out.Error != nil {
		t.Errorf("task %s: %v", id, out.Error)
		return nil
	}
	var result struct {
		Results []json.RawMessage `json:"results"`
	}
	if err := json.Unmarshal(out.Result, &result); err != nil {
		t.Errorf("task %s: %v in %s", id, err, out.Result)
	}
	for _, r := range result.Results {
		list = append(list, string(r))
	}
	return list
}

// ended waits until a task has ended, although the store may be out of reach meanwhile. It fails
// the test after two minutes.
func ended(t *testing.T, m *task.Manager, id string, via task.Requestor) task.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		out, err := m.Result(ctx, "alice", id, via)
		if err == nil {
			return out
		}
		if ctx.Err() != nil {
			state, failed := m.Get(t.Context(), "alice", id, nil)
			t.Fatalf("task %s has not ended: %v; its state is %+v, %v", id, err, state, failed)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// answerID is a requestor that answers each input request with the id of a task.
type answerID string

func (id answerID) Call(context.Context, string, codec.Encoder) (json.RawMessage, error) {
	return fmt.Appendf(nil, "%q", string(id)), nil
}

func (answerID) Notify(context.Context, string, codec.Encoder) error { return nil }
