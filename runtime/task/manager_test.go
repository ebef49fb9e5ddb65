package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// A task from its creation to the second reading of its result.
//
// Proves TASK-13, TASK-14, TASK-21, TASK-32, TASK-33, TASK-36, TASK-39, TASK-40, TASK-42, TASK-43.
func TestTaskLifecycle(t *testing.T) {
	runInBubble(t, task.Config{}, func(t *testing.T, m *task.Manager) {
		const plain = `{"content":[{"type":"text","text":"42"}],"_meta":{"k":1.0},"later":[1e2]}`
		born := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		created, err := m.Create(ctx, task.Request{
			Principal: "alice", Method: "tools/call",
			Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				time.Sleep(time.Minute)
				return raw(plain), ctx.Err()
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		cancel() // the request that created the task is over; its work is not
		if created.Status != mcp.TaskStatusWorking {
			t.Errorf("created as %s", created.Status)
		}
		if created.PollInterval == nil || *created.PollInterval != 1000 {
			t.Errorf("poll interval %v", created.PollInterval)
		}
		checkEqual(t, "read at once", created, get(t, m, created.TaskID))
		at := parseTime(t, created.CreatedAt)
		if at.Before(born.Truncate(time.Microsecond)) || created.LastUpdatedAt != created.CreatedAt {
			t.Errorf("created at %s, updated at %s", created.CreatedAt, created.LastUpdatedAt)
		}

		before := time.Now()
		out := result(t, m, created.TaskID)
		if d := time.Since(before); d != time.Minute {
			t.Errorf("the result took %v", d)
		}
		related := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q},`, created.TaskID)
		checkEqual(t, "result", strings.Replace(plain, `"_meta":{`, related, 1), string(out.Result))
		for range 3 {
			checkEqual(t, "read again", out, result(t, m, created.TaskID))
		}
		done := get(t, m, created.TaskID)
		if done.Status != mcp.TaskStatusCompleted || done.CreatedAt != created.CreatedAt || !parseTime(t, done.LastUpdatedAt).After(at) {
			t.Errorf("done: %+v", done)
		}
	})
}

// Even in a moment in which no time passes, every move dates the task anew; it was created as working
// although its work was done at once.
//
// Proves TASK-21, TASK-33.
func TestUpdatedTimeAlwaysAdvances(t *testing.T) {
	runInBubble(t, task.Config{}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, returns(`{}`))
		synctest.Wait()
		done := get(t, m, created.TaskID)
		if created.Status != mcp.TaskStatusWorking || done.Status != mcp.TaskStatusCompleted {
			t.Errorf("created as %s, done as %s", created.Status, done.Status)
		}
		if !parseTime(t, done.LastUpdatedAt).After(parseTime(t, created.LastUpdatedAt)) {
			t.Errorf("updated at %s, then at %s", created.LastUpdatedAt, done.LastUpdatedAt)
		}
	})
}

// How long a task is kept: as asked, up to a limit. 0 and less are refused, nothing overflows.
//
// Proves TASK-15, TASK-34, TASK-74.
func TestTTL(t *testing.T) {
	week := int64(7 * 24 * time.Hour / time.Millisecond)
	limited := task.Config{MaxTTL: time.Hour, DefaultTTL: time.Minute}
	unlimited := task.Config{MaxTTL: time.Hour, Unlimited: true}
	for _, tt := range []struct {
		cfg  task.Config
		wish string // the task member
		want string // the ttl member, or the code of the error
	}{
		{task.Config{}, `{}`, `3600000`},
		{limited, ``, `60000`},
		{limited, `{}`, `60000`},
		{limited, `{"ttl":1}`, `1`},
		{limited, `{"ttl":6e4}`, `60000`},
		{limited, `{"ttl":60000.0}`, `60000`},
		{limited, fmt.Sprintf(`{"ttl":%d}`, week), `3600000`},
		{limited, `{"ttl":1e13}`, `3600000`},
		{limited, `{"ttl":1e300}`, `3600000`},
		{limited, fmt.Sprintf(`{"ttl":%d}`, int64(math.MaxInt64)), `3600000`},
		{limited, `{"ttl":null}`, `3600000`},
		{limited, `{"ttl":0}`, `-32602`},
		{limited, `{"ttl":-5}`, `-32602`},
		{limited, `{"ttl":-1e300}`, `-32602`},
		{unlimited, `{}`, `null`},
		{unlimited, `{"ttl":null}`, `null`},
		{unlimited, `{"ttl":5}`, `5`},
		{unlimited, `{"ttl":1e13}`, `3600000`},
	} {
		runInBubble(t, tt.cfg, func(t *testing.T, m *task.Manager) {
			q := task.Request{Principal: "alice", Method: "tools/call", Work: untilDone}
			if tt.wish != "" {
				q.Task = new(mcp.TaskMetadata)
				if err := codec.Unmarshal([]byte(tt.wish), q.Task); err != nil {
					t.Fatal(err)
				}
			}
			created, err := m.Create(t.Context(), q)
			got := fmt.Sprint(wireCode(err))
			if err == nil {
				text, _ := codec.Marshal(&created)
				var members map[string]json.RawMessage
				if err := json.Unmarshal(text, &members); err != nil {
					t.Fatal(err)
				}
				got = string(members["ttl"])
				checkEqual(t, "read", created, get(t, m, created.TaskID))
			}
			if got != tt.want {
				t.Errorf("%s: got %s, want %s", tt.wish, got, tt.want)
			}
		})
	}
	for _, cfg := range []task.Config{
		{}, {Store: memory.New(), MaxTTL: -1}, {Store: memory.New(), MaxTTL: time.Hour, DefaultTTL: 2 * time.Hour}, {Store: memory.New(), PageSize: -1},
	} {
		if m, err := task.New(t.Context(), cfg); err == nil {
			m.Close(t.Context())
			t.Errorf("%+v was taken", cfg)
		}
	}
}

// What work ends with is what the task ends with.
//
// Proves TASK-41, TASK-42, TASK-43, TASK-65, TASK-66, TASK-67.
func TestOutcomes(t *testing.T) {
	withData := &jsonrpc.Error{Code: -32050, Message: "quota", Data: json.RawMessage(`{"left":0}`)}
	for _, tt := range []struct {
		name    string
		work    task.Work
		status  mcp.TaskStatus
		message string
		result  string // without _meta
		err     *jsonrpc.Error
	}{
		{name: "result", work: returns(`{"content":[]}`), status: "completed", result: `{"content":[]}`},
		{name: "tool error", work: returns(`{"content":[{"type":"text","text":"API rate limit"}],"isError":true}`),
			status: "failed", message: "API rate limit", result: `{"content":[{"type":"text","text":"API rate limit"}],"isError":true}`},
		{name: "silent tool error", work: returns(`{"content":[],"isError":true}`),
			status: "failed", message: "the tool reported an error", result: `{"content":[],"isError":true}`},
		{name: "error with data", work: func(context.Context, *task.Run) (codec.Encoder, error) {
			return nil, fmt.Errorf("wrapped: %w", withData)
		},
			status: "failed", message: "quota", err: withData},
		{name: "plain error", work: func(context.Context, *task.Run) (codec.Encoder, error) { return nil, errors.New("disk full") },
			status: "failed", message: "disk full", err: &jsonrpc.Error{Code: -32603, Message: "disk full"}},
		{name: "panic", work: func(context.Context, *task.Run) (codec.Encoder, error) { panic("oops") },
			status: "failed", message: "internal error: the handler panicked", err: &jsonrpc.Error{Code: -32603, Message: "internal error: the handler panicked"}},
		{name: "goexit", work: func(context.Context, *task.Run) (codec.Encoder, error) { runtime.Goexit(); return nil, nil },
			status: "failed", message: "internal error: the handler panicked", err: &jsonrpc.Error{Code: -32603, Message: "internal error: the handler panicked"}},
		{name: "no result", work: func(context.Context, *task.Run) (codec.Encoder, error) { return nil, nil },
			status: "failed", message: "work returned no result", err: &jsonrpc.Error{Code: -32603, Message: "work returned no result"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runInBubble(t, task.Config{}, func(t *testing.T, m *task.Manager) {
				created := start(t, m, tt.work)
				for range 2 {
					out := result(t, m, created.TaskID)
					checkEqual(t, "error", tt.err, out.Error)
					want := ""
					if tt.result != "" {
						want = fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}},`, created.TaskID) + tt.result[1:]
					}
					checkEqual(t, "result", want, string(out.Result))
				}
				state := get(t, m, created.TaskID)
				message := ""
				if state.StatusMessage != nil {
					message = *state.StatusMessage
				}
				if state.Status != tt.status || message != tt.message {
					t.Errorf("%s: %q", state.Status, message)
				}
			})
		})
	}
	runInBubble(t, task.Config{}, func(t *testing.T, m *task.Manager) {
		created := create(t, m, task.Request{Method: "sampling/createMessage", Work: returns(`{"isError":true}`)})
		result(t, m, created.TaskID)
		if state := get(t, m, created.TaskID); state.Status != mcp.TaskStatusCompleted {
			t.Errorf("isError outside of tools: %s", state.Status)
		}
	})
}

