package task_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// member is a Manager of a fleet, with its store.
type member struct {
	*task.Manager
	store *memory.FleetStore
	work  task.Work
	runs  atomic.Int64

	// Used by TestRandomFaultsOfFleet only.
	labels   []string
	racing   *racingStore
	clock    *atomic.Int64 // what the clock of the store is ahead at this member, in nanoseconds
	killed   atomic.Bool   // the process has ended without storing that its work was suspended
	poisoned atomic.Bool   // a task has ended the process
	replaced atomic.Bool   // the process has started again
}

// join adds a Manager to a fleet. All of its restartable work is work.
func join(t *testing.T, f *memory.Fleet, cfg task.Options, work task.Work) *member {
	t.Helper()
	m := &member{store: f.Store(), work: work}
	cfg.Store = m.store
	cfg.Recovery.Recover = func(task.Record) task.Work { return m.run }
	m.Manager = newManager(t, cfg)
	synctest.Wait() // until it has looked for tasks
	return m
}

func (m *member) run(ctx context.Context, run *task.Run) (codec.Encoder, error) {
	m.runs.Add(1)
	return m.work(ctx, run)
}

// create creates a restartable task of alice.
func (m *member) create(t *testing.T, via task.Requestor) string {
	t.Helper()
	return create(t, m.Manager, task.Request{Restartable: true, Work: m.run, Via: via, Token: progressToken, Name: "tool"}).TaskID
}

// record returns the record of a task.
func (m *member) record(t *testing.T, id string) task.Record {
	t.Helper()
	r, err := m.store.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// cut cuts the member off until the end of the test, so that the Manager can be closed then.
func (m *member) cut(t *testing.T) {
	m.store.Cut()
	t.Cleanup(m.store.Heal)
}

// steps records the entries a and b, and blocks in between until proceed is closed. Its result has
// the entries that it found.
func steps(proceed <-chan struct{}) task.Work {
	return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		entries, _, err := run.Journal(ctx)
		if err != nil {
			return nil, err
		}
		if len(entries) == 0 {
			if err := run.Record(ctx, task.Entry{Key: "a", Occurrence: 1}); err != nil {
				return nil, err
			}
		}
		select {
		case <-proceed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := run.Record(ctx, task.Entry{Key: "b", Occurrence: 1}); err != nil {
			return nil, err
		}
		return raw(fmt.Sprintf(`{"found":%d}`, len(entries))), nil
	}
}

// The first run of a task that a front end has left to a worker is not a re-run.
func TestFirstRunOfWorkerIsNoRerun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		front := join(t, f, task.Options{Member: task.Member{Tools: []string{}}}, nil)
		a := join(t, f, task.Options{}, untilDone)
		id := front.create(t, nil)
		synctest.Wait()
		if r := front.record(t, id); r.Claim.Member == "" || a.runs.Load() != 1 || r.Reruns != 0 {
			t.Errorf("%d runs, claim %v, %d re-runs", a.runs.Load(), r.Claim, r.Reruns)
		}
		b := join(t, f, task.Options{}, untilDone)
		a.cut(t)
		time.Sleep(time.Minute)
		if r := front.record(t, id); b.runs.Load() != 1 || r.Reruns != 1 {
			t.Errorf("%d runs, %d re-runs after the worker has died", b.runs.Load(), r.Reruns)
		}
	})
}

// found returns the member found of a result.
func found(t *testing.T, out task.Outcome) string {
	t.Helper()
	if out.Error != nil {
		t.Fatal(out.Error)
	}
	value, ok := codec.Member(out.Result, "found")
	if !ok {
		t.Fatalf("got %s", out.Result)
	}
	return string(value)
}

func TestMemberTakesOverTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		f := memory.NewFleet()
		a, b := join(t, f, task.Options{}, steps(proceed)), join(t, f, task.Options{}, steps(proceed))
		id := a.create(t, nil)
		synctest.Wait()
		first := b.record(t, id)
		a.cut(t)
		time.Sleep(task.DefaultLease - time.Second)
		if b.runs.Load() != 0 {
			t.Error("the task was taken over before the lease has ended")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		r := b.record(t, id)
		if b.runs.Load() != 1 || r.Claim.Member == first.Claim.Member || r.Claim.Epoch != first.Claim.Epoch+1 || r.Reruns != 1 {
			t.Errorf("%d runs, claim %v after %v, %d reruns", b.runs.Load(), r.Claim, first.Claim, r.Reruns)
		}
		if of, other := b.Stats(), a.Stats(); of.TakenOver != 1 || of.Lapsed != 0 || other.TakenOver != 0 || other.Lapsed != 1 {
			t.Errorf("the survivor has %+v, the other member %+v", of, other)
		}
		close(proceed)
		if got := found(t, result(t, b.Manager, id)); got != "1" {
			t.Errorf("the second run found %s entries", got)
		}
	})
}

// A member whose lease has ended writes nothing more, even if its work does not notice.
func TestReplacedMemberWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		proceed := make(chan struct{})
		var failure error
		late := func(_ context.Context, run *task.Run) (codec.Encoder, error) {
			<-proceed
			failure = run.Record(context.Background(), task.Entry{Key: "late", Occurrence: 1})
			return raw(`{"late":true}`), nil
		}
		b := join(t, f, task.Options{}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if err := run.Sleep(ctx, time.Now().Add(time.Minute)); err != nil {
				return nil, err
			}
			return raw(`{"found":"b"}`), nil
		})
		a := join(t, f, task.Options{}, late)
		id := a.create(t, nil)
		synctest.Wait()
		a.store.Cut()
		time.Sleep(task.DefaultLease + time.Second)
		a.store.Heal()
		synctest.Wait()
		if b.runs.Load() != 1 {
			t.Fatalf("%d runs", b.runs.Load())
		}
		close(proceed)
		synctest.Wait()
		if !errors.Is(failure, task.ErrFenced) {
			t.Errorf("the late entry: %v", failure)
		}
		if got := found(t, result(t, a.Manager, id)); got != `"b"` {
			t.Errorf("got %s", got)
		}
	})
}

func TestLeaseEndsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		causes := make(chan error, 1)
		a := join(t, f, task.Options{Member: task.Member{Lease: time.Minute}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			select {
			case causes <- context.Cause(ctx):
			default:
			}
			return nil, context.Cause(ctx)
		})
		id := a.create(t, nil)
		a.store.Cut()
		start := time.Now()
		if err := <-causes; !errors.Is(err, task.ErrFenced) || time.Since(start) != time.Minute {
			t.Errorf("the context ended after %v: %v", time.Since(start), err)
		}
		a.store.Heal()
		time.Sleep(time.Minute)
		synctest.Wait()
		r := a.record(t, id)
		if a.runs.Load() != 2 || r.Claim.Epoch != 2 {
			t.Errorf("%d runs after the member joined again, claim %v", a.runs.Load(), r.Claim)
		}
	})
}

func TestMembersTakeOverEvenly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a := join(t, f, task.Options{}, untilDone)
		others := []*member{join(t, f, task.Options{}, untilDone), join(t, f, task.Options{}, untilDone), join(t, f, task.Options{}, untilDone)}
		for range 300 {
			a.create(t, nil)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		total := int64(0)
		for i, m := range others {
			if n := m.runs.Load(); n < 60 || n > 140 {
				t.Errorf("member %d runs %d of 300 tasks", i, n)
			}
			total += m.runs.Load()
		}
		if total != 300 {
			t.Errorf("%d runs of 300 tasks after the member has left", total)
		}
	})
}

func TestOtherWorkFailsWithItsMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a, b := join(t, f, task.Options{}, nil), join(t, f, task.Options{}, nil)
		id := start(t, a.Manager, untilDone).TaskID
		a.cut(t)
		if out := result(t, b.Manager, id); out.Error == nil || !strings.Contains(out.Error.Message, "cannot be recovered") {
			t.Errorf("got %+v", out)
		}
	})
}

func TestCancelReachesHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		causes := make(chan error, 1)
		a := join(t, f, task.Options{}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, ctx.Err()
		})
		b := join(t, f, task.Options{}, nil)
		id := a.create(t, nil)
		if _, err := b.Cancel(t.Context(), "alice", id, nil); err != nil {
			t.Fatal(err)
		}
		if err := <-causes; err != task.ErrCancelled {
			t.Errorf("the context ended with %v", err)
		}
		synctest.Wait()
		if n := a.Stats().Running; n != 0 {
			t.Errorf("%d tasks are still running", n)
		}
	})
}

func TestExpiryReachesHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		causes := make(chan error, 1)
		ends := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil, ctx.Err()
		}
		a, b := join(t, f, task.Options{TTL: task.TTL{Default: time.Second}}, ends), join(t, f, task.Options{}, nil)
		id := a.create(t, nil)
		if _, _, err := b.store.Sweep(t.Context(), time.Now().Add(time.Minute), 10); err != nil {
			t.Fatal(err)
		}
		if err := <-causes; err != task.ErrExpired {
			t.Errorf("the context ended with %v", err)
		}
		if _, err := a.Get(t.Context(), "alice", id, nil); !errors.Is(err, task.ErrExpired) {
			t.Errorf("got %v", err)
		}
	})
}

// asks asks once and returns the answer.
func asks(ctx context.Context, run *task.Run) (codec.Encoder, error) {
	answer, err := ask(ctx, run, "k")
	if err != nil {
		return nil, err
	}
	return raw(fmt.Sprintf(`{"found":%s}`, answer)), nil
}

func TestInputRequestIsAnsweredAtOtherMember(t *testing.T) {
	for name, parkAfter := range map[string]time.Duration{"waiting": -1, "parked": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				a, b := join(t, f, task.Options{Recovery: task.Recovery{ParkAfter: parkAfter}}, asks), join(t, f, task.Options{}, asks)
				id := a.create(t, nil)
				time.Sleep(time.Minute)
				if got := a.record(t, id).Durable.Parked; got != (parkAfter > 0) {
					t.Fatalf("parked is %t", got)
				}
				p := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
					return json.RawMessage(`"yes"`), nil
				}}
				out, err := b.Result(t.Context(), "alice", id, p)
				if err != nil || found(t, out) != `"yes"` {
					t.Errorf("got %v, %v", out, err)
				}
				if b.runs.Load() != 0 {
					t.Error("the task ran at the member of the requestor")
				}
			})
		})
	}
}

// If one requestor at another member does not answer, the next one is asked.
func TestInputRequestIsRedeliveredAtOtherMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a, b := join(t, f, task.Options{Recovery: task.Recovery{ParkAfter: -1}}, asks), join(t, f, task.Options{}, nil)
		id := a.create(t, nil)
		good := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`"yes"`), nil
		}}
		bad := &peer{answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			time.Sleep(time.Second)
			return nil, errors.New("disconnected")
		}}
		results := make(chan task.Outcome, 1)
		slow := &peer{answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		for i, p := range []*peer{slow, bad} {
			go func() {
				out, _ := b.Result(t.Context(), "alice", id, p)
				results <- out
			}()
			synctest.Wait()
			if i == 0 {
				slow.answer = good.answer // the next time
			}
		}
		if got := found(t, <-results); got != `"yes"` {
			t.Errorf("got %s", got)
		}
		<-results
	})
}

func TestParkedTaskIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		sleeps := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if err := run.Sleep(ctx, time.UnixMilli(946684800_000).Add(30*time.Minute)); err != nil {
				return nil, err
			}
			return raw(`{"found":1}`), nil
		}
		a, b := join(t, f, task.Options{}, sleeps), join(t, f, task.Options{}, sleeps)
		id := a.create(t, nil)
		time.Sleep(5 * time.Minute)
		a.cut(t)
		time.Sleep(5 * time.Minute)
		if r := b.record(t, id); b.runs.Load() != 0 || r.Claim.Epoch != 2 || !r.Durable.Parked {
			t.Errorf("%d runs before the time to wake, claim %v", b.runs.Load(), r.Claim)
		}
		if got := found(t, result(t, b.Manager, id)); got != "1" || b.runs.Load() != 1 || time.Now().UnixMilli() != 946684800_000+1800_000 {
			t.Errorf("got %s after %d runs at %v", got, b.runs.Load(), time.Now())
		}
	})
}

func TestMessagesReachRequestorAtOtherMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		reports := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			time.Sleep(time.Second)
			for i := range 3 {
				run.Report(task.Progress{Value: float64(i + 1)})
				time.Sleep(time.Second)
			}
			run.Notify(ctx, mcp.MethodNotificationsMessage, raw(`{"level":"info","data":"x"}`))
			return raw(`{"found":1}`), nil
		}
		a, b := join(t, f, task.Options{}, reports), join(t, f, task.Options{}, nil)
		id := a.create(t, nil)
		p := new(peer)
		if _, err := b.Result(t.Context(), "alice", id, p); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := p.progress(); !slices.Equal(got, []float64{1, 2, 3}) {
			t.Errorf("got progress %v", got)
		}
		if got := strings.Join(p.received(), "\n"); strings.Count(got, "notifications/message") != 1 {
			t.Errorf("got %s", got)
		}
	})
}

// A front end creates tasks and workers run them. The creator receives the messages of the work,
// also after another worker has taken over the task.
func TestFrontEndCreatesTaskForWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		front := join(t, f, task.Options{Member: task.Member{Tools: []string{}}}, nil)
		p := new(peer)
		id := front.create(t, p) // no worker yet
		if r := front.record(t, id); r.Claim.Member != "" || front.runs.Load() != 0 || front.Internals(boundary.Caller{}).Runs("tool") {
			t.Fatalf("the front end runs the task: %v", r.Claim)
		}
		begun := create(t, front.Manager, task.Request{Restartable: true, Work: returns(`{"found":0}`), Begun: true}).TaskID
		if got := found(t, result(t, front.Manager, begun)); got != "0" {
			t.Errorf("work that has begun is not continued: found %s", got)
		}
		proceed := make(chan struct{})
		works := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			run.Report(task.Progress{Value: 1})
			return steps(proceed)(ctx, run)
		}
		a := join(t, f, task.Options{Member: task.Member{Tools: []string{"tool"}}}, works)
		time.Sleep(time.Minute)
		b := join(t, f, task.Options{Member: task.Member{Tools: []string{"other"}}}, works)
		second := front.create(t, p)
		time.Sleep(time.Minute)
		if a.runs.Load() != 2 || b.runs.Load() != 0 {
			t.Fatalf("%d and %d runs", a.runs.Load(), b.runs.Load())
		}
		c := join(t, f, task.Options{Member: task.Member{Tools: []string{"tool"}}}, works)
		a.cut(t)
		time.Sleep(time.Minute)
		if c.runs.Load() != 2 {
			t.Fatalf("%d runs after the worker has died", c.runs.Load())
		}
		close(proceed)
		for _, id := range []string{id, second} {
			if got := found(t, result(t, front.Manager, id)); got != "1" {
				t.Errorf("found %s entries", got)
			}
		}
		synctest.Wait()
		messages := strings.Join(p.received(), "\n")
		if n := strings.Count(messages, `"status":"completed"`); n != 2 {
			t.Errorf("%d messages about completion in %s", n, messages)
		}
		if n := strings.Count(messages, `"progress":1`); n < 2 {
			t.Errorf("%d progress reports in %s", n, messages)
		}
	})
}

func TestFrontEndLimitsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		front := join(t, f, task.Options{Member: task.Member{Tools: []string{}}, Limits: task.Limits{Tasks: 1}}, nil)
		id := front.create(t, nil)
		_, err := front.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Restartable: true, Work: front.run})
		if wireCode(err) != task.CodeTooManyTasks {
			t.Errorf("got %v", err)
		}
		worker := join(t, f, task.Options{}, returns(`{"found":1}`))
		time.Sleep(time.Minute)
		result(t, worker.Manager, id)
		synctest.Wait()
		front.create(t, nil)
	})
}

func TestWatchReportsChangesOfOtherMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		proceed := make(chan struct{})
		a, b := join(t, f, task.Options{}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-proceed
			run.Record(ctx, task.Entry{Key: "a", Occurrence: 1})
			<-proceed
			run.SetStatusMessage(ctx, "half")
			<-proceed
			return raw(`{}`), nil
		}), join(t, f, task.Options{}, nil)
		id := a.create(t, nil)
		var changes atomic.Int64
		w, _, err := b.Internals(boundary.Caller{}).Watch(t.Context(), "alice", []string{id}, func(string) { changes.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		proceed <- struct{}{} // the first change is reported in any case
		synctest.Wait()
		before := changes.Load()
		for range 2 {
			proceed <- struct{}{}
			synctest.Wait()
		}
		if got := changes.Load() - before; got != 2 {
			t.Errorf("%d changes", got)
		}
	})
}

