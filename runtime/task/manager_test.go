package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
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

// A task from its creation to repeated reads of its result.
//
// Proves TASK-13, TASK-14, TASK-21, TASK-32, TASK-33, TASK-36, TASK-39, TASK-40, TASK-42, TASK-43.
func TestTaskLifecycle(t *testing.T) {
	runInBubble(t, task.Options{}, func(t *testing.T, m *task.Manager) {
		const plain = `{"content":[{"type":"text","text":"42"}],"_meta":{"k":1.0},"later":[1e2]}`
		beforeCreate := time.Now()
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
		cancel() // ends the creating request, but not the work
		if created.Status != mcp.TaskStatusWorking {
			t.Errorf("initial status %s", created.Status)
		}
		if created.PollInterval == nil || *created.PollInterval != 1000 {
			t.Errorf("poll interval %v", created.PollInterval)
		}
		checkEqual(t, "read at once", created, get(t, m, created.TaskID))
		at := parseTime(t, created.CreatedAt)
		if at.Before(beforeCreate.Truncate(time.Microsecond)) || created.LastUpdatedAt != created.CreatedAt {
			t.Errorf("created at %s, updated at %s", created.CreatedAt, created.LastUpdatedAt)
		}

		before := time.Now()
		out := result(t, m, created.TaskID)
		if d := time.Since(before); d != time.Minute {
			t.Errorf("Result took %v", d)
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

// The updated time advances with every move, even if the clock does not. A new task is working even
// if its work is already done.
//
// Proves TASK-21, TASK-33.
func TestUpdatedTimeAlwaysAdvances(t *testing.T) {
	runInBubble(t, task.Options{}, func(t *testing.T, m *task.Manager) {
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

// The outcome of the work is the outcome of the task.
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
		{name: "tool error without text", work: returns(`{"content":[],"isError":true}`),
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
			runInBubble(t, task.Options{}, func(t *testing.T, m *task.Manager) {
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
	runInBubble(t, task.Options{}, func(t *testing.T, m *task.Manager) {
		created := create(t, m, task.Request{Method: "sampling/createMessage", Work: returns(`{"isError":true}`)})
		result(t, m, created.TaskID)
		if state := get(t, m, created.TaskID); state.Status != mcp.TaskStatusCompleted {
			t.Errorf("status with isError outside of tools: %s", state.Status)
		}
	})
}

// Long status messages are truncated at a character boundary.
func TestStatusMessageIsTruncated(t *testing.T) {
	runInBubble(t, task.Options{}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) {
			return nil, errors.New(strings.Repeat("é", 10000))
		})
		result(t, m, created.TaskID)
		if got := *get(t, m, created.TaskID).StatusMessage; got != strings.Repeat("é", 250)+"…" {
			t.Errorf("%d bytes: %s", len(got), got)
		}
	})
}

// A cancelled task stays cancelled whatever its work does. The context of the work ends.
//
// Proves TASK-23, TASK-39, TASK-55, TASK-56, TASK-57, TASK-58.
func TestCancel(t *testing.T) {
	runInBubble(t, task.Options{}, func(t *testing.T, m *task.Manager) {
		cause := make(chan error, 1)
		finish := make(chan bool)
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			<-finish // continues although its context has ended
			if err := run.SetStatusMessage(context.Background(), "still here"); err == nil {
				t.Error("the work changed a terminal task")
			}
			return raw(`{"content":[]}`), nil
		})
		waiter := make(chan task.Outcome, 1)
		go func() { waiter <- result(t, m, created.TaskID) }()
		synctest.Wait()
		state, err := m.Cancel(t.Context(), "alice", created.TaskID, nil)
		if err != nil || state.Status != mcp.TaskStatusCancelled {
			t.Fatalf("Cancel: %+v, %v", state, err)
		}
		checkEqual(t, "read", state, get(t, m, created.TaskID))
		if got := <-cause; got != task.ErrCancelled {
			t.Errorf("cause of the work's context: %v", got)
		}
		want := task.Outcome{Error: &jsonrpc.Error{Code: task.CodeCancelled, Message: "task was cancelled"}}
		checkEqual(t, "outcome of the waiter", want, <-waiter)
		close(finish)
		synctest.Wait()
		checkEqual(t, "after the work", state, get(t, m, created.TaskID))
		checkEqual(t, "outcome", want, result(t, m, created.TaskID))
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); wireCode(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("second Cancel: %v", err)
		}
		if n := m.Stats().Running; n != 0 {
			t.Errorf("work still running for %d tasks", n)
		}
	})
	for name, work := range map[string]task.Work{
		"completed": returns(`{}`),
		"failed":    func(context.Context, *task.Run) (codec.Encoder, error) { return nil, errors.New("x") },
	} {
		runInBubble(t, task.Options{}, func(t *testing.T, m *task.Manager) {
			created := start(t, m, work)
			synctest.Wait()
			_, err := m.Cancel(t.Context(), "alice", created.TaskID, nil)
			if wireCode(err) != jsonrpc.CodeInvalidParams || !strings.Contains(task.WireError(err).Message, name) {
				t.Errorf("Cancel of a %s task: %v", name, err)
			}
			if got := get(t, m, created.TaskID).Status; string(got) != name {
				t.Errorf("status of a %s task after Cancel: %s", name, got)
			}
		})
	}
}

// A cancellation during Create reaches the work.
// An operator cancels the tasks of all principals, even if these have no calls left.
func TestCancelForOperator(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{Rate: 1, Burst: 1}}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, untilDone)
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); wireCode(err) != task.CodeTooManyCalls {
			t.Fatal(err)
		}
		state, err := m.CancelForOperator(t.Context(), created.TaskID)
		if err != nil || state.Status != mcp.TaskStatusCancelled || *state.StatusMessage != "cancelled by an operator of the receiver" {
			t.Errorf("%+v, %v", state, err)
		}
		if _, err := m.CancelForOperator(t.Context(), created.TaskID); wireCode(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("again: %v", err)
		}
		if _, err := m.CancelForOperator(t.Context(), "none"); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
		m.Close(t.Context())
		if _, err := m.CancelForOperator(t.Context(), created.TaskID); err != task.ErrClosed {
			t.Errorf("closed: %v", err)
		}
	})
}

