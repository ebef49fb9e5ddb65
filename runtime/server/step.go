package server

import (
	"context"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
)

// Step runs f and records its result. Later runs of the handler get the recorded result, and do not
// run f.
//
// A handler runs more than once in two cases, from its top each time. In revisions without
// sessions, a handler that makes an input request runs again when the client has sent the response.
// In a task of a [Durable] tool, the handler runs again after a restart of the server, and after it
// was parked. So put everything that must not happen in each run, such as a charge, a write or a
// message, and everything that may differ between runs, such as the time, a random value or a row
// of a database, into a step.
//
//	order, err := server.Step(ctx, c, "order", func(ctx context.Context) (Order, error) {
//		return shop.Order(ctx, server.IdempotencyKey(ctx), item)
//	})
//
// The result of a step is recorded as follows:
//   - In a task of a Durable tool, it is in the journal of the task, and is stored before Step
//     returns. [task.Options].Limits.Journal limits the size of the journal: a step whose result
//     exceeds it fails the call, whatever the handler returns.
//   - In a plain call of a revision without sessions, it travels to the client and back with each
//     round of input requests. It is sealed. [Limits.State] limits the size of all results
//     together: return an id rather than a document.
//   - In other tasks, and in plain calls of sessions, the handler runs once. Nothing is recorded,
//     and Step just runs f.
//
// In a task of a Durable tool, the outcome is recorded exactly once, and all later runs of the
// handler get it. The effect of f is at least once: f runs again if the process dies before the
// result is stored. In a plain call, f also runs again if the client repeats the request of a round
// before the step. Each time, f has the same [IdempotencyKey]. To make the effect happen only once,
// pass the key to a system that performs requests with the same key once.
//
// A step is known by its branch, its name and, among steps of the same name, by its place in their
// order. Steps, sleeps and input requests of a branch follow one another: if two of them overlap,
// the second one fails, and so does the call. Functions that work at the same time are branches of
// their own; see [Call.RunAll] and [Branch]. If a later run asks for a new step, but an earlier run
// has recorded something else at that place of the branch, Step fails before it runs f, and so does
// the call: give the tool another [Version] if its steps have changed. Once the run has ended with
// an [*InputRequiredError], steps that have not begun fail with one. Wait for goroutines that run
// steps before the handler returns: later, Step fails, and the results of steps that are still
// running may be lost.
//
// The result is encoded as JSON and decoded again, in every run, so that all runs see the same
// value. Step fails before it runs f if values of type T cannot pass through JSON, such as
// functions, errors and other interfaces with methods. If f fails, or its result turns out to have
// no JSON form or to lose parts when it is decoded, because a type has MarshalJSON without
// UnmarshalJSON, Step returns a [*StepError], in every run. So does a step whose own ctx has ended
// meanwhile, for example because of a timeout; if ctx had ended before, f does not run, and Step
// returns an error that wraps [context.DeadlineExceeded] or [context.Canceled], in every run. If f
// panics, Step does, in every run, but f runs only once. Two kinds of failures are not recorded: that
// of a step that the end of the call itself has interrupted, and that of a step whose ctx the handler
// has cancelled after the run has ended with an InputRequiredError in another branch. F must not make
// input requests or run steps.
//
// With the option [Retry], a step whose function fails is repeated.
func Step[T any](ctx context.Context, c *Call, name string, f func(ctx context.Context) (T, error), options ...StepOption) (T, error) {
	return rerun.Step(ctx, c.recording(), name, wrapStep(c, name, f), options...)
}

// StepOption is an option of [Step]: a [Retry].
type StepOption = rerun.StepOption

// Retry is a [StepOption] that repeats a step whose function fails. The attempts have the same
// [IdempotencyKey]. Each one is recorded, and so is the time of the next: a run after a restart of
// the server goes on counting, and a handler that pauses for long is parked, as in [Sleep]. The
// outcome of the step is that of its last attempt.
//
//	order, err := server.Step(ctx, c, "order", place, server.Retry{Attempts: 5, Backoff: time.Second})
//
// Its fields are:
//   - Attempts: how often the function runs at most; 10 by default
//   - Backoff: the pause after the first attempt, which doubles with each further one; a second by
//     default. Up to half of each pause is left out at random.
//   - MaxBackoff: the longest pause; a minute by default, or Backoff if that is longer
//   - Total: no attempt is due later than this after the beginning of the first; 0 is no limit. One
//     that is due while no process runs the handler begins later.
//   - Final: reports whether the step is not to be repeated after an error, which is a
//     [*StepError] in each run; nil repeats it after every error. Like the handler, it must return
//     the same for the same error in each run.
//
// A step with a negative field fails. After the end of its context, a step is not repeated.
type Retry = rerun.Retry

