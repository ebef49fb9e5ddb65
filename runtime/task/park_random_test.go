package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

var (
	rounds = flag.Int("rounds", 3, "number of rounds of TestRandomWorkIsDurable")
	seed   = flag.Uint64("seed", rand.Uint64(), "seed of TestRandomWorkIsDurable")
)

// program is random work of steps, sleeps and input requests. The same seed makes the same work.
type program struct {
	seed  uint64
	ended sync.Map // results of the recorded steps and answers that the work has received, by key
	t     *testing.T

	labels []string // that its tasks require in a fleet
	poison bool     // it ends the processes of the fleet that run it
	// messages makes it send a message each second instead, and sent counts them.
	messages int
	sent     atomic.Int64
	plain    bool   // it is not restartable
	ttl      *int64 // of its tasks in milliseconds; nil for the default
}

// checkSame reports an error if an operation has had another result before.
func (p *program) checkSame(key, result string) {
	if want, loaded := p.ended.LoadOrStore(key, result); loaded && want != result {
		p.t.Errorf("%s has result %s, and had %s", key, result, want)
	}
}

// result returns the result that the work has, according to the results of its operations.
func (p *program) result() string {
	random := rand.New(rand.NewPCG(p.seed, 1))
	results := ""
	for n := range 2 + random.IntN(5) {
		for b := range 1 + random.IntN(3) {
			if kind, _ := random.IntN(3), random.IntN(8_000_000); kind != 1 {
				result, _ := p.ended.Load(fmt.Sprintf("%d.%d", n, b))
				results += fmt.Sprint(result)
			}
		}
	}
	return fmt.Sprintf(`{"answers":%q}`, results)
}

// journaled runs the operations of one run of a program.
type journaled struct {
	*program
	run     *task.Run
	entries map[string]json.RawMessage
}

func (p *program) work(ctx context.Context, run *task.Run) (codec.Encoder, error) {
	if p.messages > 0 {
		return p.talk(ctx, run)
	}
	entries, _, err := run.Journal(ctx)
	if err != nil {
		return nil, err
	}
	j := &journaled{program: p, run: run, entries: map[string]json.RawMessage{}}
	for _, e := range entries {
		if j.entries[e.Key] != nil {
			p.t.Errorf("%s was recorded twice", e.Key)
		}
		j.entries[e.Key] = e.Result
	}
	random := rand.New(rand.NewPCG(p.seed, 1))
	results := ""
	for n := range 2 + random.IntN(5) {
		branches := make([]string, 1+random.IntN(3))
		errs := make([]error, len(branches))
		var group sync.WaitGroup
		for b := range branches {
			kind, d := random.IntN(3), time.Duration(random.IntN(8_000_000))*time.Microsecond
			group.Go(func() { branches[b], errs[b] = j.do(ctx, kind, fmt.Sprintf("%d.%d", n, b), d) })
		}
		group.Wait()
		results += strings.Join(branches, "")
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
	}
	return raw(fmt.Sprintf(`{"answers":%q}`, results)), nil
}

// talk sends a message each second.
func (p *program) talk(ctx context.Context, run *task.Run) (codec.Encoder, error) {
	for range p.messages {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		p.sent.Add(1)
		if err := run.Notify(ctx, "notifications/second", nil); err != nil {
			p.t.Error(err)
		}
	}
	return raw(`{}`), nil
}

// do runs a step that takes d/8, a sleep of d, or an input request.
func (j *journaled) do(ctx context.Context, kind int, key string, d time.Duration) (string, error) {
	switch kind {
	case 0:
		return j.step(ctx, key, d)
	case 1:
		until, ok := j.entries[key]
		if !ok {
			until, _ = json.Marshal(j.run.Internals(boundary.Caller{}).SharedTime(time.Now().Add(d)))
			if err := j.run.Record(ctx, task.Entry{Kind: 3, Key: key, Occurrence: 1, Result: until}); err != nil {
				return "", err
			}
		}
		var at time.Time
		json.Unmarshal(until, &at)
		err := j.run.Sleep(ctx, at)
		if err == nil && j.run.Internals(boundary.Caller{}).SharedTime(time.Now()).Before(at) {
			j.t.Errorf("woke %v too early", time.Until(at))
		}
		return "", err
	}
	answer, err := ask(ctx, j.run, key)
	if err == nil {
		j.checkSame(key, string(answer))
	}
	return string(answer), err
}