// A status message has a length that requestors can show.
func TestStatusMessageIsTruncated(t *testing.T) {
	runInBubble(t, task.Config{}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) {
			return nil, errors.New(strings.Repeat("é", 10000))
		})
		result(t, m, created.TaskID)
		if got := *get(t, m, created.TaskID).StatusMessage; got != strings.Repeat("é", 250)+"…" {
			t.Errorf("%d bytes: %s", len(got), got)
		}
	})
}

// A cancelled task stays cancelled whatever the work does, and the work is told.
//
// Proves TASK-23, TASK-39, TASK-55, TASK-56, TASK-57, TASK-58.
func TestCancel(t *testing.T) {
	runInBubble(t, task.Config{}, func(t *testing.T, m *task.Manager) {
		cause := make(chan error, 1)
		goOn := make(chan bool)
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			<-goOn // ignores that it is over
			if err := run.SetStatusMessage(context.Background(), "still here"); err == nil {
				t.Error("the work has changed a task that is over")
			}
			return raw(`{"content":[]}`), nil
		})
		waiter := make(chan task.Outcome, 1)
		go func() { waiter <- result(t, m, created.TaskID) }()
		synctest.Wait()
		state, err := m.Cancel(t.Context(), "alice", created.TaskID, nil)
		if err != nil || state.Status != mcp.TaskStatusCancelled {
			t.Fatalf("cancel: %+v, %v", state, err)
		}
		checkEqual(t, "read", state, get(t, m, created.TaskID))
		if got := <-cause; got != task.ErrCancelled {
			t.Errorf("the work was stopped by %v", got)
		}
		want := task.Outcome{Error: &jsonrpc.Error{Code: task.CodeCancelled, Message: "task was cancelled"}}
		checkEqual(t, "who waited", want, <-waiter)
		close(goOn)
		synctest.Wait()
		checkEqual(t, "after the work", state, get(t, m, created.TaskID))
		checkEqual(t, "outcome", want, result(t, m, created.TaskID))
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); wireCode(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("cancelled twice: %v", err)
		}
		if n := m.Stats().Running; n != 0 {
			t.Errorf("%d still run", n)
		}
	})
	for name, work := range map[string]task.Work{
		"completed": returns(`{}`),
		"failed":    func(context.Context, *task.Run) (codec.Encoder, error) { return nil, errors.New("x") },
	} {
		runInBubble(t, task.Config{}, func(t *testing.T, m *task.Manager) {
			created := start(t, m, work)
			synctest.Wait()
			_, err := m.Cancel(t.Context(), "alice", created.TaskID, nil)
			if wireCode(err) != jsonrpc.CodeInvalidParams || !strings.Contains(task.WireError(err).Message, name) {
				t.Errorf("cancel of a %s task: %v", name, err)
			}
			if got := get(t, m, created.TaskID).Status; string(got) != name {
				t.Errorf("%s became %s", name, got)
			}
		})
	}
}

