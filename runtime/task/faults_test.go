package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// panickingValue is an error and a result; each of its methods panics.
type panickingValue struct{}

func (panickingValue) Error() string           { panic("Error") }
func (panickingValue) Is(error) bool           { panic("Is") }
func (panickingValue) EncodeJSON(*wire.Writer) { panic("EncodeJSON") }

// If a method of the result or the error of work panics, only its task fails. The same holds for a
// nil *jsonrpc.Error.
func TestPanickingOutcomeFailsTask(t *testing.T) {
	for name, tt := range map[string]struct {
		result codec.Encoder
		err    error
	}{
		"panicking result":  {result: panickingValue{}},
		"panicking error":   {err: panickingValue{}},
		"nil error":         {err: (*jsonrpc.Error)(nil)},
		"wrapped nil error": {err: fmt.Errorf("wrapped: %w", (*jsonrpc.Error)(nil))},
	} {
		runInBubble(t, task.Options{}, func(t *testing.T, m *task.Manager) {
			created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { return tt.result, tt.err })
			out := result(t, m, created.TaskID)
			if out.Error == nil || out.Error.Code != jsonrpc.CodeInternalError || !strings.HasPrefix(out.Error.Message, "internal error: ") {
				t.Errorf("%s: %s, %v", name, out.Result, out.Error)
			}
			if state := get(t, m, created.TaskID); state.Status != mcp.TaskStatusFailed {
				t.Errorf("%s: the task is %s", name, state.Status)
			}
		})
	}
}

// panickingStore is a store whose Get and Update panic while an error is set.
type panickingStore struct{ failingStore }

func (s *panickingStore) Get(ctx context.Context, id string) (task.Record, error) {
	if err := s.currentError(); err != nil {
		panic(err)
	}
	return s.Store.Get(ctx, id)
}

func (s *panickingStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	if err := s.currentError(); err != nil {
		panic(err)
	}
	return s.Store.Update(ctx, r)
}

// A panic of the store or of the audit hook affects only the call in which it occurs.
func TestPanickingStoreAndAuditHook(t *testing.T) {
	store := &panickingStore{failingStore{Store: memory.New()}}
	runInBubble(t, task.Options{Store: store, Hooks: task.Hooks{Audit: func(task.Event) { panic("Audit") }}}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil })
		store.setError(errors.New("secret"))
		_, getErr := m.Get(t.Context(), "alice", created.TaskID, nil)
		_, cancelErr := m.Cancel(t.Context(), "alice", created.TaskID, nil)
		for _, err := range []error{getErr, cancelErr} {
			checkEqual(t, "wire error", &jsonrpc.Error{Code: -32603, Message: "internal error: tasks are not available"}, task.WireError(err))
		}
		close(end)
		time.Sleep(time.Second)
		store.setError(nil)
		if out := result(t, m, created.TaskID); out.Error != nil {
			t.Error(out.Error)
		}
	})
}

// Status messages of work and of jobs are valid UTF-8 of bounded length, so tasks can be listed.
func TestInvalidUTF8IsReplaced(t *testing.T) {
	const bad = "caf\xe9"
	tails := strings.Repeat("\x80", 700)
	b := &batchSystem{message: bad}
	runInBubble(t, task.Options{Jobs: map[string]task.Jobs{"batch": b}}, func(t *testing.T, m *task.Manager) {
		for _, text := range []string{bad, tails} {
			start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { return nil, errors.New(text) })
			start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) {
				return nil, &jsonrpc.Error{Code: 1, Message: text}
			})
			start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				if err := run.SetStatusMessage(ctx, text); err != nil {
					t.Error(err)
				}
				return untilDone(ctx, run)
			})
			create(t, m, task.Request{StatusMessage: text, Work: untilDone})
		}
		create(t, m, task.Request{Runner: "batch"})
		synctest.Wait()
		tasks, _, err := m.List(t.Context(), "alice", "")
		if err != nil || len(tasks) != 9 {
			t.Fatalf("%d tasks, %v", len(tasks), err)
		}
		for _, one := range tasks {
			if one.StatusMessage == nil || !utf8.ValidString(*one.StatusMessage) || len(*one.StatusMessage) > 510 {
				t.Errorf("%+v", one)
			}
			if _, err := codec.Marshal(&one); err != nil {
				t.Error(err)
			}
			if one.Status != mcp.TaskStatusFailed {
				continue
			}
			if out := result(t, m, one.TaskID); out.Error == nil || !utf8.ValidString(out.Error.Message) {
				t.Errorf("outcome %s, %v", out.Result, out.Error)
			}
		}
	})
}

