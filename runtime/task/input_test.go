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
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// asks is work that asks n questions at once, each with its number, and returns the answers.
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

// echo answers a question with its params.
func echo(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	return params, nil
}

func status(t *testing.T, m *task.Manager, id string) mcp.TaskStatus {
	t.Helper()
	return get(t, m, id).Status
}

// The stored answer to an input request holds no more memory than its own bytes.
func TestStoredAnswerDoesNotRetainMessage(t *testing.T) {
	store := memory.New()
	runInBubble(t, task.Config{Store: store}, func(t *testing.T, m *task.Manager) {
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
			t.Errorf("the stored answer is part of the message: %q", got)
		}
	})
}

// A question waits for the requestor, goes to it through tasks/result with the task in its _meta,
// and its answer lets the task go on.
//
// Proves TASK-24, TASK-26, TASK-40, TASK-46.
func TestInputRequest(t *testing.T) {
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
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
			t.Errorf("before anybody is there: %s", got)
		}
		time.Sleep(10 * time.Minute) // it connects much later

		p := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			if got := status(t, m, created.TaskID); got != mcp.TaskStatusInputRequired {
				t.Errorf("while asking: %s", got)
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
			t.Errorf("with the answer: %s", got)
		}
		close(end)
		if out := <-outcome; out.Error != nil || string(out.Result) != fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}},"action":"decline"}`, created.TaskID) {
			t.Errorf("got %s, %v", out.Result, out.Error)
		}
		seen := p.received()
		if len(seen) != 1 {
			t.Fatalf("asked %q", seen)
		}
		var asked struct {
			Meta map[string]struct{ TaskID string } `json:"_meta"`
		}
		if err := json.Unmarshal([]byte(seen[0][len("elicitation/create "):]), &asked); err != nil || asked.Meta[task.RelatedTask].TaskID != created.TaskID {
			t.Errorf("asked %s, %v", seen[0], err)
		}
	})
}

// Several input requests at once: the task needs input until the last one is answered, and each is
// answered once.
func TestConcurrentInputRequests(t *testing.T) {
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, workWithInputRequests(10))
		var asked atomic.Int64
		left := make(chan bool, 10)
		p := &peer{answer: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			select {
			case <-left:
				asked.Add(1)
				return json.RawMessage(`{"action":"cancel"}`), nil
			case <-ctx.Done(): // another waiter is asked
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
			left <- true
			synctest.Wait()
		}
		group.Wait()
		if asked.Load() != 10 {
			t.Errorf("10 questions were answered %d times", asked.Load())
		}
	})
}

// InputRequests one after another do not pile up, and the answers come to who asked.
func TestConsecutiveInputRequests(t *testing.T) {
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			for i := range 50 {
				got, err := run.Call(ctx, "sampling/createMessage", raw(fmt.Sprintf(`{"n":%d}`, i)))
				var answer struct{ N int }
				if err == nil {
					err = json.Unmarshal(got, &answer)
				}
				if err != nil || answer.N != i {
					return nil, fmt.Errorf("question %d: %s, %w", i, got, err)
				}
			}
			return raw(`{}`), nil
		})
		p := &peer{answer: echo}
		if out, err := m.Result(t.Context(), "alice", created.TaskID, p); err != nil || out.Error != nil {
			t.Error(err, out.Error)
		}
		if n := len(p.received()); n != 50 {
			t.Errorf("asked %d times", n)
		}
	})
}

// What a requestor answers with an error is an error of the question, not of the task.
func TestInputRequestAnsweredWithError(t *testing.T) {
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
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

// A question that was on its way when the connection broke goes to who comes next; so does one
// whose requestor gives up the wait.
func TestInputRequestIsRedelivered(t *testing.T) {
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, workWithInputRequests(2))
		broken := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return nil, errors.New("connection lost")
		}}
		stays, gone := make(chan error, 1), make(chan error, 1)
		go func() { // stays although it cannot be asked
			_, err := m.Result(t.Context(), "alice", created.TaskID, broken)
			stays <- err
		}()
		synctest.Wait()
		if n := len(broken.received()); n != 2 {
			t.Errorf("asked %d times through a broken connection", n)
		}
		silent := &peer{answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		ctx, giveUp := context.WithCancel(t.Context())
		go func() {
			_, err := m.Result(ctx, "alice", created.TaskID, silent)
			gone <- err
		}()
		synctest.Wait()
		giveUp()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if n := len(broken.received()); n != 2 {
			t.Errorf("asked %d times through a broken connection", n)
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
			t.Errorf("asked %d times in the end", n)
		}
		if state := get(t, m, created.TaskID); state.Status != mcp.TaskStatusCompleted {
			t.Errorf("%+v", state)
		}
	})
}

// patient is a requestor that is asked and answers when its channel says so. It counts the input
// requests that were cancelled.
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

// The requestor that begins to wait last is asked, as it may have lost the connection on which it was
// asked before. When it goes away the one before is asked again. The first answer counts.
func TestLatestWaiterReceivesInputRequests(t *testing.T) {
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
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
		gone := make(chan error, 1)
		go func() {
			_, err := m.Result(ctx, "alice", created.TaskID, second)
			gone <- err
		}()
		synctest.Wait()
		if a, b, c := len(first.received()), len(second.received()), first.cancelled.Load(); a != 1 || b != 1 || c != 1 {
			t.Errorf("asked %d and %d times, %d cancelled at the first", a, b, c)
		}
		giveUp()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if a, b, c := len(first.received()), len(second.received()), second.cancelled.Load(); a != 2 || b != 1 || c != 1 {
			t.Errorf("asked %d and %d times, %d cancelled at the second", a, b, c)
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

// A requestor that answers although its input request went elsewhere meanwhile has answered.
func TestFirstAnswerCounts(t *testing.T) {
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			answers, err := workWithInputRequests(1)(ctx, run)
			<-end
			return answers, err
		})
		answers := make(chan bool)
		first := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			<-answers // whatever its context says
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
			t.Errorf("%d questions were cancelled at the second", n)
		}
		close(end)
		group.Wait()
	})
}

// An input request that the work gives up is cancelled at the requestor, which goes on waiting.
func TestWithdrawnInputRequestIsCancelled(t *testing.T) {
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
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
			t.Errorf("%d questions were cancelled", n)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A requestor that breaks, or answers with nothing, fails its input request or leaves it to others,
// and nothing else.
func TestRequestorThatPanicsOrAnswersEmpty(t *testing.T) {
	runInBubble(t, task.Config{Logger: slog.New(slog.DiscardHandler)}, func(t *testing.T, m *task.Manager) {
		created := create(t, m, task.Request{Work: workWithInputRequests(1), Via: panickingPeer{}, Token: mcpToken})
		go m.Result(t.Context(), "alice", created.TaskID, panickingPeer{})
		synctest.Wait()
		empty := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, nil }}
		out, err := m.Result(t.Context(), "alice", created.TaskID, empty)
		if err != nil || out.Error == nil || !strings.Contains(out.Error.Message, "answer is empty") {
			t.Errorf("%s, %v, %v", out.Result, out.Error, err)
		}
	})
}

// broken panics whatever it is called for.
type panickingPeer struct{}

func (panickingPeer) Call(context.Context, string, codec.Encoder) (json.RawMessage, error) {
	panic("Call")
}
func (panickingPeer) Notify(context.Context, string, codec.Encoder) error { panic("Notify") }

// A task that ends while it asks takes its question back.
func TestInputRequestEndsWithTask(t *testing.T) {
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
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
			t.Errorf("the work got %v", err)
		}
		if err := <-withdrawn; err == nil {
			t.Error("the requestor is still being asked")
		}
		if out := <-outcome; out.Error == nil || out.Error.Code != task.CodeCancelled {
			t.Errorf("%+v", out)
		}
	})
	// A requestor that waits only when all is over does so in vain.
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, workWithInputRequests(1))
		over := make(chan bool)
		p := &peer{answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-over
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
		close(over)
		if err := <-outcome; err != nil || time.Since(begin) > 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
	// A question that the work gives up makes the task work on.
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
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
	runInBubble(t, task.Config{Quiet: true}, func(t *testing.T, m *task.Manager) {
		answer := make(chan error, 1)
		create(t, m, task.Request{Task: &mcp.TaskMetadata{TTL: new(int64(1000))}, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			_, err := run.Call(context.Background(), "elicitation/create", nil)
			answer <- err
			return nil, err
		}})
		if err := <-answer; err != task.ErrExpired {
			t.Errorf("the work got %v", err)
		}
	})
}

// A peer that asks for the result and goes away again does not make the store write the task each
// time: its record may be long.
func TestDepartingWaitersCauseNoWrites(t *testing.T) {
	store := &countingStore{Store: memory.New()}
	runInBubble(t, task.Config{Store: store, Quiet: true}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			_, err := run.Call(ctx, "elicitation/create", raw(`{}`))
			return raw(`{}`), err
		})
		gone := &peer{answer: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		synctest.Wait()
		before := store.updates.Load()
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			go m.Result(ctx, "alice", created.TaskID, gone)
			synctest.Wait()
			cancel()
			synctest.Wait()
		}
		if n := store.updates.Load() - before; n > 0 {
			t.Errorf("%d writes", n)
		}
	})
}

// countedUpdates is a store that counts calls of Update.
type countingStore struct {
	*memory.Store
	updates atomic.Int32
}

func (c *countingStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	c.updates.Add(1)
	return c.Store.Update(ctx, r)
}
