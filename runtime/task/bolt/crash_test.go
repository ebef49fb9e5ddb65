package bolt_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

// The tests below kill a process in the middle of its writes. A flag sets how often: a few times by
// default, and a thousand times with
//
//	go test ./runtime/task/bolt -run Kill -kills 1000
var kills = flag.Int("kills", 5, "how often TestKill kills a process")

// seed is the seed of the randomised tests. They log it; pass it as a flag to repeat a run.
var seed = flag.Uint64("seed", rand.Uint64(), "seed of TestKill and TestDamagedFileIsReported")

// Environment variables of the child process.
const (
	childEnv = "MCPWIRE_TASK_CHILD" // the path of the store
	limitEnv = "MCPWIRE_TASK_LIMIT" // the largest size of its file in bytes; optional
)

// TestMain also runs the child process: this test binary with childEnv set.
func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		child(path)
		return
	}
	os.Exit(m.Run())
}

// ack is a line of the child's output. It acknowledges that a task was created, published or
// cancelled, that its work has started to run, or that a step of the work begins or was recorded.
type ack struct {
	What, ID, Kind string
	Step           int    `json:",omitempty"`
	Value          string `json:",omitempty"` // result of the step
}

const callers = 16

// child creates, runs, reads and cancels tasks until it is killed.
func child(path string) {
	var mu sync.Mutex
	out := bufio.NewWriter(os.Stdout)
	report := func(a ack) {
		mu.Lock()
		defer mu.Unlock()
		text, _ := json.Marshal(a)
		out.Write(append(text, '\n'))
		out.Flush()
	}
	work := func(kind string) task.Work {
		return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			report(ack{What: "run", ID: run.ID(), Kind: kind})
			if kind == "steps" {
				return runSteps(ctx, run, report)
			}
			if kind == "long" || kind == "restartable" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return outcomeOf(run.ID()), nil
		}
	}
	if limit := os.Getenv(limitEnv); limit != "" {
		if err := limitFiles(limit); err != nil {
			fatal(err)
		}
	}
	s, err := bolt.Open(path)
	if err == nil {
		var m *task.Manager
		m, err = task.New(context.Background(), task.Options{
			Store: s, TTL: task.TTL{Unlimited: true}, Limits: task.Limits{Tasks: -1, Bytes: -1, Rate: -1},
			Recovery: task.Recovery{
				ParkAfter: time.Millisecond,
				MaxReruns: -1, // many kills come before any progress
				Recover: func(r task.Record) task.Work {
					if r.Name == "steps" {
						return work("steps")
					}
					return work("quick")
				},
			},
		})
		if err == nil {
			report(ack{What: "ready"})
			for i := range callers {
				go func() {
					for n := 0; ; n++ {
						cycle(m, fmt.Sprint("owner ", i), n, work, report)
					}
				}()
			}
			select {}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// cycle creates a task and waits for its result, cancels it, or leaves it running.
func cycle(m *task.Manager, owner string, n int, work func(string) task.Work, report func(ack)) {
	ctx := context.Background()
	kind := []string{"quick", "quick", "quick", "long", "restartable", "cancelled", "steps"}[n%7]
	workKind := kind
	if kind == "cancelled" {
		workKind = "long"
	}
	created, err := m.Create(ctx, task.Request{Principal: owner, Method: "tools/call", Name: kind, Work: work(workKind), Restartable: kind == "restartable" || kind == "steps"})
	if err != nil {
		fatal(err)
	}
	report(ack{What: "created", ID: created.TaskID, Kind: kind})
	switch kind {
	case "quick":
		if _, err := m.Result(ctx, owner, created.TaskID, nil); err != nil {
			fatal(err)
		}
		report(ack{What: "published", ID: created.TaskID, Kind: kind})
	case "cancelled":
		if _, err := m.Cancel(ctx, owner, created.TaskID, nil); err != nil {
			fatal(err)
		}
		report(ack{What: "cancelled", ID: created.TaskID, Kind: kind})
	}
}

// stepsOfTask is the number of steps that runSteps runs for a task.
const stepsOfTask = 6

// runSteps is work of steps with random results, with sleeps between them in which it is parked.
// Its result holds those of the steps.
func runSteps(ctx context.Context, run *task.Run, report func(ack)) (codec.Encoder, error) {
	entries, _, err := run.Journal(ctx)
	if err != nil {
		return nil, err
	}
	var wakes time.Time
	values := ""
	for n := range stepsOfTask {
		if n < len(entries) {
			values += string(entries[n].Result)
			err = json.Unmarshal([]byte(entries[n].Key), &wakes)
		} else {
			report(ack{What: "step", ID: run.ID(), Step: n})
			value := fmt.Sprintf(`[%d,%d]`, n, rand.Uint64())
			wakes = time.Now().Add(time.Duration(rand.IntN(20)) * time.Millisecond)
			key, _ := wakes.MarshalJSON()
			if err = run.Record(ctx, task.Entry{Kind: 2, Key: string(key), Occurrence: 1, Result: json.RawMessage(value)}); err == nil {
				values += value
				report(ack{What: "recorded", ID: run.ID(), Step: n, Value: value})
			}
		}
		if err == nil {
			err = run.Sleep(ctx, wakes)
		}
		if err != nil {
			return nil, err
		}
	}
	return result{run.ID() + values}, nil
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func outcomeOf(id string) codec.Encoder { return result{id} }

// result is a result that contains the id of its task.
type result struct{ id string }

func (r result) EncodeJSON(w *wire.Writer) {
	w.Lit(`{"content":[],"of":`)
	w.Text(r.id)
	w.Lit(`}`)
}

// Acknowledged tasks, results and cancellations survive a kill -9 at a random moment under load,
// repeated on the same file. Work that is not declared restartable runs once. Tasks that were
// running are re-run, or failed with a message that says why. No step runs again after it was
// recorded, and its result is used, even though work is parked and killed in between.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	path := filepath.Join(t.TempDir(), "tasks")
	known := map[string]*history{}
	total := 0
	for n := range *kills {
		total += killOnce(t, path, time.Duration(random.IntN(150_000))*time.Microsecond, known)
		if t.Failed() {
			t.Fatalf("at kill %d of %d", n+1, *kills)
		}
		if (n+1)%10 == 0 || n+1 == *kills { // not each time: the number of tasks to check grows
			check(t, path, known)
			if t.Failed() {
				t.Fatalf("after kill %d of %d", n+1, *kills)
			}
			os.Remove(path)
			clear(known)
		}
	}
	t.Logf("%d kills, %d acknowledgements", *kills, total)
}

// history holds the acknowledgements of a task.
type history struct {
	kind                 string
	published, cancelled bool
	runs                 int
	recorded             [stepsOfTask]string // results of the recorded steps
}

// killOnce runs a child and kills it some time after it is ready.
func killOnce(t *testing.T, path string, after time.Duration, known map[string]*history) (acks int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	ready := false
	acks = readAcks(t, out, known, func() {
		ready = true
		go func() { time.Sleep(after); cmd.Process.Kill() }() // ends with the sleep
	})
	cmd.Wait()
	if !ready {
		t.Errorf("the child did not start: %s", stderr.String())
	}
	return acks
}

// readAcks reads the output of a child to its end into known. It calls ready when the child is
// ready, and returns the number of acknowledgements.
func readAcks(t *testing.T, out io.Reader, known map[string]*history, ready func()) (acks int) {
	t.Helper()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			return acks // a line that is cut short acknowledges nothing
		}
		var a ack
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Errorf("unexpected output of the child: %q", line)
			continue
		}
		acks++
		if a.What == "ready" {
			ready()
			continue
		}
		h := known[a.ID]
		if h == nil {
			h = new(history)
			known[a.ID] = h
		}
		switch a.What {
		case "created":
			h.kind = a.Kind
		case "published":
			h.published = true
		case "cancelled":
			h.cancelled = true
		case "run":
			h.runs++
		case "step":
			if h.recorded[a.Step] != "" {
				t.Errorf("step %d of %s runs after it was recorded", a.Step, a.ID)
			}
		case "recorded":
			h.recorded[a.Step] = a.Value
		}
	}
}