// slowStore is a store whose Update takes a second and continues when the context ends. Create and
// Update return the error of faultAfterWrite although they have written the record.
type slowStore struct {
	task.Store
	faultAfterWrite func() error // called after each write; may be nil
}

// failed returns the error to report for a completed write.
func (s *slowStore) failed() error {
	if s.faultAfterWrite == nil {
		return nil
	}
	return s.faultAfterWrite()
}

func (s *slowStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	timer := time.NewTimer(time.Second)
	var err error
	select {
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
		<-timer.C
	}
	stored, failed := s.Store.Update(context.WithoutCancel(ctx), r)
	if failed == nil {
		failed = s.failed()
	}
	return stored, errors.Join(err, failed)
}

func (s *slowStore) Create(ctx context.Context, r task.Record) (task.Record, error) {
	stored, err := s.Store.Create(ctx, r)
	if err == nil && s.failed() != nil {
		return task.Record{}, s.failed()
	}
	return stored, err
}

// The stored record decides the outcome of a write, not the error that the store returns. Work of a
// task that is stored as cancelled ends, and the task no longer counts towards the limits.
func TestWriteReportedAsFailed(t *testing.T) {
	for name, fault := range map[string]error{"context ends": nil, "store reports an error": errors.New("network timeout")} {
		t.Run(name, func(t *testing.T) {
			store := &slowStore{memory.New(), func() error { return fault }}
			cfg := task.Options{Store: store, Limits: task.Limits{Tasks: 2, Bytes: 36_000}}
			runInBubble(t, cfg, func(t *testing.T, m *task.Manager) {
				params := json.RawMessage(`"` + strings.Repeat("x", 6000) + `"`)
				for range 20 {
					created := create(t, m, task.Request{Params: params, Work: untilDone, Task: &mcp.TaskMetadata{TTL: new(int64(60_000))}})
					ctx, giveUp := context.WithTimeout(t.Context(), time.Second/2)
					_, err := m.Cancel(ctx, "alice", created.TaskID, nil)
					giveUp()
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Fatal(err)
					}
					synctest.Wait()
					if got := get(t, m, created.TaskID); got.Status != mcp.TaskStatusCancelled {
						t.Errorf("task status %s", got.Status)
					}
					if n := m.Stats().Running; n != 0 {
						t.Fatalf("work still running for %d tasks", n)
					}
				}
				for range 40 { // input requests that are withdrawn while they are being written
					start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
						short, cancel := context.WithTimeout(ctx, time.Second/2)
						defer cancel()
						run.Call(short, "sampling/createMessage", raw(`{"x":"`+strings.Repeat("x", 6000)+`"}`))
						return raw(`{}`), nil
					})
					time.Sleep(10 * time.Second)
				}
				// All have expired: exactly as many tasks fit as the limits allow.
				time.Sleep(2 * time.Hour)
				for range 2 {
					create(t, m, task.Request{Params: params, Work: untilDone})
				}
				if err := tryCreate(t, m, "alice", untilDone); wireCode(err) != task.CodeTooManyTasks {
					t.Errorf("third task: %v", err)
				}
				large := task.Request{Principal: "alice", Method: "tools/call", Params: json.RawMessage(make([]byte, 36_000)), Work: untilDone}
				time.Sleep(2 * time.Hour)
				if _, err := m.Create(t.Context(), large); wireCode(err) != task.CodeTooManyBytes {
					t.Errorf("task of 36,000 bytes: %v", err)
				}
				if s := m.Stats(); s.Cancelled != 20 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// A Create of unknown outcome fails. It leaves neither a task without work nor a task that counts
// towards the limits for ever.
func TestCreateWithUnknownOutcome(t *testing.T) {
	// First, the record is written, the reply is lost, and the store then fails.
	errLost := errors.New("connection lost")
	var lying atomic.Bool
	lying.Store(true)
	hook := &hookedStore{Store: memory.New()}
	store := &failingStore{Store: hook}
	hook.afterCreate = func(task.Record) {
		if lying.Load() {
			store.setError(errLost)
		}
	}
	fault := func() error {
		if lying.Load() {
			return errLost
		}
		return nil
	}
	runInBubble(t, task.Options{Store: &slowStore{store, fault}, Limits: task.Limits{Tasks: 1}}, func(t *testing.T, m *task.Manager) {
		err := tryCreate(t, m, "alice", untilDone)
		if wireCode(err) != task.CodeDoubtful || !errors.Is(err, task.ErrDoubtful) {
			t.Errorf("Create: %v", err)
		}
		lying.Store(false)
		store.setError(nil)
		time.Sleep(time.Minute)
		tasks, _, err := m.List(t.Context(), "alice", "")
		if err != nil || len(tasks) != 1 || tasks[0].Status != mcp.TaskStatusFailed {
			t.Errorf("%+v, %v", tasks, err)
		}
		if err := tryCreate(t, m, "alice", untilDone); err != nil {
			t.Errorf("a task slot is lost: %v", err)
		}
		time.Sleep(2 * time.Hour)
		// Now the record is not written, because the store fails.
		store.setError(errLost)
		if err := tryCreate(t, m, "alice", untilDone); wireCode(err) != task.CodeDoubtful {
			t.Errorf("Create: %v", err)
		}
		store.setError(nil)
		time.Sleep(time.Minute)
		if err := tryCreate(t, m, "alice", untilDone); err != nil {
			t.Errorf("a task slot is lost: %v", err)
		}
	})
}

// expiringStore is a store in which a task expires, and its work returns, while the task is being
// cancelled.
type expiringStore struct {
	task.Store
	end chan bool
}

func (s *expiringStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	r, err := s.Store.Update(ctx, r)
	if r.Status == mcp.TaskStatusCancelled {
		time.Sleep(2 * time.Second)
	}
	return r, err
}

func (s *expiringStore) Sweep(ctx context.Context, now time.Time, limit int) ([]task.Record, time.Time, error) {
	dropped, next, err := s.Store.Sweep(ctx, now, limit)
	if len(dropped) > 0 && s.end != nil {
		close(s.end)
		s.end = nil
		time.Sleep(time.Second / 2)
	}
	return dropped, next, err
}

// A task that expires and whose work returns during its cancellation no longer counts towards the
// limits.
func TestTaskExpiresDuringCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan bool)
		m := newManager(t, task.Options{Store: &expiringStore{memory.New(), end}, Limits: task.Limits{Tasks: 1, Bytes: 1400}})
		created := create(t, m, task.Request{Task: &mcp.TaskMetadata{TTL: new(int64(1000))}, Work: func(context.Context, *task.Run) (codec.Encoder, error) {
			<-end
			return raw(`{}`), nil
		}})
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Error(err)
		}
		for _, size := range []int{2000, 700} {
			_, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Work: untilDone, Params: make(json.RawMessage, size)})
			if want := map[int]int64{2000: task.CodeTooManyBytes}[size]; wireCode(err) != want {
				t.Errorf("task of %d bytes: %v", size, err)
			}
		}
	})
}