// If the store has claimed a task although it reported a failure, the member runs the task.
func TestLostAcknowledgementOfClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a := join(t, f, task.Options{}, untilDone)
		id := a.create(t, nil)
		b := &member{store: f.Store(), work: returns(`{"found":1}`)}
		var lose atomic.Bool
		store := &unackedStore{FleetStore: b.store, lose: &lose}
		b.Manager = newManager(t, task.Options{Store: store, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return b.run }}})
		synctest.Wait()
		lose.Store(true)
		a.cut(t)
		if got := found(t, result(t, b.Manager, id)); got != "1" || lose.Load() {
			t.Errorf("got %s", got)
		}
	})
}

// unackedStore loses the acknowledgement of one write, and the read that follows it.
type unackedStore struct {
	*memory.FleetStore
	lose *atomic.Bool
}

func (s *unackedStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	r, err := s.FleetStore.Update(ctx, r)
	if err == nil && s.lose.Load() {
		return r, errors.New("acknowledgement lost")
	}
	return r, err
}

func (s *unackedStore) Get(ctx context.Context, id string) (task.Record, error) {
	r, err := s.FleetStore.Get(ctx, id)
	if err == nil && r.Claim.Epoch == 2 && s.lose.CompareAndSwap(true, false) {
		return r, errors.New("not reachable")
	}
	return r, err
}

// An operator runs a task again, where it runs or at another member.
func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		proceed := make(chan struct{})
		a, b := join(t, f, task.Options{}, steps(proceed)), join(t, f, task.Options{}, steps(proceed))
		id := a.create(t, nil)
		for i, m := range []*member{a, b, a} {
			synctest.Wait()
			if err := m.Internals(boundary.Caller{}).TakeOver(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if r := a.record(t, id); r.Claim.Epoch != uint64(i)+2 {
				t.Errorf("claim %v", r.Claim)
			}
		}
		if a.runs.Load() != 3 || b.runs.Load() != 1 {
			t.Errorf("%d and %d runs", a.runs.Load(), b.runs.Load())
		}
		if a.Stats().TakenOver != 1 || b.Stats().TakenOver != 1 {
			t.Errorf("%d and %d tasks were taken over", a.Stats().TakenOver, b.Stats().TakenOver)
		}
		if r := a.record(t, id); r.Reruns != 0 {
			t.Errorf("%d re-runs after the death of a process", r.Reruns)
		}
		close(proceed)
		if got := found(t, result(t, b.Manager, id)); got != "1" {
			t.Errorf("found %s entries", got)
		}
		other := start(t, a.Manager, untilDone).TaskID
		if err := b.Internals(boundary.Caller{}).TakeOver(t.Context(), other); !errors.Is(err, taskrules.ErrNotMovable) {
			t.Errorf("work that is not restartable: %v", err)
		}
	})
}

// The requestor at the holder learns that another member has changed the status.
func TestStatusAfterAnswerAtOtherMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a := join(t, f, task.Options{Recovery: task.Recovery{ParkAfter: -1}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if _, err := ask(ctx, run, "k"); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		b := join(t, f, task.Options{}, nil)
		p := new(peer)
		id := a.create(t, p)
		synctest.Wait()
		if err := b.Update(t.Context(), "alice", id, "m", func(*task.InputRequest) (json.RawMessage, error) { return json.RawMessage(`1`), nil }); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var got []string
		for _, m := range p.received() {
			for _, status := range []string{"input_required", "working"} {
				if strings.Contains(m, `"status":"`+status+`"`) {
					got = append(got, status)
				}
			}
		}
		if !slices.Equal(got, []string{"input_required", "working"}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestHealthOfMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := join(t, memory.NewFleet(), task.Options{}, nil)
		a.store.Cut()
		time.Sleep(task.DefaultLease + time.Second)
		if a.Health() == nil {
			t.Error("a member without a lease is healthy")
		}
		a.store.Heal()
		time.Sleep(time.Minute)
		if err := a.Health(); err != nil {
			t.Error(err)
		}
	})
}