// hooked is a store that calls a function when a record was created, or read, and before it is handed
// out.
type hookedStore struct {
	task.Store
	afterCreate, afterGet func(r task.Record)
}

func (s *hookedStore) Create(ctx context.Context, r task.Record) (task.Record, error) {
	r, err := s.Store.Create(ctx, r)
	if f := s.afterCreate; err == nil && f != nil {
		f(r)
	}
	return r, err
}

func (s *hookedStore) Get(ctx context.Context, id string) (task.Record, error) {
	r, err := s.Store.Get(ctx, id)
	if f := s.afterGet; err == nil && f != nil {
		f(r)
	}
	return r, err
}

// Nothing comes too early for the work: a cancellation that overtakes the creation reaches it.
func TestCancelDuringCreate(t *testing.T) {
	store := &hookedStore{Store: memory.New()}
	runInBubble(t, task.Config{Store: store}, func(t *testing.T, m *task.Manager) {
		store.afterCreate = func(r task.Record) {
			if _, err := m.Cancel(t.Context(), "alice", r.ID, nil); err != nil {
				t.Error(err)
			}
		}
		done := make(chan error, 1)
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			done <- context.Cause(ctx)
			return nil, ctx.Err()
		})
		if err := <-done; err != task.ErrCancelled {
			t.Error(err)
		}
		if created.Status != mcp.TaskStatusWorking {
			t.Errorf("created as %s", created.Status)
		}
		if got := get(t, m, created.TaskID).Status; got != mcp.TaskStatusCancelled {
			t.Errorf("the task is %s", got)
		}
	})
}