// StepError is the failure of the function of a [Step]. Its field Step is the name of the step, and
// Text is the text of the function's error, which its method Error returns. Unwrap returns the
// [*jsonrpc.Error] in the chain of the function's error, if there is one, without Data that is not
// JSON. Other errors in the chain are lost, in every run: return what the handler must distinguish as
// part of the result.
type StepError = rerun.StepError

// IdempotencyKey returns a key for the [Step] whose function has the context, or "" outside of a
// step. If the step runs again, because a client repeats an earlier round or a task is re-run, the
// key is the same. Other steps and other calls have other keys. Pass it to a system that performs a
// request with a key only once.
func IdempotencyKey(ctx context.Context) string { return rerun.IdempotencyKey(ctx) }

// Sleep waits until the time that f returns, for example time.Now().Add(24 * time.Hour). F is
// called once per call: the time is recorded, like the result of a [Step], and later runs of the
// handler wait for the rest of it.
//
// In a task of a [Durable] tool, the wait survives a restart of the server. A handler that waits
// longer than [task.Options].Recovery.ParkAfter is parked: Sleep returns an [*InputRequiredError],
// the handler returns it, and the server calls the handler again, from its top, when the sleep
// ends. A task that expires first never wakes: for sleeps of more than an hour, set Default and Max
// in the TTL of [Options].Tasks. A plain call waits as long as its client does; in revisions
// without sessions, an input request of another branch ends the wait with an [*InputRequiredError],
// and the next round waits for the rest. Names of sleeps follow the rules for names of steps.
//
// If ctx ends first, the sleep is given up: Sleep returns an error that wraps
// [context.DeadlineExceeded] or [context.Canceled], in every run. The deadline of ctx is recorded
// when the sleep begins, and later runs keep it.
func Sleep(ctx context.Context, c *Call, name string, f func() time.Time) error {
	return c.recording().Sleep(ctx, name, f)
}

// Compensate registers an undo: if the call fails, f is called. Register an undo before the step
// that it undoes, because the call may end in between. So f must also succeed if that step has had
// no effect.
//
//	order, err := server.Step(ctx, c, "reserve id", newOrderID)
//	if err != nil {
//		return "", err
//	}
//	err = server.Compensate(ctx, c, "cancel order", func(ctx context.Context) error {
//		return shop.Cancel(ctx, order)
//	})
//	if err != nil {
//		return "", err
//	}
//	_, err = server.Step(ctx, c, "order", func(ctx context.Context) (int, error) { return shop.Order(ctx, order) })
//
// The registered undos run if the handler returns an error, a result with isError or one that
// cannot be sent, such as text that is not valid UTF-8, panics, or fails in another way, and if the
// call is cancelled. They run one after the other, the latest first, also those of different
// branches. None runs after a success, and none runs because the handler is parked, ends a round,
// or is interrupted by the end of the server.
//
// In a task of a [Durable] tool, the undos also run if the task expires, and the end of the server
// only delays them. The registration is recorded like the result of a [Step], and so is the end of
// each undo. If the handler has failed, the task keeps its status until the undos have ended. If
// the task was cancelled or has expired, its requestor sees that at once. Then the handler runs
// again from its top, to register the undos: what was recorded is returned to it, and all other
// operations fail with [task.ErrCancelled] or [task.ErrExpired]. Ten seconds after it has asked for
// all that is recorded, its context ends. If a run fails before it has registered all undos of
// earlier runs, the handler runs again, as an undo that fails does. The outcome of a task whose
// handler has failed is that of its first failure, whatever the runs for the undos return. F takes
// effect at least once; it has the same [IdempotencyKey] each time. An undo that fails is tried
// again, for a day, which begins anew in the next process. The pauses grow to five minutes, during
// which the handler may be parked. Then it is logged as an error with the id of the task, and the
// next one runs.
//
// In all other calls, the undos run in the process of the call, before its response, for 30 seconds
// together. After that, each of the others is tried once, for at most five seconds. The end of the
// ctx of the handler does not interrupt them, but the end of the process does. If the client of a
// revision without sessions does not send the responses of a round, they do not run.
//
// Compensate is an operation of its branch, like a Step: later runs must register the same undos.
// If it fails, the undo is not registered, and the handler must not go on. F must not make input
// requests or run steps.
func Compensate(ctx context.Context, c *Call, name string, f func(ctx context.Context) error) error {
	return c.recording().Compensate(ctx, name, wrapUndo(c, name, f))
}
