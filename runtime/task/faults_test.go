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
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// faulty is an error and a result that panics in each of its methods.
type faulty struct{}

func (faulty) Error() string            { panic("Error") }
func (faulty) Is(error) bool            { panic("Is") }
func (faulty) EncodeJSON(*codec.Writer) { panic("EncodeJSON") }

// Panics of what work returns fail its task alone, and so does a nil error of the protocol.
func TestOutcomesThatPanic(t *testing.T) {
	for name, tt := range map[string]struct {
		result codec.Encoder
		err    error
	}{
		"a result that panics": {result: faulty{}},
		"an error that panics": {err: faulty{}},
		"a nil error":          {err: (*jsonrpc.Error)(nil)},
		"a wrapped nil error":  {err: fmt.Errorf("wrapped: %w", (*jsonrpc.Error)(nil))},
	} {
		bubble(t, task.Config{}, func(t *testing.T, m *task.Manager) {
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

// panicking is a store whose methods panic when it is told so.
type panicking struct{ failing }

func (s *panicking) Get(ctx context.Context, id string) (task.Record, error) {
	if err := s.now(); err != nil {
		panic(err)
	}
	return s.Store.Get(ctx, id)
}

func (s *panicking) Update(ctx context.Context, r task.Record) (task.Record, error) {
	if err := s.now(); err != nil {
		panic(err)
	}
	return s.Store.Update(ctx, r)
}

// Panics of the store and of the hook are faults of one call.
func TestStoreAndHookThatPanic(t *testing.T) {
	store := &panicking{failing{Store: memory.New()}}
	bubble(t, task.Config{Store: store, Audit: func(task.Event) { panic("Audit") }}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil })
		store.fail(errors.New("secret"))
		_, getErr := m.Get(t.Context(), "alice", created.TaskID, nil)
		_, cancelErr := m.Cancel(t.Context(), "alice", created.TaskID, nil)
		for _, err := range []error{getErr, cancelErr} {
			equal(t, "told", &jsonrpc.Error{Code: -32603, Message: "internal error: tasks are not available"}, task.WireError(err))
		}
		close(end)
		time.Sleep(time.Second)
		store.fail(nil)
		if out := result(t, m, created.TaskID); out.Error != nil {
			t.Error(out.Error)
		}
	})
}

// Texts of work and of jobs are valid UTF-8 of bounded length, and so can be listed.
func TestTextsThatAreNotUTF8(t *testing.T) {
	const bad = "caf\xe9"
	tails := strings.Repeat("\x80", 700)
	b := &batch{message: bad}
	bubble(t, task.Config{Jobs: map[string]task.Jobs{"batch": b}}, func(t *testing.T, m *task.Manager) {
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

// stuck is a requestor that reads nothing.
type stuck struct{ peer }

func (p *stuck) Notify(ctx context.Context, method string, params codec.Encoder) error {
	<-ctx.Done()
	p.peer.Notify(ctx, method, params)
	return ctx.Err()
}

// A requestor that does not read holds up neither the expiry of other tasks, nor who cancels, nor the
// outcome of its own.
func TestRequestorThatDoesNotRead(t *testing.T) {
	bubble(t, task.Config{}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		reporting := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			go run.Report(task.Progress{Value: 1}) // ends with the task
			time.Sleep(time.Millisecond)
			run.Report(task.Progress{Value: 2})
			<-end
			return raw(`{}`), nil
		}
		second := &mcp.TaskMetadata{TTL: new(int64(1000))}
		request := task.Request{Via: new(stuck), Token: mcpToken, Work: reporting}
		outcome, cancelled := create(t, m, request), create(t, m, request)
		request.Task = second
		create(t, m, request) // expires while a report is stuck
		stopped := make(chan time.Duration, 1)
		create(t, m, task.Request{Task: second, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			stopped <- time.Since(started())
			return nil, context.Cause(ctx)
		}})
		if passed := <-stopped; passed != time.Second {
			t.Errorf("the work of the other task was stopped after %v", passed)
		}
		before := time.Now()
		if _, err := m.Cancel(t.Context(), "alice", cancelled.TaskID, nil); err != nil {
			t.Error(err)
		}
		if d := time.Since(before); d > 100*time.Millisecond {
			t.Errorf("the cancellation took %v", d)
		}
		before = time.Now()
		close(end)
		if out := result(t, m, outcome.TaskID); out.Error != nil {
			t.Error(out.Error)
		}
		if d := time.Since(before); d > 100*time.Millisecond {
			t.Errorf("the outcome took %v", d)
		}
	})
}

// A report that is stuck on a way that the requestor has left does not hold up the later ones.
func TestProgressLeavesAStuckWay(t *testing.T) {
	bubble(t, task.Config{Quiet: true, ProgressInterval: -1}, func(t *testing.T, m *task.Manager) {
		values := make(chan float64)
		created := create(t, m, task.Request{Via: new(stuck), Token: mcpToken, Work: reports(t, values, taken)})
		values <- 1
		synctest.Wait()
		p := new(peer)
		m.Get(t.Context(), "alice", created.TaskID, p)
		synctest.Wait()
		values <- 2
		close(values)
		synctest.Wait()
		equal(t, "progress", []float64{1, 2}, p.progress())
	})
}

// slow is a store in which a write goes on when the caller's context has ended, and lying one that
// reports a fault of a write that has happened.
type slow struct {
	task.Store
	fault func() error // asked after each write that has happened; nil for none
}

// failed returns the fault of a write that has happened.
func (s *slow) failed() error {
	if s.fault == nil {
		return nil
	}
	return s.fault()
}

func (s *slow) Update(ctx context.Context, r task.Record) (task.Record, error) {
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

func (s *slow) Create(ctx context.Context, r task.Record) (task.Record, error) {
	stored, err := s.Store.Create(ctx, r)
	if err == nil && s.failed() != nil {
		return task.Record{}, s.failed()
	}
	return stored, err
}

// What the store has counts, not what the caller of a write was told: a task that was cancelled is
// stopped, and its place is free.
func TestWriteThatHappenedAllTheSame(t *testing.T) {
	for name, fault := range map[string]error{"the context ends": nil, "the store reports a fault": errors.New("timeout of the network")} {
		t.Run(name, func(t *testing.T) {
			store := &slow{memory.New(), func() error { return fault }}
			cfg := task.Config{Store: store, Limits: task.Limits{Tasks: 2, Bytes: 20_000}}
			bubble(t, cfg, func(t *testing.T, m *task.Manager) {
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
						t.Errorf("the task is %s", got.Status)
					}
					if n := m.Stats().Running; n != 0 {
						t.Fatalf("%d still run", n)
					}
				}
				for range 40 { // questions that are given up while they are written
					start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
						short, cancel := context.WithTimeout(ctx, time.Second/2)
						defer cancel()
						run.Call(short, "sampling/createMessage", raw(`{"x":"`+strings.Repeat("x", 6000)+`"}`))
						return raw(`{}`), nil
					})
					time.Sleep(10 * time.Second)
				}
				time.Sleep(2 * time.Hour) // all are gone: just what the limits say fits
				for range 2 {
					create(t, m, task.Request{Params: params, Work: untilDone})
				}
				if err := tryCreate(t, m, "alice", untilDone); code(err) != task.CodeTooManyTasks {
					t.Errorf("a third task: %v", err)
				}
				large := task.Request{Principal: "alice", Method: "tools/call", Params: json.RawMessage(make([]byte, 20_000)), Work: untilDone}
				time.Sleep(2 * time.Hour)
				if _, err := m.Create(t.Context(), large); code(err) != task.CodeTooManyBytes {
					t.Errorf("a task of 20,000 bytes: %v", err)
				}
				if s := m.Stats(); s.Cancelled != 20 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// A report that is held back does not go out while the task is being cancelled.
//
// Proves PROG-12.
func TestNoReportDuringACancellation(t *testing.T) {
	bubble(t, task.Config{Store: &slow{memory.New(), nil}, Quiet: true}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		values := make(chan float64)
		created := create(t, m, task.Request{Via: p, Token: mcpToken, Work: reports(t, values, taken)})
		values <- 1
		values <- 2
		synctest.Wait()
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil { // takes longer than the interval
			t.Error(err)
		}
		close(values)
		synctest.Wait()
		equal(t, "progress", []float64{1}, p.progress())
	})
}

// A creation of which the store does not say whether it happened fails, and leaves neither a task that
// nobody runs nor a place that nobody has.
func TestCreationInDoubt(t *testing.T) {
	// At first a record is written, the answer is lost, and the store is not there any more.
	errLost := errors.New("connection lost")
	var lying atomic.Bool
	lying.Store(true)
	hook := &hooked{Store: memory.New()}
	store := &failing{Store: hook}
	hook.created = func(task.Record) {
		if lying.Load() {
			store.fail(errLost)
		}
	}
	fault := func() error {
		if lying.Load() {
			return errLost
		}
		return nil
	}
	bubble(t, task.Config{Store: &slow{store, fault}, Limits: task.Limits{Tasks: 1}}, func(t *testing.T, m *task.Manager) {
		err := tryCreate(t, m, "alice", untilDone)
		if code(err) != jsonrpc.CodeInternalError {
			t.Errorf("created: %v", err)
		}
		lying.Store(false)
		store.fail(nil)
		time.Sleep(time.Minute)
		tasks, _, err := m.List(t.Context(), "alice", "")
		if err != nil || len(tasks) != 1 || tasks[0].Status != mcp.TaskStatusFailed {
			t.Errorf("%+v, %v", tasks, err)
		}
		if err := tryCreate(t, m, "alice", untilDone); err != nil {
			t.Errorf("a place is lost: %v", err)
		}
		time.Sleep(2 * time.Hour)
		// It is not written, and the store is not there any more.
		store.fail(errLost)
		if err := tryCreate(t, m, "alice", untilDone); code(err) != jsonrpc.CodeInternalError {
			t.Errorf("created: %v", err)
		}
		store.fail(nil)
		time.Sleep(time.Minute)
		if err := tryCreate(t, m, "alice", untilDone); err != nil {
			t.Errorf("a place is lost: %v", err)
		}
	})
}

// overtaken is a store in which a task expires, and its work returns, while it is being cancelled.
type overtaken struct {
	task.Store
	end chan bool
}

func (s *overtaken) Update(ctx context.Context, r task.Record) (task.Record, error) {
	r, err := s.Store.Update(ctx, r)
	if r.Status == mcp.TaskStatusCancelled {
		time.Sleep(2 * time.Second)
	}
	return r, err
}

func (s *overtaken) Sweep(ctx context.Context, now time.Time, limit int) ([]task.Record, time.Time, error) {
	gone, next, err := s.Store.Sweep(ctx, now, limit)
	if len(gone) > 0 && s.end != nil {
		close(s.end)
		s.end = nil
		time.Sleep(time.Second / 2)
	}
	return gone, next, err
}

// A cancellation that is overtaken by the expiry and by the end of the work leaves its place free.
func TestCancellationThatIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan bool)
		m := manager(t, task.Config{Store: &overtaken{memory.New(), end}, Limits: task.Limits{Tasks: 1, Bytes: 1000}})
		created := create(t, m, task.Request{Task: &mcp.TaskMetadata{TTL: new(int64(1000))}, Work: func(context.Context, *task.Run) (codec.Encoder, error) {
			<-end
			return raw(`{}`), nil
		}})
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Error(err)
		}
		for _, size := range []int{2000, 700} {
			_, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Work: untilDone, Params: make(json.RawMessage, size)})
			if want := map[int]int64{2000: task.CodeTooManyBytes}[size]; code(err) != want {
				t.Errorf("a task of %d bytes: %v", size, err)
			}
		}
	})
}