// Whoever waits gets the answer: the first, the last and all between, at once and later.
func TestManyWaiters(t *testing.T) {
	runInBubble(t, task.Config{Limits: task.Limits{Rate: -1}}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{"n":1}`), nil })
		var group sync.WaitGroup
		var outcomes sync.Map
		for i := range 10_000 {
			group.Go(func() { outcomes.Store(i, string(result(t, m, created.TaskID).Result)) })
		}
		synctest.Wait()
		if n := m.Stats().Waiting; n != 10_000 {
			t.Errorf("%d wait", n)
		}
		close(end)
		group.Wait()
		want := string(result(t, m, created.TaskID).Result)
		n := 0
		outcomes.Range(func(_, got any) bool { n++; return got == want })
		if n != 10_000 {
			t.Errorf("%d of 10000 got the result, or one got another", n)
		}
	})
}

// The end of a task between the look at its record and the wait is not missed.
func TestNoLostWakeup(t *testing.T) {
	store := &hookedStore{Store: memory.New()}
	runInBubble(t, task.Config{Store: store}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil })
		synctest.Wait()
		store.afterGet = func(r task.Record) {
			store.afterGet = nil
			if r.Status != mcp.TaskStatusWorking {
				t.Errorf("looked at a task that is %s", r.Status)
			}
			close(end)
			synctest.Wait() // until it is over
		}
		if out := result(t, m, created.TaskID); out.Error != nil {
			t.Error(out.Error)
		}
	})
}

// Giving up the wait leaves the task alone.
//
// Proves TASK-30.
func TestCancelledWaitLeavesTaskRunning(t *testing.T) {
	runInBubble(t, task.Config{}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			time.Sleep(time.Hour / 2)
			return raw(`{}`), ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := m.Result(ctx, "alice", created.TaskID, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting ended with %v", err)
		}
		if got := get(t, m, created.TaskID).Status; got != mcp.TaskStatusWorking {
			t.Errorf("the task is %s", got)
		}
		if out := result(t, m, created.TaskID); out.Error != nil {
			t.Error(out.Error)
		}
		if s := m.Stats(); s.Refused != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Another principal's task does not exist, and the empty principal is one like others.
//
// Proves TASK-61, TASK-68.
func TestPrincipalsAreIsolated(t *testing.T) {
	var events []task.Event
	cfg := task.Config{Audit: func(e task.Event) { events = append(events, e) }}
	runInBubble(t, cfg, func(t *testing.T, m *task.Manager) {
		hers := start(t, m, untilDone)
		for _, who := range []string{"bob", "", "alic", "alice\x00"} {
			for _, id := range []string{hers.TaskID, "no such", ""} {
				_, getErr := m.Get(t.Context(), who, id, nil)
				_, resultErr := m.Result(t.Context(), who, id, nil)
				_, cancelErr := m.Cancel(t.Context(), who, id, nil)
				for _, err := range []error{getErr, resultErr, cancelErr} {
					want := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "task: not found"}
					checkEqual(t, fmt.Sprintf("%q about %q", who, id), want, task.WireError(err))
				}
			}
			if tasks, _, err := m.List(t.Context(), who, ""); err != nil || len(tasks) != 0 {
				t.Errorf("%q lists %v, %v", who, tasks, err)
			}
		}
		if got := get(t, m, hers.TaskID).Status; got != mcp.TaskStatusWorking {
			t.Errorf("the task is %s", got)
		}
		foreign := 0
		for _, e := range events {
			if e.Foreign {
				foreign++
			}
		}
		if stats := m.Stats(); foreign != 12 || stats.Foreign != 12 || stats.Refused != 36 {
			t.Errorf("%d foreign events, %+v", foreign, stats)
		}
	})
}

// Ids are long, random and never the same.
//
// Proves TASK-19, TASK-20, TASK-70.
func TestTaskIDs(t *testing.T) {
	m := newManager(t, task.Config{Limits: task.Limits{Rate: -1, Tasks: -1}})
	ids := map[string]bool{}
	for range 1000 {
		created := create(t, m, task.Request{Work: returns(`{}`)})
		if len(created.TaskID) < 26 { // of 5 bits each
			t.Errorf("id %q is short", created.TaskID)
		}
		if ids[created.TaskID] {
			t.Errorf("id %q was given out twice", created.TaskID)
		}
		ids[created.TaskID] = true
	}
	// They come from crypto/rand and nothing else: with the same numbers from there they are the same.
	var again [2]string
	for i := range again {
		t.Run("seeded", func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, 1)
			again[i] = create(t, newManager(t, task.Config{}), task.Request{Work: returns(`{}`)}).TaskID
		})
	}
	if again[0] != again[1] || ids[again[0]] {
		t.Errorf("with the same random numbers: %q", again)
	}
}

// Tasks go when their time has passed, whatever they are doing, with a message of its own for who
// comes late, and nobody else.
//
// Proves TASK-35, TASK-64, TASK-74.
func TestExpiry(t *testing.T) {
	runInBubble(t, task.Config{}, func(t *testing.T, m *task.Manager) {
		causes := make(chan error, 1)
		minute := &mcp.TaskMetadata{TTL: new(int64(60_000))}
		running := create(t, m, task.Request{Task: minute, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return raw(`{}`), nil
		}})
		finished := create(t, m, task.Request{Task: minute, Work: returns(`{}`)})
		longer := create(t, m, task.Request{Work: returns(`{}`)})
		before := time.Now()
		_, err := m.Result(t.Context(), "alice", running.TaskID, nil)
		if !errors.Is(err, task.ErrExpired) || time.Since(before) != time.Minute {
			t.Errorf("waited %v for %v", time.Since(before), err)
		}
		if cause := <-causes; cause != task.ErrExpired {
			t.Errorf("the work was stopped by %v", cause)
		}
		for _, id := range []string{running.TaskID, finished.TaskID} {
			_, err := m.Get(t.Context(), "alice", id, nil)
			checkEqual(t, "late", &jsonrpc.Error{Code: -32602, Message: "task: expired"}, task.WireError(err))
			_, err = m.Get(t.Context(), "bob", id, nil)
			checkEqual(t, "late and foreign", &jsonrpc.Error{Code: -32602, Message: "task: not found"}, task.WireError(err))
		}
		get(t, m, longer.TaskID)
		if tasks, _, err := m.List(t.Context(), "alice", ""); err != nil || len(tasks) != 1 {
			t.Errorf("listed %d tasks, %v", len(tasks), err)
		}
		synctest.Wait()
		if s := m.Stats(); s.Expired != 2 || s.Running != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Many tasks expire each in its time.
func TestExpiryOfManyTasks(t *testing.T) {
	runInBubble(t, task.Config{Limits: task.Limits{Rate: -1, Tasks: -1, Bytes: -1}}, func(t *testing.T, m *task.Manager) {
		const n = 20_000
		for i := range n {
			ttl := int64(1 + i*7919%n)
			create(t, m, task.Request{Task: &mcp.TaskMetadata{TTL: &ttl}, Work: returns(`{}`)})
		}
		synctest.Wait()
		if s := m.Stats(); s.Running != 0 || s.Completed+s.Expired < n {
			t.Errorf("%+v", s)
		}
		for _, ms := range []int{1, 2, 500, 10_000, n} {
			time.Sleep(time.Until(bubbleStart().Add(time.Duration(ms) * time.Millisecond)))
			synctest.Wait()
			if got := m.Stats().Expired; got != uint64(ms) {
				t.Errorf("after %d ms %d have expired", ms, got)
			}
		}
	})
}

// started is when the clock of a bubble begins.
func bubbleStart() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// Status message and poll interval can change; the message is gone from a completed task, which
// has nothing to say.
func TestStatusMessageAndPollInterval(t *testing.T) {
	runInBubble(t, task.Config{PollInterval: -1}, func(t *testing.T, m *task.Manager) {
		step := make(chan bool)
		created := create(t, m, task.Request{StatusMessage: "queued", Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-step
			if err := errors.Join(run.SetStatusMessage(ctx, "half way"), run.SetPollInterval(ctx, 300*time.Millisecond)); err != nil {
				t.Error(err)
			}
			if run.SetPollInterval(ctx, -1) == nil {
				t.Error("a negative interval was taken")
			}
			<-step
			return raw(`{}`), nil
		}})
		if *created.StatusMessage != "queued" || created.PollInterval != nil {
			t.Errorf("created: %+v", created)
		}
		step <- true
		synctest.Wait()
		if state := get(t, m, created.TaskID); *state.StatusMessage != "half way" || *state.PollInterval != 300 || state.Status != mcp.TaskStatusWorking {
			t.Errorf("half way: %+v", state)
		}
		step <- true
		synctest.Wait()
		if state := get(t, m, created.TaskID); state.StatusMessage != nil {
			t.Errorf("done: %q", *state.StatusMessage)
		}
	})
}

// The requestor is told of every move, in order and to the address it was last seen at, with the
// whole task and without related-task metadata.
//
// Proves TASK-48, TASK-50.
func TestStatusNotifications(t *testing.T) {
	runInBubble(t, task.Config{}, func(t *testing.T, m *task.Manager) {
		first, second := new(peer), new(peer)
		end := make(chan bool)
		created := create(t, m, task.Request{Via: first, Work: func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil }})
		m.Get(t.Context(), "alice", created.TaskID, second)
		m.Get(t.Context(), "bob", created.TaskID, first) // somebody else's address counts for nothing
		close(end)
		synctest.Wait()
		state := get(t, m, created.TaskID)
		text, _ := codec.Marshal(&state)
		checkEqual(t, "told the second", []string{"notifications/tasks/status " + string(text)}, second.received())
		checkEqual(t, "told the first", []string(nil), first.received())
	})
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		create(t, m, task.Request{Via: p, Work: returns(`{}`)})
		synctest.Wait()
		checkEqual(t, "told although quiet", []string(nil), p.received())
	})
}

// reports is work that reports each value it gets and returns when there are no more. Before it reports
// the next one everything has come to rest.
func reportingWork(t *testing.T, values <-chan float64, want func(v float64) error) task.Work {
	return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		for v := range values {
			if err := run.Report(task.Progress{Value: v}); err != want(v) {
				t.Errorf("report of %v: %v", v, err)
			}
		}
		return raw(`{}`), nil
	}
}

func accepted(float64) error { return nil }

// Progress grows, reaches the requestor wherever it is, and stops when the task is over. What comes
// faster than the rate allows is left out, but for the last report.
//
// Proves PROG-04, PROG-07, PROG-11, PROG-12, PROG-14, TASK-46.
func TestProgress(t *testing.T) {
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
		first, second := new(peer), new(peer)
		values := make(chan float64)
		greatest := math.Inf(-1)
		created := create(t, m, task.Request{Via: first, Token: codec.IntScalar(0), Work: reportingWork(t, values, func(v float64) error {
			switch {
			case v > 10:
				return task.ErrProgressOver
			case v > greatest:
				greatest = v
				return nil
			}
			return task.ErrNotIncreasing
		})})
		report := func(list ...float64) {
			for _, v := range list {
				values <- v
			}
			synctest.Wait()
		}
		report(-1, -1, 2.5, 2, math.NaN(), 3, 3)
		checkEqual(t, "at once", []float64{-1}, first.progress())
		time.Sleep(task.DefaultProgressInterval)
		synctest.Wait()
		checkEqual(t, "when the rate allows it", []float64{-1, 3}, first.progress())
		report(4)
		m.Get(t.Context(), "alice", created.TaskID, second) // the rate is that of the task
		report(5)
		checkEqual(t, "at once, elsewhere", []float64(nil), second.progress())
		time.Sleep(task.DefaultProgressInterval)
		synctest.Wait()
		checkEqual(t, "elsewhere", []float64{5}, second.progress())
		report(6)
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Fatal(err)
		}
		report(11)
		close(values)
		time.Sleep(time.Minute)
		checkEqual(t, "reported to the first", []float64{-1, 3}, first.progress())
		checkEqual(t, "reported to the second", []float64{5}, second.progress())
		want := fmt.Sprintf(`notifications/progress {"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}},"progress":-1,"progressToken":0}`, created.TaskID)
		checkEqual(t, "message", want, first.received()[0])
	})
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		create(t, m, task.Request{Via: p, Token: mcpToken, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			for v := range 5 {
				if err := run.Report(task.Progress{Value: float64(v), Total: new(math.Inf(1)), Message: "caf\xe9"}); err != nil {
					t.Error(err)
				}
			}
			return raw(`{}`), nil
		}})
		synctest.Wait()
		checkEqual(t, "the last report comes before the end", []float64{0, 4}, p.progress())
		if text := p.received()[0]; !strings.Contains(text, "caf\uFFFD") || strings.Contains(text, "total") {
			t.Errorf("reported %s", text)
		}
	})
	runInBubble(t, task.Config{Quiet: true, ProgressInterval: -1}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		values := make(chan float64)
		create(t, m, task.Request{Via: p, Token: mcpToken, Work: reportingWork(t, values, accepted)})
		for v := range 5 {
			values <- float64(v)
		}
		close(values)
		synctest.Wait()
		checkEqual(t, "without a rate", []float64{0, 1, 2, 3, 4}, p.progress())
	})
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		create(t, m, task.Request{Via: p, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			return raw(`{}`), run.Report(task.Progress{Value: 1})
		}})
		synctest.Wait()
		checkEqual(t, "reported without a token", []float64(nil), p.progress())
	})
}