// check opens the file as a restarted server would and compares it with the acknowledgements.
func check(t *testing.T, path string, known map[string]*history) {
	t.Helper()
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, err := task.New(t.Context(), task.Options{
		Store: s, TTL: task.TTL{Unlimited: true}, Limits: task.Limits{Tasks: -1, Bytes: -1, Rate: -1},
		Recovery: task.Recovery{
			ParkAfter: time.Millisecond,
			MaxReruns: -1,
			Recover: func(r task.Record) task.Work {
				return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					if r.Name == "steps" {
						return runSteps(ctx, run, func(ack) {})
					}
					return outcomeOf(run.ID()), nil
				}
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	for id, h := range known {
		r, err := s.Get(t.Context(), id)
		if errors.Is(err, task.ErrNotFound) && h.kind == "" {
			continue // its creation was not acknowledged
		}
		if err != nil {
			t.Errorf("%s task: %v", h.kind, err)
			continue
		}
		if h.runs > 1 && !r.Restartable {
			t.Errorf("%s task has run %d times", h.kind, h.runs)
		}
		if r.Restartable {
			if out, err := m.Result(t.Context(), r.Owner, id, nil); err != nil || !strings.Contains(string(out.Result), id) {
				t.Errorf("restartable task ended with %s, %v, %v", out.Result, out.Error, err)
			} else if h.kind == "steps" {
				checkSteps(t, out, h)
			}
			continue
		}
		switch {
		case h.published:
			if r.Status != mcp.TaskStatusCompleted || !strings.Contains(string(r.Result), `"of":"`+id+`"`) {
				t.Errorf("published task is %s with %s", r.Status, r.Result)
			}
		case h.cancelled:
			if r.Status != mcp.TaskStatusCancelled {
				t.Errorf("cancelled task is %s", r.Status)
			}
		case r.Status == mcp.TaskStatusFailed:
			if !strings.Contains(r.StatusMessage, "restarted") {
				t.Errorf("failed task has status message %q", r.StatusMessage)
			}
		case !task.Terminal(r.Status):
			t.Errorf("%s task is %s after a restart", h.kind, r.Status)
		}
	}
}

// checkSteps checks that the result of runSteps has each step once, with its recorded result.
func checkSteps(t *testing.T, out task.Outcome, h *history) {
	t.Helper()
	text := string(out.Result)
	for n := range stepsOfTask {
		if prefix := fmt.Sprintf("[%d,", n); strings.Count(text, prefix) != 1 || !strings.Contains(text, h.recorded[n]) {
			t.Errorf("step %d was recorded as %q, the result is %s", n, h.recorded[n], text)
		}
	}
}