// A cancellation is counted and audited even if the work returns before Cancel does.
func TestOvertakenCancellationIsAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var moved []mcp.TaskStatus
		m := manager(t, task.Config{Store: &overtaken{Store: memory.New()}, Audit: func(e task.Event) {
			if e.Kind == task.EventMoved {
				moved = append(moved, e.To)
			}
		}})
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) {
			time.Sleep(time.Second)
			return raw(`{}`), nil
		})
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Error(err)
		}
		equal(t, "moves", []mcp.TaskStatus{mcp.TaskStatusCancelled}, moved)
		equal(t, "stats", task.Stats{Created: 1, Cancelled: 1}, m.Stats())
	})
}

// A second cancellation that fails does not make a cancelled task report again.
func TestFailedCancellationKeepsProgressOver(t *testing.T) {
	store := &failing{Store: memory.New()}
	bubble(t, task.Config{Store: store, Quiet: true, ProgressInterval: -1}, func(t *testing.T, m *task.Manager) {
		p := new(peer)
		values := make(chan float64)
		created := create(t, m, task.Request{Via: p, Token: mcpToken, Work: reports(t, values, func(v float64) error {
			return map[bool]error{v >= 2: task.ErrProgressOver}[true]
		})})
		store.fail(errors.New("a passing fault"))
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err == nil {
			t.Error("cancelled without a store")
		}
		store.fail(nil)
		values <- 1
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Error(err)
		}
		for range 2 {
			m.Cancel(t.Context(), "alice", created.TaskID, nil)
			values <- 2
			store.fail(errors.New("a passing fault"))
		}
		store.fail(nil)
		close(values)
		synctest.Wait()
		equal(t, "progress", []float64{1}, p.progress())
	})
}