// A cancellation is counted and audited even if the work returns before Cancel does.
func TestOvertakenCancellationIsAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var moved []mcp.TaskStatus
		m := newManager(t, task.Options{Store: &expiringStore{Store: memory.New()}, Hooks: task.Hooks{Audit: func(e task.Event) {
			if e.Kind == task.EventMoved {
				moved = append(moved, e.To)
			}
		}}})
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) {
			time.Sleep(time.Second)
			return raw(`{}`), nil
		})
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Error(err)
		}
		checkEqual(t, "moves", []mcp.TaskStatus{mcp.TaskStatusCancelled}, moved)
		checkEqual(t, "stats", task.Stats{Created: 1, Cancelled: 1}, m.Stats())
	})
}

// A temporary failure of the store during Close loses no outcome. A permanent failure is an error
// of Close.
func TestCloseRetriesOutcomes(t *testing.T) {
	for _, temporary := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			inner := memory.New()
			store := &failingStore{Store: inner}
			m, err := task.New(t.Context(), task.Options{Store: store, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				<-ctx.Done()
				return raw(`{"late":1}`), nil
			})
			synctest.Wait()
			store.setError(errors.New("no space left"))
			if temporary {
				time.AfterFunc(2*time.Second, func() { store.setError(nil) })
			}
			err = m.Close(t.Context())
			r, failed := inner.Get(t.Context(), created.TaskID)
			if failed != nil {
				t.Fatal(failed)
			}
			if temporary && (err != nil || r.Status != mcp.TaskStatusCompleted) {
				t.Errorf("Close: %v, task status %s", err, r.Status)
			}
			if !temporary && (err == nil || !strings.Contains(err.Error(), "1 outcomes were not stored")) {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// If the store refuses an answer, for example because the disk is full, the answer is stored later.
// The requestor does not receive the input request again.
func TestAnswerIsStoredOnceStoreWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failingStore{Store: memory.New()}
		m := newManager(t, task.Options{Store: store, Updates: task.Updates{Quiet: true}})
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			answer, err := run.Call(ctx, "roots/list", nil)
			return raw(answer), err
		})
		p := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			store.setError(errors.New("no space left"))
			time.AfterFunc(time.Minute, func() { store.setError(nil) })
			return json.RawMessage(`{"roots":[]}`), nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		out, err := m.Result(ctx, "alice", created.TaskID, p)
		if err != nil || out.Error != nil || !strings.Contains(string(out.Result), `"roots":[]`) {
			t.Errorf("got %s, %v, %v", out.Result, out.Error, err)
		}
		if got := p.received(); len(got) != 1 {
			t.Errorf("the requestor received %q", got)
		}
	})
}

