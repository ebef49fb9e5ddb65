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
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

// The tests below kill a process in the middle of its writes. How often is a flag: a few times in a
// plain run, and a thousand times with
//
//	go test ./runtime/task/bolt -run Kill -kills 1000
var kills = flag.Int("kills", 5, "how often TestKill kills a process")

// seed is that of the tests that go by chance, which log it: to see the same again, give it as a flag.
var seed = flag.Uint64("seed", rand.Uint64(), "seed of TestKill and TestDamagedFile")

// The child is told the file that it works on, and if need be how large that may become.
const (
	childEnv = "MCPWIRE_TASK_CHILD"
	limitEnv = "MCPWIRE_TASK_LIMIT"
)

// The process that is killed is this test program, told by its environment which file to work on.
func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		child(path)
		return
	}
	os.Exit(m.Run())
}

// A line that the child writes acknowledges something: that a task was created, that its result
// was published, that it was cancelled, or that work has begun to run.
type ack struct {
	What, ID, Kind string
}

const callers = 16

// child creates, runs, reads and cancels tasks until it is killed.
func child(path string) {
	var mu sync.Mutex
	out := bufio.NewWriter(os.Stdout)
	say := func(a ack) {
		mu.Lock()
		defer mu.Unlock()
		text, _ := json.Marshal(a)
		out.Write(append(text, '\n'))
		out.Flush()
	}
	work := func(kind string) task.Work {
		return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			say(ack{"run", run.ID(), kind})
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
		m, err = task.New(context.Background(), task.Config{
			Store: s, Unlimited: true, Limits: task.Limits{Tasks: -1, Bytes: -1, Rate: -1},
			Resume: func(r task.Record) task.Work { return work("quick") },
		})
		if err == nil {
			say(ack{What: "ready"})
			for i := range callers {
				go func() {
					for n := 0; ; n++ {
						cycle(m, fmt.Sprint("owner ", i), n, work, say)
					}
				}()
			}
			select {}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// cycle lives through one task.
func cycle(m *task.Manager, owner string, n int, work func(string) task.Work, say func(ack)) {
	ctx := context.Background()
	kind := []string{"quick", "quick", "quick", "long", "restartable", "cancelled"}[n%6]
	does := kind
	if kind == "cancelled" {
		does = "long"
	}
	created, err := m.Create(ctx, task.Request{Principal: owner, Method: "tools/call", Work: work(does), Restartable: kind == "restartable"})
	if err != nil {
		fatal(err)
	}
	say(ack{"created", created.TaskID, kind})
	switch kind {
	case "quick":
		if _, err := m.Result(ctx, owner, created.TaskID, nil); err != nil {
			fatal(err)
		}
		say(ack{"published", created.TaskID, kind})
	case "cancelled":
		if _, err := m.Cancel(ctx, owner, created.TaskID, nil); err != nil {
			fatal(err)
		}
		say(ack{"cancelled", created.TaskID, kind})
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func outcomeOf(id string) codec.Encoder { return result{id} }

// result is a result that only its own task can have.
type result struct{ id string }

func (r result) EncodeJSON(w *codec.Writer) {
	w.Lit(`{"content":[],"of":`)
	w.Text(r.id)
	w.Lit(`}`)
}

// Whatever was acknowledged is there after a kill -9 at a random moment under load, again and
// again on the same file: tasks, results and cancellations. Work that is not declared restartable
// runs once; what was running is resumed, or failed with a message that says so.
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
		if (n+1)%10 == 0 || n+1 == *kills { // what is checked grows with every kill
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

// history is what was acknowledged of a task.
type history struct {
	kind                 string
	published, cancelled bool
	runs                 int
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
	acks = learn(t, out, known, func() {
		ready = true
		go func() { time.Sleep(after); cmd.Process.Kill() }() // ends with the sleep
	})
	cmd.Wait()
	if !ready {
		t.Errorf("the child did not start: %s", stderr.String())
	}
	return acks
}

// learn reads what a child says, until that ends, and calls ready when the child is.
func learn(t *testing.T, out io.Reader, known map[string]*history, ready func()) (acks int) {
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
			t.Errorf("the child says %q", line)
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
		}
	}
}

// check opens the file, as the next process would, and compares it with what was acknowledged.
func check(t *testing.T, path string, known map[string]*history) {
	t.Helper()
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, err := task.New(t.Context(), task.Config{
		Store: s, Unlimited: true, Limits: task.Limits{Tasks: -1, Bytes: -1, Rate: -1},
		Resume: func(r task.Record) task.Work {
			return func(ctx context.Context, run *task.Run) (codec.Encoder, error) { return outcomeOf(run.ID()), nil }
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	for id, h := range known {
		r, err := s.Get(t.Context(), id)
		if errors.Is(err, task.ErrNotFound) && h.kind == "" {
			continue // it was running, and nobody was told yet that it was created
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
				t.Errorf("failed task says %q", r.StatusMessage)
			}
		case !task.Terminal(r.Status):
			t.Errorf("%s task is %s after a restart", h.kind, r.Status)
		}
	}
}