// Progress goes to the requestor that waits for the result, and to the latest of several. One that looks
// at the task meanwhile does not take it away.
//
// Proves PROG-04.
func TestProgressGoesToLatestWaiter(t *testing.T) {
	runInBubble(t, task.Config{Quiet: true, ProgressInterval: -1}, func(t *testing.T, m *task.Manager) {
		creator, first, second, looker := new(peer), new(peer), new(peer), new(peer)
		values := make(chan float64)
		created := create(t, m, task.Request{Via: creator, Token: mcpToken, Work: reportingWork(t, values, accepted)})
		report := func(v float64) {
			values <- v
			synctest.Wait()
		}
		report(1)
		var group sync.WaitGroup
		ctx, giveUp := context.WithCancel(t.Context())
		group.Go(func() { m.Result(t.Context(), "alice", created.TaskID, first) })
		synctest.Wait()
		report(2)
		group.Go(func() { m.Result(ctx, "alice", created.TaskID, second) })
		synctest.Wait()
		m.Get(t.Context(), "alice", created.TaskID, looker)
		report(3)
		giveUp()
		synctest.Wait()
		report(4)
		close(values)
		group.Wait()
		for who, want := range map[*peer][]float64{creator: {1}, first: {2, 4}, second: {3}, looker: nil} {
			checkEqual(t, "progress", want, who.progress())
		}
	})
}