// A passing fault of the store while the Manager closes loses no outcome, and one that does not pass is
// an error of Close.
func TestOutcomesWhileClosing(t *testing.T) {
	for _, passes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			inner := memory.New()
			store := &failing{Store: inner}
			m, err := task.New(t.Context(), task.Config{Store: store, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				<-ctx.Done()
				return raw(`{"late":1}`), nil
			})
			synctest.Wait()
			store.fail(errors.New("no space left"))
			if passes {
				time.AfterFunc(2*time.Second, func() { store.fail(nil) })
			}
			err = m.Close(t.Context())
			r, failed := inner.Get(t.Context(), created.TaskID)
			if failed != nil {
				t.Fatal(failed)
			}
			if passes && (err != nil || r.Status != mcp.TaskStatusCompleted) {
				t.Errorf("closed: %v, and the task is %s", err, r.Status)
			}
			if !passes && (err == nil || !strings.Contains(err.Error(), "1 outcomes were not stored")) {
				t.Errorf("closed: %v", err)
			}
		})
	}
}

// The health of a Manager is that of its store: whether the last write was taken.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failing{Store: memory.New()}
		m := manager(t, task.Config{Store: store})
		end := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil })
		if err := m.Health(); err != nil {
			t.Error(err)
		}
		full := errors.New("no space left")
		store.fail(full)
		close(end)
		synctest.Wait()
		if n := m.Stats().Unstored; n != 1 {
			t.Errorf("%d outcomes wait", n)
		}
		tryCreate(t, m, "alice", untilDone)
		if err := m.Health(); !errors.Is(err, full) {
			t.Errorf("with a full disk: %v", err)
		}
		store.fail(nil)
		result(t, m, created.TaskID)
		synctest.Wait()
		if err := m.Health(); err != nil || m.Stats().Unstored != 0 {
			t.Errorf("with room: %v, %+v", err, m.Stats())
		}
		m.Close(t.Context())
		if err := m.Health(); err != task.ErrClosed {
			t.Errorf("closed: %v", err)
		}
	})
}

