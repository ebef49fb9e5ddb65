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

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// workWithInputRequests returns work that sends n input requests concurrently, each with its number
// as the message. The work returns the answers.
func workWithInputRequests(n int) task.Work {
	return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		answers := make([]json.RawMessage, n)
		errs := make([]error, n)
		var group sync.WaitGroup
		for i := range n {
			group.Go(func() {
				answers[i], errs[i] = run.Call(ctx, "elicitation/create", raw(fmt.Sprintf(`{"message":"%d"}`, i)))
			})
		}
		group.Wait()
		text, err := json.Marshal(answers)
		return raw(`{"answers":` + string(text) + `}`), errors.Join(append(errs, err)...)
	}
}

// echo answers an input request with its params.
func echo(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return params, nil
}

func status(t *testing.T, m *task.Manager, id string) mcp.TaskStatus {
	t.Helper()
	return get(t, m, id).Status
}

// When an input request reports that the task was cancelled, the context of the work has ended,
// even if the cancellation has only been stored so far: the work must not begin anything else.
func TestContextEndsBeforeCancelledInputRequestReturns(t *testing.T) {
	store := &hookedStore{Store: memory.New(), afterUpdate: func(r task.Record) {
		if r.Status == mcp.TaskStatusCancelled {
			time.Sleep(time.Second)
		}
	}}
	runInBubble(t, task.Options{Store: store}, func(t *testing.T, m *task.Manager) {
		ended := make(chan error, 1)
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			_, err := run.Call(ctx, "elicitation/create", nil)
			ended <- context.Cause(ctx)
			return nil, err
		})
		synctest.Wait()
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != task.ErrCancelled {
			t.Errorf("the cause of the context is %v", err)
		}
	})
}

// The stored answer to an input request does not keep the message that contained it in memory.
func TestStoredAnswerDoesNotRetainMessage(t *testing.T) {
	store := memory.New()
	runInBubble(t, task.Options{Store: store}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if _, err := run.Call(ctx, "elicitation/create", nil); err != nil {
				return nil, err
			}
			return untilDone(ctx, run)
		})
		message := []byte(`{"result":{"action":"decline"}}`)
		p := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return message[len(`{"result":`) : len(message)-1], nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		go m.Result(ctx, "alice", created.TaskID, p) // ends with ctx
		synctest.Wait()
		cancel()
		clear(message)
		r, err := store.Get(t.Context(), created.TaskID)
		if err != nil || len(r.InputRequests) != 1 {
			t.Fatalf("got %+v, %v", r, err)
		}
		if got := string(r.InputRequests[0].Result); got != `{"action":"decline"}` {
			t.Errorf("the stored answer shares memory with the message: %q", got)
		}
	})
}