// What the work tells carries the task.
//
// Proves TASK-46.
func TestNotifyAddsRelatedTask(t *testing.T) {
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		created := create(t, m, task.Request{Via: p, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if got, ok := task.FromContext(ctx); !ok || got != run {
				t.Error("the context does not tell the task")
			}
			return raw(`{}`), run.Notify(ctx, "notifications/message", raw(`{"level":"info","data":1}`))
		}})
		synctest.Wait()
		want := fmt.Sprintf(`notifications/message {"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}},"level":"info","data":1}`, created.TaskID)
		checkEqual(t, "told", []string{want}, p.received())
	})
}

// failing is a store that fails when it is told to.
type failingStore struct {
	task.Store
	mu  sync.Mutex
	err error
}

func (s *failingStore) setError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *failingStore) currentError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *failingStore) Create(ctx context.Context, r task.Record) (task.Record, error) {
	if err := s.currentError(); err != nil {
		return task.Record{}, err
	}
	return s.Store.Create(ctx, r)
}

func (s *failingStore) Get(ctx context.Context, id string) (task.Record, error) {
	if err := s.currentError(); err != nil {
		return task.Record{}, err
	}
	return s.Store.Get(ctx, id)
}

func (s *failingStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	if err := s.currentError(); err != nil {
		return task.Record{}, err
	}
	return s.Store.Update(ctx, r)
}