// If the store does not know its health, that of a Manager is the result of the last write.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failingStore{Store: memory.New()}
		m := newManager(t, task.Options{Store: store})
		end := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil })
		if err := m.Health(); err != nil {
			t.Error(err)
		}
		full := errors.New("no space left")
		store.setError(full)
		close(end)
		synctest.Wait()
		if n := m.Stats().Unstored; n != 1 {
			t.Errorf("%d outcomes unstored", n)
		}
		tryCreate(t, m, "alice", untilDone)
		if err := m.Health(); !errors.Is(err, full) {
			t.Errorf("with a full disk: %v", err)
		}
		store.setError(nil)
		result(t, m, created.TaskID)
		synctest.Wait()
		if err := m.Health(); err != nil || m.Stats().Unstored != 0 {
			t.Errorf("after the failure: %v, %+v", err, m.Stats())
		}
		m.Close(t.Context())
		if err := m.Health(); err != task.ErrClosed {
			t.Errorf("Close: %v", err)
		}
	})
}

// A second Manager cannot use the store.
func TestNewRejectsStoreInUse(t *testing.T) {
	store := memory.New()
	first := newManager(t, task.Options{Store: store})
	created := start(t, first, untilDone)
	if _, err := task.New(t.Context(), task.Options{Store: store}); !errors.Is(err, task.ErrInUse) {
		t.Errorf("second Manager: %v", err)
	}
	if got := get(t, first, created.TaskID).Status; got != mcp.TaskStatusWorking {
		t.Errorf("task status %s", got)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	newManager(t, task.Options{Store: store})
}

// Poll intervals are rounded up to whole milliseconds. A negative interval suggests none.
func TestPollIntervalIsRoundedUp(t *testing.T) {
	for _, tt := range []struct {
		config, request time.Duration
		want            int64 // 0 if none is suggested
	}{
		{0, 0, 1000}, {time.Microsecond, 0, 1}, {0, 1500 * time.Microsecond, 2}, {0, -time.Second, 0}, {-1, 0, 0}, {-1, time.Second, 1000},
	} {
		runInBubble(t, task.Options{Updates: task.Updates{Poll: tt.config}}, func(t *testing.T, m *task.Manager) {
			created := create(t, m, task.Request{PollInterval: tt.request, Work: returns(`{}`)})
			got := int64(0)
			if created.PollInterval != nil {
				got = *created.PollInterval
			}
			if got != tt.want {
				t.Errorf("%v, %v: got %d, want %d", tt.config, tt.request, got, tt.want)
			}
		})
	}
}

// damagedStore is a store that can damage the payloads of tasks. An Update repairs them.
type damagedStore struct {
	task.Store
	mu  sync.Mutex
	ids map[string]bool
}

func (s *damagedStore) damage(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	s.ids[id] = true
}

func (s *damagedStore) isDamaged(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

func (s *damagedStore) Get(ctx context.Context, id string) (task.Record, error) {
	if s.isDamaged(id) {
		return task.Record{}, fmt.Errorf("%w: task %q", task.ErrCorrupt, id)
	}
	return s.Store.Get(ctx, id)
}

func (s *damagedStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	r, err := s.Store.Update(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, r.ID)
	return r, err
}

// A record that is damaged, has an unknown status, or makes Recover panic does not prevent the
// start of the Manager or the recovery of other tasks.
func TestDamagedRecordsDoNotPreventStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &damagedStore{Store: memory.New()}
		put := func(id string, status mcp.TaskStatus) {
			t.Helper()
			_, err := store.Create(t.Context(), task.Record{
				ID: id, Owner: "alice", Status: status, Created: bubbleStart(), Updated: bubbleStart(), TTL: time.Hour, Method: id, Restartable: true,
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		put("damaged", mcp.TaskStatusWorking)
		put("panics", mcp.TaskStatusWorking)
		put("unknown", "submitted")
		put("good", mcp.TaskStatusWorking)
		store.damage("damaged")
		m := newManager(t, task.Options{Store: store, Recovery: task.Recovery{Recover: func(r task.Record) task.Work {
			if r.Method == "panics" {
				panic("Recover")
			}
			return returns(`{}`)
		}}})
		for id, want := range map[string]string{
			"damaged": "the stored record of the task is damaged",
			"panics":  "the receiver can no longer run the task",
		} {
			out := result(t, m, id)
			if state := get(t, m, id); out.Error == nil || state.Status != mcp.TaskStatusFailed || *state.StatusMessage != want {
				t.Errorf("%s: %v, %+v", id, out.Error, state)
			}
		}
		if out := result(t, m, "good"); out.Error != nil {
			t.Error(out.Error)
		}
		// No move leads out of an unknown status.
		if _, err := m.Cancel(t.Context(), "alice", "unknown", nil); wireCode(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("Cancel: %v", err)
		}
		if got := get(t, m, "unknown").Status; got != "submitted" {
			t.Errorf("task status %s", got)
		}
		time.Sleep(2 * time.Hour) // all expire
		if s := m.Stats(); s.Expired != 4 || s.Running != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// The outcome of work is stored even if the record of its task is damaged while the work runs.
func TestRecordDamagedWhileWorkRuns(t *testing.T) {
	store := &damagedStore{Store: memory.New()}
	runInBubble(t, task.Options{Store: store}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil })
		waiting := make(chan task.Outcome, 1)
		go func() { waiting <- result(t, m, created.TaskID) }()
		synctest.Wait()
		store.damage(created.TaskID)
		close(end)
		if out := <-waiting; out.Error != nil || time.Since(bubbleStart()) > time.Second {
			t.Errorf("%s, %v after %v", out.Result, out.Error, time.Since(bubbleStart()))
		}
	})
}

// Work cannot change a terminal task through its Run.
//
// Proves TASK-22, TASK-23.
func TestWorkCannotChangeTerminalTask(t *testing.T) {
	store := memory.New()
	runInBubble(t, task.Options{Store: store}, func(t *testing.T, m *task.Manager) {
		var run *task.Run
		created := start(t, m, func(_ context.Context, r *task.Run) (codec.Encoder, error) { run = r; return raw(`{}`), nil })
		want := result(t, m, created.TaskID)
		before := get(t, m, created.TaskID)
		_, callErr := run.Call(t.Context(), "elicitation/create", nil)
		for _, err := range []error{callErr, run.SetStatusMessage(t.Context(), "x"), run.SetPollInterval(t.Context(), time.Second)} {
			if err == nil {
				t.Error("the work changed a terminal task")
			}
		}
		checkEqual(t, "state", before, get(t, m, created.TaskID))
		checkEqual(t, "outcome", want, result(t, m, created.TaskID))
	})
}

// The job of a cancelled or expired task is cancelled. This is retried after an error, and repeated
// after a restart.
func TestJobCancellationIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		b := &batchSystem{cancelFailures: 2}
		jobs := map[string]task.Jobs{"batch": b}
		first := newManager(t, task.Options{Store: store, Jobs: jobs})
		created := create(t, first, task.Request{Runner: "batch"})
		synctest.Wait()
		if _, err := first.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		checkEqual(t, "cancelled", []string{"job of " + created.TaskID}, b.cancelledJobs())

		expires := create(t, first, task.Request{Runner: "batch", Task: &mcp.TaskMetadata{TTL: new(int64(60_000))}})
		synctest.Wait()
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		newManager(t, task.Options{Store: store, Jobs: jobs})
		time.Sleep(2 * time.Minute) // the time without a process does not count
		checkEqual(t, "cancelled", map[string]bool{"job of " + created.TaskID: true, "job of " + expires.TaskID: true}, func() map[string]bool {
			all := map[string]bool{}
			for _, job := range b.cancelledJobs()[1:] {
				all[job] = true
			}
			return all
		}())
	})
}