// A store has one Manager at a time.
func TestSecondManagerIsRefused(t *testing.T) {
	store := memory.New()
	first := manager(t, task.Config{Store: store})
	created := start(t, first, untilDone)
	if _, err := task.New(t.Context(), task.Config{Store: store}); !errors.Is(err, task.ErrInUse) {
		t.Errorf("a second Manager: %v", err)
	}
	if got := get(t, first, created.TaskID).Status; got != mcp.TaskStatusWorking {
		t.Errorf("the task is %s", got)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	manager(t, task.Config{Store: store})
}

// Intervals go out in whole milliseconds, rounded up; less than nothing leaves the pace to the requestor.
func TestPollIntervals(t *testing.T) {
	for _, tt := range []struct {
		config, request time.Duration
		want            int64 // 0 for none
	}{
		{0, 0, 1000}, {time.Microsecond, 0, 1}, {0, 1500 * time.Microsecond, 2}, {0, -time.Second, 0}, {-1, 0, 0}, {-1, time.Second, 1000},
	} {
		bubble(t, task.Config{PollInterval: tt.config}, func(t *testing.T, m *task.Manager) {
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

// damaged is a store in which the payloads of tasks are damaged.
type damaged struct {
	task.Store
	mu  sync.Mutex
	ids map[string]bool
}

func (s *damaged) damage(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	s.ids[id] = true
}

func (s *damaged) is(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}

func (s *damaged) Get(ctx context.Context, id string) (task.Record, error) {
	if s.is(id) {
		return task.Record{}, fmt.Errorf("%w: task %q", task.ErrCorrupt, id)
	}
	return s.Store.Get(ctx, id)
}

func (s *damaged) Update(ctx context.Context, r task.Record) (task.Record, error) {
	r, err := s.Store.Update(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ids, r.ID)
	return r, err
}

// A record that is damaged, has a status that is none, or makes Resume panic, fails its task, and neither
// the start nor the other tasks.
func TestPoisonousRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &damaged{Store: memory.New()}
		put := func(id string, status mcp.TaskStatus) {
			t.Helper()
			_, err := store.Create(t.Context(), task.Record{
				ID: id, Owner: "alice", Status: status, Created: started(), Updated: started(), TTL: time.Hour, Method: id, Restartable: true,
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
		m := manager(t, task.Config{Store: store, Recover: func(r task.Record) task.Work {
			if r.Method == "panics" {
				panic("Recover")
			}
			return returns(`{}`)
		}})
		for id, want := range map[string]string{
			"damaged": "what was stored of the task is damaged",
			"panics":  "the work could not be resumed after a restart of the receiver",
		} {
			out := result(t, m, id)
			if state := get(t, m, id); out.Error == nil || state.Status != mcp.TaskStatusFailed || *state.StatusMessage != want {
				t.Errorf("%s: %v, %+v", id, out.Error, state)
			}
		}
		if out := result(t, m, "good"); out.Error != nil {
			t.Error(out.Error)
		}
		// No move leads out of a status that is none.
		if _, err := m.Cancel(t.Context(), "alice", "unknown", nil); code(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("cancel: %v", err)
		}
		if got := get(t, m, "unknown").Status; got != "submitted" {
			t.Errorf("it became %s", got)
		}
		time.Sleep(2 * time.Hour) // all expire, and all that they had is free
		if s := m.Stats(); s.Expired != 4 || s.Running != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A record that is damaged while its work runs does not keep the outcome from being stored.
func TestRecordThatIsDamagedWhileItsWorkRuns(t *testing.T) {
	store := &damaged{Store: memory.New()}
	bubble(t, task.Config{Store: store}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil })
		waiting := make(chan task.Outcome, 1)
		go func() { waiting <- result(t, m, created.TaskID) }()
		synctest.Wait()
		store.damage(created.TaskID)
		close(end)
		if out := <-waiting; out.Error != nil || time.Since(started()) > time.Second {
			t.Errorf("%s, %v after %v", out.Result, out.Error, time.Since(started()))
		}
	})
}

// The table of moves holds for what work does through its Run: nothing leads out of a terminal status.
//
// Proves TASK-22, TASK-23.
func TestWorkCannotMoveATaskThatIsOver(t *testing.T) {
	store := memory.New()
	bubble(t, task.Config{Store: store}, func(t *testing.T, m *task.Manager) {
		var run *task.Run
		created := start(t, m, func(_ context.Context, r *task.Run) (codec.Encoder, error) { run = r; return raw(`{}`), nil })
		want := result(t, m, created.TaskID)
		before := get(t, m, created.TaskID)
		_, callErr := run.Call(t.Context(), "elicitation/create", nil)
		for _, err := range []error{callErr, run.SetStatusMessage(t.Context(), "x"), run.SetPollInterval(t.Context(), time.Second)} {
			if err == nil {
				t.Error("the work has changed a task that is over")
			}
		}
		equal(t, "state", before, get(t, m, created.TaskID))
		equal(t, "outcome", want, result(t, m, created.TaskID))
	})
}

// Jobs of tasks that were cancelled, or have expired, are stopped: at last after a restart, and again if
// that fails.
func TestJobsAreStoppedInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		b := &batch{failures: 2}
		jobs := map[string]task.Jobs{"batch": b}
		first := manager(t, task.Config{Store: store, Jobs: jobs})
		created := create(t, first, task.Request{Runner: "batch"})
		synctest.Wait()
		if _, err := first.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		equal(t, "cancelled", []string{"job of " + created.TaskID}, b.stopped())

		expires := create(t, first, task.Request{Runner: "batch", Task: &mcp.TaskMetadata{TTL: new(int64(60_000))}})
		synctest.Wait()
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		manager(t, task.Config{Store: store, Jobs: jobs})
		synctest.Wait()
		equal(t, "cancelled", map[string]bool{"job of " + created.TaskID: true, "job of " + expires.TaskID: true}, func() map[string]bool {
			all := map[string]bool{}
			for _, job := range b.stopped()[1:] {
				all[job] = true
			}
			return all
		}())
	})
}