func (s *failingStore) List(ctx context.Context, owner string, after uint64, limit int) ([]task.Record, error) {
	if err := s.currentError(); err != nil {
		return nil, err
	}
	return s.Store.List(ctx, owner, after, limit)
}

// A store that fails is an internal error, whose details stay inside; an outcome waits until the
// store works again.
//
// Proves TASK-63.
func TestStoreFailure(t *testing.T) {
	store := &failingStore{Store: memory.New()}
	runInBubble(t, task.Config{Store: store}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil })
		store.setError(errors.New("secret path: no space left"))
		_, createErr := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Work: returns(`{}`)})
		_, getErr := m.Get(t.Context(), "alice", created.TaskID, nil)
		_, resultErr := m.Result(t.Context(), "alice", created.TaskID, nil)
		_, cancelErr := m.Cancel(t.Context(), "alice", created.TaskID, nil)
		_, _, listErr := m.List(t.Context(), "alice", "")
		for _, err := range []error{createErr, getErr, resultErr, cancelErr, listErr} {
			checkEqual(t, "told", &jsonrpc.Error{Code: -32603, Message: "internal error: tasks are not available"}, task.WireError(err))
		}
		close(end)
		time.Sleep(5 * time.Second)
		store.setError(nil)
		if out := result(t, m, created.TaskID); out.Error != nil {
			t.Error(out.Error)
		}
		synctest.Wait()
		if s := m.Stats(); s.Created != 1 || s.Running != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// After Close nothing is taken and nobody hangs.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, task.Config{})
		start(t, m, untilDone)
		stubborn := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-stubborn; return raw(`{}`), nil })
		waiting := make(chan error, 1)
		go func() {
			_, err := m.Result(t.Context(), "alice", created.TaskID, nil)
			waiting <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := m.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed with stubborn work: %v", err)
		}
		if err := <-waiting; !errors.Is(err, task.ErrClosed) {
			t.Errorf("waiting ended with %v", err)
		}
		_, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Work: returns(`{}`)})
		if !errors.Is(err, task.ErrClosed) || wireCode(err) != jsonrpc.CodeInternalError {
			t.Errorf("create: %v", err)
		}
		close(stubborn)
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Everything that happens is told, to the hook and to the log.
//
// Proves TASK-75.
func TestAudit(t *testing.T) {
	var mu sync.Mutex
	var got []string
	cfg := task.Config{Audit: func(e task.Event) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprint(e.Kind, " ", e.Principal, " ", e.Task != "", " ", e.Method, " ", e.From, ">", e.To, " ", e.Err))
	}}
	runInBubble(t, cfg, func(t *testing.T, m *task.Manager) {
		created := start(t, m, returns(`{}`))
		synctest.Wait()
		get(t, m, created.TaskID)
		result(t, m, created.TaskID)
		m.List(t.Context(), "alice", "")
		m.List(t.Context(), "alice", "nonsense")
		time.Sleep(2 * time.Hour)
		want := []string{
			"created alice true tools/call >working <nil>",
			"moved alice true tools/call working>completed <nil>",
			"read alice true tasks/get >completed <nil>",
			"read alice true tasks/result >completed <nil>",
			"read alice false tasks/list > <nil>",
			"refused alice false tasks/list > task: invalid cursor",
			"expired alice true tools/call >completed <nil>",
		}
		mu.Lock()
		defer mu.Unlock()
		checkEqual(t, "events", want, got)
		checkEqual(t, "stats", task.Stats{Created: 1, Completed: 1, Expired: 1, Reads: 3, Refused: 1}, m.Stats())
	})
}

func TestAuditTruncatesTaskID(t *testing.T) {
	var got task.Event
	m := newManager(t, task.Config{Audit: func(e task.Event) { got = e }})
	id := strings.Repeat("x", 1<<20)
	if _, err := m.Get(t.Context(), "alice", id, nil); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("got %v, want %v", err, task.ErrNotFound)
	}
	if got.Kind != task.EventRefused || len(got.Task) > 200 || !strings.HasPrefix(got.Task, "xxx") {
		t.Errorf("%s event has a task id of %d bytes", got.Kind, len(got.Task))
	}
}