// An input request is pending until the requestor calls tasks/result. The requestor receives it
// with the task in its _meta. The task continues with the answer.
//
// Proves TASK-24, TASK-26, TASK-40, TASK-46.
func TestInputRequest(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			answer, err := mcp.ToClient{Caller: run}.Elicit(ctx, &mcp.ElicitRequestFormParams{Message: "name?", RequestedSchema: mcp.ElicitRequestFormParamsRequestedSchema{Properties: map[string]mcp.PrimitiveSchemaDefinition{}}})
			if err != nil {
				return nil, err
			}
			<-end
			return raw(fmt.Sprintf(`{"action":%q}`, answer.(*mcp.ElicitResult).Action)), nil
		})
		synctest.Wait()
		if got := status(t, m, created.TaskID); got != mcp.TaskStatusInputRequired {
			t.Errorf("before tasks/result: %s", got)
		}
		time.Sleep(10 * time.Minute) // the requestor connects much later

		p := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			if got := status(t, m, created.TaskID); got != mcp.TaskStatusInputRequired {
				t.Errorf("while the requestor answers: %s", got)
			}
			return json.RawMessage(`{"action":"decline"}`), nil
		}}
		outcome := make(chan task.Outcome, 1)
		go func() {
			out, err := m.Result(t.Context(), "alice", created.TaskID, p)
			if err != nil {
				t.Error(err)
			}
			outcome <- out
		}()
		synctest.Wait()
		if got := status(t, m, created.TaskID); got != mcp.TaskStatusWorking {
			t.Errorf("after the answer: %s", got)
		}
		close(end)
		if out := <-outcome; out.Error != nil || string(out.Result) != fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}},"action":"decline"}`, created.TaskID) {
			t.Errorf("got %s, %v", out.Result, out.Error)
		}
		received := p.received()
		if len(received) != 1 {
			t.Fatalf("received %q", received)
		}
		var params struct {
			Meta map[string]struct{ TaskID string } `json:"_meta"`
		}
		if err := json.Unmarshal([]byte(received[0][len("elicitation/create "):]), &params); err != nil || params.Meta[taskrules.RelatedTask].TaskID != created.TaskID {
			t.Errorf("received %s, %v", received[0], err)
		}
	})
}

// The task stays input_required until the last of several input requests is answered. Each is
// answered once.
func TestConcurrentInputRequests(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, workWithInputRequests(10))
		var answered atomic.Int64
		answers := make(chan bool, 10)
		p := &peer{answer: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			select {
			case <-answers:
				answered.Add(1)
				return json.RawMessage(`{"action":"cancel"}`), nil
			case <-ctx.Done(): // delivered by another waiter
				return nil, ctx.Err()
			}
		}}
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				if out, err := m.Result(t.Context(), "alice", created.TaskID, p); err != nil || out.Error != nil {
					t.Error(err, out.Error)
				}
			})
		}
		synctest.Wait()
		for i := range 10 {
			if got := status(t, m, created.TaskID); got != mcp.TaskStatusInputRequired {
				t.Errorf("with %d answers: %s", i, got)
			}
			answers <- true
			synctest.Wait()
		}
		group.Wait()
		if answered.Load() != 10 {
			t.Errorf("10 input requests were answered %d times", answered.Load())
		}
	})
}

// Answered input requests are removed from the record, and each call receives its own answer.
func TestConsecutiveInputRequests(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			for i := range 50 {
				got, err := run.Call(ctx, "sampling/createMessage", raw(fmt.Sprintf(`{"n":%d}`, i)))
				var answer struct{ N int }
				if err == nil {
					err = json.Unmarshal(got, &answer)
				}
				if err != nil || answer.N != i {
					return nil, fmt.Errorf("input request %d: %s, %w", i, got, err)
				}
			}
			return raw(`{}`), nil
		})
		p := &peer{answer: echo}
		if out, err := m.Result(t.Context(), "alice", created.TaskID, p); err != nil || out.Error != nil {
			t.Error(err, out.Error)
		}
		if n := len(p.received()); n != 50 {
			t.Errorf("%d input requests received", n)
		}
	})
}

// An error answer fails the input request, not the task.
func TestInputRequestAnsweredWithError(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			_, err := run.Call(ctx, "roots/list", nil)
			checkEqual(t, "answer", error(&jsonrpc.Error{Code: -32601, Message: "method not found: roots/list"}), err)
			return raw(`{}`), nil
		})
		if out, err := m.Result(t.Context(), "alice", created.TaskID, new(peer)); err != nil || out.Error != nil {
			t.Error(err, out.Error)
		}
	})
}

// An input request whose connection broke goes to the next waiter, and so does one whose waiter
// leaves.
func TestInputRequestIsRedelivered(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, workWithInputRequests(2))
		broken := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return nil, errors.New("connection lost")
		}}
		stays, left := make(chan error, 1), make(chan error, 1)
		go func() { // this waiter stays although its connection is broken
			_, err := m.Result(t.Context(), "alice", created.TaskID, broken)
			stays <- err
		}()
		synctest.Wait()
		if n := len(broken.received()); n != 2 {
			t.Errorf("%d input requests sent on the broken connection", n)
		}
		silent := &peer{answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		ctx, giveUp := context.WithCancel(t.Context())
		go func() {
			_, err := m.Result(ctx, "alice", created.TaskID, silent)
			left <- err
		}()
		synctest.Wait()
		giveUp()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if n := len(broken.received()); n != 2 {
			t.Errorf("%d input requests sent on the broken connection", n)
		}
		good := &peer{answer: echo}
		done := make(chan error, 1)
		go func() {
			_, err := m.Result(t.Context(), "alice", created.TaskID, good)
			done <- err
		}()
		for _, c := range []chan error{done, stays} {
			if err := <-c; err != nil {
				t.Error(err)
			}
		}
		if n := len(good.received()); n != 2 {
			t.Errorf("%d input requests received by the last waiter", n)
		}
		if state := get(t, m, created.TaskID); state.Status != mcp.TaskStatusCompleted {
			t.Errorf("%+v", state)
		}
	})
}

// blockingPeer is a requestor that answers each input request with the next text in answers. It
// counts the cancelled input requests.
type blockingPeer struct {
	peer
	answers   chan string
	cancelled atomic.Int64
}

func newBlockingPeer() *blockingPeer {
	p := &blockingPeer{answers: make(chan string)}
	p.answer = func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		select {
		case text := <-p.answers:
			return json.RawMessage(text), nil
		case <-ctx.Done():
			p.cancelled.Add(1)
			return nil, ctx.Err()
		}
	}
	return p
}

// The latest waiter receives the input request, because it may have lost the connection of its
// earlier call. When it leaves, the earlier waiter receives the input request again.
func TestLatestWaiterReceivesInputRequests(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, workWithInputRequests(1))
		first, second := newBlockingPeer(), newBlockingPeer()
		outcome := make(chan task.Outcome, 1)
		go func() {
			out, err := m.Result(t.Context(), "alice", created.TaskID, first)
			if err != nil {
				t.Error(err)
			}
			outcome <- out
		}()
		synctest.Wait()
		ctx, giveUp := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := m.Result(ctx, "alice", created.TaskID, second)
			left <- err
		}()
		synctest.Wait()
		if a, b, c := len(first.received()), len(second.received()), first.cancelled.Load(); a != 1 || b != 1 || c != 1 {
			t.Errorf("%d and %d input requests received, %d cancelled at the first waiter", a, b, c)
		}
		giveUp()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if a, b, c := len(first.received()), len(second.received()), second.cancelled.Load(); a != 2 || b != 1 || c != 1 {
			t.Errorf("%d and %d input requests received, %d cancelled at the second waiter", a, b, c)
		}
		first.answers <- `{"action":"accept"}`
		if out := <-outcome; !strings.Contains(string(out.Result), `{"action":"accept"}`) {
			t.Errorf("%s, %v", out.Result, out.Error)
		}
		if n := m.Stats().Refused; n != 0 {
			t.Errorf("%d calls refused", n)
		}
	})
}

// An earlier waiter may still answer after the input request was sent to a later one.
func TestFirstAnswerCounts(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			answers, err := workWithInputRequests(1)(ctx, run)
			<-end
			return answers, err
		})
		answers := make(chan bool)
		first := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			<-answers // regardless of its context
			return json.RawMessage(`{"from":"first"}`), nil
		}}
		second := newBlockingPeer()
		var group sync.WaitGroup
		for _, via := range []task.Requestor{first, second} {
			group.Go(func() {
				out, err := m.Result(t.Context(), "alice", created.TaskID, via)
				if err != nil || !strings.Contains(string(out.Result), `"from":"first"`) {
					t.Errorf("%s, %v, %v", out.Result, out.Error, err)
				}
			})
			synctest.Wait()
		}
		close(answers)
		synctest.Wait()
		if n := second.cancelled.Load(); n != 1 {
			t.Errorf("%d input requests were cancelled at the second waiter", n)
		}
		close(end)
		group.Wait()
	})
}

// An input request that the work gives up is cancelled at the requestor, which continues to wait.
func TestWithdrawnInputRequestIsCancelled(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			short, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := run.Call(short, "elicitation/create", nil)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			time.Sleep(time.Minute)
			return raw(`{}`), nil
		})
		p := newBlockingPeer()
		done := make(chan error, 1)
		go func() {
			_, err := m.Result(t.Context(), "alice", created.TaskID, p)
			done <- err
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := p.cancelled.Load(); n != 1 {
			t.Errorf("%d input requests were cancelled", n)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A requestor that panics leaves the input request to other requestors. An empty answer fails the
// input request.
func TestRequestorThatPanicsOrAnswersEmpty(t *testing.T) {
	runInBubble(t, task.Options{Logger: slog.New(slog.DiscardHandler)}, func(t *testing.T, m *task.Manager) {
		created := create(t, m, task.Request{Work: workWithInputRequests(1), Via: panickingPeer{}, Token: progressToken})
		go m.Result(t.Context(), "alice", created.TaskID, panickingPeer{})
		synctest.Wait()
		empty := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, nil }}
		out, err := m.Result(t.Context(), "alice", created.TaskID, empty)
		if err != nil || out.Error == nil || !strings.Contains(out.Error.Message, "answer is empty") {
			t.Errorf("%s, %v, %v", out.Result, out.Error, err)
		}
	})
}

// panickingPeer is a requestor that panics in each method.
type panickingPeer struct{}

func (panickingPeer) Call(context.Context, string, codec.Encoder) (json.RawMessage, error) {
	panic("Call")
}
func (panickingPeer) Notify(context.Context, string, codec.Encoder) error { panic("Notify") }

// When a task ends, its pending input request is cancelled at the requestor and in the work.
func TestInputRequestEndsWithTask(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		answer := make(chan error, 1)
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			_, err := run.Call(ctx, "elicitation/create", nil)
			answer <- err
			return raw(`{}`), nil
		})
		withdrawn := make(chan error, 1)
		p := &peer{answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			withdrawn <- ctx.Err()
			return nil, ctx.Err()
		}}
		outcome := make(chan task.Outcome, 1)
		go func() {
			out, err := m.Result(t.Context(), "alice", created.TaskID, p)
			if err != nil {
				t.Error(err)
			}
			outcome <- out
		}()
		synctest.Wait()
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Fatal(err)
		}
		if err := <-answer; err != task.ErrCancelled {
			t.Errorf("Call returned %v", err)
		}
		if err := <-withdrawn; err == nil {
			t.Error("the input request was not cancelled")
		}
		if out := <-outcome; out.Error == nil || out.Error.Code != task.CodeCancelled {
			t.Errorf("%+v", out)
		}
	})
	// A requestor that checks its context only after the task has ended finds it cancelled.
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, workWithInputRequests(1))
		terminated := make(chan bool)
		p := &peer{answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-terminated
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		outcome := make(chan error, 1)
		go func() {
			_, err := m.Result(ctx, "alice", created.TaskID, p)
			outcome <- err
		}()
		synctest.Wait()
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		close(terminated)
		if err := <-outcome; err != nil || time.Since(begin) > 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
	// The task is working again after the work has given up its input request.
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			short, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := run.Call(short, "elicitation/create", nil)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			return untilDone(ctx, run)
		})
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := status(t, m, created.TaskID); got != mcp.TaskStatusWorking {
			t.Errorf("the task is %s", got)
		}
	})
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		answer := make(chan error, 1)
		create(t, m, task.Request{Task: &mcp.TaskMetadata{TTL: new(int64(1000))}, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			_, err := run.Call(context.Background(), "elicitation/create", nil)
			answer <- err
			return nil, err
		}})
		if err := <-answer; err != task.ErrExpired {
			t.Errorf("Call returned %v", err)
		}
	})
}

// Waiters that join and leave cause no writes of the record, which may be long.
func TestDepartingWaitersCauseNoWrites(t *testing.T) {
	store := &countingStore{Store: memory.New()}
	runInBubble(t, task.Options{Store: store, Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			_, err := run.Call(ctx, "elicitation/create", raw(`{}`))
			return raw(`{}`), err
		})
		leaver := &peer{answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		synctest.Wait()
		before := store.updates.Load()
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			go m.Result(ctx, "alice", created.TaskID, leaver)
			synctest.Wait()
			cancel()
			synctest.Wait()
		}
		if n := store.updates.Load() - before; n > 0 {
			t.Errorf("%d writes", n)
		}
	})
}

// countingStore is a store that counts calls of Update.
type countingStore struct {
	*memory.Store
	updates atomic.Int32
}

func (c *countingStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	c.updates.Add(1)
	return c.Store.Update(ctx, r)
}