func TestCancelDuringCreate(t *testing.T) {
	store := &hookedStore{Store: memory.New()}
	runInBubble(t, task.Options{Store: store}, func(t *testing.T, m *task.Manager) {
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
			t.Errorf("initial status %s", created.Status)
		}
		if got := get(t, m, created.TaskID).Status; got != mcp.TaskStatusCancelled {
			t.Errorf("task status %s", got)
		}
	})
}

// All of many waiters receive the result, and so do later callers.
func TestManyWaiters(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{Rate: -1}}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{"n":1}`), nil })
		var group sync.WaitGroup
		var outcomes sync.Map
		for i := range 10_000 {
			group.Go(func() { outcomes.Store(i, string(result(t, m, created.TaskID).Result)) })
		}
		synctest.Wait()
		if n := m.Stats().Waiting; n != 10_000 {
			t.Errorf("%d waiters", n)
		}
		close(end)
		group.Wait()
		want := string(result(t, m, created.TaskID).Result)
		n := 0
		outcomes.Range(func(_, got any) bool { n++; return got == want })
		if n != 10_000 {
			t.Errorf("only %d of 10000 waiters received the result", n)
		}
	})
}

// Result notices the end of a task between its read of the record and its wait.
func TestNoLostWakeup(t *testing.T) {
	store := &hookedStore{Store: memory.New()}
	runInBubble(t, task.Options{Store: store}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil })
		synctest.Wait()
		store.afterGet = func(r task.Record) {
			store.afterGet = nil
			if r.Status != mcp.TaskStatusWorking {
				t.Errorf("read status %s", r.Status)
			}
			close(end)
			synctest.Wait() // until the task is terminal
		}
		if out := result(t, m, created.TaskID); out.Error != nil {
			t.Error(out.Error)
		}
	})
}

// A cancelled wait does not affect the task.
//
// Proves TASK-30.
func TestCancelledWaitLeavesTaskRunning(t *testing.T) {
	runInBubble(t, task.Options{}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			time.Sleep(time.Hour / 2)
			return raw(`{}`), ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := m.Result(ctx, "alice", created.TaskID, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Result: %v", err)
		}
		if got := get(t, m, created.TaskID).Status; got != mcp.TaskStatusWorking {
			t.Errorf("task status %s", got)
		}
		if out := result(t, m, created.TaskID); out.Error != nil {
			t.Error(out.Error)
		}
		if s := m.Stats(); s.Refused != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A task of another principal does not exist for the caller. The empty principal is a principal
// like any other.
//
// Proves TASK-61, TASK-68.
func TestPrincipalsAreIsolated(t *testing.T) {
	var events []task.Event
	cfg := task.Options{Hooks: task.Hooks{Audit: func(e task.Event) { events = append(events, e) }}}
	runInBubble(t, cfg, func(t *testing.T, m *task.Manager) {
		created := start(t, m, untilDone)
		for _, principal := range []string{"bob", "", "alic", "alice\x00"} {
			for _, id := range []string{created.TaskID, "no such", ""} {
				_, getErr := m.Get(t.Context(), principal, id, nil)
				_, resultErr := m.Result(t.Context(), principal, id, nil)
				_, cancelErr := m.Cancel(t.Context(), principal, id, nil)
				for _, err := range []error{getErr, resultErr, cancelErr} {
					want := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("task: not found: %q", id)}
					checkEqual(t, fmt.Sprintf("%q about %q", principal, id), want, task.WireError(err))
				}
			}
			if tasks, _, err := m.List(t.Context(), principal, ""); err != nil || len(tasks) != 0 {
				t.Errorf("%q lists %v, %v", principal, tasks, err)
			}
		}
		if got := get(t, m, created.TaskID).Status; got != mcp.TaskStatusWorking {
			t.Errorf("task status %s", got)
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

// Task ids are long, random and unique.
//
// Proves TASK-19, TASK-20, TASK-70.
func TestTaskIDs(t *testing.T) {
	m := newManager(t, task.Options{Limits: task.Limits{Rate: -1, Tasks: -1}})
	ids := map[string]bool{}
	for range 1000 {
		created := create(t, m, task.Request{Work: returns(`{}`)})
		if len(created.TaskID) < 26 { // 26 characters of 5 bits each
			t.Errorf("id %q is short", created.TaskID)
		}
		if ids[created.TaskID] {
			t.Errorf("id %q is not unique", created.TaskID)
		}
		ids[created.TaskID] = true
	}
	// They come from crypto/rand alone: with the same seed, the ids are the same.
	var again [2]string
	for i := range again {
		t.Run("with a seed", func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, 1)
			again[i] = create(t, newManager(t, task.Options{}), task.Request{Work: returns(`{}`)}).TaskID
		})
	}
	if again[0] != again[1] || ids[again[0]] {
		t.Errorf("with the same random numbers: %q", again)
	}
}

// The work can change the status message and the poll interval. A completed task has no message.
func TestStatusMessageAndPollInterval(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Poll: -1}}, func(t *testing.T, m *task.Manager) {
		step := make(chan bool)
		created := create(t, m, task.Request{StatusMessage: "queued", Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-step
			if err := errors.Join(run.SetStatusMessage(ctx, "half way"), run.SetPollInterval(ctx, 300*time.Millisecond)); err != nil {
				t.Error(err)
			}
			if run.SetPollInterval(ctx, -1) == nil {
				t.Error("a negative interval was accepted")
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

// A failure of the store is reported as an internal error without details. The outcome is stored
// once the store works again.
//
// Proves TASK-63.
func TestStoreFailure(t *testing.T) {
	store := &failingStore{Store: memory.New()}
	runInBubble(t, task.Options{Store: store}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil })
		store.setError(errors.New("secret path: no space left"))
		_, createErr := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Work: returns(`{}`)})
		_, getErr := m.Get(t.Context(), "alice", created.TaskID, nil)
		waiting := make(chan error, 1)
		go func() {
			_, err := m.Result(t.Context(), "alice", created.TaskID, nil)
			waiting <- err
		}()
		_, cancelErr := m.Cancel(t.Context(), "alice", created.TaskID, nil)
		_, _, listErr := m.List(t.Context(), "alice", "")
		if wireCode(createErr) != task.CodeDoubtful || strings.Contains(createErr.Error(), "secret") {
			t.Errorf("Create: %v", createErr)
		}
		for _, err := range []error{getErr, cancelErr, listErr} {
			if !errors.Is(err, task.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v", err)
			}
			checkEqual(t, "wire error", &jsonrpc.Error{Code: -32603, Message: "internal error: tasks are not available", Data: json.RawMessage(`{"retryAfter":1000}`)}, task.WireError(err))
		}
		close(end)
		time.Sleep(5 * time.Second)
		store.setError(nil)
		if err := <-waiting; err != nil {
			t.Errorf("Result: %v", err)
		}
		if out := result(t, m, created.TaskID); out.Error != nil {
			t.Error(out.Error)
		}
		synctest.Wait()
		if s := m.Stats(); s.Created != 1 || s.Running != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// After Close, calls fail, and no pending call blocks.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, task.Options{})
		start(t, m, untilDone)
		finish := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-finish; return raw(`{}`), nil })
		waiting := make(chan error, 1)
		go func() {
			_, err := m.Result(t.Context(), "alice", created.TaskID, nil)
			waiting <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := m.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close while work is running: %v", err)
		}
		if err := <-waiting; !errors.Is(err, task.ErrClosed) {
			t.Errorf("Result: %v", err)
		}
		_, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Work: returns(`{}`)})
		if !errors.Is(err, task.ErrClosed) || wireCode(err) != jsonrpc.CodeInternalError || string(task.WireError(err).Data) != `{"retryAfter":1000}` {
			t.Errorf("Create: %v", err)
		}
		if wire := task.WireError(task.ErrCorrupt); wire.Code != jsonrpc.CodeInternalError || wire.Data != nil {
			t.Errorf("a corrupt store: %v", wire)
		}
		close(finish)
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Work that calls the Manager while it closes gets ErrClosed only once its own context has ended, so
// that it does not take that for a failure.
func TestContextOfWorkEndsBeforeManagerRefusesIt(t *testing.T) {
	const workers = 20
	calls := map[string]func(ctx context.Context, m *task.Manager) error{
		"signal": func(ctx context.Context, m *task.Manager) error {
			return m.Signal(ctx, "x", "go", json.RawMessage(`1`))
		},
		"cancellation": func(ctx context.Context, m *task.Manager) error {
			_, err := m.CancelForOperator(ctx, "x")
			return err
		},
		"read": func(ctx context.Context, m *task.Manager) error {
			_, err := m.Get(ctx, "alice", "x", nil)
			return err
		},
		"creation": func(ctx context.Context, m *task.Manager) error {
			created, err := m.Create(ctx, task.Request{Principal: "alice", Method: "tools/call", Work: returns(`{}`)})
			if err == nil {
				_, err = m.Result(ctx, "alice", created.TaskID, nil)
			}
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, task.Options{Limits: task.Limits{Tasks: 1 << 20, Rate: 1 << 30}})
			var early, begun atomic.Int32
			hang := start(t, m, untilDone).TaskID
			for range 2000 { // so that Close takes some time
				go m.Result(context.Background(), "alice", hang, nil) // ends with the Manager
			}
			for range workers {
				start(t, m, func(ctx context.Context, _ *task.Run) (codec.Encoder, error) {
					begun.Add(1)
					for {
						if err := call(context.WithoutCancel(ctx), m); errors.Is(err, task.ErrClosed) {
							if ctx.Err() == nil {
								early.Add(1)
							}
							return nil, err
						}
					}
				})
			}
			for begun.Load() < workers || m.Stats().Waiting < 2000 {
				time.Sleep(time.Millisecond)
			}
			m.Close(context.Background())
			if n := early.Load(); n > 0 {
				t.Errorf("%d of %d", n, workers)
			}
		})
	}
}