// A task may end between the read of its brief and the claim.
func TestOrphanThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a := join(t, f, task.Options{}, untilDone)
		id := a.create(t, nil)
		var log bytes.Buffer
		_, store := joinRacing(t, f, task.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, untilDone)
		store.set(hooks{afterOrphan: func(task.Record) {
			a.store.Heal()
			a.CancelForOperator(t.Context(), id)
		}})
		a.store.Cut()
		time.Sleep(time.Minute)
		synctest.Wait()
		if r := a.record(t, id); r.Status != mcp.TaskStatusCancelled || strings.Contains(log.String(), "ERROR") {
			t.Errorf("the task is %s:\n%s", r.Status, &log)
		}
	})
}

// Messages for the requestors of a member arrive while the member creates tasks. The test hangs if
// the two wait for each other.
func TestMessagesArriveDuringCreation(t *testing.T) {
	f := memory.NewFleet()
	stop := make(chan struct{})
	talks := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		for {
			select {
			case <-stop:
				return raw(`{}`), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			default:
				run.Notify(ctx, mcp.MethodNotificationsMessage, raw(`{}`))
			}
		}
	}
	cfg := task.Options{Limits: task.Limits{Rate: -1, Tasks: -1}}
	a, b := newManager(t, withStore(cfg, f.Store())), newManager(t, withStore(cfg, f.Store()))
	var group sync.WaitGroup
	for range 4 {
		id := create(t, a, task.Request{Work: talks}).TaskID
		group.Go(func() { b.Result(t.Context(), "alice", id, silent{}) })
	}
	for range 5_000 {
		create(t, b, task.Request{Work: returns(`{}`)})
	}
	close(stop)
	group.Wait()
}

// silent is a requestor that ignores all messages.
type silent struct{}

func (silent) Call(context.Context, string, codec.Encoder) (json.RawMessage, error) {
	return nil, errors.New("not supported")
}
func (silent) Notify(context.Context, string, codec.Encoder) error { return nil }

func withStore(cfg task.Options, s task.Store) task.Options {
	cfg.Store = s
	return cfg
}

// gone is the requestor of a session that has ended.
type gone struct{ silent }

func (gone) Notify(context.Context, string, codec.Encoder) error { return errors.New("disconnected") }

// The messages of the work reach a requestor that waits at any member: if another requestor has
// created the task at the member that holds it, and after the task has moved to the member or away
// from it.
func TestMessagesFollowWaiters(t *testing.T) {
	const minute = "notifications/minute"
	talks := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		for {
			select {
			case <-time.After(time.Minute):
				run.Notify(ctx, minute, raw(`{}`))
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
	for _, test := range []struct {
		name     string
		move     func(t *testing.T, a, b *member, id string)
		atHolder bool // a requestor that waits at the first holder gets messages, too
	}{
		{"not moved", func(*testing.T, *member, *member, string) {}, true},
		{"taken over", func(t *testing.T, _, b *member, id string) {
			if err := b.Internals(boundary.Caller{}).TakeOver(t.Context(), id); err != nil {
				t.Error(err)
			}
		}, true},
		{"holder closed", func(_ *testing.T, a, _ *member, _ string) { a.Close(context.Background()) }, false},
		{"holder cut off", func(t *testing.T, a, _ *member, _ string) {
			a.cut(t)
			time.Sleep(2 * task.DefaultLease)
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				a, b := join(t, f, task.Options{}, talks), join(t, f, task.Options{}, talks)
				id := a.create(t, gone{})
				early, atHolder := new(peer), new(peer)
				go b.Result(t.Context(), "alice", id, early)
				go a.Result(t.Context(), "alice", id, atHolder)
				synctest.Wait()
				test.move(t, a, b, id)
				const minutes = 10
				before, beforeAtHolder := len(early.received()), len(atHolder.received())
				time.Sleep(minutes*time.Minute + time.Second)
				if n := len(early.received()) - before; n != minutes {
					t.Errorf("got %d messages", n)
				}
				if n := len(atHolder.received()) - beforeAtHolder; test.atHolder && n != minutes {
					t.Errorf("got %d messages at the first holder", n)
				}
			})
		})
	}
}