func (j *journaled) step(ctx context.Context, key string, d time.Duration) (string, error) {
	if result, ok := j.entries[key]; ok {
		j.checkSame(key, string(result))
		return string(result), nil
	}
	if _, ok := j.ended.Load(key); ok && ctx.Err() == nil {
		j.t.Errorf("step %s runs after it was recorded", key)
	}
	release := j.run.Internals(boundary.Caller{}).Hold()
	defer release()
	time.Sleep(d / 8)
	result := fmt.Sprint(rand.Uint32())
	if err := j.run.Record(ctx, task.Entry{Kind: 2, Key: key, Occurrence: 1, Result: json.RawMessage(result)}); err != nil {
		return "", err
	}
	j.checkSame(key, result)
	return result, nil
}

// Tasks with random steps, sleeps and input requests, some at the same time, end right although
// they are parked, their requestors come and go, other tasks are cancelled or expire, and the
// Manager is closed and replaced again and again. The usage of their principal is 0 afterwards.
func TestRandomWorkIsDurable(t *testing.T) {
	t.Logf("-seed %d", *seed)
	for round := range *rounds {
		synctest.Test(t, func(t *testing.T) { randomRound(t, *seed+uint64(round)) })
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
}

func randomRound(t *testing.T, seed uint64) {
	const tasks = 40
	random := rand.New(rand.NewPCG(seed, 0))
	store := memory.New()
	var programs sync.Map // by task id
	cfg := task.Options{Store: store, Limits: task.Limits{Tasks: tasks, Bytes: 1 << 20, Rate: -1}, TTL: task.TTL{Unlimited: true, Max: 24 * time.Hour},
		Recovery: task.Recovery{
			ParkAfter: time.Duration(random.IntN(3000)+1) * time.Millisecond,
			Recover: func(r task.Record) task.Work {
				p, _ := programs.Load(r.ID)
				return p.(*program).work
			},
		}}
	var current atomic.Pointer[task.Manager]
	current.Store(newManager(t, cfg))
	var group sync.WaitGroup
	for n := range tasks {
		p := &program{seed: seed*tasks + uint64(n), t: t}
		q := task.Request{Principal: "alice", Method: mcp.MethodToolsCall, Restartable: true, Work: p.work}
		life := random.IntN(10)
		if life == 0 {
			q.Task = &mcp.TaskMetadata{TTL: new(int64(3000))}
		}
		created, err := current.Load().Create(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		programs.Store(created.TaskID, p)
		group.Go(func() { request(t, &current, created.TaskID, rand.New(rand.NewPCG(p.seed, 2)), life) })
	}
	done := make(chan struct{})
	go func() { // ends with the requestors
		group.Wait()
		close(done)
	}()
	for ended := false; !ended; {
		select {
		case <-time.After(time.Duration(random.IntN(15_000)) * time.Millisecond):
			if err := current.Load().Close(context.Background()); err != nil {
				t.Error(err)
			}
			current.Store(newManager(t, cfg))
		case <-done:
			ended = true
		}
	}
	time.Sleep(time.Minute) // work of cancelled tasks returns
	m := current.Load()
	if s := m.Stats(); s.Running != 0 || s.Parked != 0 {
		t.Errorf("at the end: %+v", s)
	}
	for range tasks { // the limit allows as many again
		if _, err := m.Create(t.Context(), task.Request{Principal: "alice", Work: untilDone}); err != nil {
			t.Fatal(err)
		}
	}
}

// request waits for the result of a task, and answers its input requests, with interruptions. With
// life 1, it cancels the task some time.
func request(t *testing.T, current *atomic.Pointer[task.Manager], id string, random *rand.Rand, life int) {
	var mu sync.Mutex
	pause := func(limit int) {
		mu.Lock()
		d := time.Duration(random.IntN(limit)) * time.Millisecond
		mu.Unlock()
		time.Sleep(d)
	}
	requestor := &peer{answer: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		pause(5000)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return echoMessage(ctx, method, params)
	}}
	for n := 0; ; n++ {
		pause(3000)
		mu.Lock()
		limit := time.Duration(random.IntN(6000)) * time.Millisecond
		mu.Unlock()
		if life == 1 && n == 2 {
			current.Load().Cancel(t.Context(), "alice", id, requestor) // may have ended
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		out, err := current.Load().Result(ctx, "alice", id, requestor)
		cancel()
		switch {
		case errors.Is(err, task.ErrClosed) || errors.Is(err, context.DeadlineExceeded):
			continue
		case errors.Is(err, task.ErrExpired) || errors.Is(err, task.ErrNotFound):
			if life != 0 {
				t.Errorf("%s: %v", id, err)
			}
		case err != nil:
			t.Error(err)
		case out.Error != nil && (life != 1 || out.Error.Code != task.CodeCancelled):
			t.Errorf("%s: %v", id, out.Error)
		}
		return
	}
}
