package embed

import (
	"context"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
)

// Case is an event that [Select] waits for: an [AnswerCase], a [SignalCase] or that of [After].
type Case = rerun.Case

// AnswerCase is the [Case] that [OnAnswer] returns. Once Select has returned it without an error,
// its field Value is what its function has returned.
type AnswerCase[T any] = rerun.AnswerCase[T]

// SignalCase is the [Case] that [OnSignal] returns. Once Select has returned it without an error,
// its field Value is the value of the signal.
type SignalCase[T any] = rerun.SignalCase[T]

// OnAnswer returns a case for an input request, which f makes through the SDK, with the context
// that it gets. The case happens when f returns. F may make several input requests, one after the
// other. It must not run steps, sleep, or do any other operation: then it fails, and so does the
// task. F runs in each run of the handler, in a goroutine of its own, also if another case was the
// first.
func OnAnswer[T any](f func(ctx context.Context) (T, error)) *AnswerCase[T] { return rerun.OnAnswer(f) }

// After returns a case that happens d after the first run has begun to wait. If d is not positive,
// that is at once.
func After(d time.Duration) Case { return rerun.After(d) }

// OnSignal returns a case for the signal with a name; see [Await].
func OnSignal[T any](name string) *SignalCase[T] { return rerun.OnSignal[T](name) }

// Select waits for the first of several events, and returns its case. Which one was the first is
// recorded, and later runs get the same one. Then the others are withdrawn: Select returns after
// the client was told that their input requests are given up. Signals that it has not returned stay
// for later waits. If several events have happened before a run of the handler waits, an answer
// comes before a signal, and a signal before the time. If that leaves several, any of them may be
// the first. An input request is not sent if another event has happened before.
//
// If the function of the first case of OnAnswer has failed, Select returns the case with that
// error, in each run. It also returns the case with an error if the value of a signal cannot be
// decoded. All other errors come without a case. If ctx ends first, Select returns an error that
// wraps [context.DeadlineExceeded] or [context.Canceled], in every run, and all cases are
// withdrawn. The deadline of ctx and the times of timers are recorded when Select begins, and later
// runs keep them. The error of a task that is parked is that of [Sleep].
//
// The name follows the rules for names of steps; see [Step]. Select is one operation of its branch.
// Its cases must be the same in each run. A case may be used again by a later Select.
func Select(ctx context.Context, name string, cases ...Case) (Case, error) {
	return rerun.Select(ctx, run(ctx), name, cases...)
}

// Await waits for the signal with a name, and returns its value. Code of the server sends signals
// to a durable task with [task.Manager.Signal]. Signals with one name are received in the order in
// which they were sent, and each one once. A signal that was sent before the handler waits for it
// is kept. Once received, it is recorded: later runs get the same value. In all other calls, Await
// fails at once, and so does [Select] with a case of [OnSignal]. The id of the task is that of the
// Run of [task.FromContext]; a call that becomes a task before its first step has it afterwards.
//
// If ctx ends first, Await returns an error that wraps [context.DeadlineExceeded] or
// [context.Canceled], in every run. The error of a task that is parked is that of [Sleep]. Await
// fails before it waits if values of type T cannot pass through JSON, as [Step] does.
func Await[T any](ctx context.Context, name string) (T, error) {
	return rerun.Await[T](ctx, run(ctx), name)
}
